//===- LibrarySearch.h - Where a shared library would be found --*- C++ -*-===//
//
// Looks for shared libraries by name without mapping any: among those mapped
// into this process, and as the dynamic loader would (LD_LIBRARY_PATH as it was
// when the process started, the loader's cache, the system's directories).
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DRIVER_LIBRARYSEARCH_H
#define FLAGTREE_DRIVER_LIBRARYSEARCH_H

#include <string>
#include <vector>

namespace flagtree::search {

/// How many libraries were ever mapped into this process. Grows whenever one
/// is.
unsigned long long mappedCount() noexcept;

/// The paths of the libraries mapped into this process, in load order.
std::vector<std::string> mappedLibraries();

/// The file that the dynamic loader would map for `dlopen(Name)` where Name has
/// no slash; empty if there is none.
std::string onLoaderPath(const std::string &Name);

/// Whether a file of that name exists.
bool exists(const std::string &Path) noexcept;

/// Whether both paths name the same existing file.
bool sameFile(const std::string &A, const std::string &B) noexcept;

/// The roots of the PPU SDK to look under: PPU_SDK and PPU_HOME as far as they
/// are set, else the default.
std::vector<std::string> sdkRoots();

/// The part after the last slash.
std::string baseName(const std::string &Path);

} // namespace flagtree::search

#endif // FLAGTREE_DRIVER_LIBRARYSEARCH_H
