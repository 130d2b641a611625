"""Simulations: bodies, particles, fractals, Monte Carlo, differential equations, oscillators."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import BY_ELEMENTS, UNROLLED, Program
from benchmarks.programs.steps import jax_steps, torch_steps


def n_body(x, v, m, steps):
    """Gravity of all pairs, leapfrog steps."""
    for _ in range(steps):
        d = x[None, :, :] - x[:, None, :]
        r2 = (d * d).sum(axis=2) + 0.01
        a = (d * (m / (r2 * np.sqrt(r2)))[:, :, None]).sum(axis=1)
        v = v + 0.001 * a
        x = x + 0.001 * v
    return x, v


def energy(x, m):
    """Potential energy of all pairs, a loop over the bodies."""
    total = 0.0
    for i in range(x.shape[0] - 1):
        d = x[i + 1 :] - x[i]
        total -= (m[i] * m[i + 1 :] / np.sqrt((d * d).sum(axis=1) + 0.01)).sum()
    return total


def particles(x, v, steps):
    """Particles in a box: positions and velocities in place, reflected at the walls by masks."""
    for _ in range(steps):
        v[:, 1] -= 0.01
        x += 0.1 * v
        low, high = x < 0, x > 1
        x[low] = -x[low]
        x[high] = 2 - x[high]
        v[low | high] *= -0.9


def mandelbrot(re, im, steps):
    """Steps of the Mandelbrot iteration, those inside by a mask."""
    zr, zi = np.zeros_like(re), np.zeros_like(im)
    count = np.zeros(re.shape, np.int32)
    for _ in range(steps):
        inside = zr * zr + zi * zi < 4
        a, b = zr[inside], zi[inside]
        zr[inside] = a * a - b * b + re[inside]
        zi[inside] = 2 * a * b + im[inside]
        count[inside] += 1
    return count


def julia(re, im, steps):
    """Steps of a Julia iteration, kept by np.where."""
    count = np.zeros(re.shape, np.int32)
    for _ in range(steps):
        inside = re * re + im * im < 4
        new = re * re - im * im - 0.8
        im = np.where(inside, 2 * re * im + 0.156, im)
        re = np.where(inside, new, re)
        count += inside
    return count


def asian_option(draws, spot, strike):
    """Monte Carlo price of an Asian option: paths along time, mean of each, mean of the gains."""
    steps = draws.shape[1]
    path = spot * np.exp(np.cumsum((0.02 - 0.02) / steps + 0.2 * np.sqrt(1 / steps) * draws, axis=1))
    gain = np.maximum(path.mean(axis=1) - strike, 0) * np.exp(-0.02)
    return gain.mean(), gain.std() / np.sqrt(gain.size)


def barrier_option(draws, spot, strike, barrier):
    """Monte Carlo price of a barrier option, time step by time step over all paths."""
    price = np.full(draws.shape[1], spot)
    alive = np.ones(draws.shape[1], dtype=np.bool_)
    for t in range(draws.shape[0]):
        price = price * np.exp(-0.0001 + 0.02 * draws[t])
        alive &= price < barrier
    return (np.maximum(price - strike, 0) * alive).mean()


def lotka_volterra(state, steps):
    """Runge-Kutta steps of hunters and prey, one scalar system."""
    out = np.empty((steps, 2))
    x, y = state[0], state[1]
    h = 0.01
    for i in range(steps):
        a1, b1 = x * (1 - y), y * (x - 1)
        a2, b2 = (x + h / 2 * a1) * (1 - (y + h / 2 * b1)), (y + h / 2 * b1) * (x + h / 2 * a1 - 1)
        a3, b3 = (x + h / 2 * a2) * (1 - (y + h / 2 * b2)), (y + h / 2 * b2) * (x + h / 2 * a2 - 1)
        a4, b4 = (x + h * a3) * (1 - (y + h * b3)), (y + h * b3) * (x + h * a3 - 1)
        x = x + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        y = y + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        out[i, 0], out[i, 1] = x, y
    return out


def newton_roots(c, tolerance):
    """Square roots by Newton's iteration until the whole array has converged."""
    x = c.copy()
    steps = 0
    while np.abs(x * x - c).max() > tolerance:
        x = 0.5 * (x + c / x)
        steps += 1
    return x, steps


def n_body_numba() -> Function:
    import numba

    def loops(x, v, m, steps):
        n = x.shape[0]
        x, v = x.copy(), v.copy()
        for _ in range(steps):
            for i in numba.prange(n):
                ax = ay = az = 0.0
                for j in range(n):
                    dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                    r2 = dx * dx + dy * dy + dz * dz + 0.01
                    f = m[j] / (r2 * np.sqrt(r2))
                    ax, ay, az = ax + dx * f, ay + dy * f, az + dz * f
                v[i, 0] += 0.001 * ax
                v[i, 1] += 0.001 * ay
                v[i, 2] += 0.001 * az
            x += 0.001 * v
        return x, v

    return loops


def n_body_step(np):
    def step(x, v, m):
        d = x[None, :, :] - x[:, None, :]
        r2 = (d * d).sum(axis=2) + 0.01
        v = v + 0.001 * (d * (m / (r2 * np.sqrt(r2)))[:, :, None]).sum(axis=1)
        return x + 0.001 * v, v, m

    return step


def n_body_jax() -> Function:
    import jax.numpy as jnp

    run = jax_steps(n_body_step(jnp))
    return lambda *arguments: run(*arguments)[:2]


def n_body_torch() -> Function:
    run = torch_steps(n_body_step(np))
    return lambda *arguments: run(*arguments)[:2]


def energy_jax() -> Function:
    import jax.numpy as jnp

    def pairs(x, m):
        d = x[None, :, :] - x[:, None, :]
        terms = m[:, None] * m / jnp.sqrt((d * d).sum(axis=2) + 0.01)
        return -jnp.triu(terms, 1).sum()

    return pairs


def energy_numba() -> Function:
    import numba

    def loops(x, m):
        total = 0.0
        for i in numba.prange(x.shape[0] - 1):
            for j in range(i + 1, x.shape[0]):
                r2 = 0.01
                for k in range(x.shape[1]):
                    r2 += (x[j, k] - x[i, k]) ** 2
                total -= m[i] * m[j] / np.sqrt(r2)
        return total

    return loops


def particles_numba() -> Function:
    import numba

    def loops(x, v, steps):
        for i in numba.prange(x.shape[0]):
            for _ in range(steps):
                v[i, 1] -= 0.01
                for k in range(2):
                    x[i, k] += 0.1 * v[i, k]
                    low, high = x[i, k] < 0, x[i, k] > 1
                    if low:
                        x[i, k] = -x[i, k]
                    if high:
                        x[i, k] = 2 - x[i, k]
                    if low or high:
                        v[i, k] *= -0.9

    return loops


def particles_jax() -> Function:
    import jax.numpy as jnp

    def step(x, v):
        v = v.at[:, 1].add(-0.01)
        x = x + 0.1 * v
        low, high = x < 0, x > 1
        x = jnp.where(low, -x, jnp.where(high, 2 - x, x))
        return x, jnp.where(low | high, v * -0.9, v)

    return jax_steps(step)


def mandelbrot_numba() -> Function:
    import numba

    def loops(re, im, steps):
        count = np.zeros(re.shape, np.int32)
        for i in numba.prange(re.shape[0]):
            for j in range(re.shape[1]):
                zr = zi = 0.0
                for _ in range(steps):
                    if zr * zr + zi * zi >= 4:
                        break
                    zr, zi = zr * zr - zi * zi + re[i, j], 2 * zr * zi + im[i, j]
                    count[i, j] += 1
        return count

    return loops


def mandelbrot_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def iterate(re, im, steps):
        def step(_, state):
            zr, zi, count = state
            inside = zr * zr + zi * zi < 4
            new = zr * zr - zi * zi + re
            zi = jnp.where(inside, 2 * zr * zi + im, zi)
            return jnp.where(inside, new, zr), zi, count + inside

        start = (jnp.zeros_like(re), jnp.zeros_like(im), jnp.zeros(re.shape, jnp.int32))
        return lax.fori_loop(0, steps, step, start)[2]

    return iterate


def julia_numba() -> Function:
    import numba

    def loops(re, im, steps):
        count = np.zeros(re.shape, np.int32)
        for i in numba.prange(re.shape[0]):
            for j in range(re.shape[1]):
                x, y = re[i, j], im[i, j]
                for _ in range(steps):
                    if x * x + y * y >= 4:
                        break
                    x, y = x * x - y * y - 0.8, 2 * x * y + 0.156
                    count[i, j] += 1
        return count

    return loops


def julia_step(np):
    def step(re, im, count):
        inside = re * re + im * im < 4
        new = re * re - im * im - 0.8
        return np.where(inside, new, re), np.where(inside, 2 * re * im + 0.156, im), count + inside

    return step


def julia_jax() -> Function:
    import jax.numpy as jnp

    run = jax_steps(julia_step(jnp))
    return lambda re, im, steps: run(re, im, jnp.zeros(re.shape, jnp.int32), steps)[2]


def julia_torch() -> Function:
    run = torch_steps(julia_step(np))
    return lambda re, im, steps: run(re, im, np.zeros(re.shape, np.int32), steps)[2]


def asian_option_numba() -> Function:
    import numba

    def loops(draws, spot, strike):
        n, steps = draws.shape
        gain = np.empty(n)
        for i in numba.prange(n):
            total = height = 0.0
            for t in range(steps):
                height += (0.02 - 0.02) / steps + 0.2 * np.sqrt(1 / steps) * draws[i, t]
                total += spot * np.exp(height)
            gain[i] = max(total / steps - strike, 0) * np.exp(-0.02)
        return gain.mean(), gain.std() / np.sqrt(n)

    return loops


def barrier_option_numba() -> Function:
    import numba

    def loops(draws, spot, strike, barrier):
        total = 0.0
        for i in numba.prange(draws.shape[1]):
            price, alive = spot, True
            for t in range(draws.shape[0]):
                price *= np.exp(-0.0001 + 0.02 * draws[t, i])
                alive &= price < barrier
            total += max(price - strike, 0) * alive
        return total / draws.shape[1]

    return loops


def barrier_option_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def price(draws, spot, strike, barrier):
        def step(state, row):
            value, alive = state
            value = value * jnp.exp(-0.0001 + 0.02 * row)
            return (value, alive & (value < barrier)), None

        start = (jnp.full(draws.shape[1], spot, draws.dtype), jnp.ones(draws.shape[1], bool))
        (value, alive), _ = lax.scan(step, start, draws)
        return (jnp.maximum(value - strike, 0) * alive).mean()

    return price


def lotka_volterra_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def slope(x, y):
        return x * (1 - y), y * (x - 1)

    def integrate(state, steps):
        h = 0.01

        def step(state, _):
            x, y = state
            a1, b1 = slope(x, y)
            a2, b2 = slope(x + h / 2 * a1, y + h / 2 * b1)
            a3, b3 = slope(x + h / 2 * a2, y + h / 2 * b2)
            a4, b4 = slope(x + h * a3, y + h * b3)
            after = x + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), y + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
            return after, jnp.stack(after)

        return lax.scan(step, (state[0], state[1]), length=steps)[1]

    return integrate


def newton_roots_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def iterate(c, tolerance):
        def goes_on(state):
            return jnp.abs(state[0] * state[0] - c).max() > tolerance

        return lax.while_loop(goes_on, lambda s: (0.5 * (s[0] + c / s[0]), s[1] + 1), (c, 0))

    return iterate


def bodies(rng, n):
    return rng.standard_normal((n, 3)), 0.1 * rng.standard_normal((n, 3)), rng.random(n)


def plane(left, right):
    def inputs(rng, n, steps):
        re, im = np.meshgrid(np.linspace(left, right, n), np.linspace(-1.3, 1.3, n))
        return re, im, steps

    return inputs


PROGRAMS = (
    Program(
        n_body,
        lambda rng, n, steps: (*bodies(rng, n), steps),
        ((4, 2), (150, 10), (700, 10)),
        {"numba": n_body_numba, "jax": n_body_jax, "torch": n_body_torch},
        relative_error=1e-10,
        is_loop=True,
    ),
    Program(
        energy,
        lambda rng, n: (rng.standard_normal((n, 3)), rng.random(n)),
        ((20,), (400,), (4000,)),
        {"numba": energy_numba, "jax": energy_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        particles,
        lambda rng, n, steps: (rng.random((n, 2)), rng.standard_normal((n, 2)), steps),
        ((5, 20), (10_000, 50), (200_000, 50)),
        {"numba": particles_numba, "jax": particles_jax, "torch": UNROLLED},
        mutates=(0, 1),
        is_loop=True,
    ),
    Program(
        mandelbrot,
        plane(-2.0, 0.6),
        ((6, 20), (150, 50), (600, 50)),
        {"numba": mandelbrot_numba, "jax": mandelbrot_jax, "torch": UNROLLED},
        unlike=1e-3,
        is_loop=True,
    ),
    Program(
        julia,
        plane(-1.6, 1.6),
        ((6, 20), (150, 50), (600, 50)),
        {"numba": julia_numba, "jax": julia_jax, "torch": julia_torch},
        unlike=1e-3,
        is_loop=True,
    ),
    Program(
        asian_option,
        lambda rng, n, steps: (rng.standard_normal((n, steps)), 100.0, 100.0),
        ((4, 3), (5000, 50), (50_000, 100)),
        {"numba": asian_option_numba},
    ),
    Program(
        barrier_option,
        lambda rng, steps, n: (rng.standard_normal((steps, n)), 100.0, 95.0, 120.0),
        ((20, 10), (50, 10_000), (100, 200_000)),
        {"numba": barrier_option_numba, "jax": barrier_option_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        lotka_volterra,
        lambda rng, steps: (np.array([1.2, 0.8]), steps),
        ((20,), (2000,), (40_000,)),
        {"jax": lotka_volterra_jax, "torch": BY_ELEMENTS},
        relative_error=1e-9,
        is_loop=True,
    ),
    Program(
        newton_roots,
        lambda rng, n: (rng.uniform(0.5, 4, n), 1e-12),
        ((10,), (100_000,), (4_000_000,)),
        {"jax": newton_roots_jax},
        is_loop=True,
    ),
)
