"""A model of predators and prey, fitted to counts: the gradient goes through the Runge-Kutta steps.

python examples/ode_fit.py [--quick]
"""

import argparse

import numpy as np
from scipy.optimize import minimize
from timing import show

import npcompile as npc


def simulate(parameters, steps, dt):
    """Prey and predators after each step of the classical Runge-Kutta method (rows: prey, predators)."""
    a, b, c, d = parameters[0], parameters[1], parameters[2], parameters[3]
    counts = np.zeros((2, steps))
    x, y = 10.0, 5.0
    for k in range(steps):
        x1, y1 = a * x - b * x * y, c * x * y - d * y
        u, v = x + 0.5 * dt * x1, y + 0.5 * dt * y1
        x2, y2 = a * u - b * u * v, c * u * v - d * v
        u, v = x + 0.5 * dt * x2, y + 0.5 * dt * y2
        x3, y3 = a * u - b * u * v, c * u * v - d * v
        u, v = x + dt * x3, y + dt * y3
        x4, y4 = a * u - b * u * v, c * u * v - d * v
        x = x + dt * (x1 + 2.0 * x2 + 2.0 * x3 + x4) / 6.0
        y = y + dt * (y1 + 2.0 * y2 + 2.0 * y3 + y4) / 6.0
        counts[0, k], counts[1, k] = x, y
    return counts


def loss(parameters, seen, dt):
    found, total = simulate(parameters, seen.shape[1], dt), 0.0
    for i in range(2):
        for k in range(seen.shape[1]):
            total = total + (found[i, k] - seen[i, k]) ** 2
    return total / seen.size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short time")
    given = parser.parse_args()
    steps, truth = 200 if given.quick else 2_000, np.array([1.1, 0.4, 0.1, 0.4])
    noise = np.random.default_rng(0).normal(0, 0.05, (2, steps))
    seen = simulate(truth, steps, 0.01) + noise
    begin = np.array([1.0, 0.35, 0.12, 0.45])

    gradient = npc.value_and_grad(loss)
    show("the loss, plain Python", loss, begin, seen, 0.01, times=5)
    show("with gradient, first", gradient, begin, seen, 0.01)
    show("with gradient", gradient, begin, seen, 0.01, times=9)
    fit = show("the whole fit", lambda: minimize(gradient, begin, args=(seen, 0.01), jac=True, method="L-BFGS-B"))
    assert fit.fun < 0.0026 * 1.1, fit
    print("parameters", fit.x.round(3), "of", truth)


if __name__ == "__main__":
    main()
