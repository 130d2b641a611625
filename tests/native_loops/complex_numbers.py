"""Random loops over complex numbers: `python -m tests.native_loops.complex_numbers 1000 --seed 3 --backend cpu`."""

from __future__ import annotations

import sys

import npcompile as npc
from tests.native_loops.agreement import agree
from tests.native_loops.generate import LoopProgram
from tests.native_loops.generate import draw_program as draw_loops
from tests.random_programs import Draw, run_many


def draw_program(draw: Draw) -> LoopProgram:
    return draw_loops(draw, is_complex=True)


def check_native(program: LoopProgram, backend: str) -> None:
    """As `check`, where native loops are why a program differs: graphs multiply scalars as arrays, rounded once."""
    try:
        agree(program, backend)
    except AssertionError as error:
        with npc.config.patch(native_loops=False):
            try:
                agree(program, backend)
            except AssertionError:
                return
        raise AssertionError(f"native: {error}") from error


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.complex_numbers", __doc__, draw_program, check_native))
