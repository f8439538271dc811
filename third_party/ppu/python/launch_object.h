//===- launch_object.h - A kernel's launcher as a Python object -*- C++ -*-===//
//
// `KernelLauncher`, the callable that Triton's CompiledKernel launches through:
//
//   launcher(grid_x, grid_y, grid_z, stream, function, packed_metadata,
//            launch_metadata, enter_hook, exit_hook, *arguments)
//
// It is called by vectorcall, and a launch without hooks and without scratch
// runs no Python code and makes no Python object.
//
// Contract:
//  - The order within a launch: scratch is allocated, arguments are converted,
//    the enter hook runs, the kernel is launched, the exit hook runs. A fault
//    before the enter hook runs neither; a hook or a launch that fails keeps
//    the exit hook from running, as Triton has it.
//  - A grid with an empty axis runs the hooks and nothing else.
//  - The GIL is released around the driver's launch call and only there.
//  - A launcher is immutable but for the metadata it remembers, which it reads
//    and writes under the GIL; any number of threads may call one.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_THIRD_PARTY_PPU_PYTHON_LAUNCH_OBJECT_H
#define FLAGTREE_THIRD_PARTY_PPU_PYTHON_LAUNCH_OBJECT_H

#include "launch_arguments.h"

namespace flagtree::python {

/// A kind of scratch memory that a kernel asks for at every launch.
struct ScratchRequest {
  /// Bytes per block, 0 for none, and their alignment.
  int64_t Size = 0;
  int64_t Alignment = 1;
  /// An object whose get() answers allocate(size, alignment, stream).
  PyObject *Allocator = nullptr;
};

/// What a launcher is made of.
struct LauncherConfig {
  explicit LauncherConfig(LaunchPlan Plan) : Plan(std::move(Plan)) {}

  LaunchPlan Plan;
  std::vector<DescriptorEncoding> Encodings;
  /// The kernel's name, a str.
  PyObject *KernelName = nullptr;
  unsigned NumCTAs = 1;
  bool Cooperative = false;
  bool ProgrammaticDependentLaunch = false;
  ScratchRequest GlobalScratch;
  ScratchRequest ProfileScratch;
};

/// What launchers need from Python. All may be null until set.
struct LaunchEnvironment {
  /// Called where the driver turns out not to be usable: makes it so, or raises
  /// what says why it cannot be.
  PyObject *EnsureUsable = nullptr;
  /// Answers the device ordinal for a thread without a context.
  PyObject *CurrentDevice = nullptr;
  /// The hook type whose empty `calls` list means that there is no hook.
  PyTypeObject *HookChain = nullptr;
};

/// The process's environment; written under the GIL.
LaunchEnvironment &launchEnvironment();

/// Creates the type and adds it to `Module` as KernelLauncher. Called once.
bool initLauncherType(PyObject *Module);

/// A new launcher, which takes references of its own to the objects in
/// `Config`; null with an exception set on failure.
PyObject *newLauncher(std::unique_ptr<LauncherConfig> Config);

/// Whether `Object` is a launcher made by newLauncher().
bool isLauncher(PyObject *Object);

/// Whether calling `Hook` would do nothing: None, or a chain without calls. -1
/// with an exception set if that cannot be told.
int isEmptyHook(PyObject *Hook);

/// The driver's entry points, after EnsureUsable() where no driver is mapped
/// yet or the driver does not answer as one that is live; null with an
/// exception set on failure.
const EntryPoints *usableDriver();

} // namespace flagtree::python

#endif // FLAGTREE_THIRD_PARTY_PPU_PYTHON_LAUNCH_OBJECT_H
