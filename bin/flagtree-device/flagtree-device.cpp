//===- flagtree-device.cpp - Prints what the resolver knows ---------------===//
//
// Says what a fresh process on this host sees: the driver library, the devices
// and why there are none, the current device, and compute capabilities. It asks
// only; nothing is initialized, the driver library is not even mapped.
//
//===----------------------------------------------------------------------===//

#include "flagtree/Device/DeviceResolver.h"
#include "flagtree/Device/ManagementProcess.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace flagtree;

namespace {

constexpr const char *Usage =
    "usage: flagtree-device [--json | --inventory]\n"
    "\n"
    "Prints which driver and devices a process started here would see, "
    "without\n"
    "initializing the driver. Reads CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER,\n"
    "FLAGTREE_PPU_DEVICE, TRITON_PPU_LIBCUDA_PATH, PPU_SDK and PPU_HOME.\n"
    "Ends with status 0 if a device is visible, 1 if none is, 2 on bad "
    "usage.\n"
    "\n"
    "--inventory prints only what the management library says of the host's\n"
    "devices, for a forked process that cannot ask it, and ends with status "
    "0.\n";

/// One line of the output: a name and a value, which for JSON is either quoted
/// or written as it is.
struct Line {
  std::string Name;
  std::string Value;
  bool IsText = true;
};

std::string quote(const std::string &Text) {
  std::string Quoted = "\"";
  for (char C : Text) {
    if (C == '"' || C == '\\') {
      Quoted += '\\';
      Quoted += C;
    } else if (static_cast<unsigned char>(C) < 0x20) {
      char Escape[8];
      std::snprintf(Escape, sizeof(Escape), "\\u%04x", C);
      Quoted += Escape;
    } else {
      Quoted += C;
    }
  }
  return Quoted + "\"";
}

std::string describeCapability(const CapabilityAnswer &Answer) {
  if (Answer.Compute.known())
    return std::to_string(Answer.Compute.Major) + "." +
           std::to_string(Answer.Compute.Minor);
  switch (Answer.Why) {
  case CapabilityUnknown::NoManagementLibrary:
    return "unknown: no management library answered";
  case CapabilityUnknown::NoSuchDevice:
    return "unknown: no such device";
  case CapabilityUnknown::AmbiguousOrder:
    return "unknown: the devices differ and CUDA_DEVICE_ORDER is not "
           "PCI_BUS_ID";
  default:
    return "unknown";
  }
}

std::vector<Line> gather(bool &Visible) {
  DeviceResolver &Resolver = DeviceResolver::get();
  std::vector<Line> Lines;
  StateAnswer State = Resolver.state();
  Presence Found = Resolver.presence();
  Visible = Found.present();
  Lines.push_back({"state", stateName(State.State)});
  Lines.push_back({"driver", Found.DriverPath});

  DeviceNodes Nodes = listDeviceNodes();
  Lines.push_back({"ppu_nodes", std::to_string(Nodes.Ppu), false});
  Lines.push_back({"nvidia_nodes", std::to_string(Nodes.Nvidia), false});
  Lines.push_back({"dxg_node", Nodes.Dxg ? "true" : "false", false});
  Lines.push_back(
      {"visible_devices", std::to_string(Found.Visible.Count), false});
  if (!Found.present())
    Lines.push_back({"why", Found.Explanation});

  OrdinalAnswer Ordinal = Resolver.ordinal();
  if (Ordinal.ok()) {
    Lines.push_back({"current_device", std::to_string(Ordinal.Ordinal), false});
    Lines.push_back({"current_device_from", sourceName(Ordinal.Source)});
  } else {
    Lines.push_back({"current_device_error",
                     "FLAGTREE_PPU_DEVICE is not a device ordinal"});
  }
  for (int Device = 0; Device < Found.Visible.Count; ++Device)
    Lines.push_back({"capability_" + std::to_string(Device),
                     describeCapability(Resolver.capability(Device))});
  if (const Inventory *Managed = knownInventory())
    Lines.push_back({"management_library", Managed->Library});
  return Lines;
}

} // namespace

int main(int ArgumentCount, char **Arguments) {
  bool Json = false;
  for (int I = 1; I < ArgumentCount; ++I) {
    if (std::strcmp(Arguments[I], "--json") == 0) {
      Json = true;
    } else if (std::strcmp(Arguments[I], "--inventory") == 0) {
      std::fputs(writeInventory(askManagement()).c_str(), stdout);
      return 0;
    } else if (std::strcmp(Arguments[I], "--help") == 0) {
      std::fputs(Usage, stdout);
      return 0;
    } else {
      std::fprintf(stderr, "flagtree-device: unknown argument '%s'\n%s",
                   Arguments[I], Usage);
      return 2;
    }
  }
  forkstate::install();
  bool Visible = false;
  std::vector<Line> Lines = gather(Visible);
  if (Json)
    std::printf("{");
  for (std::size_t I = 0; I < Lines.size(); ++I) {
    const Line &L = Lines[I];
    if (Json)
      std::printf("%s%s: %s", I ? ", " : "", quote(L.Name).c_str(),
                  L.IsText ? quote(L.Value).c_str() : L.Value.c_str());
    else
      std::printf("%-20s %s\n", L.Name.c_str(), L.Value.c_str());
  }
  if (Json)
    std::printf("}\n");
  return Visible ? 0 : 1;
}
