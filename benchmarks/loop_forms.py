"""The same loops in four forms, compiled and differentiated: Python's own, fori_loop, while_loop and scan.

`python -m benchmarks.loop_forms` prints µs of a warm call, medians.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import npcompile as npc

Function = Callable[[np.ndarray], Any]
STEPS, SLICES = 5000, 200  # of numbers, and of a rod


def smoothing(x):
    s = 0.0
    for i in range(x.size):
        s = 0.9 * s + 0.1 * x[i]
    return s


def smoothing_fori(x):
    return npc.fori_loop(0, x.size, lambda i, s: 0.9 * s + 0.1 * x[i], 0.0)


def smoothing_while(x):
    return npc.while_loop(lambda c: c[0] < x.size, lambda c: (c[0] + 1, 0.9 * c[1] + 0.1 * x[c[0]]), (0, 0.0))[1]


def smoothing_scan(x):
    return npc.scan(lambda s, v: (0.9 * s + 0.1 * v, None), 0.0, x)[0]


def hunted(p, pair):
    """A step of Lotka and Volterra's equations."""
    a, b = pair
    return a + 0.001 * a * (p[0] - p[1] * b), b + 0.001 * b * (p[2] * a - p[3])


def predators(p):
    a, b = 1.0, 0.5
    for _ in range(STEPS):
        a, b = hunted(p, (a, b))
    return a + b


def predators_fori(p):
    a, b = npc.fori_loop(0, STEPS, lambda i, c: hunted(p, c), (1.0, 0.5))
    return a + b


def predators_while(p):
    _, a, b = npc.while_loop(lambda c: c[0] < STEPS, lambda c: (c[0] + 1, *hunted(p, c[1:])), (0, 1.0, 0.5))
    return a + b


def predators_scan(p):
    (a, b), _ = npc.scan(lambda c, v: (hunted(p, c), None), (1.0, 0.5), np.zeros(STEPS))
    return a + b


def conducted(u):
    """A step of the heat equation."""
    return np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])


def heat(u):
    for _ in range(SLICES):
        u = conducted(u)
    return u @ u


def heat_fori(u):
    u = npc.fori_loop(0, SLICES, lambda i, u: conducted(u), u)
    return u @ u


def heat_while(u):
    u = npc.while_loop(lambda c: c[0] < SLICES, lambda c: (c[0] + 1, conducted(c[1])), (0, u))[1]
    return u @ u


def heat_scan(u):
    u = npc.scan(lambda u, v: (conducted(u), None), u, np.zeros(SLICES))[0]
    return u @ u


FORMS: tuple[tuple[tuple[Function, ...], np.ndarray], ...] = (
    ((smoothing, smoothing_fori, smoothing_while, smoothing_scan), np.random.default_rng(0).random(STEPS)),
    ((predators, predators_fori, predators_while, predators_scan), np.array([0.6, 0.5, 0.3, 0.4])),
    ((heat, heat_fori, heat_while, heat_scan), np.random.default_rng(0).random(200)),
)


def warm(function: Function, x: np.ndarray, seconds: float = 1.0) -> float:
    """Median µs of a call."""
    function(x)
    function(x)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < seconds and len(times) < 200:
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main() -> None:
    warnings.simplefilter("ignore")
    print("| | `npc.compile` | `npc.grad` |\n|---|---|---|")
    for forms, x in FORMS:
        for function in forms:
            took = [warm(transform(function), x) for transform in (npc.compile, npc.grad)]
            print(f"| {function.__name__} | {took[0]:,.1f} | {took[1]:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
