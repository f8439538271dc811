// Modules, functions, launches, occupancy and tensor maps. A launch runs
// nothing: it checks what a driver checks and writes what it was given to the
// log, every parameter as the bytes the kernel would have read.

#include "DriverState.h"

#include <algorithm>
#include <cstring>

namespace flagtree::simulator {
namespace {

constexpr unsigned StaticSharedLimit = 49152;

int optInSharedBytes(Device device) {
  const PhysicalDevice &is = physical(device);
  if (is.major == 8 && (is.minor == 0 || is.minor == 7))
    return 166912;
  if (is.major == 9 || is.major == 10)
    return 232448;
  return is.major < 8 ? 65536 : 101376;
}

// Binaries run on the capability they were made for and on later ones of the
// same major number.
bool runsOn(int architecture, const PhysicalDevice &device) {
  return architecture == 0 || (architecture / 10 == device.major &&
                               architecture % 10 <= device.minor);
}

Result loadModule(Module *module, const void *image, Detail &detail) {
  if (!module || !image)
    return InvalidValue;
  std::lock_guard<std::mutex> guard(driver().lock);
  ContextRecord *context;
  if (Result result = requireContext(context))
    return result;
  KernelImage read;
  std::string why;
  if (!readKernelImage(image, read, why)) {
    std::replace(why.begin(), why.end(), ' ', '_');
    std::replace(why.begin(), why.end(), '\n', '_');
    detail.add("why=%s", why.c_str());
    return InvalidImage;
  }
  detail.add("arch=%d", read.architecture);
  if (!runsOn(read.architecture, physical(context->device)))
    return NoBinaryForGpu;
  auto record = std::make_unique<ModuleRecord>();
  record->context = context;
  record->architecture = read.architecture;
  for (KernelDescription &kernel : read.kernels) {
    auto function = std::make_unique<FunctionRecord>();
    function->module = record.get();
    detail.add(" kernel=%s", kernel.name.c_str());
    function->kernel = std::move(kernel);
    driver().functions.insert(function.get());
    record->functions.push_back(std::move(function));
  }
  *module = record.get();
  driver().modules.emplace(*module, std::move(record));
  return Success;
}

// Caller holds the lock.
Result requireFunction(Function function) {
  return driver().functions.count(function) ? Success : InvalidHandle;
}

const LaunchAttribute *findAttribute(const LaunchConfig &config, int id) {
  for (unsigned i = 0; i < config.attributeCount; ++i)
    if (config.attributes[i].id == id)
      return &config.attributes[i];
  return nullptr;
}

Result checkCluster(const LaunchConfig &config, Function function) {
  const LaunchAttribute *cluster =
      findAttribute(config, AttributeClusterDimension);
  if (!cluster)
    return Success;
  const uint32_t *size = cluster->value.words;
  uint64_t blocks = uint64_t(size[0]) * size[1] * size[2];
  unsigned limit = function->nonPortableClusterSizeAllowed ? 16 : 8;
  if (physical(function->module->context->device).major < 9 || blocks == 0 ||
      blocks > limit)
    return InvalidClusterSize;
  if (config.gridX % size[0] || config.gridY % size[1] ||
      config.gridZ % size[2])
    return InvalidValue;
  return Success;
}

Result checkLaunch(const LaunchConfig &config, Function function) {
  uint64_t threads = uint64_t(config.blockX) * config.blockY * config.blockZ;
  if (config.gridX == 0 || config.gridY == 0 || config.gridZ == 0 ||
      threads == 0 || config.gridX > 2147483647u || config.gridY > 65535 ||
      config.gridZ > 65535 || threads > 1024 || config.blockZ > 64)
    return InvalidValue;
  if (threads > uint64_t(function->kernel.maxThreads))
    return LaunchOutOfResources;
  if (config.sharedBytes > unsigned(function->maxDynamicSharedBytes))
    return InvalidValue;
  if (Result result = checkCluster(config, function))
    return result;
  const LaunchAttribute *cooperative =
      findAttribute(config, AttributeCooperative);
  if (cooperative && cooperative->value.words[0]) {
    const PhysicalDevice &device = physical(function->module->context->device);
    uint64_t perMultiprocessor = std::max<uint64_t>(2048 / threads, 1);
    uint64_t blocks = uint64_t(config.gridX) * config.gridY * config.gridZ;
    if (blocks > perMultiprocessor * uint64_t(device.multiprocessors))
      return CooperativeLaunchTooLarge;
  }
  return Success;
}

// The parameter buffer of an `extra` list; false where the list is not one.
bool readExtra(void **extra, const unsigned char *&buffer, size_t &size) {
  buffer = nullptr;
  size = 0;
  for (unsigned i = 0; i < 8; i += 2) {
    std::uintptr_t marker = reinterpret_cast<std::uintptr_t>(extra[i]);
    if (marker == LaunchParameterEnd)
      return true;
    if (marker == LaunchParameterBuffer)
      buffer = static_cast<const unsigned char *>(extra[i + 1]);
    else if (marker == LaunchParameterBufferSize)
      size = *static_cast<const size_t *>(extra[i + 1]);
    else
      return false;
  }
  return false;
}

void describe(const LaunchConfig &config, Function function, Detail &detail) {
  detail.add("kernel=%s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=0x%zx",
             function->kernel.name.c_str(), config.gridX, config.gridY,
             config.gridZ, config.blockX, config.blockY, config.blockZ,
             config.sharedBytes,
             size_t(reinterpret_cast<std::uintptr_t>(config.stream)));
  detail.add(" device=%d attributes=", function->module->context->device);
  for (unsigned i = 0; i < config.attributeCount; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    detail.add("%s%d:", i ? ";" : "", attribute.id);
    // Only the member the attribute uses is defined; the rest of the union may
    // be anything.
    size_t used = attribute.id == AttributeClusterDimension ? 12 : 4;
    detail.addHex(attribute.value.bytes, used);
  }
}

Result launch(const LaunchConfig *config, Function function, void **parameters,
              void **extra, Detail &detail) {
  if (!config || (config->attributeCount && !config->attributes))
    return InvalidValue;
  std::lock_guard<std::mutex> guard(driver().lock);
  ContextRecord *context;
  if (Result result = requireFunction(function))
    return result;
  describe(*config, function, detail);
  if (Result result = contextOfStream(config->stream, context))
    return result;
  if (context != function->module->context)
    return InvalidHandle;
  if (asynchronousError())
    return static_cast<Result>(asynchronousError());
  if (Result result = checkLaunch(*config, function))
    return result;

  const KernelDescription &kernel = function->kernel;
  const unsigned char *buffer = nullptr;
  if (extra && parameters)
    return InvalidValue;
  if (extra) {
    size_t size;
    if (!readExtra(extra, buffer, size))
      return InvalidValue;
    detail.add(" buffer=%zu", size);
    if (kernel.parameterBytes && (!buffer || size < kernel.parameterBytes))
      return InvalidValue;
  } else if (!kernel.parameters.empty() && !parameters) {
    return InvalidValue;
  }
  detail.add(" params=");
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const KernelParameter &parameter = kernel.parameters[i];
    if (!extra && !parameters[i])
      return InvalidValue;
    const void *bytes = extra ? buffer + parameter.offset : parameters[i];
    if (i)
      detail.add(",");
    detail.addHex(bytes, parameter.size);
  }
  return Success;
}

Result functionAttribute(int *value, int attribute, Function function) {
  const KernelDescription &kernel = function->kernel;
  switch (attribute) {
  case FunctionMaxThreadsPerBlock:
    *value = kernel.maxThreads;
    return Success;
  case FunctionSharedBytes:
    *value = kernel.sharedBytes;
    return Success;
  case FunctionConstantBytes:
  case FunctionCacheModeCa:
    *value = 0;
    return Success;
  case FunctionLocalBytes:
    *value = kernel.localBytes;
    return Success;
  case FunctionRegisters:
    *value = kernel.registers;
    return Success;
  case FunctionPtxVersion:
  case FunctionBinaryVersion:
    *value = function->module->architecture;
    return Success;
  case FunctionMaxDynamicSharedBytes:
    *value = function->maxDynamicSharedBytes;
    return Success;
  case FunctionPreferredSharedCarveout:
    *value = function->preferredCarveout;
    return Success;
  case FunctionNonPortableClusterSizeAllowed:
    *value = function->nonPortableClusterSizeAllowed;
    return Success;
  default:
    return InvalidValue;
  }
}

LaunchConfig makeConfig(unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ,
                        unsigned sharedBytes, Stream stream,
                        LaunchAttribute *attribute) {
  return {gridX,  gridY,       gridZ,  blockX,    blockY,
          blockZ, sharedBytes, stream, attribute, attribute ? 1u : 0u};
}

} // namespace

FLAGTREE_SIM_DRIVER(ModuleLoadData)(Module *module, const void *image) {
  return call(DriverCall::ModuleLoadData, Needs::Initialization,
              [&](Detail &d) { return loadModule(module, image, d); });
}

FLAGTREE_SIM_DRIVER(ModuleLoadDataEx)
(Module *module, const void *image, unsigned, int *, void **) {
  return call(DriverCall::ModuleLoadDataEx, Needs::Initialization,
              [&](Detail &d) { return loadModule(module, image, d); });
}

FLAGTREE_SIM_DRIVER(ModuleUnload)(Module module) {
  return call(DriverCall::ModuleUnload, Needs::Initialization, [&](Detail &) {
    DriverState &state = driver();
    std::lock_guard<std::mutex> guard(state.lock);
    auto found = state.modules.find(module);
    if (found == state.modules.end())
      return InvalidHandle;
    for (const auto &function : module->functions)
      state.functions.erase(function.get());
    state.modules.erase(found);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(ModuleGetFunction)
(Function *function, Module module, const char *name) {
  return call(DriverCall::ModuleGetFunction, Needs::Initialization,
              [&](Detail &d) {
                if (!function || !name)
                  return InvalidValue;
                d.add("kernel=%s", name);
                std::lock_guard<std::mutex> guard(driver().lock);
                if (!driver().modules.count(module))
                  return InvalidHandle;
                for (const auto &candidate : module->functions) {
                  if (candidate->kernel.name == name) {
                    *function = candidate.get();
                    return Success;
                  }
                }
                return NotFound;
              });
}

FLAGTREE_SIM_DRIVER(FuncGetAttribute)
(int *value, int attribute, Function function) {
  return call(DriverCall::FuncGetAttribute, Needs::Initialization,
              [&](Detail &d) {
                d.add("attribute=%d", attribute);
                std::lock_guard<std::mutex> guard(driver().lock);
                if (!value)
                  return InvalidValue;
                if (Result result = requireFunction(function))
                  return result;
                return functionAttribute(value, attribute, function);
              });
}

FLAGTREE_SIM_DRIVER(FuncSetAttribute)
(Function function, int attribute, int value) {
  return call(DriverCall::FuncSetAttribute, Needs::Initialization,
              [&](Detail &d) {
                d.add("attribute=%d value=%d", attribute, value);
                std::lock_guard<std::mutex> guard(driver().lock);
                if (Result result = requireFunction(function))
                  return result;
                switch (attribute) {
                case FunctionMaxDynamicSharedBytes:
                  if (value < 0 ||
                      value + function->kernel.sharedBytes >
                          optInSharedBytes(function->module->context->device))
                    return InvalidValue;
                  function->maxDynamicSharedBytes = value;
                  return Success;
                case FunctionPreferredSharedCarveout:
                  function->preferredCarveout = value;
                  return Success;
                case FunctionNonPortableClusterSizeAllowed:
                  function->nonPortableClusterSizeAllowed = value;
                  return Success;
                default:
                  return InvalidValue;
                }
              });
}

FLAGTREE_SIM_DRIVER(FuncSetCacheConfig)(Function function, int config) {
  return call(DriverCall::FuncSetCacheConfig, Needs::Initialization,
              [&](Detail &d) {
                d.add("config=%d", config);
                std::lock_guard<std::mutex> guard(driver().lock);
                if (config < 0 || config > 3)
                  return InvalidValue;
                return requireFunction(function);
              });
}

FLAGTREE_SIM_DRIVER(LaunchKernelEx)
(const LaunchConfig *config, Function function, void **parameters,
 void **extra) {
  return call(DriverCall::LaunchKernelEx, Needs::Initialization,
              [&](Detail &d) {
                return launch(config, function, parameters, extra, d);
              });
}

FLAGTREE_SIM_DRIVER(LaunchKernel)
(Function function, unsigned gridX, unsigned gridY, unsigned gridZ,
 unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
 Stream stream, void **parameters, void **extra) {
  return call(DriverCall::LaunchKernel, Needs::Initialization, [&](Detail &d) {
    LaunchConfig config = makeConfig(gridX, gridY, gridZ, blockX, blockY,
                                     blockZ, sharedBytes, stream, nullptr);
    return launch(&config, function, parameters, extra, d);
  });
}

FLAGTREE_SIM_DRIVER(LaunchCooperativeKernel)
(Function function, unsigned gridX, unsigned gridY, unsigned gridZ,
 unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
 Stream stream, void **parameters) {
  return call(DriverCall::LaunchCooperativeKernel, Needs::Initialization,
              [&](Detail &d) {
                LaunchAttribute cooperative{};
                cooperative.id = AttributeCooperative;
                cooperative.value.words[0] = 1;
                LaunchConfig config =
                    makeConfig(gridX, gridY, gridZ, blockX, blockY, blockZ,
                               sharedBytes, stream, &cooperative);
                return launch(&config, function, parameters, nullptr, d);
              });
}

FLAGTREE_SIM_DRIVER(OccupancyMaxActiveBlocksPerMultiprocessor)
(int *blocks, Function function, int blockSize, size_t dynamicShared) {
  return call(
      DriverCall::OccupancyMaxActiveBlocksPerMultiprocessor,
      Needs::Initialization, [&](Detail &) {
        std::lock_guard<std::mutex> guard(driver().lock);
        if (!blocks || blockSize <= 0)
          return InvalidValue;
        if (Result result = requireFunction(function))
          return result;
        const KernelDescription &kernel = function->kernel;
        uint64_t shared = dynamicShared + uint64_t(kernel.sharedBytes) + 1024;
        uint64_t available =
            uint64_t(optInSharedBytes(function->module->context->device)) +
            1024;
        uint64_t byThreads = 2048 / uint64_t(blockSize);
        uint64_t byRegisters =
            65536 / (std::max<uint64_t>(uint64_t(kernel.registers), 1) *
                     uint64_t(blockSize));
        *blocks = int(std::min(
            {available / shared, byThreads, byRegisters, uint64_t(32)}));
        return Success;
      });
}

FLAGTREE_SIM_DRIVER(OccupancyMaxActiveClusters)
(int *clusters, Function function, const LaunchConfig *config) {
  return call(
      DriverCall::OccupancyMaxActiveClusters, Needs::Initialization,
      [&](Detail &) {
        std::lock_guard<std::mutex> guard(driver().lock);
        if (!clusters || !config ||
            (config->attributeCount && !config->attributes))
          return InvalidValue;
        if (Result result = requireFunction(function))
          return result;
        if (Result result = checkCluster(*config, function))
          return result;
        if (config->sharedBytes >
            unsigned(std::max<int>(function->maxDynamicSharedBytes,
                                   StaticSharedLimit)))
          return InvalidValue;
        const LaunchAttribute *cluster =
            findAttribute(*config, AttributeClusterDimension);
        if (!cluster)
          return InvalidValue;
        const uint32_t *size = cluster->value.words;
        *clusters =
            physical(function->module->context->device).multiprocessors /
            int(size[0] * size[1] * size[2]);
        return Success;
      });
}

// The encoding of a real tensor map is not published; the simulated one holds
// the arguments themselves, so that a test reads back what the launch was
// given:
//   0 "FLTM", 4 data type, 5 rank, 6 interleave, 7 swizzle, 8 promotion, 9
//   fill, 16 address, 24 five dimensions of 8 bytes, 64 four strides of 8
//   bytes, 96 five box sizes of 2 bytes, 106 five element strides of 1 byte.
FLAGTREE_SIM_DRIVER(TensorMapEncodeTiled)
(TensorMap *map, int dataType, unsigned rank, void *address,
 const uint64_t *dimensions, const uint64_t *strides, const uint32_t *box,
 const uint32_t *elementStrides, int interleave, int swizzle, int promotion,
 int fill) {
  return call(DriverCall::TensorMapEncodeTiled, Needs::Nothing, [&](Detail &d) {
    d.add("type=%d rank=%u address=%p", dataType, rank, address);
    if (!map || reinterpret_cast<std::uintptr_t>(map) % 64 != 0 || rank < 1 ||
        rank > 5 || !dimensions || !box || !elementStrides ||
        (rank > 1 && !strides) || dataType < 0 || dataType > 15 ||
        reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
      return InvalidValue;
    unsigned char *bytes = map->bytes;
    std::memset(bytes, 0, sizeof(map->bytes));
    std::memcpy(bytes, "FLTM", 4);
    const int small[] = {dataType, int(rank), interleave,
                         swizzle,  promotion, fill};
    for (unsigned i = 0; i < 6; ++i)
      bytes[4 + i] = static_cast<unsigned char>(small[i]);
    std::memcpy(bytes + 16, &address, 8);
    for (unsigned i = 0; i < rank; ++i) {
      if (dimensions[i] == 0 || dimensions[i] > (uint64_t(1) << 32) ||
          box[i] == 0 || box[i] > 256 || elementStrides[i] == 0 ||
          elementStrides[i] > 8)
        return InvalidValue;
      std::memcpy(bytes + 24 + 8 * i, &dimensions[i], 8);
      uint16_t boxSize = uint16_t(box[i]);
      std::memcpy(bytes + 96 + 2 * i, &boxSize, 2);
      bytes[106 + i] = static_cast<unsigned char>(elementStrides[i]);
      if (i + 1 < rank) {
        if (strides[i] % 16 != 0 || strides[i] >= (uint64_t(1) << 40))
          return InvalidValue;
        std::memcpy(bytes + 64 + 8 * i, &strides[i], 8);
      }
    }
    return Success;
  });
}

} // namespace flagtree::simulator
