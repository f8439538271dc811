// The log of every call: one line each,
//
//     <pid> <tid> <monotonic nanoseconds at the call's start> <call> <result>
//     [detail]
//
// appended to FLAGTREE_SIM_LOG by one write() to a descriptor that is opened
// for that line only, so that a process may close every descriptor it has, fork
// at any time or call from a signal handler. Nothing is written while the
// variable is unset. The result is a number, or `hang`, `abort` or `segv` where
// a fault ended the call.

#ifndef FLAGTREE_SIMULATOR_CALLLOG_H
#define FLAGTREE_SIMULATOR_CALLLOG_H

#include <cstddef>
#include <cstdint>

namespace flagtree::simulator {

/// What a call adds to its line: words separated by blanks. Short details stay
/// in the object; only a launch with many parameters allocates.
class Detail {
public:
  Detail();
  ~Detail();
  Detail(const Detail &) = delete;
  Detail &operator=(const Detail &) = delete;

  /// False while nothing is logged: details need not be made.
  bool enabled() const { return isEnabled; }
  __attribute__((format(printf, 2, 3))) void add(const char *format, ...);
  void addHex(const void *bytes, size_t count);
  const char *data() const { return heap ? heap : inlineText; }
  size_t size() const { return length; }

private:
  char *reserve(size_t more);

  bool isEnabled;
  char inlineText[256];
  char *heap = nullptr;
  size_t length = 0;
  size_t capacity = sizeof(inlineText);
};

uint64_t monotonicNanoseconds();
bool logEnabled();
void logCall(uint64_t start, const char *name, int result,
             const Detail &detail);
void logEnd(uint64_t start, const char *name, const char *how);

/// Logs to another file, or to none; only for flagtree_sim_set_log().
void setLog(const char *path);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_CALLLOG_H
