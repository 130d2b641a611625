"""Functions whose branches, loops, errors and warnings depend on data, under every transform."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.gradients.harness import differences

X = np.array([0.5, 1.5, 3.0])


def newton(x: Any) -> Any:
    y = x
    while np.abs(y * y - x).max() > 1e-13:
        y = 0.5 * (y + x / y)
    return np.sum(y**3)  # x ** 1.5


def branches(x: Any) -> Any:
    return np.sum(x**2) if x.sum() > 0 else np.sum(x**3)


def close(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    assert type(found) is type(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)


# --- what data decides runs on Tensors

FIRST, SECOND = 1.5 * X**0.5, 0.75 * X**-0.5
CALLS = {
    "grad": (lambda: npc.grad(newton)(X), FIRST),
    "value_and_grad": (lambda: npc.value_and_grad(newton)(X)[1], FIRST),
    "vjp": (lambda: npc.vjp(newton, X)[1](np.float64(2.0))[0], 2 * FIRST),
    "jvp": (lambda: npc.jvp(newton, (X,), (X,))[1], np.sum(FIRST * X)),
    "jacobian": (lambda: npc.jacobian(lambda x: newton(x) * np.ones(2))(X), np.stack([FIRST, FIRST])),
    "hessian": (lambda: npc.hessian(newton)(X), np.diag(SECOND)),
    "grad of grad": (lambda: npc.grad(lambda x: np.sum(npc.grad(newton)(x) ** 2))(X), 2 * FIRST * SECOND),
    "vmap": (lambda: npc.vmap(newton)(np.stack([X, X + 1])), np.array([np.sum(X**1.5), np.sum((X + 1) ** 1.5)])),
    "vmap of grad": (lambda: npc.vmap(npc.grad(newton))(np.stack([X, X])), np.stack([FIRST, FIRST])),
    "compile of grad": (lambda: npc.compile(npc.grad(newton))(X), FIRST),
    "grad in compiled code": (lambda: npc.compile(lambda x: npc.grad(newton)(x) * 2)(X), 2 * FIRST),
    "closure": (lambda: npc.grad(lambda x: npc.grad(lambda y: np.sum(x) * newton(y))(X)[0])(X), np.full(3, FIRST[0])),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_loop_that_data_ends(name: str) -> None:
    call, expected = CALLS[name]
    for _ in range(2):  # the second call knows that there is no one graph
        close(call(), expected)


def test_branches_trees_and_aux() -> None:
    def loss(tree: Any, y: Any) -> Any:
        value = branches(tree["x"]) * tree["scale"] + np.sum(y)
        return value, {"value": value, "name": "aux"}

    for sign in (1, -1):
        x = sign * X
        expected = (2 * x if sign > 0 else 3 * x**2) * 2.0
        (value, aux), (found, of_y) = npc.value_and_grad(loss, (0, 1), has_aux=True)({"x": x, "scale": 2.0}, X)
        close(found["x"], expected)
        close(found["scale"], branches(x))
        close(of_y, np.ones(3))
        assert value == aux["value"] == loss({"x": x, "scale": 2.0}, X)[0] and type(aux["value"]) is np.float64
        t = npc.tensor(x)
        assert isinstance(npc.grad(branches)(t), npc.Tensor) and not t.requires_grad
        np.testing.assert_allclose(npc.grad(branches)(t).numpy(), expected / 2)


def test_writes_to_arguments_are_the_callers() -> None:
    def doubled(x: Any) -> Any:
        x *= 2
        return branches(x)

    x = X.copy()
    close(npc.grad(doubled)(x), 8 * X)
    np.testing.assert_array_equal(x, 2 * X)


def test_what_has_no_derivative_on_tensors_either_says_why_it_was_not_captured() -> None:
    def leaves_tensors(x: Any) -> Any:
        return np.sum(np.asarray(x, dtype=object)) if x.sum() > 0 else x

    with pytest.raises(npc.GraphBreakError, match="branch on array data"):
        npc.grad(leaves_tensors)(X)


# --- branches that raise or warn stay in the graph


def positive(x: Any) -> Any:
    if np.any(x < 0):
        raise ValueError("negative numbers have no root")
    if not np.all(np.isfinite(x)):
        warnings.warn("infinite", stacklevel=2)
    return np.sum(np.sqrt(x))


@pytest.mark.parametrize("function", [
    lambda x: np.average(x, weights=x**2),
    lambda x: np.nanmax(x) * 2,
    lambda x: np.nanmin(x, axis=0) * 2,
    lambda x: np.nanmean(x**2),
    positive,
], ids=["average", "nanmax", "nanmin", "nanmean", "user"])  # fmt: skip
def test_derivatives_of_functions_that_check_their_data(function: Callable[..., Any]) -> None:
    close(npc.grad(function)(X), differences(function, (X,), 0), 1e-8)
    close(npc.jvp(function, (X,), (X,))[1], np.sum(differences(function, (X,), 0) * X), 1e-8)
    close(npc.vmap(function)(np.stack([X, X + 1])), np.array([function(X), function(X + 1)]))
    x = npc.tensor(X, requires_grad=True)
    npc.compile(function, fullgraph=True)(x).backward()
    close(x.grad.numpy(), differences(function, (X,), 0), 1e-8)


@pytest.mark.parametrize("transform", [npc.grad, npc.value_and_grad, npc.hessian, npc.vmap])
def test_errors_are_those_of_the_function(transform: Callable[..., Any]) -> None:
    for function, error in ((positive, ValueError), (lambda x: np.average(x, weights=0 * x), ZeroDivisionError)):
        compiled = transform(function)
        for x in (X, -X):
            given = np.stack([X, x]) if transform is npc.vmap else x
            if x is X and error is ValueError:
                compiled(given)
                continue
            with pytest.raises(error):
                compiled(given)


def test_errors_of_functions_that_write_to_their_arguments() -> None:
    def doubled(x: Any) -> Any:
        x *= 2
        return positive(x)

    x = X.copy()
    close(npc.grad(doubled)(x), 1 / np.sqrt(2 * X))
    np.testing.assert_array_equal(x, 2 * X)
    with pytest.raises(ValueError, match="no root"):
        npc.grad(doubled)(-X)


def test_errors_that_the_function_handles() -> None:
    def handled(x: Any) -> Any:
        try:
            return positive(x)
        except ValueError:
            return np.sum(x**3)

    close(npc.grad(handled)(-X), 3 * X**2)
    close(npc.grad(handled)(X), 0.5 / np.sqrt(X))


# --- warnings


def caught(call: Callable[[], Any]) -> tuple[Any, list[tuple[str, int]]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    assert all(w.filename == __file__ for w in found)
    return result, [(str(w.message), w.lineno) for w in found]


def logarithms(x: Any) -> Any:
    return np.log(x)


LINE = logarithms.__code__.co_firstlineno + 1


def test_a_batch_warns_as_the_loop_does() -> None:
    for x in (np.array([1.0, 0.0, 2.0, -1.0]), np.array([1.0, 2.0])):
        result, found = caught(lambda x=x: npc.vmap(logarithms)(x))
        expected, wanted = caught(lambda x=x: np.stack([logarithms(each) for each in x]))
        np.testing.assert_array_equal(result, expected)
        assert found == wanted and all(line == LINE for _, line in found)


@pytest.mark.parametrize("errors", ["ignore", "raise"])
def test_a_batch_asks_errstate(errors: str) -> None:
    with np.errstate(divide=errors):
        if errors == "ignore":
            assert caught(lambda: npc.vmap(logarithms)(np.array([1.0, 0.0])))[1] == []
        else:
            with pytest.raises(FloatingPointError, match="divide by zero"):
                npc.vmap(logarithms)(np.array([1.0, 0.0]))


def test_derivatives_warn_where_the_function_does_and_not_by_themselves() -> None:
    x = np.array([1.0, 0.0, 2.0])
    expected = [("divide by zero encountered in log", LINE)]
    for transform in (npc.grad, npc.value_and_grad, lambda f: npc.vmap(npc.grad(f)), npc.jacobian):
        given = x[None] if transform not in (npc.grad, npc.value_and_grad, npc.jacobian) else x
        assert caught(lambda t=transform, g=given: t(lambda x: np.sum(logarithms(x)))(g))[1] == expected
        assert caught(lambda t=transform, g=given: t(lambda x: np.sum(np.sqrt(x)))(g))[1] == []  # 1 / (2 * sqrt(0))


def test_a_function_that_writes_elsewhere_runs_once() -> None:
    seen = np.zeros(3)

    def counted(x: Any) -> Any:
        seen[...] += 1
        return np.sum(logarithms(x))

    npc.grad(counted)(np.array([1.0, 0.0, 2.0]))
    assert seen.tolist() == [1.0, 1.0, 1.0]
