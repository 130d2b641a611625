"""The largest errors of compiled functions and of NumPy's, and where each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npcompile.tensor_core import OPS
from tests.accuracy import reference
from tests.accuracy.kernels import Kernels
from tests.accuracy.samples import operands
from tests.accuracy.special_values import special_operands

REAL_DTYPES = [np.dtype(c) for c in "efd"]
COMPLEX_DTYPES = [np.dtype(c) for c in "FD"]
NOT_ELEMENTWISE_ERRORS = {"ldexp": "i"}  # the dtype of the second operand, where it is another one

# The result is the larger operand and a term that may nearly cancel it: told in units of the largest of these three.
CANCELLING = ("logaddexp", "logaddexp2")

Call = tuple[str, tuple[np.dtype, ...]]


def has_loop(name: str, dtypes: Sequence[np.dtype]) -> bool:
    try:
        return getattr(np, name).resolve_dtypes((*dtypes, None))[:-1] == tuple(dtypes)
    except TypeError:
        return False


def calls_of(dtype: np.dtype, *, rounded: bool) -> list[Call]:
    """Functions of the op table with a loop for this dtype: those with a reference in `reference.py`, or the others.

    The others move, compare or take apart numbers, or round once: they have to give NumPy's bits.
    """
    known = reference.COMPLEX if dtype.kind == "c" else reference.REAL
    found = []
    for name, op in OPS.items():
        if isinstance(op.numpy, np.ufunc) and (name in known) == rounded:
            dtypes = (dtype, *[np.dtype(NOT_ELEMENTWISE_ERRORS.get(name, dtype))] * (op.loops.nin - 1))
            if has_loop(name, dtypes):
                found.append((name, dtypes))
    return found


def sampled(calls: Sequence[Call], rng: np.random.Generator, count: int) -> list[tuple[np.ndarray, ...]]:
    """Operands of each call, all of one length."""
    found = []
    for name, dtypes in calls:
        xs = operands(name, dtypes[0], rng, count)
        found.append(tuple(x if x.dtype == d else rng.integers(-1100, 1100, len(x)).astype(d) for x, d in zip(xs, dtypes)))
    length = max(len(xs[0]) for xs in found)
    return [tuple(np.resize(x, length) for x in xs) for xs in found]


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest error, in units in the last place, with where it is."""

    units: float
    operands: tuple[np.generic, ...]
    result: np.generic

    def __str__(self) -> str:
        return f"{self.units:.3f} at ({', '.join(map(repr, self.operands))}): {self.result!r}"


def worst(name: str, xs: Sequence[np.ndarray], got: np.ndarray, judged: int = 24) -> Worst:
    """Of a real function. Long double finds where errors of float64 are large, and mpmath says how large they are.

    For narrower dtypes long double is exact.
    """
    wanted = reference.nearly_exact(name, *xs)
    found = reference.near_errors(got, wanted)
    if name in CANCELLING:
        with np.errstate(all="ignore"):
            larger = np.maximum(*xs)
            units = np.spacing(np.maximum.reduce([np.abs(larger), np.abs((wanted - larger).astype(got.dtype)), np.abs(got)]))
            return at(np.minimum(found, np.abs(got - wanted) / units), xs, got)
    if got.dtype.itemsize == 8:
        places = np.argsort(found)[-judged:]
        found = np.zeros_like(found)
        found[places] = reference.errors(got[places], reference.exact(name, *(x[places] for x in xs)))
    return at(found, xs, got)


def at(found: np.ndarray, xs: Sequence[np.ndarray], got: np.ndarray) -> Worst:
    k = int(np.argmax(found))
    return Worst(float(found[k]), tuple(x[k] for x in xs), got[k])


def worst_of_parts(name: str, xs: Sequence[np.ndarray], got: np.ndarray) -> tuple[Worst, Worst]:
    """Of a complex function: by size, and of the parts by themselves."""
    wanted = reference.exact(name, *xs)
    if got.dtype.kind == "c":
        by_size, by_part = reference.errors_of_parts(got, wanted)
    else:
        by_size = by_part = reference.errors(got, wanted)
    return at(by_size, xs, got), at(by_part, xs, got)


def numpys(name: str, xs: Sequence[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, name)(*xs))


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise. NaN is NaN: its sign and payload are not told apart."""
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) & same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return a == b
    return (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)


def other_than_numpy(kernels: Kernels, rng: np.random.Generator, count: int) -> dict[str, str]:
    """Of functions that have to give NumPy's bits: where they do not."""
    special = [special_operands(dtypes, rng, 2000) for _, dtypes in kernels.calls]
    given = sampled(kernels.calls, rng, count)
    given = [tuple(np.concatenate([x, np.resize(s, 2048)]) for x, s in zip(xs, ss)) for xs, ss in zip(given, special)]
    length = -(-len(given[0][0]) // 64) * 64  # whole vectors: of what is left over, NumPy's fmax has another sign of zero
    given = [tuple(np.resize(x, length) for x in xs) for xs in given]
    found = {}
    with np.errstate(all="ignore"):
        results = kernels(given)
    for (name, _), xs, got in zip(kernels.calls, given, results):
        expected = numpys(name, xs)
        differ = np.flatnonzero(~same_bits(got, expected))
        if len(differ):
            k = differ[0]
            found[name] = f"{len(differ)} times, first of {[x[k] for x in xs]}: {got[k]!r}, NumPy {expected[k]!r}"
    return found


def moved(kernels: Kernels, given: Sequence[tuple[np.ndarray, ...]], results: Sequence[np.ndarray]) -> dict[str, str]:
    """Functions that give one number another result in another layout, or at another place of an array."""
    found = {}
    few = [tuple(x[:400] for x in xs) for xs in given]
    others = [("strided", slice(0, 400), kernels(few, "strided")), ("reversed", slice(0, 400), kernels(few, "reversed"))]
    for size in range(1, 20):
        where = slice(7 * size, 8 * size)
        others.append((f"{size} elements", where, kernels([tuple(x[where] for x in xs) for xs in given])))
    for layout, where, again in others:
        for (name, _), one, other in zip(kernels.calls, results, again):
            if not same_bits(one[where], other).all():
                found[name] = layout
    return found
