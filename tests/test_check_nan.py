"""`config.check_nan`: the first NaN, or infinity, of a compiled function is an error that names its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

X = np.array([1.0, -1.0, 4.0, 0.0])


@pytest.fixture(autouse=True)
def errors_are_ignored() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
    assert npc.config.check_nan is False


def masked(x: Any) -> Any:
    y = x * 2
    logs = np.log(y)  # log
    return np.where(y > 0, logs, 0.0).sum()


def over_elements(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += np.sqrt(x[i])  # sqrt
    return s


def long_of_arrays(x: Any) -> Any:
    for _ in range(50):
        x = np.log(x)  # log
    return x


def with_a_break(x: Any) -> Any:
    y = x + 1
    npc.graph_break()
    return np.log(y - 2)  # log


def in_python(x: Any) -> Any:
    return plain(x)


@npc.disable
def plain(x: Any) -> Any:
    return np.sqrt(x)  # sqrt


def writes(x: Any) -> Any:
    x += 1
    np.arccosh(x, out=x)  # arccosh
    return x


def looped(x: Any) -> Any:
    return npc.fori_loop(0, 3, lambda i, s: np.log(s), x)  # log


def sliced(x: Any) -> Any:
    return np.log(x[x < 3])  # log


def line_of(function: Any, mark: str) -> int:
    first = function.__code__.co_firstlineno
    lines = open(__file__).read().splitlines()
    return next(k for k in range(first, first + 12) if lines[k - 1].endswith(f"# {mark}"))


FUNCTIONS = [
    (masked, "log"), (over_elements, "sqrt"), (long_of_arrays, "log"), (with_a_break, "log"), (writes, "arccosh"),
    (looped, "log"), (sliced, "log"),
]  # fmt: skip


@pytest.mark.parametrize("function, op", FUNCTIONS)
@pytest.mark.parametrize("mode", [True, "inf"])
def test_the_line_and_the_operation_are_named(function: Any, op: str, mode: Any) -> None:
    compiled = npc.compile(function)
    wanted = function(X.copy())
    np.testing.assert_array_equal(compiled(X.copy()), wanted)
    said = rf"{re.escape(__file__)}:{line_of(function, op)}, in .*\b{op}\b"
    with npc.config.patch(check_nan=mode):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match=said):
                compiled(X.copy())
    np.testing.assert_array_equal(compiled(X.copy()), wanted)


def test_python_between_graphs() -> None:
    with npc.config.patch(check_nan=True), pytest.raises(FloatingPointError, match=rf":{line_of(plain, 'sqrt')}, in plain.*sqrt"):
        npc.compile(in_python)(X)


@pytest.mark.parametrize("function", [f for f, _ in FUNCTIONS])
def test_finite_results_are_as_before(function: Any) -> None:
    x = np.linspace(3.0, 4.0, 5)
    if function in (long_of_arrays, looped):
        function = lambda x: npc.fori_loop(0, 3, lambda i, s: np.sin(s), x)  # noqa: E731
    wanted = function(x.copy())
    with npc.config.patch(check_nan="inf"):
        found = npc.compile(function)(x.copy())
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(found, wanted)


def test_arguments_stay_as_they_were() -> None:
    x = X.copy()
    with npc.config.patch(check_nan=True), pytest.raises(FloatingPointError):
        npc.compile(writes)(x)
    np.testing.assert_array_equal(x, X)


def test_infinities() -> None:
    compiled = npc.compile(lambda x: 1 / x)
    with npc.config.patch(check_nan=True):
        assert np.isinf(compiled(X)).any()
    with npc.config.patch(check_nan="inf"), pytest.raises(FloatingPointError, match=r"divide gives inf in 1 of 4 .* at \[3\]"):
        compiled(X)


def gradient_at(make: Callable[..., Any]) -> Any:
    return make(lambda x: (x ** np.float64(0.5)).sum())


@pytest.mark.parametrize("make", [npc.grad, npc.value_and_grad, lambda f: npc.compile(npc.grad(f)), npc.jacobian])
def test_gradients(make: Any) -> None:
    with npc.config.patch(check_nan=True):
        with pytest.raises(FloatingPointError, match=r"in gradient_at\..*sqrt gives nan"):
            gradient_at(make)(X)
        gradient_at(make)(np.abs(X) + 1)


def test_derivatives_that_no_value_shows() -> None:
    """The value is finite, and the slope infinite."""

    def cube_root(x: Any) -> Any:
        return np.cbrt(x).sum()

    assert not np.isfinite(npc.grad(cube_root)(X)).all()
    with npc.config.patch(check_nan="inf"), pytest.raises(FloatingPointError, match=r"test_check_nan\.py:.*cube_root: .*inf"):
        npc.grad(cube_root)(X)


def test_batches_and_gradients_of_tensors() -> None:
    with npc.config.patch(check_nan=True):
        with pytest.raises(FloatingPointError, match=r"log gives nan in 1 of 4 elements, the first at \[0, 1\]"):
            npc.vmap(masked)(X.reshape(2, 2))
        with pytest.raises(FloatingPointError, match="log gives nan"):
            npc.compile(npc.wrap_numpy(masked))(npc.tensor(X, requires_grad=True))


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: x[1:], over_elements])
def test_what_comes_with_an_argument(function: Any) -> None:
    with npc.config.patch(check_nan=True), pytest.raises(FloatingPointError, match="nan") as raised:
        npc.compile(function)(np.array([1.0, np.nan, 2.0]))
    assert "has some already" in str(raised.value) or "it returns" in str(raised.value)


def test_a_backend_of_the_user() -> None:
    def backend(graph: Any, example_inputs: Any) -> Any:
        return lambda *arrays: tuple(graph(*arrays))

    compiled = npc.compile(lambda x: np.log(x) + 1, backend=backend)
    assert np.isnan(compiled(X)).any()
    with npc.config.patch(check_nan=True), pytest.raises(FloatingPointError, match="add gives nan"):
        compiled(X)


def test_it_costs_nothing_when_it_is_off() -> None:
    compiled = npc.compile(lambda x: x * 2)
    with npc.config.patch(tiers="always"):
        compiled(X)
        with npc.config.patch(check_nan=True):
            compiled(X)
        compiled(X)
        current = compiled_function(compiled).current
        assert current.enter is current.compiled.dispatch and "npc_" in npc.explain(compiled)(X).kernels[0]


@pytest.mark.parametrize("value", ["nan", 1, None])
def test_other_values(value: Any) -> None:
    with pytest.raises(ValueError, match="check_nan is False, True or 'inf'"):
        npc.config.check_nan = value
