"""Random arithmetic, casts and views of every dtype in compiled programs, with what they warn of.

`python -m tests.shim.dtype_programs 5000` runs many.
"""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.random_programs import check_examples
from tests.shim.dtype_programs import check_function, check_program, draw_program

EXAMPLES = {"eager": 250, "cpu": 20}


@pytest.mark.parametrize("backend", EXAMPLES)
def test_dtype_programs(backend: str) -> None:
    check_examples(draw_program, check_program, backend, EXAMPLES[backend])


def test_two_integers_of_64_bits() -> None:
    """C's long and long long are equal as dtypes, and have scalars of two types."""

    def program(x, y):
        return x ^ y

    compiled = npc.compile(program, backend="eager")
    for kind in (np.int64, np.longlong, np.int64):
        assert type(compiled(kind(2), 7)) is type(program(kind(2), 7))


def scaled_by_too_much(x):
    return x * 1e40


def compared_with_too_much(x):
    return x < 2**63


def scaled_quietly(x):
    with np.errstate(over="ignore"):
        return x * 1e40


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (scaled_by_too_much, np.ones(2, "f4")),
        (scaled_by_too_much, np.ones(0, "f4")),
        (compared_with_too_much, np.float16(1)),
        (scaled_quietly, np.ones(2, "f4")),
    ],
)
def test_python_numbers_that_overflow_warn(function, x) -> None:
    """As they are converted to the dtype of the array beside them, whatever that holds."""
    check_function(function, {"x": x}, "eager")
