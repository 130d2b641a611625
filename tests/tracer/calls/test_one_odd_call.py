"""One call with an argument of another kind leaves what later calls are answered by: programs, as if it had not been."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.registry import CompiledGraph
from npcompile.compiler import compiled_function
from npcompile.tracer.left_to_python import leave
from npcompile.tracer.point import Point
from npcompile.tracer.recompiles import why_not
from npcompile.tracer.variant import Variant
from tests.covering import pairs

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")
pandas = pytest.importorskip("pandas", reason="its Series are one of the kinds")


class Marked(np.ndarray):
    """A subclass that changes nothing."""


class Holder:
    def __init__(self, a: Any):
        self.a = a


def answering(compiled: Callable[..., Any], *args: Any) -> Variant | None:
    """The variant that a call with these arguments enters first."""
    function = compiled_function(compiled)
    assert function is not None
    start = min(function.points.values(), key=lambda p: p.number)
    return fitting(start, args)


def fitting(point: Point, state: tuple[Any, ...]) -> Variant | None:
    values = dict(zip(point.parameters, state))
    return next((v for v in point.variants if why_not(v.guards, point.function.namespace, values, {}) is None), None)


def called(function: Callable[..., Any], *args: Any) -> Any:
    """What a call gives or raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        return type(error), str(error)


def operators(x):
    return x * 2 + x * 3


def a_method(x):
    y = x[1:] * 2
    return (y - y.mean()) * 3


def an_attribute(o):
    return o.a * 2 + o.a


def an_item(items):
    return items[0] * 2 + items[0] + 1


def scaled(x, k):
    return x * k + x


def a_call(x):
    return scaled(x, 3) + scaled(x, 2)


def a_loop(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] * 2
    return total


SIZE = 9
GIVEN: dict[Callable[..., Any], Callable[[Any], Any]] = {an_attribute: Holder, an_item: lambda v: [v]}
ODD: dict[str, Callable[[Path], Any]] = {
    "subclass": lambda _: np.arange(float(SIZE)).view(Marked),
    "masked": lambda _: np.ma.masked_greater(np.arange(float(SIZE)), 3),
    "matrix": lambda _: np.matrix(np.eye(3)),
    "series": lambda _: pandas.Series(np.arange(float(SIZE))),
    "objects": lambda _: np.arange(SIZE).astype(object),
    "texts": lambda _: np.arange(SIZE).astype(str),
    "dates": lambda _: np.zeros(SIZE, "M8[s]"),
    "memmap": lambda folder: np.memmap(folder / "numbers", dtype=float, shape=SIZE, mode="w+"),
    "swapped": lambda _: np.arange(float(SIZE)).astype(">f8"),
    "unaligned": lambda _: np.zeros(8 * SIZE + 1, np.uint8)[1:].view(float),
    "none": lambda _: None,
    "number": lambda _: 2.5,
    "no dimensions": lambda _: np.array(2.5),
    "text": lambda _: "ab",
    "list": lambda _: [1.0] * SIZE,
    "tuple": lambda _: (1.0,) * SIZE,
}


@pytest.mark.parametrize(
    ("name", "function", "is_first"),
    pairs([*ODD], [operators, a_method, an_attribute, an_item, a_call, a_loop], [True, False]),
)
def test_plain_arrays_are_compiled_for(function: Callable[..., Any], name: str, is_first: bool, tmp_path: Path) -> None:
    compiled, give = npc.compile(function), GIVEN.get(function, lambda v: v)
    odd, usual = give(ODD[name](tmp_path)), give(np.arange(float(SIZE)) + 1)
    for argument in [odd, odd, usual, usual] if is_first else [usual, odd, odd, usual]:
        want, got = called(function, argument), called(compiled, argument)
        assert type(got) is type(want)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    answer = answering(compiled, usual)
    assert answer is not None and answer.computes


@pytest.mark.parametrize("function", [operators, an_attribute, a_loop])
def test_a_sequence_of_kinds(function: Callable[..., Any], tmp_path: Path) -> None:
    compiled, give = npc.compile(function), GIVEN.get(function, lambda v: v)
    usual = give(np.arange(float(SIZE)))
    for name in ("subclass", "masked", "series", "memmap", "objects"):
        called(compiled, give(ODD[name](tmp_path)))
        compiled(usual)
        answer = answering(compiled, usual)
        assert answer is not None and answer.computes, name


ORDERS = {
    "sequences": ["list", "tuple"],
    "numbers": ["number", "no dimensions", "none", "list", "text", "tuple"],
    "all": [*ODD],
    "all, backwards": [*ODD][::-1],
}


@pytest.mark.parametrize("tiers", ["always", "measured"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("function", [operators, a_loop])
def test_many_kinds_before(function: Callable[..., Any], order: str, tiers: str, tmp_path: Path, monkeypatch: Any) -> None:
    """More kinds than there may be programs of one kind, none of which a program computes with."""
    monkeypatch.setattr(npc.config, "tiers", tiers)
    compiled, usual = npc.compile(function), np.arange(float(SIZE))
    for name in ORDERS[order]:
        called(compiled, ODD[name](tmp_path))
    for _ in range(3):
        assert compiled(usual).tobytes() == function(usual).tobytes()
    answer = answering(compiled, usual)
    assert answer is not None and answer.computes


def test_a_long_loop_after_sequences() -> None:
    """Which are no native program, each once."""
    compiled, usual = npc.compile(a_loop), np.arange(100.0)
    for argument in (usual.tolist(), (*usual,), usual, usual):
        assert compiled(argument) == a_loop(argument)
    answer = answering(compiled, usual)
    assert answer is not None and answer.computes


def test_what_is_only_handed_on_asks_nothing() -> None:
    """A call that is not captured does not make programs for what it is given."""

    def shown(x, y):
        z = x * 2
        print(y)
        return z + 1

    compiled = npc.compile(shown, backend="eager")
    for y in (np.arange(3), np.arange(3.0), np.ones((2, 2)), np.ones((2, 2), np.float32)):
        np.testing.assert_array_equal(compiled(np.ones(3), y), np.full(3, 3.0))
    function = compiled_function(compiled)
    assert function is not None and max(len(p.variants) for p in function.points.values()) == 1


def test_what_is_left_to_python_stays_so_where_it_cannot_be_left_otherwise():
    """A function with cells that was left as a whole, some part of which has come to compute: it runs as a whole as before."""

    def told(x):
        tag = x.tag

        def inner():
            return tag

        print(end="")
        return inner()

    def of_another_kind(k):
        return type(f"Kind{k}", (), {"tag": k})()

    compiled = npc.compile(told)
    for k in range(2 * npc.config.recompile_limit):
        assert compiled(of_another_kind(k)) == k
    start, *others = compiled_function(compiled).points.values()
    before = start.idle.run, start.idle.is_whole
    assert before[1]
    computing = CompiledGraph(lambda: ())
    others[0].variants.append(Variant((), (), (), None, computing, None, {}))
    assert not leave(start.idle, start)
    assert (start.idle.run, start.idle.is_whole) == before
    start.render()
    assert compiled(of_another_kind(99)) == 99
