"""Results at zeros, infinities, NaN and the ends of a dtype's range, and the floating-point errors noted there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npcompile.backends.registry import FloatingPointSignal
from tests.accuracy import reference
from tests.accuracy.kernels import Kernels
from tests.accuracy.samples import specials

SIZE, PLACES = 19, (3, 18)  # the special number is in a full vector, then in what is left over at the end
ERRORS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a kernel does not do what NumPy does."""

    name: str
    operands: tuple[np.generic, ...]
    ours: object
    numpys: object

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.operands))}): {self.ours!r}, NumPy {self.numpys!r}"


def special_numbers(dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        about = np.iinfo(dtype)
        return np.array([0, 1, 2, 7, about.max, about.min, -1 if about.min else 3]).astype(dtype)
    if dtype.kind == "c":
        part = np.array([0.0, np.inf, np.nan, 1, 2.5, np.finfo(dtype).max, np.finfo(dtype).tiny], np.empty(0, dtype).real.dtype)
        part = np.concatenate([part, -part])
        numbers = np.empty(len(part) ** 2, dtype)
        numbers.real, numbers.imag = np.repeat(part, len(part)), np.tile(part, len(part))
        return numbers
    return specials(dtype)


def special_operands(dtypes: Sequence[np.dtype], rng: np.random.Generator, most: int) -> tuple[np.ndarray, ...]:
    """Every combination of special numbers, or `most` of them."""
    grid = [g.ravel() for g in np.meshgrid(*map(special_numbers, dtypes), indexing="ij")]
    keep = rng.permutation(len(grid[0]))[:most]
    return tuple(x[keep] for x in grid)


def is_same_kind(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Is each NaN where the other is, infinite, zero and negative where the other is, and equal if no float?"""
    if got.dtype.kind == "c":
        return is_same_kind(got.real, expected.real) & is_same_kind(got.imag, expected.imag)
    if got.dtype.kind != "f":
        return got == expected
    is_plain = np.isfinite(expected) & (expected != 0)
    same = np.where(is_plain, np.isfinite(got) & (got != 0), (got == expected) | np.isnan(got) & np.isnan(expected))
    return same & (np.isnan(expected) | (np.signbit(got) == np.signbit(expected)))


def different_values(kernels: Kernels, most: int = 2000) -> Iterator[Difference]:
    """Special numbers of which one result is zero, infinite or NaN, and the other is not that."""
    rng = np.random.default_rng(0)
    given = [special_operands(dtypes, rng, most) for _, dtypes in kernels.calls]
    # Repeated to whole vectors: of what is left over, NumPy's loops give zeros another sign.
    length = -(-max(len(xs[0]) for xs in given) // 64) * 64
    arguments = [tuple(np.resize(x, length) for x in xs) for xs in given]
    with np.errstate(all="ignore"):
        results = kernels(arguments)
        for (name, _), xs, got in zip(kernels.calls, arguments, results):
            expected = getattr(np, name)(*xs)
            for k in np.flatnonzero(~is_same_kind(got, expected)):
                if k < len(given[0]) and not is_nearer(name, [x[k : k + 1] for x in xs], got[k], expected[k]):
                    yield Difference(name, tuple(x[k] for x in xs), got[k], expected[k])


def is_nearer(name: str, operands: Sequence[np.ndarray], got: np.generic, expected: np.generic) -> bool:
    """Is each part of this complex number of one kind with NumPy's, or the exact one, where NumPy's is zero or infinite?"""
    if got.dtype.kind != "c" or not np.isfinite(operands).all() or not operands[0].all():
        return False
    (wanted,) = map(reference.mp.mpc, reference.exact(name, *operands))
    return all(
        is_same_kind(np.array(x), np.array(y)) or (x != 0 and reference.error(float(x), part, x.dtype) <= 1)
        for x, y, part in ((got.real, expected.real, wanted.real), (got.imag, expected.imag, wanted.imag))
    )


def harmless(name: str, dtypes: Sequence[np.dtype]) -> tuple[np.ndarray, ...]:
    """Operands of which a function reports nothing."""
    return tuple(np.full(SIZE, 1.5 if name == "arccosh" else 0.5, d) if d.kind in "fc" else np.ones(SIZE, d) for d in dtypes)


def errors_not_noted(kernels: Kernels, most: int = 60) -> Iterator[Difference]:
    """Special numbers for which NumPy reports a floating-point error, and the kernels, which must check all, report none.

    (What they report without need costs time, and nothing else: NumPy then computes the same again.)
    """
    rng = np.random.default_rng(1)
    base = [harmless(name, dtypes) for name, dtypes in kernels.calls]
    assert not any(is_reported(kernels, base, error) for error in ("divide", "over", "invalid"))
    for k, (name, dtypes) in enumerate(kernels.calls):
        given = special_operands(dtypes, rng, most)
        for number, values in enumerate(zip(*given)):
            arguments = tuple(x.copy() for x in base[k])
            for x, value in zip(arguments, values):
                x[PLACES[number % 2]] = value
            for error in errors_of_numpy(name, arguments):
                if not is_reported(kernels, [*base[:k], arguments, *base[k + 1 :]], error):
                    yield Difference(name, values, "nothing noted", error)


def errors_of_numpy(name: str, arguments: Sequence[np.ndarray]) -> set[str]:
    noted: set[str] = set()
    with np.errstate(all="call", call=lambda kind, _: noted.add(ERRORS[kind])):
        getattr(np, name)(*arguments)
    return noted


def is_reported(kernels: Kernels, arguments: Sequence[Sequence[np.ndarray]], error: str) -> bool:
    """Do the kernels report `error`, where np.errstate ignores all others?"""
    with np.errstate(**{"all": "ignore"} | {error: "raise"}):
        try:
            kernels(arguments)
        except FloatingPointSignal:
            return True
    return False
