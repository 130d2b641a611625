"""The arguments of a first call die with their last reference: capture leaves no cycles that hold them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc


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


PROGRAMS = [
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


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("f", PROGRAMS)
def test_the_arguments_of_a_first_call_die_with_their_last_reference(f, no_collector, monkeypatch):
    monkeypatch.setattr(npc.config, "tiers", "always")
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
