//===- FakeDriver.h - A driver made of test expectations --------*- C++ -*-===//
//
// A table of entry points that record what they are asked and answer what a
// test set. One instance at a time: the driver's calls take no context pointer.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_UNITTEST_LAUNCH_FAKEDRIVER_H
#define FLAGTREE_UNITTEST_LAUNCH_FAKEDRIVER_H

#include "flagtree/Driver/DriverLibrary.h"

#include <map>
#include <string>
#include <vector>

namespace flagtree {

struct FakeDriver {
  /// What each call answers instead of Success.
  std::map<std::string, Result> Answers;
  /// The calls made, in order.
  std::vector<std::string> Calls;

  Context Current = nullptr;
  Device RetainedDevice = -1;
  LaunchConfig Config{};
  std::vector<LaunchAttribute> Attributes;
  std::vector<uint64_t> Parameters;
  std::map<FunctionAttribute, int> FunctionAttributes;
  std::map<FunctionAttribute, int> SetAttributes;
  std::map<DeviceAttribute, int> DeviceAttributes;
  std::size_t PrintfFifo = 1 << 20;

  EntryPoints Table;

  FakeDriver();
  ~FakeDriver();

  bool called(const std::string &Name) const;
};

inline Context contextOfDevice(Device Ordinal) {
  return reinterpret_cast<Context>(static_cast<uintptr_t>(0x1000 + Ordinal));
}
inline Context contextOfStream() { return reinterpret_cast<Context>(0x2000); }
inline Stream someStream() { return reinterpret_cast<Stream>(0x3000); }
inline Function someFunction() { return reinterpret_cast<Function>(0x4000); }
inline Module someModule() { return reinterpret_cast<Module>(0x5000); }

} // namespace flagtree

#endif // FLAGTREE_UNITTEST_LAUNCH_FAKEDRIVER_H
