"""Derivatives of scipy.special's functions, against differences and formulas, and through every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

import npcompile as npc
from npcompile.tensor_core.ops.special import DERIVATIVES, function_of

# The operands that there is no derivative for.
ORDERS = dict.fromkeys(["gammainc", "gammaincc", "stdtr", "jv", "yv", "iv", "kv", "ive", "kve", "_zeta"], (0,))
ORDERS |= dict.fromkeys(["betainc", "betaincc"], (0, 1))
ORDERS |= dict.fromkeys(["boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p", "ellipkinc", "ellipeinc"], (1,))
STEP = 1e-5


def samples(name: str, shape: tuple[int, ...] = (5,)) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    function = function_of(name)
    assert function is not None
    return [rng.uniform(0.2, 0.8, shape) + (name == "_zeta") for _ in range(function.nin)]


def total(name: str, place: int, operands: list[np.ndarray]) -> Callable[[Any], Any]:
    """Of all results, as a function of the operand at `place`."""
    function = function_of(name)

    def of(x: Any) -> Any:
        made = function(*operands[:place], x, *operands[place + 1 :])
        return sum(made[1:], made[0]) if isinstance(made, tuple) else made

    return of


def difference(function: Callable[[Any], Any], x: Any) -> Any:
    """By four points, to the fourth power of the step."""
    near, far = (function(x + k * STEP) - function(x - k * STEP) for k in (1, 2))
    return (8 * near - far) / (12 * STEP)


def differentiated() -> list[tuple[str, int]]:
    return [(name, place) for name in DERIVATIVES for place in range(len(samples(name))) if place not in ORDERS.get(name, ())]


@pytest.mark.parametrize(("name", "place"), differentiated())
def test_rules_are_right(name: str, place: int) -> None:
    operands = samples(name)
    function = total(name, place, operands)
    derivative = npc.vmap(npc.grad(function)) if len(operands) == 1 else npc.grad(lambda x: np.sum(function(x)))
    found = derivative(operands[place])
    np.testing.assert_allclose(found, difference(function, operands[place]), rtol=3e-9, atol=1e-9)
    assert found.dtype == np.float64


@pytest.mark.parametrize("name", ["erf", "gammaln", "psi", "expit", "ndtr", "log_ndtr", "j0", "i0e", "k1", "logit", "exp1"])
def test_second_derivatives(name: str) -> None:
    (x,) = samples(name)
    first = npc.grad(lambda x: np.sum(function_of(name)(x)))  # type: ignore[misc]
    second = npc.grad(lambda x: np.sum(first(x)))(x)
    np.testing.assert_allclose(second, difference(first, x), rtol=3e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "place"), [(name, k) for name, places in ORDERS.items() for k in places])
def test_what_has_no_formula_is_said(name: str, place: int) -> None:
    operands = samples(name)
    with pytest.raises(npc.GraphBreakError, match="with respect to"):
        npc.grad(lambda x: np.sum(total(name, place, operands)(x)))(operands[place])


def test_a_function_without_a_row_is_said() -> None:
    with pytest.raises(npc.GraphBreakError, match="struve has no derivative"):
        npc.grad(lambda x: np.sum(special.struve(1, x)))(np.array([0.25, 0.5]))


AWAY: dict[str, tuple[list[float], Callable[[Any], Any]]] = {
    "erf": ([-6.0, 0.0, 1e-300, 5.0], lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x)),
    "log_ndtr": ([-1e5, -40.0, 0.0, 8.0], lambda x: mpmath.npdf(x) / mpmath.ncdf(x)),
    "expit": ([-700.0, -30.0, 30.0, 700.0], lambda x: mpmath.exp(-x) / (1 + mpmath.exp(-x)) ** 2),
    "gammaln": ([-2.5, 1e-8, 170.0, 1e10], mpmath.digamma),
    "psi": ([-1.5, 1e-3, 50.0, 1e8], lambda x: mpmath.polygamma(1, x)),
    "j1": ([-3.0, 0.0, 20.0], lambda x: mpmath.besselj(1, x, derivative=1)),
    "i1": ([-3.0, 0.0, 20.0], lambda x: (mpmath.besseli(0, x) + mpmath.besseli(2, x)) / 2),
    "ellipk": ([-9.0, 0.0, 1e-12, 0.999], lambda m: mpmath.diff(mpmath.ellipk, m)),
    "ellipe": ([-9.0, 0.0, 1e-12, 0.999], lambda m: mpmath.diff(mpmath.ellipe, m)),
    "spence": ([0.5, 1.0, 4.0], lambda x: -mpmath.mpf(1) if x == 1 else mpmath.log(x) / (1 - x)),
}


@pytest.mark.parametrize("name", AWAY)
def test_far_out_and_at_limits(name: str) -> None:
    points, exact = AWAY[name]
    found = npc.grad(lambda x: np.sum(function_of(name)(x)))(np.array(points))  # type: ignore[misc]
    with mpmath.workdps(60):
        expected = [float(exact(mpmath.mpf(x))) for x in points]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_products_with_logarithms_at_zero() -> None:
    for function in (special.xlogy, special.xlog1py):
        g = npc.grad(lambda x, y, function=function: np.sum(function(x, y)), argnums=(0, 1))
        of_x, of_y = g(np.array([0.0, 0.0, 2.0]), np.array([0.0, 3.0, 3.0]))
        shift = function is special.xlog1py
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(of_x, np.log(np.array([0.0, 3.0, 3.0]) + shift))
        np.testing.assert_allclose(of_y, [0, 0, 2 / (3 + shift)])


def test_forward_batches_hessians_and_compiled() -> None:
    x, y = np.linspace(0.5, 2, 4), np.linspace(1, 3, 4)

    def f(x: Any, y: Any) -> Any:
        return special.xlogy(x, y) + special.erf(x)

    value, pushed = npc.jvp(f, (x, y), (np.ones(4), np.full(4, 2.0)))
    np.testing.assert_allclose(value, f(x, y), rtol=1e-15)
    slope = 2 / np.sqrt(np.pi) * np.exp(-x * x)
    np.testing.assert_allclose(pushed, np.log(y) + slope + 2 * x / y, rtol=1e-14)
    np.testing.assert_allclose(npc.vmap(f)(x, y), f(x, y), rtol=1e-15)
    np.testing.assert_allclose(npc.vmap(f, in_axes=(0, None))(x, y), f(x[:, None], y), rtol=1e-15)
    np.testing.assert_allclose(npc.vmap(f, in_axes=(None, 0))(x[0], np.outer(y, y)), f(x[0], np.outer(y, y)), rtol=1e-15)
    np.testing.assert_allclose(npc.vmap(npc.grad(f))(x, y), np.log(y) + slope, rtol=1e-14)
    np.testing.assert_allclose(npc.hessian(lambda x: np.sum(special.erf(x)))(x), np.diag(-2 * x * slope), rtol=1e-13)
    gradient = npc.compile(npc.grad(lambda x: np.sum(special.gammaln(x) * x[:, None])), fullgraph=True)
    np.testing.assert_allclose(gradient(x), 4 * special.psi(x) * x.mean() + special.gammaln(x).sum(), rtol=1e-13)


def test_broadcast_operands_and_dtypes() -> None:
    a, b = np.float32([0.5, 1.5]), np.array([[1.0], [2.0], [3.0]])
    of_a, of_b = npc.grad(lambda a, b: np.sum(special.betaln(a, b)), argnums=(0, 1))(a, b)
    assert (of_a.shape, of_a.dtype, of_b.shape, of_b.dtype) == ((2,), np.float32, (3, 1), np.float64)
    wide = a.astype(np.float64)
    np.testing.assert_allclose(of_a, (special.psi(wide) - special.psi(wide + b)).sum(0), rtol=1e-6)
    np.testing.assert_allclose(of_b, (special.psi(b) - special.psi(wide + b)).sum(1, keepdims=True), rtol=1e-13)


def test_complex_numbers() -> None:
    z = np.array([0.5 + 0.25j, 1.0 - 0.5j])
    for name in ("erf", "gamma", "loggamma", "log1p"):
        _, found = npc.jvp(function_of(name), (z,), (np.ones(2, complex),))  # type: ignore[arg-type]
        np.testing.assert_allclose(found, difference(function_of(name), z), rtol=1e-8)  # type: ignore[arg-type]


def test_tensors_record_them() -> None:
    x = npc.tensor([0.5, 1.0], requires_grad=True)
    special.gammaln(x * 2).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * special.psi(np.array([1.0, 2.0])), rtol=1e-14)
    y = npc.tensor([0.5, 1.0], requires_grad=True)
    npc.compile(npc.wrap_numpy(lambda y: np.sum(special.erf(y) * y)), fullgraph=True)(y).backward()
    plain = np.array([0.5, 1.0])
    np.testing.assert_allclose(y.grad, special.erf(plain) + plain * 2 / np.sqrt(np.pi) * np.exp(-(plain**2)), rtol=1e-14)
