"""Every kind of guard: it is written as Python, that text answers as the guard says, and it is said in words."""

from __future__ import annotations

import ast
import types
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tensor_core import guards
from npcompile.tensor_core.guards import (
    All,
    Axis,
    Binds,
    Either,
    Equals,
    Flags,
    Guard,
    HasAttribute,
    HasKey,
    Is,
    Keeps,
    Keys,
    KeyTypes,
    Layout,
    Length,
    OfDType,
    OfType,
    OneSource,
    Ordered,
    Several,
    Truth,
    compared,
    within,
)
from npcompile.tensor_core.source import (
    GLOBALS,
    NONE,
    Assigned,
    Attribute,
    Bound,
    Call,
    Compared,
    Formula,
    Item,
    Literal,
    Name,
    Object,
    builtin,
)
from npcompile.tracer.guard_text import text_of
from npcompile.tracer.recompiles import subject_of, value_of, why_not
from npcompile.tracer.value_words import words
from tests.test_layering import package_sources

X, N = Name("x"), Bound("s0")
SIZE = X.attribute("shape").item(0)
FLOAT64, NDARRAY = Object("k_float64", np.dtype(float)), Object("k_ndarray", np.ndarray)
NUMPY = Object("k_numpy", vars(np))
OF_OBJECTS = {"k_float64": np.dtype(float), "k_ndarray": np.ndarray, "k_numpy": vars(np), "k_exp": np.exp, "k_len": len}

# A guard, a value of `x` for which it holds, one for which it does not, and what is said of it.
EXAMPLES: list[tuple[Guard, Any, Any, str]] = [
    (OfType(X, builtin(float)), 1.5, 1, "x: float"),
    (Is(X, NONE), None, 0, "x is None"),
    (Is(X, NONE, False), 0, None, "x is not None"),
    (Is(X, Object("k_exp", np.exp)), np.exp, np.sin, "`x` is still NumPy's"),
    (Is(X, Object("k_len", len)), len, max, "`x` is still the same function"),
    (Equals(X, Literal("abc")), "abc", "abd", "x is equal to 'abc'"),
    (Truth(X.attribute("imag"), False), 3.0, 3j, "x.imag is false"),
    (Truth(Compared(X, "<", Literal(3))), 2, 3, "(x < 3)"),
    (HasKey(X, Literal("a")), {"a": 1}, {}, "x has the key 'a'"),
    (HasKey(X, Literal("a"), False), {}, {"a": 1}, "x has no key 'a'"),
    (HasAttribute(X, "shape"), np.ones(2), 2, "x has an attribute 'shape'"),
    (Keys(X, Literal(["a", "b"])), {"a": 1, "b": 2}, {"b": 2, "a": 1}, "x has these keys or members: ['a', 'b']"),
    (KeyTypes(X, (builtin(int),)), {1: 0}, {True: 0}, "x has keys or members of types int"),
    (Length(X, "==", 2), [1, 2], [1], "x has 2 items"),
    (Length(X, ">", 2), [1, 2, 3], [1, 2], "x has more than 2 items"),
    (OfDType(X, FLOAT64), np.ones(1), np.ones(1, "f4"), "x.dtype is float64"),
    (OfDType(X, FLOAT64, False), np.ones(1), np.ones(1, "f4"), "x.dtype == float64"),
    (Flags(X, 1, 1), np.ones((2, 2)), np.ones((2, 2)).T[:1], "x.flags.num & 1 == 1"),
    (Layout(X, "shape", (5, 9)), np.ones((5, 9)), np.ones((9, 5)), "x.shape == (5, 9)"),
    (Axis(X, "shape", 1, 9), np.ones((5, 9)), np.ones((5, 8)), "x.shape[1] == 9"),
    (Ordered((Literal(0), X, Literal(8)), ("<=", "<")), 7, 8, "0 <= x < 8"),
    (Ordered((Literal(0), X, Literal(8)), ("<=", "<"), False), 8, 7, "not (0 <= x < 8)"),
    (All((OfType(X, builtin(str)), Equals(X, Literal("a")))), "a", "b", "x: str, equal to 'a'"),
    (Either((Is(X, NONE), Equals(X, Literal(0)))), 0, 1, "x is still the same"),
    (compared(Assigned("y", X).attribute("real"), "==", Literal(2)), 2, 3, "(y := x).real == 2"),
]
# Those that only give a name a value: nothing is said of them, but what is asked of the name.
GIVING: list[Guard] = [Binds(X, "s0"), Keeps(X, "c0")]


def test_there_is_an_example_of_every_kind() -> None:
    defined = {kind for kind in vars(guards).values() if isinstance(kind, type) and issubclass(kind, Guard)}
    assert {type(guard) for guard in (*(example[0] for example in EXAMPLES), *GIVING)} == defined - {Guard, OneSource, Several}


@pytest.mark.parametrize(("guard", "fits", "other", "said"), EXAMPLES, ids=lambda each: str(each)[:40])
def test_it_is_written_asked_and_said(guard: Guard, fits: Any, other: Any, said: str) -> None:
    assert eval(text_of(guard), OF_OBJECTS | {"x": fits})
    assert not eval(text_of(guard), OF_OBJECTS | {"x": other})
    assert words([guard]) == (said,)
    assert why_not([guard], OF_OBJECTS, {"x": fits}, {}) is None
    assert "theirs" in str(why_not([guard], OF_OBJECTS, {"x": other}, {"x": "theirs"}))
    if (subject := subject_of(guard)) is not None:
        value_of(subject, OF_OBJECTS | {"x": other})  # what is told of it can be asked
    assert guard.names() == {"x"}
    assert guard == type(guard)(*(getattr(guard, name) for name in guard.__match_args__))  # type: ignore[attr-defined]


@pytest.mark.parametrize("guard", GIVING, ids=lambda each: type(each).__name__)
def test_what_gives_a_name(guard: Guard) -> None:
    scope = {"x": 7}
    assert eval(text_of(guard), scope)
    assert [scope[name] for name in guard.gives()] == [7]
    assert words([guard]) == ()


ARRAY = [All((OfType(X, NDARRAY), OfDType(X, FLOAT64))), Flags(X, 0x80000501, 0x501)]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([*ARRAY, Layout(X, "shape", (5, 9))], ["x: float64 array of shape (5, 9), C-contiguous"]),
        (
            [ARRAY[0], Flags(X, 0x80000501, 0x100), Layout(X, "shape", (3,)), Layout(X, "strides", (16,))],
            ["x: float64 array of shape (3,), not C-contiguous, read-only, strides (16,)"],
        ),
        (
            [*ARRAY, Layout(X, "ndim", 2), Binds(SIZE, "s0"), compared(N, ">=", Literal(2)), Axis(X, "shape", 1, 9)],
            ["x: float64 array of shape (any >= 2, 9), C-contiguous"],
        ),
        (
            [OfType(X, builtin(int)), Binds(X, "s0"), within(Literal(1 - 2**31), N, Literal(2**31 - 1))],
            ["x: int in (-2**31, 2**31)"],
        ),
        (
            [OfType(X, builtin(int)), Binds(X, "s0"), compared(N, ">=", Literal(0)), compared(N, "<", Literal(2**31))],
            ["x: int in [0, 2**31)"],
        ),
        ([OfType(X, builtin(int)), Binds(X, "s0"), compared(N, "==", Literal(4))], ["x: int equal to 4"]),
        ([Binds(Call(builtin(len), X), "s0"), compared(N, ">", Literal(64))], ["len(x): of at least 65"]),
        ([Is(NUMPY.item("exp"), Object("k_exp", np.exp))], ["`numpy.exp` is still NumPy's"]),
        ([Is(GLOBALS.item("scale"), Object("k_len", len))], ["`scale` is still the same function"]),
        ([HasKey(GLOBALS, Literal("range"), False)], ["no global is called range"]),
        ([Truth(Call(Object("k", types.FunctionType(ast.walk.__code__, {}, "are_disjoint")), Literal(1), X, Name("y")))],
         ["x, y share no memory"]),
        ([Ordered((Formula("{} + {}", X, Name("y")), Literal(2)), ("<",))], ["x + y < 2"]),
    ],
)  # fmt: skip
def test_what_is_said_of_a_value_is_said_together(asked: list[Guard], said: list[str]) -> None:
    assert [*words(asked)] == said


def test_names_are_the_users() -> None:
    asked = [OfType(Name("v_x"), builtin(float)), Keeps(Name("cells").item(0).attribute("cell_contents"), "c0")]
    asked += [OfType(Bound("c0"), builtin(float))]
    assert words(asked, {"v_x": "x"}) == ("x: float", "cells[0].cell_contents: float")
    factor = 2.0
    closure = Object("k_f", lambda: factor).attribute("__closure__").item(0).attribute("cell_contents")
    assert words([Keeps(closure, "c0"), OfType(Bound("c0"), builtin(float))]) == ("factor: float",)


def scaled(x: np.ndarray, n: int) -> Any:
    return np.exp(x) * n


def test_explain_says_them_and_keeps_the_python() -> None:
    told = npc.explain(scaled)(np.ones((5, 9)), 3)
    assert told.guards[0] == (
        "`np` is still NumPy's",
        "`numpy.exp` is still NumPy's",
        "x: float64 array of shape (5, 9), C-contiguous",
        "n: int in (-2**31, 2**31)",
    )
    assert all(guard in str(told) for guard in told.guards[0])
    assert any("s0 := n" in condition for condition in told.conditions[0])
    assert all(ast.parse(condition, mode="eval") for condition in told.conditions[0])
    assert all(" := " not in said and "k_" not in said for said in told.guards[0])


# --- nothing reads the text

WRITES = "npcompile.tracer.guard_text"
# To print it, to run it, also for a call that is being captured, and for what has no other words.
MAY_ASK_FOR_TEXT = {"conditions", "recompiles", "guard_words", "assumed_branches"}
SEARCH = {
    "resume",
    "fast_paths",  # compiles generated programs, as CPython does, and concludes nothing from them
    "function",
    "graph_variants",
    "python.texts",
    "variant",
}  # lines of generated programs, names in them, and strings of the user's


def tracer_modules() -> dict[str, ast.Module]:
    start = "npcompile.tracer."
    named = {name.removeprefix(start): text for name, text in package_sources().items() if name.startswith(start)}
    return {name: ast.parse(text) for name, text in named.items() if not name.startswith(("native.", "bytecode."))}


def imported(tree: ast.Module) -> set[str]:
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return found | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_no_module_reads_the_text_of_guards() -> None:
    modules = tracer_modules()
    assert {name for name, tree in modules.items() if imported(tree) & {"re", "ast", "tokenize"}} == SEARCH
    assert {name for name, tree in modules.items() if WRITES in imported(tree)} == MAY_ASK_FOR_TEXT
    for name, tree in modules.items():
        for node in ast.walk(tree):
            match node:  # a method of the text, a part of it, or what it contains
                case ast.Attribute(ast.Call(ast.Name("text_of")), method) if name in MAY_ASK_FOR_TEXT:
                    raise AssertionError(f"{name}: .{method} of the text of a guard")
                case ast.Subscript(ast.Call(ast.Name("text_of" | "str"))):
                    raise AssertionError(f"{name}: a part of a text")
                case ast.Compare(_, [ast.In() | ast.NotIn()], [ast.Call(ast.Name("text_of"))]):
                    raise AssertionError(f"{name}: searches the text of a guard")


def test_sources_are_written_alike_where_they_are_equal() -> None:
    assert X.attribute("shape").item(0) == Item(Attribute(Name("x"), "shape"), Literal(0)) != X.attribute("shape").item(1)
    assert str(Call(builtin(max), X, Literal(float("inf")))) == "max(x, float('inf'))"
    assert [*Formula("{} + {}", X, N).names()] == ["x", "s0"]
