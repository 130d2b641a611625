"""Tangents and second derivatives of a loop beside JAX's jitted ones: `python -m benchmarks.second_derivatives`.

µs of a warm call, medians; sides take turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import npcompile as npc

STEPS, FEW = 5000, 50  # of the loop; of that whose Hessian is taken
Call = Callable[[], Any]


def smoothing(x):
    s = 0.0
    total = 0.0
    for i in range(x.size):
        s = 0.9 * s + 0.1 * x[i]
        total = total + s * s * np.sin(s)
    return total


def jax_calls(x: np.ndarray, t: np.ndarray, few: np.ndarray) -> list[Call]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def loss(x: Any) -> Any:
        def step(s: Any, v: Any) -> Any:
            s = 0.9 * s + 0.1 * v
            return s, s * s * jnp.sin(s)

        return jnp.sum(jax.lax.scan(step, 0.0, x)[1])

    tangent = jax.jit(lambda x, t: jax.jvp(loss, (x,), (t,)))
    product = jax.jit(lambda x, t: jax.jvp(jax.grad(loss), (x,), (t,)))
    hessian = jax.jit(jax.hessian(loss))
    return [
        lambda: jax.block_until_ready(tangent(x, t)),
        lambda: jax.block_until_ready(product(x, t)),
        lambda: jax.block_until_ready(hessian(few)),
    ]


def calls(x: np.ndarray, t: np.ndarray, few: np.ndarray) -> list[Call]:
    gradient, hessian = npc.grad(smoothing), npc.hessian(smoothing)
    return [lambda: npc.jvp(smoothing, (x,), (t,)), lambda: npc.jvp(gradient, (x,), (t,)), lambda: hessian(few)]


def seconds(call: Call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    x, t = np.random.default_rng(0).random((2, STEPS))
    few = x[:FEW].copy()
    rows = ("`npc.jvp(f, ...)`", "`npc.jvp(npc.grad(f), ...)`", f"`npc.hessian(f)` of {FEW} numbers")
    print("| | npcompile | JAX, jitted |\n|---|---|---|")
    for row, ours, theirs in zip(rows, calls(x, t, few), jax_calls(x, t, few), strict=True):
        for a, b in zip(np.ravel(np.asarray(ours()[1])), np.ravel(np.asarray(theirs()[1])), strict=True):
            assert abs(a - b) <= 1e-9 * max(1.0, abs(b)), (row, a, b)
        for _ in range(5):
            ours(), theirs()
        both = [(seconds(ours), seconds(theirs)) for _ in range(200)]
        print(f"| {row} | {' | '.join(f'{statistics.median(side) * 1e6:.0f}' for side in zip(*both, strict=True))} |")


if __name__ == "__main__":
    main()
