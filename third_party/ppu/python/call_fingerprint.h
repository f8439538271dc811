//===- call_fingerprint.h - What a kernel call specializes on ---*- C++ -*-===//
//
// Triton compiles a kernel anew for each combination of argument types, integer
// properties, constexpr values and options. A fingerprint is what of a call can
// decide that, in a few machine words: two calls of one function with the same
// fingerprint run the same compiled kernel.
//
// The contract is one-sided. Different fingerprints may well mean the same
// kernel. Equal ones never mean different kernels, so whatever Triton might
// look at either is in the words or makes the call have no fingerprint at all;
// then the caller takes Triton's own way. That Triton's specialization follows
// from the fingerprint is tested against Triton itself.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_CALL_FINGERPRINT_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_CALL_FINGERPRINT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python_reference.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace flagtree::python {

/// Creates the interned names used here. Called once, at import.
bool initFingerprint();

/// One parameter of a function, as its signature has it.
struct FunctionParameter {
  /// An interned str.
  Reference Name;
  /// Null if there is none.
  Reference Default;
  bool IsConstexpr = false;
};

/// The arguments of one call, in the order of the parameters. Borrowed.
class BoundArguments {
public:
  static constexpr size_t Capacity = 128;

  /// Binds positional and keyword arguments as Python would. Keywords that are
  /// no parameter are options. False, without an exception, where that cannot
  /// be done here: a missing, surplus or doubled argument, or too many.
  bool bind(const std::vector<FunctionParameter> &Parameters,
            PyObject *const *Args, size_t NumPositional,
            PyObject *KeywordNames);

  /// Makes it as new. What is left in the arrays is never read.
  void clear() { Count = NumOptions = 0; }

  size_t size() const { return Count; }
  PyObject *operator[](size_t I) const { return Values[I]; }
  PyObject *const *data() const { return Values; }

  size_t numOptions() const { return NumOptions; }
  PyObject *optionName(size_t I) const { return OptionNames[I]; }
  PyObject *optionValue(size_t I) const { return OptionValues[I]; }

private:
  static constexpr size_t MaxOptions = 16;

  size_t Count = 0;
  PyObject *Values[Capacity];
  size_t NumOptions = 0;
  PyObject *OptionNames[MaxOptions];
  PyObject *OptionValues[MaxOptions];
};

/// The words, in place.
class Fingerprint {
public:
  static constexpr size_t Capacity = 256;

  /// Takes up the arguments and options. False, without an exception, if the
  /// call has no fingerprint. `ConstantType` is a type whose instances are
  /// immutable and kept alive by whoever keeps the fingerprint (tl.dtype).
  bool addCall(const std::vector<FunctionParameter> &Parameters,
               const BoundArguments &Bound, PyTypeObject *ConstantType);

  /// Takes up a plain constant: None, bool, int, float, str, or an instance of
  /// `ConstantType`. False for anything else.
  bool addConstant(PyObject *Object, PyTypeObject *ConstantType);

  void addWord(uint64_t Word) {
    if (Count < Capacity)
      Words[Count] = Word;
    ++Count;
  }

  void clear() { Count = 0; }

  bool overflowed() const { return Count > Capacity; }
  const uint64_t *data() const { return Words; }
  size_t size() const { return Count; }

  bool operator==(const std::vector<uint64_t> &Other) const {
    return Other.size() == Count &&
           std::memcmp(Words, Other.data(), Count * sizeof(uint64_t)) == 0;
  }

  uint64_t hash() const;

private:
  bool addArgument(PyObject *Object);
  bool addText(PyObject *Text);

  size_t Count = 0;
  uint64_t Words[Capacity];
};

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_CALL_FINGERPRINT_H
