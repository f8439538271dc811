// The extension module triton._C.ppu. This file only mounts the parts; each
// part's bindings are in the file of its name and hold no logic of their own.

#include <pybind11/pybind11.h>

namespace py = pybind11;

void init_triton_ppu_device(py::module_ &&m);
void init_triton_ppu_hint(py::module_ &&m);
void init_triton_ppu_tix(py::module_ &&m);
void init_triton_ppu_launch(py::module_ &&m);

// Named so that PyInit_ppu below comes first: pybind11's own initialization
// waits for ever in a sub-interpreter of CPython up to 3.11.
PYBIND11_MODULE(ppu_parts, m) {
  m.doc() = "The C++ half of FlagTree's PPU backend.";
  init_triton_ppu_device(m.def_submodule("device"));
  init_triton_ppu_hint(m.def_submodule("hint"));
  init_triton_ppu_tix(m.def_submodule("tix"));
  init_triton_ppu_launch(m.def_submodule("launch"));
}

extern "C" PYBIND11_EXPORT PyObject *PyInit_ppu() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main())
    return PyInit_ppu_parts();
  PyErr_SetString(PyExc_ImportError,
                  "the PPU backend keeps one driver state per process and "
                  "cannot be imported in a sub-interpreter: import triton in "
                  "the main interpreter only");
  return nullptr;
}
