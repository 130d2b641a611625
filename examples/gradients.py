"""Gradients through NumPy code: a small network trained three ways, with the same steps.

Run it: python examples/gradients.py
"""

from __future__ import annotations

import itertools

import numpy as np

import npcompile as npc

RATE = 0.01


def predict(parameters, x):
    for w, b in parameters[:-1]:
        x = np.tanh(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def loss(parameters, x, y):
    return np.mean((predict(parameters, x) - y) ** 2)


@npc.compile
def step(parameters, x, y, rate):
    """Forward, backward and update in one compiled call. NumPy arrays in, the same arrays changed in place."""
    value, gradient = npc.value_and_grad(loss)(parameters, x, y)
    for layer, change in zip(parameters, gradient):
        for p, g in zip(layer, change):
            p -= rate * g
    return value


@npc.compile
def tensor_step(layers, x, y, rate):
    """The same with Tensors, `backward()` and `.grad`."""
    error = loss(layers, x, y)
    error.backward()
    with npc.no_grad():
        for layer in layers:
            for p in layer:
                p -= rate * p.grad
                p.grad = None
    return error


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (256, 1))
    y = np.sin(x)
    sizes = (1, 32, 32, 1)
    start = [(rng.normal(size=(m, n)) / np.sqrt(m), np.zeros(n)) for m, n in itertools.pairwise(sizes)]

    arrays = [(w.copy(), b.copy()) for w, b in start]
    tensors = [(npc.tensor(w, requires_grad=True), npc.tensor(b, requires_grad=True)) for w, b in start]
    wrapped = npc.compile(npc.wrap_numpy(loss), fullgraph=True)  # NumPy code, called with Tensors
    leaves = [(npc.tensor(w, requires_grad=True), npc.tensor(b, requires_grad=True)) for w, b in start]
    inputs = npc.from_numpy(x), npc.from_numpy(y)

    for epoch in range(201):
        first = step(arrays, x, y, RATE)
        second = tensor_step(tensors, *inputs, RATE)
        third = wrapped(leaves, *inputs)
        third.backward()
        with npc.no_grad():
            for layer in leaves:
                for p in layer:
                    p -= RATE * p.grad
                    p.grad = None
        if epoch % 50 == 0:
            print(f"step {epoch:3}: loss {first:.6f} (arrays) {second.item():.6f} (Tensors) {third.item():.6f} (wrapped)")
    np.testing.assert_allclose(second.item(), first, rtol=1e-8)
    np.testing.assert_allclose(third.item(), first, rtol=1e-8)

    x0 = np.array([0.5, -1.0])
    bowl = lambda v: np.sum(v**4) + v[0] * v[1]  # noqa: E731
    print("gradient", npc.grad(bowl)(x0), "hessian", npc.hessian(bowl)(x0).tolist())
    print("gradients of a batch", npc.vmap(npc.grad(bowl))(np.stack([x0, 2 * x0])).tolist())
    print("All three took the same steps.")


if __name__ == "__main__":
    main()
