"""Random arithmetic, casts and views of every dtype in compiled programs, with what they warn of.

`python -m tests.shim.dtype_programs 5000` runs many.
"""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.random_programs import check_examples
from tests.shim.dtype_programs import check_function, check_program, draw_program
from tests.shim.index_programs import Program, settled
from tests.tracer.harness import compare_any

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


@pytest.mark.parametrize("other", "qlQL")
@pytest.mark.parametrize("own", "qld")
@pytest.mark.parametrize("backend", EXAMPLES)
def test_results_have_the_integer_type_that_numpy_gives(backend: str, own: str, other: str) -> None:
    def casts(x):
        return x.astype("l"), x.astype("q"), (x / 2).astype(other), x.astype(other)[0], np.array([x[0], x[1]], other)

    def sums(x):
        return np.sum(x, dtype=other), np.cumsum(x, dtype=other), x.astype(other).max(), np.take(x.astype(other), 0)

    def nothing_done(x):
        return x.astype(other) + 0, +x.astype(other), np.floor(x.astype(other)), x + np.zeros(3, other)

    def seen(x):
        return x.view(other), x.view(other).sum(), np.int64(x[0]), np.longlong(x[0])

    def converted(x):
        return np.asarray(x, other), np.array(x, other), x.astype(other, copy=False)

    def chars(results):
        return [(type(r), r.dtype.char) for r in results]

    x = np.array([5, 1, 8], own)
    for function in (casts, sums, nothing_done, seen, converted):
        ours, theirs = npc.compile(function, backend=backend)(x), function(x)
        assert chars(ours) == chars(theirs)
        assert all(map(np.array_equal, ours, theirs))


@pytest.mark.parametrize("backend", EXAMPLES)
def test_powers_of_complex_numbers_are_compared_by_size(backend: str) -> None:
    given = {"x": np.array([2**64 - 2, 3], np.uint64), "y": np.complex128(0.5 + 0.5j)}
    check_program(Program("return np.power(x, y), x[0] ** y", given), backend)
    with pytest.raises(AssertionError):
        compare_any(settled(np.ones(2, complex), np.array([1, 1 + 1e-12j])), np.array([1, 1 + 1e-12j]), 4)


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
