"""FlagTree's PPU backend: driver, compiler, tool chains and hints.

Importing this package does nothing but that; Triton imports `.driver` and `.compiler` when it
discovers its backends.
"""
