"""How a run of a program ends: with a result, or with what Python's frame holds where it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from npcompile.tensor_core.loop_ir.ops import FP_ERRORS
from npcompile.tensor_core.loop_ir.rows import Number
from npcompile.tensor_core.loop_ir.states import (
    ErrorState,
    Fixed,
    Mode,
    RangeIterator,
    Recipe,
    SequenceIterator,
    Tagged,
    TupleOf,
    Use,
)

Datum: TypeAlias = "Number | np.ndarray | list[Number]"  # what a value is while a program runs
Made: TypeAlias = "Datum | tuple[Made, ...] | Taken | TakenOf | Entered | None"  # what a recipe makes


@dataclass(frozen=True, slots=True)
class Taken:
    """A range's iterator, half used."""

    start: int
    step: int
    length: int
    taken: int

    def iterator(self) -> Iterator[int]:
        made = iter(range(self.start, self.start + self.step * self.length, self.step))
        made.__setstate__(self.taken)  # type: ignore[attr-defined]
        return made


@dataclass(frozen=True, slots=True, eq=False)
class TakenOf:
    """The iterator of a tuple or an array, half used."""

    sequence: Made
    taken: int

    def iterator(self) -> Iterator[object]:
        made = iter(self.sequence)  # type: ignore[arg-type]
        made.__setstate__(self.taken)  # type: ignore[attr-defined]
        return made


@dataclass(frozen=True, slots=True)
class Entered:
    """An np.errstate that is entered when Python goes on."""

    state: ErrorState

    def arguments(self) -> dict[str, str]:
        modes = {name: getattr(self.state, name) for name in FP_ERRORS}
        return {name: mode.value for name, mode in modes.items() if mode is not Mode.KEPT}


@dataclass(slots=True)
class Returned:
    value: Made


@dataclass(slots=True)
class Exited:
    """Python goes on at an instruction with this frame."""

    point: int
    stack: tuple[Made, ...]
    locals: dict[int, Made]  # by slot
    state: int


Outcome: TypeAlias = Returned | Exited


def ignored_errors() -> int:
    """The bits of FP_ERRORS that the caller's np.errstate ignores."""
    return sum(FP_ERRORS[name] for name, mode in np.geterr().items() if mode == "ignore")


def made(recipe: Recipe, values: Mapping[int, Datum]) -> Made:
    """What CPython's frame holds for a recipe. Iterators and error states are made when it goes on."""
    match recipe:
        case Use(value):
            return values[value]
        case Tagged(tag, value):
            return float(values[value]) if values[tag] else values[value]  # type: ignore[arg-type]
        case Fixed(value):
            return value
        case TupleOf(items):
            return tuple(made(item, values) for item in items)
        case SequenceIterator(sequence, taken):
            return TakenOf(made(sequence, values), values[taken])  # type: ignore[arg-type]
        case RangeIterator(start, step, length, taken):
            return Taken(values[start], step, values[length], values[taken])  # type: ignore[arg-type]
        case ErrorState():
            return Entered(recipe)
