"""The programs that go through every part of the loop IR, each with arguments for its ways through and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]


def smoothing(x, alpha):
    """The first iteration multiplies Python's numbers, which overflow without a word, and the others NumPy's: it is peeled."""
    out, s = np.empty_like(x), 0.0
    for i in range(x.size):
        s = alpha * x[i] + (1 - alpha) * s
        out[i] = s
    return out


def weighted(x, w, out):
    """Python's float and NumPy's are added to an f64 alike: one loop, and a truth value that says whose `s` is."""
    s = 0.0
    for i in range(len(x)):
        s = w[0] * x[i] + (1.0 - w[0]) * s
        out[i] = s
    return s


def product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def triangular(lower, b, x):
    for i in range(lower.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def crossings(x, level, most):
    found = []
    for i in range(x.size):
        if x[i] > level:
            found.append(i)
            if len(found) == most:
                break
    return found


def diffuse(a, b, steps):
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(steps):
            for i in range(1, a.size - 1):
                b[i] = 0.25 * a[i - 1] + 0.5 * a[i] + 0.25 * a[i + 1]
            a, b = b, a
    return a


def limited(x, most, out):
    s = 0.0
    for i in range(x.size):
        if x[i] > most:
            s += x[i] - most
            out[i] = most
        else:
            out[i] = x[i]
    return s


def roots(x, out):
    failed = 0
    for i in range(x.size):
        try:
            r = x[i]
            k = 0
            while abs(r * r - x[i]) > 1e-12 * x[i]:
                r = 0.5 * (r + x[i] / r)
                k += 1
            out[i] = r
        except IndexError:
            failed += 1
    return failed


@dataclass(frozen=True)
class Case:
    function: FunctionType
    arguments: Sequence[Callable[[], Arguments]]  # of the same types in each case
    has_derivative: bool = True
    is_exact: bool = True  # are the bits Python's? Not where BLAS adds in an order of its own
    prints_on_cuda: bool = True


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) + 0.5


def with_(x: np.ndarray, index: int | tuple[int, ...], value: float) -> np.ndarray:
    x[index] = value
    return x


LARGE = 1.7e308
CASES = [
    Case(
        smoothing,
        [
            lambda: (numbers(9), 0.3),
            lambda: (numbers(0), 0.3),
            lambda: (numbers(1), 0.3),
            lambda: (with_(numbers(9), 4, LARGE), -3.0),  # overflows in the middle
            lambda: (with_(numbers(9), 0, LARGE), 2.0),  # in the first iteration
            lambda: (with_(numbers(9), 6, np.inf), 0.0),  # 0 * inf is invalid
        ],
    ),
    Case(
        weighted,
        [
            lambda: (numbers(9), np.array([0.3]), np.zeros(9)),
            lambda: (numbers(0), np.array([0.3]), np.zeros(3)),
            lambda: (numbers(9), np.array([]), np.zeros(9)),  # w[0] raises
            lambda: (numbers(9), np.array([0.3]), np.zeros(5)),  # out[5] raises after five writes
            lambda: (with_(numbers(9), 5, np.inf), np.array([0.0]), np.zeros(9)),
        ],
    ),
    Case(
        product,
        [
            lambda: (numbers(3, 4), numbers(4, 2), np.zeros((3, 2))),
            lambda: (numbers(3, 0), numbers(0, 2), np.ones((3, 2))),
            lambda: (numbers(3, 4), numbers(3, 2), np.zeros((3, 2))),  # b[3, 0] raises
            lambda: (numbers(3, 4), numbers(4, 2), np.zeros((2, 2))),  # c[2, 0] raises after four writes
            lambda: (with_(numbers(3, 4), (1, 2), LARGE), 10 * numbers(4, 2), np.zeros((3, 2))),
        ],
    ),
    Case(
        triangular,
        [
            lambda: (np.tril(numbers(5, 5)), numbers(5), np.zeros(5)),
            lambda: (with_(np.tril(numbers(5, 5)), (3, 3), 0.0), numbers(5), np.zeros(5)),  # divides by 0
            lambda: (np.tril(numbers(5, 5)), numbers(3), np.zeros(5)),  # b[3] raises
            lambda: (np.tril(numbers(5, 5))[:, :3].copy(), numbers(5), np.zeros(5)),  # lower[3, 3] raises
        ],
        is_exact=False,
    ),
    Case(
        crossings,
        [
            lambda: (numbers(12), 1.0, 3),
            lambda: (numbers(12), 0.0, 0),
            lambda: (numbers(0), 1.0, 3),
            lambda: (with_(numbers(12), 2, np.nan), 1.0, 4),
        ],
        has_derivative=False,
        prints_on_cuda=False,  # its list grows
    ),
    Case(
        diffuse,
        [
            lambda: (numbers(8), numbers(8, seed=1), 3),
            lambda: (numbers(8), numbers(8, seed=1), 0),
            lambda: (numbers(1), numbers(1, seed=1), 3),
            lambda: (numbers(8), numbers(5, seed=1), 2),  # b[5] raises, inside the `with`
            lambda: (with_(numbers(8), 3, np.inf), -numbers(8), 4),  # inf - inf is invalid, which is ignored
        ],
    ),
    Case(
        limited,
        [
            lambda: (numbers(9), 1.0, np.zeros(9)),
            lambda: (numbers(9), 1.0, np.zeros(4)),  # out[4] raises after four writes
            lambda: (with_(with_(numbers(9), 2, np.nan), 5, np.inf), 1.0, np.zeros(9)),
            lambda: (with_(with_(numbers(9), 2, LARGE), 6, LARGE), 1.0, np.zeros(9)),  # the sum overflows
        ],
    ),
    Case(
        roots,
        [
            lambda: (numbers(6), np.zeros(6)),
            lambda: (numbers(6), np.zeros(4)),  # out[4] raises inside the `try`
            lambda: (with_(numbers(6), 3, 0.0), np.zeros(6)),
            lambda: (with_(numbers(6), 2, -0.0), np.zeros(6)),
            lambda: (with_(numbers(6), 2, np.nan), np.zeros(6)),
            lambda: (with_(numbers(6), 1, 1e-320), np.zeros(6)),
        ],
    ),
]
NAMES = [case.function.__name__ for case in CASES]
