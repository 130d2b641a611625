"""Conditions and loops within each other, under vmap of derivatives and derivatives of vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

X = np.array([-0.7, 0.3, 0.47, 0.9, 1.6])
ONE = np.float64(1.0)


def chain(x):
    return x * 2 if 0 < x < 1 else x * x


def two_returns(x):
    if x < 0:
        return -x
    if x > 1:
        return x * x
    return x * 3


def cond_in_first_branch(x):
    return npc.cond(x > 0, lambda y: npc.cond(y < 1, lambda z: z * 2, lambda z: z * z, y), lambda y: y, x)


def cond_in_second_branch(x):
    return npc.cond(x > 0, lambda y: y + 1, lambda y: npc.cond(y < -0.5, lambda z: z * 2, lambda z: z * z, y), x)


def three_deep(x):
    return npc.cond(x > 0, lambda y: cond_in_first_branch(y - 0.4) * y, lambda y: y, x)


def functions_that_report_errors(x):
    return npc.cond(x > 0, lambda y: npc.cond(y < 1, lambda z: np.log(z * z + 1) / (z - 2), lambda z: z * z, y), lambda y: y, x)


def index_in_branch(x):
    table = np.arange(4.0)
    inner = lambda y: npc.cond(y < 1, lambda z: z * table[(z * 3).astype(int)], lambda z: z, y)  # noqa: E731
    return npc.cond(x > 0, inner, lambda y: y, x)


def cond_in_fori_loop(x):
    return npc.fori_loop(0, 3, lambda i, c: npc.cond(c > 0.5, lambda y: y * 0.5, lambda y: y + 1, c), x)


def cond_in_while_loop(x):
    return npc.while_loop(lambda c: c < 3, lambda c: npc.cond(c > 0.5, lambda y: y * 1.5, lambda y: y + 1, c), x)


def cond_in_scan(x):
    step = lambda c, y: (npc.cond(c > y, lambda a: a * 0.5, lambda a: a + 1, c), c)  # noqa: E731
    return npc.scan(step, x, np.array([0.1, 0.5, 2.0]))[0]


def fori_loop_in_cond(x):
    return npc.cond(x > 0, lambda y: npc.fori_loop(0, 3, lambda i, c: c * 1.5, y), lambda y: y, x)


def while_loop_in_cond(x):
    return npc.cond(x > 0, lambda y: npc.while_loop(lambda c: c < 5, lambda c: c * 1.5, y), lambda y: y, x)


def shrunk(x):
    """Never ends for negative numbers, of which no branch here takes one."""
    return npc.while_loop(lambda c: c < 5, lambda c: c * 1.5, x) * 0.3


def while_loop_in_fori_loop_in_cond(x):
    return npc.cond(x > 0, lambda y: npc.fori_loop(0, 2, lambda i, c: shrunk(c), y), lambda y: y, x)


def while_loop_in_scan_in_cond(x):
    step = lambda c, e: (shrunk(c) * e, c)  # noqa: E731
    return npc.cond(x > 0, lambda y: npc.scan(step, y, np.array([1.0, 2.0]))[0], lambda y: y, x)


def while_loop_in_checkpoint_in_cond(x):
    return npc.cond(x > 0, lambda y: npc.checkpoint(shrunk)(y), lambda y: y, x)


def while_loop_in_branches_that_all_take(x):
    always = np.sum(np.arange(3)) > 0
    return npc.cond(x > 0, lambda y: npc.cond(always, shrunk, lambda z: z, y), lambda y: y, x)


def while_loop_where_a_loop_goes_on(x):
    """The inner loop never ends for what the outer one ends with."""
    inner = lambda c: npc.while_loop(lambda d: d * d < 4, lambda d: d * 0 + 3.0 * d, c)  # noqa: E731
    return npc.while_loop(lambda c: (c != 0) & (c * c < 9), lambda c: npc.cond(c * c < 1, lambda d: d * 0, inner, c), x)


def scan_in_cond(x):
    return npc.cond(x > 0, lambda y: npc.scan(lambda c, e: (c * e * c, c), y, np.array([1.0, 2.0]))[0], lambda y: y, x)


def while_loop_in_while_loop(x):
    return npc.while_loop(lambda c: c < 5, lambda c: npc.while_loop(lambda d: d < 2, lambda d: d + 1.0, c) * 1.7, x)


def while_loop_in_fori_loop(x):
    return npc.fori_loop(0, 3, lambda i, c: npc.while_loop(lambda d: d < 2, lambda d: d + 1.0, c) * 0.7, x)


def cond_in_checkpoint(x):
    return npc.checkpoint(cond_in_first_branch)(x) * x


def checkpoint_in_cond(x):
    return npc.cond(x > 0, lambda y: npc.checkpoint(cond_in_first_branch)(y), lambda z: z * z, x)


CONDITIONS = [
    *(chain, two_returns, cond_in_first_branch, cond_in_second_branch, three_deep, functions_that_report_errors),
    *(index_in_branch, fori_loop_in_cond, scan_in_cond, cond_in_checkpoint, checkpoint_in_cond, cond_in_fori_loop, cond_in_scan),
]
LOOPS = [
    *(cond_in_while_loop, while_loop_in_cond, while_loop_in_while_loop, while_loop_in_fori_loop),
    *(while_loop_in_fori_loop_in_cond, while_loop_in_scan_in_cond, while_loop_in_checkpoint_in_cond),
    *(while_loop_in_branches_that_all_take, while_loop_where_a_loop_goes_on),
]


def slopes(f: Callable, xs: np.ndarray, step: float = 1e-6) -> np.ndarray:
    return np.array([(f(x + step) - f(x - step)) / (2 * step) for x in xs])


def curvatures(f: Callable, xs: np.ndarray, step: float = 1e-4) -> np.ndarray:
    return np.array([(f(x + step) - 2 * f(x) + f(x - step)) / step**2 for x in xs])


def values(f: Callable, xs: np.ndarray) -> np.ndarray:
    return np.array([f(x) for x in xs])


TRANSFORMS: dict[str, tuple[Callable, Callable]] = {
    "vmap": (lambda f, x: npc.vmap(f)(x), values),
    "vmap of vmap": (lambda f, x: npc.vmap(npc.vmap(f))(np.stack([x, x]))[1], values),
    "vmap of grad": (lambda f, x: npc.vmap(npc.grad(f))(x), slopes),
    "grad of vmap": (lambda f, x: npc.grad(lambda y: np.sum(npc.vmap(f)(y)))(x), slopes),
    "vmap of jvp": (lambda f, x: npc.vmap(lambda y: npc.jvp(f, (y,), (ONE,))[1])(x), slopes),
    "jvp of vmap": (lambda f, x: npc.jvp(npc.vmap(f), (x,), (np.ones(5),))[1], slopes),
    "jacobian of vmap": (lambda f, x: np.diag(npc.jacobian(npc.vmap(f))(x)), slopes),
}
SECOND: dict[str, tuple[Callable, Callable]] = {
    "vmap of grad of grad": (lambda f, x: npc.vmap(npc.grad(npc.grad(f)))(x), curvatures),
    "hessian of vmap": (lambda f, x: np.diag(npc.hessian(lambda y: np.sum(npc.vmap(f)(y)))(x)), curvatures),
}


def check(f: Callable, call: Callable, reference: Callable) -> None:
    """As one graph, which NumPy runs."""
    found = npc.compile(lambda x: call(f, x), backend="eager", fullgraph=True)(X)
    np.testing.assert_allclose(found, reference(f, X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("f", [*CONDITIONS, *LOOPS], ids=lambda f: f.__name__)
def test_first_derivatives(f: Callable, name: str) -> None:
    check(f, *TRANSFORMS[name])


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("f", CONDITIONS, ids=lambda f: f.__name__)
def test_second_derivatives(f: Callable, name: str) -> None:
    check(f, *SECOND[name])


@pytest.mark.parametrize("f", [chain, two_returns, three_deep, cond_in_fori_loop], ids=lambda f: f.__name__)
def test_compiled(f: Any) -> None:
    np.testing.assert_allclose(npc.vmap(f)(X), values(f, X), rtol=1e-12)
    np.testing.assert_allclose(npc.vmap(npc.grad(f))(X), slopes(f, X), rtol=1e-6)


def test_loops_without_results() -> None:
    """A derivative that nothing of a loop or branch has a part in makes no node."""
    steps = lambda i, c: c + npc.cond(c > 0.5, lambda y: np.sign(y), lambda y: y * 0, c)  # noqa: E731

    def f(x):
        return npc.fori_loop(0, 3, steps, x) * x

    np.testing.assert_allclose(npc.grad(npc.grad(f))(np.float64(0.7)), 2.0)
