//===- DriverLibraryTest.cpp ----------------------------------------------===//

#include "Isolated.h"

#include "flagtree/Driver/DriverLibrary.h"
#include "flagtree/Driver/LibrarySearch.h"

#include <fstream>
#include <thread>

using namespace flagtree;
using namespace flagtree::testing;

namespace {

const std::string Fakes = FAKE_DIRECTORY;
const std::string Cu = Fakes + "/FakeCu/libcuda.so.1";
const std::string CuOther = Fakes + "/FakeCuOther/libcuda.so.1";
const std::string Hg = Fakes + "/FakeHg/libhggc.so";
const std::string Stub = Fakes + "/FakeStub/libcuda.so.1";
const std::string Incomplete = Fakes + "/FakeIncomplete/libcuda.so.1";
const std::string NoModules = Fakes + "/FakeNoModules/libcuda.so.1";
const std::string Haunted = Fakes + "/FakeHaunted/libcuda.so.1";

/// A body that runs where no variable points anywhere.
template <typename F> void isolated(F Body) {
  inChild([&] {
    unsetenv("TRITON_PPU_LIBCUDA_PATH");
    unsetenv("PPU_HOME");
    setenv("PPU_SDK", "/nonexistent", 1);
    Body();
  });
}

bool isMapped(const std::string &Path) {
  for (const std::string &Name : search::mappedLibraries())
    if (Name == Path)
      return true;
  return false;
}

TEST(DriverLibrary, MappedLoadsNothing) {
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", Cu.c_str(), 1);
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr);
    EXPECT_FALSE(isMapped(Cu));
  });
}

TEST(DriverLibrary, SeesWhatSomebodyElseMaps) {
  isolated([] {
    DriverLibrary &Library = DriverLibrary::get();
    EXPECT_EQ(Library.mapped(), nullptr);
    FakeDriver *Fake = openFake(Cu.c_str());
    const EntryPoints *Calls = Library.mapped();
    ASSERT_NE(Calls, nullptr);
    EXPECT_EQ(Calls->Abi, DriverAbi::Cu);
    auto &Order = Fake->Faults[static_cast<int>(FakeCall::DriverGetVersion)];
    Order.Result = 999;
    Order.First = Order.Last =
        Fake->Calls[static_cast<int>(FakeCall::DriverGetVersion)] + 1;
    EXPECT_EQ(driverVersion(*Calls), 0);
    EXPECT_EQ(driverVersion(*Calls), 13000);
    EXPECT_EQ(Calls->Path, Cu);
    EXPECT_EQ(Library.mapped(), Calls);
    EXPECT_EQ(Fake->Calls[static_cast<int>(FakeCall::Init)], 0);
  });
}

TEST(DriverLibrary, ATableOutlivesItsOwner) {
  isolated([] {
    void *Handle = dlopen(Cu.c_str(), RTLD_NOW);
    const EntryPoints *Calls = DriverLibrary::get().mapped();
    ASSERT_NE(Calls, nullptr);
    dlclose(Handle);
    Device First;
    EXPECT_EQ(Calls->DeviceGet(&First, 0), Result::NotInitialized);
    EXPECT_TRUE(isMapped(Cu));
  });
}

TEST(DriverLibrary, KnowsThePpusOwnNames) {
  isolated([] {
    openFake(Hg.c_str());
    const EntryPoints *Calls = DriverLibrary::get().mapped();
    ASSERT_NE(Calls, nullptr);
    EXPECT_EQ(Calls->Abi, DriverAbi::Hg);
    int Version = 0;
    EXPECT_EQ(Calls->DriverGetVersion(&Version), Result::Success);
  });
}

TEST(DriverLibrary, PrefersTheCudaNamesWhereBothAreMapped) {
  isolated([] {
    openFake(Hg.c_str());
    openFake(Cu.c_str());
    ASSERT_NE(DriverLibrary::get().mapped(), nullptr);
    EXPECT_EQ(DriverLibrary::get().mapped()->Path, Cu);
  });
}

TEST(DriverLibrary, PrefersTheChosenOneAmongMapped) {
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", CuOther.c_str(), 1);
    openFake(Cu.c_str());
    openFake(CuOther.c_str());
    ASSERT_NE(DriverLibrary::get().mapped(), nullptr);
    EXPECT_EQ(DriverLibrary::get().mapped()->Path, CuOther);
  });
}

TEST(DriverLibrary, OtherLibrariesAreNotDrivers) {
  TemporaryDirectory Directory;
  Directory.link("libcudart.so.1", Cu);
  isolated([&] {
    openFake((Directory.path() + "/libcudart.so.1").c_str());
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr);
  });
}

TEST(DriverLibrary, AStubIsNoDriverAndIsSaidToBeOne) {
  isolated([] {
    openFake(Stub.c_str());
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr);
    setenv("TRITON_PPU_LIBCUDA_PATH", Stub.c_str(), 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    EXPECT_EQ(Opened.error().Kind, LibraryErrorKind::Stub);
    EXPECT_NE(Opened.error().describe().find("stub"), std::string::npos);
  });
}

TEST(DriverLibrary, AStubDoesNotHideARealDriver) {
  isolated([] {
    openFake(Stub.c_str());
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr);
    openFake(Cu.c_str());
    ASSERT_NE(DriverLibrary::get().mapped(), nullptr);
    EXPECT_EQ(DriverLibrary::get().mapped()->Path, Cu);
  });
}

TEST(DriverLibrary, OneWrongStubAnswerIsNotBelievedForEver) {
  isolated([] {
    FakeDriver *Fake = openFake(Cu.c_str());
    auto &Fault = Fake->Faults[static_cast<int>(FakeCall::DriverGetVersion)];
    Fault.Result = 34;
    Fault.Last = 1;
    Fault.First = 1;
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr);
    EXPECT_NE(DriverLibrary::get().mapped(), nullptr);
  });
}

TEST(DriverLibrary, LacksAnEntryPointThatAskingNeeds) {
  isolated([] {
    openFake(Incomplete.c_str());
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr);
    setenv("TRITON_PPU_LIBCUDA_PATH", Incomplete.c_str(), 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    EXPECT_EQ(Opened.error().Kind, LibraryErrorKind::MissingEntryPoint);
    EXPECT_NE(Opened.error().describe().find("cuCtxGetDevice"),
              std::string::npos);
  });
}

TEST(DriverLibrary, LacksOneThatOnlyUsingNeeds) {
  isolated([] {
    openFake(NoModules.c_str());
    const EntryPoints *Calls = DriverLibrary::get().mapped();
    ASSERT_NE(Calls, nullptr) << "it can still be asked";
    EXPECT_EQ(Calls->ModuleLoadData, nullptr);
    setenv("TRITON_PPU_LIBCUDA_PATH", NoModules.c_str(), 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    EXPECT_EQ(Opened.error().Kind, LibraryErrorKind::MissingEntryPoint);
  });
}

TEST(DriverLibrary, KeepsTheLoadersMessage) {
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", Haunted.c_str(), 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    EXPECT_EQ(Opened.error().Kind, LibraryErrorKind::CannotOpen);
    EXPECT_NE(Opened.error().Message.find("libFakeGhost.so"), std::string::npos)
        << Opened.error().Message;
  });
}

TEST(DriverLibrary, RefusesAnotherArchitecture) {
  TemporaryDirectory Directory;
  std::string Path = Directory.path() + "/libcuda.so.1";
  std::ifstream In(Cu, std::ios::binary);
  std::string Bytes((std::istreambuf_iterator<char>(In)), {});
  ASSERT_GT(Bytes.size(), 64u);
  Bytes[4] = 1; // ELFCLASS32
  std::ofstream(Path, std::ios::binary) << Bytes;
  isolated([&] {
    setenv("TRITON_PPU_LIBCUDA_PATH", Path.c_str(), 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    EXPECT_EQ(Opened.error().Kind, LibraryErrorKind::CannotOpen);
    EXPECT_NE(Opened.error().Message.find("ELFCLASS32"), std::string::npos)
        << Opened.error().Message;
  });
}

TEST(DriverLibrary, TheVariableMayNameADirectory) {
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", (Fakes + "/FakeHg").c_str(), 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_TRUE(Opened) << Opened.error().describe();
    EXPECT_EQ((*Opened)->Abi, DriverAbi::Hg);
  });
}

TEST(DriverLibrary, AChoiceThatDoesNotExistIsNotPassedOver) {
  isolated([] {
    openFake(Cu.c_str());
    setenv("TRITON_PPU_LIBCUDA_PATH", "/nonexistent/libcuda.so.1", 1);
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    EXPECT_NE(Opened.error().describe().find("TRITON_PPU_LIBCUDA_PATH"),
              std::string::npos);
    auto Located = DriverLibrary::get().locate();
    EXPECT_FALSE(Located);
  });
}

TEST(DriverLibrary, FindsTheSdksDriversInOrder) {
  TemporaryDirectory Sdk;
  Sdk.link("lib/libhggc.so", Hg);
  isolated([&] {
    setenv("PPU_SDK", Sdk.path().c_str(), 1);
    auto Located = DriverLibrary::get().locate();
    ASSERT_TRUE(Located) << Located.error().describe();
    EXPECT_EQ(*Located, Sdk.path() + "/lib/libhggc.so");
    Sdk.link("CUDA_SDK/lib64/libcuda.so.1", Cu);
    EXPECT_EQ(*DriverLibrary::get().locate(),
              Sdk.path() + "/CUDA_SDK/lib64/libcuda.so.1");
    EXPECT_EQ(DriverLibrary::get().mapped(), nullptr) << "locate maps nothing";
    auto Opened = DriverLibrary::get().load();
    ASSERT_TRUE(Opened) << Opened.error().describe();
    EXPECT_EQ((*Opened)->Abi, DriverAbi::Cu);
  });
}

TEST(DriverLibrary, SaysWhereItLooked) {
  isolated([] {
    auto Opened = DriverLibrary::get().load();
    ASSERT_FALSE(Opened);
    std::string Text = Opened.error().describe();
    EXPECT_EQ(Opened.error().Kind, LibraryErrorKind::NotFound) << Text;
    for (const char *Name : {"libcuda.so.1", "libhggc.so", "/nonexistent/lib/",
                             "TRITON_PPU_LIBCUDA_PATH"})
      EXPECT_NE(Text.find(Name), std::string::npos) << Text;
  });
}

TEST(DriverLibrary, AFailureIsNotRemembered) {
  TemporaryDirectory Sdk;
  isolated([&] {
    setenv("PPU_SDK", Sdk.path().c_str(), 1);
    EXPECT_FALSE(DriverLibrary::get().load());
    Sdk.link("lib/libhggc.so", Hg);
    EXPECT_TRUE(DriverLibrary::get().load());
  });
}

TEST(DriverLibrary, LoadingTwiceGivesTheSameTable) {
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", Cu.c_str(), 1);
    auto First = DriverLibrary::get().load();
    auto Second = DriverLibrary::get().load();
    ASSERT_TRUE(First && Second);
    EXPECT_EQ(*First, *Second);
    EXPECT_EQ(DriverLibrary::get().mapped(), *First);
  });
}

TEST(DriverLibrary, ThreadsThatComeFirstAgree) {
  isolated([] {
    setenv("TRITON_PPU_LIBCUDA_PATH", Cu.c_str(), 1);
    std::atomic<const EntryPoints *> Seen[8] = {};
    std::vector<std::thread> Threads;
    for (int I = 0; I < 8; ++I)
      Threads.emplace_back([I, &Seen] {
        if (I % 2) {
          auto Opened = DriverLibrary::get().load();
          Seen[I] = Opened ? *Opened : nullptr;
        } else {
          while (!Seen[I])
            Seen[I] = DriverLibrary::get().mapped();
        }
      });
    for (std::thread &Thread : Threads)
      Thread.join();
    for (auto &Table : Seen)
      EXPECT_EQ(Table.load(), Seen[0].load());
  });
}

TEST(LibrarySearch, FindsWhatTheLoaderWouldMap) {
  // The C library is on every loader's path and in its cache.
  std::string Path = search::onLoaderPath("libc.so.6");
  ASSERT_FALSE(Path.empty());
  EXPECT_TRUE(search::exists(Path));
  EXPECT_TRUE(search::onLoaderPath("libno-such-thing.so.7").empty());
}

} // namespace
