//===- ManagementProcess.cpp ----------------------------------------------===//

#include "flagtree/Device/ManagementProcess.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace flagtree {

namespace {

constexpr const char *UnknownUuid = "-";
/// Far more than any host's inventory; a program that writes more is not ours.
constexpr std::size_t MaxAnswerBytes = 1 << 20;
/// How long a program that has answered may take to end.
constexpr std::chrono::milliseconds TimeToEnd{1000};

std::string orUnknown(const std::string &Uuid) {
  return Uuid.empty() ? UnknownUuid : Uuid;
}

std::string fromUnknown(std::string_view Uuid) {
  return std::string(Uuid == UnknownUuid ? std::string_view() : Uuid);
}

/// Takes what is in front of the first Separator off Text.
std::string_view take(std::string_view &Text, char Separator) {
  const std::size_t End = std::min(Text.find(Separator), Text.size());
  const std::string_view Taken = Text.substr(0, End);
  Text.remove_prefix(std::min(End + 1, Text.size()));
  return Taken;
}

bool takeNumber(std::string_view &Text, int &Number) {
  const std::string_view Word = take(Text, ' ');
  const char *End = Word.data() + Word.size();
  return std::from_chars(Word.data(), End, Number).ptr == End && !Word.empty();
}

/// Reads what follows "device".
bool readDevice(std::string_view Words, PhysicalDevice &Device) {
  int Mig = 0;
  if (!takeNumber(Words, Device.Compute.Major) ||
      !takeNumber(Words, Device.Compute.Minor) || !takeNumber(Words, Mig) ||
      Words.empty())
    return false;
  Device.MigEnabled = Mig != 0;
  Device.Uuid = fromUnknown(take(Words, ' '));
  while (!Words.empty())
    Device.MigUuids.push_back(fromUnknown(take(Words, ' ')));
  return true;
}

/// A pipe that no program started meanwhile inherits, nor takes for a standard
/// stream that this process has closed: what other threads print goes to 1 and
/// 2, and before glibc 2.29 a spawned program cannot be given its end as 1 if
/// it is 1 already.
struct Pipe {
  int Read = -1, Write = -1;
  /// Why there is none; 0 if there is one.
  int Error = 0;

  Pipe() {
    // What is closed of 0 to 2 leads nowhere meanwhile, so that neither end
    // is one of them for a moment.
    int Fillers[STDERR_FILENO + 1], Ends[2];
    unsigned Filled = 0;
    while (Filled <= STDERR_FILENO) {
      const int Opened = open("/dev/null", O_RDWR | O_CLOEXEC);
      if (Opened < 0)
        break;
      Fillers[Filled++] = Opened;
      if (Opened > STDERR_FILENO)
        break;
    }
    if (pipe2(Ends, O_CLOEXEC) == 0) {
      Read = Ends[0];
      Write = Ends[1];
    } else {
      Error = errno;
    }
    for (unsigned I = 0; I != Filled; ++I)
      close(Fillers[I]);
  }
  ~Pipe() {
    closeEnd(Read);
    closeEnd(Write);
  }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;

  static void closeEnd(int &End) {
    if (End >= 0)
      close(End);
    End = -1;
  }
};

/// Starts the program with its output in the pipe; an error number, or 0.
int start(const std::string &Program, const Pipe &Output, pid_t &Started) {
  posix_spawn_file_actions_t Files;
  posix_spawnattr_t Attributes;
  if (int Code = posix_spawn_file_actions_init(&Files))
    return Code;
  if (int Code = posix_spawnattr_init(&Attributes)) {
    posix_spawn_file_actions_destroy(&Files);
    return Code;
  }
  // Signals that this thread blocks are no business of the program's.
  sigset_t None;
  sigemptyset(&None);
  posix_spawnattr_setsigmask(&Attributes, &None);
  posix_spawnattr_setflags(&Attributes, POSIX_SPAWN_SETSIGMASK);
  int Code = posix_spawn_file_actions_addopen(&Files, STDIN_FILENO, "/dev/null",
                                              O_RDONLY, 0);
  if (!Code)
    Code =
        posix_spawn_file_actions_adddup2(&Files, Output.Write, STDOUT_FILENO);
  if (!Code) {
    const char *Arguments[] = {Program.c_str(), "--inventory", nullptr};
    Code = posix_spawn(&Started, Program.c_str(), &Files, &Attributes,
                       const_cast<char *const *>(Arguments), environ);
  }
  posix_spawnattr_destroy(&Attributes);
  posix_spawn_file_actions_destroy(&Files);
  return Code;
}

using Clock = std::chrono::steady_clock;

/// Whether Text ends in the line that ends an answer.
bool isWhole(std::string_view Text) {
  constexpr std::string_view Last = "\nend\n";
  return Text.size() >= Last.size() &&
         Text.substr(Text.size() - Last.size()) == Last;
}

/// Reads an answer to its last line, or to the end of the pipe. Not always to
/// the latter: a process forked meanwhile, here or by the program, holds the
/// pipe open for as long as it lives. Answers what went wrong, if anything did;
/// TimedOut says whether that is the time.
std::string readAnswer(int From, std::chrono::milliseconds Limit,
                       std::string &Text, bool &TimedOut) {
  const auto End = Clock::now() + Limit;
  while (Text.size() < MaxAnswerBytes) {
    const auto Left = std::chrono::duration_cast<std::chrono::milliseconds>(
        End - Clock::now());
    pollfd Waiting = {From, POLLIN, 0};
    const int Ready =
        poll(&Waiting, 1, static_cast<int>(std::max<long>(0, Left.count())));
    TimedOut = Ready == 0;
    if (TimedOut)
      return "did not answer within " + std::to_string(Limit.count()) + " ms";
    if (Ready < 0) {
      if (errno == EINTR)
        continue;
      return std::string("cannot be waited for: ") + std::strerror(errno);
    }
    char Chunk[4096];
    const ssize_t Got = read(From, Chunk, sizeof(Chunk));
    if (Got < 0) {
      if (errno == EINTR)
        continue;
      return std::string("cannot be read from: ") + std::strerror(errno);
    }
    if (Got == 0)
      return {};
    Text.append(Chunk, static_cast<std::size_t>(Got));
    if (isWhole(Text))
      return {};
  }
  return "answers without end";
}

/// Waits for the program, which is killed if that takes longer than Limit. Its
/// status may be lost to a program that waits for every child, or ignores
/// SIGCHLD: what it wrote is what counts. Once it is not a child of ours any
/// more its id may be another process's, which must not be killed.
void reap(pid_t Started, std::chrono::milliseconds Limit) {
  const auto End = Clock::now() + Limit;
  pid_t Ended;
  while ((Ended = waitpid(Started, nullptr, WNOHANG)) == 0 &&
         Clock::now() < End)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (Ended != 0)
    return;
  kill(Started, SIGKILL);
  while (waitpid(Started, nullptr, 0) < 0 && errno == EINTR) {
  }
}

} // namespace

// Without streams: where libstdc++ is linked statically, an extension module's
// streams look their locale's facets up in another copy of it, and crash.
std::string writeInventory(const Inventory &Written) {
  std::string Text = "library " + Written.Library + '\n';
  if (!Written.Failure.empty()) {
    std::string OneLine = Written.Failure;
    std::replace(OneLine.begin(), OneLine.end(), '\n', ' ');
    Text += "failure " + OneLine + '\n';
  }
  for (const PhysicalDevice &Device : Written.Devices) {
    Text += "device " + std::to_string(Device.Compute.Major) + ' ' +
            std::to_string(Device.Compute.Minor) +
            (Device.MigEnabled ? " 1 " : " 0 ") + orUnknown(Device.Uuid);
    for (const std::string &Part : Device.MigUuids)
      Text += ' ' + orUnknown(Part);
    Text += '\n';
  }
  return Text + "end\n";
}

std::optional<Inventory> readInventory(const std::string &Text) {
  Inventory Answer;
  std::string_view Left = Text;
  bool HasLibrary = false;
  while (!Left.empty()) {
    std::string_view Line = take(Left, '\n');
    const std::string_view What = take(Line, ' ');
    if (What == "library") {
      HasLibrary = true;
      Answer.Library = Line;
    } else if (What == "failure") {
      Answer.Failure = Line;
    } else if (What == "device") {
      PhysicalDevice Device;
      if (!readDevice(Line, Device))
        return std::nullopt;
      Answer.Devices.push_back(std::move(Device));
    } else if (What == "end" && HasLibrary) {
      return Answer;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Inventory askProgram(const std::string &Program,
                     std::chrono::milliseconds Limit) {
  Inventory Failed;
  const auto Because = [&](const std::string &Why) {
    Failed.Failure = "this process was forked from one that used the "
                     "management library, so that it has to be asked by " +
                     Program + ", which " + Why;
    return Failed;
  };
  Pipe Output;
  if (Output.Error)
    return Because("needs a pipe: " + std::string(std::strerror(Output.Error)));
  pid_t Started = 0;
  if (int Code = start(Program, Output, Started))
    return Because("cannot be started: " + std::string(std::strerror(Code)));
  Pipe::closeEnd(Output.Write);
  std::string Text;
  const std::string Wrong =
      readAnswer(Output.Read, Limit, Text, Failed.TimedOut);
  // A program that has answered has nothing left to do but end.
  reap(Started, Wrong.empty() ? TimeToEnd : std::chrono::milliseconds(0));
  if (!Wrong.empty())
    return Because(Wrong);
  if (std::optional<Inventory> Answer = readInventory(Text))
    return *Answer;
  return Because("answered nothing that can be read");
}

} // namespace flagtree
