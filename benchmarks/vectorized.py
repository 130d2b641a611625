"""Functions of single numbers applied to arrays: `python -m benchmarks.vectorized [SIZE]`.

Beside np.vectorize, numba.vectorize (one thread, and target="parallel") and jax.vmap of lax.while_loop, with the same elements.
The sides are asked in turn; times are medians. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numba
import numpy as np
from jax import lax

import npcompile as npc

ROUNDS = 9
jax.config.update("jax_enable_x64", True)


def escape(c: float) -> int:
    """After how many steps z * z + c is above 4."""
    n, z = 0, 0.0
    while n < 50 and z < 4.0:
        z = z * z + c
        n += 1
    return n


def kepler(mean: float, eccentricity: float) -> float:
    """The eccentric anomaly, by Newton's method."""
    e = mean
    step = 1.0
    while abs(step) > 1e-12:
        step = (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
        e = e - step
    return e


def escape_jax(c: Any) -> Any:
    state = lax.while_loop(lambda s: (s[0] < 50) & (s[1] < 4.0), lambda s: (s[0] + 1, s[1] * s[1] + c), (0, 0.0))
    return state[0]


def kepler_jax(mean: Any, eccentricity: Any) -> Any:
    def step(state: Any) -> Any:
        e = state[0]
        by = (e - eccentricity * jax.numpy.sin(e) - mean) / (1.0 - eccentricity * jax.numpy.cos(e))
        return e - by, by

    return lax.while_loop(lambda s: abs(s[1]) > 1e-12, step, (mean, 1.0))[0]


def milliseconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vectorized", description=__doc__.split("\n", 1)[0])
    parser.add_argument("size", nargs="?", type=int, default=1_000_000, metavar="SIZE", help="of the arrays (%(default)s)")
    size = parser.parse_args().size
    rng = np.random.default_rng(0)
    programs = {
        "escape": (escape, escape_jax, "int64(float64)", (rng.uniform(-1, 1, size),)),
        "kepler": (kepler, kepler_jax, "float64(float64, float64)", (rng.uniform(0, 3, size), rng.uniform(0, 0.9, size))),
    }
    print(f"{'ms, ' + format(size, ','):<18}{'npcompile':>10}{'numba':>10}{'parallel':>10}{'JAX':>10}{'np.vectorize':>14}")
    for name, (function, of_jax, types, arrays) in programs.items():
        batched, plain = jax.jit(jax.vmap(of_jax)), np.vectorize(function)
        sides: dict[str, Callable[..., Any]] = {
            "npcompile": npc.vectorize(function),
            "numba": numba.vectorize([types])(function),
            "parallel": numba.vectorize([types], target="parallel")(function),
            "JAX": lambda *given, batched=batched: batched(*given).block_until_ready(),
        }
        for side, call in sides.items():
            if not np.allclose(call(*arrays), sides["npcompile"](*arrays)):
                raise AssertionError(f"{side} has another answer for {name}")
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(ROUNDS):
            for side, call in sides.items():
                times[side].append(milliseconds(lambda: call(*arrays)))  # noqa: B023  (called at once)
        few = [a[: size // 100] for a in arrays]
        slow = milliseconds(lambda: plain(*few)) * 100  # noqa: B023
        print(f"{name:<18}" + "".join(f"{statistics.median(found):10.2f}" for found in times.values()) + f"{slow:14.0f}")


if __name__ == "__main__":
    main()
