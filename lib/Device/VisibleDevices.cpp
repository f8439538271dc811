//===- VisibleDevices.cpp -------------------------------------------------===//

#include "flagtree/Device/VisibleDevices.h"

#include <algorithm>
#include <limits>

namespace flagtree {

namespace {

bool isSpace(char C) { return C == ' ' || (C >= '\t' && C <= '\r'); }

std::string trim(const std::string &Text) {
  std::size_t First = 0, Last = Text.size();
  while (First < Last && isSpace(Text[First]))
    ++First;
  while (Last > First && isSpace(Text[Last - 1]))
    --Last;
  return Text.substr(First, Last - First);
}

bool startsWith(const std::string &Text, const char *Prefix) {
  return Text.rfind(Prefix, 0) == 0;
}

VisibleKind kindOf(const std::string &Entry) {
  if (startsWith(Entry, "MIG-"))
    return VisibleKind::Migs;
  if (startsWith(Entry, "GPU-") || startsWith(Entry, "PPU-"))
    return VisibleKind::Uuids;
  return VisibleKind::Indices;
}

/// The index an entry begins with; -1 if it begins with none.
int readIndex(const std::string &Entry) {
  std::size_t I = !Entry.empty() && Entry[0] == '+' ? 1 : 0;
  std::size_t FirstDigit = I;
  long long Value = 0;
  for (; I < Entry.size() && Entry[I] >= '0' && Entry[I] <= '9'; ++I) {
    Value = Value * 10 + (Entry[I] - '0');
    if (Value > std::numeric_limits<int>::max())
      return -1;
  }
  return I == FirstDigit ? -1 : static_cast<int>(Value);
}

/// Hides everything.
VisibleAnswer hidden(HiddenBecause Why, std::string Entry) {
  VisibleAnswer Answer;
  Answer.Hidden = Why;
  Answer.Entry = std::move(Entry);
  return Answer;
}

VisibleAnswer answerOf(std::vector<VisibleDevice> Devices,
                       const std::string &EndedBy) {
  if (Devices.empty())
    return hidden(HiddenBecause::FirstEntryInvalid, EndedBy);
  VisibleAnswer Answer;
  Answer.Any = true;
  Answer.Count = static_cast<int>(Devices.size());
  Answer.Devices = std::move(Devices);
  return Answer;
}

VisibleAnswer unknownNumber() {
  VisibleAnswer Answer;
  Answer.Any = true;
  Answer.Count = -1;
  return Answer;
}

/// A split device appears as one of its parts, and how a driver counts a host
/// that has split and whole ones is not documented.
bool anySplit(const HostDevices &Host) {
  return std::any_of(Host.Described.begin(), Host.Described.end(),
                     [](const PhysicalDevice &D) { return D.MigEnabled; });
}

/// Which described device an index stands for; -1 if that cannot be told.
int physicalOfIndex(int Index, const HostDevices &Host, bool PciOrder) {
  bool Described = Index < static_cast<int>(Host.Described.size());
  return Described && (PciOrder || Host.Described.size() == 1) ? Index : -1;
}

VisibleAnswer applyAll(const HostDevices &Host, bool PciOrder) {
  if (Host.Count == 0)
    return {};
  if (Host.Count < 0 || (anySplit(Host) && Host.Count > 1))
    return unknownNumber();
  std::vector<VisibleDevice> Devices;
  for (int I = 0; I < Host.Count; ++I)
    Devices.push_back({physicalOfIndex(I, Host, PciOrder)});
  return answerOf(std::move(Devices), "");
}

VisibleAnswer applyIndices(const VisibleList &List, const HostDevices &Host,
                           bool PciOrder) {
  std::vector<VisibleDevice> Devices;
  std::string EndedBy = List.EndedBy;
  std::vector<int> Seen;
  for (int Index : List.Indices) {
    if (std::find(Seen.begin(), Seen.end(), Index) != Seen.end())
      return hidden(HiddenBecause::Duplicate, std::to_string(Index));
    if (Host.Count >= 0 && Index >= Host.Count) {
      EndedBy = std::to_string(Index);
      break;
    }
    Seen.push_back(Index);
    Devices.push_back({physicalOfIndex(Index, Host, PciOrder)});
  }
  if (Host.Count < 0 && !Devices.empty())
    return unknownNumber();
  if (Devices.size() > 1 && anySplit(Host))
    return unknownNumber();
  return answerOf(std::move(Devices), EndedBy);
}

/// The one described device whose UUID begins with Name; -1 if none or several.
int findUuid(const std::string &Name, const HostDevices &Host) {
  int Found = -1;
  for (std::size_t I = 0; I < Host.Described.size(); ++I) {
    if (Host.Described[I].Uuid.compare(0, Name.size(), Name) != 0)
      continue;
    if (Found >= 0)
      return -1;
    Found = static_cast<int>(I);
  }
  return Found;
}

VisibleAnswer applyUuids(const VisibleList &List, const HostDevices &Host) {
  std::vector<VisibleDevice> Devices;
  std::string EndedBy = List.EndedBy;
  for (std::size_t I = 0; I < List.Names.size(); ++I) {
    const std::string &Name = List.Names[I];
    int Physical = -1;
    bool Twice;
    if (Host.Described.empty()) {
      Twice = std::find(List.Names.begin(), List.Names.begin() + I, Name) !=
              List.Names.begin() + I;
    } else {
      Physical = findUuid(Name, Host);
      if (Physical < 0) {
        EndedBy = Name;
        break;
      }
      Twice = std::any_of(Devices.begin(), Devices.end(), [&](VisibleDevice D) {
        return D.Physical == Physical;
      });
    }
    if (Twice)
      return hidden(HiddenBecause::Duplicate, Name);
    Devices.push_back({Physical});
  }
  return answerOf(std::move(Devices), EndedBy);
}

/// The described device that a MIG name is a part of; -1 if none.
int findMig(const std::string &Name, const HostDevices &Host) {
  for (std::size_t I = 0; I < Host.Described.size(); ++I) {
    const PhysicalDevice &Device = Host.Described[I];
    if (!Device.MigEnabled)
      continue;
    for (const std::string &Part : Device.MigUuids)
      if (Part == Name)
        return static_cast<int>(I);
    if (!Device.Uuid.empty() &&
        startsWith(Name, ("MIG-" + Device.Uuid + "/").c_str()))
      return static_cast<int>(I);
  }
  return -1;
}

VisibleAnswer applyMigs(const VisibleList &List, const HostDevices &Host) {
  const std::string &Name = List.Names.front();
  if (Host.Described.empty())
    return answerOf({VisibleDevice{}}, "");
  int Physical = findMig(Name, Host);
  if (Physical < 0)
    return hidden(HiddenBecause::FirstEntryInvalid, Name);
  return answerOf({VisibleDevice{Physical}}, "");
}

} // namespace

VisibleList parseVisibleDevices(const char *Value) {
  VisibleList List;
  if (!Value)
    return List;
  std::string Text = Value;
  List.Kind = kindOf(trim(Text.substr(0, Text.find(','))));
  for (std::size_t Start = 0; Start <= Text.size();) {
    std::size_t Comma = std::min(Text.find(',', Start), Text.size());
    std::string Entry = trim(Text.substr(Start, Comma - Start));
    Start = Comma + 1;
    int Index = -1;
    bool Valid = kindOf(Entry) == List.Kind;
    if (Valid && List.Kind == VisibleKind::Indices) {
      Index = readIndex(Entry);
      Valid = Index >= 0;
    }
    if (!Valid) {
      List.EndedBy = Entry;
      List.HasEnd = true;
      break;
    }
    if (List.Kind == VisibleKind::Indices)
      List.Indices.push_back(Index);
    else
      List.Names.push_back(std::move(Entry));
  }
  return List;
}

VisibleAnswer applyVisibleDevices(const VisibleList &List,
                                  const HostDevices &Host, bool PciOrder) {
  if (List.Kind == VisibleKind::All)
    return applyAll(Host, PciOrder);
  if (List.Indices.empty() && List.Names.empty())
    return hidden(List.EndedBy.empty() ? HiddenBecause::Empty
                                       : HiddenBecause::FirstEntryInvalid,
                  List.EndedBy);
  if (Host.Count == 0)
    return {};
  switch (List.Kind) {
  case VisibleKind::Uuids:
    return applyUuids(List, Host);
  case VisibleKind::Migs:
    return applyMigs(List, Host);
  default:
    return applyIndices(List, Host, PciOrder);
  }
}

} // namespace flagtree
