"""Keys looked for in vectors by native code: NumPy's places and values, and NumPy itself where the vector is not sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

SIZES = (0, 1, 2, 3, 24, 25, 100, 333)
KEYS = ((200,), (7, 31), (1000,))


def vector(n: int, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Sorted, with several equal elements; of floats also infinities, both zeros and NaN."""
    x = np.sort(rng.integers(-20 if dtype[0] != "u" else 0, 20, n)).astype(dtype)
    if dtype[0] == "f" and n > 20:
        x[0], x[-2], x[-1] = -np.inf, np.inf, np.nan
        x[x == 0] = np.where(np.arange((x == 0).sum()) % 2, 0.0, -0.0)
    return x


def keys(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    x = rng.integers(-25 if dtype[0] != "u" else 0, 25, shape).astype(dtype)
    if dtype[0] == "f":
        x.flat[:6] = np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5
    return x


def check(function: Callable[..., Any], *cases: tuple[Any, ...]) -> None:
    compiled = npc.compile(function, backend="cpu", dynamic=False)
    for case in cases:  # views of other layouts are programs of their own
        with npc.config.patch(recompile_limit=100):
            made = compiled(*case)
        expected = function(*case)
        assert type(made) is type(expected) and made.flags.c_contiguous
        np.testing.assert_array_equal(made, expected, strict=True)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["i8", "u1", "f4", "f8"])
def test_searchsorted(dtype: str, side: str) -> None:
    rng = np.random.default_rng(2)
    cases = [(vector(n, dtype, rng), keys(shape, dtype, rng)) for n in SIZES for shape in KEYS]
    a, v = cases[-1]
    cases += [(np.repeat(a, 2)[::2], v.T), (a, np.asfortranarray(v.reshape(2, -1))), (a[::-1], v), (rng.permutation(a), v)]
    check(lambda a, v: np.searchsorted(a, v, side=side), *cases)


@pytest.mark.parametrize("right", [False, True])
def test_digitize(right: bool) -> None:
    rng = np.random.default_rng(3)
    cases = [(keys((500,), "f8", rng), vector(n, "f8", rng)) for n in (1, 9, 100)]
    cases += [(v, a[::-1][2:]) for v, a in cases[1:]] + [(cases[0][0], np.full(5, 2.0)), (cases[0][0], np.array([1.0, np.nan]))]
    check(lambda x, bins: np.digitize(x, bins, right=right), *cases)
    with pytest.raises(ValueError, match="monotonic"):
        npc.compile(lambda x, bins: np.digitize(x, bins))(cases[0][0], np.array([1.0, 3.0, 2.0]))


@pytest.mark.parametrize("n", [1, 2, 24, 25, 300])
def test_interp(n: int) -> None:
    rng = np.random.default_rng(n)
    xp, fp, x = np.sort(rng.standard_normal(n)), rng.standard_normal(n), rng.standard_normal((4, 300))
    x.flat[:4] = np.nan, np.inf, -np.inf, xp[-1]
    x[1, :n] = xp
    cases = [(x, xp, fp), (x.T, xp, fp), (x, xp[::-1], fp), (x, np.round(xp, 1), np.where(fp > 1, np.inf, fp))]
    cases += [(x, np.where(xp > 1, np.inf, xp), fp), (x, np.where(xp > 1, np.nan, xp), fp)]
    with np.errstate(all="ignore"):
        check(lambda x, xp, fp: np.interp(x, xp, fp), *cases)
