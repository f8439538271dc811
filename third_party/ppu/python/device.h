// What the device bindings offer to the other bindings of this module.

#ifndef FLAGTREE_PPU_PYTHON_DEVICE_H
#define FLAGTREE_PPU_PYTHON_DEVICE_H

namespace flagtree::python {

// To be called with the GIL held before the driver is *used*: opens and
// initializes it, unless it is live already (then this is two loads). Throws
// pybind11::error_already_set with the exception of errors.py that names the
// cause: ForkedDriverError, NoDeviceError, DriverLibraryError, DriverError.
void requireUsable();

// The ordinal that get_current_device answers, or -1 with a Python exception
// set. Needs the GIL.
int currentDevice();

} // namespace flagtree::python

#endif // FLAGTREE_PPU_PYTHON_DEVICE_H
