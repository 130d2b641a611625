"""What NumPy's bits cost: times faster than NumPy of functions and chains, by default and with accuracy="bitwise".

    python -m benchmarks.bitwise

On all processors, as NumPy's users have them; NumPy itself uses one for functions. The sides take turns, in samples of half a
millisecond of which the least are compared: so it can be measured beside other programs. The table is in docs/accuracy.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.measure import batch_seconds

SIZES = (1_000, 100_000, 10_000_000)
SAMPLE = 0.5e-3  # seconds
ROUNDS = 400
LONGEST = 3.0  # seconds of all samples
FUNCTIONS = (np.exp, np.log, np.sin, np.cos, np.tanh, np.sqrt, np.log1p, np.expm1, np.arctan, np.exp2)


def bell(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x) * np.exp(-x) + 0.5


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def entropy(x: np.ndarray) -> np.ndarray:
    return -x * np.log(x) - (1.01 - x) * np.log1p(0.01 - x)


def cubic(x: np.ndarray) -> np.ndarray:
    return x**3 - 2 * x**1.5 + np.log(x) / (1 + x)


def softmax(x: np.ndarray) -> np.ndarray:
    rows = x.reshape(-1, 500)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def logsumexp(x: np.ndarray) -> np.ndarray:
    rows = x.reshape(-1, 500)
    largest = rows.max(axis=1, keepdims=True)
    return np.log(np.exp(rows - largest).sum(axis=1)) + largest[:, 0]


def black_scholes(x: np.ndarray) -> np.ndarray:
    price, strike, years, rate, volatility = 100 * x, 50.0, 1.5, 0.02, 0.3
    spread = volatility * np.sqrt(years)
    d = (np.log(price / strike) + (rate + volatility * volatility / 2) * years) / spread
    return price / (1 + np.exp(-1.702 * d)) - strike * np.exp(-rate * years) / (1 + np.exp(-1.702 * (d - spread)))


PROGRAMS = (bell, wave, gelu, entropy, cubic, softmax, logsumexp, black_scholes)


def named(function: np.ufunc) -> Callable[[np.ndarray], np.ndarray]:
    """A Python function of that name."""

    def call(x: np.ndarray) -> np.ndarray:
        return function(x)

    call.__name__ = function.__name__
    return call


def least_seconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Of a call of each side."""
    counts = {name: max(1, int(SAMPLE / max(batch_seconds(call, 3), 1e-9))) for name, call in calls.items()}
    least, began = dict.fromkeys(calls, float("inf")), time.perf_counter()
    for k in range(ROUNDS):
        for name, call in calls.items():
            call()  # wakes this side's threads
            least[name] = min(least[name], batch_seconds(call, counts[name]))
        if k > 2 and time.perf_counter() - began > LONGEST:
            break
    return least


def cells(function: Callable[[np.ndarray], Any], dtype: str) -> list[str]:
    """Of each size: how much faster than NumPy, by default and with its bits."""
    found = []
    for size in SIZES:
        x = np.random.default_rng(size).uniform(0.1, 0.9, size).astype(dtype)
        calls = {"NumPy": partial(function, x)}
        for accuracy in ("numpy", "bitwise"):
            calls[accuracy] = partial(npc.compile(function, accuracy=accuracy), x)
            calls[accuracy]()  # compiles
        least = least_seconds(calls)
        found.append(" / ".join(f"{least['NumPy'] / least[accuracy]:.2f}" for accuracy in ("numpy", "bitwise")))
    return found


def main() -> None:
    print(f"| | {' | '.join(f'{size:,}' for size in SIZES)} |\n|---|{'---|' * len(SIZES)}")
    for dtype in ("f8", "f4"):
        for function in (*map(named, FUNCTIONS), *PROGRAMS):
            print(f"| `{function.__name__}` {dtype} | {' | '.join(cells(function, dtype))} |", flush=True)


if __name__ == "__main__":
    npc.config.tiers = "always"  # what is compiled is measured
    main()
