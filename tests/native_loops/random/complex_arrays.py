"""Random statements over parts of complex arrays: `python -m tests.native_loops.random.complex_arrays 1000 --backend cpu`."""

from __future__ import annotations

import sys

from tests.native_loops.random.array_statements import ArrayWriter, draw_program
from tests.native_loops.random.complex_numbers import check_native
from tests.native_loops.random.generate import LoopProgram
from tests.random_programs import Draw, run_many


class ComplexWriter(ArrayWriter):
    operators = ("+", "-", "*", "+", "-", "*", "/", "==")
    functions = ("np.conj", "-", "np.square", "np.real", "np.imag", "np.flip", "shifted")
    extremes = ("np.add", "np.multiply")
    reductions = ("any", "all")
    comparison, whole = "!=", "M[:, 1].real"


def draw_complex(draw: Draw) -> LoopProgram:
    return draw_program(draw, ComplexWriter, ("c16", "c16", "c8", "f8"))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.complex_arrays", __doc__, draw_complex, check_native))
