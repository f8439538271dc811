#include "CallLog.h"

#include "Configuration.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace flagtree::simulator {
namespace {

std::atomic<const char *> logPath{nullptr};

__attribute__((constructor)) void readLogPath() {
  setLog(std::getenv("FLAGTREE_SIM_LOG"));
}

void writeLine(const char *line, size_t length) {
  const char *path = logPath.load(std::memory_order_acquire);
  if (!path)
    return;
  int savedErrno = errno;
  int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    refuse("cannot open FLAGTREE_SIM_LOG", path);
  ssize_t written = write(descriptor, line, length);
  close(descriptor);
  // A log with a hole would let a test pass that should not.
  if (written != ssize_t(length))
    refuse("cannot write a whole line to FLAGTREE_SIM_LOG", path);
  errno = savedErrno;
}

int writeHead(char *line, size_t size, uint64_t start, const char *name) {
  return std::snprintf(line, size, "%d %d %llu %s ", int(getpid()),
                       int(syscall(SYS_gettid)),
                       static_cast<unsigned long long>(start), name);
}

} // namespace

Detail::Detail() : isEnabled(logEnabled()) {}
Detail::~Detail() { std::free(heap); }

char *Detail::reserve(size_t more) {
  if (length + more > capacity) {
    size_t larger = 2 * (length + more);
    char *moved = static_cast<char *>(std::realloc(heap, larger));
    if (!moved)
      refuse("no memory for a line of the log", "");
    if (!heap)
      std::memcpy(moved, inlineText, length);
    heap = moved;
    capacity = larger;
  }
  return (heap ? heap : inlineText) + length;
}

void Detail::add(const char *format, ...) {
  if (!isEnabled)
    return;
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  char *end = reserve(1);
  size_t room = capacity - length;
  int needed = std::vsnprintf(end, room, format, arguments);
  if (needed >= 0 && size_t(needed) >= room) {
    end = reserve(size_t(needed) + 1);
    std::vsnprintf(end, size_t(needed) + 1, format, again);
  }
  if (needed > 0)
    length += size_t(needed);
  va_end(again);
  va_end(arguments);
}

void Detail::addHex(const void *bytes, size_t count) {
  if (!isEnabled)
    return;
  static const char digits[] = "0123456789abcdef";
  char *end = reserve(2 * count);
  const unsigned char *from = static_cast<const unsigned char *>(bytes);
  for (size_t i = 0; i < count; ++i) {
    *end++ = digits[from[i] >> 4];
    *end++ = digits[from[i] & 15];
  }
  length += 2 * count;
}

uint64_t monotonicNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

bool logEnabled() { return logPath.load(std::memory_order_relaxed) != nullptr; }

void logCall(uint64_t start, const char *name, int result,
             const Detail &detail) {
  if (!logEnabled())
    return;
  char shortLine[512];
  char *line = shortLine;
  size_t size = 160 + detail.size();
  if (size > sizeof(shortLine)) {
    line = static_cast<char *>(std::malloc(size));
    if (!line)
      refuse("no memory for a line of the log", "");
  }
  int length = writeHead(line, size, start, name);
  length += std::snprintf(line + length, size - size_t(length), "%d", result);
  if (detail.size()) {
    line[length++] = ' ';
    std::memcpy(line + length, detail.data(), detail.size());
    length += int(detail.size());
  }
  line[length++] = '\n';
  writeLine(line, size_t(length));
  if (line != shortLine)
    std::free(line);
}

void logEnd(uint64_t start, const char *name, const char *how) {
  if (!logEnabled())
    return;
  char line[256];
  int length = writeHead(line, sizeof(line), start, name);
  length +=
      std::snprintf(line + length, sizeof(line) - size_t(length), "%s\n", how);
  writeLine(line, size_t(length));
}

void setLog(const char *path) {
  // Old paths are kept: another thread may be writing to one.
  static std::vector<const char *> kept;
  if (path && *path) {
    kept.push_back(strdup(path));
    path = kept.back();
  } else {
    path = nullptr;
  }
  logPath.store(path, std::memory_order_release);
}

} // namespace flagtree::simulator
