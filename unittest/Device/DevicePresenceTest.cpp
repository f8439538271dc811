//===- DevicePresenceTest.cpp - Nodes, management library, variables ------===//

#include "Isolated.h"

#include "flagtree/Device/DevicePresence.h"
#include "flagtree/Device/DeviceResolver.h"
#include "flagtree/Device/ManagementProcess.h"

#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace flagtree;
using namespace flagtree::testing;

namespace {

/// A process on a host with a driver library and, under Root, device nodes.
template <typename F> void isolated(const TemporaryDirectory &Root, F Body) {
  inChild([&] {
    setenv("FLAGTREE_DEVICE_ROOT", Root.path().c_str(), 1);
    setenv("TRITON_PPU_LIBCUDA_PATH", FAKE_DIRECTORY "/FakeCu", 1);
    setenv("PPU_SDK", Root.path().c_str(), 1);
    unsetenv("PPU_HOME");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    setenv("FLAGTREE_SIM_DEVICES", "2", 1);
    setenv("FLAGTREE_SIM_CAPABILITY", "8.0,8.9", 1);
    unsetenv("FLAGTREE_SIM_LOG");
    unsetenv("FLAGTREE_SIM_FAULTS");
    forkstate::install();
    Body();
  });
}

/// Puts the simulated management library where the SDK keeps it.
void addManagement(const TemporaryDirectory &Root) {
  Root.link("lib/libhgml.so", SIMULATOR_DIRECTORY "/libhgml.so");
}

TEST(DeviceNodes, CountsOnlyDevices) {
  TemporaryDirectory Root;
  for (const char *Name :
       {"nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia", "nvidia1x",
        "alixpu", "alixpu_ctl", "alixpu_ppu3", "null"})
    Root.touch(std::string("dev/") + Name);
  isolated(Root, [] {
    DeviceNodes Nodes = listDeviceNodes();
    EXPECT_EQ(Nodes.Nvidia, 2);
    EXPECT_EQ(Nodes.Ppu, 1);
    EXPECT_FALSE(Nodes.Dxg);
  });
}

TEST(Presence, NodesAloneSuffice) {
  TemporaryDirectory Root;
  Root.touch("dev/alixpu_ppu5");
  isolated(Root, [] {
    Presence Answer = findDevices();
    EXPECT_TRUE(Answer.present());
    EXPECT_EQ(Answer.Visible.Count, 1) << "renumbered: the one is ordinal 0";
    EXPECT_EQ(Answer.Source, PresenceSource::DeviceNodes);
    EXPECT_EQ(askCapability(0).Why, CapabilityUnknown::NoManagementLibrary);
  });
}

TEST(Presence, WslHasDevicesOfUnknownNumber) {
  TemporaryDirectory Root;
  Root.touch("dev/dxg");
  isolated(Root, [] {
    Presence Answer = findDevices();
    EXPECT_TRUE(Answer.present());
    EXPECT_EQ(Answer.Visible.Count, -1);
  });
}

TEST(Presence, TheManagementLibraryIsAskedWhereThereAreNoNodes) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    Presence Answer = findDevices();
    EXPECT_TRUE(Answer.present()) << Answer.Explanation;
    EXPECT_EQ(Answer.Visible.Count, 2);
    EXPECT_EQ(Answer.Source, PresenceSource::ManagementLibrary);
  });
}

TEST(Presence, ItIsNotAskedWhereNodesSayEnough) {
  TemporaryDirectory Root;
  Root.touch("dev/nvidia0");
  addManagement(Root);
  isolated(Root, [] {
    EXPECT_TRUE(findDevices().present());
    EXPECT_EQ(knownInventory(), nullptr);
  });
}

TEST(Presence, EachReasonForAbsenceIsExplained) {
  TemporaryDirectory Root;
  isolated(Root, [] {
    Presence Answer = findDevices();
    EXPECT_EQ(Answer.Absent, AbsentBecause::NoDevice);
    EXPECT_NE(Answer.Explanation.find("alixpu_ppu"), std::string::npos);
    EXPECT_EQ(DeviceResolver::get().state().State, ProcessState::Absent);
    EXPECT_EQ(DeviceResolver::get().deviceCount(), 0);
  });
  Root.touch("dev/nvidia0");
  isolated(Root, [] {
    setenv("TRITON_PPU_LIBCUDA_PATH", "/nonexistent", 1);
    Presence Answer = findDevices();
    EXPECT_EQ(Answer.Absent, AbsentBecause::NoDriverLibrary);
    EXPECT_NE(Answer.Explanation.find("/nonexistent"), std::string::npos);
  });
  for (const char *Value : {"", "-1", "7", "0,0"})
    isolated(Root, [Value] {
      setenv("CUDA_VISIBLE_DEVICES", Value, 1);
      Presence Answer = findDevices();
      EXPECT_EQ(Answer.Absent, AbsentBecause::Hidden);
      EXPECT_NE(Answer.Explanation.find(std::string("'") + Value + "'"),
                std::string::npos)
          << Answer.Explanation;
      EXPECT_EQ(DeviceResolver::get().state().State, ProcessState::Absent);
    });
}

TEST(Presence, FollowsTheEnvironment) {
  TemporaryDirectory Root;
  Root.touch("dev/nvidia0");
  Root.touch("dev/nvidia1");
  isolated(Root, [] {
    EXPECT_EQ(findDevices().Visible.Count, 2);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    EXPECT_EQ(findDevices().Visible.Count, 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    EXPECT_FALSE(findDevices().present());
    unsetenv("CUDA_VISIBLE_DEVICES");
    EXPECT_EQ(findDevices().Visible.Count, 2);
  });
}

TEST(Capability, OfUnlikeDevicesNeedsAKnownOrder) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    EXPECT_EQ(askCapability(0).Why, CapabilityUnknown::AmbiguousOrder);
    EXPECT_EQ(askCapability(2).Why, CapabilityUnknown::NoSuchDevice);
    EXPECT_EQ(askCapability(-1).Why, CapabilityUnknown::NoSuchDevice);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    EXPECT_EQ(askCapability(0).Compute.asNumber(), 80);
    EXPECT_EQ(askCapability(1).Compute.asNumber(), 89);
    setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
    EXPECT_EQ(askCapability(0).Compute.asNumber(), 89);
    unsetenv("CUDA_DEVICE_ORDER");
    // A UUID names its device whatever the order.
    const Inventory *Known = knownInventory();
    ASSERT_NE(Known, nullptr);
    setenv("CUDA_VISIBLE_DEVICES", Known->Devices[1].Uuid.c_str(), 1);
    EXPECT_EQ(askCapability(0).Compute.asNumber(), 89);
    EXPECT_EQ(askCapability(1).Why, CapabilityUnknown::NoSuchDevice);
  });
}

TEST(Capability, OfLikeDevicesDoesNot) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    setenv("FLAGTREE_SIM_CAPABILITY", "8.9", 1);
    EXPECT_EQ(askCapability(0).Compute.asNumber(), 89);
    EXPECT_EQ(askCapability(1).Compute.asNumber(), 89);
  });
}

TEST(Management, FailuresAreToldAndNotKept) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    setenv("FLAGTREE_SIM_FAULTS", "hgmlDeviceGetCount_v2@first=999", 1);
    Inventory Answer = askManagement();
    EXPECT_TRUE(Answer.Devices.empty());
    EXPECT_NE(Answer.Failure.find("999"), std::string::npos) << Answer.Failure;
    EXPECT_EQ(knownInventory(), nullptr);
    EXPECT_EQ(askManagement().Devices.size(), 2u) << "recovers";
  });
}

TEST(Management, IsInheritedByChildren) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    EXPECT_EQ(askManagement().Devices.size(), 2u);
    inChild([] { EXPECT_NE(knownInventory(), nullptr); });
  });
}

/// Makes a program of a script; its path.
std::string makeProgram(const TemporaryDirectory &Root,
                        const std::string &Script) {
  std::string Path = Root.path() + "/program";
  std::FILE *File = std::fopen(Path.c_str(), "w");
  std::fprintf(File, "#!/bin/sh\n%s\n", Script.c_str());
  std::fclose(File);
  EXPECT_EQ(chmod(Path.c_str(), 0700), 0);
  return Path;
}

/// Runs Body in a child forked while another thread of this process was inside
/// the management library, which hangs whoever calls it there. OpenedAs is the
/// file in the SDK by which that thread has it.
template <typename F>
void inChildOfThreadInside(F Body, const char *OpenedAs = "lib/libhgml.so") {
  setenv("FLAGTREE_SIM_FAULTS", "hgmlInit_v2@first=delay:300", 1);
  std::string Path = std::string(getenv("PPU_SDK")) + "/" + OpenedAs;
  void *Library = dlopen(Path.c_str(), RTLD_NOW);
  ASSERT_NE(Library, nullptr) << dlerror();
  auto Init = reinterpret_cast<int (*)()>(dlsym(Library, "hgmlInit_v2"));
  std::atomic<bool> Began{false};
  std::thread Monitor([&] {
    Began = true;
    Init();
  });
  while (!Began)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  unsetenv("FLAGTREE_SIM_FAULTS");
  inChild([&] {
    alarm(20);
    Body();
  });
  Monitor.join();
}

TEST(Management, AChildOfAThreadInsideItAsksAProgram) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    setManagementProgram(DEVICE_PROGRAM);
    inChildOfThreadInside([] {
      Inventory Answer = askManagement();
      EXPECT_EQ(Answer.Failure, "");
      ASSERT_EQ(Answer.Devices.size(), 2u);
      EXPECT_EQ(Answer.Devices[1].Compute.asNumber(), 89);
      EXPECT_NE(Answer.Devices[1].Uuid, "");
      EXPECT_NE(knownInventory(), nullptr);
    });
  });
}

TEST(Management, IsInheritedUnderWhateverNameItWasOpened) {
  for (const char *OpenedAs : {"libhgml.so.2", "libhgml.so-old"}) {
    TemporaryDirectory Root;
    addManagement(Root);
    Root.link(OpenedAs, SIMULATOR_DIRECTORY "/libhgml.so");
    isolated(Root, [&] {
      setManagementProgram(DEVICE_PROGRAM);
      inChildOfThreadInside(
          [] { EXPECT_EQ(askManagement().Devices.size(), 2u); }, OpenedAs);
    });
  }
}

TEST(Management, WithoutAProgramItSaysWhy) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    inChildOfThreadInside([] {
      EXPECT_NE(askManagement().Failure.find("forked"), std::string::npos);
      setManagementProgram("/nonexistent/program");
      Inventory Answer = askManagement();
      EXPECT_NE(Answer.Failure.find("/nonexistent/program"), std::string::npos);
      EXPECT_NE(Answer.Failure.find("No such file"), std::string::npos);
      EXPECT_EQ(askCapability(0).Why, CapabilityUnknown::NoManagementLibrary);
    });
  });
}

// A library that hangs would otherwise take as long at every question.
TEST(Management, AProgramThatDoesNotAnswerInTimeIsAskedOnce) {
  TemporaryDirectory Root;
  addManagement(Root);
  const std::string Count = Root.path() + "/count";
  const std::string Program = makeProgram(
      Root, "echo >> '" + Count + "'; [ ! -e \"$0.hangs\" ] || exec sleep 60");
  const std::string Hangs = Program + ".hangs";
  const auto TimesAsked = [&] {
    struct stat Status = {};
    return stat(Count.c_str(), &Status) == 0 ? Status.st_size : 0;
  };
  isolated(Root, [&] {
    inChildOfThreadInside([&] {
      setManagementProgram(Program);
      // Any other failure is not kept.
      for (int Asked = 1; Asked <= 2; ++Asked) {
        EXPECT_FALSE(askManagement().TimedOut);
        EXPECT_EQ(TimesAsked(), Asked);
      }
      close(open(Hangs.c_str(), O_CREAT | O_WRONLY, 0600));
      setManagementProgram(Program, std::chrono::milliseconds(2000));
      for (int Again = 0; Again < 3; ++Again) {
        Inventory Answer = askManagement();
        EXPECT_NE(Answer.Failure.find("2000 ms"), std::string::npos);
        EXPECT_TRUE(Answer.TimedOut);
        EXPECT_EQ(TimesAsked(), 3);
      }
      unlink(Hangs.c_str());
      setManagementProgram(Program);
      inChild([&] {
        EXPECT_FALSE(askManagement().TimedOut);
        EXPECT_EQ(TimesAsked(), 4);
      });
    });
  });
}

TEST(Management, AChildThatOpenedItItselfCallsItAgain) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    inChild([] {
      setenv("FLAGTREE_SIM_FAULTS", "hgmlDeviceGetCount_v2@first=999", 1);
      EXPECT_NE(askManagement().Failure.find("999"), std::string::npos);
      EXPECT_EQ(askManagement().Failure, "") << "without a program";
    });
  });
}

TEST(ManagementProgram, WhateverItDoesIsAnAnswer) {
  TemporaryDirectory Root;
  auto Answer = [&](const char *Script, int Milliseconds) {
    return askProgram(makeProgram(Root, Script),
                      std::chrono::milliseconds(Milliseconds));
  };
  EXPECT_NE(Answer("exec sleep 60", 200).Failure.find("200 ms"),
            std::string::npos);
  for (const char *Script :
       {"true", "exit 1", "kill -9 $$", "echo library x", "echo end",
        "echo device 8; echo end", "echo library x; echo nonsense; echo end",
        "head -c 100000 /dev/zero"})
    EXPECT_NE(Answer(Script, 20000).Failure, "") << Script;
  EXPECT_NE(Answer("exec yes", 20000).Failure.find("without end"),
            std::string::npos);
  Inventory Empty = Answer("echo library x; echo end", 20000);
  EXPECT_EQ(Empty.Failure, "");
  EXPECT_EQ(Empty.Library, "x");
}

// What it has said counts, whatever keeps it or its output from ending.
TEST(ManagementProgram, IsNotWaitedForOnceItHasAnswered) {
  TemporaryDirectory Root;
  const auto Began = std::chrono::steady_clock::now();
  for (const char *After : {"sleep 30 & echo $! > \"$0.pid\"", "exec sleep 30",
                            "exec sleep 30 >&-"}) {
    const std::string Script =
        std::string("echo library x; echo end; ") + After;
    EXPECT_EQ(askProgram(makeProgram(Root, Script)).Failure, "") << After;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - Began, std::chrono::seconds(20));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a program is left";
  // The first one's own child, which nobody else ends.
  int Left = 0;
  std::FILE *File = std::fopen((Root.path() + "/program.pid").c_str(), "r");
  ASSERT_NE(File, nullptr);
  EXPECT_EQ(std::fscanf(File, "%d", &Left), 1);
  std::fclose(File);
  if (Left > 0)
    kill(Left, SIGKILL);
}

TEST(ManagementProgram, IsHeardWhateverTheProcessHasClosed) {
  TemporaryDirectory Root;
  const std::string Program =
      makeProgram(Root, "sleep 0.05; echo library x; echo end");
  for (int Closed = 0; Closed < 8; ++Closed)
    for (bool Ignored : {false, true})
      inChild([&] {
        if (Ignored)
          signal(SIGCHLD, SIG_IGN);
        for (int Stream = 0; Stream < 3; ++Stream)
          if (Closed & 1 << Stream)
            close(Stream);
        // What others print goes nowhere, and not to the pipe.
        std::atomic<bool> Done{false};
        std::thread Printing([&Done] {
          // Past ThreadSanitizer, which takes one thread's use of a number that
          // another opens for a race; it is one, and the point.
          while (!Done)
            syscall(SYS_write, 1, "", 1);
        });
        if ((Closed & 2) == 0)
          Done = true;
        Inventory Answer = askProgram(Program);
        Done = true;
        Printing.join();
        if (!Answer.Failure.empty() || Answer.Library != "x")
          _exit(1);
      });
}

TEST(ManagementProgram, ItsTextIsReadBack) {
  Inventory Written;
  Written.Library = "/a directory/libhgml.so";
  Written.Failure = "two\nlines";
  Written.Devices = {{"PPU-1", {8, 0}, false, {}},
                     {"", {9, 0}, true, {"MIG-1", ""}}};
  std::optional<Inventory> Read = readInventory(writeInventory(Written));
  ASSERT_TRUE(Read);
  EXPECT_EQ(Read->Library, Written.Library);
  EXPECT_EQ(Read->Failure, "two lines");
  ASSERT_EQ(Read->Devices.size(), 2u);
  EXPECT_EQ(Read->Devices[0].Uuid, "PPU-1");
  EXPECT_EQ(Read->Devices[1].Uuid, "");
  EXPECT_TRUE(Read->Devices[1].MigEnabled);
  EXPECT_EQ(Read->Devices[1].MigUuids, Written.Devices[1].MigUuids);
}

TEST(Management, ThreadsThatComeFirstAgree) {
  TemporaryDirectory Root;
  addManagement(Root);
  isolated(Root, [] {
    // It is opened before the threads begin: what orders its constructors
    // before their calls would be the loader's lock, which ThreadSanitizer does
    // not see.
    setenv("FLAGTREE_SIM_FAULTS", "hgmlInit_v2@first=999", 1);
    EXPECT_TRUE(askManagement().Devices.empty());
    std::vector<std::thread> Threads;
    std::atomic<int> Right{0};
    for (int I = 0; I < 8; ++I)
      Threads.emplace_back(
          [&] { Right += askManagement().Devices.size() == 2; });
    for (std::thread &Thread : Threads)
      Thread.join();
    EXPECT_EQ(Right, 8);
  });
}

} // namespace
