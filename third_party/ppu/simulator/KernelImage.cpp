#include "KernelImage.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>
#include <sstream>

namespace flagtree::simulator {
namespace {

constexpr Elf64_Half MachineCuda = 190;
constexpr unsigned char SymbolIsEntry = 0x10; // in st_other
constexpr char TextMagic[] = "flagtree-simulated-kernel 1\n";

// Attributes of .nv.info sections, as `cuobjdump -elf` names them.
enum : unsigned char {
  AttributeMaxThreads = 0x05,
  AttributeRequiredThreads = 0x10,
  AttributeFrameSize = 0x11,
  AttributeParameter = 0x17,
  AttributeParameterBytes = 0x19,
  AttributeRegisterCount = 0x2f,
};
enum : unsigned char { FormatSized = 0x04 }; // others carry two bytes

template <typename T> T readAt(const unsigned char *at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

class Cubin {
public:
  Cubin(const unsigned char *image, KernelImage &result, std::string &why)
      : image(image), result(result), why(why) {}

  bool read();

private:
  struct Section {
    std::string name;
    const unsigned char *data;
    size_t size;
    Elf64_Word type, info;
  };

  bool fail(const char *reason) {
    why = reason;
    return false;
  }
  bool readSections();
  bool readSymbols();
  bool readInfo(const Section &section, KernelDescription *kernel);
  const Section *find(const std::string &name) const {
    for (const Section &section : sections)
      if (section.name == name)
        return &section;
    return nullptr;
  }

  const unsigned char *image;
  KernelImage &result;
  std::string &why;
  Elf64_Ehdr header;
  std::vector<Section> sections;
  std::map<unsigned, size_t> kernelOfSymbol;
};

bool Cubin::read() {
  header = readAt<Elf64_Ehdr>(image);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail("an ELF file that is not of 64 bits, little endian");
  if (header.e_machine != MachineCuda)
    return fail("an ELF file for another machine");
  // The architecture is the low byte of the flags up to ABI version 7, and the
  // byte above it from version 8 (CUDA 13) on.
  result.architecture = header.e_ident[EI_ABIVERSION] >= 8
                            ? int((header.e_flags >> 8) & 0xff)
                            : int(header.e_flags & 0xff);
  return readSections() && readSymbols();
}

bool Cubin::readSections() {
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0 ||
      header.e_shstrndx >= header.e_shnum)
    return fail("a section table that is not one");
  // The image has no length; it reaches at least to the end of its tables, and
  // everything else has to lie before the larger of the two.
  size_t end = header.e_shoff + size_t(header.e_shnum) * sizeof(Elf64_Shdr);
  if (header.e_phnum)
    end = std::max<size_t>(end, header.e_phoff + size_t(header.e_phnum) *
                                                     sizeof(Elf64_Phdr));
  std::vector<Elf64_Shdr> headers(header.e_shnum);
  std::memcpy(headers.data(), image + header.e_shoff,
              headers.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr &section : headers) {
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL)
      continue;
    // Section data may follow the tables; 1 GiB bounds what is believed.
    if (section.sh_offset > (1u << 30) || section.sh_size > (1u << 30))
      return fail("a section that lies outside the image");
    end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  const Elf64_Shdr &names = headers[header.e_shstrndx];
  if (names.sh_size == 0 || image[names.sh_offset + names.sh_size - 1] != 0)
    return fail("a table of section names without an end");
  for (const Elf64_Shdr &section : headers) {
    if (section.sh_name >= names.sh_size)
      return fail("a section name outside the table of names");
    const char *name = reinterpret_cast<const char *>(image + names.sh_offset +
                                                      section.sh_name);
    sections.push_back(
        {name,
         section.sh_type == SHT_NOBITS ? nullptr : image + section.sh_offset,
         section.sh_size, section.sh_type, section.sh_info});
  }
  return true;
}

bool Cubin::readSymbols() {
  const Section *symbols = find(".symtab"), *strings = find(".strtab");
  if (!symbols || !strings || strings->size == 0 ||
      strings->data[strings->size - 1] != 0)
    return fail("no symbol table");
  for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size;
       at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol = readAt<Elf64_Sym>(symbols->data + at);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
        !(symbol.st_other & SymbolIsEntry))
      continue;
    if (symbol.st_name >= strings->size)
      return fail("a symbol's name outside the table of names");
    KernelDescription kernel;
    kernel.name =
        reinterpret_cast<const char *>(strings->data + symbol.st_name);
    if (const Section *shared = find(".nv.shared." + kernel.name))
      kernel.sharedBytes = int(shared->size);
    kernelOfSymbol[unsigned(at / sizeof(Elf64_Sym))] = result.kernels.size();
    result.kernels.push_back(kernel);
  }
  if (const Section *common = find(".nv.info"))
    if (!readInfo(*common, nullptr))
      return false;
  for (KernelDescription &kernel : result.kernels)
    if (const Section *own = find(".nv.info." + kernel.name))
      if (!readInfo(*own, &kernel))
        return false;
  return true;
}

bool Cubin::readInfo(const Section &section, KernelDescription *kernel) {
  size_t at = 0;
  while (at + 4 <= section.size) {
    unsigned char format = section.data[at], attribute = section.data[at + 1];
    unsigned size = readAt<uint16_t>(section.data + at + 2);
    const unsigned char *value = section.data + at + 4;
    at += 4;
    if (format == FormatSized) {
      if (at + size > section.size)
        return fail("an attribute that lies outside its section");
      at += size;
    }
    if (!kernel) {
      if (format != FormatSized || size < 8)
        continue;
      auto owner = kernelOfSymbol.find(readAt<uint32_t>(value));
      if (owner == kernelOfSymbol.end())
        continue;
      int number = readAt<int32_t>(value + 4);
      if (attribute == AttributeRegisterCount)
        result.kernels[owner->second].registers = number;
      else if (attribute == AttributeFrameSize)
        result.kernels[owner->second].localBytes = number;
      continue;
    }
    if (attribute == AttributeParameterBytes) {
      kernel->parameterBytes = size; // the two bytes are the value here
    } else if (attribute == AttributeParameter && size >= 12) {
      unsigned ordinal = readAt<uint16_t>(value + 4);
      if (ordinal >= kernel->parameters.size())
        kernel->parameters.resize(ordinal + 1u);
      kernel->parameters[ordinal] = {readAt<uint16_t>(value + 6),
                                     readAt<uint32_t>(value + 8) >> 18};
    } else if ((attribute == AttributeMaxThreads ||
                attribute == AttributeRequiredThreads) &&
               size >= 12) {
      kernel->maxThreads =
          int(readAt<uint32_t>(value) * readAt<uint32_t>(value + 4) *
              readAt<uint32_t>(value + 8));
    }
  }
  return true;
}

bool readParameters(const std::string &text, KernelDescription &kernel) {
  std::istringstream list(text);
  std::string entry;
  unsigned offset = 0;
  while (std::getline(list, entry, ',')) {
    unsigned size = 0, given = 0;
    int read = std::sscanf(entry.c_str(), "%u@%u", &size, &given);
    if (read < 1 || size == 0)
      return false;
    // Natural alignment, up to the 64 bytes of a tensor map.
    unsigned alignment = std::min(size & ~(size - 1), 64u);
    offset =
        read == 2 ? given : (offset + alignment - 1) / alignment * alignment;
    kernel.parameters.push_back({offset, size});
    offset += size;
    kernel.parameterBytes = std::max(kernel.parameterBytes, offset);
  }
  return true;
}

bool readText(const char *text, KernelImage &result, std::string &why) {
  std::istringstream lines(text + sizeof(TextMagic) - 1);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word))
      continue;
    if (word == "arch") {
      words >> result.architecture;
      continue;
    }
    KernelDescription kernel;
    if (word != "kernel" || !(words >> kernel.name)) {
      why = "neither an arch nor a kernel line: " + line;
      return false;
    }
    while (words >> word) {
      size_t equals = word.find('=');
      std::string key = word.substr(0, equals);
      std::string value =
          equals == std::string::npos ? "" : word.substr(equals + 1);
      int *number = key == "registers"     ? &kernel.registers
                    : key == "shared"      ? &kernel.sharedBytes
                    : key == "local"       ? &kernel.localBytes
                    : key == "max_threads" ? &kernel.maxThreads
                                           : nullptr;
      char trailing;
      bool understood =
          number ? std::sscanf(value.c_str(), "%d%c", number, &trailing) == 1
                 : key == "params" && readParameters(value, kernel);
      if (!understood) {
        why = "a word of a kernel line that is not understood: " + word;
        return false;
      }
    }
    result.kernels.push_back(kernel);
  }
  return true;
}

} // namespace

bool readKernelImage(const void *image, KernelImage &result, std::string &why) {
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0)
    return Cubin(static_cast<const unsigned char *>(image), result, why).read();
  if (std::strncmp(static_cast<const char *>(image), TextMagic,
                   sizeof(TextMagic) - 1) == 0)
    return readText(static_cast<const char *>(image), result, why);
  why = "neither an ELF file nor a simulated kernel";
  return false;
}

} // namespace flagtree::simulator
