"""Every benchmark program gives NumPy's answer through the CPU backend, at its smallest size; its declaration holds together."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from benchmarks.programs.answers import difference
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.program import SIZES, Program
from benchmarks.sides import npcompile_side, numpy_side


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Program) -> None:
    case, inputs = program.case("small"), program.arguments("small")
    kept = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    numpy, ours = numpy_side(case, inputs), npcompile_side(case, inputs)
    assert numpy is not None and ours is not None
    expected = numpy()
    for _ in range(2):  # compiled now, and found again
        assert difference(program, expected, ours(), exact=True) is None
    for i, (x, before) in enumerate(zip(inputs, kept)):
        assert np.array_equal(x, before), f"argument {i} was changed, and is not among those that {program.name} changes"


def test_families() -> None:
    assert len(PROGRAMS) >= 40
    for program in PROGRAMS.values():
        assert program.title and len(program.sizes) == len(SIZES)
        assert set(program.versions) <= {"numba", "jax", "torch"}, program.name
        assert len(inspect.signature(program.inputs).parameters) == 1 + len(program.sizes[0]), program.name


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ((np.arange(3.0), np.int64(2)), True),
        ((np.arange(3.0) + 1e-3, np.int64(2)), False),
        ((np.arange(3.0), np.int64(3)), False),
        ((np.arange(3.0), 2), False),
        ((np.arange(3.0, dtype=np.float32), np.int64(2)), False),
        (np.arange(3.0), False),
    ],
)
def test_a_wrong_answer_is_called_wrong(answer: Any, is_right: bool) -> None:
    expected = np.arange(3.0), np.int64(2)
    assert (difference(PROGRAMS["one_op"], expected, answer, exact=True) is None) is is_right


def test_peers_may_round_differently_and_count_a_few_steps_more() -> None:
    counts = np.zeros(10_000, np.int32)
    few, many = counts.copy(), counts.copy()
    few[0], many[:100] = 1, 1
    assert difference(PROGRAMS["mandelbrot"], counts, few, exact=False) is None
    assert difference(PROGRAMS["mandelbrot"], counts, many, exact=False)
    assert difference(PROGRAMS["mandelbrot"], counts, few, exact=True)
