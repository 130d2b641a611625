"""Random subscripts, read and written in compiled programs. `python -m tests.shim.index_programs 5000` runs many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.shim.index_programs import Program, check_program, draw_program

EXAMPLES = {"eager": 250, "cpu": 25}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return draw_program(lambda low, high: draw(st.integers(low, high)))


def test_mask_for_all_axes_takes_vectors() -> None:
    x, mask = np.zeros((2, 2)), "np.array([[True, False], [True, True]])"
    for value in (np.ones((1, 3)), np.ones(3)):
        check_program(Program(f"x[{mask}] = v; return x", {"x": x, "v": value}), "eager")


@pytest.mark.parametrize("backend", EXAMPLES)
def test_index_programs(backend: str) -> None:
    @settings(
        max_examples=EXAMPLES[backend],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def agrees(program: Program) -> None:
        check_program(program, backend)

    agrees()
