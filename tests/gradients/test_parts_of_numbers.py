"""Gradients of np.choose, and of the mantissas of np.frexp."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc

X = np.array([0.75, -3.0, 20.0, 0.001])


def test_choose() -> None:
    places = np.array([1, 0, 2, 1])

    def loss(x):
        return np.sum(np.choose(places, [x, x**2, 3 * x[::-1]]) * np.arange(1.0, 5.0))

    wanted = np.array([2 * 0.75, 2.0, 0.0, 4 * 2 * 0.001])
    wanted[1] += 3 * 3.0
    np.testing.assert_allclose(npc.grad(loss)(X), wanted, rtol=1e-14)
    np.testing.assert_allclose(npc.hessian(loss)(X), np.diag([2.0, 0, 0, 8]), rtol=1e-14)
    assert npc.value_and_grad(loss)(X)[0] == loss(X)
    t = npc.tensor(X, requires_grad=True)
    npc.wrap_numpy(loss)(t).backward()
    np.testing.assert_allclose(t.grad.numpy(), wanted, rtol=1e-14)


@pytest.mark.parametrize("place", [3, -1])
def test_choose_of_what_is_not_there_raises(place: int) -> None:
    places = np.array([0, place, 1, 1])
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        npc.grad(lambda x: np.sum(np.choose(places, [x, x, x])))(X)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_mantissas(dtype: str) -> None:
    x = np.append(X, [0.0, np.finfo(dtype).smallest_subnormal * 5, np.inf]).astype(dtype)
    value, pull = npc.vjp(lambda x: np.frexp(x)[0], x)
    mantissa, exponent = np.frexp(x)
    np.testing.assert_array_equal(value, mantissa)
    with np.errstate(over="ignore"):
        (found,) = pull(np.ones_like(value))
        np.testing.assert_array_equal(found[:5], np.ldexp(np.ones(5, dtype), -exponent[:5]))
    np.testing.assert_array_equal(npc.compile(np.frexp)(x)[0], mantissa)
