"""Functions that are exported, each with arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def escape_times(left: float, top: float, step: float, most: int, times: np.ndarray) -> int:
    """For each pixel, after how many steps z * z + c is further than 2 from 0. How many pixels never are."""
    inside = 0
    for i in range(times.shape[0]):
        for j in range(times.shape[1]):
            x, y = left + step * j, top + step * i
            a, b, n = 0.0, 0.0, 0
            while n < most and a * a + b * b <= 4.0:
                a, b = a * a - b * b + x, 2.0 * a * b + y
                n += 1
            times[i, j] = n
            if n == most:
                inside += 1
    return inside


def orbit(state: np.ndarray, step: float, count: int) -> tuple[np.ndarray, float]:
    """Positions of a body around the sun by Runge and Kutta's method, and its last distance squared."""
    path = np.empty((count, 2))
    x, y, u, v = state[0], state[1], state[2], state[3]
    for k in range(count):
        dx = dy = du = dv = 0.0
        x1, y1, u1, v1 = x, y, u, v
        for stage in range(4):
            r2 = x1 * x1 + y1 * y1
            r3 = r2 * np.sqrt(r2)
            fx, fy, fu, fv = u1, v1, -x1 / r3, -y1 / r3
            weight = 1.0 if stage == 0 or stage == 3 else 2.0
            dx, dy, du, dv = dx + weight * fx, dy + weight * fy, du + weight * fu, dv + weight * fv
            h = step if stage == 2 else 0.5 * step
            x1, y1, u1, v1 = x + h * fx, y + h * fy, u + h * fu, v + h * fv
        x, y, u, v = x + step / 6.0 * dx, y + step / 6.0 * dy, u + step / 6.0 * du, v + step / 6.0 * dv
        path[k, 0] = x
        path[k, 1] = y
    return path, x * x + y * y


def move_centres(points: np.ndarray, centres: np.ndarray, labels: np.ndarray) -> float:
    """One round of k-means: the labels and the centres are written to. The sum of squared distances."""
    total = 0.0
    sums, counts = np.zeros(centres.shape), np.zeros(centres.shape[0])
    for i in range(points.shape[0]):
        best, nearest = np.inf, 0
        for k in range(centres.shape[0]):
            d = 0.0
            for j in range(points.shape[1]):
                d += (points[i, j] - centres[k, j]) * (points[i, j] - centres[k, j])
            if d < best:
                best, nearest = d, k
        labels[i] = nearest
        total += best
        counts[nearest] += 1.0
        for j in range(points.shape[1]):
            sums[nearest, j] += points[i, j]
    for k in range(centres.shape[0]):
        if counts[k] > 0.0:
            for j in range(centres.shape[1]):
                centres[k, j] = sums[k, j] / counts[k]
    return total


def shifted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Statements about whole arrays."""
    return (x - y) * 2.0 + np.maximum(x, y)


def fails(x: np.ndarray, i: int, a: float) -> float:
    x[0] = 7.0
    if i == -9:
        raise KeyError("minus nine")
    assert i != -8, "minus eight"
    return math.sqrt(a) + x[i] + 7 // i + 1.0 / a + i * i


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    others: Callable[[], tuple[Any, ...]]  # of other sizes


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape)


CASES = (
    Case(
        escape_times,
        lambda: (-2.0, -1.0, 0.1, 50, np.zeros((5, 7), dtype=np.int64)),
        lambda: (-2.0, -1.25, 0.125, 100, np.zeros((20, 24), dtype=np.int64)),
    ),
    Case(
        orbit,
        lambda: (np.array([1.0, 0.0, 0.0, 1.0]), 0.01, 3),
        lambda: (np.array([1.0, 0.0, 0.0, 1.2]), 0.02, 200),
    ),
    Case(
        move_centres,
        lambda: (random(0, 6, 2), random(1, 3, 2), np.zeros(6, dtype=np.int64)),
        lambda: (random(2, 200, 3), random(3, 5, 3), np.zeros(200, dtype=np.int64)),
    ),
    Case(shifted, lambda: (random(0, 3, 4), random(1, 3, 4)), lambda: (random(2, 9, 5), random(3, 9, 5))),
)


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, of one type, dtype and layout. Which NaN there is, nobody promises."""
    if isinstance(a, tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) and type(a) is type(b):
        return (a.dtype, a.shape, a.strides, bits(a)) == (b.dtype, b.shape, b.strides, bits(b))
    return type(a) is type(b) and (a == b or a != a and b != b)


def bits(x: np.ndarray) -> bytes:
    return (np.where(np.isnan(x), np.nan, x) if x.dtype.kind == "f" else x).tobytes()
