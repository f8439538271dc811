// What needs a process of its own making: exit handlers, many threads (also the
// subject of the ThreadSanitizer build), forks while another thread
// initializes.

#include "../Abi.h"

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace flagtree::simulator;

extern "C" {
Result cuInit(unsigned);
Result cuDeviceGet(Device *, int);
Result cuCtxGetDevice(Device *);
Result cuCtxSetCurrent(Context);
Result cuDevicePrimaryCtxRetain(Context *, Device);
Result cuMemAlloc_v2(DevicePointer *, size_t);
Result cuMemFree_v2(DevicePointer);
void flagtree_sim_reset();
void flagtree_sim_set_faults(const char *);
long long flagtree_sim_call_count(const char *);
}

namespace {

Result ask(int ordinal = 0) {
  Device device;
  return cuDeviceGet(&device, ordinal);
}

// The exit status of a child that runs the body; 128 and more: a signal's.
template <typename Body> int inChild(Body &&body) {
  pid_t pid = fork();
  if (pid == 0)
    body();
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Ends a child without the sanitizers' exit handlers, which would report the
// threads that exist in the parent only.
[[noreturn]] void leave(int status) {
  for (;;)
    syscall(SYS_exit_group, status);
}

class Simulator : public testing::Test {
protected:
  void SetUp() override {
    setenv("FLAGTREE_SIM_DEVICES", "8", 1);
    flagtree_sim_reset();
  }
};

TEST_F(Simulator, ResetMakesAFreshProcess) {
  EXPECT_EQ(ask(), NotInitialized);
  EXPECT_EQ(cuInit(0), Success);
  EXPECT_EQ(ask(7), Success);
  EXPECT_EQ(ask(8), InvalidDevice);
  EXPECT_EQ(flagtree_sim_call_count("cuDeviceGet"), 3);
  EXPECT_EQ(flagtree_sim_call_count("cuNoSuchCall"), -1);
  setenv("FLAGTREE_SIM_DEVICES", "1", 1);
  flagtree_sim_reset();
  EXPECT_EQ(flagtree_sim_call_count("cuDeviceGet"), 0);
  EXPECT_EQ(ask(), NotInitialized);
  EXPECT_EQ(cuInit(0), Success);
  EXPECT_EQ(ask(7), InvalidDevice);
}

TEST_F(Simulator, FaultsCanBeOrderedAtRunTime) {
  cuInit(0);
  flagtree_sim_set_faults("cuDeviceGet@1=999;cuDeviceGet@2=46");
  EXPECT_EQ(ask(), Unknown);
  EXPECT_EQ(ask(), DeviceUnavailable);
  EXPECT_EQ(ask(), Success);
}

// Exit handlers run last registered first: this one outlives the driver.
TEST_F(Simulator, AnswersDeinitializedAfterItsOwnExitHandler) {
  EXPECT_EQ(inChild([] {
              std::atexit([] { leave(ask() == Deinitialized ? 17 : 1); });
              if (cuInit(0) != Success || ask() != Success)
                leave(2);
              std::exit(3);
            }),
            17);
}

TEST_F(Simulator, ExitWithoutInitializationStaysNotInitialized) {
  EXPECT_EQ(inChild([] {
              std::atexit([] { leave(ask() == NotInitialized ? 17 : 1); });
              std::exit(3);
            }),
            17);
}

TEST_F(Simulator, ThreadsInitializeOnceAndKeepTheirOwnDevice) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int ordinal = 0; ordinal < 8; ++ordinal)
    threads.emplace_back([ordinal, &wrong] {
      Context context = nullptr;
      Device device = -1;
      DevicePointer memory = 0;
      for (int i = 0; i < 200; ++i) {
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, ordinal) ||
            cuCtxSetCurrent(context) || cuCtxGetDevice(&device) ||
            device != ordinal || cuMemAlloc_v2(&memory, 64) ||
            cuMemFree_v2(memory))
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

// Whenever the fork happens, the child is either fresh, and then can
// initialize, or was forked after initialization, and then never can.
TEST_F(Simulator, ForksWhileAnotherThreadInitializes) {
  int fresh = 0, late = 0;
  for (int i = 0; i < 60; ++i) {
    flagtree_sim_reset();
    flagtree_sim_set_faults("cuInit@first=delay:0.3");
    std::thread initializer([] { cuInit(0); });
    usleep(unsigned(i) * 10);
    bool before = ask() == Success;
    int status = inChild([] {
      if (ask() != NotInitialized)
        leave(1);
      Result first = cuInit(0), second = cuInit(0);
      if (first != second)
        leave(2);
      if (first == Success)
        leave(ask() == Success ? 10 : 3);
      leave(first == NotInitialized && ask() == NotInitialized ? 11 : 4);
    });
    initializer.join();
    ASSERT_TRUE(status == 10 || status == 11) << status;
    if (before) {
      EXPECT_EQ(status, 11);
    }
    ++(status == 10 ? fresh : late);
  }
  EXPECT_GT(fresh, 0);
  EXPECT_GT(late, 0);
}

} // namespace
