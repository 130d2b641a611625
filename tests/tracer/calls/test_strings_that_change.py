"""Strings from outside that change from call to call: inputs of the program, whose guards ask what the program asks of them."""

import itertools

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

X = np.linspace(0.0, 1.0, 5)
NAMES = ("mean", "sum", "other", "s2", "o3", "o4", "mean", "full", "a", "", "q", "s0", "s1", "Mean ", "x{y}", "'\"\\")


class Holder:
    sin, cos = "sin of", "cos of"


def compares(x, name):
    if name == "mean":
        return x.mean()
    return x.sum() if name != "other" else x * 2


def compares_with_other_kinds(x, name):
    return x * 2, name == None, name != 3, name == ("mean",), name is None, name == b"mean", isinstance(name, str)  # noqa: E711


def orders(x, name):
    return x + 1 if name < "n" else x - 1


def passes_on(x, name):
    return x * 2, name, [name, {"name": name}]


def formats(x, name):
    return x * 2, f"<{name!r:>8}>", name + "!", "a" + name


def asks_methods(x, name):
    y = x + 1 if name.startswith(("s", "m")) else x - 1
    return (
        y,
        name.upper(),
        name.strip().endswith("n"),
        name.partition("e"),
        name.find("e"),
        name.replace("m", "M"),
        "mean".find(name),
    )


def is_in(x, name):
    if name in ("full", "valid", None):
        x = x + 1
    if name in {"mean", "sum"} or name in "other things" or "o" in name:
        x = x * 2
    return x, name not in {"q": 1, "s0": 2}


def is_in_a_dict_from_outside(x, name, table):
    return x + 1 if name in table else x - 1


def has_a_truth_and_a_length(x, name):
    return x * len(name) if name else x


def matches(x, name):
    match name:
        case "mean":
            return x.mean()
        case "sum" | "other":
            return x.sum()
    return x


def inlined(x, name):
    return compares(x, name) + compares(x * 2, name)


def sets_an_attribute(x, name, holder):
    holder.name = name
    return x * 2


def looks_up(x, name):
    return {"s0": np.sin, "s1": np.cos}.get(name, np.tan)(x)


def asks_for_an_attribute(x, name):
    return x * 2, getattr(Holder, name.strip() or "sin", 0)


def goes_over_it(x, name):
    return x * 2, [c + c for c in name], name[:2], name[::-1]


def multiplies(x, name):
    return x * 2, name * 2, name % (), hash(name) == hash("mean")


WITHOUT_BREAKS = [
    compares, compares_with_other_kinds, orders, passes_on, formats, asks_methods, is_in, is_in_a_dict_from_outside,
    has_a_truth_and_a_length, matches, inlined, sets_an_attribute,
]  # fmt: skip
EXTRA = {is_in_a_dict_from_outside: lambda: ({"mean": 1, "q": 2},), sets_an_attribute: lambda: (Holder(),)}
FUNCTIONS = [*WITHOUT_BREAKS, looks_up, asks_for_an_attribute, goes_over_it, multiplies]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_value_gives_what_python_gives(function):
    for names in (NAMES, NAMES[::-1]):
        compiled = npc.compile(function, backend="eager")
        for name in names:
            ours, theirs = (EXTRA.get(function, tuple)() for _ in range(2))
            assert repr(compiled(X, name, *ours)) == repr(function(X, name, *theirs)), name
            assert [*map(shown, ours)] == [*map(shown, theirs)]
        assert function not in WITHOUT_BREAKS or not compiled_function(compiled).breaks


def shown(value):
    return vars(value) if isinstance(value, Holder) else value


@pytest.mark.parametrize(("function", "programs"), [(compares, 4), (passes_on, 1), (formats, 2), (orders, 3), (matches, 4)])
def test_programs_are_for_answers_and_not_for_values(function, programs):
    compiled = npc.compile(function, backend="eager")
    for k, name in itertools.product(range(3), ("mean", "sum", "other", *(f"n{k}" for k in range(30)))):
        compiled(X + k, name)
    assert len(compiled_function(compiled).graphs) <= programs


def test_another_kind_of_value_is_no_string():
    compiled = npc.compile(compares, backend="eager")
    for name in ("mean", "sum", "q", np.str_("mean"), None, 3, type("Own", (str,), {})("mean")):
        assert repr(compiled(X, name)) == repr(compares(X, name))


def test_one_graph_takes_strings_that_change():
    compiled = npc.compile(compares, fullgraph=True, backend="eager")
    for name in NAMES:
        assert repr(compiled(X, name)) == repr(compares(X, name))
    pads = npc.compile(lambda x, mode: np.pad(x, 2, mode=mode), fullgraph=True, backend="eager")
    for mode in ("edge", "wrap", "reflect", "symmetric"):
        assert np.array_equal(pads(X, mode), np.pad(X, 2, mode=mode))


def test_gradients_take_them_too():
    gradient = npc.grad(lambda x, name: (x * x).sum() if name == "square" else x.sum())
    for name in ("square", "one", "two", "three", "four", "square"):
        assert np.array_equal(gradient(X, name), 2 * X if name == "square" else np.ones(5))


TABLE = {"s": np.sin, "c": np.cos, "e": np.exp, "t": np.tan, "q": np.square, "f": np.floor, "g": np.sign, "h": np.abs}
AS_CONSTANTS = {
    "item of a dict": (lambda x, name: TABLE[name](x * 2) + 1, [*TABLE]),
    "attribute": (lambda x, name: getattr(x * 2, name)() + 1, ["sum", "max", "min", "mean", "prod", "std", "argmax", "argmin"]),
    "mode": (
        lambda x, name: np.pad(x * 2, 2, mode=name) + 1,
        ["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "empty"],
    ),
}


@pytest.mark.parametrize(("function", "values"), AS_CONSTANTS.values(), ids=[*AS_CONSTANTS])
def test_constants_have_a_program_each_up_to_the_limit(function, values):
    compiled, limit = npc.compile(function, backend="eager"), npc.config.recompile_limit
    for value in [*values[: limit - 1]] * 2:
        assert np.array_equal(compiled(X, value), function(X, value))
    known = compiled_function(compiled)
    assert len(known.graphs) == limit - 1
    assert not known.breaks
    if values[-1] != "empty":  # whose values are not set
        for value in [*values] * 2:
            assert np.array_equal(compiled(X, value), function(X, value))
        assert known.breaks
        point = next(iter(known.points.values()))
        assert len(point.variants) == limit
