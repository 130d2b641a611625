"""The condition under which a variant runs: its guards, those on arrays as one native question."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from npcompile.backends.likeness import LIKENESS, Facts, as_array

CANNOT_HOLD = "(AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError)"  # what guards raise


@dataclass(frozen=True, slots=True)
class ArrayGuards:
    """Guards that say the same as the facts."""

    source: str
    texts: tuple[str, ...]
    facts: Facts


def conditions(guards: Iterable[str], arrays: Iterable[ArrayGuards], name_constant: Callable[[Any], str]) -> list[str]:
    """The guards in order. Those on arrays wait until a guard is about one of them, and are then asked together."""
    if LIKENESS.are_like is None:
        return list(guards)
    first = {each.texts[0]: each for each in arrays}
    covered = {text for each in first.values() for text in each.texts}
    waiting: list[ArrayGuards] = []
    found: list[str] = []

    def ask() -> None:
        if waiting:
            facts = name_constant(as_array(each.facts for each in waiting))
            sources = ", ".join(each.source for each in waiting)
            found.append(f"{name_constant(LIKENESS.are_like)}({facts}, {sources})")
            waiting.clear()

    for guard in guards:
        if guard in first:
            waiting.append(first[guard])
        elif guard not in covered:
            if any(each.source in guard for each in waiting):
                ask()
            found.append(guard)
    ask()
    return found
