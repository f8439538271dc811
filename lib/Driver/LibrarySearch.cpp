//===- LibrarySearch.cpp --------------------------------------------------===//

#include "flagtree/Driver/LibrarySearch.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace flagtree::search {

namespace {

int readCount(dl_phdr_info *Info, std::size_t, void *Count) {
  *static_cast<unsigned long long *>(Count) = Info->dlpi_adds;
  return 1; // Every entry carries the same count; the first is enough.
}

int addName(dl_phdr_info *Info, std::size_t, void *Names) {
  if (Info->dlpi_name && Info->dlpi_name[0] != '\0')
    static_cast<std::vector<std::string> *>(Names)->emplace_back(
        Info->dlpi_name);
  return 0;
}

/// The directories the loader searches for a dlopen from the main program.
std::vector<std::string> loaderDirectories() {
  std::vector<std::string> Directories;
  void *Program = dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
  if (!Program)
    return Directories;
  Dl_serinfo Size{};
  if (dlinfo(Program, RTLD_DI_SERINFOSIZE, &Size) == 0) {
    std::unique_ptr<char[]> Buffer(new char[Size.dls_size]());
    auto *Info = reinterpret_cast<Dl_serinfo *>(Buffer.get());
    // The list has to be told its own size before it is filled.
    if (dlinfo(Program, RTLD_DI_SERINFOSIZE, Info) == 0 &&
        dlinfo(Program, RTLD_DI_SERINFO, Info) == 0)
      for (unsigned I = 0; I < Info->dls_cnt; ++I)
        Directories.emplace_back(Info->dls_serpath[I].dls_name);
  }
  dlclose(Program);
  return Directories;
}

// The layout of /etc/ld.so.cache in glibc's current format. Offsets of strings
// count from the header.
constexpr char CacheMagic[] = "glibc-ld.so.cache1.1";
struct CacheHeader {
  char Magic[sizeof(CacheMagic) - 1];
  std::uint32_t Count;
  std::uint32_t StringBytes;
  std::uint32_t Unused[5];
};
struct CacheEntry {
  std::int32_t Flags;
  std::uint32_t Name, Path;
  std::uint32_t OsVersion;
  std::uint64_t HardwareCapabilities;
};
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

#if defined(__x86_64__)
constexpr std::int32_t NativeFlags = 0x0303;
#elif defined(__aarch64__)
constexpr std::int32_t NativeFlags = 0x0a03;
#else
constexpr std::int32_t NativeFlags = 0x0003;
#endif

/// Looks Name up in the loader's cache, which is read anew each time: it
/// changes when a driver is installed.
std::string inLoaderCache(const std::string &Name) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> File(
      std::fopen("/etc/ld.so.cache", "re"), std::fclose);
  if (!File)
    return {};
  std::string Data;
  char Chunk[16384];
  while (std::size_t Got = std::fread(Chunk, 1, sizeof(Chunk), File.get()))
    Data.append(Chunk, Got);

  // An old-format part may come first; the current format follows it.
  std::size_t Start = Data.find(CacheMagic);
  if (Start == std::string::npos || Data.size() - Start < sizeof(CacheHeader))
    return {};
  CacheHeader Header;
  std::memcpy(&Header, Data.data() + Start, sizeof(Header));
  std::size_t Entries = Start + sizeof(CacheHeader);
  if ((Data.size() - Entries) / sizeof(CacheEntry) < Header.Count)
    return {};
  auto StringAt = [&](std::uint32_t Offset) -> std::string {
    if (Offset >= Data.size() - Start)
      return {};
    const char *Text = Data.data() + Start + Offset;
    return {Text, strnlen(Text, Data.size() - Start - Offset)};
  };
  for (std::uint32_t I = 0; I < Header.Count; ++I) {
    CacheEntry Entry;
    std::memcpy(&Entry, Data.data() + Entries + I * sizeof(CacheEntry),
                sizeof(Entry));
    if (Entry.Flags != NativeFlags || StringAt(Entry.Name) != Name)
      continue;
    std::string Path = StringAt(Entry.Path);
    if (exists(Path))
      return Path;
  }
  return {};
}

} // namespace

unsigned long long mappedCount() noexcept {
  unsigned long long Count = 0;
  dl_iterate_phdr(readCount, &Count);
  return Count;
}

std::vector<std::string> mappedLibraries() {
  std::vector<std::string> Names;
  Names.reserve(256);
  dl_iterate_phdr(addName, &Names);
  return Names;
}

std::string onLoaderPath(const std::string &Name) {
  // The loader looks in the cache between LD_LIBRARY_PATH and the system's
  // directories. The list does not say which of its entries are which, but the
  // system's own are covered by the cache, so list first, cache second finds a
  // library wherever the loader does.
  for (const std::string &Directory : loaderDirectories()) {
    std::string Path = Directory + "/" + Name;
    if (exists(Path))
      return Path;
  }
  return inLoaderCache(Name);
}

bool exists(const std::string &Path) noexcept {
  return !Path.empty() && access(Path.c_str(), F_OK) == 0;
}

bool sameFile(const std::string &A, const std::string &B) noexcept {
  struct stat First, Second;
  return stat(A.c_str(), &First) == 0 && stat(B.c_str(), &Second) == 0 &&
         First.st_dev == Second.st_dev && First.st_ino == Second.st_ino;
}

std::vector<std::string> sdkRoots() {
  std::vector<std::string> Roots;
  for (const char *Name : {"PPU_SDK", "PPU_HOME"})
    if (const char *Root = std::getenv(Name); Root && *Root)
      Roots.push_back(Root);
  if (Roots.empty())
    Roots.push_back("/usr/local/PPU_SDK");
  return Roots;
}

std::string baseName(const std::string &Path) {
  return Path.substr(Path.find_last_of('/') + 1);
}

} // namespace flagtree::search
