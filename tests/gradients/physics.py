"""Programs of physics, dynamics and signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gradients.program import Program, positive, spread


def predation(state: Any, rates: Any) -> Any:
    prey, predators = state
    return np.stack([rates[0] * prey - rates[1] * prey * predators, rates[2] * prey * predators - rates[3] * predators])


def runge_kutta(start: Any, rates: Any) -> Any:
    """Predators and prey, four stages a step."""
    slope = lambda state: predation(state, rates)  # noqa: E731
    state, step = start, 0.1
    for _ in range(6):
        k1 = slope(state)
        k2 = slope(state + step / 2 * k1)
        k3 = slope(state + step / 2 * k2)
        k4 = slope(state + step * k3)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum(state**2)


def leapfrog(position: Any, velocity: Any, stiffness: Any) -> Any:
    step = 0.1
    for _ in range(8):
        velocity = velocity - step / 2 * stiffness * np.sin(position)
        position = position + step * velocity
        velocity = velocity - step / 2 * stiffness * np.sin(position)
    return np.sum(position**2) + 0.5 * np.sum(velocity**2)


def oscillator(x: Any, v: Any, frequency: Any, damping: Any) -> Any:
    """Float scalars carried from step to step, and the energy summed up on the way."""
    energy = 0.0
    for _ in range(20):
        v = v - 0.05 * (frequency**2 * x + damping * v)
        x = x + 0.05 * v
        energy = energy + 0.5 * v * v + 0.5 * (frequency * x) ** 2
    return energy


def fixed_point(w: Any, b: Any) -> Any:
    """Solves z = tanh(w z + b), a fixed number of iterations."""
    z = np.zeros_like(b)
    for _ in range(12):
        z = np.tanh(0.3 * w @ z + b)
    return np.sum(z**2)


def newton_root(a: Any) -> Any:
    x = np.ones_like(a)
    for _ in range(8):
        x = x - (x**3 - a) / (3 * x**2)
    return np.sum(x * np.arange(1, len(a) + 1))


def gravity(positions: Any, masses: Any) -> Any:
    between = positions[:, None, :] - positions[None, :, :]
    distance = np.sqrt(np.sum(between**2, axis=-1) + 1e-2)
    pairs = masses[:, None] * masses[None, :] / distance
    return -np.sum(np.triu(pairs, k=1))


def lennard_jones(positions: Any) -> Any:
    i, j = np.triu_indices(len(positions), 1)
    between = positions[i] - positions[j]
    inverse = 1 / np.sum(between * between, axis=1)
    return np.sum(4 * (inverse**6 - inverse**3))


def pairwise_distances(a: Any, b: Any) -> Any:
    squares = np.sum(a**2, 1)[:, None] + np.sum(b**2, 1)[None, :] - 2 * a @ b.T
    return np.sum(np.sqrt(np.maximum(squares, 1e-12)))


def heat(start: Any, conductivity: Any) -> Any:
    u = start
    for _ in range(5):
        u = u + conductivity * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return np.sum(u**2)


def heat_with_walls(start: Any) -> Any:
    """Written in place: a stencil into the inner part, walls kept."""
    u = start.copy()
    for _ in range(4):
        u[1:-1, 1:-1] += 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        u[0] = 1.0
    return np.sum(u * u)


def heat_with_walls_at(start: Any) -> Any:
    u = start
    for _ in range(4):
        change = 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        u = u.at[1:-1, 1:-1].add(change).at[0].set(1.0)
    return np.sum(u * u)


def wave_2d(u: Any, speed: Any) -> Any:
    before, now = u, u
    for _ in range(3):
        laplacian = sum(np.roll(now, s, axis) for s in (-1, 1) for axis in (0, 1)) - 4 * now
        before, now = now, 2 * now - before + speed * laplacian
    return np.mean(now**4)


def advection(u: Any, velocity: Any) -> Any:
    """Upwind: the side that a cell reads depends on the sign of the velocity."""
    for _ in range(4):
        left, right = u - np.roll(u, 1), np.roll(u, -1) - u
        u = u - 0.2 * velocity * np.where(velocity > 0, left, right)
    return np.sum(u**2)


def fourier_filter(signal: Any, gains: Any) -> Any:
    return np.sum(np.fft.irfft(np.fft.rfft(signal) * gains, n=len(signal)) ** 2)


def power_spectrum(signal: Any) -> Any:
    spectrum = np.abs(np.fft.rfft(signal * np.hanning(len(signal)))) ** 2
    share = spectrum / spectrum.sum()
    return -np.sum(share * np.log(share))


def spectral_derivative(u: Any) -> Any:
    waves = 2j * np.pi * np.fft.fftfreq(len(u), d=1 / len(u))
    slope = np.fft.ifft(waves * np.fft.fft(u)).real
    return np.sum(u * slope**2)


def blur(image: Any, kernel: Any) -> Any:
    return np.sum(np.fft.ifft2(np.fft.fft2(image) * np.fft.fft2(kernel, s=image.shape)).real ** 3)


def autocorrelation(signal: Any) -> Any:
    centered = signal - signal.mean()
    full = np.correlate(centered, centered, mode="full")
    return np.sum(full[len(signal) :] / full[len(signal) - 1])


def pendulum_energy(angles: Any, momenta: Any) -> Any:
    a, b = angles
    p, q = momenta
    kinetic = (p**2 + 2 * q**2 - 2 * p * q * np.cos(a - b)) / (2 * (1 + np.sin(a - b) ** 2))
    return kinetic - 2 * np.cos(a) - np.cos(b)


def angular_momentum(r: Any, v: Any, masses: Any) -> Any:
    return np.linalg.norm(np.sum(masses[:, None] * np.cross(r, v), axis=0))


def rotation(angles: Any, points: Any) -> Any:
    c, s = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, c[0], -s[0]], [0, s[0], c[0]]])
    about_z = np.array([[c[1], -s[1], 0], [s[1], c[1], 0], [0, 0, 1]])
    return np.sum(np.abs(points @ (about_z @ about_x).T)[:, 2])


def ising(spins: Any, couplings: Any) -> Any:
    neighbours = np.roll(spins, 1, 0) * couplings[0] + np.roll(spins, 1, 1) * couplings[1]
    return -np.sum(np.tanh(spins) * neighbours)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def bisection(a: Any) -> Any:
    """Choices by data in every iteration, none of which has a derivative but through what is chosen."""
    low, high = np.zeros_like(a), 3 * a
    for _ in range(6):
        middle = (low + high) / 2
        is_low = middle**2 < a
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.sum(low)


PROGRAMS = [
    Program(runge_kutta, lambda r: (positive(r, 2), positive(r, 4)), (0, 1)),
    Program(leapfrog, lambda r: (r.normal(size=3), r.normal(size=3), positive(r, 3)), (0, 1, 2)),
    Program(oscillator, lambda r: (r.normal(), r.normal(), r.uniform(1, 2), r.uniform(0, 1)), (0, 1, 2, 3)),
    Program(fixed_point, lambda r: (r.normal(size=(4, 4)), r.normal(size=4)), (0, 1)),
    Program(newton_root, lambda r: (positive(r, 5),)),
    Program(gravity, lambda r: (r.normal(size=(5, 3)), positive(r, 5)), (0, 1)),
    Program(lennard_jones, lambda r: (np.arange(12.0).reshape(4, 3) / 3 + r.uniform(-0.2, 0.2, (4, 3)),)),
    Program(pairwise_distances, lambda r: (r.normal(size=(4, 3)), 3 + r.normal(size=(5, 3))), (0, 1)),
    Program(heat, lambda r: (r.normal(size=8), r.uniform(0.1, 0.4)), (0, 1)),
    Program(heat_with_walls, lambda r: (r.normal(size=(5, 6)),), written=heat_with_walls_at),
    Program(wave_2d, lambda r: (r.normal(size=(4, 5)), r.uniform(0.1, 0.4)), (0, 1)),
    Program(advection, lambda r: (r.normal(size=8), spread(r, 8)), (0, 1)),
    Program(fourier_filter, lambda r: (r.normal(size=8), r.normal(size=5)), (0, 1)),
    Program(power_spectrum, lambda r: (r.normal(size=9),)),
    Program(spectral_derivative, lambda r: (r.normal(size=8),)),
    Program(blur, lambda r: (r.normal(size=(5, 4)), r.normal(size=(3, 2))), (0, 1)),
    Program(autocorrelation, lambda r: (r.normal(size=7),)),
    Program(pendulum_energy, lambda r: (r.normal(size=2), r.normal(size=2)), (0, 1)),
    Program(angular_momentum, lambda r: (r.normal(size=(4, 3)), r.normal(size=(4, 3)), positive(r, 4)), (0, 1, 2)),
    Program(rotation, lambda r: (r.normal(size=2), r.normal(size=(4, 3))), (0, 1)),
    Program(ising, lambda r: (r.normal(size=(3, 4)), r.normal(size=2)), (0, 1)),
    Program(rosenbrock, lambda r: (r.normal(size=6),)),
    Program(bisection, lambda r: (positive(r, 4),)),
]
