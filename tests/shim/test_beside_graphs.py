"""What NumPy does with Python functions and iterators of its own runs as NumPy: right, and no more than itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import clone, describe, run, same_outcome


def twice(a):
    return a * 2


def larger_first(a, b):
    return a + b if a > b else a - b


TWICE, LARGER_FIRST = np.frompyfunc(twice, 1, 1), np.frompyfunc(larger_first, 2, 1)
VECTORIZED = np.vectorize(larger_first, otypes=[float])
GUESSED = np.vectorize(larger_first)
PAIR = np.vectorize(lambda a, b: (a + b, a - b))
ROWS = np.vectorize(lambda row: row.sum(), signature="(n)->()")


def object_ufunc(x):
    y = np.sin(x) + 1
    z = TWICE(y).astype(float)
    return np.cos(z) * 2


def methods_of_an_object_ufunc(x):
    y = np.sin(x) + 1
    outer = LARGER_FIRST.outer(y[0], y[1]).astype(float)
    return np.cos(outer) + LARGER_FIRST.reduce(y[0]) + LARGER_FIRST.accumulate(y, axis=1)[0, 1] * 2


def object_ufunc_at(x):
    y = (np.sin(x) + 1).astype(object)
    TWICE.at(y, (np.array([0, 0]), np.array([1, 1])))
    return np.cos(y.astype(float)) * 2


def vectorized(x):
    y = np.sin(x) + 1
    z = VECTORIZED(y, 0.5)
    return np.cos(z) * 2


def vectorized_by_first_result(x):
    y = np.sin(x) + 1
    z = GUESSED(y, 0.5)
    return np.cos(z) * 2


def vectorized_pair(x):
    y = np.sin(x) + 1
    a, b = PAIR(y, x)
    return np.cos(a) * b


def vectorized_with_signature(x):
    y = np.sin(x) + 1
    z = ROWS(y)
    return np.cos(z) * 2


def nditer(x):
    y = np.sin(x) + 1
    total = 0.0
    for v in np.nditer(y):
        total = total + v
    return np.cos(y) * total


def nditer_that_writes(x):
    y = np.sin(x) + 1
    it = np.nditer(y, flags=["multi_index"], op_flags=["readwrite"])
    for v in it:
        v[...] = it.multi_index[0] * v
    return np.cos(y)


def nditer_that_makes_its_output(x):
    y = np.sin(x) + 1
    with np.nditer([y, None], flags=["external_loop"]) as it:
        for a, b in it:
            b[...] = a * 2
        z = it.operands[1]
    return np.cos(z) * 2


def ndenumerate(x):
    y = np.sin(x) + 1
    out = np.zeros_like(y)
    for place, v in np.ndenumerate(y):
        out[place] = v * 2
    return np.cos(out)


def flat(x):
    y = np.sin(x) + 1
    for v in y.T.flat:
        y = y + v
    return np.cos(y)


SAMPLES: list[Callable] = [
    object_ufunc, methods_of_an_object_ufunc, object_ufunc_at, vectorized, vectorized_by_first_result, vectorized_pair,
    vectorized_with_signature, nditer, nditer_that_writes, nditer_that_makes_its_output, ndenumerate, flat,
]  # fmt: skip


@pytest.mark.parametrize("function", SAMPLES, ids=lambda f: f.__name__)
def test_runs_as_numpy_between_graphs(function: Callable) -> None:
    """What comes before and after is in graphs, also for other numbers."""
    compiled = npc.compile(function, backend="eager")
    for offset in range(3):
        arguments = [np.arange(12.0).reshape(3, 4) + offset]
        same_outcome(run(compiled, function, clone(arguments)), run(function, function, clone(arguments)), 4)
    known = compiled_function(compiled)
    assert known is not None and known.breaks and len(known.graphs) >= 2, describe(known)
    assert "sin" in str(known.graphs[0][0]) and any("cos" in str(g) for g, _ in known.graphs[1:]), describe(known)
