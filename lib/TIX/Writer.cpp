//===- Writer.cpp - Rewrites a module line by line ------------------------===//

#include "flagtree/TIX/Writer.h"
#include "flagtree/TIX/Assembly.h"
#include "flagtree/TIX/DebugInfo.h"
#include "flagtree/TIX/Encodings.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_set>

namespace flagtree::tix {
namespace {

/// More than this many diagnostics help nobody, and would take memory without
/// bound.
constexpr size_t MostDiagnostics = 64;
/// Metadata is numbered with 32 bits in LLVM; some are left for our own nodes.
constexpr uint64_t LargestMetadata = 0x7fffffff;
constexpr std::string_view ReflectFlag = "nvvm-reflect-ftz";
constexpr std::string_view ThreadsAttribute = "nvvm.reqntid";
constexpr std::string_view ThreadsAnnotation = "reqntidx";
constexpr std::string_view SharedAnnotation = "smemsize";
constexpr std::string_view FlagsName = "llvm.module.flags";
constexpr std::string_view AnnotationsName = "nvvm.annotations";

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
/// Characters of LLVM's unquoted names and words.
bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || isDigit(c) ||
         c == '_' || c == '.' || c == '$' || c == '-';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && isSpace(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isSpace(text.back()))
    text.remove_suffix(1);
  return text;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

struct Token {
  enum Kind {
    None,
    Word,     // call, i32, 12
    Sigil,    // @name %name !name #0, sigil included, quotes kept
    String,   // without the quotes
    Character // any other
  } kind = None;
  std::string_view text;
  size_t start = 0;
  size_t end = 0;
};

/// Cuts one line of LLVM IR into tokens; a comment ends it.
class Lexer {
public:
  explicit Lexer(std::string_view line) : line(line) {}

  Token next() {
    while (position < line.size() && isSpace(line[position]))
      ++position;
    Token token;
    token.start = position;
    if (position >= line.size() || line[position] == ';') {
      token.end = position;
      return token;
    }
    char c = line[position];
    if (c == '"') {
      size_t close = closing(position);
      token.kind = Token::String;
      token.text = line.substr(position + 1, close - position - 1);
      position = std::min(close + 1, line.size());
    } else if (c == '@' || c == '%' || c == '!' || c == '#' || c == '$') {
      token.kind = Token::Sigil;
      size_t from = position++;
      if (position < line.size() && line[position] == '"')
        position = std::min(closing(position) + 1, line.size());
      else
        while (position < line.size() && isNameCharacter(line[position]))
          ++position;
      token.text = line.substr(from, position - from);
    } else if (isNameCharacter(c)) {
      token.kind = Token::Word;
      size_t from = position;
      while (position < line.size() && isNameCharacter(line[position]))
        ++position;
      token.text = line.substr(from, position - from);
    } else {
      token.kind = Token::Character;
      token.text = line.substr(position++, 1);
    }
    token.end = position;
    return token;
  }

private:
  size_t closing(size_t open) const {
    return std::min(line.find('"', open + 1), line.size());
  }

  std::string_view line;
  size_t position = 0;
};

/// The name of a `@name` or `@"name"` token, as written.
std::string_view bareName(std::string_view sigil) {
  std::string_view name = sigil.substr(1);
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  return name;
}

struct Attribute {
  std::string name;
  std::string value;
};

struct Kernel {
  /// The name as written, `@` and quotes included.
  std::string name;
  unsigned irLine = 0;
  std::optional<uint64_t> debug;
  std::vector<uint64_t> groups;
  std::vector<Attribute> attributes;
};

struct Pending {
  Diagnostic diagnostic;
  std::optional<uint64_t> debug;
};

} // namespace

class Writer::Implementation {
public:
  Implementation(const Options &options, Sink sink)
      : options(options), sink(std::move(sink)) {}

  void feed(std::string_view piece) {
    buffer.append(piece);
    size_t lineStart = 0;
    for (; scanned < buffer.size(); ++scanned) {
      char c = buffer[scanned];
      if (inString) {
        inString = c != '"';
        continue;
      }
      if (c == '"' && !inComment)
        inString = true;
      else if (c == ';')
        inComment = true;
      else if (c == '\n') {
        inComment = false;
        std::string_view all = buffer;
        processLine(all.substr(lineStart, scanned + 1 - lineStart));
        lineStart = scanned + 1;
      }
    }
    if (lineStart != 0) {
      buffer.erase(0, lineStart);
      scanned -= lineStart;
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Kernel &seen : kernels)
      result.emplace_back(bareName(seen.name));
    return result;
  }

  std::vector<Diagnostic> finish() {
    if (inString)
      report(DiagnosticKind::Malformed, "string", "has no closing '\"'", {},
             lineNumber);
    else if (!buffer.empty()) {
      buffer.push_back('\n');
      processLine(buffer);
    }
    if (assembly != AssemblyState::None)
      report(DiagnosticKind::Malformed, "asm",
             "is not followed by a template and its constraints", {},
             lineNumber);
    if (define != DefineState::None)
      report(DiagnosticKind::Malformed, "define " + kernel.name, "has no body",
             {}, kernel.irLine);
    checkKernels();
    if (options.direction == Direction::ToTIX)
      finishTIX();
    else
      finishCUDA();
    // Makes sure that what was written up to the first diagnostic, even if that
    // came last, is no module: this line begins like nothing in LLVM's grammar.
    if (!pending.empty())
      sink("<refused by the TIX writer>\n");
    std::vector<Diagnostic> result;
    for (Pending &entry : pending) {
      if (entry.debug)
        entry.diagnostic.source = debugInfo.locate(*entry.debug);
      result.push_back(std::move(entry.diagnostic));
    }
    return result;
  }

private:
  enum class AssemblyState { None, WantTemplate, WantConstraints };
  enum class DefineState { None, BeforeName, AfterName };

  bool toTIX() const { return options.direction == Direction::ToTIX; }

  void emit(std::string_view text) {
    if (pending.empty())
      sink(text);
  }

  void report(DiagnosticKind kind, std::string name, std::string_view reason,
              std::optional<uint64_t> debug, unsigned line) {
    if (pending.size() >= MostDiagnostics)
      return;
    Pending entry;
    entry.diagnostic.kind = kind;
    entry.diagnostic.name = std::move(name);
    entry.diagnostic.reason = std::string(reason);
    entry.diagnostic.irLine = line;
    entry.debug = debug;
    pending.push_back(std::move(entry));
  }

  void refuse(std::string_view name, std::string_view reason) {
    if (!reason.empty())
      report(DiagnosticKind::Refused, std::string(name), reason, {},
             lineNumber);
  }

  void processLine(std::string_view line) {
    std::string_view text = trim(line);
    bool plain = text.empty() || text.front() == ';';
    bool top = define == DefineState::None && assembly == AssemblyState::None;
    if (plain) {
      emit(line);
    } else if (top && line.front() == '!') {
      metadataLine(line);
    } else {
      Token first = Lexer(line).next();
      if (top && first.text == "target")
        targetLine(line);
      else if (top && first.text == "source_filename")
        emit(line);
      else
        codeLine(line, first);
    }
    lineNumber +=
        static_cast<unsigned>(std::count(line.begin(), line.end(), '\n'));
  }

  //===--- Head of the module ---===//

  std::string_view newLayout() const {
    return toTIX() ? PPUDataLayout : CUDADataLayout;
  }

  void writeLayout() {
    if (layoutWritten)
      return;
    layoutWritten = true;
    emit("target datalayout = \"");
    emit(newLayout());
    emit("\"\n");
  }

  void targetLine(std::string_view line) {
    Lexer lexer(line);
    lexer.next();
    Token what = lexer.next();
    lexer.next(); // =
    Token value = lexer.next();
    if (what.text == "triple")
      return; // the PPU's IR sets none
    if (what.text != "datalayout" || value.kind != Token::String) {
      report(DiagnosticKind::Malformed, std::string(trim(line)),
             "is neither a data layout nor a triple", {}, lineNumber);
      return;
    }
    if (toTIX()) {
      bool shortShared = value.text.find("-p3:32:32") != std::string_view::npos;
      bool longGeneric = value.text.find("-p:32") == std::string_view::npos;
      if (value.text.substr(0, 2) != "e-" || !shortShared || !longGeneric)
        report(DiagnosticKind::Malformed, "target datalayout",
               "is not that of 64-bit CUDA code with 32-bit shared-memory "
               "pointers (p3:32:32), which the PPU's is",
               {}, lineNumber);
    } else if (value.text != PPUDataLayout) {
      report(DiagnosticKind::Malformed, "target datalayout",
             "is not the PPU's, so there is nothing to undo", {}, lineNumber);
    }
    if (layoutWritten) {
      report(DiagnosticKind::Malformed, "target datalayout",
             "comes twice or after the first definition", {}, lineNumber);
      return;
    }
    writeLayout();
  }

  //===--- Code, globals and attributes ---===//

  void codeLine(std::string_view line, const Token &first) {
    writeLayout();
    if (first.text == "attributes" && define == DefineState::None) {
      attributeLine(line);
      emit(line);
      return;
    }
    bool isDeclaration = first.text == "declare";
    size_t firstPending = pending.size();
    std::optional<uint64_t> debug;
    std::string rewritten;
    size_t copied = 0;
    bool inModuleAssembly = first.text == "module";
    Lexer lexer(line);
    for (Token token = lexer.next(); token.kind != Token::None;
         token = lexer.next()) {
      if (token.kind == Token::String) {
        if (assembly == AssemblyState::WantTemplate) {
          rewritten.append(line.substr(copied, token.start + 1 - copied));
          rewriteTemplate(token.text, rewritten);
          copied = token.start + 1 + token.text.size();
          assembly = AssemblyState::WantConstraints;
        } else if (assembly == AssemblyState::WantConstraints) {
          checkConstraints(token.text);
          assembly = AssemblyState::None;
        } else if (define != DefineState::None) {
          defineString(token.text, lexer);
        }
      } else if (token.kind == Token::Sigil) {
        if (token.text.front() == '@' && !isDeclaration)
          refuse(token.text, refusalOfFunction(bareName(token.text)));
        if (token.text == "!dbg") {
          Token node = lexer.next();
          if (node.kind == Token::Sigil && node.text.front() == '!')
            debug = number(node.text.substr(1));
        }
        defineSigil(token.text);
      } else if (token.kind == Token::Word) {
        if (token.text == "asm") {
          if (inModuleAssembly)
            refuse("module asm", "assembly outside of a function has no "
                                 "publicly known PPU counterpart");
          else if (line.substr(token.end, 1) != ":")
            assembly = AssemblyState::WantTemplate;
        } else if (token.text == "addrspace") {
          addressSpace(line.substr(token.end));
        }
        defineWord(token, first);
      } else {
        defineCharacter(token.text.front());
      }
    }
    for (size_t i = firstPending; i < pending.size(); ++i)
      pending[i].debug = debug;
    if (debug && lineDefines)
      kernel.debug = debug;
    if (lineDefines && define == DefineState::None)
      endDefine();
    if (copied == 0) {
      emit(line);
    } else {
      rewritten.append(line.substr(copied));
      emit(rewritten);
    }
  }

  void rewriteTemplate(std::string_view text, std::string &out) {
    PrefixAction action = PrefixAction::Keep;
    if (options.dialect == Dialect::SDK21)
      action = toTIX() ? PrefixAction::Add : PrefixAction::Remove;
    for (Diagnostic &diagnostic : rewriteAssembly(text, action, out))
      report(diagnostic.kind, std::move(diagnostic.name), diagnostic.reason, {},
             lineNumber);
  }

  void checkConstraints(std::string_view text) {
    while (!text.empty()) {
      size_t comma = std::min(text.find(','), text.size());
      std::string_view item = text.substr(0, comma);
      std::string_view reason = refusalOfConstraint(item);
      if (!reason.empty())
        refuse("constraint '" + std::string(item) + "'", reason);
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }

  void addressSpace(std::string_view rest) {
    Lexer lexer(rest);
    if (lexer.next().text != "(")
      return;
    Token value = lexer.next();
    auto space = number(value.text);
    if (!space || *space > 0xffffff)
      return; // a symbolic address space, which only a layout's strings define
    refuse("addrspace(" + std::string(value.text) + ")",
           refusalOfAddressSpace(static_cast<unsigned>(*space)));
  }

  //===--- Kernels ---===//

  void defineWord(const Token &token, const Token &first) {
    if (token.text == "define" && token.start == first.start &&
        define == DefineState::None) {
      define = DefineState::BeforeName;
      lineDefines = true;
      isKernel = false;
      depth = 0;
      kernel = Kernel();
      kernel.irLine = lineNumber;
    } else if (define == DefineState::BeforeName &&
               token.text == "ptx_kernel") {
      isKernel = true;
    }
  }

  void defineSigil(std::string_view text) {
    if (define == DefineState::BeforeName && text.front() == '@') {
      kernel.name = std::string(text);
      define = DefineState::AfterName;
    } else if (define == DefineState::AfterName && text.front() == '#') {
      if (auto group = number(text.substr(1)))
        kernel.groups.push_back(*group);
    }
  }

  void defineString(std::string_view name, Lexer &lexer) {
    Lexer ahead = lexer;
    std::string value;
    if (ahead.next().text == "=") {
      Token token = ahead.next();
      if (token.kind == Token::String) {
        value = std::string(token.text);
        lexer = ahead;
      }
    }
    if (name.substr(0, 5) == "nvvm.")
      kernel.attributes.push_back({std::string(name), std::move(value)});
  }

  void defineCharacter(char c) {
    if (define != DefineState::AfterName)
      return;
    if (c == '(')
      ++depth;
    else if (c == ')')
      depth -= depth > 0;
    else if (c == '{' && depth == 0)
      define = DefineState::None;
  }

  void endDefine() {
    lineDefines = false;
    if (isKernel)
      kernels.push_back(std::move(kernel));
    kernel = Kernel();
  }

  void attributeLine(std::string_view line) {
    if (line.find("\"nvvm.") == std::string_view::npos)
      return;
    Lexer lexer(line);
    lexer.next();
    Token group = lexer.next();
    std::optional<uint64_t> id;
    if (group.kind == Token::Sigil)
      id = number(group.text.substr(1));
    if (!id)
      return;
    std::vector<Attribute> &list = groups[*id];
    for (Token token = lexer.next(); token.kind != Token::None;
         token = lexer.next()) {
      if (token.kind != Token::String || token.text.substr(0, 5) != "nvvm.")
        continue;
      Attribute attribute{std::string(token.text), {}};
      Lexer ahead = lexer;
      if (ahead.next().text == "=")
        attribute.value = std::string(ahead.next().text);
      list.push_back(std::move(attribute));
    }
  }

  /// Gathers each kernel's attributes and refuses what has no counterpart. Runs
  /// before the debug information, which the diagnostics need, goes by.
  void checkKernels() {
    for (; checkedKernels < kernels.size(); ++checkedKernels) {
      Kernel &checked = kernels[checkedKernels];
      for (uint64_t id : checked.groups)
        if (auto found = groups.find(id); found != groups.end())
          checked.attributes.insert(checked.attributes.end(),
                                    found->second.begin(), found->second.end());
      if (!toTIX())
        continue;
      for (const Attribute &attribute : checked.attributes) {
        std::string_view reason = refusalOfAttribute(attribute.name);
        if (!reason.empty())
          report(DiagnosticKind::Refused,
                 "attribute '" + attribute.name + "' of " + checked.name,
                 reason, checked.debug, checked.irLine);
      }
    }
  }

  /// Threads per block of a kernel; reports where they are not known.
  uint64_t threadsOf(const Kernel &wanted) {
    auto complain = [&](std::string_view reason) {
      report(DiagnosticKind::Malformed, "kernel " + wanted.name, reason,
             wanted.debug, wanted.irLine);
      return uint64_t(0);
    };
    std::optional<uint64_t> threads;
    for (const Attribute &attribute : wanted.attributes) {
      if (attribute.name != ThreadsAttribute)
        continue;
      std::string_view value = attribute.value;
      size_t comma = std::min(value.find(','), value.size());
      threads = number(trim(value.substr(0, comma)));
      std::string_view others = value.substr(comma);
      if (!threads || *threads == 0 || *threads > 1024)
        return complain("'nvvm.reqntid' is not a number of threads from 1 to "
                        "1024");
      if (!others.empty() && others != ",1" && others != ",1,1")
        return complain("'nvvm.reqntid' asks for a block of two or three "
                        "dimensions, for which no annotation is known");
    }
    if (!threads && !options.threads)
      return complain("threads per block are not known: the IR has no "
                      "'nvvm.reqntid' and none were given");
    if (threads && options.threads && *threads != *options.threads)
      return complain("'nvvm.reqntid' differs from the threads per block that "
                      "were given");
    return threads ? *threads : *options.threads;
  }

  //===--- Metadata ---===//

  void metadataLine(std::string_view line) {
    writeLayout();
    size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      emit(line);
      return;
    }
    std::string_view name = trim(line.substr(1, equals - 1));
    std::string_view value = trim(line.substr(equals + 1));
    if (auto id = number(name)) {
      numberedNode(*id, value, line);
    } else if (name == FlagsName || name == AnnotationsName) {
      // Held back to the end, where it is known what they must name.
      namedNode(name == FlagsName ? flags : annotations, name, value);
    } else {
      emit(line);
    }
  }

  void numberedNode(uint64_t id, std::string_view value,
                    std::string_view line) {
    checkKernels();
    if (id > LargestMetadata) {
      report(DiagnosticKind::Malformed, "!" + std::to_string(id),
             "is beyond the numbers LLVM gives to metadata", {}, lineNumber);
      return;
    }
    nextMetadata = std::max(nextMetadata, id + 1);
    if (!pending.empty())
      debugInfo.add(id, value);
    hasReflectFlag |= hasString(value, ReflectFlag);
    if (value.substr(0, 7) == "!{ptr @" &&
        (hasString(value, ThreadsAnnotation) ||
         hasString(value, SharedAnnotation))) {
      if (toTIX())
        report(DiagnosticKind::Malformed, "!" + std::to_string(id),
               "annotates a kernel for the PPU already", {}, lineNumber);
      else
        removed.insert("!" + std::to_string(id));
      return;
    }
    emit(line);
  }

  /// Whether `!"string"` is an element of the node.
  static bool hasString(std::string_view node, std::string_view string) {
    size_t found = node.find(string);
    while (found != std::string_view::npos) {
      bool opens = found >= 2 && node.substr(found - 2, 2) == "!\"";
      if (opens && node.substr(found + string.size(), 1) == "\"")
        return true;
      found = node.find(string, found + 1);
    }
    return false;
  }

  void namedNode(std::vector<std::string> &elements, std::string_view name,
                 std::string_view value) {
    bool braced =
        value.size() >= 3 && value.substr(0, 2) == "!{" && value.back() == '}';
    if (!braced) {
      report(DiagnosticKind::Malformed, "!" + std::string(name),
             "is not a list of nodes on one line", {}, lineNumber);
      return;
    }
    value = value.substr(2, value.size() - 3);
    while (!trim(value).empty()) {
      size_t comma = std::min(value.find(','), value.size());
      elements.emplace_back(trim(value.substr(0, comma)));
      value.remove_prefix(std::min(comma + 1, value.size()));
    }
  }

  void writeNamed(std::string_view name,
                  const std::vector<std::string> &elements) {
    if (elements.empty())
      return;
    std::string line = "!" + std::string(name) + " = !{";
    for (size_t i = 0; i < elements.size(); ++i)
      line += (i == 0 ? "" : ", ") + elements[i];
    emit(line + "}\n");
  }

  void finishTIX() {
    if (kernels.empty() && pending.empty())
      report(DiagnosticKind::Malformed, "module",
             "has no kernel (a function with the calling convention "
             "'ptx_kernel')",
             {}, lineNumber);
    std::string nodes;
    auto add = [&](std::vector<std::string> &list, std::string body) {
      std::string id = "!" + std::to_string(nextMetadata++);
      list.push_back(id);
      nodes += id + " = !{" + std::move(body) + "}\n";
    };
    if (!hasReflectFlag) {
      // 4: the value replaces that of a module linked to this one.
      add(flags, "i32 4, !\"" + std::string(ReflectFlag) + "\", i32 0");
    }
    for (const Kernel &annotated : kernels) {
      std::string head = "ptr " + annotated.name + ", !\"";
      add(annotations, head + std::string(ThreadsAnnotation) + "\", i32 " +
                           std::to_string(threadsOf(annotated)));
      add(annotations, head + std::string(SharedAnnotation) + "\", i32 " +
                           std::to_string(options.sharedBytes));
    }
    writeNamed(FlagsName, flags);
    writeNamed(AnnotationsName, annotations);
    emit(nodes);
  }

  void finishCUDA() {
    auto isRemoved = [&](const std::string &element) {
      return removed.count(element) != 0;
    };
    annotations.erase(
        std::remove_if(annotations.begin(), annotations.end(), isRemoved),
        annotations.end());
    writeNamed(FlagsName, flags);
    writeNamed(AnnotationsName, annotations);
  }

  const Options options;
  const Sink sink;

  // Cutting the input into lines; a line's end inside a string does not count.
  std::string buffer;
  size_t scanned = 0;
  bool inString = false;
  bool inComment = false;
  unsigned lineNumber = 1;

  // What may go on over the end of a line.
  AssemblyState assembly = AssemblyState::None;
  DefineState define = DefineState::None;
  bool lineDefines = false;
  bool isKernel = false;
  unsigned depth = 0;
  Kernel kernel;

  bool layoutWritten = false;
  std::vector<Kernel> kernels;
  size_t checkedKernels = 0;
  std::map<uint64_t, std::vector<Attribute>> groups;

  uint64_t nextMetadata = 0;
  bool hasReflectFlag = false;
  std::vector<std::string> flags;
  std::vector<std::string> annotations;
  std::unordered_set<std::string> removed;

  std::vector<Pending> pending;
  DebugInfo debugInfo;
};

Writer::Writer(const Options &options, Sink sink)
    : implementation(
          std::make_unique<Implementation>(options, std::move(sink))) {}

Writer::~Writer() = default;

void Writer::feed(std::string_view piece) { implementation->feed(piece); }

std::vector<Diagnostic> Writer::finish() { return implementation->finish(); }

std::vector<std::string> Writer::kernels() const {
  return implementation->names();
}

Result convert(std::string_view input, const Options &options) {
  Result result;
  Writer writer(options,
                [&](std::string_view text) { result.text.append(text); });
  writer.feed(input);
  result.diagnostics = writer.finish();
  result.kernels = writer.kernels();
  if (!result.diagnostics.empty())
    result.text.clear();
  return result;
}

} // namespace flagtree::tix
