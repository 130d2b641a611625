"""The CUDA text of a program."""

from __future__ import annotations

from npcompile.backends.cuda.loop_ir.target import CUDA
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.exits import Ways
from npcompile.backends.loop_ir.statements import print_function
from npcompile.tensor_core.loop_ir.ops import Program


def cuda_source(program: Program) -> tuple[str, Ways]:
    """A translation unit with the kernel `npc_loop`, and its ways out. Raises Unsupported with the user's line."""
    lines, ways = print_function(program, CUDA)
    return unit(lines), ways
