"""Are values, and what names and classes mean, as they were when a program was compiled? Programs ask at every call."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Each change of a dictionary, or of a class, gives it a new version.
HAS_VERSIONS = sys.implementation.name == "cpython" and sys.version_info < (3, 14)


@dataclass(frozen=True, slots=True)
class Facts:
    """What must be the same of an array: dtype, which object; flags under a mask; dimensions; shape, where it is fixed."""

    dtype: np.dtype
    mask: int
    flags: int  # of ndarray.flags.num
    ndim: int
    shape: tuple[int, ...] | None

    def numbers(self) -> list[int]:
        sizes = self.shape or ()
        return [id(np.ndarray), id(self.dtype), self.mask, self.flags, self.ndim, len(sizes), *sizes]


@dataclass(frozen=True, slots=True)
class Typed:
    """The type of an object that is not an ndarray. Integers lie between two numbers, if the first is not larger."""

    kind: type
    least: int = 1
    most: int = 0

    def numbers(self) -> list[int]:
        return [id(self.kind), *([self.least, self.most] if self.kind is int else [])]


@dataclass(frozen=True, slots=True)
class Name:
    """What a dictionary has under a name, or a class and its bases have: the address of the object, or nothing."""

    owner: dict[str, Any] | type
    key: str
    value: int | None

    def holds(self) -> bool:
        spaces = [self.owner] if isinstance(self.owner, dict) else map(vars, self.owner.__mro__)
        return self.value == next((id(space[self.key]) for space in spaces if self.key in space), None)

    def numbers(self) -> list[int]:
        return [id(self.owner), id(self.key), self.value or 0]


def as_array(facts: Iterable[Facts | Typed], names: Collection[Name] = ()) -> np.ndarray:
    """What must be true of names, and of the objects that follow, as `are_like` takes it: one of the facts for each of them.

    It holds none of the objects. The versions that the owners of the names had when these were found last are noted in it.
    """
    owners = dict.fromkeys(id(name.owner) for name in names) if HAS_VERSIONS else ()
    versions = [n for owner in owners for n in (owner, 0)]
    meanings = [n for each in names for n in each.numbers()]
    objects = [n for each in facts for n in each.numbers()]
    return np.array([len(names), len(owners), *versions, *meanings, *objects], np.int64)


@dataclass(slots=True)
class Likeness:
    """Holds `are_like(facts, *objects)`, when a backend has it: one native call instead of many expressions.

    `kind_of(mask, *objects)` is an integer that tells kinds of objects apart, as the function below does.
    """

    are_like: Callable[..., Any] | None = None
    kind_of: Callable[..., Any] | None = None


LIKENESS = Likeness()


def kind_of(mask: int, *objects: Any) -> Any:
    """The types of objects; of arrays also dtype, number of dimensions and flags under a mask; some objects themselves."""
    return tuple([part_of_kind(mask, x) for x in objects])


def part_of_kind(mask: int, x: Any) -> Any:
    if type(x) is np.ndarray:
        return x.dtype.num, x.dtype.itemsize, x.dtype.byteorder, x.ndim, x.flags.num & mask
    return id(x) if is_kind(x) else type(x)


def is_kind(x: Any) -> bool:
    """Is it of a kind of its own: a boolean, a class or a module?"""
    return type(x) is bool or issubclass(type(x), (type, types.ModuleType))
