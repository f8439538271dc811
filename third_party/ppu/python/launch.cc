// Bindings of lib/Launch: `triton._C.ppu.launch`. This file holds what is not
// called at every launch; the launcher itself is launch_object.cc, the
// conversion of arguments launch_arguments.cc.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "dispatch.h"
#include "driver_error.h"
#include "launch_arguments.h"
#include "launch_object.h"
#include "tensor_map_object.h"

#include "flagtree/Launch/DeviceUtilities.h"
#include "flagtree/Launch/KernelLaunch.h"
#include "flagtree/Launch/KernelModule.h"

namespace py = pybind11;
using namespace flagtree;
using namespace flagtree::python;

namespace {

const EntryPoints &driver() {
  const EntryPoints *Driver = usableDriver();
  if (!Driver)
    throw py::error_already_set();
  return *Driver;
}

[[noreturn]] void raise(const EntryPoints &Driver, const DriverFailure &Failure,
                        const std::string &Detail) {
  raiseDriverError(Driver, Failure, Detail);
  throw py::error_already_set();
}

/// Reads [(name, type), ...] where a type is a str, or a tuple of such pairs.
std::vector<SignatureEntry> readSignature(const py::handle &Pairs) {
  std::vector<SignatureEntry> Entries;
  for (const py::handle Pair : Pairs) {
    const auto Tuple = py::cast<py::tuple>(Pair);
    SignatureEntry Entry;
    Entry.Name = py::cast<std::string>(Tuple[0]);
    if (py::isinstance<py::str>(Tuple[1])) {
      Entry.Type = py::cast<std::string>(Tuple[1]);
    } else {
      Entry.IsTuple = true;
      Entry.Elements = readSignature(Tuple[1]);
    }
    Entries.push_back(std::move(Entry));
  }
  return Entries;
}

/// The tensor map type that the compiler's element type stands for: it writes
/// the device's numbering, whose types 8 to 10 are fp32 with denormals flushed,
/// fp64 and bf16, and the driver's are fp64, bf16 and the flushing fp32.
TensorMapDataType hostElementType(int DeviceType) {
  switch (DeviceType) {
  case 8:
    return static_cast<TensorMapDataType>(10);
  case 9:
    return TensorMapDataType::Float64;
  case 10:
    return TensorMapDataType::BFloat16;
  default:
    return static_cast<TensorMapDataType>(DeviceType);
  }
}

DescriptorEncoding readEncoding(const py::dict &Meta) {
  DescriptorEncoding Encoding;
  const auto Block = py::cast<std::vector<uint32_t>>(Meta["block_size"]);
  if (Block.size() > TiledTensor::MaxRank)
    throw py::value_error("a tensor map has at most five dimensions");
  std::copy(Block.begin(), Block.end(), Encoding.Block.begin());
  Encoding.Rank = static_cast<unsigned>(Block.size());
  Encoding.Swizzle =
      static_cast<TensorMapSwizzle>(py::cast<int>(Meta["swizzle"]));
  Encoding.ElementSize = py::cast<unsigned>(Meta["elem_size"]);
  Encoding.ElementType = hostElementType(py::cast<int>(Meta["elem_type"]));
  Encoding.IsFp4Padded = py::cast<bool>(Meta["fp4_padded"]);
  return Encoding;
}

ScratchRequest readScratch(const py::tuple &Request) {
  ScratchRequest Scratch;
  Scratch.Size = py::cast<int64_t>(Request[0]);
  Scratch.Alignment = py::cast<int64_t>(Request[1]);
  Scratch.Allocator = Request[2].cast<py::object>().ptr();
  if (Scratch.Size < 0)
    throw py::value_error("a scratch size must not be negative");
  return Scratch;
}

py::object makeLauncher(const py::str &Name, const py::sequence &Signature,
                        const py::sequence &Descriptors, unsigned NumCTAs,
                        bool Cooperative, bool Pdl, const py::tuple &Global,
                        const py::tuple &Profile) {
  std::vector<bool> Mapped;
  std::vector<DescriptorEncoding> Encodings;
  for (const py::handle Meta : Descriptors) {
    Mapped.push_back(!Meta.is_none());
    Encodings.push_back(Meta.is_none()
                            ? DescriptorEncoding()
                            : readEncoding(py::cast<py::dict>(Meta)));
  }
  std::string Error;
  std::optional<LaunchPlan> Plan =
      LaunchPlan::create(readSignature(Signature), Mapped, Error);
  if (!Plan)
    throw py::value_error("kernel '" + py::cast<std::string>(Name) +
                          "': " + Error);
  auto Config = std::make_unique<LauncherConfig>(std::move(*Plan));
  Config->Encodings = std::move(Encodings);
  Config->KernelName = Name.ptr();
  Config->NumCTAs = NumCTAs;
  Config->Cooperative = Cooperative;
  Config->ProgrammaticDependentLaunch = Pdl;
  Config->GlobalScratch = readScratch(Global);
  Config->ProfileScratch = readScratch(Profile);
  PyObject *Launcher = newLauncher(std::move(Config));
  if (!Launcher)
    throw py::error_already_set();
  return py::reinterpret_steal<py::object>(Launcher);
}

py::tuple loadBinary(const std::string &Name, const py::bytes &Image,
                     int Shared, int Ordinal) {
  const EntryPoints &Driver = driver();
  const char *Bytes = PyBytes_AS_STRING(Image.ptr());
  const auto Loaded = [&] {
    py::gil_scoped_release Released;
    return loadKernel(Driver, Name.c_str(), Bytes, Shared, Ordinal);
  }();
  if (!Loaded)
    raise(Driver, Loaded.error(),
          ", loading kernel '" + Name + "' (" +
              std::to_string(PyBytes_GET_SIZE(Image.ptr())) +
              " bytes of code, " + std::to_string(Shared) +
              " bytes of shared memory) on device " + std::to_string(Ordinal));
  return py::make_tuple(reinterpret_cast<uint64_t>(Loaded->Image),
                        reinterpret_cast<uint64_t>(Loaded->Kernel),
                        Loaded->NumRegisters, Loaded->NumSpills,
                        Loaded->MaxThreads);
}

py::dict getDeviceProperties(int Ordinal) {
  const EntryPoints &Driver = driver();
  const auto Properties = deviceProperties(Driver, Ordinal);
  if (!Properties)
    raise(Driver, Properties.error(),
          ", reading the properties of device " + std::to_string(Ordinal));
  using namespace py::literals;
  return py::dict("max_shared_mem"_a = Properties->MaxSharedMemory,
                  "max_num_regs"_a = Properties->MaxRegisters,
                  "multiprocessor_count"_a = Properties->MultiprocessorCount,
                  "warpSize"_a = Properties->WarpSize,
                  "sm_clock_rate"_a = Properties->ClockRate,
                  "mem_clock_rate"_a = Properties->MemoryClockRate,
                  "mem_bus_width"_a = Properties->MemoryBusWidth);
}

void setFifoSize(long long Bytes, int Ordinal) {
  if (Bytes < 0)
    throw py::value_error("fifo size must be non-negative");
  const EntryPoints &Driver = driver();
  const MaybeFailure Failure = [&] {
    py::gil_scoped_release Released;
    return setPrintfFifoSize(Driver, static_cast<size_t>(Bytes), Ordinal);
  }();
  if (Failure)
    raise(Driver, *Failure,
          ", setting the printf buffer to " + std::to_string(Bytes) +
              " bytes; it must be set before the first kernel that prints");
}

int occupancy(uint64_t Kernel, int Shared, int ClusterSize) {
  const EntryPoints &Driver = driver();
  const auto Clusters = [&] {
    py::gil_scoped_release Released;
    return maxActiveClusters(Driver, reinterpret_cast<Function>(Kernel), Shared,
                             ClusterSize);
  }();
  if (!Clusters)
    raise(Driver, Clusters.error(),
          ", for clusters of " + std::to_string(ClusterSize) + " with " +
              std::to_string(Shared) + " bytes of shared memory");
  return *Clusters;
}

py::object fillTensorMap(uint64_t Address, int Swizzle, int ElementSize,
                         int ElementType, const std::vector<uint32_t> &Block,
                         const std::vector<uint64_t> &Shape,
                         const std::vector<int64_t> &Strides, int Padding) {
  const size_t Rank = Block.size();
  if (Rank == 0 || Rank > TiledTensor::MaxRank)
    throw py::value_error("a tensor map has one to five dimensions, not " +
                          std::to_string(Rank));
  if (Shape.size() != Rank || Strides.size() != Rank)
    throw std::runtime_error("Rank mismatch: block_size has " +
                             std::to_string(Rank) + " dimensions, shape " +
                             std::to_string(Shape.size()) + ", strides " +
                             std::to_string(Strides.size()));
  TiledTensor Tensor;
  Tensor.Address = Address;
  Tensor.Rank = static_cast<unsigned>(Rank);
  Tensor.ElementSize = static_cast<unsigned>(ElementSize);
  Tensor.ElementType = static_cast<TensorMapDataType>(ElementType);
  Tensor.Swizzle = static_cast<TensorMapSwizzle>(Swizzle);
  Tensor.PadWithNaN = Padding == 1;
  std::copy(Block.begin(), Block.end(), Tensor.Block.begin());
  std::copy(Shape.begin(), Shape.end(), Tensor.Shape.begin());
  std::copy(Strides.begin(), Strides.end(), Tensor.Strides.begin());
  const EntryPoints &Driver = driver();
  TensorMap Map{};
  if (MaybeFailure Failure = encodeTensorMap(Driver, Tensor, Map))
    raise(Driver, *Failure,
          ": Failed to create tensor map descriptor: " + Tensor.describe());
  PyObject *Object = newTensorMap(Map);
  if (!Object)
    throw py::error_already_set();
  return py::reinterpret_steal<py::object>(Object);
}

std::vector<double> timeBareLaunches(uint64_t Kernel, uint64_t RawStream,
                                     const std::array<unsigned, 3> &Grid,
                                     unsigned NumWarps, unsigned Shared,
                                     const std::vector<py::bytes> &Values,
                                     unsigned Batches, unsigned PerBatch) {
  const EntryPoints &Driver = driver();
  if (PerBatch == 0)
    throw py::value_error("a batch must have at least one launch");
  std::vector<void *> Addresses;
  for (const py::bytes &Value : Values)
    Addresses.push_back(PyBytes_AS_STRING(Value.ptr()));
  LaunchShape Shape;
  Shape.GridX = Grid[0];
  Shape.GridY = Grid[1];
  Shape.GridZ = Grid[2];
  Shape.NumWarps = NumWarps;
  Shape.SharedMemoryBytes = Shared;
  const auto Times = [&] {
    py::gil_scoped_release Released;
    return timeLaunches(Driver, Shape, reinterpret_cast<Stream>(RawStream),
                        reinterpret_cast<Function>(Kernel), Addresses.data(),
                        Batches, PerBatch);
  }();
  if (!Times)
    raise(Driver, Times.error(), ", timing launches");
  return *Times;
}

void setEnvironment(const py::object &EnsureUsable,
                    const py::object &CurrentDevice, const py::type &HookChain,
                    const py::type &DriverError) {
  LaunchEnvironment &Environment = launchEnvironment();
  // The old values are kept alive: a launch in another thread may use them.
  Environment.EnsureUsable = EnsureUsable.inc_ref().ptr();
  Environment.CurrentDevice = CurrentDevice.inc_ref().ptr();
  Environment.HookChain =
      reinterpret_cast<PyTypeObject *>(HookChain.inc_ref().ptr());
  setDriverErrorType(DriverError.ptr());
}

} // namespace

void init_triton_ppu_launch(py::module_ &&m) {
  using namespace py::literals;
  m.doc() = "Loading and launching kernels.";
  if (!initArguments() || !initTensorMapType(m.ptr()) ||
      !initLauncherType(m.ptr()) || !initDispatch(m.ptr()))
    throw py::error_already_set();

  m.def("make_launcher", &makeLauncher, "name"_a, "signature"_a,
        "descriptors"_a, "num_ctas"_a, "cooperative"_a, "pdl"_a,
        "global_scratch"_a, "profile_scratch"_a,
        "A KernelLauncher. signature is [(name, type), ...] with a nested list "
        "of pairs as the type of a tuple; descriptors has an entry per tensor "
        "descriptor, None where the kernel takes it expanded; a scratch is "
        "(bytes per block, alignment, allocator).");
  m.def("load_binary", &loadBinary, "name"_a, "image"_a, "shared"_a, "device"_a,
        "Loads a compiled kernel: (module, function, registers, spills, "
        "maximum threads per block).");
  m.def("get_device_properties", &getDeviceProperties, "device"_a,
        "What Triton asks about a device, as a dict.");
  m.def("set_printf_fifo_size", &setFifoSize, "size"_a, "device"_a,
        "Sets the size in bytes of the device's printf buffer.");
  m.def("max_active_clusters", &occupancy, "function"_a, "shared"_a,
        "cluster_size"_a, "How many clusters the device holds at once.");
  m.def("fill_tma_descriptor", &fillTensorMap, "global_address"_a, "swizzle"_a,
        "elem_size"_a, "elem_type"_a, "block_size"_a, "shape"_a, "strides"_a,
        "padding"_a, "A tensor map for a tiled tensor.");
  m.def("time_launches", &timeBareLaunches, "function"_a, "stream"_a, "grid"_a,
        "num_warps"_a, "shared"_a, "parameters"_a, "batches"_a, "per_batch"_a,
        "Times the driver's launch call by itself, in C++: mean nanoseconds "
        "per launch of each batch; the stream is waited for between batches.");
  m.def("set_environment", &setEnvironment, "ensure_usable"_a,
        "current_device"_a, "hook_chain"_a, "driver_error"_a,
        "What launching needs from Python; see launcher.py.");
  m.def(
      "add_tensor_type",
      [](const py::object &Type) {
        if (!addTensorType(Type.ptr()))
          throw py::error_already_set();
      },
      "type"_a,
      "Lets plain instances of a tensor type pass their address "
      "quickly.");
}
