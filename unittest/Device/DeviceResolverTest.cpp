//===- DeviceResolverTest.cpp ---------------------------------------------===//

#include "Isolated.h"

#include "flagtree/Device/DeviceResolver.h"

#include <random>
#include <thread>

using namespace flagtree;
using namespace flagtree::testing;

namespace {

struct Abi {
  const char *Name, *Library, *Init;
};
void PrintTo(const Abi &A, std::ostream *Out) { *Out << A.Name; }

const Abi Cu{"cu", FAKE_DIRECTORY "/FakeCu/libcuda.so.1", "cuInit"};
const Abi Hg{"hg", FAKE_DIRECTORY "/FakeHg/libhggc.so", "hgInit"};

DeviceResolver &resolver() { return DeviceResolver::get(); }

/// A host with two device nodes and the driver of one ABI, seen by a process
/// that has not mapped it.
class Resolver : public ::testing::TestWithParam<Abi> {
public:
  static void SetUpTestSuite() {
    Host = new TemporaryDirectory;
    Host->touch("dev/nvidia0");
    Host->touch("dev/nvidia1");
  }
  static void TearDownTestSuite() { delete Host; }

protected:
  inline static TemporaryDirectory *Host;

  template <typename F> void isolated(F Body) {
    inChild([&] {
      setenv("FLAGTREE_DEVICE_ROOT", Host->path().c_str(), 1);
      setenv("TRITON_PPU_LIBCUDA_PATH", GetParam().Library, 1);
      setenv("PPU_SDK", "/nonexistent", 1);
      unsetenv("PPU_HOME");
      unsetenv("CUDA_VISIBLE_DEVICES");
      unsetenv("FLAGTREE_PPU_DEVICE");
      forkstate::install();
      Body();
    });
  }
  FakeDriver *open() { return openFake(GetParam().Library); }
  int init() { return initFake(GetParam().Library, GetParam().Init); }
  static int calls(FakeDriver *Fake, FakeCall Call) {
    return Fake->Calls[static_cast<int>(Call)];
  }
  static void fault(FakeDriver *Fake, FakeCall Call, int Code, int First,
                    int Last) {
    auto &Order = Fake->Faults[static_cast<int>(Call)];
    Order.First = 0;
    Order.Result = Code;
    Order.Last = Last;
    Fake->Calls[static_cast<int>(Call)] = 0;
    Order.First = First;
  }
};

INSTANTIATE_TEST_SUITE_P(Abis, Resolver, ::testing::Values(Cu, Hg),
                         [](const auto &Info) { return Info.param.Name; });

TEST_P(Resolver, FreshProcessNotMapped) {
  isolated([] {
    EXPECT_EQ(resolver().state().State, ProcessState::Uninitialized);
    EXPECT_EQ(resolver().ordinal().Ordinal, 0);
    EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Default);
    EXPECT_EQ(resolver().deviceCount(), 2);
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr) << "asking maps nothing";
  });
}

TEST_P(Resolver, FreshProcessMapped) {
  isolated([this] {
    FakeDriver *Fake = open();
    StateAnswer Answer = resolver().state();
    EXPECT_EQ(Answer.State, ProcessState::Uninitialized);
    EXPECT_EQ(Answer.DriverAnswer, Result::NotInitialized);
    EXPECT_EQ(calls(Fake, FakeCall::Init), 0);
  });
}

TEST_P(Resolver, SeesAnInitializationByAnybody) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    EXPECT_EQ(resolver().state().State, ProcessState::Initialized);
    EXPECT_EQ(forkstate::initializer(), getpid());
    OrdinalAnswer Answer = resolver().ordinal();
    EXPECT_EQ(Answer.Ordinal, 0);
    EXPECT_EQ(Answer.Source, DeviceSource::Default);
    Fake->SetCurrent(1);
    Answer = resolver().ordinal();
    EXPECT_EQ(Answer.Ordinal, 1);
    EXPECT_EQ(Answer.Source, DeviceSource::Context);
    CapabilityAnswer Compute = resolver().capability(1);
    EXPECT_EQ(Compute.Compute.asNumber(), 81);
    EXPECT_EQ(Compute.Source, CapabilitySource::Driver);
    EXPECT_EQ(calls(Fake, FakeCall::Init), 1) << "the test's own";
  });
}

TEST_P(Resolver, ChildrenForkedAfterInitialization) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    Fake->SetCurrent(1);
    pid_t Initializer = getpid();
    resolver().noteBeforeFork();
    auto Check = [&, Initializer] {
      EXPECT_EQ(resolver().state().State, ProcessState::ForkedAfterInit);
      OrdinalAnswer Answer = resolver().ordinal();
      EXPECT_EQ(Answer.Ordinal, 1);
      EXPECT_EQ(Answer.Source, DeviceSource::ForkNote);
      EXPECT_EQ(resolver().deviceCount(), 2);
      CapabilityAnswer Compute = resolver().capability(1);
      EXPECT_EQ(Compute.Compute.asNumber(), 81);
      EXPECT_EQ(Compute.Source, CapabilitySource::ForkNote);
      int Before = calls(Fake, FakeCall::Init);
      UseAnswer Use = resolver().makeUsable();
      EXPECT_EQ(Use.Kind, Usability::Forked);
      EXPECT_EQ(Use.Initializer, Initializer);
      EXPECT_FALSE(Use.ProvenByInit);
      EXPECT_EQ(calls(Fake, FakeCall::Init), Before) << "known without trying";
    };
    inChild([&] {
      Check();
      resolver().noteBeforeFork();
      inChild(Check);
      inChild([&] { std::thread(Check).join(); });
    });
    EXPECT_EQ(resolver().state().State, ProcessState::Initialized);
    EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable);
  });
}

TEST_P(Resolver, ChildrenForkedBeforeInitialization) {
  isolated([this] {
    open();
    resolver().noteBeforeFork();
    inChild([] {
      EXPECT_EQ(resolver().state().State, ProcessState::Uninitialized);
      EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable);
      EXPECT_EQ(resolver().state().State, ProcessState::Initialized);
      EXPECT_EQ(forkstate::initializer(), getpid());
    });
    EXPECT_EQ(resolver().state().State, ProcessState::Uninitialized);
  });
}

TEST_P(Resolver, WithoutANoteUseProvesTheFork) {
  isolated([this] {
    open();
    ASSERT_EQ(init(), 0); // and nobody asks before the fork.
    inChild([] {
      EXPECT_EQ(resolver().state().State, ProcessState::Uninitialized);
      UseAnswer Use = resolver().makeUsable();
      EXPECT_EQ(Use.Kind, Usability::Forked);
      EXPECT_TRUE(Use.ProvenByInit);
      EXPECT_EQ(Use.Initializer, 0);
      EXPECT_EQ(resolver().state().State, ProcessState::ForkedAfterInit);
    });
  });
}

TEST_P(Resolver, UsingLoadsAndInitializes) {
  isolated([this] {
    EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable);
    ASSERT_NE(DriverLibrary::get().mapped(), nullptr);
    EXPECT_EQ(DriverLibrary::get().mapped()->Path, GetParam().Library);
    EXPECT_EQ(resolver().state().State, ProcessState::Initialized);
  });
}

TEST_P(Resolver, UsingWhatCannotBeUsed) {
  isolated([this] {
    FakeDriver *Fake = open();
    Fake->DeviceCount = 0;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    UseAnswer Use = resolver().makeUsable();
    EXPECT_EQ(Use.Kind, Usability::NoDevice);
    EXPECT_NE(Use.Text.find("CUDA_VISIBLE_DEVICES"), std::string::npos);
    fault(Fake, FakeCall::Init, 803, 1, 1);
    Use = resolver().makeUsable();
    EXPECT_EQ(Use.Kind, Usability::DriverFailed);
    EXPECT_EQ(Use.DriverAnswer, Result::SystemDriverMismatch);
    Fake->DeviceCount = 1;
    EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable) << "recovers";
  });
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", "/nonexistent", 1);
    UseAnswer Use = resolver().makeUsable();
    EXPECT_EQ(Use.Kind, Usability::NoLibrary);
    EXPECT_NE(Use.Text.find("/nonexistent"), std::string::npos);
    EXPECT_EQ(resolver().state().State, ProcessState::Absent);
  });
}

TEST_P(Resolver, TheOrderOfSources) {
  isolated([this] {
    FakeDriver *Fake = open();
    setenv("FLAGTREE_PPU_DEVICE", " 1 ", 1);
    EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Variable);
    EXPECT_EQ(resolver().ordinal().Ordinal, 1);
    ASSERT_EQ(init(), 0);
    Fake->SetCurrent(0);
    EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Context);
    EXPECT_EQ(resolver().ordinal().Ordinal, 0);
    resolver().noteBeforeFork();
    inChild([] {
      EXPECT_EQ(resolver().ordinal().Source, DeviceSource::ForkNote);
      EXPECT_EQ(resolver().ordinal().Ordinal, 0);
    });
    Fake->SetCurrent(-1);
    resolver().noteBeforeFork();
    inChild([] {
      EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Variable);
      EXPECT_EQ(resolver().ordinal().Ordinal, 1);
      unsetenv("FLAGTREE_PPU_DEVICE");
      EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Default);
    });
  });
}

TEST_P(Resolver, MalformedVariables) {
  isolated([] {
    for (const char *Text : {"x", "-1", "+1", "1.0", "0x1", "1 2", "cuda:0",
                             "99999999999", " ", "1\xc2\xa0"}) {
      setenv("FLAGTREE_PPU_DEVICE", Text, 1);
      OrdinalAnswer Answer = resolver().ordinal();
      EXPECT_EQ(Answer.Error, OrdinalError::MalformedVariable) << Text;
      EXPECT_EQ(Answer.Source, DeviceSource::Variable) << Text;
    }
    setenv("FLAGTREE_PPU_DEVICE", "", 1);
    EXPECT_TRUE(resolver().ordinal().ok()) << "empty is not set";
    EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Default);
  });
}

TEST_P(Resolver, ThreadsHaveTheirOwnDevices) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    std::vector<std::thread> Threads;
    std::atomic<int> Wrong{0};
    for (int I = 0; I < 2; ++I)
      Threads.emplace_back([&, I] {
        Fake->SetCurrent(I);
        for (int N = 0; N < 20; ++N) {
          resolver().noteBeforeFork();
          pid_t Child = fork();
          if (Child == 0)
            _exit(resolver().ordinal().Ordinal == I ? 0 : 1);
          Wrong += waitFor(Child) != 0;
          Wrong += resolver().ordinal().Ordinal != I;
        }
      });
    for (std::thread &Thread : Threads)
      Thread.join();
    EXPECT_EQ(Wrong, 0);
  });
}

TEST_P(Resolver, TheHotPathIsOneCallIntoTheDriver) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    Fake->SetCurrent(1);
    resolver().noteBeforeFork();
    auto Total = [Fake] {
      int Sum = 0;
      for (auto &Count : Fake->Calls)
        Sum += Count;
      return Sum;
    };
    int Before = Total();
    for (int I = 0; I < 100; ++I)
      (void)resolver().ordinal();
    EXPECT_EQ(Total() - Before, 100);
    Before = Total();
    resolver().noteBeforeFork();
    EXPECT_EQ(Total() - Before, 1) << "capabilities are read once";
  });
}

// Right after another fork the driver's memory is slow to reach.
TEST_P(Resolver, WithOneDeviceTheNoteIsTakenWithoutTheDriver) {
  isolated([this] {
    FakeDriver *Fake = open();
    Fake->DeviceCount = 1;
    ASSERT_EQ(init(), 0);
    resolver().noteBeforeFork();
    inChild([] {
      EXPECT_EQ(resolver().ordinal().Source, DeviceSource::Default)
          << "the thread had no context";
    });
    Fake->SetCurrent(0);
    resolver().noteBeforeFork();
    for (auto &Count : Fake->Calls)
      Count = 0;
    resolver().noteBeforeFork();
    for (auto &Count : Fake->Calls)
      EXPECT_EQ(Count, 0);
    inChild([] {
      EXPECT_EQ(resolver().ordinal().Ordinal, 0);
      EXPECT_EQ(resolver().ordinal().Source, DeviceSource::ForkNote);
      EXPECT_EQ(resolver().capability(0).Compute.asNumber(), 80);
      EXPECT_EQ(resolver().state().State, ProcessState::ForkedAfterInit);
    });
  });
}

// Every call that is asked, every code, at the first, the second and a random
// occurrence, in each state: a typed answer, and the next one is right again.
TEST_P(Resolver, EveryFaultIsAnAnswer) {
  constexpr int Codes[] = {1,   3,   4,   34,  46,  100,  101,
                           201, 802, 803, 804, 999, 77777};
  constexpr FakeCall Asked[] = {
      FakeCall::DriverGetVersion, FakeCall::DeviceGet, FakeCall::DeviceGetCount,
      FakeCall::DeviceGetAttribute, FakeCall::CtxGetDevice};
  std::mt19937 Random(20261130);
  for (bool Live : {false, true})
    for (FakeCall Call : Asked)
      for (int Code : Codes)
        isolated([&] {
          FakeDriver *Fake = open();
          for (int Occurrence : {1, 2, static_cast<int>(3 + Random() % 5)}) {
            if (Live) {
              ASSERT_EQ(init(), 0);
              Fake->SetCurrent(1);
            }
            fault(Fake, Call, Code, Occurrence, Occurrence);
            for (int Query = 0; Query < 10; ++Query) {
              StateAnswer State = resolver().state();
              EXPECT_NE(State.State, ProcessState::ForkedAfterInit);
              OrdinalAnswer Ordinal = resolver().ordinal();
              bool SaysNoContext =
                  Ordinal.DriverAnswer == Result::InvalidContext;
              EXPECT_TRUE(!Live || !Ordinal.ok() || SaysNoContext ||
                          Ordinal.Ordinal == 1);
              (void)resolver().capability(1);
              (void)resolver().deviceCount();
              resolver().noteBeforeFork();
            }
            EXPECT_EQ(calls(Fake, FakeCall::Init), Live ? 1 : 0);
            // The driver has recovered.
            Fake->Calls[static_cast<int>(FakeCall::Init)] = 0;
            EXPECT_EQ(resolver().state().State,
                      Live ? ProcessState::Initialized
                           : ProcessState::Uninitialized)
                << "call " << static_cast<int>(Call) << " code " << Code;
            EXPECT_TRUE(resolver().ordinal().ok());
            if (Live) {
              EXPECT_EQ(resolver().ordinal().Ordinal, 1);
              EXPECT_EQ(resolver().capability(1).Compute.asNumber(), 81);
              EXPECT_EQ(resolver().deviceCount(), 2);
            }
          }
        });
}

// A raw clone tells a driver nothing: seen with CUDA 13, whose calls go on as
// if it were live, on memory that is shared with the parent's device.
TEST_P(Resolver, ADriverThatMissedTheForkIsNotUsed) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    Fake->SetCurrent(1);
    resolver().noteBeforeFork();
    pid_t Parent = getpid();
    inClone([Fake, Parent] {
      Fake->InitializedBy = getpid();
      for (int Time = 0; Time < 2; ++Time) {
        EXPECT_EQ(resolver().ordinal().Ordinal, 1);
        EXPECT_EQ(resolver().state().State, ProcessState::ForkedAfterInit);
        EXPECT_EQ(resolver().capability(1).Compute.asNumber(), 81);
        EXPECT_EQ(resolver().deviceCount(), 2);
        UseAnswer Use = resolver().makeUsable();
        EXPECT_EQ(Use.Kind, Usability::Forked);
        EXPECT_EQ(Use.Initializer, Parent);
      }
    });
  });
}

TEST_P(Resolver, ADriverThatIsShutDown) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    EXPECT_EQ(resolver().state().State, ProcessState::Initialized);
    fault(Fake, FakeCall::DeviceGet, 4, 1, 1 << 20);
    fault(Fake, FakeCall::CtxGetDevice, 4, 1, 1 << 20);
    StateAnswer State = resolver().state();
    EXPECT_EQ(State.State, ProcessState::Initialized);
    EXPECT_EQ(State.DriverAnswer, Result::Deinitialized);
    OrdinalAnswer Ordinal = resolver().ordinal();
    EXPECT_EQ(Ordinal.Error, OrdinalError::Driver);
    EXPECT_EQ(Ordinal.DriverAnswer, Result::Deinitialized);
    resolver().noteBeforeFork();
    inChild([] {
      EXPECT_EQ(resolver().liveness().State, ProcessState::ForkedAfterInit);
    });
  });
}

TEST_P(Resolver, InitAnswersAnything) {
  isolated([this] {
    FakeDriver *Fake = open();
    for (int Code : {1, 4, 34, 46, 100, 101, 201, 802, 803, 804, 999, 77777}) {
      fault(Fake, FakeCall::Init, Code, 1, 1);
      UseAnswer Use = resolver().makeUsable();
      EXPECT_EQ(Use.Kind,
                Code == 100 ? Usability::NoDevice : Usability::DriverFailed)
          << Code;
      EXPECT_EQ(static_cast<int>(Use.DriverAnswer), Code);
      EXPECT_EQ(resolver().state().State, ProcessState::Uninitialized) << Code;
    }
    EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable);
  });
}

TEST_P(Resolver, WhatOnlyInitSaysIsAskedAgain) {
  isolated([this] {
    FakeDriver *Fake = open();
    fault(Fake, FakeCall::Init, 3, 1, 2);
    for (int Use = 0; Use < 2; ++Use) {
      UseAnswer Answer = resolver().makeUsable();
      EXPECT_EQ(Answer.Kind, Usability::Forked);
      EXPECT_TRUE(Answer.ProvenByInit);
      EXPECT_EQ(resolver().state().State, ProcessState::ForkedAfterInit);
    }
    EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable);
    EXPECT_EQ(resolver().state().State, ProcessState::Initialized);
    EXPECT_FALSE(forkstate::forkedAfterInit());
    EXPECT_FALSE(forkstate::forkProvenByInit());
    EXPECT_EQ(calls(Fake, FakeCall::Init), 3);
  });
}

TEST_P(Resolver, OnlyASuccessSparesInit) {
  for (int Code : {1, 3, 4, 34, 46, 100, 101, 201, 802, 803, 804, 999, 77777})
    isolated([&] {
      FakeDriver *Fake = open();
      fault(Fake, FakeCall::DeviceGet, Code, 1, 2);
      EXPECT_EQ(resolver().makeUsable().Kind, Usability::Usable) << Code;
      EXPECT_EQ(calls(Fake, FakeCall::Init), 1) << Code;
      EXPECT_EQ(resolver().state().State, ProcessState::Initialized) << Code;
    });
}

TEST_P(Resolver, ACapabilityThatTheDriverDoesNotTell) {
  isolated([this] {
    FakeDriver *Fake = open();
    ASSERT_EQ(init(), 0);
    for (int Code : {101, 999}) {
      fault(Fake, FakeCall::DeviceGetAttribute, Code, 1, 1);
      CapabilityAnswer Answer = resolver().capability(1);
      EXPECT_EQ(Answer.Source, CapabilitySource::None);
      EXPECT_EQ(Answer.Why, CapabilityUnknown::NoManagementLibrary);
      EXPECT_EQ(static_cast<int>(Answer.DriverAnswer), Code);
      EXPECT_STREQ(Answer.DriverCall, "DeviceGetAttribute");
    }
    CapabilityAnswer Beyond = resolver().capability(7);
    EXPECT_EQ(Beyond.Why, CapabilityUnknown::NoSuchDevice);
    EXPECT_EQ(Beyond.DriverAnswer, Result::InvalidDevice);
    EXPECT_STREQ(Beyond.DriverCall, "DeviceGet");
    EXPECT_EQ(resolver().capability(1).Source, CapabilitySource::Driver);
  });
}

TEST(ParseOrdinal, TakesDigitsOnly) {
  int Ordinal = -5;
  EXPECT_TRUE(parseOrdinal("0", Ordinal));
  EXPECT_EQ(Ordinal, 0);
  EXPECT_TRUE(parseOrdinal("\t15\n", Ordinal));
  EXPECT_EQ(Ordinal, 15);
  EXPECT_TRUE(parseOrdinal("2147483647", Ordinal));
  EXPECT_FALSE(parseOrdinal("2147483648", Ordinal));
  EXPECT_FALSE(parseOrdinal("", Ordinal));
  EXPECT_FALSE(parseOrdinal("1a", Ordinal));
}

} // namespace
