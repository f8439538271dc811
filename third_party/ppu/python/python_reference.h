//===- python_reference.h - An owned reference ------------------*- C++ -*-===//
//
// The one owner of a new reference, so that every way out of a function gives
// it back.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_PYTHON_REFERENCE_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_PYTHON_REFERENCE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace flagtree::python {

class Reference {
public:
  Reference() = default;
  /// Takes over a new reference; null is allowed.
  explicit Reference(PyObject *Owned) : Object(Owned) {}
  Reference(Reference &&Other) noexcept
      : Object(std::exchange(Other.Object, nullptr)) {}
  Reference &operator=(Reference &&Other) noexcept {
    std::swap(Object, Other.Object);
    return *this;
  }
  Reference(const Reference &) = delete;
  Reference &operator=(const Reference &) = delete;
  ~Reference() { Py_XDECREF(Object); }

  PyObject *get() const noexcept { return Object; }
  explicit operator bool() const noexcept { return Object != nullptr; }
  PyObject *release() noexcept { return std::exchange(Object, nullptr); }

private:
  PyObject *Object = nullptr;
};

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_PYTHON_REFERENCE_H
