"""np.median, np.percentile and np.quantile as compiled programs: NumPy's own code around partitions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Decline
from tests.shim.harness import Capture, compare
from tests.tracer.harness import check as check_program

METHODS = sorted(np.lib._function_base_impl._QuantileMethods)
PROGRAMS: dict[str, Callable[[np.ndarray], Any]] = {
    "median": lambda x: (np.median(x), np.median(x, axis=0), np.median(x, axis=-1, keepdims=True)),
    "median out": lambda x: np.median(x, axis=1, out=np.empty(x.shape[0])),
    "median overwrite": lambda x: (np.median(x, axis=0, overwrite_input=True), np.sort(x, axis=0)),
    "percentile": lambda x: (np.percentile(x, 30), np.percentile(x, [0, 25, 50, 100]), np.percentile(x, [[10], [90]], axis=1)),
    "quantile": lambda x: (np.quantile(x, 0.25, axis=0), np.quantile(x, 1), np.quantile(x, (0.5,), axis=1, keepdims=True)),
    "quantile of float32": lambda x: np.quantile(x, np.float32(0.3), axis=0),
    "quantile out": lambda x: np.quantile(x, [0.2, 0.7], axis=1, out=np.empty((2, x.shape[0]))),
    "spread": lambda x: np.subtract(*np.percentile(x, [75, 25], axis=0)),
    **{m: lambda x, m=m: (np.quantile(x, 0.3, axis=0, method=m), np.quantile(x, [0.0, 0.62, 1], method=m)) for m in METHODS},
}


def data(dtype: str, nan: str, rows: int = 6) -> np.ndarray:
    x = (np.random.default_rng(rows).normal(size=(rows, 7)) * 20).astype(dtype)
    if nan != "no NaN":
        x[2, 3 if nan == "one NaN" else slice(None)] = np.nan
    return x


@pytest.mark.parametrize("dtype", ["d", "f", "e", "l", "b", "B"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: str) -> None:
    program = PROGRAMS[name]
    for rows in (6, 5, 1):
        compiled = npc.compile(program, backend="eager", dynamic=False)
        for nan in ["no NaN", "one NaN", "a row of NaN"] if dtype in "dfe" else ["no NaN"]:
            x, y = (data(dtype, nan, max(rows, 3)) for _ in range(2))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compare(compiled(x), program(y))
            compare(x, y)
        if dtype in "dl" and not (name == "quantile of float32" and dtype == "d"):
            known = compiled_function(compiled)
            assert known is not None and not known.breaks, [str(b) for b in known.breaks]


@check_program(lambda round: data("d", "one NaN" if round % 2 else "no NaN", 5 + 2 * round), rounds=4)
def test_other_sizes(x):
    return np.median(x, axis=0) + 1, np.median(x)


@check_program(lambda round: data("d", "no NaN"), graphs=1, breaks=0)
def test_between_kernels(x):
    deviation = np.abs(x - np.median(x))
    return np.where(deviation < 3 * np.median(deviation), x, np.percentile(x, 50, axis=0))


@check_program(lambda round: data("d", "no NaN"), np.array([0.5]))
def test_quantiles_that_are_data(x, q):
    return np.quantile(x, q)


@check_program(np.zeros((0, 3)))
def test_no_data(x):
    return np.median(x, axis=1), np.median(x)


@check_program(np.array([np.inf, 1.0, np.inf, -np.inf, 2.0]), graphs=1, breaks=0)
def test_infinities(x):
    return np.percentile(x, [0, 10, 50, 80, 100]), np.median(x)


def test_dtypes_that_data_decide_are_declined() -> None:
    """NumPy gives a float64 for quantiles of float32 by a float64 array, but the float32 NaN itself."""
    capture = Capture()
    x = capture.wrap(np.ones(5, "f"))
    with pytest.raises(Decline, match="decided by whether there are NaN"):
        FUNCTIONS[np.lib._function_base_impl._quantile](capture.builder, x, np.float64(0.3) * np.ones(()), 0)
