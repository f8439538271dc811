//===- KernelModuleTest.cpp -----------------------------------------------===//

#include "flagtree/Launch/KernelModule.h"
#include "flagtree/Launch/DeviceUtilities.h"

#include "FakeDriver.h"

#include "gtest/gtest.h"

using namespace flagtree;

namespace {

class KernelModuleTest : public ::testing::Test {
protected:
  KernelModuleTest() {
    Fake.FunctionAttributes = {{FunctionAttribute::NumRegisters, 40},
                               {FunctionAttribute::LocalSizeBytes, 12},
                               {FunctionAttribute::MaxThreadsPerBlock, 512},
                               {FunctionAttribute::SharedSizeBytes, 1024}};
    Fake.DeviceAttributes = {
        {DeviceAttribute::MaxSharedMemoryPerBlockOptIn, 160 * 1024}};
  }

  Expected<LoadedKernel, DriverFailure> load(int Shared) {
    return loadKernel(Fake.Table, "kernel", "image", Shared, 1);
  }

  FakeDriver Fake;
};

TEST_F(KernelModuleTest, ReadsBackWhatTritonAsks) {
  const auto Loaded = load(0);
  ASSERT_TRUE(Loaded);
  EXPECT_EQ(Loaded->Image, someModule());
  EXPECT_EQ(Loaded->Kernel, someFunction());
  EXPECT_EQ(Loaded->NumRegisters, 40);
  EXPECT_EQ(Loaded->NumSpills, 3);
  EXPECT_EQ(Loaded->MaxThreads, 512);
  EXPECT_EQ(Fake.Current, contextOfDevice(1));
  EXPECT_FALSE(Fake.called("FuncSetAttribute"));
}

TEST_F(KernelModuleTest, OptsInAboveTheDefaultLimitOnly) {
  ASSERT_TRUE(load(DefaultSharedMemoryLimit));
  EXPECT_FALSE(Fake.called("FuncSetAttribute"));
  ASSERT_TRUE(load(DefaultSharedMemoryLimit + 1));
  EXPECT_TRUE(Fake.called("FuncSetCacheConfig"));
  EXPECT_EQ(Fake.SetAttributes[FunctionAttribute::MaxDynamicSharedSizeBytes],
            160 * 1024 - 1024);
}

TEST_F(KernelModuleTest, ADeviceWithoutOptInIsLeftAlone) {
  Fake.DeviceAttributes[DeviceAttribute::MaxSharedMemoryPerBlockOptIn] =
      DefaultSharedMemoryLimit;
  ASSERT_TRUE(load(DefaultSharedMemoryLimit + 1));
  EXPECT_FALSE(Fake.called("FuncSetAttribute"));
}

TEST_F(KernelModuleTest, AModuleThatCannotBeUsedIsUnloaded) {
  for (const char *Call :
       {"ModuleGetFunction", "FuncGetAttribute", "DeviceGetAttribute",
        "FuncSetCacheConfig", "FuncSetAttribute"}) {
    Fake.Calls.clear();
    Fake.Answers = {{Call, Result::NotFound}};
    const auto Loaded = load(100 * 1024);
    ASSERT_FALSE(Loaded) << Call;
    EXPECT_STREQ(Loaded.error().Call, Call);
    EXPECT_EQ(Fake.Calls.back(), "ModuleUnload") << Call;
  }
  Fake.Calls.clear();
  Fake.Answers = {{"ModuleLoadData", Result::InvalidImage}};
  EXPECT_FALSE(load(0));
  EXPECT_FALSE(Fake.called("ModuleUnload"));
}

TEST(DeviceUtilitiesTest, PrintfBufferIsSetOnlyIfItChanges) {
  FakeDriver Fake;
  Fake.PrintfFifo = 4096;
  EXPECT_FALSE(setPrintfFifoSize(Fake.Table, 4096, 0));
  EXPECT_FALSE(Fake.called("CtxSetLimit"));
  EXPECT_FALSE(setPrintfFifoSize(Fake.Table, 8192, 0));
  EXPECT_EQ(Fake.PrintfFifo, 8192u);
}

TEST(DeviceUtilitiesTest, PropertiesReportTheFailingCall) {
  FakeDriver Fake;
  Fake.DeviceAttributes = {{DeviceAttribute::WarpSize, 32},
                           {DeviceAttribute::MultiprocessorCount, 72}};
  const auto Properties = deviceProperties(Fake.Table, 0);
  ASSERT_TRUE(Properties);
  EXPECT_EQ(Properties->WarpSize, 32);
  EXPECT_EQ(Properties->MultiprocessorCount, 72);
  Fake.Answers["DeviceGet"] = Result::InvalidDevice;
  EXPECT_STREQ(deviceProperties(Fake.Table, 9).error().Call, "DeviceGet");
}

TEST(DeviceUtilitiesTest, OccupancyConfiguresTheCluster) {
  FakeDriver Fake;
  const auto Clusters = maxActiveClusters(Fake.Table, someFunction(), 4096, 8);
  ASSERT_TRUE(Clusters);
  EXPECT_EQ(*Clusters, 7);
  EXPECT_EQ(Fake.Config.GridX, 8u);
  EXPECT_EQ(Fake.Config.BlockX, 128u);
  EXPECT_EQ(Fake.SetAttributes[FunctionAttribute::MaxDynamicSharedSizeBytes],
            4096);
  Fake.Table.OccupancyMaxActiveClusters = nullptr;
  EXPECT_TRUE(maxActiveClusters(Fake.Table, someFunction(), 0, 2)
                  .error()
                  .isMissingEntryPoint());
}

std::vector<uint64_t> EncodedShape, EncodedStrides;
std::vector<uint32_t> EncodedBlock;

TEST(DeviceUtilitiesTest, TensorMapsAreInnermostFirstAndInBytes) {
  FakeDriver Fake;
  TiledTensor Tensor;
  Tensor.Rank = 3;
  Tensor.ElementSize = 2;
  Tensor.Shape = {4, 5, 6};
  Tensor.Strides = {30, 6, 1};
  Tensor.Block = {1, 2, 3};
  TensorMap Map;
  EXPECT_TRUE(encodeTensorMap(Fake.Table, Tensor, Map)->isMissingEntryPoint());
  Fake.Table.TensorMapEncodeTiled =
      [](TensorMap *, TensorMapDataType, uint32_t Rank, void *,
         const uint64_t *Shape, const uint64_t *Strides, const uint32_t *Block,
         const uint32_t *, TensorMapInterleave, TensorMapSwizzle,
         TensorMapL2Promotion, TensorMapFill) {
        EncodedShape.assign(Shape, Shape + Rank);
        EncodedStrides.assign(Strides, Strides + Rank - 1);
        EncodedBlock.assign(Block, Block + Rank);
        return Result::Success;
      };
  EXPECT_FALSE(encodeTensorMap(Fake.Table, Tensor, Map));
  EXPECT_EQ(EncodedShape, (std::vector<uint64_t>{6, 5, 4}));
  EXPECT_EQ(EncodedStrides, (std::vector<uint64_t>{12, 60}));
  EXPECT_EQ(EncodedBlock, (std::vector<uint32_t>{3, 2, 1}));
  EXPECT_NE(Tensor.describe().find("shape [4, 5, 6]"), std::string::npos);
}

} // namespace
