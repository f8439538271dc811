//===- tensor_map_object.cc - A tensor map as a Python object -------------===//

#include "tensor_map_object.h"

#include <cstdint>

using namespace flagtree;

namespace {

constexpr uintptr_t Alignment = alignof(TensorMap);

PyTypeObject *Type = nullptr;

/// Python's allocator aligns to 16 bytes only, hence the room to move.
struct TensorMapObject {
  PyObject_HEAD unsigned char Storage[sizeof(TensorMap) + Alignment];
};

TensorMap *mapOf(PyObject *Self) {
  auto *Object = reinterpret_cast<TensorMapObject *>(Self);
  const auto Address = reinterpret_cast<uintptr_t>(Object->Storage);
  return reinterpret_cast<TensorMap *>((Address + Alignment - 1) &
                                       ~(Alignment - 1));
}

void deallocate(PyObject *Self) {
  PyTypeObject *SelfType = Py_TYPE(Self);
  SelfType->tp_free(Self);
  Py_DECREF(SelfType);
}

PyObject *getBytes(PyObject *Self, void *) {
  return PyBytes_FromStringAndSize(reinterpret_cast<const char *>(mapOf(Self)),
                                   sizeof(TensorMap));
}

PyGetSetDef Properties[] = {
    {"bytes", getBytes, nullptr, "The 128 bytes of the map.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot Slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocate)},
    {Py_tp_getset, Properties},
    {Py_tp_doc,
     const_cast<char *>("A tensor map (TMA descriptor), as fill_tma_descriptor "
                        "makes it and kernels take it.")},
    {0, nullptr}};

PyType_Spec Spec = {
    "triton._C.ppu.launch.PyCUtensorMap", sizeof(TensorMapObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Slots};

} // namespace

bool python::initTensorMapType(PyObject *Module) {
  Type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&Spec));
  if (!Type)
    return false;
  return PyModule_AddObjectRef(Module, "PyCUtensorMap",
                               reinterpret_cast<PyObject *>(Type)) == 0;
}

PyObject *python::newTensorMap(const TensorMap &Map) {
  PyObject *Self = Type->tp_alloc(Type, 0);
  if (Self)
    *mapOf(Self) = Map;
  return Self;
}

TensorMap *python::tensorMapIn(PyObject *Object) {
  return Py_TYPE(Object) == Type ? mapOf(Object) : nullptr;
}
