// The bindings of lib/TIX: triton._C.ppu.tix.

#include "flagtree/TIX/Writer.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace flagtree;

namespace {

/// Text of the module as Python's; what is no UTF-8 is replaced, since the
/// source of a kernel may hold anything.
py::str decoded(const std::string &text) {
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

} // namespace

void init_triton_ppu_tix(py::module_ &&m) {
  m.doc() = "The PPU's assembly-dialect writer (lib/TIX).";
  m.attr("DATA_LAYOUT") =
      py::str(tix::PPUDataLayout.data(), tix::PPUDataLayout.size());

  py::class_<tix::Diagnostic>(
      m, "Diagnostic", "What keeps a module from being written, and where.")
      .def_property_readonly(
          "kind",
          [](const tix::Diagnostic &self) {
            return self.kind == tix::DiagnosticKind::Refused ? "refused"
                                                             : "malformed";
          },
          "'refused': no encoding is known; 'malformed': not what Triton "
          "writes.")
      .def_property_readonly(
          "name",
          [](const tix::Diagnostic &self) { return decoded(self.name); })
      .def_readonly("reason", &tix::Diagnostic::reason)
      .def_readonly("ir_line", &tix::Diagnostic::irLine)
      .def_property_readonly(
          "source",
          [](const tix::Diagnostic &self) {
            py::list places;
            for (const tix::SourceLocation &place : self.source)
              places.append(py::make_tuple(decoded(place.file), place.line,
                                           place.column));
            return places;
          },
          "(file, line, column) of each call, the kernel's own line last.")
      .def("__str__",
           [](const tix::Diagnostic &self) { return decoded(self.message()); });

  py::class_<tix::Result>(m, "Result", "A converted module.")
      .def_property_readonly(
          "text", [](const tix::Result &self) { return decoded(self.text); },
          "The module; empty if there are diagnostics.")
      .def_property_readonly("kernels",
                             [](const tix::Result &self) {
                               py::list names;
                               for (const std::string &name : self.kernels)
                                 names.append(decoded(name));
                               return names;
                             })
      .def_readonly("diagnostics", &tix::Result::diagnostics);

  m.def(
      "convert",
      [](const std::string &text, bool prefixed, bool undo,
         std::optional<uint32_t> threads, uint32_t sharedBytes) {
        tix::Options options;
        options.dialect = prefixed ? tix::Dialect::SDK21 : tix::Dialect::SDK20;
        options.direction =
            undo ? tix::Direction::ToCUDA : tix::Direction::ToTIX;
        options.threads = threads;
        options.sharedBytes = sharedBytes;
        py::gil_scoped_release release;
        return tix::convert(text, options);
      },
      py::arg("text"), py::kw_only(), py::arg("prefixed") = true,
      py::arg("undo") = false, py::arg("threads") = py::none(),
      py::arg("shared_bytes") = 0,
      "Rewrites the text of an LLVM module between CUDA's and the PPU's form.\n"
      "\n"
      "prefixed: whether opcodes have the prefix `ppu.` (SDK 2.1 and later).\n"
      "undo: from the PPU's form back to CUDA's.\n"
      "threads: threads per block, for kernels whose IR does not say.\n"
      "shared_bytes: dynamic shared memory of each kernel, in bytes.");
}
