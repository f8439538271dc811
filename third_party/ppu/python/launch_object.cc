//===- launch_object.cc - A kernel's launcher as a Python object ----------===//

#include "launch_object.h"

#include "driver_error.h"
#include "python_reference.h"
#include "quick_integer.h"

#include "flagtree/Device/ForkState.h"
#include "flagtree/Launch/KernelLaunch.h"

#include <limits>
#include <new>
#include <structmember.h>
#include <utility>

using namespace flagtree;
using namespace flagtree::python;

namespace {

PyTypeObject *LauncherType = nullptr;
LaunchEnvironment Environment;
PyObject *CallsName = nullptr;
PyObject *GetName = nullptr;

/// The packed metadata that a launcher was called with last and what is in
/// them: they are the same object at every launch of a compiled kernel.
struct KnownMetadata {
  /// A tuple of three plain ints, or null.
  PyObject *Packed = nullptr;
  unsigned NumWarps = 1, NumCTAs = 1, SharedMemoryBytes = 0;
};

struct LauncherObject {
  PyObject_HEAD vectorcallfunc Call;
  LauncherConfig *Config;
  KnownMetadata Known;
};

/// The arguments in front of the kernel's own.
enum FixedArgument : size_t {
  GridX,
  GridY,
  GridZ,
  StreamHandle,
  FunctionHandle,
  PackedMetadata,
  LaunchMetadata,
  EnterHook,
  ExitHook,
  NumFixedArguments
};

/// Blocks along a grid's second or third axis, on every CUDA device.
constexpr unsigned MaxGridYZ = 65535;

/// The hooks seen last and their dictionaries of attributes. Asking a chain for
/// its list the ordinary way, twice a launch, would be a quarter of all that a
/// launch executes on the host. Written under the GIL.
struct KnownHook {
  PyObject *Hook = nullptr;
  PyObject *Attributes = nullptr;
};
KnownHook KnownHooks[2];
unsigned NextKnownHook = 0;

/// The dictionary that `Hook`, a chain, keeps its attributes in, or null with
/// an exception set. Nobody assigns a chain's `__dict__`.
Reference attributesOf(PyObject *Hook) {
  for (const KnownHook &Known : KnownHooks)
    if (Known.Hook == Hook)
      return Reference(Py_NewRef(Known.Attributes));
  Reference Attributes(PyObject_GenericGetDict(Hook, nullptr));
  if (!Attributes)
    return Attributes;
  KnownHook &Slot = KnownHooks[NextKnownHook++ % 2];
  // Released last: that can run code which comes back here.
  const Reference OldHook(std::exchange(Slot.Hook, Py_NewRef(Hook)));
  const Reference OldAttributes(
      std::exchange(Slot.Attributes, Py_NewRef(Attributes.get())));
  return Attributes;
}

bool callHook(PyObject *Hook, PyObject *Metadata) {
  const int Empty = isEmptyHook(Hook);
  if (Empty != 0)
    return Empty > 0;
  return static_cast<bool>(Reference(PyObject_CallOneArg(Hook, Metadata)));
}

bool readUnsigned(PyObject *Object, unsigned &Value, const char *What) {
  int64_t Wide;
  if (PyLong_CheckExact(Object)) {
    int Overflow;
    Wide = integerValue(Object, Overflow);
    if (!Overflow && 0 <= Wide && Wide <= std::numeric_limits<int>::max()) {
      Value = static_cast<unsigned>(Wide);
      return true;
    }
  }
  if (!convertInteger(Object, {0, std::numeric_limits<int>::max()}, What, "i32",
                      Wide))
    return false;
  Value = static_cast<unsigned>(Wide);
  return true;
}

/// Reads (num_warps, num_ctas, shared), which the backend packed.
bool readMetadata(PyObject *Packed, KnownMetadata &Known, LaunchShape &Shape) {
  if (Packed == Known.Packed) {
    Shape.NumWarps = Known.NumWarps;
    Shape.NumCTAs = Known.NumCTAs;
    Shape.SharedMemoryBytes = Known.SharedMemoryBytes;
    return true;
  }
  if (!PyTuple_Check(Packed) || PyTuple_GET_SIZE(Packed) < 3) {
    PyErr_SetString(PyExc_TypeError, "kernel_metadata must be a tuple of "
                                     "num_warps, num_ctas and shared");
    return false;
  }
  if (!readUnsigned(PyTuple_GET_ITEM(Packed, 0), Shape.NumWarps, "num_warps") ||
      !readUnsigned(PyTuple_GET_ITEM(Packed, 1), Shape.NumCTAs, "num_ctas") ||
      !readUnsigned(PyTuple_GET_ITEM(Packed, 2), Shape.SharedMemoryBytes,
                    "shared"))
    return false;
  // Only what can neither change nor be part of a cycle is kept.
  bool IsPlain = PyTuple_CheckExact(Packed) && PyTuple_GET_SIZE(Packed) == 3;
  for (Py_ssize_t I = 0; IsPlain && I != 3; ++I)
    IsPlain = PyLong_CheckExact(PyTuple_GET_ITEM(Packed, I));
  if (IsPlain) {
    const Reference Dropped(std::exchange(Known.Packed, Py_NewRef(Packed)));
    Known.NumWarps = Shape.NumWarps;
    Known.NumCTAs = Shape.NumCTAs;
    Known.SharedMemoryBytes = Shape.SharedMemoryBytes;
  }
  return true;
}

/// One launch's scratch memory: its address, and what keeps it alive.
struct Scratch {
  Reference Owner;
  uint64_t Address = 0;
};

bool allocateScratch(const EntryPoints &Driver, const LauncherConfig &Config,
                     const ScratchRequest &Request, const LaunchShape &Shape,
                     PyObject *Stream, const char *Name, Scratch &Out) {
  if (Request.Size == 0)
    return true;
  const Reference Allocate(
      PyObject_CallMethodNoArgs(Request.Allocator, GetName));
  if (!Allocate)
    return false;
  const unsigned __int128 Total = static_cast<unsigned __int128>(Shape.GridX) *
                                  Shape.GridY * Shape.GridZ * Config.NumCTAs *
                                  static_cast<uint64_t>(Request.Size);
  if (Total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    PyErr_Format(PyExc_OverflowError,
                 "kernel '%U': %s for a grid of %u x %u x %u is more than a "
                 "64-bit size holds",
                 Config.KernelName, Name, Shape.GridX, Shape.GridY,
                 Shape.GridZ);
    return false;
  }
  Out.Owner = Reference(PyObject_CallFunction(
      Allocate.get(), "LLO", static_cast<long long>(Total),
      static_cast<long long>(Request.Alignment), Stream));
  if (!Out.Owner)
    return false;
  Argument Arg;
  Arg.Name = Name;
  Arg.Position = -1;
  return convertPointer(Driver, Arg, Out.Owner.get(), Config.KernelName,
                        Out.Address);
}

/// Calls EnsureUsable().
bool ensureUsable() {
  if (!Environment.EnsureUsable) {
    PyErr_SetString(PyExc_RuntimeError,
                    "no driver is loaded and nothing was set that loads it");
    return false;
  }
  return static_cast<bool>(
      Reference(PyObject_CallNoArgs(Environment.EnsureUsable)));
}

/// Gives a thread without a context that of the stream's device, or else of
/// the current one.
bool adopt(const EntryPoints &Driver, Stream LaunchStream) {
  int64_t Ordinal = 0;
  if (Environment.CurrentDevice) {
    const Reference Answer(PyObject_CallNoArgs(Environment.CurrentDevice));
    if (!Answer ||
        !convertInteger(Answer.get(), {0, std::numeric_limits<int>::max()},
                        "the current device", "i32", Ordinal))
      return false;
  }
  if (MaybeFailure Failure =
          adoptContext(Driver, LaunchStream, static_cast<int>(Ordinal))) {
    raiseDriverError(Driver, *Failure,
                     " while giving this thread a context to launch in");
    return false;
  }
  return true;
}

std::string nameOf(PyObject *KernelName) {
  const char *Name = PyUnicode_AsUTF8(KernelName);
  if (Name)
    return Name;
  PyErr_Clear();
  return "?";
}

/// The driver, with a context current in this thread.
const EntryPoints *readyDriver(const LauncherConfig &Config,
                               Stream LaunchStream) {
  const EntryPoints *Driver = DriverLibrary::get().mapped();
  Context Current = nullptr;
  if (__builtin_expect(Driver && Driver->CtxGetCurrent &&
                           Driver->CtxGetCurrent(&Current) == Result::Success &&
                           Current && !forkstate::forkedAfterInit(),
                       1))
    return Driver;
  Driver = usableDriver();
  if (!Driver)
    return nullptr;
  if (MaybeFailure Failure = currentContext(*Driver, Current)) {
    raiseDriverError(*Driver, *Failure,
                     ", before launching kernel '" + nameOf(Config.KernelName) +
                         "'");
    return nullptr;
  }
  return Current || adopt(*Driver, LaunchStream) ? Driver : nullptr;
}

void raiseLaunchError(const EntryPoints &Driver, const LauncherConfig &Config,
                      const LaunchShape &Shape, const DriverFailure &Failure) {
  std::string Detail =
      ", launching kernel '" + nameOf(Config.KernelName) + "' with grid (" +
      std::to_string(Shape.GridX * Shape.NumCTAs) + ", " +
      std::to_string(Shape.GridY) + ", " + std::to_string(Shape.GridZ) +
      "), block (" + std::to_string(WarpSize * Shape.NumWarps) +
      ", 1, 1) and " + std::to_string(Shape.SharedMemoryBytes) +
      " bytes of shared memory";
  if (Shape.NumCTAs != 1)
    Detail += ", clusters of " + std::to_string(Shape.NumCTAs);
  if (Shape.Cooperative)
    Detail += ", cooperatively";
  if (Shape.ProgrammaticDependentLaunch)
    Detail += ", with programmatic dependent launch";
  if (Failure.Code == Result::InvalidValue &&
      (Shape.GridY > MaxGridYZ || Shape.GridZ > MaxGridYZ))
    Detail += "; the second and third axis of a grid go up to " +
              std::to_string(MaxGridYZ);
  raiseDriverError(Driver, Failure, Detail);
}

/// Everything a call does once its argument count is right.
bool launch(const LauncherConfig &Config, KnownMetadata &Known,
            PyObject *const *Args) {
  LaunchShape Shape;
  Shape.Cooperative = Config.Cooperative;
  Shape.ProgrammaticDependentLaunch = Config.ProgrammaticDependentLaunch;
  if (!readUnsigned(Args[GridX], Shape.GridX, "gridX") ||
      !readUnsigned(Args[GridY], Shape.GridY, "gridY") ||
      !readUnsigned(Args[GridZ], Shape.GridZ, "gridZ") ||
      !readMetadata(Args[PackedMetadata], Known, Shape))
    return false;
  const bool IsEmpty = !Shape.GridX || !Shape.GridY || !Shape.GridZ;
  // Handles are addresses: taken as they are, like Triton does.
  const uint64_t RawStream = PyLong_AsUnsignedLongLongMask(Args[StreamHandle]);
  if (RawStream == static_cast<uint64_t>(-1) && PyErr_Occurred())
    return false;
  const uint64_t RawFunction =
      PyLong_AsUnsignedLongLongMask(Args[FunctionHandle]);
  if (RawFunction == static_cast<uint64_t>(-1) && PyErr_Occurred())
    return false;
  const auto LaunchStream = reinterpret_cast<Stream>(RawStream);

  const EntryPoints *Driver = readyDriver(Config, LaunchStream);
  if (!Driver)
    return false;

  Scratch Global, Profile;
  if (!IsEmpty &&
      (!allocateScratch(*Driver, Config, Config.GlobalScratch, Shape,
                        Args[StreamHandle], "global scratch", Global) ||
       !allocateScratch(*Driver, Config, Config.ProfileScratch, Shape,
                        Args[StreamHandle], "profile scratch", Profile)))
    return false;

  ParameterBuffer Parameters(Config.Plan.parameterCount());
  ArgumentWriter Writer(*Driver, Config.KernelName, Config.Encodings,
                        Parameters);
  if (!Writer.write(Config.Plan, Args + NumFixedArguments))
    return false;
  Parameters.set(Config.Plan.scratchParameter(), Global.Address);
  Parameters.set(Config.Plan.scratchParameter() + 1, Profile.Address);

  if (!callHook(Args[EnterHook], Args[LaunchMetadata]))
    return false;
  if (!IsEmpty) {
    MaybeFailure Failure;
    PyThreadState *State = PyEval_SaveThread();
    Failure = launchKernel(*Driver, Shape, LaunchStream,
                           reinterpret_cast<Function>(RawFunction),
                           Parameters.addresses());
    PyEval_RestoreThread(State);
    if (Failure) {
      raiseLaunchError(*Driver, Config, Shape, *Failure);
      return false;
    }
  }
  return callHook(Args[ExitHook], Args[LaunchMetadata]);
}

PyObject *callLauncher(PyObject *Self, PyObject *const *Args, size_t NArgsF,
                       PyObject *KeywordNames) {
  auto &Object = *reinterpret_cast<LauncherObject *>(Self);
  const LauncherConfig &Config = *Object.Config;
  const auto Given = static_cast<size_t>(PyVectorcall_NARGS(NArgsF));
  const size_t Taken = Config.Plan.steps().size();
  if (KeywordNames && PyTuple_GET_SIZE(KeywordNames) != 0) {
    PyErr_Format(PyExc_TypeError,
                 "the launcher of kernel '%U' takes no keyword arguments, "
                 "given %R",
                 Config.KernelName, KeywordNames);
    return nullptr;
  }
  if (Given != NumFixedArguments + Taken) {
    if (Given < NumFixedArguments)
      PyErr_Format(PyExc_TypeError,
                   "the launcher of kernel '%U' takes grid (3), stream, "
                   "function, packed metadata, launch metadata, two hooks and "
                   "then the kernel's arguments; given %zu values in all",
                   Config.KernelName, Given);
    else
      PyErr_Format(PyExc_TypeError,
                   "kernel '%U' takes %zu arguments, given %zu",
                   Config.KernelName, Taken, Given - NumFixedArguments);
    return nullptr;
  }
  try {
    if (!launch(Config, Object.Known, Args))
      return nullptr;
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  Py_RETURN_NONE;
}

void deallocate(PyObject *Self) {
  LauncherConfig *Config = reinterpret_cast<LauncherObject *>(Self)->Config;
  if (Config) {
    Py_XDECREF(Config->KernelName);
    Py_XDECREF(Config->GlobalScratch.Allocator);
    Py_XDECREF(Config->ProfileScratch.Allocator);
    delete Config;
  }
  Py_XDECREF(reinterpret_cast<LauncherObject *>(Self)->Known.Packed);
  PyTypeObject *Type = Py_TYPE(Self);
  Type->tp_free(Self);
  Py_DECREF(Type);
}

PyObject *represent(PyObject *Self) {
  const LauncherConfig &Config =
      *reinterpret_cast<LauncherObject *>(Self)->Config;
  return PyUnicode_FromFormat("<KernelLauncher of '%U', %zu arguments>",
                              Config.KernelName,
                              Config.Plan.arguments().size());
}

template <int64_t ScratchRequest::*Field, ScratchRequest LauncherConfig::*Which>
PyObject *getScratch(PyObject *Self, void *) {
  return PyLong_FromLongLong(
      reinterpret_cast<LauncherObject *>(Self)->Config->*Which.*Field);
}

template <auto Field> PyObject *getFlag(PyObject *Self, void *) {
  return PyBool_FromLong(
      reinterpret_cast<LauncherObject *>(Self)->Config->*Field);
}

PyObject *getNumCTAs(PyObject *Self, void *) {
  return PyLong_FromUnsignedLong(
      reinterpret_cast<LauncherObject *>(Self)->Config->NumCTAs);
}

PyObject *getName(PyObject *Self, void *) {
  return Py_NewRef(
      reinterpret_cast<LauncherObject *>(Self)->Config->KernelName);
}

PyGetSetDef Properties[] = {
    {"name", getName, nullptr, "The kernel's name.", nullptr},
    {"num_ctas", getNumCTAs, nullptr, "Blocks per cluster.", nullptr},
    {"launch_cooperative_grid", getFlag<&LauncherConfig::Cooperative>, nullptr,
     "Whether all blocks are resident at once.", nullptr},
    {"launch_pdl", getFlag<&LauncherConfig::ProgrammaticDependentLaunch>,
     nullptr, "Whether the launch overlaps with the one before it.", nullptr},
    {"global_scratch_size",
     getScratch<&ScratchRequest::Size, &LauncherConfig::GlobalScratch>, nullptr,
     "Bytes of global scratch per block.", nullptr},
    {"global_scratch_align",
     getScratch<&ScratchRequest::Alignment, &LauncherConfig::GlobalScratch>,
     nullptr, "Alignment of the global scratch in bytes.", nullptr},
    {"profile_scratch_size",
     getScratch<&ScratchRequest::Size, &LauncherConfig::ProfileScratch>,
     nullptr, "Bytes of profile scratch per block.", nullptr},
    {"profile_scratch_align",
     getScratch<&ScratchRequest::Alignment, &LauncherConfig::ProfileScratch>,
     nullptr, "Alignment of the profile scratch in bytes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef Members[] = {{"__vectorcalloffset__", T_PYSSIZET,
                          offsetof(LauncherObject, Call), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

PyType_Slot Slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocate)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void *>(represent)},
    {Py_tp_getset, Properties},
    {Py_tp_members, Members},
    {Py_tp_doc,
     const_cast<char *>(
         "Launches one kernel: launcher(grid_x, grid_y, grid_z, stream, "
         "function, packed_metadata, launch_metadata, enter_hook, exit_hook, "
         "*arguments).")},
    {0, nullptr}};

PyType_Spec Spec = {"triton._C.ppu.launch.KernelLauncher",
                    sizeof(LauncherObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    Slots};

} // namespace

LaunchEnvironment &python::launchEnvironment() { return Environment; }

int python::isEmptyHook(PyObject *Hook) {
  if (Hook == Py_None)
    return 1;
  if (Py_TYPE(Hook) != Environment.HookChain)
    return 0;
  const Reference Attributes = attributesOf(Hook);
  // Held, since a comparison of keys could run code that drops it.
  const Reference Calls(Attributes ? Py_XNewRef(PyDict_GetItemWithError(
                                         Attributes.get(), CallsName))
                                   : nullptr);
  if (!Calls) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_AttributeError, "a launch hook has no 'calls'");
    return -1;
  }
  return PyList_CheckExact(Calls.get()) && PyList_GET_SIZE(Calls.get()) == 0;
}

bool python::isLauncher(PyObject *Object) {
  return Py_TYPE(Object) == LauncherType;
}

const EntryPoints *python::usableDriver() {
  const EntryPoints *Driver = DriverLibrary::get().mapped();
  Context Current;
  if (Driver && Driver->CtxGetCurrent &&
      Driver->CtxGetCurrent(&Current) == Result::Success &&
      !forkstate::forkedAfterInit())
    return Driver;
  if (!ensureUsable())
    return nullptr;
  Driver = DriverLibrary::get().mapped();
  if (!Driver)
    PyErr_SetString(PyExc_RuntimeError, "no driver library is loaded");
  return Driver;
}

bool python::initLauncherType(PyObject *Module) {
  CallsName = PyUnicode_InternFromString("calls");
  GetName = PyUnicode_InternFromString("get");
  LauncherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&Spec));
  return CallsName && GetName && LauncherType &&
         PyModule_AddObjectRef(Module, "KernelLauncher",
                               reinterpret_cast<PyObject *>(LauncherType)) == 0;
}

PyObject *python::newLauncher(std::unique_ptr<LauncherConfig> Config) {
  PyObject *Self = LauncherType->tp_alloc(LauncherType, 0);
  if (!Self)
    return nullptr;
  Py_XINCREF(Config->KernelName);
  Py_XINCREF(Config->GlobalScratch.Allocator);
  Py_XINCREF(Config->ProfileScratch.Allocator);
  auto *Object = reinterpret_cast<LauncherObject *>(Self);
  Object->Call = callLauncher;
  Object->Config = Config.release();
  return Self;
}
