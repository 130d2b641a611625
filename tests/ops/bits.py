"""Numbers of all sizes, and a comparison of bits. A NaN is a NaN: in NumPy its sign and payload depend on where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np


def numbers(dtype: np.dtype, count: int, rng: np.random.Generator, *, is_ordinary: bool = False) -> np.ndarray:
    """Sizes from 1e-4 to 1e4, whole numbers, both signs; unless `is_ordinary` with infinities, NaN, and zeros of both signs."""
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype.kind == "b" else 100, count).astype(dtype)
    if dtype.kind == "c":
        real = np.empty(0, dtype).real.dtype
        parts = [numbers(real, count, rng, is_ordinary=is_ordinary) for _ in range(2)]
        made = np.empty(count, dtype)
        made.real, made.imag = parts
        return made
    x = rng.standard_normal(count) * (1 if is_ordinary else 10.0 ** rng.integers(-4, 5, count))
    x[count // 2 : count // 4 * 3] = rng.uniform(-1, 1, count // 4 * 3 - count // 2)
    if not is_ordinary:
        x[: count // 8] = rng.integers(-5, 6, count // 8)
        x[:8] = rng.permutation([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0])[: len(x[:8])]
        x = rng.permutation(x)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def different(ours: Any, theirs: Any) -> str:
    """What differs, in the type, dtype, shape or a bit; empty where nothing does."""
    if isinstance(theirs, (tuple, list)):
        found = [different(a, b) for a, b in zip(ours, theirs, strict=True)]
        return next(filter(None, found), "")
    if type(ours) is not type(theirs) or np.asarray(ours).dtype != np.asarray(theirs).dtype or np.shape(ours) != np.shape(theirs):
        return f"{type(ours)} {np.asarray(ours).dtype} {np.shape(ours)}, NumPy has {np.asarray(theirs).dtype} {np.shape(theirs)}"
    a, b = (np.atleast_1d(np.asarray(x)).ravel() for x in (ours, theirs))
    if a.dtype.kind == "c":
        return different(a.real, b.real) or different(a.imag, b.imag)
    if a.dtype.kind == "f":
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return f"NaN at other places: {a[np.isnan(a) != np.isnan(b)][:3]} {b[np.isnan(a) != np.isnan(b)][:3]}"
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    where = (a != b) | (np.signbit(a) != np.signbit(b)) if a.dtype.kind == "f" else a != b
    return f"{where.sum()} of {a.size}: {a[where][:3]!r}, NumPy has {b[where][:3]!r}" if where.any() else ""
