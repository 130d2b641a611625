"""debug_print and callback: Python called from graphs, loops, gradients and batches."""

from __future__ import annotations

import doctest
import functools
import math
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import host_calls, marks

X = np.arange(1.0, 6.0)


@pytest.fixture(autouse=True)
def always() -> Iterator[None]:
    with npc.config.patch(tiers="always"):
        yield


@pytest.fixture
def same(capsys: Any) -> Callable[..., Any]:
    """Do two calls of a compiled function print and give what the function does?"""

    def same(function: Callable[..., Any], make: Callable[[], Any], compiled: Callable[..., Any] | None = None) -> Any:
        capsys.readouterr()
        wanted, arguments = function(*(made := make())), made
        printed = capsys.readouterr().out
        assert printed
        compiled = npc.compile(function, fullgraph=True) if compiled is None else compiled
        for _ in range(2):
            made = make()
            found = compiled(*made)
            assert capsys.readouterr().out == printed
            np.testing.assert_array_equal(found, wanted)
            for one, other in zip(made, arguments):
                np.testing.assert_array_equal(one, other)
        return compiled

    return same


def straight(x: Any) -> Any:
    y = x * 2
    npc.debug_print("y {0} of {n} {0!r}", y, n=len(x))
    y += 1
    npc.debug_print("then {0:>10.3f}|{1}|{2}", y.sum(), [1, y], "text")
    x[0] = 7
    npc.debug_print("x {} {{}}", x)
    x[1:] = 8
    return y


def calls_another(x: Any) -> Any:
    return another(x) + another(x + 1)


def another(x: Any) -> Any:
    npc.debug_print("in another: {x}", x=x.mean())
    return x * x


def branches(x: Any) -> Any:
    if x.sum() > 3:
        npc.debug_print("large: {}", x.sum())
        return x - 1
    npc.debug_print("small: {}", x.sum())
    return x + 1


@pytest.mark.parametrize("function", [straight, calls_another])
def test_one_graph(function: Any, same: Any) -> None:
    compiled = same(function, lambda: (X.copy(),))
    assert len(npc.explain(compiled)(X.copy()).graphs) == 1


def test_fields_of_the_format(same: Any) -> None:
    def function(x: Any, flag: Any, text: Any, number: Any) -> Any:
        npc.debug_print("{0.shape} {0.dtype} {0[3]:.2f} {0!r} {1!r}", x, x[0])
        npc.debug_print("{!r} {!s:>8} {:.1f} {!r} {!r}", flag, text, number, x > 2, (1, 2.5, None, x.dtype))
        return x + 1

    same(function, lambda: (X, True, "text", 1 + 2j))


def test_sizes_and_numbers(same: Any) -> None:
    def function(x: Any, k: Any, s: Any) -> Any:
        npc.debug_print("{} {:.2f} {} {}", k, s, x.shape, len(x) // 2)
        return x * s + k

    compiled = npc.compile(function, fullgraph=True)
    for n in (3, 4, 5):
        same(function, lambda n=n: (np.ones((n, 2)), n, n / 3), compiled)


@pytest.mark.parametrize("x", [X, -X])
def test_branches_on_data(x: Any, same: Any) -> None:
    same(branches, lambda: (x,), npc.compile(branches))


def gradient_of(x: Any) -> Any:
    y = np.sin(x)
    npc.debug_print("{} {}", y, y.sum())
    return (y * y).sum()


@pytest.mark.parametrize(
    "make", [npc.grad, npc.value_and_grad, npc.jacobian, npc.hessian, lambda f: lambda x: npc.jvp(f, (x,), (x,))]
)
def test_gradients_print_as_the_function_does(make: Any, capsys: Any) -> None:
    gradient_of(X)
    printed = capsys.readouterr().out
    made = make(gradient_of)
    made(X)
    assert capsys.readouterr().out == printed
    npc.compile(made, fullgraph=True)(X)
    assert capsys.readouterr().out == printed


def test_a_pullback_prints_nothing_again(capsys: Any) -> None:
    gradient_of(X)
    printed = capsys.readouterr().out
    _, pullback = npc.vjp(gradient_of, X)
    pullback(1.0)
    pullback(2.0)
    assert capsys.readouterr().out == printed


def test_tensors(capsys: Any) -> None:
    x = npc.tensor(X.copy(), requires_grad=True)
    compiled = npc.compile(npc.wrap_numpy(gradient_of))
    gradient_of(X)
    printed = capsys.readouterr().out
    for run in (compiled, npc.wrap_numpy(gradient_of)):
        run(x).backward()
        assert capsys.readouterr().out == printed


def test_batches_print_for_each_example(same: Any) -> None:
    def one(x: Any, s: Any) -> Any:
        npc.debug_print("{} {}", x, s)
        y = (x * s).sum()
        npc.debug_print("sum {:.1f}", y)
        npc.debug_print("nothing")
        return y

    def all_of(x: Any, s: Any) -> Any:
        return np.array([one(row, s) for row in x])

    for x in (np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3), np.arange(12.0).reshape(4, 3)):
        same(all_of, lambda x=x: (x, 2.0), npc.compile(npc.vmap(one, in_axes=(0, None)), fullgraph=True))
    nested = lambda x, s: np.array([all_of(part, s) for part in x])  # noqa: E731
    vmapped = npc.vmap(npc.vmap(one, in_axes=(0, None)), in_axes=(0, None))
    same(nested, lambda: (np.arange(12.0).reshape(2, 2, 3), 2.0), npc.compile(vmapped, fullgraph=True))


def over_elements(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += x[i] * 0.5
        if i % 50 == 7:
            npc.debug_print("{} {}", i, s)
    return s


def long_of_arrays(x: Any) -> Any:
    for i in range(70):
        x = x * 0.9 + i
        npc.debug_print("{i} {x}", i=i, x=x.sum())
    return x


@pytest.mark.parametrize("function, size", [(over_elements, 400), (long_of_arrays, 5), (long_of_arrays, 20000)])
def test_loops(function: Any, size: int, same: Any) -> None:
    same(function, lambda: (np.linspace(0.0, 1.0, size),), npc.compile(function))


def test_explain_says_that_a_loop_leaves() -> None:
    found = npc.explain(npc.compile(over_elements))(np.ones(400))
    assert found.programs and [
        p for p in found.passes if p.name == "left to Python" and "function debug_print, at line" in p.place
    ]


def test_loops_that_are_nodes(same: Any) -> None:
    def body(i: Any, s: Any) -> Any:
        npc.debug_print("{} {}", i, s)
        return s * 2

    looped = lambda x: npc.fori_loop(0, 4, body, x)  # noqa: E731
    same(looped, lambda: (X,), npc.compile(looped))


@pytest.mark.parametrize(
    "error, call",
    [
        (TypeError, lambda x: npc.debug_print("{:.2f}", x)),
        (ValueError, lambda x: npc.debug_print("{:.2q}", x.sum())),
        (IndexError, lambda x: npc.debug_print("{} {}", x)),
        (KeyError, lambda x: npc.debug_print("{a}", x)),
        (TypeError, lambda x: npc.debug_print()),
    ],
)
def test_errors_of_the_format(error: type[Exception], call: Any) -> None:
    with pytest.raises(error) as wanted:
        call(X)

    def function(x: Any) -> Any:
        x += 1
        call(x)
        x += 1
        return x

    x = X.copy()
    with pytest.raises(error) as found:
        npc.compile(function)(x)
    assert str(found.value) == str(wanted.value)
    assert "in function" in "".join(traceback.format_tb(found.value.__traceback__))
    np.testing.assert_array_equal(x, X + 1)


def test_floating_point_errors_print_once(capsys: Any) -> None:
    def function(x: Any) -> Any:
        npc.debug_print("before")
        y = np.log(x)
        npc.debug_print("after")
        return y

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        npc.compile(function)(np.zeros(3))
    assert capsys.readouterr().out == "before\n"


class Worded:
    def __format__(self, spec: str) -> str:
        return f"<{spec}>"


def test_objects_of_the_user(same: Any) -> None:
    def function(x: Any) -> Any:
        npc.debug_print("{:abc}", worded)
        return x + 1

    same(function, lambda: (X,), npc.compile(function))


worded = Worded()


# --- callback


def gamma(x: Any) -> Any:
    assert type(x) in (np.ndarray, np.float64)
    return np.vectorize(math.gamma)(x) if isinstance(x, np.ndarray) else np.float64(math.gamma(x))


def parts(x: Any, *, factor: Any, names: Any) -> Any:
    return x * factor, np.float32(len(names))


def of_one(x: Any) -> Any:
    return npc.callback(gamma, x, x + 1) * 2


def of_a_scalar(x: Any) -> Any:
    return npc.callback(gamma, x[0], x.sum()) + x


def of_two(x: Any) -> Any:
    a, b = npc.callback(parts, (x, np.float32(0)), x, factor=3, names=["a", "b"])
    return a + b


def of_a_lambda(x: Any) -> Any:
    factor = 3
    return npc.callback(lambda y: y * factor, x, x) + 1


@pytest.mark.parametrize("function", [of_one, of_a_scalar, of_two, of_a_lambda])
def test_pure_callbacks_are_nodes(function: Any) -> None:
    compiled = npc.compile(function, fullgraph=True)
    for n in (3, 5, 7):
        x = np.arange(1.0, n)
        got, wanted = compiled(x), function(x)
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype
    assert "call(" in str(npc.explain(compiled)(X).graphs[0])


@pytest.mark.parametrize(
    "made, message",
    [
        (lambda x: x[1:], r"returned float64 of shape \(4,\), and result_like is float64 of shape \(5,\)"),
        (lambda x: x.astype(np.float32), "returned float32 of shape"),
        (lambda x: x.sum(), "returned a NumPy float64 scalar"),
        (lambda x: None, "returned"),
        (lambda x: (x, x), "returned float64"),
    ],
)
def test_other_results_than_were_said(made: Any, message: str) -> None:
    function = lambda x: npc.callback(made, x, x) + 1  # noqa: E731
    for run in (function, npc.compile(function)):
        with pytest.raises(ValueError, match=message):
            run(X)


def failing(x: Any) -> Any:
    raise ZeroDivisionError("of the user's")


@pytest.mark.parametrize("effects", [False, True])
def test_errors_come_out_as_themselves(effects: bool) -> None:
    def function(x: Any) -> Any:
        return npc.callback(failing, x, x, effects=effects) + 1

    with pytest.raises(ZeroDivisionError, match="of the user's") as raised:
        npc.compile(function)(X)
    lines = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert "function" in lines and lines[-1] == "failing"


def test_effects_are_in_order() -> None:
    log: list[Any] = []

    def function(x: Any) -> Any:
        x += 1
        npc.callback(log.append, None, x.sum(), effects=True)
        x += 1
        npc.callback(log.append, None, x.sum(), effects=True)
        npc.callback(log.append, None, 3, effects=True)
        return npc.callback(noted, x, x, effects=True) * 2

    def noted(x: Any) -> Any:
        log.append("noted")
        return x + 1

    for run in (function, compiled := npc.compile(function), compiled):
        log.clear()
        np.testing.assert_array_equal(run(X.copy()), (X + 3) * 2)
        assert log == [20.0, 25.0, 3, "noted"]
    assert "npc.callback with effects=True" in str(npc.explain(compiled)(X.copy()))


def test_callbacks_in_loops() -> None:
    def function(x: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            s += npc.callback(gamma, np.float64(0), x[i])
        return s

    x = np.linspace(1.0, 2.0, 100)
    assert npc.compile(function)(x) == function(x)


def test_batches_and_tensors() -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)
    np.testing.assert_array_equal(npc.vmap(of_one)(x), of_one(x))
    made = npc.wrap_numpy(of_one)(npc.tensor(X))
    assert isinstance(made, npc.Tensor)
    np.testing.assert_array_equal(made.numpy(), of_one(X))


def test_derivatives_are_said_by_the_user() -> None:
    with pytest.raises(npc.GraphBreakError, match=r"npc\.custom_gradient"):
        npc.grad(lambda x: of_one(x).sum())(X)

    @npc.custom_gradient
    def known(x: Any) -> Any:
        return npc.callback(functools.partial(np.power, 2.0), x, x), lambda g: g * 5

    np.testing.assert_array_equal(npc.grad(lambda x: known(x).sum())(X), 5 * np.ones(5))


@pytest.mark.parametrize("like", [3, "text", object()])
def test_wrong_result_like(like: Any) -> None:
    for run in (lambda x: npc.callback(gamma, like, x), npc.compile(lambda x: npc.callback(gamma, like, x))):
        with pytest.raises(TypeError, match="result_like holds a"):
            run(X)


@pytest.mark.parametrize("module", [host_calls, marks])
def test_examples_of_docstrings(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
