//===- tensor_map_object.h - A tensor map as a Python object ----*- C++ -*-===//
//
// `CUtensorMap` for Python: 128 opaque bytes at an address aligned as the
// driver wants them, made by fill_tma_descriptor and taken by kernels as
// nvTmaDesc. It has no constructor of its own.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_TENSOR_MAP_OBJECT_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_TENSOR_MAP_OBJECT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "flagtree/Driver/DriverTypes.h"

namespace flagtree::python {

/// Creates the type and adds it to `Module` as PyCUtensorMap. Called once.
bool initTensorMapType(PyObject *Module);

/// A new object around a copy of `Map`, or null with an exception set.
PyObject *newTensorMap(const TensorMap &Map);

/// The map in `Object`, valid as long as it is; null if it is no tensor map.
TensorMap *tensorMapIn(PyObject *Object);

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_TENSOR_MAP_OBJECT_H
