"""A fused program takes the memory of its outputs and of at most one temporary, as the system counts it.

In a process of its own: the runtime keeps freed arrays for the next ones, which here it is told not to do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import loader

SIZE = 1000, 2000  # 16 MB
SLACK = 2 << 20  # bytes: stacks of threads, partial results


def chain(x, y):
    for k in range(12):
        x = np.sqrt(x * x + y * y) - 0.1 * k * y
    return x


def softmax(x, y):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, y):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * y[0] + y[1]


def standardised_columns(x, y):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def numbers(x, y):
    return ((x - y) ** 2).mean(), np.abs(x).max(), (x * y).sum(), np.exp(-(x**2)).std()


def smoothed(x, y):
    for _ in range(2):
        x = (x + np.roll(x, 1, axis=0) + np.roll(x, -1, axis=0) + np.roll(x, 1, axis=1)) / 4
    return x


def five_points(x, y):
    out = np.zeros_like(x)
    out[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    return out * y


def chosen(x, y):
    return np.where(x > 0, np.exp(-x), np.where(y > x, y * 2, x - 1)) + np.clip(x, -1, 1)


def turned(x, y):
    return np.concatenate([x.T * 2, y.T + 1], axis=0)


def masked(x, y):
    x = x.copy()
    x[x < y] *= -0.5
    return x, x[x > 0].sum()


PROGRAMS = (chain, softmax, layer_norm, standardised_columns, numbers, smoothed, five_points, chosen, turned, masked)


def resident(field: str) -> int:
    """Bytes: VmRSS, or VmHWM, the most since it was set back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def measure() -> dict[str, tuple[int, int]]:
    """For each program what a call takes at its peak, and the bytes of its results."""
    loader.MOST_KEPT = 0
    found = {}
    x, y = np.random.default_rng(0).standard_normal((2, *SIZE))
    for function in PROGRAMS:
        compiled = npc.compile(function)
        compiled(x, y)
        Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmRSS")
        results = compiled(x, y)
        taken = resident("VmHWM") - before
        given = results if isinstance(results, tuple) else (results,)
        found[function.__name__] = taken, sum(np.asarray(r).nbytes for r in given)
        del results, given
    return found


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells and sets back what was resident at most")
def test_programs_take_one_temporary_at_most() -> None:
    made = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=True).stdout
    found = json.loads(made.splitlines()[-1])
    assert set(found) == {p.__name__ for p in PROGRAMS}
    array = 8 * SIZE[0] * SIZE[1]
    assert found["chain"][0] >= array // 2  # the measure measures
    too_much = {name: taken for name, (taken, results) in found.items() if taken > results + array + SLACK}
    assert not too_much, {name: f"{taken / array:.2f} arrays" for name, taken in too_much.items()}


if __name__ == "__main__":
    print(json.dumps(measure()))
