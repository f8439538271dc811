//===- VisibleDevicesTest.cpp - CUDA_VISIBLE_DEVICES, case by case --------===//

#include "flagtree/Device/VisibleDevices.h"

#include <gtest/gtest.h>

using namespace flagtree;

namespace {

/// A host of Count devices of capability 8.0 with the UUIDs GPU-00...,
/// GPU-11...
HostDevices describedHost(int Count) {
  HostDevices Host;
  Host.Count = Count;
  for (int I = 0; I < Count; ++I) {
    PhysicalDevice Device;
    Device.Uuid = "GPU-" + std::string(8, static_cast<char>('0' + I)) + "-aaaa";
    Device.Compute = {8, 0};
    Host.Described.push_back(Device);
  }
  return Host;
}

HostDevices countedHost(int Count) {
  HostDevices Host;
  Host.Count = Count;
  return Host;
}

VisibleAnswer apply(const char *Value, const HostDevices &Host,
                    bool PciOrder = false) {
  return applyVisibleDevices(parseVisibleDevices(Value), Host, PciOrder);
}

struct CountCase {
  const char *Value;
  int Count;
  HiddenBecause Hidden;
};

void PrintTo(const CountCase &Case, std::ostream *Out) {
  *Out << '"' << (Case.Value ? Case.Value : "(not set)") << '"';
}

class FourDevices : public ::testing::TestWithParam<CountCase> {};

TEST_P(FourDevices, ShowsAsManyAsTheDriver) {
  const CountCase &Case = GetParam();
  for (const HostDevices &Host : {countedHost(4), describedHost(4)}) {
    VisibleAnswer Answer = apply(Case.Value, Host);
    EXPECT_EQ(Answer.Count, Case.Count);
    EXPECT_EQ(Answer.Any, Case.Count != 0);
    EXPECT_EQ(Answer.Hidden, Case.Hidden);
  }
}

constexpr HiddenBecause Shown = HiddenBecause::NotHidden;
constexpr HiddenBecause Invalid = HiddenBecause::FirstEntryInvalid;

INSTANTIATE_TEST_SUITE_P(
    Values, FourDevices,
    ::testing::Values(
        CountCase{nullptr, 4, Shown}, CountCase{"", 0, HiddenBecause::Empty},
        CountCase{"   ", 0, HiddenBecause::Empty}, CountCase{"-1", 0, Invalid},
        CountCase{"none", 0, Invalid}, CountCase{"NoDevFiles", 0, Invalid},
        CountCase{"0", 1, Shown}, CountCase{"3,1", 2, Shown},
        CountCase{" 2 , 0 ", 2, Shown}, CountCase{"+1", 1, Shown},
        CountCase{"1gpu,2ampere", 2, Shown},
        // What is no device ends the list.
        CountCase{"4", 0, Invalid}, CountCase{"0,4,1", 1, Shown},
        CountCase{"0,-1,1", 1, Shown}, CountCase{"0,,1", 1, Shown},
        CountCase{"0,", 1, Shown}, CountCase{",0", 0, HiddenBecause::Empty},
        CountCase{"1,x", 1, Shown}, CountCase{"0x2", 1, Shown},
        CountCase{"99999999999999999999", 0, Invalid},
        CountCase{"2147483648", 0, Invalid}, CountCase{"0;1", 1, Shown},
        // A device named twice voids it.
        CountCase{"0,0", 0, HiddenBecause::Duplicate},
        CountCase{"0,1,2,1", 0, HiddenBecause::Duplicate},
        // Only up to where the list ends.
        CountCase{"0,1,9,1", 2, Shown},
        // An entry of another kind ends it.
        CountCase{"0,GPU-00000000", 1, Shown},
        CountCase{"GPU-00000000,1", 1, Shown},
        CountCase{"gpu-00000000", 0, Invalid}));

TEST(VisibleDevices, ChangesTheOrder) {
  VisibleAnswer Answer = apply("3,1", describedHost(4), /*PciOrder=*/true);
  ASSERT_EQ(Answer.Count, 2);
  EXPECT_EQ(Answer.Devices[0].Physical, 3);
  EXPECT_EQ(Answer.Devices[1].Physical, 1);
}

TEST(VisibleDevices, DoesNotGuessTheFastestFirstOrder) {
  VisibleAnswer Answer = apply("3,1", describedHost(4), /*PciOrder=*/false);
  ASSERT_EQ(Answer.Count, 2);
  EXPECT_EQ(Answer.Devices[0].Physical, -1);
  // One device leaves nothing to guess.
  EXPECT_EQ(apply("0", describedHost(1)).Devices[0].Physical, 0);
}

TEST(VisibleDevices, UuidsAndTheirBeginnings) {
  HostDevices Host = describedHost(3);
  VisibleAnswer Answer = apply("GPU-22222222-aaaa,GPU-0", Host);
  ASSERT_EQ(Answer.Count, 2);
  EXPECT_EQ(Answer.Devices[0].Physical, 2);
  EXPECT_EQ(Answer.Devices[1].Physical, 0);
  EXPECT_EQ(apply("GPU-", Host).Count, 0) << "ambiguous";
  EXPECT_EQ(apply("GPU-9", Host).Hidden, HiddenBecause::FirstEntryInvalid);
  EXPECT_EQ(apply("GPU-1,GPU-9,GPU-2", Host).Count, 1);
  EXPECT_EQ(apply("GPU-1,GPU-1", Host).Hidden, HiddenBecause::Duplicate);
  EXPECT_EQ(apply("GPU-1,GPU-11", Host).Hidden, HiddenBecause::Duplicate);
  EXPECT_EQ(apply("GPU-", describedHost(1)).Count, 1) << "unambiguous";
}

TEST(VisibleDevices, PpuUuids) {
  HostDevices Host = describedHost(2);
  Host.Described[1].Uuid = "PPU-abcdef";
  VisibleAnswer Answer = apply("PPU-abc", Host);
  ASSERT_EQ(Answer.Count, 1);
  EXPECT_EQ(Answer.Devices[0].Physical, 1);
}

TEST(VisibleDevices, BelievesUuidsThatNobodyCanCheck) {
  VisibleAnswer Answer = apply("GPU-1,GPU-2", countedHost(4));
  EXPECT_EQ(Answer.Count, 2);
  EXPECT_EQ(Answer.Devices[0].Physical, -1);
  EXPECT_EQ(apply("GPU-1,GPU-1", countedHost(4)).Count, 0);
}

TEST(VisibleDevices, MigPartsAreShownOneAtATime) {
  HostDevices Host = describedHost(2);
  Host.Described[1].MigEnabled = true;
  Host.Described[1].MigUuids = {"MIG-aaaa", "MIG-bbbb"};
  EXPECT_EQ(apply("MIG-bbbb", Host).Devices.at(0).Physical, 1);
  EXPECT_EQ(apply("MIG-bbbb,MIG-aaaa", Host).Count, 1);
  EXPECT_EQ(apply("MIG-GPU-11111111-aaaa/1/0", Host).Devices.at(0).Physical, 1);
  EXPECT_EQ(apply("MIG-GPU-00000000-aaaa/1/0", Host).Count, 0) << "not split";
  EXPECT_EQ(apply("MIG-cccc", Host).Hidden, HiddenBecause::FirstEntryInvalid);
  EXPECT_EQ(apply("MIG-cccc", countedHost(2)).Count, 1) << "nobody can check";
}

TEST(VisibleDevices, DoesNotCountAMixtureOfSplitAndWholeDevices) {
  HostDevices Host = describedHost(2);
  Host.Described[0].MigEnabled = true;
  EXPECT_TRUE(apply(nullptr, Host).Any);
  EXPECT_EQ(apply(nullptr, Host).Count, -1);
  EXPECT_EQ(apply("0,1", Host).Count, -1);
}

TEST(VisibleDevices, AnUnknownNumberOfDevices) {
  HostDevices Wsl = countedHost(-1);
  EXPECT_TRUE(apply(nullptr, Wsl).Any);
  EXPECT_EQ(apply(nullptr, Wsl).Count, -1);
  EXPECT_TRUE(apply("0", Wsl).Any);
  EXPECT_FALSE(apply("", Wsl).Any);
  EXPECT_FALSE(apply("-1", Wsl).Any);
}

TEST(VisibleDevices, NothingToShow) {
  EXPECT_FALSE(apply(nullptr, countedHost(0)).Any);
  EXPECT_FALSE(apply("0", countedHost(0)).Any);
  EXPECT_FALSE(apply("GPU-1", countedHost(0)).Any);
}

} // namespace
