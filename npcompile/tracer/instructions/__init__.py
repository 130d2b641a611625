"""What each CPython instruction does to a symbolic frame. Versions differ by rows: one handler serves all its names."""

from npcompile.tracer.instructions import blocks, classes, containers, functions, jumps, operations, variables

assert blocks and classes and containers and functions and jumps and operations and variables  # they register their handlers
