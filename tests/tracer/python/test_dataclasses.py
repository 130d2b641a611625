"""Dataclasses whose objects do more than take their fields: what else their class says runs, as in Python."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import npcompile as npc

CALLED: list[Any] = []


@dataclasses.dataclass
class MadeByItself:
    x: Any

    def __new__(cls, *args: Any) -> Any:
        CALLED.append(cls)
        made = object.__new__(cls)
        made.extra = 7
        return made


class Registered:
    def __new__(cls, *args: Any) -> Any:
        made = object.__new__(cls)
        made.extra = len(args)
        return made


@dataclasses.dataclass
class MadeByItsBase(Registered):
    x: Any


@dataclasses.dataclass
class MadeElsewhere:
    x: Any

    def __new__(cls, x: Any) -> Any:
        return Plain(x)


@dataclasses.dataclass
class SetsTwice:
    x: Any

    def __setattr__(self, name: str, value: Any) -> None:
        CALLED.append(name)
        object.__setattr__(self, name, value * 2)


class Tripled:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return 1.0 if owner is None else getattr(owner, self.name)

    def __set__(self, owner: Any, value: Any) -> None:
        setattr(owner, self.name, value * 3)


@dataclasses.dataclass
class HasDescriptor:
    x: Any = Tripled()


@dataclasses.dataclass
class HasProperty:
    x: Any


HasProperty.x = property(lambda self: self.kept, lambda self, value: setattr(self, "kept", value + 1))  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


@dataclasses.dataclass
class Plain:
    x: Any


def build(kind: Any, x: Any) -> Any:
    made = kind(x)
    return made, made.x + 1, getattr(made, "extra", None)


def outcome(function: Any, kind: Any) -> Any:
    CALLED.clear()
    made, x, extra = function(kind, np.arange(3.0))
    return repr(made), repr(getattr(made, "__dict__", None)), x.tolist(), extra, [*CALLED]


KINDS = [MadeByItself, MadeByItsBase, MadeElsewhere, SetsTwice, HasDescriptor, HasProperty, Frozen, Plain]


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_class_says_runs(kind: Any) -> None:
    compiled = npc.compile(build)
    for _ in range(3):
        assert outcome(compiled, kind) == outcome(build, kind)


def test_a_class_that_learns_to_set() -> None:
    kind = dataclasses.make_dataclass("Learning", ["x"])
    compiled = npc.compile(build)
    assert outcome(compiled, kind) == outcome(build, kind)
    kind.__setattr__ = SetsTwice.__setattr__
    for _ in range(2):
        assert outcome(compiled, kind) == outcome(build, kind)
    kind.__new__ = Registered.__new__
    for _ in range(2):
        assert outcome(compiled, kind) == outcome(build, kind)
