"""`compile(f, static_argnames=...)`, `mark_dynamic` and `mark_static`: what is a constant of a program, and what is not."""

from __future__ import annotations

import functools
import gc
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import marks
from npcompile.compiler import compiled_function

X = np.arange(5.0)


@pytest.fixture(autouse=True)
def always() -> Iterator[None]:
    with npc.config.patch(tiers="always"):
        yield


def variants(compiled: Any) -> int:
    return sum(len(point.variants) for point in compiled_function(compiled).points.values())


def powered(x: Any, n: int, sign: Any = 1.0) -> Any:
    return x**n * sign


@pytest.mark.parametrize("given", [{"static_argnames": "n"}, {"static_argnums": 1}, {"static_argnums": (-2,)}])
def test_a_program_for_each_value(given: dict[str, Any]) -> None:
    compiled = npc.compile(powered, **given)
    for n in (2, 3, 2, True, 4, 3):
        np.testing.assert_array_equal(compiled(X, n), powered(X, n))
    assert variants(compiled) == 4
    guards = [" ".join(each) for each in npc.explain(compiled)(X, 7).guards]
    assert any("n: int, equal to 7" in each or "n: int equal to 7" in each for each in guards)


def test_without_it_numbers_are_arguments() -> None:
    compiled = npc.compile(lambda x, n: x + n)
    for n in range(2, 7):
        compiled(X, n)
    assert variants(compiled) == 1


def test_values_that_are_equal_and_differ() -> None:
    compiled = npc.compile(lambda x, s: x * s, static_argnames=("s",))
    values = (0.0, -0.0, np.nan, 2.0, 2, True, 2 + 0j, complex(2, -0.0))
    for s in (*values, np.float64(0.0), np.float64(-0.0), np.float32(2), np.int8(2)):
        for _ in range(2):
            got, wanted = compiled(X, s), X * s
            assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes(), s
    assert variants(compiled) == 12


def test_what_holds_constants() -> None:
    @dataclass(frozen=True)
    class Settings:
        order: int
        scale: float

    function = lambda x, s, t: (x * s.scale) ** s.order + t[1]  # noqa: E731
    compiled = npc.compile(function, static_argnames=["s", "t"])
    for order in (1, 2, 3):
        for _ in range(2):
            np.testing.assert_array_equal(
                compiled(X, Settings(order, 3.0), ("a", order)), function(X, Settings(order, 3.0), ("a", order))
            )
    assert variants(compiled) == 3


def test_the_limit_is_that_of_other_programs() -> None:
    compiled = npc.compile(powered, static_argnames="n")
    with npc.config.patch(recompile_limit=3), pytest.warns(RuntimeWarning, match="compiled 3 times.*n is 5"):
        for n in (2, 3, 4, 5, 6):
            np.testing.assert_array_equal(compiled(X, n), powered(X, n))
    assert variants(compiled) == 3


@pytest.mark.parametrize("value, what", [([2], "is a list"), ((1, {}), "is a tuple, which holds a dict"), (X, "is a ndarray")])
def test_what_cannot_be_hashed(value: Any, what: str) -> None:
    compiled = npc.compile(powered, static_argnames="sign")
    compiled(X, 2)
    with pytest.raises(TypeError, match=f"the static argument 'sign' of powered {what}") as raised:
        compiled(X, 2, value)
    assert type(raised.value.__cause__) is type(raised.value.__context__) is type(None)
    np.testing.assert_array_equal(compiled(X, 2, 3.0), powered(X, 2, 3.0))


def test_it_stays_a_constant_after_a_graph_break() -> None:
    def function(x: Any, n: int) -> Any:
        y = x + n
        npc.graph_break()
        return y.reshape(n, -1) * n

    compiled = npc.compile(function, static_argnames="n")
    x = np.arange(12.0)
    for n in (2, 3, 4, 6):
        np.testing.assert_array_equal(compiled(x, n), function(x, n))
    assert variants(compiled) == 8


def test_parameters_of_callees_are_others() -> None:
    @npc.disable(recursive=False)
    def inner(x: Any, n: int) -> Any:
        return deepest(x, n)

    def deepest(x: Any, n: int) -> Any:
        return x + n

    compiled = npc.compile(lambda x, n, m: inner(x, n) * m, static_argnames="m")
    for n in range(2, 6):
        np.testing.assert_array_equal(compiled(X, n, 2), (X + n) * 2)


def test_methods_and_partials() -> None:
    class Model:
        @functools.partial(npc.compile, static_argnums=2)
        def scaled(self, x: Any, n: int) -> Any:
            return x * n

    model = Model()
    np.testing.assert_array_equal(model.scaled(X, 3), X * 3)
    with pytest.raises(TypeError, match="static argument 'n'"):
        model.scaled(X, [3])
    compiled = npc.compile(functools.partial(powered, sign=2.0), static_argnames="n")
    np.testing.assert_array_equal(compiled(X, 3), X**3 * 2)


def total(x: Any, n: Any) -> Any:
    return np.sum(x**n)


@pytest.mark.parametrize("make", [npc.grad, npc.wrap_numpy, lambda f: npc.vmap(f, in_axes=(0, None))])
def test_functions_made_of_functions(make: Any) -> None:
    made, x = make(total), np.arange(1.0, 7.0).reshape(3, 2)
    compiled = npc.compile(made, static_argnames="n")
    for n in (2, 3, 2):
        np.testing.assert_array_equal(np.asarray(compiled(x, n)), np.asarray(made(x, n)))
    assert variants(compiled) == 2
    for call in (lambda: compiled(x, [2]), lambda: compiled(x, n=[2])):
        with pytest.raises(TypeError, match="the static argument 'n' of"):
            call()
    with pytest.raises(ValueError, match="total has no parameter 'm'"):
        npc.compile(made, static_argnames="m")


def test_it_is_pickled() -> None:
    with pytest.raises(TypeError, match="static argument 'n'"):
        pickle.loads(pickle.dumps(pickled))(X, [3])


pickled = npc.compile(lambda x, n: x * n, static_argnames="n")
pickled.__qualname__ = pickled.__name__ = "pickled"


@pytest.mark.parametrize(
    "error, given, message",
    [
        (ValueError, {"static_argnames": "m"}, "powered has no parameter 'm': choose of x, n, sign"),
        (ValueError, {"static_argnums": 3}, "powered has 3 positional parameters, none with number 3"),
        (TypeError, {"static_argnames": 1}, "static_argnames is str or several of them, not 1"),
        (TypeError, {"static_argnums": ("n",)}, "static_argnums is int or several of them"),
    ],
)
def test_wrong_parameters(error: type[Exception], given: dict[str, Any], message: str) -> None:
    with pytest.raises(error, match=message):
        npc.compile(powered, **given)


# --- marks


def dynamic(n: int, **given: Any) -> Any:
    x = np.ones((n, 3))
    npc.mark_dynamic(x, 0, **given)
    return x


def test_a_marked_size_is_a_symbol_from_the_start() -> None:
    compiled = npc.compile(lambda x: x * 2)
    for x in (dynamic(5), dynamic(7), np.ones((9, 3))):
        np.testing.assert_array_equal(compiled(x), x * 2)
    assert variants(compiled) == 1
    assert compiled(np.ones((9, 4))).shape == (9, 4)  # the other axis is as it was
    assert variants(compiled) == 2


def test_the_range_is_guarded() -> None:
    compiled = npc.compile(lambda x: x * 2)
    guards = npc.explain(compiled)(dynamic(7, min=3, max=50)).guards
    assert "(any in [3, 50], 3)" in " ".join(guards[0])
    compiled(dynamic(7, min=3, max=50))
    for n, expected in ((3, 1), (50, 1), (51, 2)):
        assert compiled(np.ones((n, 3))).shape == (n, 3)
        assert variants(compiled) == expected


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(axis=1) if len(x) == 7 else x,
        lambda x: x if x.shape[0] != 7 else x + 1,
        lambda x: x[:, 0] + np.ones(7),
        lambda x: x.reshape(7, 3),
        lambda x: x + np.ones((7, 1)),
    ],
)
def test_a_size_that_would_be_a_constant(function: Any) -> None:
    compiled = npc.compile(function)
    with pytest.raises(npc.GraphBreakError, match=r"x.shape\[0\] is marked .* constant 7 at test_static_arguments.py:\d+"):
        compiled(dynamic(7))
    np.testing.assert_array_equal(compiled(np.ones((7, 3))), function(np.ones((7, 3))))


@pytest.mark.parametrize(
    "function", [lambda x: x[::2] if len(x) % 2 == 0 else x, lambda x: x if len(x) > 7 else -x, lambda x: np.split(x, len(x))[0]]
)
def test_sizes_that_stay_symbols(function: Any) -> None:
    for n in (7, 8):
        np.testing.assert_array_equal(npc.compile(function)(dynamic(n)), function(np.ones((n, 3))))


def test_static_sizes() -> None:
    compiled = npc.compile(lambda x: x * 2)
    for n in (3, 4, 5, 4):
        x = np.ones((n, 2))
        npc.mark_static(x)
        compiled(x)
    assert variants(compiled) == 3


def test_marks_live_as_long_as_the_array() -> None:
    x = dynamic(5)
    assert marks.marks_of(x) and not marks.marks_of(x[:]) and not marks.marks_of(x.copy())
    npc.mark_static(x, -1)
    assert [mark.is_dynamic for mark in marks.marks_of(x).values()] == [True, False]
    key = id(x)
    del x
    gc.collect()
    assert key not in marks._MARKS


def test_tensors() -> None:
    x = npc.tensor(np.ones((5, 2)), requires_grad=True)
    npc.mark_dynamic(x, 0)
    compiled = npc.compile(npc.wrap_numpy(lambda x: np.sum(x * x)))
    compiled(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * np.ones((5, 2)))


@pytest.mark.parametrize(
    "error, call, message",
    [
        (TypeError, lambda: npc.mark_dynamic([1, 2], 0), "takes an ndarray or a Tensor, not list"),
        (TypeError, lambda: npc.mark_static(3), "takes an ndarray or a Tensor, not int"),
        (TypeError, lambda: npc.mark_dynamic(X, 0.5), "float"),
        (np.exceptions.AxisError, lambda: npc.mark_dynamic(X, 1), "axis 1 is out of bounds"),
        (ValueError, lambda: npc.mark_dynamic(np.ones(1), 0), "axis 0 has size 1"),
        (ValueError, lambda: npc.mark_dynamic(X, 0, min=6), "not from min=6 to max=any"),
        (ValueError, lambda: npc.mark_dynamic(X, 0, max=4), "not from min=2 to max=4"),
        (ValueError, lambda: npc.mark_dynamic(X, 0, min=0), "min is at least 2"),
    ],
)
def test_wrong_marks(error: type[Exception], call: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
