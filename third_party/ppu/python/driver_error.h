//===- driver_error.h - Driver failures as Python exceptions ----*- C++ -*-===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_DRIVER_ERROR_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_DRIVER_ERROR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "flagtree/Launch/DriverFailure.h"

namespace flagtree::python {

/// Sets the type of errors.py, DriverError(message, call, code), that
/// raiseDriverError() raises; RuntimeError until then. Needs the GIL.
void setDriverErrorType(PyObject *Type);

/// Sets the DriverError for `Failure`; an absent entry point, where no call was
/// made, is a RuntimeError. It begins as Triton's does, "Triton Error [CUDA]:
/// <the driver's description>"; `Detail` follows what describe() says, and
/// after it, where that may be so, that an earlier launch may be the cause.
/// Needs the GIL.
void raiseDriverError(const EntryPoints &Driver, const DriverFailure &Failure,
                      const std::string &Detail);

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_DRIVER_ERROR_H
