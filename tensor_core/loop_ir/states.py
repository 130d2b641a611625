"""Recipes: how CPython's objects are made of values, when execution leaves the program for a Point of the user's code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

Literal: TypeAlias = bool | int | float | complex


@dataclass(frozen=True, slots=True)
class Use:
    """The object of a value: a number of its kind, an array or a list with its identity."""

    value: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """A number that is Python's where `tag` is true, and NumPy's elsewhere: two versions of a block were joined."""

    tag: int
    value: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant, or None."""

    value: Literal | None


@dataclass(frozen=True, slots=True)
class TupleOf:
    items: tuple[Recipe, ...]


@dataclass(frozen=True, slots=True)
class RangeIterator:
    """The iterator of a range of `length` numbers from `start` on, `taken` of which have been given."""

    start: int  # a value
    step: int
    length: int  # a value
    taken: int  # a value


@dataclass(frozen=True, slots=True)
class SequenceIterator:
    """The iterator of a tuple or an array, `taken` items of which have been given."""

    sequence: Recipe
    taken: int  # a value


class Mode(Enum):
    """What NumPy does where a floating-point error happens. KEPT: what it did before."""

    KEPT = "kept"
    IGNORE = "ignore"
    WARN = "warn"
    RAISE = "raise"


@dataclass(frozen=True, slots=True)
class ErrorState:
    """The `__exit__` of an `np.errstate` that has been entered, on the stack inside its `with` block."""

    divide: Mode = Mode.KEPT
    over: Mode = Mode.KEPT
    under: Mode = Mode.KEPT
    invalid: Mode = Mode.KEPT


Recipe: TypeAlias = Use | Tagged | Fixed | TupleOf | RangeIterator | SequenceIterator | ErrorState


@dataclass(frozen=True, slots=True)
class Slot:
    """A local variable: its index among the code's, and its value. Others are unbound, or read by nobody."""

    index: int
    recipe: Recipe


def leaves(recipe: Recipe) -> Iterator[int]:
    """The values that a recipe needs."""
    match recipe:
        case Use(value):
            yield value
        case Tagged(tag, value):
            yield tag
            yield value
        case TupleOf(items):
            for item in items:
                yield from leaves(item)
        case SequenceIterator(sequence, taken):
            yield from leaves(sequence)
            yield taken
        case RangeIterator(start, _, length, taken):
            yield start
            yield length
            yield taken


def leaves_of(recipes: Iterable[Recipe]) -> list[int]:
    """The values that some recipes need."""
    found = []
    for recipe in recipes:
        if type(recipe) is Use:
            found.append(recipe.value)
        elif type(recipe) is not Fixed:
            found += leaves(recipe)
    return found


def substituted(recipe: Recipe, new: Mapping[int, int]) -> Recipe:
    """The recipe with other values, the same object where nothing changes."""
    if type(recipe) is Use:
        return Use(new[recipe.value]) if recipe.value in new else recipe
    if type(recipe) is Fixed or not any(value in new for value in leaves(recipe)):
        return recipe
    match recipe:
        case Tagged(tag, value):
            return Tagged(new.get(tag, tag), new.get(value, value))
        case TupleOf(items):
            return TupleOf(tuple(substituted(item, new) for item in items))
        case SequenceIterator(sequence, taken):
            return SequenceIterator(substituted(sequence, new), new.get(taken, taken))
        case RangeIterator(start, step, length, taken):
            return RangeIterator(new.get(start, start), step, new.get(length, length), new.get(taken, taken))
    return replace(recipe)


def slots_substituted(slots: list[Slot], new: Mapping[int, int]) -> list[Slot]:
    """The same of slots."""
    made = slots
    for k, slot in enumerate(slots):
        recipe = substituted(slot.recipe, new)
        if recipe is not slot.recipe:
            if made is slots:
                made = list(slots)
            made[k] = Slot(slot.index, recipe)
    return made
