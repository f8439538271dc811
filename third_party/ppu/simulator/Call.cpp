#include "Call.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <time.h>
#include <unistd.h>

namespace flagtree::simulator {

void sufferFault(const Fault &fault, uint64_t start, const char *name) {
  if (fault.delayMilliseconds > 0) {
    timespec remaining;
    remaining.tv_sec = time_t(fault.delayMilliseconds / 1000);
    remaining.tv_nsec = long(
        (fault.delayMilliseconds - 1000.0 * double(remaining.tv_sec)) * 1e6);
    while (nanosleep(&remaining, &remaining) != 0 && errno == EINTR) {
    }
  }
  switch (fault.ending) {
  case Ending::None:
    return;
  case Ending::Hang:
    logEnd(start, name, "hang");
    for (;;)
      pause();
  case Ending::Abort:
    logEnd(start, name, "abort");
    std::abort();
  case Ending::Segv:
    logEnd(start, name, "segv");
    // The real thing, whatever handlers a sanitizer or faulthandler installed.
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    std::abort();
  }
}

} // namespace flagtree::simulator
