//===- ManagementLibrary.cpp ----------------------------------------------===//

#include "flagtree/Device/ManagementLibrary.h"

#include "flagtree/Device/ManagementProcess.h"
#include "flagtree/Driver/LibrarySearch.h"
#include "flagtree/Driver/Symbols.h"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <memory>

namespace flagtree {

namespace {

// The management API's types. A status of 0 is success.
using Status = int;
using Handle = struct ManagedDeviceOpaque *;
constexpr unsigned UuidBytes = 96;

struct Calls {
  Status (*Init)() = nullptr;
  Status (*Shutdown)() = nullptr;
  Status (*GetCount)(unsigned *) = nullptr;
  Status (*GetHandle)(unsigned, Handle *) = nullptr;
  Status (*GetCapability)(Handle, int *, int *) = nullptr;
  Status (*GetUuid)(Handle, char *, unsigned) = nullptr;
  // These came later and may be missing.
  Status (*GetMigMode)(Handle, unsigned *, unsigned *) = nullptr;
  Status (*GetMaxMig)(Handle, unsigned *) = nullptr;
  Status (*GetMig)(Handle, unsigned, Handle *) = nullptr;
  const char *(*ErrorString)(Status) = nullptr;
};

struct Candidate {
  std::string Library;
  const char *Prefix;
};

std::atomic<const Inventory *> Known{nullptr};

/// The generation (ForkState.h) in which no library was mapped when this tree
/// looked: one that is mapped later in it is not inherited.
constexpr std::uint32_t NeverFree = ~std::uint32_t(0);
std::atomic<std::uint32_t> FreeIn{NeverFree};

struct ManagementProgram {
  std::string Path;
  std::chrono::milliseconds Limit;
};
/// Never freed, nor is the next: a child may be forked at any moment.
std::atomic<const ManagementProgram *> Program{nullptr};

/// What a process that waited for the program in vain answers from then on.
struct InVain {
  std::uint32_t Generation;
  Inventory Answer;
};
std::atomic<const InVain *> Waited{nullptr};

/// The calls of an open library; Missing names the first it lacks.
Calls resolveCalls(void *Library, const std::string &Prefix,
                   std::string &Missing) {
  Calls Table;
  auto Need = [&](const char *Name, auto &Slot) {
    resolveSymbol(Library, Prefix + Name, Slot);
    if (!Slot && Missing.empty())
      Missing = Prefix + Name;
  };
  Need("Init_v2", Table.Init);
  Need("Shutdown", Table.Shutdown);
  Need("DeviceGetCount_v2", Table.GetCount);
  Need("DeviceGetHandleByIndex_v2", Table.GetHandle);
  // The one call whose name carries the vendor's name for the platform.
  Need(Prefix == "hgml" ? "DeviceGetHggcComputeCapability"
                        : "DeviceGetCudaComputeCapability",
       Table.GetCapability);
  resolveSymbol(Library, Prefix + "DeviceGetUUID", Table.GetUuid);
  resolveSymbol(Library, Prefix + "DeviceGetMigMode", Table.GetMigMode);
  resolveSymbol(Library, Prefix + "DeviceGetMaxMigDeviceCount",
                Table.GetMaxMig);
  resolveSymbol(Library, Prefix + "DeviceGetMigDeviceHandleByIndex",
                Table.GetMig);
  resolveSymbol(Library, Prefix + "ErrorString", Table.ErrorString);
  return Table;
}

std::string uuidOf(const Calls &Table, Handle Device) {
  char Text[UuidBytes] = {};
  if (!Table.GetUuid || Table.GetUuid(Device, Text, UuidBytes) != 0)
    return {};
  Text[UuidBytes - 1] = '\0';
  return Text;
}

void describeParts(const Calls &Table, Handle Device, PhysicalDevice &Into) {
  unsigned Current = 0, Pending = 0, Most = 0;
  if (!Table.GetMigMode || Table.GetMigMode(Device, &Current, &Pending) != 0 ||
      Current != 1)
    return;
  Into.MigEnabled = true;
  if (!Table.GetMaxMig || !Table.GetMig || Table.GetMaxMig(Device, &Most) != 0)
    return;
  for (unsigned I = 0; I < Most; ++I) {
    Handle Part = nullptr;
    if (Table.GetMig(Device, I, &Part) == 0)
      Into.MigUuids.push_back(uuidOf(Table, Part));
  }
}

/// Reads every device. Answers with the first failing call's name and status.
std::string describeDevices(const Calls &Table, Inventory &Into) {
  auto Failed = [&](const char *Call, Status Code) {
    const char *Text = Table.ErrorString ? Table.ErrorString(Code) : nullptr;
    return std::string(Call) + " answered " + std::to_string(Code) +
           (Text ? std::string(" (") + Text + ")" : "");
  };
  unsigned Count = 0;
  if (Status Code = Table.GetCount(&Count))
    return Failed("DeviceGetCount", Code);
  for (unsigned I = 0; I < Count; ++I) {
    Handle Device = nullptr;
    if (Status Code = Table.GetHandle(I, &Device))
      return Failed("DeviceGetHandleByIndex", Code);
    PhysicalDevice Described;
    if (Status Code = Table.GetCapability(Device, &Described.Compute.Major,
                                          &Described.Compute.Minor))
      return Failed("the call for the compute capability", Code);
    Described.Uuid = uuidOf(Table, Device);
    describeParts(Table, Device, Described);
    Into.Devices.push_back(std::move(Described));
  }
  return {};
}

Inventory askOne(const Candidate &From) {
  Inventory Answer;
  void *Library = dlopen(From.Library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!Library) {
    const char *Text = dlerror();
    Answer.Failure = Text ? Text : From.Library + " cannot be opened";
    return Answer;
  }
  // Never unmapped: a library that started threads or registered handlers does
  // not survive it.
  Answer.Library = From.Library;
  std::string Missing;
  Calls Table = resolveCalls(Library, From.Prefix, Missing);
  if (!Missing.empty()) {
    Answer.Failure = From.Library + " has no " + Missing;
    return Answer;
  }
  if (Status Code = Table.Init()) {
    const char *Text = Table.ErrorString ? Table.ErrorString(Code) : nullptr;
    Answer.Failure = From.Library + ": Init answered " + std::to_string(Code) +
                     (Text ? std::string(" (") + Text + ")" : "");
    return Answer;
  }
  std::string Failure = describeDevices(Table, Answer);
  Table.Shutdown();
  if (!Failure.empty()) {
    Answer.Devices.clear();
    Answer.Failure = From.Library + ": " + Failure;
  }
  return Answer;
}

std::vector<Candidate> candidates() {
  std::vector<Candidate> List = {{"libhgml.so", "hgml"},
                                 {"libnvidia-ml.so.1", "nvml"}};
  for (const std::string &Root : search::sdkRoots())
    for (const char *Directory : {"/lib/", "/targets/x86_64-linux/lib/"})
      List.push_back({Root + Directory + "libhgml.so", "hgml"});
  return List;
}

/// Whatever follows the name: a file that somebody opened as libhgml.so-old is
/// for the loader the libhgml.so that it links to, or that it calls itself.
bool isManagementLibrary(const std::string &Path) {
  const std::string Name = search::baseName(Path);
  return Name.rfind("libhgml.so", 0) == 0 ||
         Name.rfind("libnvidia-ml.so", 0) == 0;
}

/// Whether a library is mapped here that an ancestor may have mapped.
bool isInherited() {
  const std::uint32_t Generation = forkstate::generation();
  if (FreeIn.load(std::memory_order_acquire) == Generation)
    return false;
  // This tree may have been imported in the child only.
  if (Generation == 0 && !forkstate::forkedWithoutExec())
    return false;
  const std::vector<std::string> Mapped = search::mappedLibraries();
  if (std::any_of(Mapped.begin(), Mapped.end(), isManagementLibrary))
    // Unless another thread saw none meanwhile, and opened it.
    return FreeIn.load(std::memory_order_acquire) != Generation;
  FreeIn.store(Generation, std::memory_order_release);
  return false;
}

/// Whether an answer says all that there is to know, so that it may be kept.
bool isComplete(const Inventory &Answer) {
  return Answer.Failure.empty() && !Answer.Devices.empty();
}

/// Keeps an answer for the life of the process; the one that came first.
Inventory keep(Inventory Answer) {
  auto Kept = std::make_unique<const Inventory>(std::move(Answer));
  const Inventory *None = nullptr;
  if (Known.compare_exchange_strong(None, Kept.get(),
                                    std::memory_order_acq_rel))
    return *Kept.release();
  return *None;
}

Inventory askElsewhere() {
  const std::uint32_t Generation = forkstate::generation();
  if (const InVain *Known = Waited.load(std::memory_order_acquire);
      Known && Known->Generation == Generation)
    return Known->Answer;
  Inventory Answer;
  const ManagementProgram *Asked = Program.load(std::memory_order_acquire);
  if (!Asked) {
    Answer.Failure = "this process was forked from one that used the "
                     "management library, and no program is known to ask it "
                     "with";
    return Answer;
  }
  Answer = askProgram(Asked->Path, Asked->Limit);
  if (Answer.TimedOut)
    Waited.store(new InVain{Generation, Answer}, std::memory_order_release);
  return Answer;
}

} // namespace

const Inventory *knownInventory() noexcept {
  return Known.load(std::memory_order_acquire);
}

void setManagementProgram(std::string Path, std::chrono::milliseconds Limit) {
  Program.store(new ManagementProgram{std::move(Path), Limit},
                std::memory_order_release);
}

Inventory askManagement() {
  if (const Inventory *Answer = knownInventory())
    return *Answer;
  if (isInherited()) {
    Inventory Answer = askElsewhere();
    return isComplete(Answer) ? keep(std::move(Answer)) : Answer;
  }
  Inventory Best;
  for (const Candidate &From : candidates()) {
    Inventory Answer = askOne(From);
    if (isComplete(Answer))
      return keep(std::move(Answer));
    // A library that is there says more about a failure than one that is not,
    // and one that answers "no device" more than one that does not answer.
    bool Better = Best.Failure.empty()
                      ? Best.Library.empty()
                      : Answer.Failure.empty() ||
                            (Best.Library.empty() && !Answer.Library.empty());
    if (Better)
      Best = std::move(Answer);
  }
  if (Best.Library.empty())
    Best.Failure = "neither libhgml.so nor libnvidia-ml.so.1 can be opened (" +
                   Best.Failure + ")";
  return Best;
}

} // namespace flagtree
