//===- launch_arguments.h - Python arguments to kernel parameters -*- C++
//-*-===//
//
// Turns the Python objects a kernel is called with into the parameters that its
// LaunchPlan lists. Raw CPython rather than pybind11: this runs at every
// launch.
//
// Everything here needs the GIL. A function that answers false (or null) has
// set a Python exception that names the argument; every reference it took has
// been given back.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_LAUNCH_ARGUMENTS_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_LAUNCH_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack_exchange.h"

#include "flagtree/Launch/DeviceUtilities.h"
#include "flagtree/Launch/DriverFailure.h"
#include "flagtree/Launch/LaunchPlan.h"

#include <memory>
#include <vector>

namespace flagtree::python {

/// How a kernel wants one of its tensor maps made; from the compiler's
/// `tensordesc_meta`.
struct DescriptorEncoding {
  TensorMapSwizzle Swizzle = TensorMapSwizzle::None;
  unsigned ElementSize = 0;
  TensorMapDataType ElementType = TensorMapDataType::UInt8;
  std::array<uint32_t, TiledTensor::MaxRank> Block{};
  unsigned Rank = 0;
  /// Two 4-bit elements per byte: the innermost dimension counts double.
  bool IsFp4Padded = false;
};

/// Creates the interned names used here. Called once, at import.
bool initArguments();

/// Makes `Type` (torch.Tensor, torch.nn.Parameter) a type whose exact instances
/// take the quick way to their address. The type's DLPack exchange table gives
/// address and device in one call where it has one; else `is_cuda` vouches for
/// the device. Instances of subclasses always take the slow way, since those
/// may redefine what they answer.
bool addTensorType(PyObject *Type);

/// Describes `Object` if it is a plain instance of an added type that offers
/// the exchange table; false, without an exception, for anything else.
bool describeTensor(PyObject *Object, dlpack::Tensor &Out);

/// The address that a pointer argument stands for: an int, None, or an object
/// with data_ptr(). Host memory is refused: an address that its tensor does not
/// itself place on the device is looked up with the driver. `Owner` is the
/// kernel's name.
bool convertPointer(const EntryPoints &Driver, const Argument &Arg,
                    PyObject *Object, PyObject *Owner, uint64_t &Address);

/// The integer in `Object`, by __index__. `What` names it in errors.
bool convertInteger(PyObject *Object, const IntegerRange &Range,
                    const char *What, const char *Type, int64_t &Value);

/// Raises `NewType` with another text in place of the exception that is set,
/// which becomes its cause.
void replaceError(PyObject *NewType, const char *Format, ...);

/// Fills a kernel's parameters.
class ArgumentWriter {
public:
  ArgumentWriter(const EntryPoints &Driver, PyObject *KernelName,
                 const std::vector<DescriptorEncoding> &Encodings,
                 ParameterBuffer &Parameters)
      : Driver(Driver), KernelName(KernelName), Encodings(Encodings),
        Parameters(Parameters) {}

  /// Writes every argument of `Plan` from the objects at `Objects`, one each.
  bool write(const LaunchPlan &Plan, PyObject *const *Objects);

private:
  /// Writes an argument that is given in its plainest form: a tensor that
  /// itself says it is on the device, an int in range, a float. False, without
  /// an exception, for anything else.
  bool writeQuickly(const ArgumentStep &Step, PyObject *Object);
  bool writeOne(const Argument &Arg, PyObject *Object);
  bool writeInteger(const Argument &Arg, PyObject *Object);
  bool writeFloat(const Argument &Arg, PyObject *Object);
  bool writeTuple(const Argument &Arg, PyObject *Object);
  bool writeTensorMap(const Argument &Arg, PyObject *Object);
  bool writeDescriptor(const Argument &Arg, PyObject *Object);
  bool encodeDescriptor(const Argument &Arg, const TiledTensor &Tensor);

  const EntryPoints &Driver;
  PyObject *KernelName;
  const std::vector<DescriptorEncoding> &Encodings;
  ParameterBuffer &Parameters;
  /// Maps made for this launch, one per encoding; most kernels have none.
  std::unique_ptr<TensorMap[]> Maps;
};

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_LAUNCH_ARGUMENTS_H
