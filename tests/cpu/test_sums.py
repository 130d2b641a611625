"""Sums are at least as accurate as NumPy's: against exact ones, over lengths, axes, memory layouts and kinds of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc

NUMBERS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "of one sign": lambda rng, shape: rng.uniform(0, 1, shape),
    "of both signs": lambda rng, shape: rng.standard_normal(shape),
    "of many sizes": lambda rng, shape: rng.standard_normal(shape) * np.exp(4 * rng.standard_normal(shape)),
}
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda x: x,
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, :, ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=2)[..., ::2],
    "transposed": lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
}
SHAPES = [(3, 5, 129), (40, 30, 17), (1000, 9, 5), (2, 3, 20000), (30000, 2, 3)]
AXES = [None, 0, 1, 2, (0, 2), (1, 2), (0, 1)]


def units(x: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray:
    """The last place of the sum of absolute values: what rounding errors are of when numbers cancel."""
    return np.spacing(np.abs(x).sum(axis, dtype=np.longdouble).astype(x.dtype)).astype(float)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("length", [2, 3, 5, 7, 8, 9, 16, 31, 100, 129, 1000, 5000])
def test_sums_of_one_axis_against_exact_ones(name: str, length: int) -> None:
    rng = np.random.default_rng(length)
    total, mean = (npc.compile(f, backend="cpu") for f in (lambda x: np.sum(x), lambda x: np.mean(x)))
    ours, theirs = [], []
    for _ in range(60):
        x = NUMBERS[name](rng, (length,))
        exact, unit = math.fsum(x), float(units(x, None))
        ours += [abs(float(total(x)) - exact) / unit, abs(float(mean(x)) - exact / length) / unit * length]
        theirs += [abs(float(np.sum(x)) - exact) / unit, abs(float(np.mean(x)) - exact / length) / unit * length]
    # Of few elements of known number the lanes of a vector are added one after another, NumPy's eight in pairs.
    assert np.mean(ours) <= 1.25 * np.mean(theirs) + (0.3 if length <= 512 else 0.1)
    assert np.max(ours) <= max(np.max(theirs), 2) + 1


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference of more than 64 bits")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f", "d", "e"])
def test_sums_over_axes(dtype: str, layout: str) -> None:
    compiled = npc.compile(lambda x, axis: np.sum(x, axis=axis), backend="cpu")
    for axis in AXES:
        errors: list[tuple[np.ndarray, np.ndarray]] = []
        for shape in SHAPES:
            for name, numbers in NUMBERS.items():
                if dtype == "e" and name == "of many sizes":  # beyond its range
                    continue
                x = LAYOUTS[layout](numbers(np.random.default_rng(0), shape).astype(dtype))
                with np.errstate(all="ignore"):
                    ours, theirs, unit = np.asarray(compiled(x, axis)), np.asarray(np.sum(x, axis=axis)), units(x, axis)
                assert np.array_equal(np.isfinite(ours), np.isfinite(theirs))
                kept = np.isfinite(theirs) & np.isfinite(unit)
                exact = x.sum(axis, dtype=np.longdouble)
                errors.append(tuple(np.abs(s - exact)[kept].astype(float) / unit[kept] for s in (ours, theirs)))
        ours, theirs = (np.concatenate([np.ravel(e) for e in side]) for side in zip(*errors))
        assert ours.mean() <= 1.25 * theirs.mean() + (0.1 if ours.size > 100 else 0.3), axis
        assert ours.max() <= 1.5 * theirs.max() + 1, axis
