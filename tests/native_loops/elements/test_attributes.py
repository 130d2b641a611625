"""Attributes of objects in native loops: they are read before, set behind, and found as Python finds them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.native_loops.agreement import ends_when_interrupted, same
from tests.native_loops.test_native_loops import native_loops


class Model:
    gain = 0.25

    def __init__(self, n: int):
        self.x, self.new = np.arange(n) * 1.0, np.zeros(n)
        self.t, self.k, self.limit = 0.0, 0, 1e9

    @property
    def half(self):
        return self.t / 2 if self.t < 100 else self.gain

    def scaled(self, v):
        return v * self.k + self.half

    @staticmethod
    def shifted(v):
        return v + 1

    def reads(self, n):
        total = 0.0
        for i in range(1, n):
            total = total * self.gain + self.x[i % self.x.size] - self.limit / 1e9
        return total

    def sets(self, n):
        for i in range(n):
            self.t = self.t * 0.5 + self.x[i % self.x.size]
            self.k += 1
            self.x[i % self.x.size] += self.scaled(self.shifted(self.t))
            if self.t > self.limit:
                return i
        return self.half

    def swaps(self, n):
        for _ in range(n):
            for j in range(1, self.x.size - 1):
                self.new[j] = 0.5 * (self.x[j - 1] + self.x[j + 1])
            self.x, self.new = self.new, self.x
        return self.x

    def makes_arrays(self, n):
        for _ in range(n):
            self.x = self.x * 0.5 + 1
            self.t = float(self.x[0])
        return self.k

    def leaves_64_bits(self, n):
        for i in range(min(n, 45)):
            self.k = self.k * 3 + i
        return self.k

    def goes_out_of_bounds(self, n):
        for _ in range(n):
            self.k += 1
            self.t += self.x[self.k]

    def of_two(self, n, other=None):
        other = self if other is None else other
        for _ in range(n):
            self.t += 1.0
            other.t += self.t
            self.k = other.k + 1


class Slotted(Model):
    __slots__ = ("extra",)


def state_of(model: Model) -> list[Any]:
    arrays = [model.x, model.new]
    return [sorted(vars(model)), *(v for _, v in sorted(vars(model).items())), *(any(v is a for a in arrays) for v in arrays)]


def outcome(function: Any, model: Model, *arguments: Any) -> Any:
    x, new = model.x, model.new
    try:
        made = function(model, *arguments)
    except Exception as error:
        made = type(error), str(error)
    return [made, made is model.x, made is x, made is new, model.x is x, model.x is new, *state_of(model)]


@pytest.mark.parametrize("kind", [Model, Slotted])
@pytest.mark.parametrize("n", [0, 1, 7, 50, 300])
@pytest.mark.parametrize("name", ["reads", "sets", "swaps", "makes_arrays", "leaves_64_bits", "goes_out_of_bounds"])
def test_methods_with_loops(name: str, n: int, kind: type[Model]) -> None:
    function = getattr(Model, name)
    compiled = npc.compile(function)
    with npc.config.patch(recompile_limit=100):
        for _ in range(3):
            assert same(outcome(compiled, kind(20), n), outcome(function, kind(20), n))
    assert native_loops(compiled) or n < 50 or name == "leaves_64_bits"


def test_an_object_under_two_names() -> None:
    compiled = npc.compile(Model.of_two)
    for is_one in (False, True, False, True):
        ours, theirs = Model(3), Model(3)
        others = (None, None) if is_one else (Model(3), Model(3))
        compiled(ours, 9, others[0])
        Model.of_two(theirs, 9, others[1])
        assert same(state_of(ours), state_of(theirs))
        if others[0] is not None and others[1] is not None:
            assert same(state_of(others[0]), state_of(others[1]))


@pytest.mark.parametrize("change", ["another type", "missing", "of the class", "of the object", "a property", "sets"])
def test_what_is_found_changes(change: str) -> None:
    class Changed(Model):
        pass

    compiled = npc.compile(Model.sets)
    assert same(outcome(compiled, Changed(20), 50), outcome(Model.sets, Changed(20), 50))
    ours = Changed(20)
    match change:
        case "another type":
            ours.t = np.float32(1)  # type: ignore[assignment]
        case "missing":
            del ours.t
        case "of the class":
            Changed.gain = 3.5
        case "of the object":
            ours.gain = 4.5
        case "a property":
            Changed.half = property(lambda self: 7.0)  # type: ignore[assignment, method-assign]
        case "sets":
            Changed.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)  # type: ignore[assignment, method-assign]
    theirs = copy.deepcopy(ours)
    assert same(outcome(compiled, ours, 50), outcome(Model.sets, theirs, 50))


@dataclass
class Rates:
    growth: float = 1.5
    decay: float = 0.75


def test_arguments_with_numbers() -> None:
    def predators(rates, x, y, n):
        for _ in range(n):
            x, y = x + 0.01 * x * (rates.growth - y), y + 0.01 * y * (x - rates.decay)
        return x, y

    compiled = npc.compile(predators)
    for rates in (Rates(), Rates(2.0, 1), Rates(np.float64(0.5)), Rates(decay=0.25)):
        for n in (3, 40):
            assert same(compiled(rates, 1.0, 0.5, n), predators(rates, 1.0, 0.5, n))
    assert native_loops(compiled)


def test_a_method_that_loops_is_compiled_where_it_is_called() -> None:
    def both(model, n):
        return model.reads(n) + 1, model.sets(n) * 2

    compiled = npc.compile(both)
    for _ in range(3):
        ours, theirs = Model(20), Model(20)
        assert same(compiled(ours, 60), both(theirs, 60)) and same(state_of(ours), state_of(theirs))
    known = compiled_function(compiled)
    assert known is not None and [native_loops(callee) for callee in known.callees.values()] == [1, 1]


def test_attributes_are_set_when_the_user_interrupts() -> None:
    class Endless:
        def __init__(self):
            self.count, self.steps = 0, np.zeros(1)

        def run(self, n):
            for _ in range(n):
                self.count += 1
                self.steps[0] += 1

    compiled, given = npc.compile(Endless.run), Endless()
    compiled(given, 100)
    ends_when_interrupted(lambda: compiled(given, 10**12))
    assert given.count == given.steps[0] > 10_000
