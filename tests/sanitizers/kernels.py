"""Programs whose kernels are of many kinds, with arguments at the edges of what these allow: each compiled, beside NumPy."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import npcompile as npc
from tests.shim.harness import copy

Case = tuple[Any, ...]
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
LENGTHS = (*range(36), 63, 64, 65, 129, 1000)


def integer_arithmetic(*pairs):
    return [
        (
            a // b,
            a % b,
            a << b,
            a >> b,
            a * b,
            a - b,
            -a,
            abs(a),
            a**2,
            np.gcd(a, b),
            np.lcm(a, b),
            np.divmod(a, b),
            np.fmod(a, b),
        )
        for a, b in pairs
    ]


def integer_pairs() -> Iterator[Case]:
    made = []
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        bits = 8 * np.dtype(dtype).itemsize
        x = np.array(
            [0, 1, 2, 3, bits - 1, bits, bits + 1, high, high - 1, low, low + 1, high // 2, *([-1, -2] * (low < 0))], dtype
        )
        made.append((np.repeat(x, len(x)), np.tile(x, len(x))))
    yield tuple(made)


def casts(x, y):
    return (
        [x.astype(d) for d in (*INTEGERS, "f2", "f4", "?", "c8")],
        [y.astype(d) for d in ("f2", "f4", "i4", "?")],
        x.view("u8") >> 3,
    )


def cast_cases() -> Iterator[Case]:
    x = np.array([0.0, -0.0, 1.5, -1.5, 255.0, -128.0, 1e-40, 65519.0, -3e-8])
    yield x, x.astype(np.longdouble).astype("f8")[::-2]
    yield x[:0], x[:1]


def read_at(x, i, m):
    return (
        x[i],
        x[i, i[::-1] % 3],
        np.take(x, i[:40], axis=1, mode="wrap"),
        np.take(x, i, 0, mode="clip"),
        x[i[:, None], :2],
        m[i].sum(),
    )


def written_at(x, i, m):
    x[i, 1] = m[0, 0]
    x[i[:2]] += 1
    np.add.at(m, i, x[0, 0])
    np.maximum.at(x[:, 1], i, m[0, 1])
    return x, m, x.sum()


def places() -> Iterator[Case]:
    x, m = np.arange(15.0).reshape(5, 3), np.arange(15.0).reshape(5, 3) / 4
    for i in ([0, 1, 2, 4, -1, -5], [], [2, 5], [-6], [2**62, 0], [-(2**63), 1], [3] * 40):
        yield x, np.array(i, np.int64), m
    many = np.arange(18_000.0).reshape(6_000, 3)
    yield many, np.arange(-6_000, 6_000), many.copy()
    yield many, np.append(np.zeros(9_000, np.int64), 6_000), many.copy()


def reduced(x):
    rows = [f(x, axis=a) for f in (np.sum, np.mean, np.var, np.prod, np.any) for a in (0, 1, None)]
    return rows, (x * x).sum(axis=1), x[::-1, ::2].sum(axis=0), x.T.sum(axis=0), np.count_nonzero(x > 0), x @ x.T


def extremes(x):
    return [f(x, axis=a) for f in (np.min, np.argmax, np.argmin, np.ptp) for a in (0, 1, None)], np.sort(x, axis=1)


def tables(dtype: str, fewest: int = 0, lengths: tuple[int, ...] = LENGTHS) -> Iterator[Case]:
    rng = np.random.default_rng(1)
    for n in lengths:
        if n >= fewest:
            yield ((rng.integers(0, 9, (n, 3)) - 3).astype(dtype),)
            yield ((rng.integers(0, 9, (4, n)) - 3).astype(dtype),)
    yield ((rng.integers(0, 9, (300, 210)) - 3).astype(dtype),)


def rows(x):
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    normal = (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1)
    return shifted / shifted.sum(axis=1, keepdims=True), normal, (normal * 2).sum(axis=0), (x > x.mean(axis=0)).any(axis=1)


def scans(x):
    made = [f.accumulate(x, axis=a) for f in (np.add, np.maximum, np.multiply) for a in (0, 1)]
    return (
        made,
        np.cumsum(x),
        np.cumsum(x[::-1, ::-1], axis=1)[:, ::2],
        np.diff(x, axis=0),
        np.logical_or.accumulate(x > 2, axis=1),
    )


def moved(x):
    y = np.zeros_like(x)
    y[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] - 4 * x[1:-1, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    x[::2] *= 2
    x[1:] = x[:-1] + y[1:]
    padded = np.pad(x, 2, mode="edge")
    return (
        y,
        x,
        np.roll(x, 3, axis=1),
        padded[2:, 2:],
        np.tile(x, (2, 2)),
        np.repeat(x, 3, axis=0),
        np.concatenate([x.T, y.T], 1),
        np.tril(x),
    )


def selected(x):
    m = x > 0
    chosen = x[m]
    x[m] = -1
    return chosen, chosen.sum(), x, np.nonzero(m), np.where(m, x, 2), np.repeat(x[0], np.abs(x[0]).astype(int)), np.unique(x)


def searched(x):
    v = np.sort(x[0])
    labels = np.abs(x).astype(int).ravel()
    return (
        np.searchsorted(v, x),
        np.digitize(x, v),
        np.interp(x, np.arange(len(v)), v),
        np.bincount(labels),
        np.bincount(labels, x.ravel(), 5),
    )


def small_matrices(a, b):
    return [(np.linalg.inv(m), np.linalg.det(m), np.linalg.solve(m, b[:, : m.shape[1]])) for m in (a[:, :2, :2], a[:, :3, :3], a)]


def matrices() -> Iterator[Case]:
    rng = np.random.default_rng(2)
    for n in (1, 3, 8, 9, 17):
        yield rng.standard_normal((n, 4, 4)) + 4 * np.eye(4), rng.standard_normal((n, 4, 2))
    singular = np.zeros((9, 4, 4)) + np.eye(4)
    singular[5] = 1
    yield singular, np.ones((9, 4, 2))


def products(x):
    y = x.T.copy()
    return (
        x @ y,
        np.einsum("ij,jk->ik", x, y),
        np.einsum("ij,ij->i", x, x),
        np.outer(x[:, 0], y[0]),
        np.dot(x, y[:, 0]),
        np.convolve(x[:, 0], x[:, 1]),
    )


def of_complex(z, w):
    return (
        z**w,
        z * w,
        z / w,
        z**3,
        z**0.5,
        np.exp(z),
        np.tan(z),
        np.tanh(z),
        np.sqrt(z),
        np.log(z),
        abs(z),
        z.real // 1,
        np.sin(z),
    )


def complex_cases() -> Iterator[Case]:
    parts = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, 30.0, -700.0, np.inf, -np.inf, np.nan])
    z = (parts[:, None] + 1j * parts).ravel()
    yield z, np.roll(z, 7)
    yield z[:3], z[5:8]


# Each with its arguments; sizes are symbols, so that one program serves all of them.
KERNELS: dict[str, tuple[Callable[..., Any], Callable[[], Iterator[Case]]]] = {
    "integer arithmetic": (integer_arithmetic, integer_pairs),
    "casts": (casts, cast_cases),
    "reads at places": (read_at, places),
    "writes at places": (written_at, places),
    "sums": (reduced, lambda: tables("f8")),
    "sums of integers": (reduced, lambda: tables("i2", 2)),
    "extremes": (extremes, lambda: tables("f4", 2)),
    "rows": (rows, lambda: tables("f8", 2)),
    "scans": (scans, lambda: tables("f8", 2)),
    "scans of bytes": (scans, lambda: tables("i1", 2)),
    "parts and moves": (moved, lambda: tables("f8", 4)),
    "selections": (selected, lambda: tables("f8", 2, (2, 3, 17, 64))),
    "searches": (searched, lambda: tables("f8", 2, (2, 3, 24, 25, 200))),
    "small matrices": (small_matrices, matrices),
    "products": (products, lambda: tables("f8", 2, (2, 3, 9, 33))),
    "complex functions": (of_complex, complex_cases),
}


def outcome(function: Callable[..., Any], arguments: Any) -> tuple[Any, Any]:
    """What it gives or raises, and the arguments afterwards."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments), arguments
    except (IndexError, ValueError, np.linalg.LinAlgError) as error:
        return type(error), traceback.format_exception_only(error) and arguments


def agree(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            agree(a, b)
    elif isinstance(theirs, (np.ndarray, np.generic)):
        scale = {"e": 1e-2, "f": 1e-4, "F": 1e-4}.get(theirs.dtype.char, 1e-9)
        finite = np.abs(theirs[np.isfinite(theirs)].astype("c16")).max(initial=0)
        np.testing.assert_allclose(ours, theirs, rtol=scale, atol=scale * float(finite), strict=True)
    else:
        assert ours == theirs


def check_kernels(name: str) -> None:
    """Raise AssertionError where a program of the table differs from NumPy."""
    function, cases = KERNELS[name]
    compiled = npc.compile(function, backend="cpu", dynamic=True)
    with warnings.catch_warnings(), npc.config.patch(recompile_limit=100):
        warnings.simplefilter("ignore")
        for case in cases():
            agree(outcome(compiled, copy(case)), outcome(function, copy(case)))
