// The extension module triton._C.ppu. This file only mounts the parts; each
// part's bindings are in the file of its name and hold no logic of their own.

#include <pybind11/pybind11.h>

namespace py = pybind11;

void init_triton_ppu_hint(py::module_ &&m);
void init_triton_ppu_tix(py::module_ &&m);
void init_triton_ppu_launch(py::module_ &&m);

PYBIND11_MODULE(ppu, m) {
  m.doc() = "The C++ half of FlagTree's PPU backend.";
  init_triton_ppu_hint(m.def_submodule("hint"));
  init_triton_ppu_tix(m.def_submodule("tix"));
  init_triton_ppu_launch(m.def_submodule("launch"));
}
