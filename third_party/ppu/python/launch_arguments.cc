//===- launch_arguments.cc - Python arguments to kernel parameters --------===//

#include "launch_arguments.h"

#include "driver_error.h"
#include "python_reference.h"
#include "quick_integer.h"
#include "tensor_handle.h"
#include "tensor_map_object.h"

using namespace flagtree;
using namespace flagtree::python;

namespace {

struct Names {
  PyObject *DataPointer, *IsCuda, *Base, *Shape, *Strides, *Padding;
};
Names Interned;

/// A type whose exact instances take the quick way. Entries are only ever
/// added, under the GIL.
struct TensorType {
  PyTypeObject *Type = nullptr;
  int (*TensorFromPython)(void *, dlpack::Tensor *) = nullptr;
  TensorHandle Handle;
};
constexpr size_t MaxTensorTypes = 4;
TensorType TensorTypes[MaxTensorTypes];
size_t NumTensorTypes = 0;

TensorType *tensorTypeOf(PyObject *Object) {
  PyTypeObject *Type = Py_TYPE(Object);
  for (size_t I = 0; I != NumTensorTypes; ++I)
    if (TensorTypes[I].Type == Type)
      return &TensorTypes[I];
  return nullptr;
}

/// Asks the driver which address the device knows `Address` by: the test for
/// host memory, and the translation of mapped host memory.
bool translateAddress(const EntryPoints &Driver, const Argument &Arg,
                      PyObject *Owner, uint64_t &Address) {
  uint64_t Translated = 0;
  const Result Code = Driver.PointerGetAttribute(
      &Translated, PointerAttribute::DevicePointer, Address);
  if (Code == Result::Success) {
    Address = Translated;
    return true;
  }
  if (Code == Result::InvalidValue)
    PyErr_Format(PyExc_ValueError,
                 "Pointer argument (at %d) cannot be accessed from Triton (cpu "
                 "tensor?): argument '%s' of kernel '%U' is in host memory",
                 Arg.Position, Arg.Name.c_str(), Owner);
  else
    raiseDriverError(Driver, {Code, "PointerGetAttribute"},
                     " for argument '" + Arg.Name + "'");
  return false;
}

/// What `Object.data_ptr()` answers.
bool callDataPointer(const Argument &Arg, PyObject *Object, PyObject *Owner,
                     uint64_t &Address) {
  PyObject *Self[] = {Object};
  const Reference Answer(
      PyObject_VectorcallMethod(Interned.DataPointer, Self, 1, nullptr));
  if (!Answer) {
    replaceError(
        PyExc_TypeError,
        "Pointer argument must be either uint64 or have data_ptr "
        "method: argument '%s' (at %d) of kernel '%U' is of type %.200s%s",
        Arg.Name.c_str(), Arg.Position, Owner, Py_TYPE(Object)->tp_name,
        PyErr_ExceptionMatches(PyExc_AttributeError)
            ? ""
            : " whose data_ptr() failed");
    return false;
  }
  if (!PyLong_Check(Answer.get())) {
    PyErr_Format(PyExc_TypeError,
                 "data_ptr method of Pointer object must return 64-bit int: "
                 "for argument '%s' of kernel '%U' it returned a %.200s",
                 Arg.Name.c_str(), Owner, Py_TYPE(Answer.get())->tp_name);
    return false;
  }
  Address = PyLong_AsUnsignedLongLong(Answer.get());
  if (Address == static_cast<uint64_t>(-1) && PyErr_Occurred()) {
    replaceError(PyExc_OverflowError,
                 "argument '%s' of kernel '%U': data_ptr() returned %R, which "
                 "is no 64-bit address",
                 Arg.Name.c_str(), Owner, Answer.get());
    return false;
  }
  return true;
}

/// Whether a plain tensor says that it lives on the device.
bool tensorIsOnDevice(PyObject *Object) {
  const Reference Answer(PyObject_GetAttr(Object, Interned.IsCuda));
  if (!Answer)
    PyErr_Clear();
  return Answer.get() == Py_True;
}

bool convertTensor(const EntryPoints &Driver, const TensorType &Type,
                   const Argument &Arg, PyObject *Object, PyObject *Owner,
                   uint64_t &Address) {
  if (Type.TensorFromPython) {
    dlpack::Tensor Tensor;
    if (Type.TensorFromPython(Object, &Tensor) == 0) {
      Address = reinterpret_cast<uint64_t>(Tensor.Data) + Tensor.ByteOffset;
      if (!Address || Tensor.Device == dlpack::CUDA ||
          Tensor.Device == dlpack::CUDAManaged)
        return true;
      return translateAddress(Driver, Arg, Owner, Address);
    }
    PyErr_Clear(); // an element type that DLPack lacks
  }
  if (!callDataPointer(Arg, Object, Owner, Address))
    return false;
  if (!Address || tensorIsOnDevice(Object))
    return true;
  return translateAddress(Driver, Arg, Owner, Address);
}

/// The integer in `Object` or in what its __index__ answers.
bool indexOf(PyObject *Object, int64_t &Value, int &Overflow) {
  if (PyLong_Check(Object)) {
    Value = integerValue(Object, Overflow);
    return true;
  }
  const Reference Index(PyNumber_Index(Object));
  if (!Index)
    return false;
  Value = integerValue(Index.get(), Overflow);
  return true;
}

/// Says which argument __index__ was missing for; an exception that __index__
/// itself raised is left as it is.
void raiseNotAnInteger(PyObject *Object, const char *What, const char *Type) {
  if (PyErr_ExceptionMatches(PyExc_TypeError))
    replaceError(PyExc_TypeError, "%s (%s) must be an integer, not %.200s",
                 What, Type, Py_TYPE(Object)->tp_name);
}

std::string argumentText(const Argument &Arg, PyObject *KernelName) {
  const char *Kernel = PyUnicode_AsUTF8(KernelName);
  if (!Kernel) {
    PyErr_Clear();
    Kernel = "?";
  }
  return "argument '" + Arg.Name + "' of kernel '" + Kernel + "'";
}

} // namespace

void python::replaceError(PyObject *NewType, const char *Format, ...) {
  PyObject *Type, *Value, *Traceback;
  PyErr_Fetch(&Type, &Value, &Traceback);
  PyErr_NormalizeException(&Type, &Value, &Traceback);
  if (Traceback)
    PyException_SetTraceback(Value, Traceback);
  va_list Arguments;
  va_start(Arguments, Format);
  PyErr_FormatV(NewType, Format, Arguments);
  va_end(Arguments);
  PyObject *RaisedType, *Raised, *RaisedTraceback;
  PyErr_Fetch(&RaisedType, &Raised, &RaisedTraceback);
  PyErr_NormalizeException(&RaisedType, &Raised, &RaisedTraceback);
  Py_XINCREF(Value);
  PyException_SetCause(Raised, Value);   // steals
  PyException_SetContext(Raised, Value); // steals
  PyErr_Restore(RaisedType, Raised, RaisedTraceback);
  Py_XDECREF(Type);
  Py_XDECREF(Traceback);
}

bool python::initArguments() {
  const std::pair<PyObject **, const char *> Wanted[] = {
      {&Interned.DataPointer, "data_ptr"},
      {&Interned.IsCuda, "is_cuda"},
      {&Interned.Base, "base"},
      {&Interned.Shape, "shape"},
      {&Interned.Strides, "strides"},
      {&Interned.Padding, "padding"}};
  for (const auto &[Slot, Text] : Wanted)
    if (!(*Slot = PyUnicode_InternFromString(Text)))
      return false;
  return true;
}

bool python::addTensorType(PyObject *Type) {
  if (!PyType_Check(Type)) {
    PyErr_Format(PyExc_TypeError, "a tensor type must be a type, not %.200s",
                 Py_TYPE(Type)->tp_name);
    return false;
  }
  TensorType Entry;
  Entry.Type = reinterpret_cast<PyTypeObject *>(Type);
  for (size_t I = 0; I != NumTensorTypes; ++I)
    if (TensorTypes[I].Type == Entry.Type)
      return true;
  if (NumTensorTypes == MaxTensorTypes) {
    PyErr_Format(PyExc_ValueError, "at most %d tensor types can be added",
                 static_cast<int>(MaxTensorTypes));
    return false;
  }
  const Reference Capsule(
      PyObject_GetAttrString(Type, dlpack::ExchangeAttribute));
  if (!Capsule)
    PyErr_Clear(); // an older torch
  if (Capsule && PyCapsule_IsValid(Capsule.get(), dlpack::ExchangeCapsule)) {
    const auto *Table = static_cast<const dlpack::ExchangeTable *>(
        PyCapsule_GetPointer(Capsule.get(), dlpack::ExchangeCapsule));
    while (Table && Table->Major > dlpack::MajorVersion)
      Table = Table->Previous;
    if (Table && Table->Major == dlpack::MajorVersion)
      Entry.TensorFromPython = Table->TensorFromPython;
  }
  Py_INCREF(Type);
  TensorTypes[NumTensorTypes++] = Entry;
  return true;
}

bool python::describeTensor(PyObject *Object, dlpack::Tensor &Out) {
  const TensorType *Type = tensorTypeOf(Object);
  if (!Type || !Type->TensorFromPython)
    return false;
  if (Type->TensorFromPython(Object, &Out) == 0)
    return true;
  PyErr_Clear();
  return false;
}

bool python::convertPointer(const EntryPoints &Driver, const Argument &Arg,
                            PyObject *Object, PyObject *Owner,
                            uint64_t &Address) {
  if (const TensorType *Type = tensorTypeOf(Object))
    return convertTensor(Driver, *Type, Arg, Object, Owner, Address);
  if (Object == Py_None) {
    Address = 0;
    return true;
  }
  if (PyLong_Check(Object)) {
    Address = PyLong_AsUnsignedLongLong(Object);
    if (Address == static_cast<uint64_t>(-1) && PyErr_Occurred()) {
      replaceError(PyExc_OverflowError,
                   "argument '%s' of kernel '%U': %R is no 64-bit address",
                   Arg.Name.c_str(), Owner, Object);
      return false;
    }
    return true;
  }
  if (!callDataPointer(Arg, Object, Owner, Address))
    return false;
  return !Address || translateAddress(Driver, Arg, Owner, Address);
}

bool python::convertInteger(PyObject *Object, const IntegerRange &Range,
                            const char *What, const char *Type,
                            int64_t &Value) {
  int Overflow = 0;
  if (!indexOf(Object, Value, Overflow)) {
    raiseNotAnInteger(Object, What, Type);
    return false;
  }
  if (Overflow || !Range.holds(Value)) {
    PyErr_Format(PyExc_OverflowError,
                 "%s: %R is out of range for %s (%lld to %lld)", What, Object,
                 Type, static_cast<long long>(Range.Smallest),
                 static_cast<long long>(Range.Largest));
    return false;
  }
  return true;
}

inline bool ArgumentWriter::writeQuickly(const ArgumentStep &Step,
                                         PyObject *Object) {
  switch (Step.Kind) {
  case ArgumentKind::Constexpr:
    return true;
  case ArgumentKind::Pointer: {
    TensorType *Type = tensorTypeOf(Object);
    if (!Type)
      return false;
    if (__builtin_expect(Type->Handle.isKnown(), 1)) {
      uint64_t Address;
      if (!Type->Handle.read(Object, Address))
        return false;
      Parameters.set(Step.Parameter, Address);
      return true;
    }
    Type->Handle.learn(Object);
    if (!Type->TensorFromPython)
      return false;
    dlpack::Tensor Tensor;
    if (Type->TensorFromPython(Object, &Tensor) != 0) {
      PyErr_Clear();
      return false;
    }
    if (Tensor.Device != dlpack::CUDA)
      return false;
    Parameters.set(Step.Parameter,
                   reinterpret_cast<uint64_t>(Tensor.Data) + Tensor.ByteOffset);
    return true;
  }
  case ArgumentKind::Single:
    if (!PyFloat_CheckExact(Object))
      return false;
    Parameters.set(Step.Parameter, packSingle(PyFloat_AS_DOUBLE(Object)));
    return true;
  case ArgumentKind::Half:
  case ArgumentKind::BFloat16:
  case ArgumentKind::Double:
  case ArgumentKind::TensorMap:
  case ArgumentKind::Descriptor:
  case ArgumentKind::Tuple:
    return false;
  default:
    break;
  }
  if (!PyLong_Check(Object))
    return false;
  int Overflow;
  const int64_t Value = integerValue(Object, Overflow);
  if (Overflow || !integerRange(Step.Kind).holds(Value))
    return false;
  Parameters.set(Step.Parameter, static_cast<uint64_t>(Value));
  return true;
}

bool ArgumentWriter::write(const LaunchPlan &Plan, PyObject *const *Objects) {
  const std::vector<ArgumentStep> &Steps = Plan.steps();
  for (size_t I = 0, Count = Steps.size(); I != Count; ++I)
    if (!writeQuickly(Steps[I], Objects[I]) &&
        !writeOne(Plan.arguments()[I], Objects[I]))
      return false;
  return true;
}

bool ArgumentWriter::writeOne(const Argument &Arg, PyObject *Object) {
  switch (Arg.Kind) {
  case ArgumentKind::Constexpr:
    return true;
  case ArgumentKind::Pointer: {
    uint64_t Address;
    if (!convertPointer(Driver, Arg, Object, KernelName, Address))
      return false;
    Parameters.set(Arg.Parameter, Address);
    return true;
  }
  case ArgumentKind::Half:
  case ArgumentKind::BFloat16:
  case ArgumentKind::Single:
  case ArgumentKind::Double:
    return writeFloat(Arg, Object);
  case ArgumentKind::TensorMap:
    return writeTensorMap(Arg, Object);
  case ArgumentKind::Descriptor:
    return writeDescriptor(Arg, Object);
  case ArgumentKind::Tuple:
    return writeTuple(Arg, Object);
  default:
    return writeInteger(Arg, Object);
  }
}

bool ArgumentWriter::writeInteger(const Argument &Arg, PyObject *Object) {
  int64_t Value;
  int Overflow = 0;
  const IntegerRange Range = integerRange(Arg.Kind);
  if (indexOf(Object, Value, Overflow) && !Overflow && Range.holds(Value)) {
    Parameters.set(Arg.Parameter, static_cast<uint64_t>(Value));
    return true;
  }
  const std::string What = argumentText(Arg, KernelName);
  if (PyErr_Occurred()) {
    raiseNotAnInteger(Object, What.c_str(), Arg.Type.c_str());
    return false;
  }
  if (Arg.Kind != ArgumentKind::UInt64) {
    return convertInteger(Object, Range, What.c_str(), Arg.Type.c_str(), Value);
  }
  // The upper half of u64 is more than a signed 64-bit integer holds.
  const Reference Index(PyNumber_Index(Object));
  if (!Index)
    return false;
  const uint64_t Unsigned = PyLong_AsUnsignedLongLong(Index.get());
  if (Unsigned == static_cast<uint64_t>(-1) && PyErr_Occurred()) {
    replaceError(PyExc_OverflowError,
                 "%s: %R is out of range for u64 (0 to 18446744073709551615)",
                 What.c_str(), Object);
    return false;
  }
  Parameters.set(Arg.Parameter, Unsigned);
  return true;
}

bool ArgumentWriter::writeFloat(const Argument &Arg, PyObject *Object) {
  double Value;
  if (PyFloat_CheckExact(Object)) {
    Value = PyFloat_AS_DOUBLE(Object);
  } else {
    Value = PyFloat_AsDouble(Object);
    if (Value == -1.0 && PyErr_Occurred()) {
      const std::string What = argumentText(Arg, KernelName);
      if (PyErr_ExceptionMatches(PyExc_OverflowError))
        replaceError(PyExc_OverflowError, "%s: %R is too large for %s",
                     What.c_str(), Object, Arg.Type.c_str());
      else if (PyErr_ExceptionMatches(PyExc_TypeError))
        replaceError(PyExc_TypeError, "%s (%s) must be a number, not %.200s",
                     What.c_str(), Arg.Type.c_str(), Py_TYPE(Object)->tp_name);
      return false;
    }
  }
  switch (Arg.Kind) {
  case ArgumentKind::Double:
    Parameters.set(Arg.Parameter, packDouble(Value));
    return true;
  case ArgumentKind::Single:
    Parameters.set(Arg.Parameter, packSingle(Value));
    return true;
  case ArgumentKind::BFloat16:
    Parameters.set(Arg.Parameter, packBFloat16(Value));
    return true;
  default:
    break;
  }
  const std::optional<uint16_t> Half = packHalf(Value);
  if (!Half) {
    PyErr_Format(PyExc_OverflowError, "%s: %R is too large for fp16",
                 argumentText(Arg, KernelName).c_str(), Object);
    return false;
  }
  Parameters.set(Arg.Parameter, *Half);
  return true;
}

bool ArgumentWriter::writeTuple(const Argument &Arg, PyObject *Object) {
  if (!PyTuple_Check(Object) && !PyList_Check(Object)) {
    PyErr_Format(PyExc_TypeError, "%s must be a tuple, not %.200s",
                 argumentText(Arg, KernelName).c_str(),
                 Py_TYPE(Object)->tp_name);
    return false;
  }
  // A list's items may be dropped by code that a conversion runs, so hold them.
  const Reference Items(PySequence_Tuple(Object));
  if (!Items)
    return false;
  const auto Given = static_cast<size_t>(PyTuple_GET_SIZE(Items.get()));
  if (Given != Arg.Elements.size()) {
    PyErr_Format(PyExc_TypeError, "%s must have %zu elements, not %zu",
                 argumentText(Arg, KernelName).c_str(), Arg.Elements.size(),
                 Given);
    return false;
  }
  for (size_t I = 0; I != Given; ++I)
    if (!writeOne(Arg.Elements[I],
                  PyTuple_GET_ITEM(Items.get(), static_cast<Py_ssize_t>(I))))
      return false;
  return true;
}

bool ArgumentWriter::writeTensorMap(const Argument &Arg, PyObject *Object) {
  TensorMap *Map = tensorMapIn(Object);
  if (!Map) {
    PyErr_Format(PyExc_TypeError,
                 "%s must be of type PyCUtensorMap, as fill_tma_descriptor "
                 "makes it, not %.200s",
                 argumentText(Arg, KernelName).c_str(),
                 Py_TYPE(Object)->tp_name);
    return false;
  }
  Parameters.refer(Arg.Parameter, Map);
  return true;
}

namespace {

/// Reads `Object.<Attribute>`, a sequence of `Rank` integers from `Smallest` to
/// `Largest`.
bool readDimensions(PyObject *Object, PyObject *Attribute, unsigned Rank,
                    const IntegerRange &Range, const char *Type,
                    const std::string &What, int64_t *Out) {
  const Reference Value(PyObject_GetAttr(Object, Attribute));
  if (!Value) {
    replaceError(PyExc_TypeError, "%s must be a tensor descriptor, not %.200s",
                 What.c_str(), Py_TYPE(Object)->tp_name);
    return false;
  }
  const Reference Items(PySequence_Tuple(Value.get()));
  if (!Items)
    return false;
  if (PyTuple_GET_SIZE(Items.get()) != static_cast<Py_ssize_t>(Rank)) {
    PyErr_Format(PyExc_ValueError,
                 "%s: its %U has %zd dimensions, the kernel "
                 "was compiled for %u",
                 What.c_str(), Attribute, PyTuple_GET_SIZE(Items.get()), Rank);
    return false;
  }
  for (unsigned I = 0; I != Rank; ++I) {
    PyObject *Item = PyTuple_GET_ITEM(Items.get(), static_cast<Py_ssize_t>(I));
    int Overflow = 0;
    if (indexOf(Item, Out[I], Overflow) && !Overflow && Range.holds(Out[I]))
      continue;
    if (PyErr_Occurred())
      PyErr_Clear();
    const char *Name = PyUnicode_AsUTF8(Attribute);
    const std::string Where =
        What + ": " + (Name ? Name : "?") + "[" + std::to_string(I) + "]";
    return convertInteger(Item, Range, Where.c_str(), Type, Out[I]);
  }
  return true;
}

} // namespace

bool ArgumentWriter::writeDescriptor(const Argument &Arg, PyObject *Object) {
  const unsigned Rank = Arg.Rank;
  const std::string What = argumentText(Arg, KernelName);
  int64_t Shape[TiledTensor::MaxRank], Strides[TiledTensor::MaxRank];
  // Every form passes the shape as i32 at least once.
  if (!readDimensions(Object, Interned.Shape, Rank,
                      integerRange(ArgumentKind::Int32), "i32", What, Shape) ||
      !readDimensions(Object, Interned.Strides, Rank,
                      integerRange(ArgumentKind::Int64), "i64", What, Strides))
    return false;
  const Reference Base(PyObject_GetAttr(Object, Interned.Base));
  if (!Base)
    return false;
  const Reference Padding(PyObject_GetAttr(Object, Interned.Padding));
  if (!Padding)
    return false;
  const bool PadWithNaN =
      PyUnicode_Check(Padding.get()) &&
      PyUnicode_CompareWithASCIIString(Padding.get(), "nan") == 0;
  uint64_t Address;
  if (!convertPointer(Driver, Arg, Base.get(), KernelName, Address))
    return false;

  uint32_t Next = Arg.Parameter;
  const auto append = [&](const int64_t *Values) {
    for (unsigned I = 0; I != Rank; ++I)
      Parameters.set(Next++, static_cast<uint64_t>(Values[I]));
  };
  if (Arg.Form == DescriptorForm::Expanded) {
    Parameters.set(Next++, Address);
    append(Shape);
    append(Strides);
    Parameters.set(Next++, PadWithNaN);
    append(Shape);
    append(Strides);
    return true;
  }

  const DescriptorEncoding &Encoding = Encodings[Arg.DescriptorIndex];
  if (Strides[Rank - 1] != 1) {
    PyErr_Format(PyExc_ValueError,
                 "%s: the last dimension must be contiguous, its stride is "
                 "%lld",
                 What.c_str(), static_cast<long long>(Strides[Rank - 1]));
    return false;
  }
  if (Encoding.Rank != Rank) {
    PyErr_Format(PyExc_ValueError,
                 "%s: the kernel's metadata describes a block of %u dimensions "
                 "and its signature one of %u",
                 What.c_str(), Encoding.Rank, Rank);
    return false;
  }
  if (Encoding.IsFp4Padded)
    Shape[Rank - 1] *= 2;
  TiledTensor Tensor;
  Tensor.Address = Address;
  Tensor.Rank = Rank;
  Tensor.ElementSize = Encoding.ElementSize;
  Tensor.ElementType = Encoding.ElementType;
  Tensor.Swizzle = Encoding.Swizzle;
  Tensor.PadWithNaN = PadWithNaN;
  Tensor.Block = Encoding.Block;
  for (unsigned I = 0; I != Rank; ++I) {
    Tensor.Shape[I] = static_cast<uint64_t>(Shape[I]);
    Tensor.Strides[I] = Strides[I];
  }
  if (!encodeDescriptor(Arg, Tensor))
    return false;
  ++Next;
  append(Shape);
  append(Strides);
  return true;
}

bool ArgumentWriter::encodeDescriptor(const Argument &Arg,
                                      const TiledTensor &Tensor) {
  if (!Maps)
    Maps = std::make_unique<TensorMap[]>(Encodings.size());
  TensorMap &Map = Maps[Arg.DescriptorIndex];
  if (MaybeFailure Failure = encodeTensorMap(Driver, Tensor, Map)) {
    raiseDriverError(Driver, *Failure,
                     " for " + argumentText(Arg, KernelName) + ": " +
                         Tensor.describe());
    return false;
  }
  Parameters.refer(Arg.Parameter, &Map);
  return true;
}
