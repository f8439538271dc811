// Allocations, copies and pointer attributes. Device memory is the host's: an
// allocation is mapped on its own, so that its addresses are told from every
// other pointer by asking which mapping holds them.

#include "DriverState.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace flagtree::simulator {
namespace {

void *toHost(DevicePointer at) { return reinterpret_cast<void *>(at); }

// Whether [at, at + size) lies in one allocation. Caller holds the lock.
bool isDeviceRange(DevicePointer at, size_t size) {
  auto found = findAllocation(at);
  return found != driver().allocations.end() &&
         at - found->first + size <= found->second.size;
}

// Runs work that reads or writes device memory, in order after all earlier
// work.
template <typename Work>
Result onDevice(Stream stream, bool waits, Work &&work) {
  std::lock_guard<std::mutex> guard(driver().lock);
  ContextRecord *context;
  if (Result result = contextOfStream(stream, context))
    return result;
  if (waits && asynchronousError())
    return static_cast<Result>(asynchronousError());
  return work() ? Success : InvalidValue;
}

Result copyIn(Stream stream, DevicePointer to, const void *from, size_t size,
              Detail &detail) {
  detail.add("bytes=%zu", size);
  return onDevice(stream, true, [&] {
    if (size && (!from || !isDeviceRange(to, size)))
      return false;
    std::memcpy(toHost(to), from, size);
    return true;
  });
}

Result copyOut(Stream stream, void *to, DevicePointer from, size_t size,
               Detail &detail) {
  detail.add("bytes=%zu", size);
  return onDevice(stream, true, [&] {
    if (size && (!to || !isDeviceRange(from, size)))
      return false;
    std::memcpy(to, toHost(from), size);
    return true;
  });
}

Result copyWithin(Stream stream, DevicePointer to, DevicePointer from,
                  size_t size, Detail &detail) {
  detail.add("bytes=%zu", size);
  return onDevice(stream, true, [&] {
    if (size && (!isDeviceRange(to, size) || !isDeviceRange(from, size)))
      return false;
    std::memmove(toHost(to), toHost(from), size);
    return true;
  });
}

template <typename Element>
Result fill(Stream stream, DevicePointer to, Element value, size_t count,
            Detail &detail) {
  detail.add("count=%zu", count);
  return onDevice(stream, true, [&] {
    if (count && (!isDeviceRange(to, count * sizeof(Element)) ||
                  to % alignof(Element) != 0))
      return false;
    Element *elements = static_cast<Element *>(toHost(to));
    for (size_t i = 0; i < count; ++i)
      elements[i] = value;
    return true;
  });
}

// One attribute of an address in a device allocation.
Result pointerAttribute(void *value, int attribute, DevicePointer at) {
  auto found = findAllocation(at);
  if (found == driver().allocations.end())
    return InvalidValue;
  const Allocation &allocation = found->second;
  switch (attribute) {
  case PointerContext:
    *static_cast<Context *>(value) = allocation.context;
    return Success;
  case PointerMemoryType:
    *static_cast<unsigned *>(value) = 2; // device memory
    return Success;
  case PointerDevicePointer:
    *static_cast<DevicePointer *>(value) = at;
    return Success;
  case PointerHostPointer:
    return InvalidValue; // not host memory
  case PointerIsManaged:
    *static_cast<unsigned *>(value) = 0;
    return Success;
  case PointerDeviceOrdinal:
    *static_cast<int *>(value) = allocation.context->device;
    return Success;
  case PointerRangeStart:
    *static_cast<DevicePointer *>(value) = found->first;
    return Success;
  case PointerRangeSize:
    *static_cast<size_t *>(value) = allocation.size;
    return Success;
  case PointerMapped:
    *static_cast<unsigned *>(value) = 1;
    return Success;
  default:
    return NotSupported;
  }
}

} // namespace

std::map<DevicePointer, Allocation>::iterator findAllocation(DevicePointer at) {
  auto &allocations = driver().allocations;
  auto after = allocations.upper_bound(at);
  if (after == allocations.begin())
    return allocations.end();
  auto found = std::prev(after);
  return at - found->first < found->second.size ? found : allocations.end();
}

void releaseAllocation(std::map<DevicePointer, Allocation>::iterator found) {
  DriverState &state = driver();
  state.allocated[found->second.context->device] -= found->second.size;
  munmap(toHost(found->first), found->second.mappedSize);
  state.allocations.erase(found);
}

FLAGTREE_SIM_DRIVER(MemAlloc_v2)(DevicePointer *pointer, size_t size) {
  return call(DriverCall::MemAlloc_v2, Needs::Initialization, [&](Detail &d) {
    DriverState &state = driver();
    std::lock_guard<std::mutex> guard(state.lock);
    ContextRecord *context;
    if (Result result = requireContext(context))
      return result;
    if (!pointer || size == 0)
      return InvalidValue;
    size_t total = physical(context->device).memoryBytes;
    size_t &used = state.allocated[context->device];
    if (size > total - used)
      return OutOfMemory;
    size_t page = size_t(sysconf(_SC_PAGESIZE));
    size_t mapped = (size + page - 1) / page * page;
    void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return OutOfMemory;
    used += size;
    *pointer = reinterpret_cast<DevicePointer>(memory);
    state.allocations[*pointer] = {size, mapped, context};
    d.add("bytes=%zu pointer=0x%llx", size, *pointer);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(MemFree_v2)(DevicePointer pointer) {
  return call(DriverCall::MemFree_v2, Needs::Initialization, [&](Detail &d) {
    d.add("pointer=0x%llx", pointer);
    DriverState &state = driver();
    std::lock_guard<std::mutex> guard(state.lock);
    if (!pointer)
      return Success;
    auto found = state.allocations.find(pointer);
    if (found == state.allocations.end())
      return InvalidValue;
    releaseAllocation(found);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(MemGetInfo_v2)(size_t *free, size_t *total) {
  return call(DriverCall::MemGetInfo_v2, Needs::Initialization, [&](Detail &) {
    DriverState &state = driver();
    std::lock_guard<std::mutex> guard(state.lock);
    ContextRecord *context;
    if (Result result = requireContext(context))
      return result;
    if (!free || !total)
      return InvalidValue;
    *total = physical(context->device).memoryBytes;
    *free = *total - state.allocated[context->device];
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(MemcpyHtoD_v2)
(DevicePointer to, const void *from, size_t size) {
  return call(DriverCall::MemcpyHtoD_v2, Needs::Initialization,
              [&](Detail &d) { return copyIn(nullptr, to, from, size, d); });
}

FLAGTREE_SIM_DRIVER(MemcpyHtoDAsync_v2)
(DevicePointer to, const void *from, size_t size, Stream stream) {
  return call(DriverCall::MemcpyHtoDAsync_v2, Needs::Initialization,
              [&](Detail &d) { return copyIn(stream, to, from, size, d); });
}

FLAGTREE_SIM_DRIVER(MemcpyDtoH_v2)
(void *to, DevicePointer from, size_t size) {
  return call(DriverCall::MemcpyDtoH_v2, Needs::Initialization,
              [&](Detail &d) { return copyOut(nullptr, to, from, size, d); });
}

FLAGTREE_SIM_DRIVER(MemcpyDtoHAsync_v2)
(void *to, DevicePointer from, size_t size, Stream stream) {
  return call(DriverCall::MemcpyDtoHAsync_v2, Needs::Initialization,
              [&](Detail &d) { return copyOut(stream, to, from, size, d); });
}

FLAGTREE_SIM_DRIVER(MemcpyDtoD_v2)
(DevicePointer to, DevicePointer from, size_t size) {
  return call(DriverCall::MemcpyDtoD_v2, Needs::Initialization, [&](Detail &d) {
    return copyWithin(nullptr, to, from, size, d);
  });
}

FLAGTREE_SIM_DRIVER(MemcpyDtoDAsync_v2)
(DevicePointer to, DevicePointer from, size_t size, Stream stream) {
  return call(DriverCall::MemcpyDtoDAsync_v2, Needs::Initialization,
              [&](Detail &d) { return copyWithin(stream, to, from, size, d); });
}

FLAGTREE_SIM_DRIVER(MemsetD8_v2)
(DevicePointer to, unsigned char value, size_t count) {
  return call(DriverCall::MemsetD8_v2, Needs::Initialization,
              [&](Detail &d) { return fill(nullptr, to, value, count, d); });
}

FLAGTREE_SIM_DRIVER(MemsetD8Async)
(DevicePointer to, unsigned char value, size_t count, Stream stream) {
  return call(DriverCall::MemsetD8Async, Needs::Initialization,
              [&](Detail &d) { return fill(stream, to, value, count, d); });
}

FLAGTREE_SIM_DRIVER(MemsetD32_v2)
(DevicePointer to, unsigned value, size_t count) {
  return call(DriverCall::MemsetD32_v2, Needs::Initialization,
              [&](Detail &d) { return fill(nullptr, to, value, count, d); });
}

FLAGTREE_SIM_DRIVER(MemsetD32Async)
(DevicePointer to, unsigned value, size_t count, Stream stream) {
  return call(DriverCall::MemsetD32Async, Needs::Initialization,
              [&](Detail &d) { return fill(stream, to, value, count, d); });
}

FLAGTREE_SIM_DRIVER(PointerGetAttribute)
(void *value, int attribute, DevicePointer pointer) {
  return call(DriverCall::PointerGetAttribute, Needs::Initialization,
              [&](Detail &d) {
                d.add("attribute=%d pointer=0x%llx", attribute, pointer);
                if (!value)
                  return InvalidValue;
                std::lock_guard<std::mutex> guard(driver().lock);
                return pointerAttribute(value, attribute, pointer);
              });
}

FLAGTREE_SIM_DRIVER(PointerGetAttributes)
(unsigned count, const int *attributes, void **values, DevicePointer pointer) {
  return call(DriverCall::PointerGetAttributes, Needs::Initialization,
              [&](Detail &d) {
                d.add("count=%u pointer=0x%llx", count, pointer);
                if (!attributes || !values)
                  return InvalidValue;
                // Unlike the call for one attribute, this one succeeds for any
                // pointer and leaves zeros behind where nothing is known.
                std::lock_guard<std::mutex> guard(driver().lock);
                for (unsigned i = 0; i < count; ++i) {
                  size_t size = attributes[i] == PointerMemoryType ||
                                        attributes[i] == PointerIsManaged ||
                                        attributes[i] == PointerMapped ||
                                        attributes[i] == PointerDeviceOrdinal
                                    ? sizeof(unsigned)
                                    : sizeof(void *);
                  if (pointerAttribute(values[i], attributes[i], pointer))
                    std::memset(values[i], 0, size);
                }
                return Success;
              });
}

} // namespace flagtree::simulator
