//===- ManagementProcess.h - The management library, asked elsewhere -*- C++
//-*-===//
//
// Where this process's copy of a management library cannot be trusted
// (ManagementLibrary.h says when), a program is started that asks a copy of its
// own: `flagtree-device --inventory`. It writes the inventory as text:
//
//   library PATH
//   failure TEXT                            if there is no answer
//   device MAJOR MINOR MIG UUID [PART...]   one per device; MIG is 0 or 1, PART
//                                           the UUID of a MIG device; `-`
//                                           stands for a UUID that is not known
//   end
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DEVICE_MANAGEMENTPROCESS_H
#define FLAGTREE_DEVICE_MANAGEMENTPROCESS_H

#include "flagtree/Device/ManagementLibrary.h"

#include <chrono>
#include <optional>
#include <string>

namespace flagtree {

/// The inventory as the text above.
std::string writeInventory(const Inventory &Written);

/// Reads that text; nothing if it is not whole.
std::optional<Inventory> readInventory(const std::string &Text);

/// Starts Program and reads what it answers. Whatever goes wrong is the
/// Inventory's Failure; the program has ended, or was killed, on return.
Inventory askProgram(const std::string &Program,
                     std::chrono::milliseconds Limit = ManagementProgramLimit);

} // namespace flagtree

#endif // FLAGTREE_DEVICE_MANAGEMENTPROCESS_H
