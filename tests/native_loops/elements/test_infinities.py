"""Sums in native loops that meet infinities: what NumPy reports of them depends on its own order of adding."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.test_native_loops import native_loops


def dots(A, x, out):
    for i in range(len(out)):
        out[i] = A[i] @ x


def products(A, x, out):
    for i in range(len(out)):
        out[i] = (A @ x)[i] + i


def sums(A, x, out):
    for i in range(len(out)):
        out[i] = A[i].sum() + i


def rows(A, x, out):
    for i in range(len(out)):
        out[:] = A.sum(axis=1) + i


def outcome(function, *arguments):
    """What is in the last argument, and the warnings, those from NumPy's own Python too."""
    given = [x.copy() for x in arguments]
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        function(*given)
    return given[-1], [str(w.message) for w in met]


@pytest.mark.parametrize("program", [dots, products, sums, rows])
def test_infinities_are_left_to_numpy(program) -> None:
    rng = np.random.default_rng(3)
    compiled = npc.compile(program)
    A, x, out = np.ones((20, 33), "f4"), np.ones(33, "f4"), np.zeros(20, "f4")
    outcome(compiled, A, x, out)
    assert native_loops(compiled)
    for _ in range(40):
        A[...] = rng.integers(1, 3, A.shape)
        A[rng.integers(20), rng.choice(33, 3, replace=False)] = [np.nan, np.inf, rng.choice([np.inf, -np.inf])]
        (theirs, noted), (ours, found) = outcome(program, A, x, out), outcome(compiled, A, x, out)
        assert found == noted
        np.testing.assert_array_equal(ours, theirs)
    A[np.isinf(A)] = 1
    assert not outcome(compiled, A, x, out)[1]
