//===- driver_error.cc - Driver failures as Python exceptions -------------===//

#include "driver_error.h"

using namespace flagtree;

void python::raiseDriverError(const EntryPoints &Driver,
                              const DriverFailure &Failure,
                              const std::string &Detail) {
  std::string Text =
      "Triton Error [CUDA]: " + describeFailure(Driver, Failure) + Detail;
  if (!Failure.isMissingEntryPoint() && mayStemFromEarlierWork(Failure.Code))
    Text += "\nThe device reports this kind of error at whichever call comes "
            "next, so it may stem from an earlier launch; with "
            "CUDA_LAUNCH_BLOCKING=1 each launch reports its own";
  PyErr_SetString(PyExc_RuntimeError, Text.c_str());
}
