//===- driver_error.cc - Driver failures as Python exceptions -------------===//

#include "driver_error.h"

#include "python_reference.h"

using namespace flagtree;

namespace {
PyObject *DriverErrorType = nullptr;
} // namespace

void python::setDriverErrorType(PyObject *Type) {
  // An old one is kept alive: another thread may be raising it.
  DriverErrorType = Py_NewRef(Type);
}

void python::raiseDriverError(const EntryPoints &Driver,
                              const DriverFailure &Failure,
                              const std::string &Detail) {
  std::string Text =
      "Triton Error [CUDA]: " + describeFailure(Driver, Failure) + Detail;
  if (!Failure.isMissingEntryPoint() && mayStemFromEarlierWork(Failure.Code))
    Text += "\nThe device reports this kind of error at whichever call comes "
            "next, so it may stem from an earlier launch; with "
            "CUDA_LAUNCH_BLOCKING=1 each launch reports its own";
  // The driver's own words, or a kernel's name, may be no UTF-8.
  const Reference Message(PyUnicode_DecodeUTF8(
      Text.data(), static_cast<Py_ssize_t>(Text.size()), "backslashreplace"));
  if (!Message)
    return;
  if (!DriverErrorType || Failure.isMissingEntryPoint()) {
    PyErr_SetObject(PyExc_RuntimeError, Message.get());
    return;
  }
  const Reference Error(PyObject_CallFunction(DriverErrorType, "Osi",
                                              Message.get(), Failure.Call,
                                              static_cast<int>(Failure.Code)));
  if (Error)
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(Error.get())),
                    Error.get());
}
