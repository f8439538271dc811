//===- FakeDriver.cpp - A driver made of test expectations ----------------===//

#include "FakeDriver.h"

#include <algorithm>
#include <cstring>

using namespace flagtree;

namespace {
FakeDriver *Active = nullptr;

Result record(const char *Name) {
  Active->Calls.push_back(Name);
  const auto Found = Active->Answers.find(Name);
  return Found == Active->Answers.end() ? Result::Success : Found->second;
}
} // namespace

FakeDriver::FakeDriver() {
  Active = this;
  Table.DriverGetVersion = [](int *Out) {
    *Out = 11040;
    return record("DriverGetVersion");
  };
  Table.Path = "/fake/libcuda.so.1";
  Table.CtxGetCurrent = [](Context *Out) {
    *Out = Active->Current;
    return record("CtxGetCurrent");
  };
  Table.CtxSetCurrent = [](Context Handle) {
    const Result Code = record("CtxSetCurrent");
    if (Code == Result::Success)
      Active->Current = Handle;
    return Code;
  };
  Table.DeviceGet = [](Device *Out, int Ordinal) {
    *Out = Ordinal;
    return record("DeviceGet");
  };
  Table.DevicePrimaryCtxRetain = [](Context *Out, Device Handle) {
    Active->RetainedDevice = Handle;
    *Out = contextOfDevice(Handle);
    return record("DevicePrimaryCtxRetain");
  };
  Table.StreamGetCtx = [](Stream, Context *Out) {
    *Out = contextOfStream();
    return record("StreamGetCtx");
  };
  Table.DeviceGetAttribute = [](int *Out, DeviceAttribute Which, Device) {
    *Out = Active->DeviceAttributes[Which];
    return record("DeviceGetAttribute");
  };
  Table.ModuleLoadData = [](Module *Out, const void *) {
    *Out = someModule();
    return record("ModuleLoadData");
  };
  Table.ModuleUnload = [](Module) { return record("ModuleUnload"); };
  Table.ModuleGetFunction = [](Function *Out, Module, const char *) {
    *Out = someFunction();
    return record("ModuleGetFunction");
  };
  Table.FuncGetAttribute = [](int *Out, FunctionAttribute Which, Function) {
    *Out = Active->FunctionAttributes[Which];
    return record("FuncGetAttribute");
  };
  Table.FuncSetAttribute = [](Function, FunctionAttribute Which, int Value) {
    Active->SetAttributes[Which] = Value;
    return record("FuncSetAttribute");
  };
  Table.FuncSetCacheConfig = [](Function, FunctionCache) {
    return record("FuncSetCacheConfig");
  };
  Table.CtxGetLimit = [](std::size_t *Out, Limit) {
    *Out = Active->PrintfFifo;
    return record("CtxGetLimit");
  };
  Table.CtxSetLimit = [](Limit, std::size_t Value) {
    Active->PrintfFifo = Value;
    return record("CtxSetLimit");
  };
  Table.StreamSynchronize = [](Stream) { return record("StreamSynchronize"); };
  Table.LaunchKernelEx = [](const LaunchConfig *Config, Function,
                            void **Parameters, void **) {
    Active->Config = *Config;
    Active->Attributes.assign(Config->Attributes,
                              Config->Attributes + Config->NumAttributes);
    Active->Parameters.clear();
    for (unsigned I = 0; Parameters && Parameters[I]; ++I) {
      uint64_t Value;
      std::memcpy(&Value, Parameters[I], sizeof(Value));
      Active->Parameters.push_back(Value);
    }
    return record("LaunchKernelEx");
  };
  Table.LaunchKernel = [](Function, unsigned X, unsigned Y, unsigned Z,
                          unsigned BlockX, unsigned, unsigned, unsigned Shared,
                          Stream Handle, void **, void **) {
    Active->Config = {X, Y, Z, BlockX, 1, 1, Shared, Handle, nullptr, 0};
    return record("LaunchKernel");
  };
  Table.OccupancyMaxActiveClusters = [](int *Out, Function,
                                        const LaunchConfig *Config) {
    Active->Config = *Config;
    *Out = 7;
    return record("OccupancyMaxActiveClusters");
  };
}

FakeDriver::~FakeDriver() { Active = nullptr; }

bool FakeDriver::called(const std::string &Name) const {
  return std::find(Calls.begin(), Calls.end(), Name) != Calls.end();
}
