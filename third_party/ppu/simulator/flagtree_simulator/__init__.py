"""The simulated driver, from Python.

A ``Simulator`` describes a machine (devices, capability, which libraries exist),
makes the environment variables under which a child process meets it, orders
faults, and reads back the log of every driver call that was made. Nothing here
loads the simulated libraries into this process.
"""

from flagtree_simulator._log import Call, read_log
from flagtree_simulator._simulator import Simulator, find_library_dir

__all__ = ["Call", "Simulator", "find_library_dir", "read_log"]
