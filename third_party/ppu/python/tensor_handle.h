//===- tensor_handle.h - A tensor's address in two C calls ------*- C++ -*-===//
//
// torch's stable C functions (aoti_torch_*) tell a tensor's device and address
// in a fraction of the time that its DLPack table or its Python methods take.
// They want the address of the at::Tensor, which lies inside the Python object;
// where, depends on torch's version. So it is looked for in the first tensor
// that is seen: the word that holds what `_cdata` tells, the tensor's
// implementation. What the functions answer for it is compared with what Python
// answers before it is relied on.
//
// Everything here needs the GIL. No function leaves an exception set.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_TENSOR_HANDLE_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_TENSOR_HANDLE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>

namespace flagtree::python {

/// Where the exact instances of one type keep their at::Tensor.
class TensorHandle {
public:
  bool isKnown() const { return Offset > 0; }

  /// Looks for it in `Tensor`, an exact instance, unless that was given up.
  void learn(PyObject *Tensor);

  /// The address of a tensor on a CUDA device; false for any other, and where
  /// torch does not answer. Only once it is known.
  bool read(PyObject *Tensor, uint64_t &Address) const;

private:
  bool agrees(PyObject *Tensor, ptrdiff_t At) const;

  /// 0: not known yet.
  ptrdiff_t Offset = 0;
  /// A tensor without storage says nothing; so a few are tried.
  int TriesLeft = 8;
};

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_TENSOR_HANDLE_H
