"""Random loops over complex numbers: `python -m tests.native_loops.random.complex_numbers 1000 --seed 3 --backend cpu`.

What differs without native loops too is passed over: graphs multiply scalars as arrays, rounded once.
"""

from __future__ import annotations

import sys

from tests.native_loops.agreement import check_native
from tests.native_loops.random.generate import LoopProgram
from tests.native_loops.random.generate import draw_program as draw_loops
from tests.random_programs import Draw, run_many


def draw_program(draw: Draw) -> LoopProgram:
    return draw_loops(draw, is_complex=True)


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.complex_numbers", __doc__, draw_program, check_native))
