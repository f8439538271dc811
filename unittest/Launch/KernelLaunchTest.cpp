//===- KernelLaunchTest.cpp -----------------------------------------------===//

#include "flagtree/Launch/KernelLaunch.h"

#include "FakeDriver.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace flagtree;

namespace {

LaunchShape shape() {
  LaunchShape Shape;
  Shape.GridX = 5;
  Shape.GridY = 6;
  Shape.GridZ = 7;
  Shape.NumWarps = 4;
  Shape.SharedMemoryBytes = 1234;
  return Shape;
}

MaybeFailure launch(FakeDriver &Fake, const LaunchShape &Shape) {
  uint64_t Value = 42;
  void *Parameters[] = {&Value, nullptr};
  return launchKernel(Fake.Table, Shape, someStream(), someFunction(),
                      Parameters);
}

TEST(KernelLaunchTest, APlainLaunchHasNoAttributes) {
  FakeDriver Fake;
  EXPECT_FALSE(launch(Fake, shape()));
  EXPECT_EQ(Fake.Config.GridX, 5u);
  EXPECT_EQ(Fake.Config.GridY, 6u);
  EXPECT_EQ(Fake.Config.GridZ, 7u);
  EXPECT_EQ(Fake.Config.BlockX, 128u);
  EXPECT_EQ(Fake.Config.BlockY, 1u);
  EXPECT_EQ(Fake.Config.SharedMemoryBytes, 1234u);
  EXPECT_EQ(Fake.Config.LaunchStream, someStream());
  EXPECT_TRUE(Fake.Attributes.empty());
  EXPECT_EQ(Fake.Parameters, std::vector<uint64_t>{42});
  EXPECT_FALSE(Fake.called("FuncSetAttribute"));
}

TEST(KernelLaunchTest, AttributesSayWhatTheShapeSays) {
  FakeDriver Fake;
  LaunchShape Shape = shape();
  Shape.Cooperative = true;
  Shape.ProgrammaticDependentLaunch = true;
  Shape.NumCTAs = 4;
  EXPECT_FALSE(launch(Fake, Shape));
  EXPECT_EQ(Fake.Config.GridX, 20u);
  ASSERT_EQ(Fake.Attributes.size(), 4u);
  EXPECT_EQ(Fake.Attributes[0].Kind,
            LaunchAttributeKind::ProgrammaticStreamSerialization);
  EXPECT_EQ(Fake.Attributes[0].Value.ProgrammaticStreamSerializationAllowed, 1);
  EXPECT_EQ(Fake.Attributes[1].Kind, LaunchAttributeKind::Cooperative);
  EXPECT_EQ(Fake.Attributes[2].Kind, LaunchAttributeKind::ClusterDimension);
  EXPECT_EQ(Fake.Attributes[2].Value.ClusterDimension.X, 4u);
  EXPECT_EQ(Fake.Attributes[2].Value.ClusterDimension.Y, 1u);
  EXPECT_EQ(Fake.Attributes[3].Kind,
            LaunchAttributeKind::ClusterSchedulingPolicyPreference);
  EXPECT_EQ(Fake.Attributes[3].Value.ClusterSchedulingPolicyPreference, 1);
}

TEST(KernelLaunchTest, ClustersOfSixteenAskForConsentFirst) {
  FakeDriver Fake;
  LaunchShape Shape = shape();
  Shape.NumCTAs = 16;
  EXPECT_FALSE(launch(Fake, Shape));
  EXPECT_EQ(
      Fake.SetAttributes[FunctionAttribute::NonPortableClusterSizeAllowed], 1);
  EXPECT_EQ(Fake.Calls.front(), "FuncSetAttribute");

  Fake.Answers["FuncSetAttribute"] = Result::NotSupported;
  Fake.Calls.clear();
  const MaybeFailure Failure = launch(Fake, Shape);
  ASSERT_TRUE(Failure);
  EXPECT_STREQ(Failure->Call, "FuncSetAttribute");
  EXPECT_FALSE(Fake.called("LaunchKernelEx"));
}

TEST(KernelLaunchTest, AnOldDriverTakesPlainLaunchesOnly) {
  FakeDriver Fake;
  Fake.Table.LaunchKernelEx = nullptr;
  EXPECT_FALSE(launch(Fake, shape()));
  EXPECT_TRUE(Fake.called("LaunchKernel"));
  EXPECT_EQ(Fake.Config.BlockX, 128u);

  LaunchShape Shape = shape();
  Shape.Cooperative = true;
  const MaybeFailure Failure = launch(Fake, Shape);
  ASSERT_TRUE(Failure);
  EXPECT_TRUE(Failure->isMissingEntryPoint());
  const std::string Text = describeFailure(Fake.Table, *Failure);
  EXPECT_NE(Text.find("cuLaunchKernelEx"), std::string::npos) << Text;
  EXPECT_NE(Text.find("11.4"), std::string::npos) << Text;
  Fake.Answers["DriverGetVersion"] = Result::Unknown;
  const std::string Unknown = describeFailure(Fake.Table, *Failure);
  EXPECT_NE(Unknown.find("version unknown"), std::string::npos) << Unknown;
}

TEST(KernelLaunchTest, AFailureNamesTheCallAndTheCode) {
  FakeDriver Fake;
  Fake.Answers["LaunchKernelEx"] = Result::IllegalAddress;
  const MaybeFailure Failure = launch(Fake, shape());
  ASSERT_TRUE(Failure);
  EXPECT_EQ(Failure->Code, Result::IllegalAddress);
  EXPECT_TRUE(mayStemFromEarlierWork(Failure->Code));
  EXPECT_FALSE(mayStemFromEarlierWork(Result::InvalidValue));
  const std::string Text = describeFailure(Fake.Table, *Failure);
  EXPECT_NE(Text.find("700"), std::string::npos) << Text;
  EXPECT_NE(Text.find("cuLaunchKernelEx"), std::string::npos) << Text;
}

TEST(KernelLaunchTest, TheDriversOwnWordsComeFirst) {
  FakeDriver Fake;
  Fake.Table.GetErrorName = [](Result, const char **Out) {
    *Out = "CUDA_ERROR_SPECIFIC";
    return Result::Success;
  };
  Fake.Table.GetErrorString = [](Result, const char **Out) {
    *Out = "something specific";
    return Result::Success;
  };
  EXPECT_EQ(
      describeFailure(Fake.Table, {Result::OutOfMemory, "ModuleLoadData"}),
      "something specific (CUDA_ERROR_SPECIFIC, 2) from cuModuleLoadData");
}

TEST(ContextTest, AThreadWithAContextKeepsIt) {
  FakeDriver Fake;
  Fake.Current = contextOfDevice(3);
  EXPECT_FALSE(ensureContext(Fake.Table, 0));
  EXPECT_EQ(Fake.Current, contextOfDevice(3));
  EXPECT_FALSE(Fake.called("DevicePrimaryCtxRetain"));
}

TEST(ContextTest, AStreamBringsItsOwnContext) {
  FakeDriver Fake;
  EXPECT_FALSE(adoptContext(Fake.Table, someStream(), 1));
  EXPECT_EQ(Fake.Current, contextOfStream());
  EXPECT_FALSE(Fake.called("DevicePrimaryCtxRetain"));
}

TEST(ContextTest, ADefaultStreamMeansTheCurrentDevice) {
  for (uintptr_t Handle : {0, 1, 2}) {
    FakeDriver Fake;
    EXPECT_FALSE(adoptContext(Fake.Table, reinterpret_cast<Stream>(Handle), 5));
    EXPECT_EQ(Fake.Current, contextOfDevice(5));
    EXPECT_EQ(Fake.RetainedDevice, 5);
  }
}

TEST(ContextTest, WithoutStreamGetCtxTheCurrentDeviceServes) {
  FakeDriver Fake;
  Fake.Table.StreamGetCtx = nullptr;
  EXPECT_FALSE(adoptContext(Fake.Table, someStream(), 2));
  EXPECT_EQ(Fake.Current, contextOfDevice(2));
}

TEST(ContextTest, EveryStepsFailureIsReported) {
  for (const char *Call : {"CtxGetCurrent", "DeviceGet",
                           "DevicePrimaryCtxRetain", "CtxSetCurrent"}) {
    FakeDriver Fake;
    Fake.Answers[Call] = Result::InvalidDevice;
    const MaybeFailure Failure = ensureContext(Fake.Table, 0);
    ASSERT_TRUE(Failure) << Call;
    EXPECT_STREQ(Failure->Call, Call);
  }
}

TEST(TimeLaunchesTest, WaitsOncePerBatchAndStopsAtAFailure) {
  FakeDriver Fake;
  void *Parameters[] = {nullptr};
  const auto Times = timeLaunches(Fake.Table, shape(), someStream(),
                                  someFunction(), Parameters, 3, 10);
  ASSERT_TRUE(Times);
  EXPECT_EQ(Times->size(), 3u);
  // Each batch has one more launch, which is not timed.
  EXPECT_EQ(std::count(Fake.Calls.begin(), Fake.Calls.end(), "LaunchKernelEx"),
            33);
  EXPECT_EQ(
      std::count(Fake.Calls.begin(), Fake.Calls.end(), "StreamSynchronize"), 3);

  Fake.Answers["StreamSynchronize"] = Result::LaunchFailed;
  const auto Failed = timeLaunches(Fake.Table, shape(), someStream(),
                                   someFunction(), Parameters, 3, 10);
  ASSERT_FALSE(Failed);
  EXPECT_EQ(Failed.error().Code, Result::LaunchFailed);
}

} // namespace
