"""Python integers of any size are inputs: epoch times, ids, seeds, masks, hashes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

NEAR = (2**31, 2**32, 2**53, 2**60 + 2**36, 2**62, 2**63, 2**64, 10**18, 2**70, 2**100)
VALUES = [sign * (n + k) for n in NEAR for k in (-1, 0, 1) for sign in (1, -1)] + [0, 1, -1, 7, 1000, 3**200, 2**1030, -(2**1030)]


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args)
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
        return type(error), str(error)
    if isinstance(result, (np.ndarray, np.generic)):
        has_own_bytes = result.dtype.char in "OgG"  # references, and bytes that are no part of the number
        return type(result), result.dtype, result.shape, repr(result.tolist()) if has_own_bytes else result.tobytes()
    return type(result), repr(result)


def compare(function: Callable[..., Any], calls: list[tuple[Any, ...]], backend: str = "eager") -> Callable[..., Any]:
    compiled = npc.compile(function, backend=backend)
    with npc.config.patch(internal_errors="raise"):
        for args in calls:
            copies = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
            assert outcome(compiled, *copies) == outcome(function, *args), args
    function_of = compiled_function(compiled)
    assert function_of is not None and not any(point.is_native for point in function_of.points.values())
    return compiled


ARRAYS = {
    "x + n": lambda x, n: x + n,
    "n - x": lambda x, n: n - x,
    "x * n": lambda x, n: x * n,
    "x / n": lambda x, n: x / n,
    "n // x": lambda x, n: n // x,
    "x % n": lambda x, n: x % n,
    "x & n": lambda x, n: x & n,
    "n ^ x": lambda x, n: n ^ x,
    "x >> n": lambda x, n: x >> n,
    "x ** n": lambda x, n: x**n,
    "x < n": lambda x, n: x < n,
    "n == x": lambda x, n: n == x,
    "n >= x": lambda x, n: n >= x,
    "maximum": lambda x, n: np.maximum(x, n),
    "clip": lambda x, n: np.clip(x, 0, n),
    "where": lambda x, n: np.where(x > 1, x, n),
    "full": lambda x, n: np.full(3, n) + x.sum(),
    "array": lambda x, n: np.array([n, 1]) * 2,
    "in place": lambda x, n: np.add(x, n, out=x),
    "item": lambda x, n: x[n % 3],
    "index": lambda x, n: x[n],
    "slice": lambda x, n: x[:n],
    "np.int64": lambda x, n: x + np.int64(n),
    "np.uint64": lambda x, n: np.uint64(n) + np.uint64(1),
    "arange": lambda x, n: np.arange(n, n + 3),
}
DTYPES = ("int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "longdouble", "complex64", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ARRAYS)
def test_with_arrays(name: str, dtype: str) -> None:
    compare(ARRAYS[name], [(np.array([1, 0, 3], dtype), n) for n in VALUES])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", ["x + n", "n - x", "x * n", "x < n", "n == x", "x & n"])
def test_with_scalars_of_numpy(name: str, dtype: str) -> None:
    compare(ARRAYS[name], [(np.dtype(dtype).type(3), n) for n in VALUES])


NUMBERS = {
    "+": lambda n, m: (n + m, m - n, -n, +n, ~n),
    "*": lambda n, m: (n * m, n * 3, n**3),
    "//": lambda n, m: (n // m, n % m, divmod(n, 7), n // 10**9, -n % 1000),
    "/": lambda n, m: (n / m, n / 1e9, n * 1e-9),
    "with floats": lambda n, m: (n + 0.5, 2.0 * n, n < 1e18, n == float(m), 1j * n),
    "bits": lambda n, m: (n & m, n | 5, n ^ m, n >> 3, n << 2, n >> (m & 7)),
    "compared": lambda n, m: (n < m, n == m, n >= 2**40, n != 0, m <= 5),
    "builtins": lambda n, m: (abs(n), int(n), bool(n), min(n, m), max(n, m, 3), round(n), isinstance(n, int), type(n) is int),
    "float": lambda n, m: float(n) + float(m),
    "texts": lambda n, m: (f"{n} {m:d} {n:,}", str(n), hex(m), repr(n), "%d" % n),  # noqa: UP031
    "methods": lambda n, m: (n.bit_length(), n.real, n.numerator, m.denominator),
    "math": lambda n, m: (math.isqrt(abs(n)), math.gcd(n, m)),
    "truth": lambda n, m: (1 if n else 2, n and m, not n),
    "branch": lambda n, m: n if n > m else m + 1,
    "keys": lambda n, m: ({n: 1}.get(m), [1, 2, 3][n % 3], n in (1, m), hash(n)),
    "is": lambda n, m: (n is None, None is not m, n == None),  # noqa: E711
    "ranges": lambda n, m: (len(range(n, n + 5)), [*range(n, n + 3)], sum([n, m, 1])),
    "powers": lambda n, m: (n ** (m % 3), 2 ** (n % 5), pow(n, 3, 1000)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_arithmetic_of_python(name: str) -> None:
    others = [VALUES[(7 * k + 3) % len(VALUES)] for k in range(len(VALUES))]
    compare(NUMBERS[name], [*zip(VALUES, others), *((n, 5) for n in VALUES)])


ORDINARY: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "epoch": (lambda x, n: x + (n // 10**9 % 86400) / 86400, lambda k: (1_700_000_000_000_000_000 + k * 7919,)),
    "since": (lambda x, n: (x - n) * 1e-9, lambda k: (1_700_000_000_000_000_000 + k,)),
    "mask": (lambda x, n: x.astype(np.uint64) & n, lambda k: (2**64 - 1 - k,)),
    "hash": (lambda x, n: x * 2 if n & 1 else x * 3, lambda k: (hash(str(k)),)),
    "handed on": (lambda x, n: (x * 2, n), lambda k: (2**80 + k,)),
    "an attribute": (lambda x, holder: x + holder[0] % 10, lambda k: ([2**40 + 13 * k],)),
}


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("name", ORDINARY)
def test_one_program_serves_all(name: str, backend: str) -> None:
    function, make = ORDINARY[name]
    compiled = compare(function, [(np.arange(4.0), *make(k)) for k in range(20)], backend)
    known = compiled_function(compiled)
    assert known is not None and len(known.graphs) <= 2


def test_float32_is_rounded_as_numpy_does() -> None:
    """By way of a float64."""
    n = 2**60 + 2**36 + 1
    compare(lambda x, n: x + n, [(np.zeros(2, np.float32), k) for k in (n, n + 2, -n)], "cpu")
    compare(lambda x, y: x + int(y[0]), [(np.zeros(2, np.float32), np.array([k])) for k in (n, n + 2, -n)], "cpu")


def test_in_loops() -> None:
    def total(x: Any, n: int) -> Any:
        found = 0
        for k in range(len(x)):
            found += int(x[k]) * (n % 1000) + n
        return found, n

    compare(total, [(np.arange(40), n) for n in VALUES if abs(n) < 2**200], "cpu")
