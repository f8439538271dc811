//===- ForkStateTest.cpp --------------------------------------------------===//

#include "Isolated.h"

#include "flagtree/Device/ForkState.h"

#include <sched.h>
#include <sys/syscall.h>
#include <thread>

using namespace flagtree;
using namespace flagtree::testing;

namespace {

template <typename F> void isolated(F Body) {
  inChild([&] {
    forkstate::install();
    Body();
  });
}

TEST(ForkState, AFreshProcessKnowsNothing) {
  isolated([] {
    EXPECT_FALSE(forkstate::initializedHere());
    EXPECT_FALSE(forkstate::forkedAfterInit());
    EXPECT_EQ(forkstate::initializer(), 0);
    EXPECT_EQ(forkstate::deviceCount(), -1);
    EXPECT_FALSE(forkstate::capability(0).known());
  });
}

TEST(ForkState, AChildInheritsTheNote) {
  isolated([] {
    pid_t Parent = getpid();
    forkstate::noteInitialized();
    forkstate::noteOrdinal(3);
    forkstate::noteDeviceCount(4);
    forkstate::noteCapability(3, {8, 9});
    EXPECT_EQ(forkstate::initializer(), Parent);
    std::uint32_t Before = forkstate::generation();
    auto Check = [=] {
      EXPECT_NE(forkstate::generation(), Before);
      EXPECT_TRUE(forkstate::forkedAfterInit());
      EXPECT_FALSE(forkstate::initializedHere());
      EXPECT_EQ(forkstate::initializer(), Parent);
      EXPECT_EQ(forkstate::inheritedOrdinal(), 3);
      EXPECT_EQ(forkstate::deviceCount(), 4);
      EXPECT_EQ(forkstate::capability(3).asNumber(), 89);
    };
    inChild([&] {
      Check();
      inChild(Check); // A child of a child,
      inClone(Check); // however it was made.
    });
    inClone([&] {
      Check();
      inChild(Check);
      inClone(Check);
    });
    EXPECT_TRUE(forkstate::initializedHere()) << "the parent is as it was";
    EXPECT_FALSE(forkstate::forkedAfterInit());
  });
}

TEST(ForkState, AChildOfACleanProcessIsClean) {
  isolated([] {
    inChild([] {
      EXPECT_FALSE(forkstate::forkedAfterInit());
      forkstate::noteInitialized();
      EXPECT_EQ(forkstate::initializer(), getpid());
      pid_t Initializer = getpid();
      inChild([=] {
        EXPECT_TRUE(forkstate::forkedAfterInit());
        EXPECT_EQ(forkstate::initializer(), Initializer);
      });
    });
    EXPECT_FALSE(forkstate::initializedHere());
  });
}

TEST(ForkState, TheNoteIsThatOfTheThreadThatForked) {
  isolated([] {
    forkstate::noteInitialized();
    forkstate::noteOrdinal(1);
    std::thread([] {
      forkstate::noteOrdinal(2);
      inChild([] { EXPECT_EQ(forkstate::inheritedOrdinal(), 2); });
      inClone([] { EXPECT_EQ(forkstate::inheritedOrdinal(), 2); });
    }).join();
    inChild([] { EXPECT_EQ(forkstate::inheritedOrdinal(), 1); });
  });
}

TEST(ForkState, AThreadWithoutADeviceDoesNotInheritAnothers) {
  isolated([] {
    forkstate::noteInitialized();
    forkstate::noteOrdinal(1);
    std::thread([] {
      forkstate::noteOrdinal(forkstate::NoOrdinal);
      inChild([] {
        EXPECT_EQ(forkstate::inheritedOrdinal(), forkstate::NoOrdinal);
      });
    }).join();
    std::thread([] {
      // This one was never asked, so the last note anybody took is the best.
      inChild([] {
        EXPECT_EQ(forkstate::inheritedOrdinal(), forkstate::NoOrdinal);
      });
      forkstate::noteOrdinal(5);
    }).join();
    std::thread([] {
      inChild([] { EXPECT_EQ(forkstate::inheritedOrdinal(), 5); });
    }).join();
  });
}

TEST(ForkState, NewThreadsOfAChildShareTheNote) {
  isolated([] {
    forkstate::noteInitialized();
    forkstate::noteOrdinal(6);
    inChild([] {
      std::thread([] {
        EXPECT_TRUE(forkstate::forkedAfterInit());
        EXPECT_EQ(forkstate::inheritedOrdinal(), 6);
      }).join();
    });
  });
}

TEST(ForkState, AnotherWitnessCounts) {
  isolated([] {
    forkstate::noteForkedAfterInit();
    EXPECT_TRUE(forkstate::forkedAfterInit());
    EXPECT_EQ(forkstate::initializer(), 0);
    EXPECT_EQ(forkstate::inheritedOrdinal(), forkstate::NoOrdinal);
    inChild([] { EXPECT_TRUE(forkstate::forkedAfterInit()); });
  });
}

TEST(ForkState, ALiveDriverRefutesTheWitness) {
  isolated([] {
    forkstate::noteForkedAfterInit();
    forkstate::noteInitialized();
    EXPECT_FALSE(forkstate::forkedAfterInit());
  });
}

TEST(ForkState, AForkIsKnownWhoeverMadeIt) {
  inChild([] { EXPECT_TRUE(forkstate::forkedWithoutExec()); });
}

// The driver was not told of the fork, and answers there as if it were live.
TEST(ForkState, ADriverThatIsLiveAfterARawCloneIsNotBelieved) {
  isolated([] {
    forkstate::noteInitialized();
    inClone([] {
      forkstate::noteInitialized();
      EXPECT_TRUE(forkstate::forkedAfterInit());
      EXPECT_FALSE(forkstate::initializedHere());
    });
    // A child that was forked in time initializes like any other process.
    inChild([] {
      EXPECT_TRUE(forkstate::forkedAfterInit());
      forkstate::noteInitialized();
      EXPECT_TRUE(forkstate::initializedHere());
    });
  });
}

TEST(ForkState, AHeldVariableIsReadByThisProcessAlone) {
  isolated([] {
    setenv("FLAGTREE_PPU_DEVICE", "1", 1);
    EXPECT_STREQ(forkstate::deviceVariable(), "1");
    ASSERT_TRUE(forkstate::holdDeviceVariable("1"));
    EXPECT_FALSE(forkstate::holdDeviceVariable("2")) << "one at a time";
    setenv("FLAGTREE_PPU_DEVICE", "7", 1);
    EXPECT_STREQ(forkstate::deviceVariable(), "1");
    inChild([] { EXPECT_STREQ(forkstate::deviceVariable(), "7"); });
    forkstate::releaseDeviceVariable();
    EXPECT_STREQ(forkstate::deviceVariable(), "7");
    ASSERT_TRUE(forkstate::holdDeviceVariable(nullptr));
    EXPECT_EQ(forkstate::deviceVariable(), nullptr);
    forkstate::releaseDeviceVariable();
    EXPECT_FALSE(forkstate::holdDeviceVariable(std::string(1000, '1').c_str()));
  });
}

TEST(ForkState, CapabilitiesOutsideTheTableAreUnknown) {
  isolated([] {
    forkstate::noteCapability(-1, {8, 0});
    forkstate::noteCapability(MaxKnownDevices, {8, 0});
    EXPECT_FALSE(forkstate::capability(-1).known());
    EXPECT_FALSE(forkstate::capability(MaxKnownDevices).known());
  });
}

} // namespace
