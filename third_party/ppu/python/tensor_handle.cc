//===- tensor_handle.cc - A tensor's address in two C calls ---------------===//

#include "tensor_handle.h"

#include "python_reference.h"

#include "flagtree/Driver/Symbols.h"

#include <cstring>

using namespace flagtree;
using namespace flagtree::python;

namespace {

/// torch's functions; all of them or none. 0 is success.
struct TorchFunctions {
  int32_t (*GetDeviceType)(void *Tensor, int32_t *Type) = nullptr;
  int32_t (*GetDataPointer)(void *Tensor, void **Address) = nullptr;
  int32_t CUDA = -1;

  TorchFunctions() {
    // torch is imported by whoever has a tensor, and never unloaded.
    void *Library = alreadyOpen("libtorch_cpu.so");
    if (!Library)
      return;
    int32_t (*GetCUDAType)() = nullptr;
    resolveSymbol(Library, "aoti_torch_device_type_cuda", GetCUDAType);
    resolveSymbol(Library, "aoti_torch_get_device_type", GetDeviceType);
    resolveSymbol(Library, "aoti_torch_get_data_ptr", GetDataPointer);
    if (GetCUDAType)
      CUDA = GetCUDAType();
  }

  bool areThere() const { return GetDeviceType && GetDataPointer && CUDA >= 0; }
};

const TorchFunctions &torchFunctions() {
  static const TorchFunctions Functions;
  return Functions;
}

/// The integer that an attribute, called if it is callable, answers; 0, which
/// no address is, if there is none.
uint64_t integerOf(PyObject *Object, const char *Attribute) {
  Reference Answer(PyObject_GetAttrString(Object, Attribute));
  if (Answer && PyCallable_Check(Answer.get()))
    Answer = Reference(PyObject_CallNoArgs(Answer.get()));
  const uint64_t Value = Answer && PyLong_Check(Answer.get())
                             ? PyLong_AsUnsignedLongLong(Answer.get())
                             : 0;
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return 0;
  }
  return Value;
}

char *inside(PyObject *Object, ptrdiff_t At) {
  return reinterpret_cast<char *>(Object) + At;
}

} // namespace

void TensorHandle::learn(PyObject *Tensor) {
  if (isKnown() || TriesLeft == 0)
    return;
  --TriesLeft;
  const uint64_t Implementation = integerOf(Tensor, "_cdata");
  if (!Implementation || !torchFunctions().areThere())
    return;
  const auto Size = static_cast<ptrdiff_t>(Py_TYPE(Tensor)->tp_basicsize);
  constexpr auto Word = static_cast<ptrdiff_t>(sizeof(uint64_t));
  for (auto At = static_cast<ptrdiff_t>(sizeof(PyObject)); At + Word <= Size;
       At += Word) {
    uint64_t Value;
    std::memcpy(&Value, inside(Tensor, At), sizeof(Value));
    if (Value == Implementation && agrees(Tensor, At)) {
      Offset = At;
      return;
    }
  }
}

bool TensorHandle::agrees(PyObject *Tensor, ptrdiff_t At) const {
  const uint64_t Address = integerOf(Tensor, "data_ptr");
  const Reference IsCuda(PyObject_GetAttrString(Tensor, "is_cuda"));
  PyErr_Clear();
  const TorchFunctions &Torch = torchFunctions();
  void *Handle = inside(Tensor, At), *Told = nullptr;
  int32_t Type = -1;
  return Address && IsCuda && Torch.GetDeviceType(Handle, &Type) == 0 &&
         (Type == Torch.CUDA) == (IsCuda.get() == Py_True) &&
         Torch.GetDataPointer(Handle, &Told) == 0 &&
         reinterpret_cast<uint64_t>(Told) == Address;
}

bool TensorHandle::read(PyObject *Tensor, uint64_t &Address) const {
  const TorchFunctions &Torch = torchFunctions();
  void *Handle = inside(Tensor, Offset), *Told;
  int32_t Type;
  if (Torch.GetDeviceType(Handle, &Type) != 0 || Type != Torch.CUDA ||
      Torch.GetDataPointer(Handle, &Told) != 0)
    return false;
  Address = reinterpret_cast<uint64_t>(Told);
  return true;
}
