// Reads what a launch needs to know out of a binary: the names of its kernels,
// the size and offset of every parameter, registers, shared and local memory.
//
// Two forms are read: a cubin (an ELF file, as ptxas writes it), and a text for
// tests that need no compiler:
//
//     flagtree-simulated-kernel 1
//     arch 80
//     kernel add registers=32 shared=0 local=0 max_threads=1024 params=8,8,4
//
// with one `kernel` line per kernel; every word after the name may be left out.
// Parameters follow each other at their natural alignment, or at the offset
// given as SIZE@OFFSET.

#ifndef FLAGTREE_SIMULATOR_KERNELIMAGE_H
#define FLAGTREE_SIMULATOR_KERNELIMAGE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace flagtree::simulator {

struct KernelParameter {
  unsigned offset; ///< bytes, in the parameter buffer
  unsigned size;   ///< bytes
};

struct KernelDescription {
  std::string name;
  std::vector<KernelParameter> parameters; ///< by ordinal
  unsigned parameterBytes = 0;
  int registers = 0;
  int sharedBytes = 0; ///< static
  int localBytes = 0;
  int maxThreads = 1024;
};

struct KernelImage {
  int architecture = 0; ///< 80 is sm_80; 0: not said
  std::vector<KernelDescription> kernels;
};

/// Reads an image that is not preceded by its size, as cuModuleLoadData gets
/// it. False: not an image of either form, or a damaged one; why says which.
bool readKernelImage(const void *image, KernelImage &result, std::string &why);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_KERNELIMAGE_H
