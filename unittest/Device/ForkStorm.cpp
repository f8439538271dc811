//===- ForkStorm.cpp - Forks from eight threads while one initializes -----===//
//
// Eight threads switch devices and fork as fast as they can while another
// thread initializes the driver. Each child states what it knows and then tries
// to use the device, which shows the truth. The number of forks is
// FLAGTREE_STORM_FORKS (default 400); memory and descriptors are compared
// before and after.
//
// Rounds begin in fresh processes, so that "while another thread initializes"
// happens in each, not once.
//
//===----------------------------------------------------------------------===//

#include "Isolated.h"

#include "flagtree/Device/DeviceResolver.h"

#include <chrono>
#include <dirent.h>
#include <fstream>
#include <thread>
#include <vector>

using namespace flagtree;
using namespace flagtree::testing;

namespace {

constexpr int NumThreads = 8;
constexpr int NumDevices = 8;
constexpr const char *Library = FAKE_DIRECTORY "/FakeCu/libcuda.so.1";

/// What a child found, as its exit status.
enum Outcome : int {
  /// It said ForkedAfterInit, with the right device, and using is impossible.
  RightForked,
  /// It said Uninitialized, and can use the device.
  RightClean,
  /// It said Uninitialized; using proved the fork. Only possible while the
  /// driver is being initialized in the parent, after the note was taken.
  ProvenByUse,
  Wrong,
  NumOutcomes
};

int openDescriptors() {
  int Count = 0;
  DIR *Directory = opendir("/proc/self/fd");
  while (readdir(Directory))
    ++Count;
  closedir(Directory);
  return Count;
}

long residentKilobytes() {
  std::ifstream Status("/proc/self/status");
  std::string Word;
  long Value = 0;
  while (Status >> Word)
    if (Word == "VmRSS:" && Status >> Value)
      return Value;
  return 0;
}

/// Runs in the child. Before and After: whether the parent knew of the
/// initialization before and after it took the note.
Outcome observe(int Ordinal, bool Before, bool After) {
  DeviceResolver &Resolver = DeviceResolver::get();
  ProcessState Said = Resolver.liveness().State;
  OrdinalAnswer Device = Resolver.ordinal();
  if (Said == ProcessState::ForkedAfterInit) {
    // Where the note was taken before the initialization, the thread had no
    // device then, whatever it has chosen.
    bool RightDevice = Device.ok() && (Device.Source == DeviceSource::ForkNote
                                           ? Device.Ordinal == Ordinal
                                           : !Before && Device.Ordinal == 0);
    return RightDevice && Resolver.makeUsable().Kind == Usability::Forked
               ? RightForked
               : Wrong;
  }
  if (Said != ProcessState::Uninitialized || After)
    return Wrong;
  UseAnswer Use = Resolver.makeUsable();
  if (Use.Kind == Usability::Usable)
    return Resolver.liveness().State == ProcessState::Initialized ? RightClean
                                                                  : Wrong;
  return Use.Kind == Usability::Forked && Use.ProvenByInit &&
                 Resolver.liveness().State == ProcessState::ForkedAfterInit
             ? ProvenByUse
             : Wrong;
}

struct Totals {
  std::atomic<int> Outcomes[NumOutcomes] = {};
  std::atomic<int> Abnormal{0};
};

void forkRepeatedly(FakeDriver *Fake, int Thread, int Forks, Totals &Into) {
  DeviceResolver &Resolver = DeviceResolver::get();
  for (int I = 0; I < Forks; ++I) {
    int Ordinal = (Thread + I) % NumDevices;
    Fake->SetCurrent(Ordinal);
    bool Before = forkstate::initializedHere();
    Resolver.noteBeforeFork();
    bool After = forkstate::initializedHere();
    pid_t Child = fork();
    if (Child == 0)
      _exit(observe(Ordinal, Before, After));
    int Status = waitFor(Child);
    if (Status >= 0 && Status < NumOutcomes)
      ++Into.Outcomes[Status];
    else
      ++Into.Abnormal;
  }
}

TEST(ForkStorm, NoWrongAnswerNoHangNoLeak) {
  const char *Text = std::getenv("FLAGTREE_STORM_FORKS");
  int Forks = Text ? std::atoi(Text) : 400;
  ASSERT_GT(Forks, 0) << "FLAGTREE_STORM_FORKS=" << Text;
  Text = std::getenv("FLAGTREE_STORM_ROUND");
  int ForksPerRound = Text ? std::atoi(Text) : NumThreads * 25;
  ASSERT_GE(ForksPerRound, NumThreads) << "FLAGTREE_STORM_ROUND=" << Text;
  int Rounds = (Forks + ForksPerRound - 1) / ForksPerRound;

  int Sums[NumOutcomes] = {};
  int Total = 0;
  long Grown = 0;
  for (int Round = 0; Round < Rounds; ++Round) {
    int Pipe[2];
    ASSERT_EQ(pipe(Pipe), 0);
    inChild([&] {
      setenv("TRITON_PPU_LIBCUDA_PATH", Library, 1);
      alarm(300); // A hang ends the test.
      forkstate::install();
      FakeDriver *Fake = openFake(Library);
      Fake->DeviceCount = NumDevices;
      ASSERT_NE(DriverLibrary::get().mapped(), nullptr);
      int Descriptors = openDescriptors();
      long Before = residentKilobytes();
      Totals Counts;
      std::vector<std::thread> Threads;
      for (int I = 0; I < NumThreads; ++I)
        Threads.emplace_back([&, I] {
          forkRepeatedly(Fake, I, ForksPerRound / NumThreads, Counts);
        });
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(Round % 20));
        EXPECT_EQ(DeviceResolver::get().makeUsable().Kind, Usability::Usable);
      }).join();
      for (std::thread &Thread : Threads)
        Thread.join();
      EXPECT_EQ(Counts.Abnormal, 0);
      EXPECT_EQ(Counts.Outcomes[Wrong], 0);
      EXPECT_EQ(openDescriptors(), Descriptors);
      long Report[NumOutcomes + 1];
      for (int I = 0; I < NumOutcomes; ++I)
        Report[I] = Counts.Outcomes[I];
      Report[NumOutcomes] = residentKilobytes() - Before;
      EXPECT_EQ(write(Pipe[1], Report, sizeof(Report)),
                static_cast<ssize_t>(sizeof(Report)));
    });
    long Report[NumOutcomes + 1] = {};
    close(Pipe[1]);
    ASSERT_EQ(read(Pipe[0], Report, sizeof(Report)),
              static_cast<ssize_t>(sizeof(Report)));
    close(Pipe[0]);
    for (int I = 0; I < NumOutcomes; ++I) {
      Sums[I] += static_cast<int>(Report[I]);
      Total += static_cast<int>(Report[I]);
    }
    Grown = std::max(Grown, Report[NumOutcomes]);
    if (HasFailure())
      break;
  }
  std::printf(
      "%d forks in %d rounds: %d forked after initialization, %d clean, "
      "%d proven by use, %d wrong; a round's process grew by at most "
      "%ld KiB\n",
      Total, Rounds, Sums[RightForked], Sums[RightClean], Sums[ProvenByUse],
      Sums[Wrong], Grown);
}

} // namespace
