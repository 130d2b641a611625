"""Random programs: what NumPy does, compiled code does. docs/fuzzing.md tells how to run it for long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backends import BACKENDS
from tests.fuzz.generate import draw_program
from tests.fuzz.outcomes import check_program
from tests.fuzz.programs import Program

EXAMPLES = {"eager": 400, "cpu": 40, "cuda": 30}


@st.composite
def random_programs(draw: Any) -> Program:
    return draw_program(lambda low, high: draw(st.integers(low, high)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_programs(backend: str) -> None:
    @settings(
        max_examples=EXAMPLES[backend],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(random_programs())
    def agrees(program: Program) -> None:
        check_program(program, backend)

    agrees()
