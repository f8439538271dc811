// The extension module triton._C.ppu. This file only mounts the parts; each
// part's bindings are in the file of its name and hold no logic of their own.

#include <pybind11/pybind11.h>

namespace py = pybind11;

void init_triton_ppu_device(py::module_ &&m);

PYBIND11_MODULE(ppu, m) {
  m.doc() = "The C++ half of FlagTree's PPU backend.";
  init_triton_ppu_device(m.def_submodule("device"));
}
