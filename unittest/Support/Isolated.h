//===- Isolated.h - A test body in a process of its own ---------*- C++ -*-===//
//
// What is tested here is the state of a process: which libraries are mapped,
// who initialized, who forked. So each test body runs in a child of a process
// that never maps a driver.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_UNITTEST_SUPPORT_ISOLATED_H
#define FLAGTREE_UNITTEST_SUPPORT_ISOLATED_H

#include "FakeDriver.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace flagtree::testing {

/// Waits for a child; its exit status, or -signal if one killed it.
inline int waitFor(pid_t Child) {
  int Status = 0;
  if (waitpid(Child, &Status, 0) != Child)
    return -1000;
  return WIFEXITED(Status) ? WEXITSTATUS(Status) : -WTERMSIG(Status);
}

/// Runs Body in the child that Fork makes; the child's failed expectations are
/// printed there and reported here as one failure.
template <typename Forking, typename F> void inChildOf(Forking Fork, F Body) {
  std::fflush(nullptr);
  pid_t Child = Fork();
  ASSERT_GE(Child, 0);
  if (Child == 0) {
    Body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  EXPECT_EQ(waitFor(Child), 0) << "in a child process";
}

/// Runs Body in a child made by the C library's fork.
template <typename F> void inChild(F Body) { inChildOf(fork, Body); }

/// Runs Body in a child made past the C library: no handler runs in it.
template <typename F> void inClone(F Body) {
  inChildOf(
      [] {
        return static_cast<pid_t>(
            syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
      },
      Body);
}

/// Opens a fake driver as some other part of a process would, and finds its
/// control.
inline FakeDriver *openFake(const char *Path) {
  void *Handle = dlopen(Path, RTLD_NOW | RTLD_LOCAL);
  if (!Handle) {
    ADD_FAILURE() << dlerror();
    std::abort();
  }
  return static_cast<FakeDriver *>(dlsym(Handle, "fakeDriver"));
}

/// The fake's Init, called behind the resolver's back.
inline int initFake(const char *Path, const char *Symbol = "cuInit") {
  void *Handle = dlopen(Path, RTLD_NOW | RTLD_NOLOAD);
  auto Init = reinterpret_cast<int (*)(unsigned)>(dlsym(Handle, Symbol));
  return Init(0);
}

/// A directory that is removed at the end.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    char Name[] = "/tmp/flagtree-test-XXXXXX";
    Path = mkdtemp(Name);
  }
  ~TemporaryDirectory() {
    [[maybe_unused]] int Status = std::system(("rm -rf " + Path).c_str());
  }
  const std::string &path() const { return Path; }

  /// Makes an empty file, and its directories.
  void touch(const std::string &Name) const {
    std::string Command = "mkdir -p $(dirname " + Path + "/" + Name +
                          ") && touch " + Path + "/" + Name;
    EXPECT_EQ(std::system(Command.c_str()), 0);
  }
  /// Makes a symbolic link to Target.
  void link(const std::string &Name, const std::string &Target) const {
    std::string Command = "mkdir -p $(dirname " + Path + "/" + Name +
                          ") && ln -s " + Target + " " + Path + "/" + Name;
    EXPECT_EQ(std::system(Command.c_str()), 0);
  }

private:
  std::string Path;
};

} // namespace flagtree::testing

#endif // FLAGTREE_UNITTEST_SUPPORT_ISOLATED_H
