//===- Symbols.h - Functions of open shared libraries -----------*- C++ -*-===//

#ifndef FLAGTREE_DRIVER_SYMBOLS_H
#define FLAGTREE_DRIVER_SYMBOLS_H

#include <cstring>
#include <dlfcn.h>
#include <string>

namespace flagtree {

/// Sets Slot to an open library's function of that name; null if it has none.
template <typename FunctionType>
void resolveSymbol(void *Library, const std::string &Symbol,
                   FunctionType &Slot) {
  void *Address = dlsym(Library, Symbol.c_str());
  static_assert(sizeof(Slot) == sizeof(Address));
  std::memcpy(&Slot, &Address, sizeof(Slot));
}

/// The handle of a library that somebody else has opened and will not close;
/// null if nobody has.
inline void *alreadyOpen(const char *Name) {
  void *Library = dlopen(Name, RTLD_LAZY | RTLD_NOLOAD);
  if (Library)
    dlclose(Library);
  return Library;
}

} // namespace flagtree

#endif // FLAGTREE_DRIVER_SYMBOLS_H
