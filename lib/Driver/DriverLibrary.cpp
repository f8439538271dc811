//===- DriverLibrary.cpp --------------------------------------------------===//

#include "flagtree/Driver/DriverLibrary.h"

#include "flagtree/Driver/LibrarySearch.h"
#include "flagtree/Driver/Symbols.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <sys/stat.h>

namespace flagtree {

namespace {

constexpr const char *CuName = "libcuda.so";
constexpr const char *CuSoname = "libcuda.so.1";
constexpr const char *HgName = "libhggc.so";

std::string variable(const char *Name) {
  const char *Value = std::getenv(Name);
  return Value ? Value : "";
}

/// Whether a file name is Stem or Stem.<something>: libcuda.so, libcuda.so.1,
/// libcuda.so.580.159.04, but not libcudart.so.
bool isVersionOf(const std::string &FileName, const char *Stem) {
  std::size_t Length = std::strlen(Stem);
  return FileName.compare(0, Length, Stem) == 0 &&
         (FileName.size() == Length || FileName[Length] == '.');
}

/// What TRITON_PPU_LIBCUDA_PATH stands for: itself, or the driver in the
/// directory it names. Empty if it is not set.
std::string chosenLibrary() {
  std::string Path = variable("TRITON_PPU_LIBCUDA_PATH");
  struct stat Status;
  if (Path.empty() || stat(Path.c_str(), &Status) != 0 ||
      !S_ISDIR(Status.st_mode))
    return Path;
  for (const char *Name : {CuSoname, CuName, HgName})
    if (search::exists(Path + "/" + Name))
      return Path + "/" + Name;
  return Path + "/" + CuSoname;
}

/// The SDK's own drivers, in the order they are tried.
std::vector<std::string> sdkLibraries() {
  std::vector<std::string> Paths;
  for (const std::string &Root : search::sdkRoots()) {
    Paths.push_back(Root + "/CUDA_SDK/lib64/" + CuSoname);
    Paths.push_back(Root + "/CUDA_SDK/targets/x86_64-linux/lib/" + CuSoname);
    Paths.push_back(Root + "/lib/" + HgName);
  }
  return Paths;
}

/// Whether the library calls itself a stub.
bool isStub(const EntryPoints &Table) {
  int Version = 0;
  return Table.DriverGetVersion(&Version) == Result::StubLibrary;
}

/// Fills a table from an open library. Null if it lacks a call that even asking
/// needs; Missing then names it.
std::unique_ptr<EntryPoints> makeTable(void *Handle, const std::string &Path,
                                       std::string &Missing) {
  auto Table = std::make_unique<EntryPoints>();
  Table->Path = Path;
  // A library that exports both prefixes is a CUDA driver with extras.
  Table->Abi = dlsym(Handle, "cuInit") || !dlsym(Handle, "hgInit")
                   ? DriverAbi::Cu
                   : DriverAbi::Hg;
  std::string Prefix = abiPrefix(Table->Abi);
#define FLAGTREE_ENTRY_POINT(Name, Suffix, Introduced, Need, Return,           \
                             Arguments)                                        \
  resolveSymbol(Handle, Prefix + #Name #Suffix, Table->Name);
#include "flagtree/Driver/EntryPoints.def"

  for (const EntryPointInfo &Info : EntryPointList)
    if (Info.Need == EntryPointNeed::Query && !Info.isIn(*Table)) {
      Missing = Info.symbol(Table->Abi);
      return nullptr;
    }
  return Table;
}

/// The symbol of the first Required call that a table lacks; empty if none.
std::string missingRequired(const EntryPoints &Table) {
  for (const EntryPointInfo &Info : EntryPointList)
    if (Info.Need == EntryPointNeed::Required && !Info.isIn(Table))
      return Info.symbol(Table.Abi);
  return {};
}

/// The library's mapped handle, pinned so that it is never unmapped.
void *pinMapped(const std::string &Path) {
  return dlopen(Path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/// The mapped libraries that look like a driver, the likeliest first: the one
/// that was chosen by name, then the CUDA ABI, then the PPU's own. Where the
/// former is a layer over the latter both are mapped, and everybody else in the
/// process calls the former.
std::vector<std::string> mappedCandidates() {
  std::string Chosen = chosenLibrary();
  std::vector<std::string> First, Cu, Hg;
  for (std::string &Path : search::mappedLibraries()) {
    std::string Name = search::baseName(Path);
    if (!Chosen.empty() && (Path == Chosen || search::sameFile(Path, Chosen)))
      First.push_back(std::move(Path));
    else if (isVersionOf(Name, CuName))
      Cu.push_back(std::move(Path));
    else if (isVersionOf(Name, HgName))
      Hg.push_back(std::move(Path));
  }
  First.insert(First.end(), Cu.begin(), Cu.end());
  First.insert(First.end(), Hg.begin(), Hg.end());
  return First;
}

LibraryError makeError(LibraryErrorKind Kind, std::string Path,
                       std::string Message) {
  LibraryError Error;
  Error.Kind = Kind;
  Error.Path = std::move(Path);
  Error.Message = std::move(Message);
  return Error;
}

/// Opens one library by name or path; the table must be whole.
Expected<std::unique_ptr<EntryPoints>, LibraryError>
openLibrary(const std::string &Name) {
  using Answer = Expected<std::unique_ptr<EntryPoints>, LibraryError>;
  dlerror();
  void *Handle = dlopen(Name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!Handle) {
    const char *Text = dlerror();
    std::string Message = Text ? Text : "the loader gave no reason";
    // The loader blames the library itself only when it found no such file;
    // when a dependency is missing it names the dependency.
    bool Absent = Message.compare(0, Name.size() + 1, Name + ":") == 0 &&
                  Message.find("No such file") != std::string::npos;
    return Answer::failure(makeError(Absent ? LibraryErrorKind::NotFound
                                            : LibraryErrorKind::CannotOpen,
                                     Name, std::move(Message)));
  }
  // A name without a slash was looked for by the loader, which knows the path.
  std::string Path = Name;
  link_map *Map = nullptr;
  if (Name.find('/') == std::string::npos &&
      dlinfo(Handle, RTLD_DI_LINKMAP, &Map) == 0 && Map && Map->l_name[0])
    Path = Map->l_name;
  std::string Missing;
  std::unique_ptr<EntryPoints> Table = makeTable(Handle, Path, Missing);
  if (Table && isStub(*Table))
    return Answer::failure(makeError(LibraryErrorKind::Stub, Path, ""));
  if (Table)
    Missing = missingRequired(*Table);
  if (!Missing.empty())
    return Answer::failure(
        makeError(LibraryErrorKind::MissingEntryPoint, Path, Missing));
  return Answer(std::move(Table));
}

} // namespace

const char *abiPrefix(DriverAbi Abi) noexcept {
  return Abi == DriverAbi::Cu ? "cu" : "hg";
}

int driverVersion(const EntryPoints &Driver) noexcept {
  int Version = 0;
  return Driver.DriverGetVersion(&Version) == Result::Success ? Version : 0;
}

std::string EntryPointInfo::symbol(DriverAbi Abi) const {
  return std::string(abiPrefix(Abi)) + Name + Suffix;
}

bool EntryPointInfo::isIn(const EntryPointTable &Table) const noexcept {
  void *Address;
  std::memcpy(&Address, reinterpret_cast<const char *>(&Table) + Offset,
              sizeof(Address));
  return Address != nullptr;
}

std::string LibraryError::describe() const {
  std::string Text;
  switch (Kind) {
  case LibraryErrorKind::NotFound:
    Text = "No driver library was found.";
    break;
  case LibraryErrorKind::CannotOpen:
    Text = "The driver library " + Path + " cannot be opened: " + Message + ".";
    break;
  case LibraryErrorKind::MissingEntryPoint:
    Text = "The driver library " + Path + " has no " + Message +
           ": it is too old, or not a driver.";
    break;
  case LibraryErrorKind::Stub:
    Text =
        "The driver library " + Path + " is a stub for linking, not a driver.";
    break;
  }
  if (!Searched.empty()) {
    Text += " Looked for:";
    for (std::size_t I = 0; I < Searched.size(); ++I)
      Text += (I ? ", " : " ") + Searched[I];
    Text += ".";
  }
  return Text + " Install the device's driver, or set TRITON_PPU_LIBCUDA_PATH "
                "to its libcuda.so.1 or libhggc.so, or to the directory that "
                "holds it.";
}

DriverLibrary &DriverLibrary::get() noexcept {
  static DriverLibrary Library;
  return Library;
}

const EntryPoints *DriverLibrary::publish(const EntryPoints *Table,
                                          bool Replace) noexcept {
  const EntryPoints *Seen = nullptr;
  if (Current.compare_exchange_strong(Seen, Table, std::memory_order_acq_rel))
    return Table;
  // A table that somebody may be using is never freed, so the one replaced
  // stays; it happens at most once, when load() follows a choice that names
  // another library than the one mapped first.
  if (Replace && Seen->Init != Table->Init) {
    Current.store(Table, std::memory_order_release);
    return Table;
  }
  if (Table != Seen && Table != Stub.load(std::memory_order_acquire))
    delete Table;
  return Seen;
}

const EntryPoints *DriverLibrary::findMapped() noexcept {
  unsigned long long Adds = search::mappedCount();
  if (Adds == SeenAdds.load(std::memory_order_acquire)) {
    // Nothing new is mapped. What called itself a stub is asked again, so that
    // one wrong answer is not believed for ever.
    const EntryPoints *Doubtful = Stub.load(std::memory_order_acquire);
    if (Doubtful && !isStub(*Doubtful))
      return publish(Doubtful, /*Replace=*/false);
    return nullptr;
  }
  try {
    for (const std::string &Path : mappedCandidates()) {
      void *Handle = pinMapped(Path);
      std::string Missing;
      std::unique_ptr<EntryPoints> Table =
          Handle ? makeTable(Handle, Path, Missing) : nullptr;
      if (!Table)
        continue;
      if (!isStub(*Table)) {
        std::string Chosen = chosenLibrary();
        bool IsTheOne =
            Chosen.empty() || Path == Chosen || search::sameFile(Path, Chosen);
        const EntryPoints *Known = publish(Table.release(), /*Replace=*/false);
        if (IsTheOne && Known->Path == Path && missingRequired(*Known).empty())
          Whole.store(Known, std::memory_order_release);
        return Known;
      }
      const EntryPoints *None = nullptr;
      if (Stub.compare_exchange_strong(None, Table.get()))
        Table.release();
    }
  } catch (...) {
    return nullptr; // Out of memory: look again next time.
  }
  SeenAdds.store(Adds, std::memory_order_release);
  return nullptr;
}

Expected<const EntryPoints *, LibraryError> DriverLibrary::load() {
  using Answer = Expected<const EntryPoints *, LibraryError>;
  (void)mapped();
  if (const EntryPoints *Table = Whole.load(std::memory_order_acquire))
    return Table;
  auto Keep = [this](EntryPoints *Opened) -> Answer {
    const EntryPoints *Table = publish(Opened, /*Replace=*/true);
    Whole.store(Table, std::memory_order_release);
    return Table;
  };
  std::string Chosen = chosenLibrary();
  if (!Chosen.empty()) {
    auto Opened = openLibrary(Chosen);
    if (!Opened) {
      // An explicit choice is never passed over in silence.
      Opened.error().Searched = {Chosen + " (TRITON_PPU_LIBCUDA_PATH)"};
      return Answer::failure(std::move(Opened.error()));
    }
    return Keep(Opened->release());
  }

  std::vector<std::string> Names;
  if (const EntryPoints *Table = mapped())
    Names.push_back(Table->Path);
  Names.insert(Names.end(), {CuSoname, HgName});
  for (std::string &Path : sdkLibraries())
    Names.push_back(std::move(Path));

  LibraryError First;
  for (const std::string &Name : Names) {
    auto Opened = openLibrary(Name);
    if (Opened)
      return Keep(Opened->release());
    // The most telling error is kept: any file that is there and cannot be
    // used says more than that others are not there.
    if (First.Kind == LibraryErrorKind::NotFound)
      First = std::move(Opened.error());
  }
  if (First.Kind == LibraryErrorKind::NotFound) {
    First.Path.clear();
    First.Message.clear();
  }
  First.Searched = std::move(Names);
  return Answer::failure(std::move(First));
}

Expected<std::string, LibraryError> DriverLibrary::locate() const {
  using Answer = Expected<std::string, LibraryError>;
  LibraryError Error;
  std::string Chosen = chosenLibrary();
  if (!Chosen.empty()) {
    if (search::exists(Chosen))
      return Chosen;
    Error.Searched = {Chosen + " (TRITON_PPU_LIBCUDA_PATH)"};
    return Answer::failure(std::move(Error));
  }
  if (const EntryPoints *Table = Current.load(std::memory_order_acquire))
    return Table->Path;

  std::vector<std::string> Found;
  for (const char *Name : {CuSoname, HgName}) {
    if (std::string Path = search::onLoaderPath(Name); !Path.empty())
      Found.push_back(std::move(Path));
    else
      Error.Searched.push_back(Name);
  }
  for (std::string &Path : sdkLibraries())
    (search::exists(Path) ? Found : Error.Searched).push_back(std::move(Path));

  const EntryPoints *KnownStub = Stub.load(std::memory_order_acquire);
  for (std::string &Path : Found) {
    // Toolkits keep their link-time stubs in a directory of that name.
    if (Path.find("/stubs/") == std::string::npos &&
        !(KnownStub && search::sameFile(Path, KnownStub->Path)))
      return std::move(Path);
    Error.Kind = LibraryErrorKind::Stub;
    Error.Path = std::move(Path);
  }
  return Answer::failure(std::move(Error));
}

} // namespace flagtree
