//===- DriverLibrary.h - Finds and lazily opens the driver ------*- C++ -*-===//
//
// The vendor's driver library, found without linking it: either ABI (`cu*` of a
// libcuda.so.1, `hg*` of the PPU's own libhggc.so), one typed table of entry
// points made from EntryPoints.def.
//
// Contract
//  - mapped() never loads a library. It answers with the table of a driver that
//    somebody has already mapped into this process, or null. Once there is an
//    answer it is one atomic load, for the life of the process. Until then a
//    call takes the dynamic loader's list lock for a moment, and does real work
//    only when libraries were mapped since the last call.
//  - load() opens the driver if need be. Only a caller that is about to *use*
//    the device calls it. It never calls Init. A failure is not remembered: the
//    next call tries again. Where the driver to use is mapped and known
//    already, in this process or before it was forked, it does not enter the
//    dynamic loader, whose lock another thread may have held when this process
//    was forked.
//  - A table, once handed out, is never freed or changed, and the library is
//    never unmapped; both hold in children of fork as well.
//  - No lock of ours is held across anything, so a fork at any moment is safe.
//  - A stub library (it answers StubLibrary to everything) counts as absent:
//    mapped() is null, load() and locate() say that it is a stub.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DRIVER_DRIVERLIBRARY_H
#define FLAGTREE_DRIVER_DRIVERLIBRARY_H

#include "flagtree/Driver/DriverTypes.h"
#include "flagtree/Support/Expected.h"

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace flagtree {

/// The prefix of a driver library's symbols.
enum class DriverAbi : int { Cu, Hg };

/// "cu" or "hg".
const char *abiPrefix(DriverAbi Abi) noexcept;

/// The calls of one driver library. One marked Optional in EntryPoints.def may
/// be null, and one marked Required too in a table that comes from mapped()
/// rather than load().
struct EntryPointTable {
#define FLAGTREE_ENTRY_POINT(Name, Suffix, Introduced, Need, Return,           \
                             Arguments)                                        \
  Return(*Name) Arguments = nullptr;
#include "flagtree/Driver/EntryPoints.def"
};

/// A driver library's calls and what identifies it.
struct EntryPoints : EntryPointTable {
  DriverAbi Abi = DriverAbi::Cu;
  /// The path the library is mapped under.
  std::string Path;
};

/// What the driver's version is now said to be, e.g. 13000 for 13.0; 0 if the
/// driver does not say. It is not kept: the next answer may be better.
int driverVersion(const EntryPoints &Driver) noexcept;

/// How much this tree depends on an entry point; see EntryPoints.def.
enum class EntryPointNeed : int { Query, Required, Optional };

/// One row of EntryPoints.def, as data.
struct EntryPointInfo {
  const char *Name;
  const char *Suffix;
  int Introduced;
  EntryPointNeed Need;
  /// Where the pointer lies in EntryPointTable, in bytes.
  std::size_t Offset;

  /// The exported symbol, e.g. "cuModuleLoadData".
  std::string symbol(DriverAbi Abi) const;
  /// Whether Table holds this entry point.
  bool isIn(const EntryPointTable &Table) const noexcept;
};

/// All rows, in the order of EntryPoints.def.
inline constexpr EntryPointInfo EntryPointList[] = {
#define FLAGTREE_ENTRY_POINT(Name, Suffix, Introduced, Need, Return,           \
                             Arguments)                                        \
  {#Name, #Suffix, Introduced, EntryPointNeed::Need,                           \
   offsetof(EntryPointTable, Name)},
#include "flagtree/Driver/EntryPoints.def"
};

enum class LibraryErrorKind : int {
  /// No driver library anywhere in the search order.
  NotFound,
  /// A file is there but the loader refused it (wrong architecture, a missing
  /// dependency, no permission); Message is the loader's own.
  CannotOpen,
  /// It opened but lacks the entry point named in Message.
  MissingEntryPoint,
  /// It is a link-time stub, not a driver.
  Stub,
};

/// Why no driver library could be opened.
struct LibraryError {
  LibraryErrorKind Kind = LibraryErrorKind::NotFound;
  /// The library the error is about; empty for NotFound.
  std::string Path;
  std::string Message;
  /// Everything that was tried, in order.
  std::vector<std::string> Searched;

  /// The whole error as one sentence or two: what was wrong, where it was
  /// looked for, what to do.
  std::string describe() const;
};

class DriverLibrary {
public:
  /// The process's driver library.
  static DriverLibrary &get() noexcept;

  DriverLibrary() = default;
  DriverLibrary(const DriverLibrary &) = delete;
  DriverLibrary &operator=(const DriverLibrary &) = delete;

  /// The table of a driver already mapped into this process, else null.
  const EntryPoints *mapped() noexcept {
    const EntryPoints *Table = Current.load(std::memory_order_acquire);
    return __builtin_expect(Table != nullptr, 1) ? Table : findMapped();
  }

  /// Opens the driver: TRITON_PPU_LIBCUDA_PATH (a file, or a directory that
  /// holds one), whatever is mapped already, the loader's own path, then the
  /// SDK's directories. The table it answers with has every Required call.
  Expected<const EntryPoints *, LibraryError> load();

  /// Where load() would find the driver, without mapping anything. It only
  /// looks at names, so a file that turns out to be unusable is found as well.
  Expected<std::string, LibraryError> locate() const;

private:
  const EntryPoints *findMapped() noexcept;
  const EntryPoints *publish(const EntryPoints *Table, bool Replace) noexcept;

  std::atomic<const EntryPoints *> Current{nullptr};
  /// What load() answers with: the driver to use, with every Required call.
  std::atomic<const EntryPoints *> Whole{nullptr};
  /// A mapped library that called itself a stub when last asked.
  std::atomic<const EntryPoints *> Stub{nullptr};
  /// The loader's count of libraries ever mapped, at the last fruitless look.
  std::atomic<unsigned long long> SeenAdds{0};
};

} // namespace flagtree

#endif // FLAGTREE_DRIVER_DRIVERLIBRARY_H
