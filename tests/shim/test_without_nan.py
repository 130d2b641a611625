"""np.nanmedian, np.nanquantile and the like of several axes: their results lie in memory as NumPy's do."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import clone, run, same_outcome

STATISTICS: dict[str, Callable[..., Any]] = {
    "median": lambda x, axis, keepdims: np.nanmedian(x, axis=axis, keepdims=keepdims),
    "variance": lambda x, axis, keepdims: np.nanvar(x, axis, keepdims=keepdims),
    "deviation": lambda x, axis, keepdims: np.nanstd(x, axis=axis, ddof=1, keepdims=keepdims),
    "quantile": lambda x, axis, keepdims: np.nanquantile(x, 0.3, axis=axis, keepdims=keepdims),
    "quantiles": lambda x, axis, keepdims: np.nanquantile(x, [0.1, 0.5, 0.9], axis, keepdims=keepdims, method="lower"),
    "percentiles": lambda x, axis, keepdims: np.nanpercentile(x, np.array([30, 60]), axis=axis, keepdims=keepdims),
}
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "moved": lambda x: np.moveaxis(x, 0, 1),
    "reversed": lambda x: x[::-1],
}
SHAPES = [(2, 3, 4), (4, 1, 3)]


def data(shape: tuple[int, ...], nan: str) -> np.ndarray:
    x = np.random.default_rng(3).normal(size=shape)
    if nan != "no NaN":
        x[0, 0, slice(1) if nan == "one NaN" else slice(None)] = np.nan
    return x


@pytest.mark.parametrize("name", STATISTICS)
def test_results_lie_as_numpys(name: str) -> None:
    for shape, axis, keepdims in itertools.product(SHAPES, [None, 0, -2, (0, 2)], [False, True]):
        function = STATISTICS[name]
        for layout in LAYOUTS:
            # As one compiled function: what has NaN, or warns, is served by what was captured for other numbers.
            compiled = npc.compile(function, backend="eager", dynamic=False)
            for nan in ["no NaN", "one NaN", "a row of NaN"]:
                given = [LAYOUTS[layout](data(shape, nan)), axis, keepdims]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    same_outcome(run(compiled, function, clone(given)), run(function, function, clone(given)), 8)
            known = compiled_function(compiled)
            assert known is not None
            if layout in "CF" or "quantile" in name or "percentile" in name:
                assert not known.breaks, (shape, axis, layout, [str(b) for b in known.breaks])


@pytest.mark.parametrize("name", STATISTICS)
def test_other_sizes(name: str) -> None:
    compiled = npc.compile(lambda x: STATISTICS[name](x, 1, False), backend="eager")
    for rows in (3, 5, 7, 599, 601, 2, 1, 0):
        x = np.random.default_rng(rows).normal(size=(4, rows, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(compiled(x), STATISTICS[name](x, 1, False), rtol=1e-13)
