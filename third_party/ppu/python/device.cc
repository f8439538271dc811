// Bindings of the device resolver: triton._C.ppu.device.
//
// The three functions that are called for every launch, every kernel's hints
// and every fork are plain C functions without arguments. Everything else goes
// through pybind11. What needs Python objects - torch's current device, the
// torch.device objects, which are made once per ordinal - lives here, because
// lib/ knows neither Python nor torch.

#include "device.h"

#include "flagtree/Device/DeviceResolver.h"
#include "flagtree/Device/ManagementLibrary.h"
#include "flagtree/Driver/Symbols.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace flagtree;

namespace {

constexpr const char *ErrorsModule = "triton.backends.ppu.errors";

// That module, kept by driver.py: a process may have emptied sys.modules, and
// libtriton cannot be imported anew.
PyObject *KeptErrors;

DeviceResolver &Resolver = DeviceResolver::get();

// torch.device objects by ordinal. They are immutable, and kept for the life of
// the process.
PyObject *TorchDevices[MaxKnownDevices];

// Called in a forked child that cannot use the driver; None if nobody asked.
PyObject *ForkCallback;

// --- torch, where somebody else has imported it ------------------------------

// An interned string, made once: looking a name up then compares pointers.
PyObject *interned(const char *Text, PyObject *&Slot) {
  if (__builtin_expect(!Slot, 0))
    Slot = PyUnicode_InternFromString(Text);
  return Slot;
}

// The module torch.cuda if somebody has imported it, borrowed; else null. Never
// imports. It is looked up only until it is there: torch cannot be imported
// anew.
PyObject *importedTorch() {
  static PyObject *Found, *Name;
  if (Found)
    return Found;
  PyObject *Modules = PyImport_GetModuleDict();
  PyObject *Module =
      Modules ? PyDict_GetItem(Modules, interned("torch.cuda", Name)) : nullptr;
  if (Module && PyModule_Check(Module))
    Found = Py_NewRef(Module);
  return Found;
}

// torch's own flag for "forked after I initialized", the second witness.
bool torchSaysForked() {
  PyObject *Torch = importedTorch();
  if (!Torch)
    return false;
  bool Forked = false;
  if (PyObject *Answer =
          PyObject_CallMethod(Torch, "_is_in_bad_fork", nullptr)) {
    Forked = PyObject_IsTrue(Answer) == 1;
    Py_DECREF(Answer);
  }
  PyErr_Clear(); // A torch that is half imported, or without CUDA.
  return Forked;
}

// Reads the second witness where our own note says nothing.
void hearTorch() {
  if (!forkstate::initializedHere() && !forkstate::forkedAfterInit() &&
      torchSaysForked())
    forkstate::noteForkedAfterInit();
}

// torch._C._cuda_getDevice once torch is live in this process, and the process
// generation for which that is known.
PyObject *TorchGetDevice;
std::uint32_t TorchGeneration;

// What that ends in, c10::cuda::GetDevice(c10::DeviceIndex *), without a Python
// call around it. Null where torch's libraries are named or built another way.
int (*TorchGetDeviceQuickly)(signed char *);

void findQuickGetDevice() {
  if (void *Library = alreadyOpen("libc10_cuda.so"))
    resolveSymbol(Library, "_ZN3c104cuda9GetDeviceEPa", TorchGetDeviceQuickly);
}

bool torchIsLive() {
  if (TorchGetDevice && TorchGeneration == forkstate::generation())
    return true;
  PyObject *Torch = importedTorch();
  static PyObject *Initialized;
  // In the module's own names: an attribute that its __getattr__ makes up, or a
  // torch without CUDA, is not a live one.
  if (!Torch ||
      PyDict_GetItem(PyModule_GetDict(Torch),
                     interned("_initialized", Initialized)) != Py_True)
    return false;
  if (torchSaysForked())
    return false;
  PyObject *Core = PyImport_ImportModule("torch._C"); // torch.cuda holds it.
  PyObject *GetDevice =
      Core ? PyObject_GetAttrString(Core, "_cuda_getDevice") : nullptr;
  Py_XDECREF(Core);
  PyErr_Clear();
  if (!GetDevice)
    return false;
  Py_XSETREF(TorchGetDevice, GetDevice);
  findQuickGetDevice();
  TorchGeneration = forkstate::generation();
  return true;
}

// The device torch would use on this thread; -1 if torch is not live here.
int torchDevice() {
  if (!torchIsLive())
    return -1;
  signed char Quick = -1;
  if (TorchGetDeviceQuickly && TorchGetDeviceQuickly(&Quick) == 0 && Quick >= 0)
    return Quick;
  PyObject *Answer = PyObject_CallNoArgs(TorchGetDevice);
  long Ordinal = Answer ? PyLong_AsLong(Answer) : -1;
  Py_XDECREF(Answer);
  PyErr_Clear();
  return static_cast<int>(Ordinal);
}

// --- the current device ------------------------------------------------------

// A str of what comes from the environment, the file system or a library and
// may be no UTF-8: bytes that are not are written as \xff.
py::str readable(const std::string &Text) {
  PyObject *Decoded = PyUnicode_DecodeUTF8(
      Text.data(), static_cast<Py_ssize_t>(Text.size()), "backslashreplace");
  if (!Decoded)
    throw py::error_already_set();
  return py::reinterpret_steal<py::str>(Decoded);
}

// Has errors.py raise the exception for an answer. Always leaves one set: the
// callers are C functions that no C++ exception may leave.
template <typename... Arguments>
void raiseFromPython(const char *Function, Arguments &&...Given) noexcept {
  try {
    py::object Errors = KeptErrors
                            ? py::reinterpret_borrow<py::object>(KeptErrors)
                            : py::object(py::module_::import(ErrorsModule));
    Errors.attr(Function)(std::forward<Arguments>(Given)...);
    PyErr_SetString(PyExc_SystemError, "an error function of the PPU backend "
                                       "returned without raising");
  } catch (py::error_already_set &Error) {
    Error.restore();
  } catch (const std::exception &Error) {
    PyErr_SetString(PyExc_RuntimeError, Error.what());
  }
}

void raiseOrdinal(const OrdinalAnswer &Answer, int Count) {
  if (Answer.Error == OrdinalError::Driver) {
    raiseFromPython("raise_driver_error", "CtxGetDevice",
                    static_cast<int>(Answer.DriverAnswer));
    return;
  }
  const char *Text = forkstate::deviceVariable();
  raiseFromPython("raise_device_variable", readable(Text ? Text : ""), Count);
}

// The device torch would use on this thread where the driver is live; nothing
// where torch is not.
bool torchOrdinal(OrdinalAnswer &Answer) {
  if (!forkstate::initializedHere())
    return false;
  int Ordinal = torchDevice();
  if (Ordinal < 0)
    return false;
  forkstate::noteOrdinal(Ordinal);
  Answer.Ordinal = Ordinal;
  Answer.Source = DeviceSource::Context;
  Answer.Error = OrdinalError::None;
  return true;
}

// On a host with several devices torch may have chosen one without making its
// context current: its device is what tensors are made on, so it wins where
// torch is live, and the driver need not be asked.
bool torchGoesFirst() {
  return forkstate::deviceCount() > 1 && forkstate::initializedHere();
}

OrdinalAnswer resolveOrdinal() {
  OrdinalAnswer Answer;
  const bool AskedTorch = torchGoesFirst();
  if (AskedTorch && torchOrdinal(Answer))
    return Answer;
  Answer = Resolver.ordinal();
  if (__builtin_expect(Answer.Source == DeviceSource::Context && Answer.ok() &&
                           forkstate::deviceCount() == 1,
                       1))
    return Answer;
  if (Answer.Source == DeviceSource::ForkNote)
    return Answer;
  if (Answer.Source == DeviceSource::Context && Answer.ok() &&
      forkstate::deviceCount() < 0 && Resolver.deviceCount() == 1)
    return Answer;
  // The resolver may just have found out that the driver is live.
  if (!AskedTorch)
    (void)torchOrdinal(Answer);
  return Answer;
}

} // namespace

int flagtree::python::currentDevice() {
  OrdinalAnswer Answer = resolveOrdinal();
  if (__builtin_expect(!Answer.ok(), 0)) {
    raiseOrdinal(Answer, -1);
    return -1;
  }
  // Whoever wrote the variable is told of a device that does not exist where it
  // is read, not where a kernel is launched.
  if (__builtin_expect(Answer.Source == DeviceSource::Variable, 0)) {
    int Count = -1;
    // May wait for the management library, or for a program that asks it.
    Py_BEGIN_ALLOW_THREADS;
    Count = Resolver.deviceCount();
    Py_END_ALLOW_THREADS;
    if (Count > 0 && Answer.Ordinal >= Count) {
      raiseOrdinal(Answer, Count);
      return -1;
    }
  }
  return Answer.Ordinal;
}

void flagtree::python::requireUsable() {
  if (forkstate::initializedHere())
    return;
  hearTorch();
  UseAnswer Answer;
  {
    py::gil_scoped_release Release;
    Answer = Resolver.makeUsable();
  }
  if (Answer.Kind == Usability::Usable)
    return;
  raiseFromPython("raise_unusable", static_cast<int>(Answer.Kind),
                  readable(Answer.Text), static_cast<int>(Answer.DriverAnswer),
                  Answer.Initializer, Answer.ProvenByInit);
  throw py::error_already_set();
}

namespace {

PyObject *getCurrentDevice(PyObject *, PyObject *) {
  int Ordinal = python::currentDevice();
  return Ordinal < 0 ? nullptr : PyLong_FromLong(Ordinal);
}

// Makes the torch.device; the only place that imports torch.
PyObject *makeTorchDevice(int Ordinal) {
  PyObject *Torch = PyImport_ImportModule("torch");
  PyObject *Device =
      Torch ? PyObject_CallMethod(Torch, "device", "si", "cuda", Ordinal)
            : nullptr;
  Py_XDECREF(Torch);
  if (Device && Ordinal < MaxKnownDevices)
    TorchDevices[Ordinal] = Py_NewRef(Device);
  return Device;
}

PyObject *getActiveTorchDevice(PyObject *, PyObject *) {
  int Ordinal = python::currentDevice();
  if (Ordinal < 0)
    return nullptr;
  if (__builtin_expect(Ordinal < MaxKnownDevices && TorchDevices[Ordinal], 1))
    return Py_NewRef(TorchDevices[Ordinal]);
  return makeTorchDevice(Ordinal);
}

PyObject *requireUsableFunction(PyObject *, PyObject *) {
  try {
    python::requireUsable();
  } catch (py::error_already_set &Error) {
    Error.restore();
    return nullptr;
  }
  Py_RETURN_NONE;
}

// --- around a fork -----------------------------------------------------------

PyObject *beforeFork(PyObject *, PyObject *) {
  if (__builtin_expect(forkstate::isNoteComplete(), 1))
    Py_RETURN_NONE;
  OrdinalAnswer Torch;
  const bool AskedTorch = torchGoesFirst();
  if (AskedTorch && torchOrdinal(Torch)) {
    Resolver.noteDevices();
    Py_RETURN_NONE;
  }
  Resolver.noteBeforeFork();
  // As above, it may just have been found out.
  if (!AskedTorch && forkstate::deviceCount() != 1)
    (void)torchOrdinal(Torch);
  Py_RETURN_NONE;
}

PyObject *afterForkInChild(PyObject *, PyObject *) {
  if (ForkCallback && forkstate::forkedAfterInit())
    return PyObject_CallNoArgs(ForkCallback);
  Py_RETURN_NONE;
}

PyMethodDef Functions[] = {
    {"get_current_device", getCurrentDevice, METH_NOARGS,
     "get_current_device() -> int\n\nThe calling thread's device ordinal. "
     "Initializes nothing."},
    {"get_active_torch_device", getActiveTorchDevice, METH_NOARGS,
     "get_active_torch_device() -> torch.device\n\nThe calling thread's device "
     "as torch names it. Initializes nothing; imports torch to make the object "
     "the first time."},
    {"require_usable", requireUsableFunction, METH_NOARGS,
     "require_usable() -> None\n\nOpens and initializes the driver unless it "
     "is "
     "live already. Raises what errors.py documents where it cannot be used."},
    {"_before_fork", beforeFork, METH_NOARGS,
     "Notes the driver's state for a child."},
    {"_after_fork_in_child", afterForkInChild, METH_NOARGS,
     "Tells the backend about a child that cannot use the driver."},
    {nullptr, nullptr, 0, nullptr}};

// Registers the hooks once per interpreter, however often the module is
// imported: they cannot be taken back.
void registerForkHooks(const py::module_ &Module) {
  py::handle Kept = PyInterpreterState_GetDict(PyInterpreterState_Get());
  const char *Key = "flagtree.ppu.fork_hooks";
  if (!Kept || PyDict_GetItemString(Kept.ptr(), Key))
    return;
  py::module_::import("os").attr("register_at_fork")(
      py::arg("before") = Module.attr("_before_fork"),
      py::arg("after_in_child") = Module.attr("_after_fork_in_child"));
  PyDict_SetItemString(Kept.ptr(), Key, Py_True);
}

py::dict presenceAsDict() {
  Presence Answer;
  {
    py::gil_scoped_release Release;
    Answer = Resolver.presence();
  }
  static constexpr const char *Sources[] = {"none", "device nodes",
                                            "management library"};
  static constexpr const char *Reasons[] = {
      "present", "no driver library", "stub library", "no device", "hidden"};
  py::dict Result;
  Result["present"] = Answer.present();
  Result["visible"] = Answer.Visible.Count;
  Result["source"] = Sources[static_cast<int>(Answer.Source)];
  Result["reason"] = Reasons[static_cast<int>(Answer.Absent)];
  Result["driver"] = readable(Answer.DriverPath);
  Result["explanation"] = readable(Answer.Explanation);
  return Result;
}

py::dict capabilityAsDict(int Ordinal) {
  hearTorch();
  CapabilityAnswer Answer;
  {
    py::gil_scoped_release Release;
    Answer = Resolver.capability(Ordinal);
  }
  static constexpr const char *Reasons[] = {
      "known", "no management library", "no such device", "ambiguous order"};
  py::dict Result;
  Result["major"] = Answer.Compute.Major;
  Result["minor"] = Answer.Compute.Minor;
  Result["source"] = sourceName(Answer.Source);
  Result["reason"] = Reasons[static_cast<int>(Answer.Why)];
  Result["driver_answer"] = static_cast<int>(Answer.DriverAnswer);
  Result["driver_call"] = Answer.DriverCall;
  Result["detail"] = readable(Answer.Detail);
  return Result;
}

} // namespace

void init_triton_ppu_device(py::module_ &&m) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw py::import_error(
        "the PPU backend keeps one driver state per process and cannot be "
        "imported in a sub-interpreter: import triton in the main interpreter "
        "only");
  m.doc() = "The device resolver: answers without initializing the driver.";
  forkstate::install();
  if (PyModule_AddFunctions(m.ptr(), Functions) != 0)
    throw py::error_already_set();
  registerForkHooks(m);

  m.def(
      "state",
      [] {
        hearTorch();
        StateAnswer Answer;
        {
          py::gil_scoped_release Release;
          Answer = Resolver.state();
        }
        return std::string(stateName(Answer.State));
      },
      "The process's state: 'Absent', 'Uninitialized', 'Initialized' or "
      "'ForkedAfterInit'.");
  m.def(
      "driver_answer",
      [] { return static_cast<int>(Resolver.liveness().DriverAnswer); },
      "The driver's own answer to DeviceGet(0), a result code; 3 if it is not "
      "mapped.");
  m.def(
      "is_active",
      [] {
        py::gil_scoped_release Release;
        return Resolver.state().State != ProcessState::Absent;
      },
      "Whether a driver and a visible device are there.");
  m.def(
      "ordinal",
      [] {
        OrdinalAnswer Answer = resolveOrdinal();
        if (!Answer.ok()) {
          raiseOrdinal(Answer, -1);
          throw py::error_already_set();
        }
        return py::make_tuple(Answer.Ordinal, sourceName(Answer.Source));
      },
      "The calling thread's device ordinal and where it comes from.");
  m.def(
      "device_count",
      [] {
        py::gil_scoped_release Release;
        return Resolver.deviceCount();
      },
      "The number of visible devices; -1 if it is unknown.");
  m.def("capability", capabilityAsDict, py::arg("ordinal"),
        "A device's compute capability, its source, or why it is unknown.");
  m.def("presence", presenceAsDict,
        "What is present, seen without the driver.");
  m.def(
      "set_management_program",
      [](std::string Path) { setManagementProgram(std::move(Path)); },
      py::arg("path"),
      "Names the program that a forked child asks for the host's devices "
      "where it may not call the management library itself.");
  m.def(
      "initializer", [] { return forkstate::initializer(); },
      "The process that initialized the driver: this one, or the ancestor "
      "that did before it forked. 0 if it is not known.");
  m.def("forked_after_init", forkstate::forkedAfterInit,
        "Whether an ancestor was initialized when it forked, as far as known.");
  m.def(
      "claim_fork_warning",
      [] {
        // Kept here and not in Python, so that importing the backend anew does
        // not make a process warn again.
        static std::int64_t Claimed = -1;
        bool First = Claimed != forkstate::generation();
        Claimed = forkstate::generation();
        return First;
      },
      "True the first time it is called in a process, then false.");
  m.def("torch_is_live", torchIsLive,
        "Whether torch is imported and has initialized CUDA in this process.");
  m.def("hear_torch", hearTorch,
        "Reads torch's own bad-fork flag where torch is imported.");
  m.def(
      "keep_errors",
      [](py::module_ Errors) {
        Py_XSETREF(KeptErrors, Errors.release().ptr());
      },
      py::arg("module"), "Sets the module whose functions raise the errors.");
  m.def(
      "set_fork_callback",
      [](py::object Callback) {
        PyObject *New = Callback.is_none() ? nullptr : Callback.release().ptr();
        Py_XSETREF(ForkCallback, New);
      },
      py::arg("callback"),
      "Sets what is called, without arguments, in a child forked from an "
      "initialized process; None for nothing.");
  m.def(
      "hold_device_variable",
      [](const std::optional<std::string> &Value) {
        return forkstate::holdDeviceVariable(Value ? Value->c_str() : nullptr);
      },
      py::arg("value"),
      "Makes this process read FLAGTREE_PPU_DEVICE as value until released.");
  m.def("release_device_variable", forkstate::releaseDeviceVariable,
        "Ends hold_device_variable.");
  m.def(
      "library",
      []() -> py::object {
        const EntryPoints *Calls = DriverLibrary::get().mapped();
        if (!Calls)
          return py::none();
        py::dict Result;
        Result["path"] = readable(Calls->Path);
        Result["abi"] = abiPrefix(Calls->Abi);
        Result["version"] = driverVersion(*Calls);
        return Result;
      },
      "The driver mapped into this process, or None. Loads nothing.");
  m.def(
      "result_text",
      [](int Code) {
        auto Value = static_cast<Result>(Code);
        return py::make_tuple(resultName(Value), resultDescription(Value));
      },
      py::arg("code"), "A result code's name and description.");
}
