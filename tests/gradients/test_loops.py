"""Long Python loops with gradients: one node of the graph, whatever the number of iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function


def repeated(x):
    for _ in range(40):
        x = np.sin(x) * 1.1
    return x.sum()


def with_counter(x):
    total, n = 0.0, 0
    for i in range(3, 60, 2):
        total = total + np.sum(np.cos(x * i))
        n += 1
    return total * n + x[0] * i


def runge_kutta(y):
    def slope(y):
        return np.array([y[1], -np.sin(y[0]), y[2] * 0.1])

    dt = 0.05
    for _ in range(100):
        a = slope(y)
        b = slope(y + dt / 2 * a)
        c = slope(y + dt / 2 * b)
        y = y + dt / 6 * (a + 2 * b + 2 * c + slope(y + dt * c))
    return np.sum(y * y)


def prefix(x):
    out = np.empty(40)
    out[0] = x[0]
    for i in range(1, 40):
        out[i] = out[i - 1] * x[1] + np.sin(x[2] * i)
    return np.sum(out)


def rows(x):
    state = np.zeros(3)
    for row in np.outer(np.arange(30.0), x):
        state = state * 0.9 + np.tanh(row)
    return np.sum(state) + np.sum(row)


def several(x):
    position, speed = x.copy(), np.zeros(3)
    history = np.zeros((50, 3))
    for i in range(50):
        speed -= 0.1 * position
        position += 0.1 * speed
        history[i] = position
    return np.sum(history**2)


def nested(x):
    total = 0.0
    for i in range(20):
        for j in range(20):
            total = total + np.sum(np.sin(x * i + j))
    return total


def pair(x):
    state = (x, x * 2)
    for _ in range(30):
        state = (state[1] * 0.9, state[0] + np.sin(state[1]))
    return np.sum(state[0] * state[1])


def held_elsewhere(x):
    total = np.zeros(3)
    held = total
    for k in range(20):
        total += x * k
    return np.sum(held * x)


def swapped(x):
    a, b = x * 1, x * 2
    for _ in range(21):
        b[1:] = a[:-1] * 0.9
        a, b = b, a
    return np.sum(a * b * x)


def view_anew(x):
    a = x * 1
    for k in range(20):
        v = a[:2]
        a[0] += k * x[1]
    return np.sum(v * x[1:])


PROGRAMS = (repeated, with_counter, runge_kutta, prefix, rows, several, nested, pair, held_elsewhere, swapped, view_anew)


def differences(f: Callable, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    unit = np.eye(x.size)
    return np.array([(f(x + step * u) - f(x - step * u)) / (2 * step) for u in unit])


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable) -> None:
    x = np.array([0.3, 0.5, 0.7])
    value, gradient = npc.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12)
    np.testing.assert_allclose(gradient, differences(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_of_tensors(f: Callable) -> None:
    x = npc.tensor([0.3, 0.5, 0.7], requires_grad=True)
    result = npc.compile(npc.wrap_numpy(f), fullgraph=True)(x)
    result.backward()
    np.testing.assert_allclose(x.grad.numpy(), npc.grad(f)(np.array([0.3, 0.5, 0.7])), rtol=1e-10)


@pytest.mark.parametrize("f", [repeated, prefix, pair], ids=lambda f: f.__name__)
def test_second_derivatives_and_batches(f: Callable) -> None:
    x = np.array([0.3, 0.5, 0.7])
    hessian = npc.hessian(f)(x)
    expected = np.array([(npc.grad(f)(x + u) - npc.grad(f)(x - u)) / 2e-6 for u in 1e-6 * np.eye(3)])
    np.testing.assert_allclose(hessian, expected, rtol=1e-4, atol=1e-5)
    many = np.stack([x, x * 2])
    np.testing.assert_allclose(npc.vmap(f)(many), [f(row) for row in many], rtol=1e-12)


def test_any_number_of_iterations_is_one_program() -> None:
    @npc.compile
    def steps(x, n):
        for _ in range(n):
            x = np.sin(x) * 1.1
        return x.sum()

    for n in (20, 40, 60, 1000):
        x = npc.tensor([0.3, 0.5], requires_grad=True)
        steps(x, n).backward()
        y = npc.tensor([0.3, 0.5], requires_grad=True)
        eager = y
        for _ in range(n):
            eager = np.sin(eager) * 1.1
        eager.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9)
    assert len(compiled_function(steps).points) == 1 and len(compiled_function(steps).graphs) == 2


@pytest.mark.parametrize("count", [20, 64, 200])
def test_lists_that_a_loop_fills(count: int) -> None:
    """Such a loop is no node: it is unrolled, and a longer one runs on eager Tensors."""

    def collects(x):
        kept = []
        for i in range(count):
            kept.append(np.sin(x * i / count))
        return np.sum(np.stack(kept))

    x = np.array([0.3, 0.5])
    expected = sum(np.cos(x * i / count) * i / count for i in range(count))
    np.testing.assert_allclose(npc.grad(collects)(x), expected, rtol=1e-10)


def swapped_and_held(x):
    a, b = x * 1, x * 2
    held = a
    for _ in range(20):
        b[1:] = a[:-1] * 0.5
        a, b = b, a
    return np.sum(held * x)


def rows_that_change(x):
    table, total = np.outer(np.arange(20.0), x), x * 0
    for row in table:
        total = total + row
        table[-1] += 1
    return np.sum(total)


def view_that_is_read(x):
    a = x * 1
    v = a[1:]
    for k in range(20):
        a[0] += v[0]
        v = a[1:] if k % 2 else a[:-1]
    return np.sum(v)


@pytest.mark.parametrize("f", [swapped_and_held, rows_that_change, view_that_is_read], ids=lambda f: f.__name__)
def test_memory_that_several_variables_show(f: Callable) -> None:
    """Carries are values: such a loop is no node, and eager Tensors have its gradient."""
    x = np.array([0.3, 0.5, 0.7])
    np.testing.assert_allclose(npc.grad(f)(x), differences(f, x), rtol=1e-6)
    np.testing.assert_allclose(npc.compile(f)(x.copy()), f(x.copy()), rtol=1e-12)


def test_a_loop_that_data_ends_early_runs_on_tensors() -> None:
    def stops(x):
        for _ in range(20):
            if x.sum() > 10:
                break
            x = x * 1.5
        return x.sum()

    np.testing.assert_allclose(npc.grad(stops)(np.ones(2)), [1.5**4] * 2)
