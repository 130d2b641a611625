"""The loop IR's code beside the code of the compiler that it is to replace: `python -m benchmarks.loop_compilers [PROGRAM ...]`.

Both run a function through `npc.compile`, with the questions that it asks before a call; calls take turns, times are medians. For
the loop IR all reasons of speed not to use it (`tracer/loop_ir/family.py`) are left aside. `--code` prints the C of both.
Programs of `benchmarks.programs` that are named are measured at their small and middle sizes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

import npcompile as npc
from benchmarks.command import Command
from benchmarks.loop_ir import warm
from benchmarks.programs import families
from npcompile.tracer.loop_ir import family, whole_function
from tests.loop_ir.programs import diffuse, numbers, product, roots, smoothing, triangular

Arguments = tuple[Any, ...]


def count_above(x, level):
    n = 0
    for i in range(x.size):
        if x[i] > level:
            n += 1
    return n


def close_pairs(x, near):
    n = 0
    for i in range(x.size):
        for j in range(x.size):
            if abs(x[i] - x[j]) < near:
                n += 1
    return n


def integers(x, y):
    total = 0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


def integer_map(x, y):
    for i in range(x.size):
        y[i] = x[i] * 3 + y[i]


def python_sum(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def collatz(n):
    longest = 0
    for start in range(1, n):
        k, steps = start, 0
        while k != 1:
            if k % 2 == 0:
                k //= 2
            else:
                k = 3 * k + 1
            steps += 1
        longest = max(longest, steps)
    return longest


def sieve(flags):
    n = flags.size
    count = 0
    for i in range(2, n):
        if flags[i]:
            count += 1
            for j in range(i * i, n, i):
                flags[j] = False
    return count


def sines(x, out):
    for i in range(x.size):
        out[i] = np.sin(x[i]) * 0.5


def warping(a, b, d):
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1]):
            best = d[i - 1, j]
            if d[i, j - 1] < best:
                best = d[i, j - 1]
            if d[i - 1, j - 1] < best:
                best = d[i - 1, j - 1]
            d[i, j] = abs(a[i - 1] - b[j - 1]) + best
    return d[d.shape[0] - 1, d.shape[1] - 1]


def edits(a, b, d):
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1]):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[d.shape[0] - 1, d.shape[1] - 1]


def sweep(u, sweeps):
    for _ in range(sweeps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def distances(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            s = 0.0
            for k in range(x.shape[1]):
                d = x[i, k] - x[j, k]
                s += d * d
            out[i, j] = np.sqrt(s)


def mandelbrot(c, out, most):
    for i in range(c.size):
        x = y = 0.0
        k = 0
        while k < most and x * x + y * y < 4.0:
            x, y = x * x - y * y + c[i], 2 * x * y + 0.3
            k += 1
        out[i] = k


def clip(x, out):
    for i in range(x.size):
        v = x[i]
        if v > 1.0:
            v = 1.0
        out[i] = v


def largest(x):
    best = x[0]
    for i in range(1, x.size):
        if x[i] > best:
            best = x[i]
    return best


def gathered(x, places, out):
    for i in range(places.size):
        out[i] = x[places[i]] * 2.0


def histogram(x, counts):
    for i in range(x.size):
        counts[x[i]] += 1


def whole_numbers(*shape: int, most: int = 9) -> np.ndarray:
    return np.random.default_rng(1).integers(0, most, shape)


def table(n: int, m: int, dtype: type = float) -> np.ndarray:
    d = np.zeros((n + 1, m + 1), dtype)
    d[0, :], d[:, 0] = np.arange(m + 1), np.arange(n + 1)
    return d


PROGRAMS: dict[FunctionType, Callable[[], Arguments]] = {
    smoothing: lambda: (numbers(5000), 0.3),
    product: lambda: (numbers(60, 50), numbers(50, 70), np.zeros((60, 70))),
    triangular: lambda: (np.tril(numbers(300, 300)) + 300 * np.eye(300), numbers(300), np.zeros(300)),
    diffuse: lambda: (numbers(500), numbers(500, seed=1), 40),
    roots: lambda: (numbers(1000), np.zeros(1000)),
    count_above: lambda: (numbers(5000), 1.0),
    close_pairs: lambda: (numbers(200), 0.2),
    integers: lambda: (whole_numbers(5000), whole_numbers(5000)),
    integer_map: lambda: (whole_numbers(5000), whole_numbers(5000)),
    python_sum: lambda: (5000,),
    collatz: lambda: (1000,),
    sieve: lambda: (np.ones(20000, bool),),
    sines: lambda: (numbers(5000), np.zeros(5000)),
    warping: lambda: (numbers(100), numbers(120), table(100, 120)),
    edits: lambda: (whole_numbers(100), whole_numbers(120), table(100, 120, int)),
    sweep: lambda: (numbers(100, 100), 10),
    distances: lambda: (numbers(60, 3), np.zeros((60, 60))),
    mandelbrot: lambda: (np.linspace(-2, 0.5, 1000), np.zeros(1000, int), 60),
    clip: lambda: (numbers(5000), np.zeros(5000)),
    largest: lambda: (numbers(5000),),
    gathered: lambda: (numbers(5000), whole_numbers(5000, most=5000), np.zeros(5000)),
    histogram: lambda: (whole_numbers(5000), np.zeros(9, int)),
}


@contextmanager
def whole_family() -> Iterator[None]:
    """Whatever the loop IR can run, it runs."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(family, "STATEMENTS", True))
        for reasons_of_speed in ("why_not_plain", "one_by_one", "choices_that_cost"):
            stack.enter_context(patch.object(family, reasons_of_speed, lambda *_: iter(())))
        yield


@contextmanager
def nothing() -> Iterator[None]:
    """The loop IR runs nothing."""
    with patch.object(whole_function, "whole_function", lambda *_: None):
        yield


def compiled(function: FunctionType, make: Callable[[], Arguments], side: Callable[[], Any]) -> tuple[Callable[[], Any], str]:
    """A call of one compiler's function, with arguments of its own, and its C."""
    with side():
        own = npc.compile(FunctionType(function.__code__, function.__globals__, function.__name__))
        for _ in range(3):
            own(*make())
        told = npc.explain(own)(*make())
    arguments = make()
    return lambda: own(*arguments), "\n".join(told.sources)


def report(function: FunctionType, make: Callable[[], Arguments], shows_code: bool, size: str = "") -> None:
    (new, new_code), (old, old_code) = compiled(function, make, whole_family), compiled(function, make, nothing)
    if shows_code:
        print(f"/* {function.__name__} by the loop IR */\n{new_code}\n/* as text */\n{old_code}")
    times = warm({"loop IR": new, "text": old})
    taken = "" if "npc_loop(" in new_code else "  (not by the loop IR)"
    name = f"{function.__name__:12} {size:6}"
    new_us, old_us = times["loop IR"], times["text"]
    print(f"{name} loop IR {new_us:9.1f} us, text {old_us:9.1f} us, ratio {new_us / old_us:5.2f}{taken}", flush=True)


def main() -> None:
    command = Command("loop_compilers", __doc__, {*(each.__name__ for each in PROGRAMS), *families.PROGRAMS})
    command.add_argument("--code", action="store_true", help="print the C of both")
    given = command.given()
    names = given.names
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NPCOMPILE_CACHE_DIR"] = folder
        for function in PROGRAMS:
            if not names or function.__name__ in names:
                report(function, PROGRAMS[function], given.code)
        for program in (found for name, found in families.PROGRAMS.items() if name in names):
            for size in ("small", "middle"):
                assert isinstance(program.function, FunctionType)
                report(program.function, partial(program.arguments, size), given.code, size)


if __name__ == "__main__":
    main()
