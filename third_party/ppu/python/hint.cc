// The bindings of lib/Hint: triton._C.ppu.hint.

#include "flagtree/Hint/HintParser.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace flagtree;

void init_triton_ppu_hint(py::module_ &&m) {
  m.doc() = "The hint comments of kernel source (lib/Hint).";
  m.attr("MARKER") = py::str(HintMarker.data(), HintMarker.size());

  py::class_<SourceRange>(m, "SourceRange",
                          "A piece of one line: line from 1, byte column from "
                          "0, as in Python's ast.")
      .def_readonly("line", &SourceRange::Line)
      .def_readonly("column", &SourceRange::Column)
      .def_readonly("length", &SourceRange::Length);

  py::class_<Hint>(m, "Hint", "One `name[=value]` of a hint comment.")
      .def_readonly("name", &Hint::Name)
      .def_readonly("value", &Hint::Value)
      .def_readonly("range", &Hint::Range)
      .def_property_readonly(
          "statement",
          [](const Hint &Self) -> py::object {
            if (!Self.Statement)
              return py::none();
            return py::make_tuple(Self.Statement->First, Self.Statement->Last);
          },
          "First and last line of the statement the hint belongs to; None "
          "where it stands between statements.");

  py::class_<HintProblem>(m, "HintProblem",
                          "A hint comment that does not follow the grammar.")
      .def_readonly("range", &HintProblem::Range)
      .def_property_readonly("message", [](const HintProblem &Self) {
        // The source, and so a piece of it in the message, may be no UTF-8.
        return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(
            Self.Message.data(), static_cast<Py_ssize_t>(Self.Message.size()),
            "replace"));
      });

  m.def(
      "parse",
      [](py::bytes Source) {
        HintTable Table = parseHints(std::string_view(Source));
        return py::make_tuple(std::move(Table.Hints),
                              std::move(Table.Problems));
      },
      py::arg("source"),
      "Parses kernel source, UTF-8 encoded; returns its hints and problems.");
}
