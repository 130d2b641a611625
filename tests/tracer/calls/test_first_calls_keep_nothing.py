"""The arguments of a first call die with their last reference: capture leaves no cycles that hold them."""

from __future__ import annotations

import ast
import gc
import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cache import Cache
from npcompile.backends.cpu.loader import loader


class Model:
    def __init__(self, x: np.ndarray, *args: Any):
        self.x, self.args, self.steps = x, args, 0


class Items(list):
    """A list that can be watched."""


def sets_attributes(model: Model) -> np.ndarray:
    model.y = np.sin(model.x) * 2
    model.steps += 1
    return model.y


def keeps_its_arguments(model: Model) -> float:
    model.made = Model(model.x * 2, model.args)
    return model.made.x.sum()


def appends(model: Model) -> list:
    model.items.append(model.x * 2)
    return model.items[-1]


def makes_functions(model: Model) -> np.ndarray:
    model.step = lambda y: y + 1
    return model.step(model.x)


def breaks(model: Model) -> np.ndarray:
    model.y = model.x * 2
    print(end="")
    model.z = model.y + 1
    return model.z


def loops(model: Model) -> float:
    total = 0.0
    for k in range(len(model.x)):
        total += model.x[k] * k
    model.total = total
    return total


def fails(model: Model) -> None:
    model.y = model.x * 2
    raise ValueError("as it should")


def branches(model: Model) -> np.ndarray:
    model.y = np.sqrt(model.x) if model.x[0] > 0 else np.exp(model.x)
    return model.y


def comprehends(model: Model) -> list:
    model.rows = [model.x * k for k in range(5)]
    return sum(row.sum() for row in model.rows)


def handles(model: Model) -> np.ndarray:
    try:
        model.y = model.missing
    except AttributeError:
        model.y = model.x + 1
    with np.errstate(divide="ignore"):
        return model.y / model.x


def calls_a_library(model: Model) -> np.ndarray:
    model.y = np.frompyfunc(abs, 1, 1)(model.x)
    return np.unique(model.x)


def differentiates(model: Model) -> np.ndarray:
    model.slope = npc.grad(lambda x: (x * model.x).sum())(model.x)
    return model.slope


def fills(model: Model) -> np.ndarray:
    for k in range(1, len(model.x)):
        model.x[k] = model.x[k - 1] * 0.5 + model.x[k]
    return model.x


def listed(call: Any, items: Any) -> list:
    made = call(items)
    print(end="")
    return made


def hands_on_a_generator(model: Model) -> list:
    """What asks it for items is inlined, and its frame has the generator; the generator's has what is inlined."""
    return listed(model.items.count, (model.x * k for k in range(2))), listed(list, (model.x * k for k in range(3)))


def ends_generators(model: Model) -> list:
    def parts() -> Iterator[Any]:
        try:
            yield from (model.x * k for k in range(4))
        finally:
            model.y = model.x + 1

    given = parts()
    first = next(given)
    given.close()
    try:
        given.throw(KeyError("none"))
    except KeyError:
        return [first, model.y]
    return []


PROGRAMS = [
    hands_on_a_generator,
    ends_generators,
    branches,
    comprehends,
    handles,
    calls_a_library,
    differentiates,
    fills,
    sets_attributes,
    keeps_its_arguments,
    appends,
    makes_functions,
    breaks,
    loops,
    fails,
]


WHEN = ("first call", "background")


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# A transform that runs beside the program is of a function of its own, whose parts refer to each other.
@pytest.mark.parametrize("f, when", [(f, when) for f in PROGRAMS for when in WHEN if when == WHEN[0] or f is not differentiates])
def test_the_arguments_of_a_first_call_die_with_their_last_reference(f, when, no_collector, monkeypatch, tmp_path):
    """In the background, units are new: calls are told that they are not made yet."""
    monkeypatch.setattr(npc.config, "tiers", "always")
    monkeypatch.setattr(npc.config, "compile", when)
    if when == "background":
        monkeypatch.setattr(loader(), "cache", Cache(tmp_path))
        monkeypatch.setattr(loader(), "_functions", {})
    compiled = npc.compile(f)
    for _ in range(3):
        model = Model(np.arange(40.0), 1, "two", np.ones(3))
        model.items = Items([1.0])
        watched = [weakref.ref(model), weakref.ref(model.x), weakref.ref(model.items)]
        try:
            compiled(model)
        except ValueError:
            assert f is fails
        del model
        assert [ref() is None for ref in watched] == [True] * 3


RAISES = re.compile(r"\braise [a-z_]")  # of a variable: others are not looked at further


def raised_variables(function: ast.AST) -> Iterator[str]:
    """Variables that a function raises and keeps: the exception has the frame in its traceback, and the frame the exception."""
    nodes = [*ast.walk(function)]
    dropped = {target.id for n in nodes if isinstance(n, ast.Delete) for target in n.targets if isinstance(target, ast.Name)}
    dropped |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
    kept = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    kept |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    for n in nodes:
        if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Name) and n.exc.id in kept - dropped:
            yield f"{n.lineno}: raise {n.exc.id}"


@pytest.mark.parametrize("package", ("npcompile", "backends", "numpy_shim", "tensor_core"))
def test_no_frame_keeps_what_it_raises(package):
    root = Path(__file__).parents[3] / package
    files = [path for path in root.rglob("*.py") if not any(folder.is_symlink() for folder in path.parents)]
    assert files
    found = []
    for path in files:
        text = path.read_text()
        functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)] if RAISES.search(text) else []
        found += [f"{path.relative_to(root)}:{line}" for function in functions for line in raised_variables(function)]
    assert not found


def test_such_a_frame_is_found():
    assert [*raised_variables(ast.parse("def f(error):\n    raise error"))] == ["2: raise error"]
    kept = "def f(error):\n    try:\n        raise error\n    finally:\n        del error"
    assert not [*raised_variables(ast.parse(kept))]
