//===- quick_integer.h - Reading a Python int in place ----------*- C++ -*-===//
//
// Most integers at a launch are small: sizes, strides, grids. Those are read
// from the object itself, without a call into the interpreter.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_QUICK_INTEGER_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_QUICK_INTEGER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace flagtree::python {

/// PyLong_AsLongLongAndOverflow for an int, `Long`, which cannot fail.
inline int64_t integerValue(PyObject *Long, int &Overflow) {
#if PY_VERSION_HEX >= 0x030C0000
  const auto *Object = reinterpret_cast<const PyLongObject *>(Long);
  if (__builtin_expect(PyUnstable_Long_IsCompact(Object), 1)) {
    Overflow = 0;
    return PyUnstable_Long_CompactValue(Object);
  }
#elif PY_VERSION_HEX >= 0x030B0000
  // The size is that of the magnitude in digits, with the sign of the value.
  const Py_ssize_t Size = Py_SIZE(Long);
  if (__builtin_expect(-1 <= Size && Size <= 1, 1)) {
    Overflow = 0;
    return Size * static_cast<int64_t>(
                      reinterpret_cast<PyLongObject *>(Long)->ob_digit[0]);
  }
#endif
  return PyLong_AsLongLongAndOverflow(Long, &Overflow);
}

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_QUICK_INTEGER_H
