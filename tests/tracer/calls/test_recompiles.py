"""Which calls make programs of their own, and how many: what ordinary programs vary meets no limit."""

from __future__ import annotations

import enum
import gc
import linecache
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.array_guards import LIKENESS, kind_of
from npcompile.backends.cpu.loader import loader
from npcompile.compiler import compiled_function
from npcompile.tracer import recompiles
from npcompile.tracer.point import Point
from npcompile.tracer.profitability import FIRST_SPAN, MOST_KINDS
from npcompile.tracer.wrapping import ARRAY_FLAGS

X = np.arange(6.0)
MODULES = [types.ModuleType(f"module_{k}") for k in range(12)]


def checked(function: Callable[..., Any], calls: Iterable[Any]) -> Callable[..., Any]:
    """Compile a function, and compare calls of it with the original: without a warning, and nowhere at the limit."""
    compiled = npc.compile(function, backend="eager")
    for each in calls:
        args = each() if callable(each) else each
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got, want = compiled(*args), function(*args)
        assert type(got) is type(want)
        np.testing.assert_equal(got, want)
    assert not any(point.is_native for point in points_of(compiled))
    return compiled


def points_of(compiled: Callable[..., Any]) -> list[Point]:
    function = compiled_function(compiled)
    assert function is not None
    return sorted(function.points.values(), key=lambda p: p.number)


def graphs_of(compiled: Callable[..., Any]) -> int:
    function = compiled_function(compiled)
    assert function is not None
    return len(function.graphs)


# --- kinds


def test_each_dtype_is_compiled_for() -> None:
    compiled = checked(lambda x: x * 2 + x, [(np.arange(4).astype(kind),) for kind in "bBhHiIlLfdFD"] * 2)
    assert graphs_of(compiled) == 12


def test_each_number_of_dimensions_is_compiled_for() -> None:
    assert graphs_of(checked(lambda x: x * 2 + x, [(np.ones((2,) * n),) for n in range(1, 13)] * 2)) == 12


def test_sizes_of_one_are_kinds() -> None:
    shapes = [(a, b) for a in (1, 3) for b in (1, 3)]
    calls = [(np.ones(a), np.ones(b)) for a in shapes for b in shapes]
    assert graphs_of(checked(lambda x, y: x + y, calls * 2)) == 16


class Base:
    factor = 2.0

    def step(self, x: Any) -> Any:
        return x * self.factor + self.extra()

    def extra(self) -> float:
        return 1.0


def test_methods_that_many_classes_inherit() -> None:
    classes = [type(f"Part{k}", (Base,), {"factor": float(k)}) for k in range(12)]
    assert graphs_of(checked(Base.step, [(kind(), X) for kind in classes] * 2)) == 12


@pytest.mark.parametrize("given", [[True, False] * 8, [*enum.Enum("Side", [f"m{k}" for k in range(12)])], [np.sin, np.cos] * 6])
def test_objects_of_which_there_are_few(given: list[Any]) -> None:
    known = given[0]
    compiled = checked(lambda x, a: x * 2 if a is known else x * 3, [(X, a) for a in given])
    assert graphs_of(compiled) == len(set(given))


def test_flags_in_all_combinations() -> None:
    flags = [tuple(bool(k >> b & 1) for b in range(4)) for k in range(16)]
    checked(
        lambda x, a, b, c, d: x * (2 if a else 3) + (4 if b else 5) - (6 if c else 7) + (8 if d else 9), [(X, *f) for f in flags]
    )


# --- values


def keys_and_values(x: Any, table: dict[str, float]) -> Any:
    for name, value in table.items():
        x = x + value * len(name)
    return x


def taken(x: Any, **options: Any) -> Any:
    return x * sum(options.values())


VALUES: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "keys": (keys_and_values, lambda k: (X, {f"k{k}": 1.0, f"j{k}": 2.0})),
    "options": (lambda x, d: taken(x, **d), lambda k: (X, {f"k{k}": 1.0})),
    "texts": (lambda x, s: x * 2 if s == "k3" else x * 3, lambda k: (X, f"k{k}")),
    "a list that grows": (lambda x, items: x * len(items) + sum(items), lambda k: (X, [1.0] * k)),
    "arguments": (lambda *items: sum(items), lambda k: (X,) * (k + 1)),
    "stacked": (lambda items: np.stack(items) * 2, lambda k: ([X] * (k + 1),)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_change_stop_to_be_asked_for(name: str) -> None:
    function, make = VALUES[name]
    compiled = checked(function, [make(k) for k in range(20)])
    assert max(len(point.variants) for point in points_of(compiled)) <= 4


# --- functions and classes


def run(text: str, namespace: dict[str, Any]) -> None:
    exec(text, namespace)


HELPER = "def helper(x, a=2.0):\n    return x * a + 1\n"
PROGRAM = "def program(x):\n    return helper(x) * 2\n"


def redefined(texts: Iterable[str]) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"np": np}
    run(PROGRAM, namespace)

    def define(text: str) -> Callable[[], tuple[Any, ...]]:
        return lambda: (run(text, namespace), (X,))[1]

    return checked(namespace["program"], [define(text) for text in texts])


def test_a_helper_that_is_defined_again() -> None:
    assert graphs_of(redefined([HELPER] * 20)) == 2


def test_defaults_of_a_helper_are_inputs() -> None:
    assert graphs_of(redefined([HELPER.replace("2.0", f"{k}.0") for k in range(20)])) == 2


def test_a_helper_that_is_edited_is_compiled_each_time() -> None:
    """Programs for earlier texts make room."""
    compiled = redefined([HELPER.replace("+ 1", f"+ {k}") for k in range(20)])
    assert graphs_of(compiled) == 20 and len(points_of(compiled)[0].variants) == npc.config.recompile_limit


def test_equal_functions_of_two_modules_are_told_apart() -> None:
    """Their globals differ."""
    spaces: list[dict[str, Any]] = [{"K": 2.0}, {"K": np.arange(6.0)}, {"K": 3.0}]
    for space in spaces:
        run("def scaled(x):\n    return x * K\n", space)
    checked(lambda f, x: f(x) + 1, [(space["scaled"], X) for space in spaces] * 2)


def test_functions_that_are_handed_over() -> None:
    """Where they vary they are called, compiled, and the rest is one program."""
    calls = [(eval(f"lambda x: x * {k} + 1"), X) for k in range(12)]
    compiled = checked(lambda f, x: f(x * 3) - 2, calls * 2)
    assert max(len(point.variants) for point in points_of(compiled)) <= 4
    function = compiled_function(compiled)
    assert function is not None and len(function.callees) >= 8


def test_compiled_functions_that_are_handed_over() -> None:
    """Their own code changes with each of their programs."""
    inner = npc.compile(lambda x: x * 2 + 1, backend="eager")
    calls = [(inner, np.ones((2,) * n)) for n in range(1, 6)]
    compiled = npc.compile(lambda f, x: f(x) - 2, backend="eager")
    for f, x in calls:
        f(x)  # has another program
        np.testing.assert_array_equal(compiled(f, np.ones(3)), np.ones(3))
    assert graphs_of(compiled) == 1


def made_anew(k: int) -> tuple[Any, ...]:
    class Part:
        factor = float(k)

        def go(self, x: Any) -> Any:
            return x * self.factor

    return Part(), X


def below_made_anew(k: int) -> tuple[Any, ...]:
    return shown(k)(), X


@pytest.mark.parametrize("make", [made_anew, below_made_anew])
def test_classes_that_are_gone_make_room(make: Callable[[int], Any]) -> None:
    compiled = checked(lambda part, x: part.go(x), [lambda k=k: make(k) for k in range(20)])
    assert graphs_of(compiled) == 20 and len(points_of(compiled)[0].variants) <= npc.config.recompile_limit


class Shown:
    def __init__(self, x: Any = 1.0) -> None:
        self.x = x

    def go(self, x: Any) -> Any:
        return type(self)().x * x

    def of_class(self, x: Any) -> Any:
        return x * type(self).k  # type: ignore[attr-defined]

    def copied(self, x: Any) -> Any:
        return self.__class__(x * 2).x

    @classmethod
    def made(cls, x: Any) -> Any:
        return cls(x + 1).x


def shown(k: int) -> type[Shown]:
    class Below(Shown):
        def __init__(self, x: Any = 2.0) -> None:
            super().__init__(x + k)

    Below.k = k  # type: ignore[attr-defined]
    Below.__name__ = Below.__qualname__ = f"Below{k}"
    return Below


REGISTRY = [shown(k) for k in range(12)]  # the only list that has them
PER_CLASS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "made": (Shown.go, [(kind(), X) for kind in REGISTRY]),
    "read from": (Shown.of_class, [(kind(), X) for kind in REGISTRY]),
    "made by __class__": (Shown.copied, [(kind(), X) for kind in REGISTRY]),
    "class methods": (Shown.made.__func__, [(kind, X) for kind in REGISTRY]),  # type: ignore[attr-defined]
    "handed over": (lambda kind, x: kind(x).x * kind.k, [(kind, X) for kind in REGISTRY]),
    "modules": (lambda space, x: space.c * x, [(vars(m).update(c=float(k)) or m, X) for k, m in enumerate(MODULES)]),
}


@pytest.mark.parametrize("name", PER_CLASS)
def test_classes_that_are_made_and_read_from(name: str) -> None:
    """Each has one program, which stays, and a dispatch of its own: the last is entered as quickly as the first."""
    loader().start_runtime()
    function, calls = PER_CLASS[name]
    compiled = checked(function, calls * 3)
    (point, *_) = points_of(compiled)
    assert graphs_of(compiled) == len(point.variants) == len(calls) and point.dropped == 0
    for made in point.by_kind.values():
        assert sum("# variant" in line for line in linecache.getlines(made.__code__.co_filename)) == 1


def test_classes_in_variables_of_functions_that_run_are_not_gone() -> None:
    one, other, third = shown(0), shown(1), shown(2)
    compiled = npc.compile(Shown.go, backend="eager")
    with npc.config.patch(recompile_limit=2):
        for _ in range(3):
            np.testing.assert_equal([compiled(one(), X), compiled(other(), X), compiled(third(), X)], [X * 2, X * 3, X * 4])
    assert graphs_of(compiled) == 3


def test_classes_are_looked_for_once_for_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """That goes over all objects there are."""
    looks: list[int] = []
    find = gc.get_referrers
    monkeypatch.setattr(recompiles.gc, "get_referrers", lambda *objects: looks.append(len(objects)) or find(*objects))
    checked(*PER_CLASS["made"])
    assert looks == [*range(npc.config.recompile_limit, len(REGISTRY))]


class Kept:
    def go(self, x: Any) -> Any:
        return x + 1


KEPT = [type(f"Kept{k}", (Kept,), {}) for k in range(12)]
globals().update({kind.__name__: kind for kind in KEPT})


def test_classes_that_their_module_has_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for what refers to a class goes over all objects there are."""
    looks: list[Any] = []
    monkeypatch.setattr(recompiles.gc, "get_referrers", lambda *objects: looks.append(objects) or [object()])
    checked(lambda part, x: part.go(x), [(kind(), X) for kind in KEPT])
    assert not looks


def test_functions_that_name_no_global_may_have_any_globals() -> None:
    """Text that is executed in a namespace of its own, as scipy.stats does for each distribution."""

    def executed(text: str, **namespace: Any) -> Any:
        exec(text, namespace)
        return namespace["given"]

    plain, naming = "def given(x, k=2): return x + k, k", "def given(x): return x + scale"
    compiled = checked(lambda f, x: f(x)[0] * 2, [(executed(plain), X) for _ in range(20)])
    assert graphs_of(compiled) == 1
    checked(lambda f, x: f(x) * 2, [(executed(naming, scale=k), X) for k in range(4)])


# --- where there is nothing to compile

THINGS = [1, 2.0, "a", None, [1], (2,), {1: 2}, {3}, b"x", 3j, True, object(), print, int, range(3), slice(2)]


def doubled(x: Any) -> Any:
    return x * 2 if hasattr(x, "shape") else x if isinstance(x, (str, bytes, range)) else (x, x)


def test_python_runs_where_nothing_is_compiled() -> None:
    compiled = checked(doubled, [(x,) for x in THINGS] * 20)
    start = points_of(compiled)[0]
    assert start.idle.run is not None and not start.variants and graphs_of(compiled) == 0


def test_arrays_are_compiled_for_after_that() -> None:
    compiled = checked(doubled, [*[(x,) for x in THINGS] * 2, (X,), (X,), (np.ones((2, 2)),), (1,), (X,)])
    assert graphs_of(compiled) == 2


class Holder:
    def __init__(self, a: Any):
        self.a = a


def test_an_object_that_comes_to_hold_arrays() -> None:
    """It is of the same type: capture is tried again now and then."""
    others = [(Holder(x),) for x in THINGS]
    compiled = checked(lambda o: doubled(o.a), [*others, *[(Holder(X),)] * 2 * FIRST_SPAN])
    assert graphs_of(compiled) == 1 and points_of(compiled)[0].variants[0].computes


def test_what_is_compiled_behind_it_is_entered() -> None:
    def program(x: Any, option: Any) -> Any:
        kind = type(option).__name__
        print(kind, end="")
        return np.sqrt(x) * 2 + len(kind)

    compiled = checked(program, [(X, option) for option in THINGS] * 3)
    assert any(variant.graph is not None for point in points_of(compiled) for variant in point.variants)


def test_exceptions_and_recursion_of_what_is_left_to_python() -> None:
    def depth(tree: Any) -> int:
        if isinstance(tree, (list, tuple)):
            return 1 + max(map(depth_of, tree), default=0)
        if tree is None:
            raise ValueError("nothing")
        return 0

    depth_of: Callable[..., Any] = npc.compile(depth)
    for tree in THINGS:
        if tree is not None:
            assert depth_of(tree) == depth(tree)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^nothing$"):
            depth_of([None])
    nested: Any = 1
    for _ in range(100):
        nested = [nested]
    assert depth_of(nested) == 100


def test_combinations_of_values() -> None:
    """A few values of each of several arguments are many programs: where they meet the limit, what varies is assumed no more."""

    def program(x: Any, a: str, b: list[float], n: int) -> Any:
        y = x * len(a) + len(b)
        return y.reshape(6)[: n % 3 + 1] * (2 if a == "aa" else 3)

    options = [("a" * i, [1.0] * j, n) for n in range(3) for i in range(1, 4) for j in range(3)]
    compiled = checked(program, [(X, *each) for each in options] * 2)
    assert max(len(point.variants) for point in points_of(compiled)) <= npc.config.recompile_limit


# --- many variants


def layouts(shape: tuple[int, ...]) -> Iterable[np.ndarray]:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    yield from (x, np.asfortranarray(x), np.repeat(x, 2, axis=-1)[..., ::2], x[::-1])


@pytest.mark.parametrize("is_native", [True, False])
def test_layouts_axes_and_sizes_of_one_function(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More programs than are tried in turn: each call is one of those of its kind."""
    loader().start_runtime()
    if not is_native:
        monkeypatch.setattr(LIKENESS, "kind_of", None)
    axes: dict[int, list[Any]] = {1: [None, 0], 2: [None, 0, 1], 3: [None, 0, 1, (0, 1), (1, 2), (0, 2)]}
    shapes = [(5,), (9,), (4, 6), (7, 3), (2, 3, 4), (4, 3, 2)]
    calls = [(x, axis) for s in shapes for x in layouts(s) for axis in axes[len(s)]]
    calls = [(*call, k % 2 == 0) for k, call in enumerate(calls)]
    compiled = checked(lambda x, axis, c: x.sum(axis=axis) * (2 if c else 3), [*calls, *calls])
    (point, *_) = points_of(compiled)
    assert point.are_many and 32 < len(point.variants) == len(compiled_function(compiled).graphs) < len(calls)
    assert len(point.by_kind) == len({kind_of(ARRAY_FLAGS, *call) for call in calls})
    for made in point.by_kind.values():
        lines = linecache.getlines(made.__code__.co_filename)
        assert 0 < sum("# variant" in line for line in lines) < len(point.variants) / 2


@pytest.mark.parametrize("is_native", [True, False])
def test_a_variant_that_fits_many_kinds_is_found_by_each(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made for one kind of call after the dispatch for another, and what is taken away."""
    loader().start_runtime()
    if not is_native:
        monkeypatch.setattr(LIKENESS, "kind_of", None)
    monkeypatch.setattr("npcompile.tracer.point.FEW_WITHOUT_C", 8)

    def program(x: Any, unused: Any, n: int) -> Any:
        return x[:n] * 2 if n % 2 else x[n:] * 3

    kinds = [np.arange(12).astype(kind) for kind in "bBhHiIlLfdFD"]
    others = [None, True, False, 5, 5.0, "text", X, X[::2], X.astype("f4"), X.reshape(2, 3)]
    calls = [(x, other, n) for n in (1, 2, 3) for x in kinds for other in others]
    compiled = checked(program, calls)
    (point, *_) = points_of(compiled)
    assert 8 < len(point.variants) <= 3 * len(kinds)
    npc.reset()
    for each in calls[::-1]:
        np.testing.assert_equal(compiled(*each), program(*each))


def test_the_limit_of_all_kinds_is_met_with_one_warning() -> None:
    compiled = npc.compile(lambda x: x * 2, backend="eager")
    given = [np.ones((1,) * n, kind) for n in range(8) for kind in "bBhHiIlLfdFD"]
    with npc.config.patch(recompile_limit=1), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            for x in given:
                np.testing.assert_equal(compiled(x), x * 2)
    (message,) = map(str, (each.message for each in told))
    (point,) = points_of(compiled)
    assert len(point.variants) == MOST_KINDS and f"was compiled {MOST_KINDS} times" in message
