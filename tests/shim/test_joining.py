"""concatenate, stack and their kin: dtype, casting, memory order, out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shim.harness import check
from tests.shim.layouts import CUBE, LAYOUTS, MATRIX, VECTOR

layouts = st.sampled_from(sorted(LAYOUTS))
CASTINGS = ["no", "equiv", "safe", "same_kind", "unsafe"]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(layouts, layouts, st.one_of(st.none(), st.integers(-3, 2)), st.integers(1, 3))
def test_concatenate(first: str, second: str, axis: Any, count: int) -> None:
    a, b = LAYOUTS[first], LAYOUTS[second]
    for parts in ((a, b), [b] * count, (a, b, a), (a, a[..., ::-1] if np.ndim(a) else a)):
        check(np.concatenate, parts, axis)
        check(np.stack, parts, 0 if axis is None else axis)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(layouts, layouts)
def test_stacks(first: str, second: str) -> None:
    a, b = LAYOUTS[first], LAYOUTS[second]
    for function in (np.hstack, np.vstack, np.dstack, np.column_stack):
        check(function, (a, b))
        check(function, [b])
        check(function, [a, a, [1, 2, 3]])
        check(function, [1, a])


@pytest.mark.parametrize("casting", CASTINGS)
@pytest.mark.parametrize("dtype", [None, "f4", "f8", "i8", "c16", "?"])
def test_casting(dtype: Any, casting: str) -> None:
    for parts in ((MATRIX, MATRIX), (MATRIX, MATRIX.astype("f4")), (MATRIX > 0, MATRIX > 1), (MATRIX, np.ones((1, 4), "i8"))):
        check(np.concatenate, parts, dtype=dtype, casting=casting)
        check(np.stack, parts, dtype=dtype, casting=casting)
        check(np.vstack, parts, dtype=dtype, casting=casting)


@pytest.mark.parametrize(
    "out", [np.zeros((6, 4)), np.zeros((6, 4), "f4"), np.zeros((6, 4), "i8"), np.zeros((4, 6)).T, np.zeros((5, 4))]
)
def test_out(out: np.ndarray) -> None:
    check(np.concatenate, (MATRIX, MATRIX), out=out)
    check(np.concatenate, (MATRIX, MATRIX), 0, out, casting="unsafe")
    check(np.stack, (CUBE[0], CUBE[1]), out=out.reshape(2, 3, 4) if out.shape == (6, 4) else out)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_rows_of_an_array(layout: str) -> None:
    x = LAYOUTS[layout]
    for function in (np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack):
        check(function, x)
    check(np.concatenate, x, -1)
    check(np.stack, x, 1)


def test_refused() -> None:
    for parts in ([], [np.float64(1), np.float64(2)], [VECTOR, MATRIX], [MATRIX, MATRIX.T]):
        assert not check(np.concatenate, parts, must_capture=False)
    assert not check(np.concatenate, [MATRIX, MATRIX], 2, must_capture=False)
    assert not check(np.stack, [VECTOR, VECTOR[1:]], must_capture=False)
