//===- dlpack_exchange.h - DLPack's C exchange table ------------*- C++ -*-===//
//
// The part of DLPack (1.3) that lets an extension read a tensor's address and
// device in one C call, without making a Python object. A tensor type offers
// it as the capsule `__dlpack_c_exchange_api__`. Only layouts are DLPack's; the
// declarations are ours.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_DLPACK_EXCHANGE_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_DLPACK_EXCHANGE_H

#include <cstddef>
#include <cstdint>

namespace flagtree::dlpack {

inline constexpr char ExchangeAttribute[] = "__dlpack_c_exchange_api__";
inline constexpr char ExchangeCapsule[] = "dlpack_exchange_api";
/// Layouts change only with the major version.
inline constexpr uint32_t MajorVersion = 1;

enum DeviceType : int32_t { CPU = 1, CUDA = 2, CUDAHost = 3, CUDAManaged = 13 };

/// A tensor as its owner sees it: nothing here is owned.
struct Tensor {
  void *Data;
  int32_t Device;
  int32_t DeviceIndex;
  int32_t Rank;
  uint8_t TypeCode;
  uint8_t TypeBits;
  uint16_t TypeLanes;
  int64_t *Shape;
  int64_t *Strides;
  uint64_t ByteOffset;
};
static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, Shape) == 24);

struct ExchangeTable {
  uint32_t Major;
  uint32_t Minor;
  ExchangeTable *Previous;
  void *AllocateManaged;
  void *ManagedFromPython;
  void *ManagedToPython;
  /// Fills the tensor from a Python object of the type; 0, or -1 with a Python
  /// exception set. May be null.
  int (*TensorFromPython)(void *Object, Tensor *Out);
};
static_assert(offsetof(ExchangeTable, TensorFromPython) == 40);

} // namespace flagtree::dlpack

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_DLPACK_EXCHANGE_H
