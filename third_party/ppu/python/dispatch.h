//===- dispatch.h - kernel[grid](...) without Triton's binder ---*- C++ -*-===//
//
// What `kernel[grid]` answers for a plain JITFunction: a callable that finds
// the compiled kernel of a call by the call's fingerprint and launches it.
// Whatever it does not know - the first call of a kind, arguments without a
// fingerprint, a function with hooks, anything replaced by hand - goes to
// JITFunction.run, whose result is remembered under the fingerprint.
//
// Contract: a call does what JITFunction.run would have done.
//  - A remembered kernel is used only while it still is the one in
//    JITFunction.device_caches, so clearing or replacing those works as ever.
//  - The globals that a kernel uses are compared with the values it was
//  compiled
//    for at every call, and TRITON_DEBUG and the instrumentation mode are part
//    of what a kernel is found by.
//  - Device and stream are asked of the active driver at every call, and the
//  launcher, the function and its packed metadata of the compiled kernel.
//  - A method of Triton's that a launch goes through and that somebody has
//  replaced is called: JITFunction.run, KernelInterface.__getitem__ and
//  CompiledKernel's run and launch_metadata are looked at before they are
//  passed over. launch_metadata alone is left out where no hook is there to
//  see it.
//  - A function with a parameter that JITFunction.run sets or takes itself
//  (such as `debug`) is left to Triton altogether.
//  - Calls may nest as deep as Python functions may.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_DISPATCH_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_DISPATCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace flagtree::python {

/// Creates the types and adds to `Module`:
///  - `bind_dispatch(jit_function, run, kernel_interface, compiled_kernel,
///    compiled_getitem, knobs, driver, constant, no_default)`: what dispatch
///    needs of Triton, whose methods still are the base's. Called once;
///  - `grid_launcher`: what to set as `JITFunction.__getitem__`;
///  - `compiled_grid_launcher`: what to set as `CompiledKernel.__getitem__`;
///  - `fingerprint(function, args, kwargs)`: the words of a call as bytes, or
///    None if it has none. For tests.
bool initDispatch(PyObject *Module);

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_DISPATCH_H
