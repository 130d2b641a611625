"""Gradients of functions with loops: `python -m benchmarks.loop_gradients [PROGRAM ...]`. Medians; sides take turns.

Beside the gradient stand its own loop compiled (`npc.compile`), and where the program is a `scan`, JAX's jitted gradient of that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.command import Command
from benchmarks.loop_losses import LOSSES

Arguments = tuple[Any, ...]


def smoothing(x, a):
    s = x[0]
    total = 0.0
    for i in range(x.size):
        s = a * x[i] + (1.0 - a) * s
        total = total + s * s
    return total


def predators(p, steps):
    """The distance of a Lotka-Volterra orbit from a point: the classical Runge-Kutta method."""
    u, v, h, loss = p[4], p[5], 0.01, 0.0
    for _ in range(steps):
        a1, b1 = u * (p[0] - p[1] * v), v * (p[2] * u - p[3])
        x, y = u + 0.5 * h * a1, v + 0.5 * h * b1
        a2, b2 = x * (p[0] - p[1] * y), y * (p[2] * x - p[3])
        x, y = u + 0.5 * h * a2, v + 0.5 * h * b2
        a3, b3 = x * (p[0] - p[1] * y), y * (p[2] * x - p[3])
        x, y = u + h * a3, v + h * b3
        a4, b4 = x * (p[0] - p[1] * y), y * (p[2] * x - p[3])
        u, v = u + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4), v + h / 6.0 * (b1 + 2.0 * b2 + 2.0 * b3 + b4)
        loss = loss + (u - 1.0) * (u - 1.0) + (v - 1.0) * (v - 1.0)
    return loss


def warping(x, y):
    """Dynamic time warping: the cheapest way through all distances."""
    n, m = len(x), len(y)
    d = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            cost = abs(x[i] - y[j])
            if i > 0 and j > 0:
                d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
            elif i > 0:
                d[i, j] = cost + d[i - 1, j]
            elif j > 0:
                d[i, j] = cost + d[i, j - 1]
            else:
                d[i, j] = cost
    return d[n - 1, m - 1]


def forward(transition, emission, seen):
    """The likelihood of a hidden Markov model, with a scale at each step."""
    states, total = transition.shape[0], 0.0
    now, following = np.ones(states), np.empty(states)
    for t in range(seen.size):
        scale = 0.0
        for j in range(states):
            p = 0.0
            for i in range(states):
                p = p + now[i] * transition[i, j]
            following[j] = p * emission[j, seen[t]]
            scale = scale + following[j]
        for j in range(states):
            now[j] = following[j] / scale
        total = total + np.log(scale)
    return total


def energy(x, charge):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            a, b, c = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            total = total + charge[i] * charge[j] / np.sqrt(a * a + b * b + c * c)
    return total


def roots(x):
    total = 0.0
    for v in x:
        r = v
        while abs(r * r - v) > 1e-12 * v:
            r = 0.5 * (r + v / r)
        total = total + r
    return total


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) + 0.5


def jax_smoothing() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def loss(x: Any, a: Any) -> Any:
        def step(s: Any, v: Any) -> Any:
            s = a * v + (1.0 - a) * s
            return s, s * s

        return jnp.sum(jax.lax.scan(step, x[0], x)[1])

    return loss


def jax_predators() -> Callable[..., Any]:
    import jax

    def loss(p: Any, steps: int) -> Any:
        h = 0.01

        def rate(u: Any, v: Any) -> Any:
            return u * (p[0] - p[1] * v), v * (p[2] * u - p[3])

        def step(carry: Any, _: Any) -> Any:
            u, v, total = carry
            a1, b1 = rate(u, v)
            a2, b2 = rate(u + 0.5 * h * a1, v + 0.5 * h * b1)
            a3, b3 = rate(u + 0.5 * h * a2, v + 0.5 * h * b2)
            a4, b4 = rate(u + h * a3, v + h * b3)
            u, v = u + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4), v + h / 6.0 * (b1 + 2.0 * b2 + 2.0 * b3 + b4)
            return (u, v, total + (u - 1.0) ** 2 + (v - 1.0) ** 2), None

        return jax.lax.scan(step, (p[4], p[5], 0.0), None, length=steps)[0][2]

    return loss


def jax_recurrent() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def loss(w: Any, u: Any, b: Any, x: Any) -> Any:
        def step(h: Any, now: Any) -> Any:
            h = jnp.tanh(w @ h + u @ now + b)
            return h, jnp.sum(h**2)

        return jnp.sum(jax.lax.scan(step, jnp.zeros(b.size), x)[1]) / x.shape[0]

    return loss


def jax_long_short() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def loss(w: Any, u: Any, b: Any, x: Any) -> Any:
        n = b.size // 4

        def step(carry: Any, now: Any) -> Any:
            h, c = carry
            gates = w @ h + u @ now + b
            c = jax.nn.sigmoid(gates[:n]) * c + jax.nn.sigmoid(gates[n : 2 * n]) * jnp.tanh(gates[2 * n : 3 * n])
            h = jax.nn.sigmoid(gates[3 * n :]) * jnp.tanh(c)
            return (h, c), jnp.sum(h**2)

        return jnp.sum(jax.lax.scan(step, (jnp.zeros(n), jnp.zeros(n)), x)[1]) / x.shape[0]

    return loss


def jax_kalman() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def loss(transition: Any, noise: Any, observed: Any, seen: Any) -> Any:
        def step(carry: Any, now: Any) -> Any:
            state, covariance = carry
            state = transition @ state
            covariance = transition @ covariance @ transition.T + noise * jnp.eye(2)
            gap = now - observed @ state
            spread = observed @ covariance @ observed + 0.5
            gain = covariance @ observed / spread
            covariance = covariance - jnp.outer(gain, observed @ covariance)
            return (state + gain * gap, covariance), 0.5 * (jnp.log(spread) + gap * gap / spread)

        return jnp.sum(jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), seen)[1])

    return loss


def jax_heat_control() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def loss(control: Any, start: Any, target: Any) -> Any:
        def step(u: Any, now: Any) -> Any:
            u = u.at[0].set(now[0]).at[-1].set(now[1])
            return u.at[1:-1].add(0.3 * (u[2:] - 2.0 * u[1:-1] + u[:-2])), None

        u = jax.lax.scan(step, start, control)[0]
        return jnp.sum((u - target) ** 2) + 0.01 * jnp.sum(control**2)

    return loss


OF_JAX = {"recurrent": jax_recurrent, "long_short": jax_long_short, "kalman": jax_kalman, "heat_control": jax_heat_control}


@dataclass(frozen=True)
class Program:
    function: Callable[..., Any]
    arguments: Callable[[], Arguments]
    argnums: tuple[int, ...]
    of_jax: Callable[[], Callable[..., Any]] | None = None


PROGRAMS = [
    Program(smoothing, lambda: (numbers(5000), 0.3), (0, 1), jax_smoothing),
    Program(predators, lambda: (np.array([1.5, 1.0, 1.0, 3.0, 1.0, 1.0]), 5000), (0,), jax_predators),
    Program(warping, lambda: (numbers(200), numbers(150, seed=1)), (0, 1)),
    Program(forward, lambda: (numbers(8, 8) / 8, numbers(8, 20, seed=1), np.random.default_rng(2).integers(0, 20, 1000)), (0, 1)),
    Program(energy, lambda: (numbers(200, 3), numbers(200, seed=1)), (0, 1)),
    Program(roots, lambda: (numbers(1000),), (0,)),
    *(Program(loss.function, loss.arguments, loss.argnums, OF_JAX.get(loss.name)) for loss in LOSSES),
]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def warm(sides: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Microseconds of a call of each side."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, call in sides.items():
            times[name].append(timed(call)[0])
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


def of_jax(program: Program, arguments: Arguments) -> tuple[float, Callable[[], Any], Any] | None:
    """Seconds of the first call, a warm call, and its result."""
    if program.of_jax is None:
        return None
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    static = tuple(k for k, x in enumerate(arguments) if isinstance(x, int))
    gradient = jax.jit(jax.grad(program.of_jax(), program.argnums), static_argnums=static)
    given = [jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments]

    def call() -> Any:
        return jax.block_until_ready(gradient(*given))

    first, found = timed(call)
    return first, call, found


def report(program: Program, seconds: float) -> None:
    arguments = program.arguments()
    compiled, gradient = npc.compile(program.function), npc.grad(program.function, program.argnums)
    compiled(*arguments)
    first, found = timed(lambda: gradient(*arguments))
    sides = {"loop": lambda: compiled(*arguments), "gradient": lambda: gradient(*arguments)}
    theirs = of_jax(program, arguments)
    if theirs is not None:
        for x, y in zip(found, theirs[2], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8)
        sides["JAX"] = theirs[1]
    times = warm(sides, seconds)
    firsts = f"gradient {first * 1e3:.0f} ms" + (f", JAX {theirs[0] * 1e3:.0f} ms" if theirs else "")
    print(f"{program.function.__name__}: us: " + ", ".join(f"{k} {v:.1f}" for k, v in times.items()) + f"; first call: {firsts}")


def main() -> None:
    names = Command("loop_gradients", __doc__, {program.function.__name__ for program in PROGRAMS}).given().names
    for program in PROGRAMS:
        if not names or program.function.__name__ in names:
            report(program, 2.0)


if __name__ == "__main__":
    main()
