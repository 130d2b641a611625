"""cond, while_loop, fori_loop and scan in compiled functions give what they give outside of them."""

from collections import namedtuple

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import check

Pair = namedtuple("Pair", "left right")


@pytest.fixture(autouse=True)
def as_nodes():
    """Of graphs. tests/loop_ir/test_aborting.py has the same functions as native programs."""
    with npc.config.patch(native_loops=False):
        yield


@check(graphs=1, breaks=0)
def test_cond(x, y):
    return npc.cond(x.sum() > y.sum(), lambda a: {"r": a + y, "n": a.max()}, lambda a: {"r": a * 2, "n": a.min()}, x)


@check(graphs=1, breaks=0)
def test_cond_in_cond(x, y):
    inner = lambda a: npc.cond(np.any(a > 1.9), np.sin, np.cos, a)  # noqa: E731
    return npc.cond(x[0, 0] > 1, inner, lambda a: a - y, x)


@check(graphs=1, breaks=0)
def test_while_loop(x):
    def newton(root):
        return 0.5 * (root + x / root)

    return npc.while_loop(lambda root: np.abs(root * root - x).max() > 1e-9, newton, x + 1)


@check(graphs=1, breaks=0)
def test_while_loop_of_a_named_tuple(x):
    return npc.while_loop(lambda p: p.left.sum() < 1000, lambda p: Pair(p.left * 2, p.right + 1), Pair(x + 0, np.int64(0)))


@check(np.array([3.0, 5.0]), lambda round: [4, 0][round], breaks=0)
def test_fori_loop(x, n):
    return npc.fori_loop(0, n, lambda i, c: (c[0] * x + i, c[1] - c[0]), (x + 0, np.zeros(2)))


@check(graphs=1, breaks=0)
def test_rows_and_elements_of_an_argument(x, y):
    total = npc.fori_loop(0, x.shape[0], lambda i, total: total + x[i] * y[-1 - i, 0], np.zeros(3))
    return total, npc.fori_loop(0, 2, lambda i, total: total + x[i, i + 1] + y.T[i].sum(), np.float64(0))


@check(graphs=1, breaks=0)
def test_a_carry_that_is_written(x):
    def step(i, c):
        c = c.copy()
        c[i] = c[i - 1] * 2 + 1
        return c

    return npc.fori_loop(1, 5, step, x[:, 0].repeat(2))


@check(graphs=1, breaks=0)
def test_scan(x, y):
    def step(carry, row):
        h, count = carry
        h = np.tanh(h @ y.T @ y * 0.1 + row)
        return (h, count + 1), {"h": h, "sum": h.sum(), "before": carry[0]}

    return npc.scan(step, (np.zeros(3), np.int64(0)), x)


@check(graphs=1, breaks=0)
def test_scan_backwards_over_several(x, y):
    def step(total, pair):
        return total + pair[0] * pair[1], total

    return npc.scan(step, np.zeros(4), (x.T, y.T), reverse=True)


@check(graphs=1, breaks=0)
def test_scan_without_arrays(x):
    return npc.scan(lambda c, _: (c * 0.5, c.sum()), x + 0, length=4)


@check(graphs=1, breaks=0)
def test_loop_in_loop(x):
    def outer(i, c):
        return npc.fori_loop(0, i, lambda j, d: np.sin(d) + j, c) * x

    return npc.fori_loop(0, 4, outer, x + 0)


@check()
def test_a_function_that_writes_outside(x):
    def step(i, c):
        x[0, 0] += 1
        return c + x[i]

    return npc.fori_loop(0, 2, step, np.zeros(3))


@check()
def test_a_function_that_writes_to_a_row(x):
    def step(i, c):
        row = x[i]
        row[0] = 7
        return c + row

    return npc.fori_loop(0, 2, step, np.zeros(3))


@check()
def test_a_carry_of_another_shape_is_refused(x):
    return npc.fori_loop(0, 2, lambda i, c: c.sum(axis=0), x)


@check()
def test_an_index_out_of_bounds(x):
    return npc.fori_loop(0, 9, lambda i, c: c + x[i], np.zeros(3))


@check(graphs=1, breaks=0)
def test_rows_of_a_carry(x):
    def step(i, c):
        c = c.copy()
        row = c[i]
        c[i + 1] += row * 0.5
        row[1] = 7
        column = c[:, i]
        c[0, 0] = -1
        column += row.sum()
        return c

    return npc.fori_loop(0, 3, step, x)


@check(graphs=1, breaks=0)
def test_views_of_rows(x, y):
    def step(i, c):
        square = np.zeros((4, 2, 3)) + c
        part = square[i, ::-1, 1:]
        part[0] = x[i, 1:]
        square.reshape(4, 6)[i, 3] = 8
        return c + part.T.sum() + square[:, i % 2].sum(axis=0) + y[i][None]

    return npc.fori_loop(0, 2, step, np.zeros((2, 3)))


# --- transforms


def rows(x, w):
    def step(i, c):
        c = c.copy()
        c[i + 1] += np.sin(c[i]) * x[i] * w
        return c

    return npc.fori_loop(0, x.shape[0], step, np.ones((x.shape[0] + 1, 3)) * w).sum()


X, W = np.random.default_rng(1).uniform(0.2, 1.0, (4, 3)), np.random.default_rng(2).uniform(0.2, 1.0, 3)


def slope(function, x, direction, step=1e-5):
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


def test_gradients_of_a_loop():
    direction = np.random.default_rng(3).normal(size=3)
    gradient = npc.grad(rows, 1)
    np.testing.assert_allclose(gradient(X, W) @ direction, slope(lambda w: rows(X, w), W, direction), rtol=1e-8)
    np.testing.assert_allclose(npc.hessian(rows, 1)(X, W) @ direction, slope(lambda w: gradient(X, w), W, direction), rtol=1e-6)
    batch = np.stack([X, X * 2, X - 1])
    np.testing.assert_allclose(npc.vmap(gradient, (0, None))(batch, W), [gradient(x, W) for x in batch], rtol=1e-12)


def test_gradients_of_tensors():
    def recurrence(x, w):
        return npc.scan(lambda c, row: (np.tanh(c * row + w), c), w, x)[1].sum()

    for function in (recurrence, npc.compile(recurrence)):  # on the tape, and captured
        weights = npc.tensor(W, requires_grad=True)
        function(npc.tensor(X), weights).backward()
        np.testing.assert_allclose(weights.grad.numpy(), npc.grad(recurrence, 1)(X, W), rtol=1e-12)


def test_derivatives_of_a_while_loop():
    def function(x):
        return npc.while_loop(lambda c: c.sum() < 9, lambda c: c * c + x, x + 1).sum()

    direction = np.array([0.3, -0.7])
    expected = slope(function, W[:2], direction)
    np.testing.assert_allclose(npc.grad(function)(W[:2]) @ direction, expected, rtol=1e-8)
    np.testing.assert_allclose(npc.jvp(function, (W[:2],), (direction,))[1], expected, rtol=1e-8)
    expected = slope(lambda x: npc.grad(function)(x) @ direction, W[:2], direction)
    np.testing.assert_allclose(direction @ npc.hessian(function)(W[:2]) @ direction, expected, rtol=1e-7)


def test_batched_loops_of_different_lengths():
    def collatz(n):
        def step(state):
            return np.where(state[0] % 2 == 0, state[0] // 2, 3 * state[0] + 1), state[1] + 1

        return npc.while_loop(lambda state: state[0] > 1, step, (n, np.int64(0)))[1]

    numbers = np.arange(1, 30)
    assert npc.vmap(collatz)(numbers).tolist() == [collatz(n) for n in numbers]


def python_numbers(x):
    """Python numbers are weak in the body of a loop too: the arrays decide the dtype."""
    total = npc.fori_loop(0, 4, lambda i, s: s + x * i, x)
    first = npc.fori_loop(0, 4, lambda i, s: s + np.float32(0.5), 0.0)
    pair = npc.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * s[1], s[1] + 1), (x, 1))
    rows = npc.scan(lambda c, k: (c + k, (c + k) * 0.5), 0.0, x)
    return total, first, pair[0], rows[0], rows[1]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_python_numbers_are_weak(dtype: str) -> None:
    x = np.arange(3).astype(dtype)
    for given, expected in zip(npc.compile(python_numbers, fullgraph=True)(x), python_numbers(x), strict=True):
        assert given.dtype == expected.dtype
        np.testing.assert_allclose(given, expected, rtol=1e-3)


# --- variables of other functions that are set in what a loop or branch calls: Python runs that


@check()
def test_a_body_sets_a_variable_to_what_it_is_given(x):
    seen = x

    def body(k, carry):
        nonlocal seen
        seen = carry + k
        return carry * 1.5

    return npc.fori_loop(0, 4, body, x), seen


@check()
def test_a_body_counts(x):
    n = 0

    def body(carry):
        nonlocal n
        n += 1
        return carry + 1

    return npc.while_loop(lambda carry: carry.sum() < 60, body, x), n


@check()
def test_a_condition_counts(x):
    n = 0

    def goes_on(carry):
        nonlocal n
        n += 1
        return carry.sum() < 60

    return npc.while_loop(goes_on, lambda carry: carry + 1, x), n


@check(lambda k: np.array([3.0, -4.0]) * (-1) ** k)
def test_a_branch_sets_a_variable(x):
    seen = x

    def doubled(y):
        nonlocal seen
        seen = y * 2
        return y

    return npc.cond(x.sum() > 0, doubled, lambda y: -y, x), seen


@check(graphs=1, breaks=0)
def test_a_body_sets_variables_of_its_own(x):
    def body(carry, row):
        total = row

        def add(y):
            nonlocal total
            total = total + y

        add(carry)
        add(carry)
        return total, total * 2

    return npc.scan(body, x[0], x)
