//===- DevicePresence.cpp -------------------------------------------------===//

#include "flagtree/Device/DevicePresence.h"

#include "flagtree/Device/ManagementLibrary.h"
#include "flagtree/Driver/DriverLibrary.h"

#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <memory>

namespace flagtree {

namespace {

std::string variable(const char *Name) {
  const char *Value = std::getenv(Name);
  return Value ? Value : "";
}

bool isNumbered(const char *Name, const char *Stem) {
  std::size_t Length = std::strlen(Stem);
  if (std::strncmp(Name, Stem, Length) != 0 || Name[Length] == '\0')
    return false;
  for (const char *C = Name + Length; *C; ++C)
    if (*C < '0' || *C > '9')
      return false;
  return true;
}

bool indicesArePciOrder() {
  return variable("CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
}

HostDevices hostOf(const Inventory &Answer) {
  HostDevices Host;
  Host.Count = static_cast<int>(Answer.Devices.size());
  Host.Described = Answer.Devices;
  return Host;
}

HostDevices hostOf(const DeviceNodes &Nodes) {
  HostDevices Host;
  // A PPU host's nodes are PPU nodes; a host of both kinds has two drivers, of
  // which this tree prefers its own.
  Host.Count = Nodes.Ppu > 0 ? Nodes.Ppu : Nodes.Nvidia;
  if (Host.Count == 0 && Nodes.Dxg)
    Host.Count = -1;
  return Host;
}

std::string describeHidden(const VisibleAnswer &Visible) {
  std::string Text =
      "CUDA_VISIBLE_DEVICES is '" + variable("CUDA_VISIBLE_DEVICES") + "', ";
  switch (Visible.Hidden) {
  case HiddenBecause::Duplicate:
    return Text + "which names '" + Visible.Entry +
           "' twice: the driver then shows no device.";
  case HiddenBecause::FirstEntryInvalid:
    return Text + "whose first entry '" + Visible.Entry +
           "' is no device of this host: the driver ends the list there and "
           "shows none.";
  default:
    return Text + "which hides every device.";
  }
}

} // namespace

DeviceNodes listDeviceNodes() {
  DeviceNodes Nodes;
  std::string Root = variable("FLAGTREE_DEVICE_ROOT");
  std::unique_ptr<DIR, int (*)(DIR *)> Directory(
      opendir((Root + "/dev").c_str()), closedir);
  if (!Directory)
    return Nodes;
  while (const dirent *Entry = readdir(Directory.get())) {
    Nodes.Ppu += isNumbered(Entry->d_name, "alixpu_ppu");
    Nodes.Nvidia += isNumbered(Entry->d_name, "nvidia");
    Nodes.Dxg |= std::strcmp(Entry->d_name, "dxg") == 0;
  }
  return Nodes;
}

Presence findDevices() {
  Presence Answer;
  auto Library = DriverLibrary::get().locate();
  if (!Library) {
    Answer.Absent = Library.error().Kind == LibraryErrorKind::Stub
                        ? AbsentBecause::StubLibrary
                        : AbsentBecause::NoDriverLibrary;
    Answer.Explanation = Library.error().describe();
    return Answer;
  }
  Answer.DriverPath = *Library;

  VisibleList List = parseVisibleDevices(std::getenv("CUDA_VISIBLE_DEVICES"));
  DeviceNodes Nodes = listDeviceNodes();
  const Inventory *Known = knownInventory();
  // Nodes cannot tell one name from another, so names are for the management
  // library. Where it does not answer, a list of names is believed.
  bool NeedNames =
      List.Kind == VisibleKind::Uuids || List.Kind == VisibleKind::Migs;
  std::string Failure;
  HostDevices Host = hostOf(Nodes);
  Answer.Source = PresenceSource::DeviceNodes;
  if (Known || NeedNames || !Nodes.any()) {
    Inventory Managed = askManagement();
    Failure = Managed.Failure;
    if (!Managed.Devices.empty()) {
      Host = hostOf(Managed);
      Answer.Source = PresenceSource::ManagementLibrary;
    }
  }
  if (Host.Count == 0) {
    Answer.Source = PresenceSource::None;
    Answer.Absent = AbsentBecause::NoDevice;
    std::string Root = variable("FLAGTREE_DEVICE_ROOT");
    Answer.Explanation =
        "There is no device node " + Root + "/dev/alixpu_ppu<N>, " + Root +
        "/dev/nvidia<N> or " + Root + "/dev/dxg, and " +
        (Failure.empty() ? "the management library reports no device."
                         : "no management library answered: " + Failure + ".");
    return Answer;
  }
  Answer.Visible = applyVisibleDevices(List, Host, indicesArePciOrder());
  if (!Answer.Visible.Any) {
    Answer.Absent = AbsentBecause::Hidden;
    Answer.Explanation = describeHidden(Answer.Visible);
  }
  return Answer;
}

ManagedCapability askCapability(int Ordinal) {
  ManagedCapability Answer;
  Inventory Managed = askManagement();
  if (Managed.Devices.empty()) {
    Answer.Why = CapabilityUnknown::NoManagementLibrary;
    Answer.Detail = Managed.Failure.empty()
                        ? Managed.Library + " reports no device"
                        : Managed.Failure;
    return Answer;
  }
  HostDevices Host = hostOf(Managed);
  VisibleAnswer Visible =
      applyVisibleDevices(parseVisibleDevices(std::getenv("CUDA_VISIBLE_"
                                                          "DEVICES")),
                          Host, indicesArePciOrder());
  if (Ordinal < 0 || !Visible.Any ||
      (Visible.Count >= 0 && Ordinal >= Visible.Count)) {
    Answer.Why = CapabilityUnknown::NoSuchDevice;
    return Answer;
  }
  int Physical = Visible.Count < 0 ? -1 : Visible.Devices[Ordinal].Physical;
  if (Physical >= 0) {
    Answer.Compute = Host.Described[Physical].Compute;
    return Answer;
  }
  // In whatever order: on a host of equal devices it does not matter.
  for (const PhysicalDevice &Device : Host.Described)
    if (!(Device.Compute == Host.Described.front().Compute)) {
      Answer.Why = CapabilityUnknown::AmbiguousOrder;
      return Answer;
    }
  Answer.Compute = Host.Described.front().Compute;
  return Answer;
}

} // namespace flagtree
