//===- dispatch.cc - kernel[grid](...) without Triton's binder ------------===//

#include "dispatch.h"

#include "call_fingerprint.h"
#include "launch_object.h"
#include "quick_integer.h"

#include <cstring>
#include <memory>
#include <new>
#include <structmember.h>
#include <tuple>
#include <unordered_map>

using namespace flagtree;
using namespace flagtree::python;

namespace {

/// What dispatch needs of Triton; set once by bind_dispatch and kept for good.
struct TritonObjects {
  PyObject *JITFunction = nullptr;
  /// JITFunction.run, a function: a bound method of anything else means that
  /// somebody has replaced it.
  PyObject *Run = nullptr;
  /// The class that __getitem__ is inherited from in the base, and that method.
  PyTypeObject *KernelInterface = nullptr;
  PyObject *BaseGetItem = nullptr;
  PyTypeObject *CompiledKernel = nullptr;
  PyObject *BaseCompiledGetItem = nullptr;
  /// What CompiledKernel's class has as `run`, a property, and as
  /// `launch_metadata`: the base's, or they have been replaced.
  PyObject *CompiledRun = nullptr;
  PyObject *CompiledMetadata = nullptr;
  /// inspect.Parameter.empty
  PyObject *NoDefault = nullptr;
  PyObject *Knobs = nullptr;
  PyObject *Driver = nullptr;
  PyTypeObject *Constant = nullptr;
};
TritonObjects Triton;

// clang-format off
#define FLAGTREE_DISPATCH_NAMES(X)                                             \
  X(run) X(grid) X(warmup) X(params) X(name) X(is_constexpr) X(default)        \
  X(self) X(debug) X(runtime) X(compilation) X(instrumentation_mode)        \
  X(active) X(get_current_device) X(get_current_stream) X(pre_run_hooks)       \
  X(device_caches) X(used_global_vals) X(launch_enter_hook)                    \
  X(launch_exit_hook) X(launch_metadata) X(function) X(packed_metadata)        \
  X(_run) X(_init_handles) X(stream) X(__getitem__)
// clang-format on

struct InternedNames {
#define FLAGTREE_DECLARE(Name) PyObject *Name##_ = nullptr;
  FLAGTREE_DISPATCH_NAMES(FLAGTREE_DECLARE)
#undef FLAGTREE_DECLARE
  /// Where a function keeps its table.
  PyObject *Table = nullptr;
};
InternedNames Names;

/// A compiled kernel and the fingerprint it was found for.
struct Entry {
  std::vector<uint64_t> Words;
  Reference Kernel;
  /// The dictionary and key under which Triton keeps the kernel.
  Reference KernelCache, CacheKey;
  /// Objects whose addresses are among the words.
  std::vector<Reference> Constants;

  int traverse(visitproc visit, void *arg) const {
    for (const Reference *Held : {&Kernel, &KernelCache, &CacheKey})
      Py_VISIT(Held->get());
    for (const Reference &Held : Constants)
      Py_VISIT(Held.get());
    return 0;
  }
};
using EntryHandle = std::shared_ptr<const Entry>;

/// More kinds of calls than this in one function means that something in them
/// never repeats; remembering starts anew then.
constexpr size_t MaxEntries = 4096;

/// What is known about one function. What it forgets is released last, when the
/// table is whole again: that may run code that launches the same function.
struct Table {
  /// JITFunction.params when it was read.
  Reference Source;
  std::vector<FunctionParameter> Parameters;
  /// Whether binding the arguments by name is all that Triton does with them.
  bool IsPlain = true;
  std::unordered_multimap<uint64_t, EntryHandle> Entries;
  /// The kernel launched last, which mostly is the next one as well.
  EntryHandle Last;

  EntryHandle find(const Fingerprint &Print) {
    if (Last && Print == Last->Words)
      return Last;
    const auto [Begin, End] = Entries.equal_range(Print.hash());
    for (auto It = Begin; It != End; ++It)
      if (Print == It->second->Words) {
        EntryHandle Found = It->second, Forgotten = Found;
        Last.swap(Forgotten);
        return Found;
      }
    return nullptr;
  }

  void remember(const Fingerprint &Print, EntryHandle New) {
    const uint64_t Hash = Print.hash();
    EntryHandle Replaced;
    std::unordered_multimap<uint64_t, EntryHandle> Forgotten;
    const auto [Begin, End] = Entries.equal_range(Hash);
    for (auto It = Begin; It != End; ++It)
      if (Print == It->second->Words) {
        Replaced.swap(It->second);
        Entries.erase(It);
        break;
      }
    if (Entries.size() >= MaxEntries)
      Entries.swap(Forgotten);
    Entries.emplace(Hash, New);
    Last.swap(New);
  }
};

struct TableObject {
  PyObject_HEAD Table *Contents;
};
PyTypeObject *TableType = nullptr;

/// `kernel[grid]`.
struct GridObject {
  PyObject_HEAD vectorcallfunc Call;
  PyObject *Kernel;
  PyObject *Grid;
  PyObject *Table;
};
PyTypeObject *GridType = nullptr;

Reference getAttribute(PyObject *Object, PyObject *Name) {
  return Reference(PyObject_GetAttr(Object, Name));
}

/// What a class itself has under a name, without its bases. Borrowed; null,
/// without an exception, if it has nothing.
PyObject *ownAttribute(PyTypeObject *Class, PyObject *Name) {
  return PyDict_GetItemWithError(Class->tp_dict, Name);
}

/// Whether JITFunction.run does more with an argument of this name than pass it
/// on: it sets the first two by keyword, and the others it takes itself.
bool isNameOfRun(PyObject *Name) {
  for (PyObject *Taken : {Names.debug_, Names.instrumentation_mode_,
                          Names.self_, Names.grid_, Names.warmup_})
    if (PyUnicode_Compare(Name, Taken) == 0)
      return true;
  return false;
}

/// Reads JITFunction.params.
bool readParameters(Table &Out) {
  const Reference Items(PySequence_Tuple(Out.Source.get()));
  if (!Items)
    return false;
  for (Py_ssize_t I = 0; I != PyTuple_GET_SIZE(Items.get()); ++I) {
    PyObject *Item = PyTuple_GET_ITEM(Items.get(), I);
    FunctionParameter Parameter;
    PyObject *Name = getAttribute(Item, Names.name_).release();
    if (!Name)
      return false;
    PyUnicode_InternInPlace(&Name);
    Parameter.Name = Reference(Name);
    Out.IsPlain &= !isNameOfRun(Name);
    const Reference IsConstexpr = getAttribute(Item, Names.is_constexpr_);
    const int Constexpr = IsConstexpr ? PyObject_IsTrue(IsConstexpr.get()) : -1;
    if (Constexpr < 0)
      return false;
    Parameter.IsConstexpr = Constexpr != 0;
    // KernelParam.has_default compares the value, whose comparison may be odd.
    Reference Default = getAttribute(Item, Names.default_);
    if (!Default)
      return false;
    if (Default.get() != Triton.NoDefault)
      Parameter.Default = std::move(Default);
    Out.Parameters.push_back(std::move(Parameter));
  }
  return true;
}

/// The function's table, made at its first use and when its parameters are
/// others. A new reference.
PyObject *tableOf(PyObject *Kernel) {
  Reference Source = getAttribute(Kernel, Names.params_);
  if (!Source)
    return nullptr;
  Reference Known = getAttribute(Kernel, Names.Table);
  if (Known && Py_TYPE(Known.get()) == TableType &&
      reinterpret_cast<TableObject *>(Known.get())->Contents->Source.get() ==
          Source.get())
    return Known.release();
  PyErr_Clear();
  auto Contents = std::make_unique<Table>();
  Contents->Source = std::move(Source);
  if (!readParameters(*Contents))
    return nullptr;
  PyObject *New = TableType->tp_alloc(TableType, 0);
  if (!New)
    return nullptr;
  reinterpret_cast<TableObject *>(New)->Contents = Contents.release();
  if (PyObject_SetAttr(Kernel, Names.Table, New) < 0) {
    Py_DECREF(New);
    return nullptr;
  }
  return New;
}

/// Whether the methods of CompiledKernel that a launch goes through are the
/// base's.
bool compiledKernelIsBase() {
  return ownAttribute(Triton.CompiledKernel, Names.run_) ==
             Triton.CompiledRun &&
         ownAttribute(Triton.CompiledKernel, Names.launch_metadata_) ==
             Triton.CompiledMetadata;
}

/// The arguments of one call of a launcher, on the heap if they are many: a
/// launch may be made inside a launch, as deep as Python allows.
class LauncherArguments {
public:
  static constexpr size_t NumFixed = 9;

  explicit LauncherArguments(size_t Count) : Items(Inline) {
    if (Count + NumFixed > InlineCapacity) {
      Large.resize(Count + NumFixed);
      Items = Large.data();
    }
  }
  LauncherArguments(const LauncherArguments &) = delete;
  LauncherArguments &operator=(const LauncherArguments &) = delete;

  /// Where the kernel's own arguments are.
  PyObject **values() { return Items + NumFixed; }
  PyObject **all() { return Items; }

private:
  static constexpr size_t InlineCapacity = 40;
  PyObject *Inline[InlineCapacity];
  std::vector<PyObject *> Large;
  PyObject **Items;
};

/// Launches `Kernel`, a CompiledKernel, with the hooks that `Runtime`
/// (knobs.runtime) holds. `GridValue` is the grid as its owner gave it, and
/// `Axes` its three parts. The values are in `Args` already.
bool launchCompiled(PyObject *Kernel, PyObject *Runtime, PyObject *GridValue,
                    const Reference (&Axes)[3], PyObject *Stream,
                    LauncherArguments &Args, size_t Count) {
  const Reference Enter = getAttribute(Runtime, Names.launch_enter_hook_);
  const Reference Exit = getAttribute(Runtime, Names.launch_exit_hook_);
  if (!Enter || !Exit)
    return false;
  const int NoEnter = isEmptyHook(Enter.get());
  const int NoExit = isEmptyHook(Exit.get());
  if (NoEnter < 0 || NoExit < 0)
    return false;
  // Asked of the kernel each time: whoever puts another launcher or function
  // there wants it used.
  Reference Launcher = getAttribute(Kernel, Names._run_);
  if (!Launcher)
    return false;
  // Making the metadata costs more than the launch does, so it is made for
  // hooks only, and for launchers that may do with it what they like.
  Reference Metadata(Py_NewRef(Py_None));
  if (!NoEnter || !NoExit || !isLauncher(Launcher.get())) {
    // launch_metadata(kernel, grid, stream, *values)
    PyObject **First = Args.values() - 3;
    First[0] = Kernel;
    First[1] = GridValue;
    First[2] = Stream;
    Metadata = Reference(PyObject_VectorcallMethod(Names.launch_metadata_,
                                                   First, Count + 3, nullptr));
    if (!Metadata)
      return false;
    Launcher = getAttribute(Kernel, Names.run_);
    if (!Launcher)
      return false;
  }
  const Reference Function = getAttribute(Kernel, Names.function_);
  const Reference Packed = getAttribute(Kernel, Names.packed_metadata_);
  if (!Function || !Packed)
    return false;
  // Known to be empty, both need not be looked at again by our own launcher.
  const bool NoHook = NoEnter && NoExit && isLauncher(Launcher.get());
  PyObject *const Fixed[LauncherArguments::NumFixed] = {
      Axes[0].get(),
      Axes[1].get(),
      Axes[2].get(),
      Stream,
      Function.get(),
      Packed.get(),
      Metadata.get(),
      NoHook ? Py_None : Enter.get(),
      NoHook ? Py_None : Exit.get()};
  std::copy(Fixed, Fixed + LauncherArguments::NumFixed, Args.all());
  return static_cast<bool>(Reference(
      PyObject_Vectorcall(Launcher.get(), Args.all(),
                          Count + LauncherArguments::NumFixed, nullptr)));
}

/// The stream that the driver launches on for `Device`.
Reference currentStream(PyObject *Driver, PyObject *Device) {
  PyObject *Args[] = {Driver, Device};
  return Reference(
      PyObject_VectorcallMethod(Names.get_current_stream_, Args, 2, nullptr));
}

/// The driver's current device.
Reference currentDevice(PyObject *Driver) {
  PyObject *Self[] = {Driver};
  return Reference(
      PyObject_VectorcallMethod(Names.get_current_device_, Self, 1, nullptr));
}

/// One call of `kernel[grid]`. Its functions answer false, or null, with an
/// exception set, or without one to say: let Triton do it.
class Dispatch {
public:
  Dispatch(const GridObject &Self, PyObject *const *Args, size_t NumPositional,
           PyObject *KeywordNames)
      : Kernel(Self.Kernel), Grid(Self.Grid),
        Known(*reinterpret_cast<TableObject *>(Self.Table)->Contents),
        Args(Args), NumPositional(NumPositional), KeywordNames(KeywordNames),
        Held(Spare ? std::move(Spare) : std::make_unique<Scratch>()),
        Bound(Held->Bound), Print(Held->Print) {
    Bound.clear();
    Print.clear();
  }

  ~Dispatch() {
    if (!Spare)
      Spare = std::move(Held);
  }

  PyObject *call() {
    HasPrint = takeFingerprint();
    if (PyErr_Occurred())
      return nullptr;
    if (HasPrint) {
      const EntryHandle Found = Known.find(Print);
      if (Found && isStillValid(*Found)) {
        if (!launch(*Found))
          return nullptr;
        return Py_NewRef(Found->Kernel.get());
      }
      if (PyErr_Occurred())
        return nullptr;
    }
    Reference Result(callRun());
    if (!Result && IsBound && PyErr_ExceptionMatches(PyExc_OverflowError))
      nameHugeInteger();
    if (Result && HasPrint && !remember(Result.get()))
      return nullptr;
    return Result.release();
  }

private:
  /// What a call needs much room for, off the stack: calls may nest.
  struct Scratch {
    BoundArguments Bound;
    Fingerprint Print;
  };
  /// One that nobody uses; the GIL guards it.
  static std::unique_ptr<Scratch> Spare;

  /// The fingerprint of the call and of the settings that take part.
  bool takeFingerprint() {
    IsBound = Bound.bind(Known.Parameters, Args, NumPositional, KeywordNames);
    if (!IsBound || !Print.addCall(Known.Parameters, Bound, Triton.Constant))
      return false;
    Runtime = getAttribute(Triton.Knobs, Names.runtime_);
    const Reference Compilation =
        getAttribute(Triton.Knobs, Names.compilation_);
    if (!Runtime || !Compilation)
      return false;
    const Reference OwnDebug = getAttribute(Kernel, Names.debug_);
    const Reference Debug = getAttribute(Runtime.get(), Names.debug_);
    const Reference Mode =
        getAttribute(Compilation.get(), Names.instrumentation_mode_);
    if (!OwnDebug || !Debug || !Mode ||
        !Print.addConstant(OwnDebug.get(), nullptr) ||
        !Print.addConstant(Debug.get(), nullptr) ||
        !Print.addConstant(Mode.get(), nullptr))
      return false;

    Driver = getAttribute(Triton.Driver, Names.active_);
    if (!Driver)
      return false;
    Device = currentDevice(Driver.get());
    return Device && Print.addConstant(Device.get(), nullptr) &&
           !Print.overflowed();
  }

  /// Whether Triton would find this very kernel, and nothing was put in its
  /// way.
  bool isStillValid(const Entry &Found) {
    const Reference Run = getAttribute(Kernel, Names.run_);
    if (!Run || !PyMethod_Check(Run.get()) ||
        PyMethod_GET_FUNCTION(Run.get()) != Triton.Run)
      return false;
    const Reference Hooks = getAttribute(Kernel, Names.pre_run_hooks_);
    if (!Hooks || !PyList_CheckExact(Hooks.get()) ||
        PyList_GET_SIZE(Hooks.get()) != 0)
      return false;
    const Reference Caches = getAttribute(Kernel, Names.device_caches_);
    if (!Caches || !PyDict_Check(Caches.get()))
      return false;
    PyObject *Cache = PyDict_GetItemWithError(Caches.get(), Device.get());
    if (!Cache || !PyTuple_CheckExact(Cache) || PyTuple_GET_SIZE(Cache) == 0 ||
        PyTuple_GET_ITEM(Cache, 0) != Found.KernelCache.get() ||
        PyDict_GetItemWithError(Found.KernelCache.get(),
                                Found.CacheKey.get()) != Found.Kernel.get())
      return false;
    return compiledKernelIsBase() && globalsAreUnchanged();
  }

  /// Compares the globals that the kernel uses. Triton's own way raises for one
  /// that has changed.
  bool globalsAreUnchanged() {
    const Reference Used = getAttribute(Kernel, Names.used_global_vals_);
    if (!Used || !PyDict_Check(Used.get()))
      return false;
    if (PyDict_GET_SIZE(Used.get()) == 0)
      return true;
    const Reference Items(PyDict_Items(Used.get()));
    if (!Items)
      return false;
    for (Py_ssize_t I = 0; I != PyList_GET_SIZE(Items.get()); ++I) {
      PyObject *Item = PyList_GET_ITEM(Items.get(), I);
      PyObject *Key = PyTuple_GET_ITEM(Item, 0);
      PyObject *Pair = PyTuple_GET_ITEM(Item, 1);
      if (!PyTuple_Check(Key) || !PyTuple_Check(Pair) ||
          PyTuple_GET_SIZE(Key) != 2 || PyTuple_GET_SIZE(Pair) != 2 ||
          !PyDict_Check(PyTuple_GET_ITEM(Pair, 1)))
        return false;
      PyObject *Compiled = PyTuple_GET_ITEM(Pair, 0);
      const Reference Present(Py_XNewRef(PyDict_GetItemWithError(
          PyTuple_GET_ITEM(Pair, 1), PyTuple_GET_ITEM(Key, 0))));
      if (!Present)
        return false;
      // The same object mostly is equal to itself, but a NaN is not.
      if (Present.get() == Compiled &&
          (PyLong_CheckExact(Compiled) || PyUnicode_CheckExact(Compiled) ||
           PyType_CheckExact(Compiled)))
        continue;
      const Reference Differs(
          PyObject_RichCompare(Present.get(), Compiled, Py_NE));
      if (!Differs || PyObject_IsTrue(Differs.get()) != 0)
        return false;
    }
    return true;
  }

  /// Puts grid[Index] into `Out`, or 1 where the grid is shorter.
  static bool gridAxis(PyObject *GridValue, Py_ssize_t Index, Reference &Out) {
    if (PyTuple_CheckExact(GridValue)) {
      Out = Reference(Index < PyTuple_GET_SIZE(GridValue)
                          ? Py_NewRef(PyTuple_GET_ITEM(GridValue, Index))
                      : Index == 0 ? nullptr
                                   : PyLong_FromLong(1));
      if (!Out && !PyErr_Occurred())
        PyErr_SetString(PyExc_IndexError, "the grid is empty");
      return static_cast<bool>(Out);
    }
    const Py_ssize_t Size = PyObject_Size(GridValue);
    if (Size < 0)
      return false;
    Out = Reference(Index < Size || Index == 0
                        ? PySequence_GetItem(GridValue, Index)
                        : PyLong_FromLong(1));
    return static_cast<bool>(Out);
  }

  /// What a grid that is a function answers for the call's arguments.
  Reference callGrid(Reference &Dictionary) {
    Dictionary = Reference(PyDict_New());
    if (!Dictionary)
      return Reference();
    for (size_t I = 0; I != Bound.size(); ++I)
      if (PyDict_SetItem(Dictionary.get(), Known.Parameters[I].Name.get(),
                         Bound[I]) < 0)
        return Reference();
    return Reference(PyObject_CallOneArg(Grid, Dictionary.get()));
  }

  bool launch(const Entry &Found) {
    // Everything that user code could drop meanwhile is held by the entry or
    // by a reference here; the arguments themselves are the caller's.
    const Reference Stream = currentStream(Driver.get(), Device.get());
    if (!Stream)
      return false;
    Reference Values, GridValue;
    size_t Count = Bound.size();
    PyObject *const *First = Bound.data();
    if (PyCallable_Check(Grid)) {
      Reference Dictionary;
      GridValue = callGrid(Dictionary);
      if (!GridValue)
        return false;
      // The function may have put other values into its dictionary. What is
      // there now is what Triton passes on, in that order.
      const Reference List(PyDict_Values(Dictionary.get()));
      Values = Reference(List ? PyList_AsTuple(List.get()) : nullptr);
      if (!Values)
        return false;
      Count = static_cast<size_t>(PyTuple_GET_SIZE(Values.get()));
      First = &PyTuple_GET_ITEM(Values.get(), 0);
    } else {
      GridValue = Reference(Py_NewRef(Grid));
    }
    Reference Axes[3];
    for (Py_ssize_t Axis = 0; Axis != 3; ++Axis)
      if (!gridAxis(GridValue.get(), Axis, Axes[Axis]))
        return false;
    LauncherArguments Given(Count);
    std::copy(First, First + Count, Given.values());
    return launchCompiled(Found.Kernel.get(), Runtime.get(), GridValue.get(),
                          Axes, Stream.get(), Given, Count);
  }

  /// kernel.run(*args, grid=grid, warmup=False, **kwargs)
  PyObject *callRun() {
    const size_t NumKeywords =
        KeywordNames ? static_cast<size_t>(PyTuple_GET_SIZE(KeywordNames)) : 0;
    std::vector<PyObject *> All;
    All.reserve(NumPositional + NumKeywords + 3);
    All.push_back(Kernel);
    All.insert(All.end(), Args, Args + NumPositional + NumKeywords);
    All.push_back(Grid);
    All.push_back(Py_False);
    const Reference AllNames(
        PyTuple_New(static_cast<Py_ssize_t>(NumKeywords + 2)));
    if (!AllNames)
      return nullptr;
    for (size_t I = 0; I != NumKeywords; ++I)
      PyTuple_SET_ITEM(AllNames.get(), static_cast<Py_ssize_t>(I),
                       Py_NewRef(PyTuple_GET_ITEM(KeywordNames,
                                                  static_cast<Py_ssize_t>(I))));
    PyTuple_SET_ITEM(AllNames.get(), static_cast<Py_ssize_t>(NumKeywords),
                     Py_NewRef(Names.grid_));
    PyTuple_SET_ITEM(AllNames.get(), static_cast<Py_ssize_t>(NumKeywords + 1),
                     Py_NewRef(Names.warmup_));
    return PyObject_VectorcallMethod(Names.run_, All.data(), NumPositional + 1,
                                     AllNames.get());
  }

  /// Triton specializes integers before there is a launch, and does not say
  /// which of them is beyond any type. Adds that to the error that is set, if
  /// there is such an integer.
  void nameHugeInteger() {
    PyObject *Type, *Value, *Traceback;
    PyErr_Fetch(&Type, &Value, &Traceback);
    PyErr_NormalizeException(&Type, &Value, &Traceback);
    std::string Path;
    PyObject *Huge = nullptr;
    if (saysWhich(Value)) {
      PyErr_Restore(Type, Value, Traceback);
      return;
    }
    for (size_t I = 0; I != Bound.size() && !Huge; ++I) {
      if (Known.Parameters[I].IsConstexpr)
        continue;
      const char *Name = PyUnicode_AsUTF8(Known.Parameters[I].Name.get());
      Path = Name ? Name : "?";
      Huge = findHugeInteger(Bound[I], Path);
    }
    PyErr_Clear();
    Reference FunctionName(PyObject_GetAttrString(Kernel, "__name__"));
    if (!FunctionName)
      PyErr_Clear();
    PyErr_Restore(Type, Value, Traceback);
    if (Huge)
      replaceError(PyExc_OverflowError,
                   "argument '%s' of kernel '%S': %R is out of range for every "
                   "integer type (-9223372036854775808 to "
                   "18446744073709551615)",
                   Path.c_str(), FunctionName ? FunctionName.get() : Py_None,
                   Huge);
  }

  /// Whether `Error` is a launcher's, which names argument and kernel.
  static bool saysWhich(PyObject *Error) {
    const Reference Text(PyObject_Str(Error));
    const char *Bytes = Text ? PyUnicode_AsUTF8(Text.get()) : nullptr;
    if (!Bytes)
      PyErr_Clear();
    return Bytes && std::strncmp(Bytes, "argument '", 10) == 0 &&
           std::strstr(Bytes, " of kernel ");
  }

  /// The first int in `Object`, an argument or a tuple of them, that no type
  /// holds; null if there is none. `Path` becomes what to call it. Leaves
  /// exceptions to be cleared.
  static PyObject *findHugeInteger(PyObject *Object, std::string &Path) {
    if (PyTuple_Check(Object)) {
      const size_t Length = Path.size();
      for (Py_ssize_t I = 0; I != PyTuple_GET_SIZE(Object); ++I) {
        Path += "[" + std::to_string(I) + "]";
        if (PyObject *Huge = findHugeInteger(PyTuple_GET_ITEM(Object, I), Path))
          return Huge;
        Path.resize(Length);
      }
      return nullptr;
    }
    if (!PyLong_Check(Object))
      return nullptr;
    int Overflow;
    integerValue(Object, Overflow);
    if (Overflow < 0)
      return Object;
    if (Overflow == 0)
      return nullptr;
    PyErr_Clear();
    PyLong_AsUnsignedLongLong(Object);
    return PyErr_Occurred() ? Object : nullptr;
  }

  /// Remembers what Triton launched, if it is a kernel that can be launched
  /// from here.
  bool remember(PyObject *Compiled) {
    if (Py_TYPE(Compiled) != Triton.CompiledKernel)
      return true;
    auto New = std::make_unique<Entry>();
    New->Kernel = Reference(Py_NewRef(Compiled));
    const Reference Launcher = getAttribute(Compiled, Names._run_);
    if (!Launcher)
      return false;
    if (!isLauncher(Launcher.get()))
      return true;
    const Reference Caches = getAttribute(Kernel, Names.device_caches_);
    if (!Caches)
      return false;
    PyObject *Cache = PyDict_Check(Caches.get())
                          ? PyDict_GetItemWithError(Caches.get(), Device.get())
                          : nullptr;
    if (!Cache || !PyTuple_CheckExact(Cache) || PyTuple_GET_SIZE(Cache) == 0 ||
        !PyDict_Check(PyTuple_GET_ITEM(Cache, 0)))
      return !PyErr_Occurred();
    New->KernelCache = Reference(Py_NewRef(PyTuple_GET_ITEM(Cache, 0)));
    PyObject *Key, *Value;
    for (Py_ssize_t Position = 0;
         PyDict_Next(New->KernelCache.get(), &Position, &Key, &Value);)
      if (Value == Compiled) {
        New->CacheKey = Reference(Py_NewRef(Key));
        break;
      }
    if (!New->CacheKey || !PyUnicode_CheckExact(New->CacheKey.get()))
      return true;
    New->Words.assign(Print.data(), Print.data() + Print.size());
    for (size_t I = 0; I != Bound.size(); ++I)
      if (Py_TYPE(Bound[I]) == Triton.Constant)
        New->Constants.emplace_back(Py_NewRef(Bound[I]));
    for (size_t I = 0; I != Bound.numOptions(); ++I)
      if (Py_TYPE(Bound.optionValue(I)) == Triton.Constant)
        New->Constants.emplace_back(Py_NewRef(Bound.optionValue(I)));
    Known.remember(Print, std::move(New));
    return true;
  }

  PyObject *Kernel;
  PyObject *Grid;
  Table &Known;
  PyObject *const *Args;
  size_t NumPositional;
  PyObject *KeywordNames;
  std::unique_ptr<Scratch> Held;
  BoundArguments &Bound;
  Fingerprint &Print;
  bool IsBound = false, HasPrint = false;
  Reference Runtime, Driver, Device;
};

std::unique_ptr<Dispatch::Scratch> Dispatch::Spare;

/// Counts a call against Python's limit of nesting, as a call of a Python
/// function would be.
class NestedCall {
public:
  NestedCall() : Entered(!Py_EnterRecursiveCall(" while launching a kernel")) {}
  ~NestedCall() {
    if (Entered)
      Py_LeaveRecursiveCall();
  }
  NestedCall(const NestedCall &) = delete;
  NestedCall &operator=(const NestedCall &) = delete;
  explicit operator bool() const { return Entered; }

private:
  bool Entered;
};

PyObject *callGridObject(PyObject *Self, PyObject *const *Args, size_t NArgsF,
                         PyObject *KeywordNames) {
  const NestedCall Nested;
  if (!Nested)
    return nullptr;
  try {
    return Dispatch(*reinterpret_cast<GridObject *>(Self), Args,
                    static_cast<size_t>(PyVectorcall_NARGS(NArgsF)),
                    KeywordNames)
        .call();
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
}

int traverseGrid(PyObject *Self, visitproc visit, void *arg) {
  const auto &Object = *reinterpret_cast<GridObject *>(Self);
  Py_VISIT(Py_TYPE(Self));
  Py_VISIT(Object.Kernel);
  Py_VISIT(Object.Grid);
  Py_VISIT(Object.Table);
  return 0;
}

int clearGrid(PyObject *Self) {
  auto &Object = *reinterpret_cast<GridObject *>(Self);
  Py_CLEAR(Object.Kernel);
  Py_CLEAR(Object.Grid);
  Py_CLEAR(Object.Table);
  return 0;
}

void deallocateGrid(PyObject *Self) {
  PyObject_GC_UnTrack(Self);
  clearGrid(Self);
  PyTypeObject *Type = Py_TYPE(Self);
  Type->tp_free(Self);
  Py_DECREF(Type);
}

/// `compiled[grid]`, for a kernel that is loaded.
struct CompiledGridObject {
  PyObject_HEAD vectorcallfunc Call;
  PyObject *Kernel;
  PyObject *Grid;
};
PyTypeObject *CompiledGridType = nullptr;

bool launchCompiledGrid(const CompiledGridObject &Self, PyObject *const *Args,
                        size_t NumPositional, PyObject *KeywordNames) {
  PyObject *Given = Py_None;
  if (KeywordNames && PyTuple_GET_SIZE(KeywordNames) != 0) {
    PyObject *Name = PyTuple_GET_ITEM(KeywordNames, 0);
    if (PyTuple_GET_SIZE(KeywordNames) != 1 ||
        PyUnicode_Compare(Name, Names.stream_) != 0) {
      PyErr_Format(PyExc_TypeError,
                   "a compiled kernel takes no keyword argument but 'stream', "
                   "given %R",
                   KeywordNames);
      return false;
    }
    Given = Args[NumPositional];
  }
  Reference Stream(Py_NewRef(Given));
  if (Given == Py_None) {
    const Reference Driver = getAttribute(Triton.Driver, Names.active_);
    const Reference Device = Driver ? currentDevice(Driver.get()) : Reference();
    if (!Device)
      return false;
    Stream = currentStream(Driver.get(), Device.get());
    if (!Stream)
      return false;
  }
  const Reference Runtime = getAttribute(Triton.Knobs, Names.runtime_);
  if (!Runtime)
    return false;
  Reference Axes[3];
  for (Py_ssize_t Axis = 0; Axis != 3; ++Axis) {
    const Reference Index(PyLong_FromSsize_t(Axis));
    Axes[Axis] =
        Reference(Index ? PyObject_GetItem(Self.Grid, Index.get()) : nullptr);
    if (!Axes[Axis])
      return false;
  }
  LauncherArguments Values(NumPositional);
  std::copy(Args, Args + NumPositional, Values.values());
  return launchCompiled(Self.Kernel, Runtime.get(), Self.Grid, Axes,
                        Stream.get(), Values, NumPositional);
}

PyObject *callCompiledGrid(PyObject *Self, PyObject *const *Args, size_t NArgsF,
                           PyObject *KeywordNames) {
  const NestedCall Nested;
  if (!Nested)
    return nullptr;
  try {
    if (!launchCompiledGrid(*reinterpret_cast<CompiledGridObject *>(Self), Args,
                            static_cast<size_t>(PyVectorcall_NARGS(NArgsF)),
                            KeywordNames))
      return nullptr;
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  Py_RETURN_NONE;
}

int traverseCompiledGrid(PyObject *Self, visitproc visit, void *arg) {
  const auto &Object = *reinterpret_cast<CompiledGridObject *>(Self);
  Py_VISIT(Py_TYPE(Self));
  Py_VISIT(Object.Kernel);
  Py_VISIT(Object.Grid);
  return 0;
}

int clearCompiledGrid(PyObject *Self) {
  auto &Object = *reinterpret_cast<CompiledGridObject *>(Self);
  Py_CLEAR(Object.Kernel);
  Py_CLEAR(Object.Grid);
  return 0;
}

void deallocateCompiledGrid(PyObject *Self) {
  PyObject_GC_UnTrack(Self);
  clearCompiledGrid(Self);
  PyTypeObject *Type = Py_TYPE(Self);
  Type->tp_free(Self);
  Py_DECREF(Type);
}

int traverseTable(PyObject *Self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(Self));
  const Table *Contents = reinterpret_cast<TableObject *>(Self)->Contents;
  if (!Contents)
    return 0;
  Py_VISIT(Contents->Source.get());
  for (const FunctionParameter &Parameter : Contents->Parameters)
    Py_VISIT(Parameter.Default.get());
  for (const auto &[Hash, Held] : Contents->Entries)
    if (const int Status = Held->traverse(visit, arg))
      return Status;
  return 0;
}

int clearTable(PyObject *Self) {
  if (Table *Contents = reinterpret_cast<TableObject *>(Self)->Contents) {
    // Emptied before anything is released: releasing runs other code.
    const auto Entries = std::move(Contents->Entries);
    const EntryHandle Last = std::move(Contents->Last);
    Contents->Entries.clear();
  }
  return 0;
}

void deallocateTable(PyObject *Self) {
  PyObject_GC_UnTrack(Self);
  delete reinterpret_cast<TableObject *>(Self)->Contents;
  PyTypeObject *Type = Py_TYPE(Self);
  Type->tp_free(Self);
  Py_DECREF(Type);
}

PyMemberDef GridMembers[] = {{"__vectorcalloffset__", T_PYSSIZET,
                              offsetof(GridObject, Call), READONLY, nullptr},
                             {nullptr, 0, 0, 0, nullptr}};

PyType_Slot GridSlots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocateGrid)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverseGrid)},
    {Py_tp_clear, reinterpret_cast<void *>(clearGrid)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_members, GridMembers},
    {Py_tp_doc, const_cast<char *>("A kernel with its grid: kernel[grid].")},
    {0, nullptr}};

PyType_Spec GridSpec = {
    "triton._C.ppu.launch.GridLauncher", sizeof(GridObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_DISALLOW_INSTANTIATION,
    GridSlots};

PyMemberDef CompiledGridMembers[] = {{"__vectorcalloffset__", T_PYSSIZET,
                                      offsetof(CompiledGridObject, Call),
                                      READONLY, nullptr},
                                     {nullptr, 0, 0, 0, nullptr}};

PyType_Slot CompiledGridSlots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocateCompiledGrid)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverseCompiledGrid)},
    {Py_tp_clear, reinterpret_cast<void *>(clearCompiledGrid)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_members, CompiledGridMembers},
    {Py_tp_doc,
     const_cast<char *>("A compiled kernel with its grid: compiled[grid].")},
    {0, nullptr}};

PyType_Spec CompiledGridSpec = {
    "triton._C.ppu.launch.CompiledGridLauncher", sizeof(CompiledGridObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_DISALLOW_INSTANTIATION,
    CompiledGridSlots};

PyType_Slot TableSlots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocateTable)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverseTable)},
    {Py_tp_clear, reinterpret_cast<void *>(clearTable)},
    {Py_tp_doc, const_cast<char *>("The kernels a function was launched as.")},
    {0, nullptr}};

PyType_Spec TableSpec = {
    "triton._C.ppu.launch.DispatchTable", sizeof(TableObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    TableSlots};

/// Base.__get__(kernel)(grid), as Python calls a method that a class holds.
PyObject *callReplaced(PyObject *Base, PyObject *const *Args) {
  if (PyFunction_Check(Base))
    return PyObject_Vectorcall(Base, Args, 2, nullptr);
  const descrgetfunc Get = Py_TYPE(Base)->tp_descr_get;
  const Reference Held(Py_NewRef(Base));
  const Reference Method(
      Get ? Get(Base, Args[0], reinterpret_cast<PyObject *>(Py_TYPE(Args[0])))
          : Py_NewRef(Base));
  return Method ? PyObject_CallOneArg(Method.get(), Args[1]) : nullptr;
}

/// JITFunction.__getitem__(self, grid)
PyObject *getItem(PyObject *, PyObject *const *Args, Py_ssize_t NumArgs) {
  if (NumArgs != 2) {
    PyErr_Format(PyExc_TypeError, "__getitem__ takes a grid, given %zd values",
                 NumArgs - 1);
    return nullptr;
  }
  PyObject *Kernel = Args[0];
  // What somebody has put in the place of the base's method since goes first.
  PyObject *Base = ownAttribute(Triton.KernelInterface, Names.__getitem___);
  if (!Base) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "%R has no method __getitem__ any more",
                   Triton.KernelInterface);
    return nullptr;
  }
  if (Base != Triton.BaseGetItem ||
      reinterpret_cast<PyObject *>(Py_TYPE(Kernel)) != Triton.JITFunction)
    return callReplaced(Base, Args);
  Reference Known;
  try {
    Known = Reference(tableOf(Kernel));
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  if (!Known)
    return nullptr;
  if (!reinterpret_cast<TableObject *>(Known.get())->Contents->IsPlain)
    return callReplaced(Base, Args);
  PyObject *New = GridType->tp_alloc(GridType, 0);
  if (!New)
    return nullptr;
  auto *Object = reinterpret_cast<GridObject *>(New);
  Object->Call = callGridObject;
  Object->Kernel = Py_NewRef(Kernel);
  Object->Grid = Py_NewRef(Args[1]);
  Object->Table = Known.release();
  return New;
}

/// CompiledKernel.__getitem__(self, grid)
PyObject *getCompiledItem(PyObject *, PyObject *const *Args,
                          Py_ssize_t NumArgs) {
  if (NumArgs != 2) {
    PyErr_Format(PyExc_TypeError, "__getitem__ takes a grid, given %zd values",
                 NumArgs - 1);
    return nullptr;
  }
  PyObject *Kernel = Args[0];
  if (Py_TYPE(Kernel) == Triton.CompiledKernel && compiledKernelIsBase()) {
    const Reference Loaded(
        PyObject_CallMethodNoArgs(Kernel, Names._init_handles_));
    const Reference Launcher =
        Loaded ? getAttribute(Kernel, Names._run_) : Reference();
    if (!Launcher)
      return nullptr;
    if (isLauncher(Launcher.get())) {
      PyObject *New = CompiledGridType->tp_alloc(CompiledGridType, 0);
      if (!New)
        return nullptr;
      auto *Object = reinterpret_cast<CompiledGridObject *>(New);
      Object->Call = callCompiledGrid;
      Object->Kernel = Py_NewRef(Kernel);
      Object->Grid = Py_NewRef(Args[1]);
      return New;
    }
  }
  return PyObject_Vectorcall(Triton.BaseCompiledGetItem, Args, 2, nullptr);
}

PyObject *bindDispatch(PyObject *, PyObject *Args) {
  PyObject *Interface, *Compiled, *Constant;
  TritonObjects Given;
  if (!PyArg_ParseTuple(Args, "OOO!O!OOOO!O", &Given.JITFunction, &Given.Run,
                        &PyType_Type, &Interface, &PyType_Type, &Compiled,
                        &Given.BaseCompiledGetItem, &Given.Knobs, &Given.Driver,
                        &PyType_Type, &Constant, &Given.NoDefault))
    return nullptr;
  Given.KernelInterface = reinterpret_cast<PyTypeObject *>(Interface);
  Given.CompiledKernel = reinterpret_cast<PyTypeObject *>(Compiled);
  Given.Constant = reinterpret_cast<PyTypeObject *>(Constant);
  for (const auto &[Slot, Class, Name] :
       {std::tuple{&Given.BaseGetItem, Given.KernelInterface,
                   Names.__getitem___},
        std::tuple{&Given.CompiledRun, Given.CompiledKernel, Names.run_},
        std::tuple{&Given.CompiledMetadata, Given.CompiledKernel,
                   Names.launch_metadata_}}) {
    *Slot = ownAttribute(Class, Name);
    if (!*Slot) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R itself has no %U", Class, Name);
      return nullptr;
    }
  }
  // Kept for good; what was bound before may be in use by another thread.
  Py_INCREF(Args);
  for (PyObject *Kept :
       {Given.BaseGetItem, Given.CompiledRun, Given.CompiledMetadata})
    Py_INCREF(Kept);
  Triton = Given;
  Py_RETURN_NONE;
}

PyObject *fingerprintOf(PyObject *, PyObject *Args) {
  PyObject *Kernel, *Positional, *Keywords;
  if (!PyArg_ParseTuple(Args, "OO!O!", &Kernel, &PyTuple_Type, &Positional,
                        &PyDict_Type, &Keywords))
    return nullptr;
  const Reference Known(tableOf(Kernel));
  const Reference KeywordNames(Known ? PyList_AsTuple(PyDict_Keys(Keywords))
                                     : nullptr);
  if (!KeywordNames)
    return nullptr;
  std::vector<PyObject *> All;
  for (Py_ssize_t I = 0; I != PyTuple_GET_SIZE(Positional); ++I)
    All.push_back(PyTuple_GET_ITEM(Positional, I));
  for (Py_ssize_t I = 0; I != PyTuple_GET_SIZE(KeywordNames.get()); ++I)
    All.push_back(
        PyDict_GetItem(Keywords, PyTuple_GET_ITEM(KeywordNames.get(), I)));
  const auto &Parameters =
      reinterpret_cast<TableObject *>(Known.get())->Contents->Parameters;
  BoundArguments Bound;
  Fingerprint Print;
  if (!Bound.bind(Parameters, All.data(),
                  static_cast<size_t>(PyTuple_GET_SIZE(Positional)),
                  KeywordNames.get()) ||
      !Print.addCall(Parameters, Bound, Triton.Constant))
    Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(
      reinterpret_cast<const char *>(Print.data()),
      static_cast<Py_ssize_t>(Print.size() * sizeof(uint64_t)));
}

PyMethodDef GetItemDefinition = {
    "__getitem__",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(getItem)),
    METH_FASTCALL,
    "kernel[grid]: the kernel, ready to be called with its arguments."};

PyMethodDef CompiledGetItemDefinition = {
    "__getitem__",
    reinterpret_cast<PyCFunction>(
        reinterpret_cast<void (*)()>(getCompiledItem)),
    METH_FASTCALL, "compiled[grid]: the compiled kernel, ready to be called."};

PyMethodDef Functions[] = {
    {"bind_dispatch", bindDispatch, METH_VARARGS,
     "What kernel[grid] needs of Triton; see _flagtree_spec.py."},
    {"fingerprint", fingerprintOf, METH_VARARGS,
     "The words that a call of a function is known by, as bytes, or None."},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

bool python::initDispatch(PyObject *Module) {
#define FLAGTREE_INTERN(Name)                                                  \
  if (!(Names.Name##_ = PyUnicode_InternFromString(#Name)))                    \
    return false;
  FLAGTREE_DISPATCH_NAMES(FLAGTREE_INTERN)
#undef FLAGTREE_INTERN
  Names.Table = PyUnicode_InternFromString("_flagtree_dispatch_table");
  GridType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&GridSpec));
  TableType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&TableSpec));
  CompiledGridType =
      reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&CompiledGridSpec));
  if (!initFingerprint() || !Names.Table || !GridType || !TableType ||
      !CompiledGridType || PyModule_AddFunctions(Module, Functions) < 0)
    return false;
  // An instance method binds to whatever class it is an attribute of, which a
  // builtin function by itself does not.
  for (const auto &[Definition, Name] :
       {std::pair{&GetItemDefinition, "grid_launcher"},
        std::pair{&CompiledGetItemDefinition, "compiled_grid_launcher"}}) {
    const Reference Function(PyCFunction_New(Definition, nullptr));
    const Reference Method(Function ? PyInstanceMethod_New(Function.get())
                                    : nullptr);
    if (!Method || PyModule_AddObjectRef(Module, Name, Method.get()) < 0)
      return false;
  }
  return true;
}
