"""sum(), min() and max() of long vectors are reductions, with the elements, types and warnings that going over them gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import check

NAN, INF = np.nan, np.inf


@check(graphs=1, breaks=0)
def test_simpsons_rule(x, y):
    y = np.tile(y.ravel(), 40)
    return x[0] / 3 * (y[0] + y[-1] + 4 * sum(y[1:-1:2]) + 2 * sum(y[2:-1:2]))


@check(graphs=1, breaks=0)
def test_extremes_and_counts(x):
    y = np.tile(x.ravel(), 40)
    return max(y), min(y), sum(y > 1), max(y > 1), min(np.arange(40)), sum(y[::-1].astype(np.float32))


def outcome(function: Any, x: np.ndarray) -> tuple[Any, ...]:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        result = function(x)
    results = result if isinstance(result, tuple) else (result,)
    return [*map(type, results)], [np.asarray(x).tobytes() for x in results], [str(w.message) for w in noted]


SPECIAL = {
    "numbers": [3.5, -2.25, 0.1],
    "NaN first": [NAN, 1.0, 2.0],
    "NaN in between": [1.0, NAN, 2.0, NAN],
    "only NaN": [NAN],
    "zeros": [-0.0, 0.0],
    "negative zeros": [-0.0],
    "infinities": [INF, 1.0, -INF],
    "one infinity": [1.0, -INF],
    "huge": [1e308, 1.0],
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u1", "?"])
def test_elements_types_and_warnings(dtype: str) -> None:
    def program(x: np.ndarray) -> Any:
        return sum(x), min(x), max(x)

    compiled = npc.compile(program)
    rng = np.random.default_rng(0)
    for n in (17, 40, 200, 1, 3):
        for values in SPECIAL.values():
            if dtype[0] == "f":
                with np.errstate(over="ignore"):
                    x = np.resize(np.array(values), n).astype(dtype)
            else:
                x = rng.integers(0, 100, n).astype(dtype)
            for given in (x, np.repeat(x, 2)[::-2]):
                assert outcome(compiled, given) == outcome(program, given)


def test_integers_that_overflow_warn() -> None:
    def program(x: np.ndarray) -> Any:
        return sum(x)

    compiled = npc.compile(program)
    x = np.full(20, 2**62)
    assert outcome(compiled, x) == outcome(program, x)
