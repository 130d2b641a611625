"""The gradient through what was not taken is 0, also where its slope is infinite or NaN; and that of a norm at 0 is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.loop_gradients import LoopGradients
from npcompile.loop_questions import Question
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.transforms.reverse import gradients
from tests.ops.test_gradients import evaluate

Function = Callable[[Any], Any]
X = np.array([0.0, 1.0, 4.0])


def assigned(x):
    y = np.log(x)
    y[x == 0] = 0
    return y.sum()


def by_row(x):
    rows = x[:, None] * np.ones((3, 2))
    return np.where(rows > 0, rows * np.log(rows), 0).sum()


def under_where(x):
    return np.sum(np.log(x, where=x > 0, out=np.zeros(3)))


def extremes(x):
    return np.max(np.sqrt(x)) + np.min(np.sqrt(x) + 2 * (x == 0)) + np.maximum.accumulate(np.sqrt(x))[-1]


LOG, ROOT = np.array([0, 1, 0.25]), np.array([0, 0.5, 0.25])
# Each is differentiable at X by what it takes, though a part that it does not take is not.
AT_BORDERS: dict[str, tuple[Function, np.ndarray]] = {
    "root": (lambda x: np.where(x > 0, np.sqrt(x), 0).sum(), ROOT),
    "power": (lambda x: np.where(x > 0, x**0.5, 0).sum(), ROOT),
    "negative power": (lambda x: np.where(x > 0, x**-0.5, 0).sum(), [0, -0.5, -0.0625]),
    "power of above 1": (lambda x: np.where(x > 0, x**1.5, 0).sum(), [0, 1.5, 3]),
    "logarithm of a root": (lambda x: np.where(x > 0, np.log(np.sqrt(x)) * x, 0).sum(), [0, 0.5, 0.5 + np.log(2)]),
    "log": (lambda x: np.where(x > 0, np.log(x), 0).sum(), LOG),
    "quotient": (lambda x: np.where(x != 0, np.sin(x) / x, 1).sum(), [0, np.cos(1) - np.sin(1), np.cos(4) / 4 - np.sin(4) / 16]),
    "entropy": (lambda x: np.where(x > 0, x * np.log(x), 0).sum(), [0, 1, 1 + np.log(4)]),
    "rows": (by_row, [0, 2, 2 + 2 * np.log(4)]),
    "oscillation": (lambda x: np.where(x > 0, np.sin(1 / x), 0).sum(), [0, -np.cos(1), -np.cos(0.25) / 16]),
    "overflow": (lambda x: np.where(x > 0, x, np.exp(1000 * x)).sum(), [1000, 1, 1]),
    "select": (lambda x: np.select([x > 2, x > 0], [np.sqrt(x), np.log(x)], 0.0).sum(), [0, 1, 0.25]),
    "maximum": (lambda x: np.maximum(np.sqrt(x), 0.5).sum(), ROOT),
    "clip": (lambda x: np.clip(np.sqrt(x), 0.5, 3).sum(), ROOT),
    "extremes": (extremes, [0, 0.5, 0.5]),
    "factor": (lambda x: ((x > 0) * np.sqrt(x)).sum(), ROOT),
    "assigned": (assigned, LOG),
    "masked": (lambda x: np.log(x)[x > 0].sum(), LOG),
    "slice": (lambda x: np.log(x)[1:].sum(), LOG),
    "place": (lambda x: np.log(x)[np.array([1, 2])].sum(), LOG),
    "where=": (lambda x: np.sum(np.sqrt(x), where=x > 0), ROOT),
    "out=": (under_where, LOG),
    "nansum": (lambda x: np.nansum(np.where(x == 0, np.nan, x) * x), [0, 2, 8]),
    "nanmean": (lambda x: np.nanmean(np.log(np.where(x == 0, np.nan, x))), LOG / 2),
    "cond": (lambda x: npc.cond(x[0] > 0, np.log, lambda v: 2 * v, x[0]), [2, 0, 0]),
}


def of_tensors(f: Function, x: np.ndarray) -> np.ndarray:
    t = npc.tensor(x, requires_grad=True)
    npc.wrap_numpy(f)(t).backward()
    return t.grad.numpy()


def differences(f: Function, x: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The second derivatives along the axes that `moves` names, where the function is smooth."""
    step, found = 1e-4, np.zeros((x.size, x.size))
    axes = np.eye(x.size)[moves] * step
    for i, a in zip(moves, axes):
        for j, b in zip(moves, axes):
            found[i, j] = (f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / (4 * step * step)
    return found


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", AT_BORDERS)
def test_a_gradient_through_what_was_not_taken_is_zero(name: str, dtype: str) -> None:
    f, wanted = AT_BORDERS[name]
    x, tolerance = X.astype(dtype), {"rtol": 1e-12 if dtype == "f8" else 1e-5, "atol": 1e-12 if dtype == "f8" else 1e-6}
    with np.errstate(all="ignore"):
        for found in (npc.grad(f)(x), of_tensors(f, x)):
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, wanted, **tolerance)


@pytest.mark.parametrize("name", AT_BORDERS)
def test_second_derivatives_and_tangents_are_as_finite(name: str) -> None:
    f, first = AT_BORDERS[name]
    direction = np.array([0.0, 1.0, 2.0])
    with np.errstate(all="ignore"):
        hessian = npc.hessian(f)(X)
        tangent = npc.jvp(f, (X,), (direction,))[1]
        wanted = differences(f, X, np.array([1, 2]))
    np.testing.assert_allclose(hessian[1:, 1:], wanted[1:, 1:], atol=1e-5)
    assert np.isfinite(hessian).all()
    np.testing.assert_allclose(tangent, np.dot(first, direction), rtol=1e-12)


def hessian_of_tensors(f: Function, x: np.ndarray) -> np.ndarray:
    """Rows by a second backward, which computes and keeps no graph."""
    t = npc.tensor(x, requires_grad=True)
    npc.wrap_numpy(f)(t).backward(create_graph=True)
    gradient, rows = t.grad, []
    for k in range(x.size):
        t.grad = None
        (gradient[k] * 1.0).backward(retain_graph=True)
        rows.append(np.zeros(x.size) if t.grad is None else t.grad.numpy().copy())
    return np.array(rows)


@pytest.mark.parametrize("name", [name for name in AT_BORDERS if name != "cond"])
def test_second_derivatives_of_tensors_are_as_finite(name: str) -> None:
    f = AT_BORDERS[name][0]
    with np.errstate(all="ignore"):
        found = hessian_of_tensors(f, X)
        np.testing.assert_allclose(found, npc.hessian(f)(X), rtol=1e-12, atol=1e-14)


def test_each_row_of_a_jacobian_is_by_itself() -> None:
    """The zeros of a unit vector meet infinite slopes."""
    with np.errstate(all="ignore"):
        found = npc.jacobian(lambda x: np.sqrt(x) * x[::-1])(X)
    np.testing.assert_array_equal(found, [[np.inf, 0, 0], [0, 1.5, 0], [2, 0, 0]])


def test_batches() -> None:
    x = np.array([X, X[::-1], X])
    f, wanted = AT_BORDERS["entropy"]
    with np.errstate(all="ignore"):
        found = npc.vmap(npc.grad(f))(x)
    np.testing.assert_allclose(found, [wanted, wanted[::-1], wanted], rtol=1e-14)


def test_missing_data_says_nothing_of_parameters() -> None:
    data = np.array([1.0, np.nan, 3.0])

    def loss(mean):
        return np.where(np.isnan(data), 0, (data - mean) ** 2).sum()

    assert npc.grad(loss)(1.5) == of_tensors(loss, np.array(1.5)) == -2.0


def looped(x):
    total = 0.0
    for _ in range(3):
        total = total + np.sum(np.where(x > 0, x * np.log(x), 0))
    return total


def looped_over_arrays(x):
    total = 0.0
    for _ in range(3):
        logarithms, scaled = np.log(x), 2.0 * x
        total = total + np.sum(np.where(x > 0, scaled * (logarithms + 1.0), 0))
    return total


@pytest.mark.parametrize(
    ("function", "wanted"), [(looped, [0, 3, 3 + 3 * np.log(4)]), (looped_over_arrays, [0, 12, 12 + 6 * np.log(4)])]
)
def test_native_loops_keep_zeros_too(function: Function, wanted: list[float]) -> None:
    loops = LoopGradients(Question(0), compile_native)
    with np.errstate(all="ignore"):
        found = loops(function, (X,))  # type: ignore[arg-type]
    assert found is not None and not loops.reasons
    np.testing.assert_allclose(found[1], wanted, rtol=1e-14)


# --- norms

ZERO = np.zeros(3)
NORMS: dict[str, Function] = {
    "norm": np.linalg.norm,
    "of rows": lambda x: np.linalg.norm(x[:, None] * np.ones((3, 2)), axis=1).sum(),
    "of a matrix": lambda x: np.linalg.norm(np.outer(np.ones(2), x)),
    "of order 3": lambda x: np.linalg.norm(x, ord=3),
    "of order 1": lambda x: np.linalg.norm(x, ord=1),
    "largest": lambda x: np.linalg.norm(x, ord=np.inf),
    "of complex": lambda x: np.linalg.norm(x * (1 + 2j)),
    "absolute": lambda x: np.abs(x * 1j).sum(),
    "hypot": lambda x: np.hypot(x[0], x[1]),
    "squares": lambda x: np.sqrt(np.sum(x**2)),
    "half power": lambda x: np.sum(x * x) ** 0.5,
    "of numbers": lambda x: np.sqrt(x[0] ** 2 + x[1] ** 2 + x[2] * x[2]),
    "product": lambda x: np.sqrt(x @ x),
    "of a scan": lambda x: np.sqrt(npc.scan(lambda s, v: (s + v**2, None), 0.0, x)[0]),
    "of fori_loop": lambda x: np.sqrt(npc.fori_loop(0, 3, lambda i, s: s + x[i] ** 2, 0.0)),
    "of while_loop": lambda x: np.sqrt(
        npc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x[c[0]] ** 2), (0, 0.0))[1]
    ),
    "norm squared": lambda x: np.linalg.norm(x) ** 2,
    "std": np.std,
    "std of samples": lambda x: np.std(x + 1, ddof=1),
    "own std": lambda x: np.sqrt(np.mean((x - x.mean()) ** 2)),
    "var": np.var,
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", NORMS)
def test_the_gradient_of_a_norm_at_zero_is_zero(name: str, dtype: str) -> None:
    f, x = NORMS[name], ZERO.astype(dtype)
    with np.errstate(all="ignore"):
        for found in (npc.grad(f)(x), of_tensors(f, x)):
            np.testing.assert_array_equal(found, x)
        assert np.isfinite(npc.hessian(f)(x)).all()


@pytest.mark.parametrize("name", NORMS)
def test_elsewhere_norms_have_their_gradient(name: str) -> None:
    f, x, step = NORMS[name], np.array([0.5, -1.5, 2.25]), 1e-6
    wanted = [(f(x + d) - f(x - d)) / (2 * step) for d in np.eye(3) * step]
    np.testing.assert_allclose(npc.grad(f)(x), wanted, atol=1e-8)


def norm_by_elements(x):
    squares = 0.0
    for i in range(x.size):
        squares = squares + x[i] ** 2
    return np.sqrt(squares)


def norm_of_elements_read_twice(x):
    squares = 0.0
    for i in range(x.size):
        squares = squares + x[i] * x[i]
    return np.sqrt(squares)


def norm_of_product(x):
    total = 0.0
    for _ in range(2):
        total = total + np.sqrt(x @ x)
    return total


def deviation(x):
    total = 0.0
    for _ in range(2):
        centered = x - np.mean(x)
        total = total + np.sqrt(np.sum(centered * centered) / 3)
    return total


def distances(x):
    total = 0.0
    for i in range(x.size):
        for j in range(i):
            dx, dy = x[i] - x[j], 2.0 * (x[i] - x[j])
            total = total + np.sqrt(dx * dx + dy * dy)
    return total


def entropy_of_elements(x):
    total = 0.0
    for i in range(x.size):
        total = total + np.where(x[i] > 0, x[i] * np.log(x[i]), 0.0)
    return total


def quotients(x):
    total = 0.0
    for i in range(x.size):
        total = total + np.where(x[i] != 0, np.sin(x[i]) / x[i], 1.0)
    return total


def powers_of_elements(x):
    total = 0.0
    for i in range(x.size):
        total = total + np.where(x[i] > 0, x[i] ** 0.5 + x[i] ** -1.5, 0.0)
    return total


def larger(x):
    total = 0.0
    for i in range(x.size):
        total = total + np.maximum(np.sqrt(x[i]), 0.5)
    return total


def stored(x):
    y = np.zeros(x.size)
    for i in range(x.size):
        y[i] = np.log(x[i])
    return np.sum(np.where(x > 0, y, 0))


def deviation_of_zeros(x):
    mean, squares = 0.0, 0.0
    for i in range(x.size):
        mean = mean + 0.0 * x[i] / x.size
    for i in range(x.size):
        squares = squares + (0.0 * x[i] - mean) ** 2
    return np.sqrt(squares / x.size)


SECOND = np.array([-0.5 * 0.5, -0.5 * 0.5 / 8]), np.array([3.75, 3.75 / 4**3.5])
# The gradient and the diagonal of the Hessian at X.
IN_LOOPS: dict[Function, tuple[Any, Any]] = {
    entropy_of_elements: ([0, 1, 1 + np.log(4)], [0, 1, 0.25]),
    quotients: (AT_BORDERS["quotient"][1], [0, np.sin(1) - 2 * np.cos(1), -np.sin(4) / 4 - np.cos(4) / 8 + np.sin(4) / 32]),
    powers_of_elements: ([0, 0.5 - 1.5, 0.25 - 1.5 / 32], [0, *np.add(*SECOND)]),
    larger: (ROOT, [0, -0.25, -0.03125]),
    stored: (LOG, [0, -1, -0.0625]),
    deviation_of_zeros: (np.zeros(3), np.zeros(3)),
}


@pytest.mark.parametrize("function", IN_LOOPS)
def test_loops_give_the_same_in_every_way(function: Function) -> None:
    """Native programs, graphs, eager Tensors; and their second derivatives."""
    first, second = IN_LOOPS[function]
    compiled = npc.compile(lambda x: (npc.grad(function)(x), npc.hessian(function)(x)))
    with np.errstate(all="ignore"):
        gradients = {"native": npc.grad(function)(X), "graph": compiled(X)[0], "eager": of_tensors(function, X)}
        hessians = {"native": npc.hessian(function)(X), "graph": compiled(X)[1], "eager": hessian_of_tensors(function, X)}
    for way in gradients:
        np.testing.assert_allclose(gradients[way], first, rtol=1e-12, atol=1e-14, err_msg=way)
        np.testing.assert_allclose(hessians[way], np.diag(second), rtol=1e-12, atol=1e-14, err_msg=way)


def root_alone(x):
    total = 0.0
    for i in range(x.size):
        total = total + np.sqrt(x[i])
    return total


@pytest.mark.parametrize(
    "function", [norm_by_elements, norm_of_elements_read_twice, norm_of_product, deviation, distances, root_alone]
)
def test_norms_in_native_loops(function: Function) -> None:
    loops, x, step = LoopGradients(Question(0), compile_native), np.array([0.5, 1.5, 2.25]), 1e-6
    with np.errstate(all="ignore"):
        at_zero, elsewhere = (loops(function, (each,)) for each in (ZERO, x))  # type: ignore[arg-type]
    assert at_zero is not None and elsewhere is not None and not loops.reasons
    np.testing.assert_array_equal(at_zero[1], np.full(3, np.inf if function is root_alone else 0.0))
    wanted = [(function(x + d) - function(x - d)) / (2 * step) for d in np.eye(3) * step]
    np.testing.assert_allclose(elsewhere[1], wanted, atol=1e-8)


def test_a_root_alone_has_its_infinite_slope() -> None:
    for f in (np.sqrt, lambda x: x**0.5, lambda x: np.sqrt(x * 3.0)):
        assert npc.grad(f)(0.0) == np.inf


# --- the ops

SLOPES = np.array([np.inf, -np.inf, np.nan, 2.0, 0.0])


@pytest.mark.parametrize(("op", "plain"), [("zero_or_multiply", np.multiply), ("zero_or_divide", np.divide)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_a_zero_stays_and_the_rest_is_arithmetic(op: str, plain: np.ufunc, dtype: str) -> None:
    g = np.array([[0.0], [-0.0], [1.5], [np.nan]], dtype)
    builder = Builder()
    a, b = (builder.input(TensorMeta((4, 5), np.dtype(dtype))) for _ in range(2))
    values = np.broadcast_to(g, (4, 5)), np.broadcast_to(SLOPES.astype(dtype), (4, 5))
    (found,) = evaluate(builder, [builder.apply(op, a, b)], values)
    with np.errstate(all="ignore"):
        wanted = np.where(g == 0, 0, plain(*values))
    np.testing.assert_array_equal(found, wanted)


def test_a_program_that_chooses_nothing_has_plain_products() -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((3,), np.dtype(float))) for _ in range(2))
    out = builder.apply("multiply", builder.apply("exp", x), builder.apply("divide", x, y))
    total = builder.apply("reduce", out, reducer="add", axes=(0,))
    found = gradients(builder, [total], [builder.constant(1, total.dtype)], [x, y])
    ops = {n.op for n in builder.finish([n for n in found if n is not None]).nodes}
    assert not ops & {"zero_or_multiply", "zero_or_divide", "where"}
