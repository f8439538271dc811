//===- call_fingerprint.cc - What a kernel call specializes on ------------===//

#include "call_fingerprint.h"

#include "dlpack_exchange.h"
#include "launch_arguments.h"
#include "quick_integer.h"

using namespace flagtree;
using namespace flagtree::python;

namespace {

/// The lowest byte of a word says what the rest of it, or the next, means.
enum Tag : uint64_t {
  TagNone = 1,
  TagFalse,
  TagTrue,
  TagInteger,
  TagIntegerClass,
  TagFloat,
  TagFloatValue,
  TagText,
  TagConstant,
  TagTensor,
  TagOption,
};

/// Triton specializes a tensor, and an integer, on being a multiple of this.
constexpr uint64_t Divisor = 16;

/// Whether one dtype of torch alone is described so, or one of those that
/// needDtype() tells apart. Newer and composite types are left out.
bool isPlainElementType(const dlpack::Tensor &Tensor) {
  if (Tensor.TypeLanes != 1)
    return false;
  switch (Tensor.TypeCode) {
  case 0: // signed
  case 1: // unsigned
    return Tensor.TypeBits == 8 || Tensor.TypeBits == 16 ||
           Tensor.TypeBits == 32 || Tensor.TypeBits == 64;
  case 2: // IEEE floating point
    return Tensor.TypeBits == 16 || Tensor.TypeBits == 32 ||
           Tensor.TypeBits == 64;
  case 4: // bfloat16
    return Tensor.TypeBits == 16;
  case 6:  // bool
  case 10: // float8_e4m3fn
  case 12: // float8_e5m2
    return Tensor.TypeBits == 8;
  default:
    return false;
  }
}

/// Whether the description also is that of dtypes with fewer bits: torch says 8
/// for int1 to int7 as well.
bool needDtype(const dlpack::Tensor &Tensor) {
  return Tensor.TypeCode <= 1 && Tensor.TypeBits == 8;
}

PyObject *DtypeName = nullptr;

} // namespace

bool python::initFingerprint() {
  DtypeName = PyUnicode_InternFromString("dtype");
  return DtypeName != nullptr;
}

bool BoundArguments::bind(const std::vector<FunctionParameter> &Parameters,
                          PyObject *const *Args, size_t NumPositional,
                          PyObject *KeywordNames) {
  Count = Parameters.size();
  if (Count > Capacity || NumPositional > Count)
    return false;
  std::copy(Args, Args + NumPositional, Values);
  std::fill(Values + NumPositional, Values + Count, nullptr);
  const size_t NumKeywords =
      KeywordNames ? static_cast<size_t>(PyTuple_GET_SIZE(KeywordNames)) : 0;
  for (size_t I = 0; I != NumKeywords; ++I) {
    PyObject *Name = PyTuple_GET_ITEM(KeywordNames, static_cast<Py_ssize_t>(I));
    PyObject *Value = Args[NumPositional + I];
    size_t Index = 0;
    // Names of parameters and keywords at a call are interned; those that are
    // not (f(**options)) are compared by content.
    while (Index != Count && Parameters[Index].Name.get() != Name)
      ++Index;
    if (Index == Count && !PyUnicode_CHECK_INTERNED(Name)) {
      Index = 0;
      while (Index != Count &&
             PyUnicode_Compare(Parameters[Index].Name.get(), Name) != 0)
        ++Index;
    }
    if (Index != Count) {
      if (Values[Index])
        return false;
      Values[Index] = Value;
      continue;
    }
    if (NumOptions == MaxOptions)
      return false;
    OptionNames[NumOptions] = Name;
    OptionValues[NumOptions++] = Value;
  }
  for (size_t I = NumPositional; I != Count; ++I)
    if (!Values[I] && !(Values[I] = Parameters[I].Default.get()))
      return false;
  return true;
}

bool Fingerprint::addCall(const std::vector<FunctionParameter> &Parameters,
                          const BoundArguments &Bound,
                          PyTypeObject *ConstantType) {
  for (size_t I = 0; I != Bound.size(); ++I)
    if (!(Parameters[I].IsConstexpr ? addConstant(Bound[I], ConstantType)
                                    : addArgument(Bound[I])))
      return false;
  for (size_t I = 0; I != Bound.numOptions(); ++I) {
    addWord(TagOption);
    if (!addText(Bound.optionName(I)) ||
        !addConstant(Bound.optionValue(I), ConstantType))
      return false;
  }
  return !overflowed();
}

bool Fingerprint::addArgument(PyObject *Object) {
  dlpack::Tensor Tensor;
  if (describeTensor(Object, Tensor)) {
    if (!isPlainElementType(Tensor))
      return false;
    const uint64_t Address =
        reinterpret_cast<uint64_t>(Tensor.Data) + Tensor.ByteOffset;
    addWord(TagTensor | static_cast<uint64_t>(Tensor.TypeCode) << 8 |
            static_cast<uint64_t>(Tensor.TypeBits) << 16 |
            static_cast<uint64_t>(Address % Divisor == 0) << 24);
    if (needDtype(Tensor)) {
      // torch has one object per dtype, which lives as long as the process.
      const Reference Dtype(PyObject_GetAttr(Object, DtypeName));
      if (!Dtype) {
        PyErr_Clear();
        return false;
      }
      addWord(reinterpret_cast<uint64_t>(Dtype.get()));
    }
    return true;
  }
  if (PyLong_CheckExact(Object)) {
    int Overflow;
    const int64_t Value = integerValue(Object, Overflow);
    // Which type it fits, whether it is a multiple, whether it is one.
    uint64_t Class = 0;
    if (Overflow > 0) {
      const unsigned long long Unsigned = PyLong_AsUnsignedLongLong(Object);
      if (Unsigned == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
      }
      Class = 1 | static_cast<uint64_t>(Unsigned % Divisor == 0) << 8;
    } else if (Overflow < 0) {
      return false;
    } else {
      const bool Fits32 = INT32_MIN <= Value && Value <= INT32_MAX;
      Class = (Fits32 ? 2 : 3) |
              static_cast<uint64_t>(Value % static_cast<int64_t>(Divisor) == 0)
                  << 8 |
              static_cast<uint64_t>(Value == 1) << 9;
    }
    addWord(TagIntegerClass | Class << 8);
    return true;
  }
  if (PyFloat_CheckExact(Object)) {
    addWord(TagFloat);
    return true;
  }
  if (Object == Py_None || PyBool_Check(Object))
    return addConstant(Object, nullptr);
  return false;
}

bool Fingerprint::addConstant(PyObject *Object, PyTypeObject *ConstantType) {
  if (Object == Py_None) {
    addWord(TagNone);
    return true;
  }
  if (PyBool_Check(Object)) {
    addWord(Object == Py_True ? TagTrue : TagFalse);
    return true;
  }
  if (PyLong_CheckExact(Object)) {
    int Overflow;
    const int64_t Value = integerValue(Object, Overflow);
    if (Overflow)
      return false;
    addWord(TagInteger);
    addWord(static_cast<uint64_t>(Value));
    return true;
  }
  if (PyFloat_CheckExact(Object)) {
    addWord(TagFloatValue);
    addWord(packDouble(PyFloat_AS_DOUBLE(Object)));
    return true;
  }
  if (PyUnicode_CheckExact(Object))
    return addText(Object);
  if (ConstantType && Py_TYPE(Object) == ConstantType) {
    addWord(TagConstant);
    addWord(reinterpret_cast<uint64_t>(Object));
    return true;
  }
  return false;
}

bool Fingerprint::addText(PyObject *Text) {
  Py_ssize_t Length;
  const char *Bytes = PyUnicode_AsUTF8AndSize(Text, &Length);
  if (!Bytes) {
    PyErr_Clear();
    return false;
  }
  addWord(TagText | static_cast<uint64_t>(Length) << 8);
  for (Py_ssize_t I = 0; I < Length; I += 8) {
    uint64_t Word = 0;
    std::memcpy(&Word, Bytes + I,
                static_cast<size_t>(std::min<Py_ssize_t>(8, Length - I)));
    addWord(Word);
  }
  return true;
}

uint64_t Fingerprint::hash() const {
  uint64_t State = 0x9e3779b97f4a7c15;
  for (size_t I = 0; I != Count; ++I) {
    State = (State ^ Words[I]) * 0xff51afd7ed558ccd;
    State ^= State >> 32;
  }
  return State;
}
