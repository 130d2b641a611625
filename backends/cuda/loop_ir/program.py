"""The CUDA text of a program."""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.backends.cuda.loop_ir.grid import GridText, print_grid
from npcompile.backends.loop_ir.c_text import unit
from npcompile.tensor_core.loop_ir.grid_loops import use_grid
from npcompile.tensor_core.loop_ir.ops import Policy, Program
from npcompile.tensor_core.loop_ir.pipeline import differentiable
from npcompile.tensor_core.loop_ir.report import Report


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """A translation unit with the kernel `npc_loop`, and what it says of itself."""

    program: Program
    source: str
    text: GridText
    report: Report  # which loops run on the threads of the device, and why others do not


def cuda_program(program: Program) -> CudaProgram:
    """Of a program in blocks that aborts, which is changed in place. Raises Unsupported with the user's line."""
    assert program.policy is Policy.ABORT, program.policy
    differentiable(program)
    report = use_grid(program)
    text = print_grid(program)
    return CudaProgram(program, unit(text.lines), text, report)
