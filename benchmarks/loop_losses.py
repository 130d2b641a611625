"""Losses with loops, in plain NumPy: the problems that ADBench names, filters, splines, control, recurrent networks.

The objective functions are written here from their definitions. Each of LOSSES has arguments, and the positions of those that a
gradient is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Loss:
    function: Callable[..., Any]
    arguments: Callable[[], Arguments]
    argnums: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        return self.function.__name__


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) + 0.5


# --- the likelihood of a mixture of Gaussians, whose precisions are given by triangular matrices


def log_sum_exp(x):
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def mixture(alphas, means, factors, x, gamma):
    n, d = x.shape
    k = alphas.size
    total = 0.0
    for i in range(n):
        terms = np.empty(k)
        for j in range(k):
            centered = x[i] - means[j]
            squares, place = 0.0, d
            for r in range(d):
                product = np.exp(factors[j, r]) * centered[r]
                for c in range(r):
                    product = product + factors[j, place] * centered[c]
                    place += 1
                squares = squares + product * product
            terms[j] = alphas[j] + np.sum(factors[j, :d]) - 0.5 * squares
        total = total + log_sum_exp(terms)
    prior = 0.0
    for j in range(k):
        diagonal = np.exp(factors[j, :d])
        prior = prior + 0.5 * gamma * gamma * (np.sum(diagonal**2) + np.sum(factors[j, d:] ** 2)) - np.sum(factors[j, :d])
    return total - n * log_sum_exp(alphas) + prior


# --- bundle adjustment: the error of points that cameras with a distorting lens see


def rotated(rotation, x):
    square = np.sum(rotation**2)
    if square != 0:
        angle = np.sqrt(square)
        axis = rotation / angle
        along = np.dot(axis, x) * (1.0 - np.cos(angle))
        return x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along
    return x + np.cross(rotation, x)


def seen_at(camera, x):
    moved = rotated(camera[0:3], x - camera[3:6])
    flat = moved[0:2] / moved[2]
    square = np.sum(flat**2)
    flat = flat * (1.0 + camera[9] * square + camera[10] * square * square)
    return flat * camera[6] + camera[7:9]


def bundle(cameras, points, weights, which, measured):
    error = 0.0
    for p in range(which.shape[0]):
        residual = weights[p] * (seen_at(cameras[which[p, 0]], points[which[p, 1]]) - measured[p])
        error = error + np.sum(residual**2)
        error = error + (1.0 - weights[p] ** 2) ** 2
    return error


# --- a long short-term memory whose gates have a weight for each unit


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def cell_step(weight, bias, hidden, cell, given):
    b = hidden.size
    forget = sigmoid(given * weight[:b] + bias[:b])
    enter = sigmoid(hidden * weight[b : 2 * b] + bias[b : 2 * b])
    leave = sigmoid(given * weight[2 * b : 3 * b] + bias[2 * b : 3 * b])
    change = np.tanh(hidden * weight[3 * b :] + bias[3 * b :])
    cell = cell * forget + enter * change
    return leave * np.tanh(cell), cell


def memory(weights, biases, ends, state, sequence):
    """`state` holds the hidden and the cell units of each layer, `ends` what is done to the first input and the last output."""
    layers = weights.shape[0]
    state = state.copy()
    total, count = 0.0, 0
    given = sequence[0]
    for t in range(sequence.shape[0] - 1):
        x = given * ends[0]
        for k in range(layers):
            hidden, cell = cell_step(weights[k], biases[k], state[2 * k], state[2 * k + 1], x)
            state[2 * k] = hidden
            state[2 * k + 1] = cell
            x = hidden
        predicted = x * ends[1] + ends[2]
        normed = predicted - np.log(np.sum(np.exp(predicted)) + 2.0)
        total = total + np.sum(sequence[t + 1] * normed)
        count += 1
        given = sequence[t + 1]
    return -total / count


# --- a hand whose bones turn: how far its skin is from points that were measured


def turned(angles):
    (sx, sy, sz), (cx, cy, cz) = np.sin(angles), np.cos(angles)
    x = np.array([[1.0, 0.0, 0.0], [0.0, cx, -sx], [0.0, sx, cx]])
    y = np.array([[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]])
    z = np.array([[cz, -sz, 0.0], [sz, cz, 0.0], [0.0, 0.0, 1.0]])
    return z @ (y @ x)


def hand(pose, base, parents, weights, vertices, which, measured):
    """`pose` has three angles for each bone, `base` the place of each relative to its parent."""
    bones = parents.size
    transforms = np.zeros((bones, 4, 4))
    for k in range(bones):
        own = np.eye(4)
        own[:3, :3] = turned(pose[k])
        own = base[k] @ own
        if parents[k] < 0:
            transforms[k] = own
        else:
            transforms[k] = transforms[parents[k]] @ own
    error = 0.0
    for p in range(which.size):
        place = np.zeros(4)
        for k in range(bones):
            place = place + weights[k, which[p]] * (transforms[k] @ vertices[:, which[p]])
        difference = measured[p] - place[:3]
        error = error + np.sum(difference * difference)
    return error


# --- filters, splines, control


def kalman(transition, noise, observed, seen):
    """Minus the logarithm of the likelihood of `seen`, whose hidden state has two parts."""
    state, covariance, total = np.zeros(2), np.eye(2), 0.0
    for t in range(seen.size):
        state = transition @ state
        covariance = transition @ covariance @ transition.T + noise * np.eye(2)
        gap = seen[t] - observed @ state
        spread = observed @ covariance @ observed + 0.5
        gain = covariance @ observed / spread
        state = state + gain * gap
        covariance = covariance - np.outer(gain, observed @ covariance)
        total = total + 0.5 * (np.log(spread) + gap * gap / spread)
    return total


def kalman_matrices(transition, noise, observed, seen):
    """The same for several observations at once, with the inverse of a matrix."""
    n = transition.shape[0]
    state, covariance, total = np.zeros(n), np.eye(n), 0.0
    for t in range(seen.shape[0]):
        state = transition @ state
        covariance = transition @ covariance @ transition.T + noise
        gap = seen[t] - observed @ state
        spread = observed @ covariance @ observed.T + np.eye(seen.shape[1])
        gain = np.linalg.solve(spread, observed @ covariance).T
        state = state + gain @ gap
        covariance = covariance - gain @ observed @ covariance
        total = total + 0.5 * gap @ np.linalg.solve(spread, gap)
    return total


def spline(x, y, at):
    """The sum of a natural cubic spline's values: its second derivatives solve a tridiagonal system."""
    n = x.size
    h = x[1:] - x[:-1]
    upper, right, second = np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(1, n - 1):
        slope = 6.0 * ((y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1])
        pivot = 2.0 * (h[i - 1] + h[i]) - h[i - 1] * upper[i - 1]
        upper[i] = h[i] / pivot
        right[i] = (slope - h[i - 1] * right[i - 1]) / pivot
    for i in range(n - 2, 0, -1):
        second[i] = right[i] - upper[i] * second[i + 1]
    total, k = 0.0, 0
    for p in at:
        while k < n - 2 and x[k + 1] < p:
            k += 1
        a, b = (x[k + 1] - p) / h[k], (p - x[k]) / h[k]
        cubes = ((a**3 - a) * second[k] + (b**3 - b) * second[k + 1]) * h[k] * h[k] / 6.0
        total = total + a * y[k] + b * y[k + 1] + cubes
    return total


def heat_control(control, start, target):
    """The distance from a target of what a rod's temperature becomes, whose ends a control heats at each step."""
    u = start.copy()
    for t in range(control.shape[0]):
        u[0] = control[t, 0]
        u[-1] = control[t, 1]
        u[1:-1] = u[1:-1] + 0.3 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum((u - target) ** 2) + 0.01 * np.sum(control**2)


def exponential(a):
    """The sum of a matrix exponential, by its series and squaring."""
    squarings = 8
    scaled = a / 2.0**squarings
    term = np.eye(a.shape[0])
    total = np.eye(a.shape[0])
    for k in range(1, 9):
        term = term @ scaled / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return np.sum(total)


# --- recurrent networks


def recurrent(w, u, b, x):
    h, total = np.zeros(b.size), 0.0
    for t in range(x.shape[0]):
        h = np.tanh(w @ h + u @ x[t] + b)
        total = total + np.sum(h**2)
    return total / x.shape[0]


def long_short(w, u, b, x):
    """Long short-term memory with full matrices: the four gates are rows of one product."""
    n = b.size // 4
    h, c, total = np.zeros(n), np.zeros(n), 0.0
    for t in range(x.shape[0]):
        gates = w @ h + u @ x[t] + b
        c = sigmoid(gates[:n]) * c + sigmoid(gates[n : 2 * n]) * np.tanh(gates[2 * n : 3 * n])
        h = sigmoid(gates[3 * n :]) * np.tanh(c)
        total = total + np.sum(h**2)
    return total / x.shape[0]


def softmax_states(logits, emission, seen):
    """A hidden Markov model in logarithms: rows and columns of small matrices."""
    now = logits[0] - log_sum_exp(logits[0])
    for t in range(seen.size):
        joint = now[:, None] + logits
        largest = joint.max(axis=0)
        now = largest + np.log(np.exp(joint - largest).sum(axis=0)) + emission[:, seen[t]]
    return log_sum_exp(now)


def clipped_walk(steps, low):
    """Where a walk with walls and rests ends."""
    place = np.zeros(steps.shape[1])
    total = 0.0
    for step in steps:
        place = np.where(place > low, place + step, place - 0.5 * step)
        place = np.clip(np.maximum(place, -1.0), -0.9, 0.9)
        total += np.linalg.norm(place - 0.1) + np.abs(place).max()
    return total


def choices(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, shape)


def small_matrix(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, n)) / (2.0 * n)


def poses(bones: int) -> Arguments:
    base = np.tile(np.eye(4), (bones, 1, 1))
    base[:, 0, 3] = numbers(bones)
    vertices = np.vstack([numbers(3, 30, seed=1), np.ones((1, 30))])
    weights = numbers(bones, 30, seed=2)
    parents = np.arange(bones) - 1
    weights /= weights.sum(axis=0)
    return 0.3 * numbers(bones, 3), base, parents, weights, vertices, choices(30, 20), numbers(20, 3, seed=3)


def cameras(count: int, points: int, seen: int) -> Arguments:
    rng = np.random.default_rng(4)
    made = rng.normal(size=(count, 11)) * 0.1
    made[:, 6], made[:, 5] = 2.0, -5.0
    which = np.stack([rng.integers(0, count, seen), rng.integers(0, points, seen)], axis=1)
    return made, rng.normal(size=(points, 3)), numbers(seen), which, rng.normal(size=(seen, 2))


def mixed(parts: int, d: int, points: int) -> Arguments:
    factors = 0.3 * numbers(parts, d * (d + 1) // 2, seed=2)
    return numbers(parts), numbers(parts, d, seed=1), factors, numbers(points, d, seed=3), 1.0


def remembered(layers: int, units: int, steps: int) -> Arguments:
    weights, biases = 0.3 * numbers(layers, 4 * units), numbers(layers, 4 * units, seed=1)
    return weights, biases, numbers(3, units, seed=2), numbers(2 * layers, units, seed=3), numbers(steps, units, seed=4)


LOSSES = [
    Loss(mixture, lambda: mixed(5, 4, 50), (0, 1, 2)),
    Loss(bundle, lambda: cameras(5, 20, 60), (0, 1, 2)),
    Loss(memory, lambda: remembered(2, 14, 30), (0, 1, 2)),
    Loss(hand, lambda: poses(6)),
    Loss(kalman, lambda: (0.8 * np.eye(2) + 0.1, 0.1, np.array([1.0, 0.5]), numbers(1000)), (0, 1)),
    Loss(kalman_matrices, lambda: (0.7 * np.eye(4), 0.1 * np.eye(4), numbers(2, 4), numbers(200, 2)), (0, 1)),
    Loss(spline, lambda: (np.cumsum(numbers(1000)), numbers(1000), np.cumsum(numbers(900)) + 1.0), (0, 1)),
    Loss(heat_control, lambda: (numbers(500, 2), numbers(200), np.ones(200))),
    Loss(exponential, lambda: (small_matrix(20),)),
    Loss(recurrent, lambda: (small_matrix(32), numbers(32, 8) / 8, numbers(32), numbers(1000, 8)), (0, 1, 2)),
    Loss(long_short, lambda: (np.vstack([small_matrix(32)] * 4), numbers(128, 8) / 8, numbers(128), numbers(1000, 8)), (0, 1, 2)),
    Loss(softmax_states, lambda: (numbers(8, 8), numbers(8, 20, seed=1), choices(20, 500)), (0, 1)),
    Loss(clipped_walk, lambda: (numbers(300, 6) - 1.0, 0.2), (0, 1)),
]
