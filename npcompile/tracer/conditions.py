"""The condition under which a variant runs: its guards, those on names, types and arrays as native questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.array_guards import LIKENESS, Facts, Name, Typed, as_array
from npcompile.tensor_core.guards import (
    All,
    Binds,
    Flags,
    Guard,
    HasAttribute,
    HasKey,
    Is,
    Layout,
    OfDType,
    OfType,
    Ordered,
    Truth,
)
from npcompile.tensor_core.source import GLOBALS, Assigned, Attribute, Item, Literal, Object, Source
from npcompile.tensor_core.source import Name as Variable
from npcompile.tracer.guard_text import text_of
from npcompile.tracer.integer_guards import interval_of, with_numbers

# After a guard has raised: an attribute or item is gone, a number is out of range. What a handler of signals raised is raised on.
UNLESS_IT_HOLDS = ("except Exception:", "    if not cannot_hold():", "        raise", "    holds = False")
FEW = 2  # types that Python asks as quickly as one native call does


@dataclass(frozen=True, slots=True)
class Fact:
    """What one native question asks of an object."""

    source: Source
    fact: Facts | Typed


@dataclass(frozen=True, slots=True)
class NativeQuestion:
    """Facts that one native call asks together: first of names, which `numbers` says alone, then of objects."""

    ask: str
    numbers: str  # the name of the array of `as_array`
    sources: tuple[Source, ...]

    def __str__(self) -> str:
        return f"{self.ask}({', '.join([self.numbers, *map(str, self.sources)])})"

    def names(self) -> set[str]:
        return {name for source in self.sources for name in source.names()}

    def gives(self) -> tuple[str, ...]:
        return ()


@dataclass(slots=True)
class Condition:
    """A guard as the program asks it."""

    guard: Guard
    _text: str = ""  # of each program that is printed again for one more variant

    def __str__(self) -> str:
        if not self._text:
            self._text = text_of(self.guard)
        return self._text

    def names(self) -> set[str]:
        return self.guard.names()

    def gives(self) -> tuple[str, ...]:
        return self.guard.gives()


Asked = Condition | NativeQuestion


def conditions(
    guards: Iterable[Guard], name_constant: Callable[[Any], str], namespace: Mapping[str, Any], of_arguments: bool = True
) -> list[Asked]:
    """The guards in order, as a program asks them. `namespace` has the globals of the function.

    Those on names of modules and on classes need nothing else: they come first, and at once, with those on the types of
    parameters and on the arrays among these. Those on other arrays wait until a guard is about one of them, and are then asked
    together. `of_arguments`: else only names are asked for natively.
    """
    guards = with_numbers(guards)
    if LIKENESS.are_like is None:
        return [*map(Condition, guards)]
    ask_native = name_constant(LIKENESS.are_like)
    names = {guard: name for guard in guards if (name := name_of(guard, namespace)) is not None}
    instead: dict[Guard, Fact | list[Guard]] = {guard: [] for guard in names}  # of guards that are part of native questions
    arrays = array_facts(guards) if of_arguments else {}
    for fact, (first, *others) in arrays.values():
        instead |= {first: fact, **{other: [] for other in others}}
    waiting: dict[Source, Fact] = {}
    found: list[Asked] = []

    def ask(facts: Sequence[Fact]) -> None:
        for name in names.values():
            name_constant(name.key)  # which lives as long as the facts do
        numbers = name_constant(as_array((each.fact for each in facts), [*names.values()]))
        found.append(NativeQuestion(ask_native, numbers, tuple(each.source for each in facts)))
        names.clear()

    set_by_guards = {name for guard in guards for name in guard.gives()}
    given = [fact for fact, _ in arrays.values() if is_there(fact.source, set_by_guards)]
    asked = {fact.source for fact in given}
    typed, left = types_of(guards, set_by_guards) if of_arguments else ([], {})
    if not names and not given and len(typed) <= FEW:
        typed, left = [], {}
    if names or given or typed:
        ask([*given, *typed])
    instead |= left
    for guard in guards:
        match instead.get(guard):
            case None:
                if waiting and not waiting.keys().isdisjoint(guard.walk()):
                    ask([*waiting.values()])
                    waiting.clear()
                found.append(Condition(guard))
            case Fact(source) as fact:
                if source not in asked:
                    waiting[source] = fact
            case rest:
                found += map(Condition, rest)
    if waiting:
        ask([*waiting.values()])
    return found


def is_there(source: Source, set_by_guards: Collection[str]) -> bool:
    """Is it a variable that has its value before the guards are asked?"""
    return isinstance(source, Variable | Object) and source.name not in set_by_guards


def array_facts(guards: Iterable[Guard]) -> dict[Source, tuple[Fact, tuple[Guard, ...]]]:
    """What guards say of NumPy's arrays of plain dtypes that one native question says too, and which guards these are."""
    dtypes: dict[Source, tuple[Guard, np.dtype]] = {}
    flags: dict[Source, Flags] = {}
    found: dict[Source, tuple[Fact, tuple[Guard, ...]]] = {}
    for guard in guards:
        match guard:
            case All((OfType(source, Object(_, np.ndarray)), OfDType(_, Object(_, dtype), True))):
                dtypes.setdefault(source, (guard, dtype))
            case Flags(source):
                flags.setdefault(source, guard)
            case Layout(source, "shape" | "ndim") if source in dtypes and source in flags and source not in found:
                (first, dtype), flagged = dtypes[source], flags[source]
                shape = guard.value if isinstance(guard.value, tuple) else None
                ndim = guard.value if isinstance(guard.value, int) else len(guard.value)
                fact = Fact(source, Facts(dtype, flagged.mask, flagged.flags, ndim, shape))
                found[source] = fact, (first, flagged, guard)
    return found


def types_of(guards: Sequence[Guard], set_by_guards: Collection[str]) -> tuple[list[Fact], dict[Guard, list[Guard]]]:
    """What guards say of the types of parameters, and of integers among them; what is left of each of these guards."""
    intervals = {interval.name: (guard, interval) for guard in guards if (interval := interval_of(guard)) is not None}
    found: dict[Source, Typed] = {}
    left: dict[Guard, list[Guard]] = {}
    for guard in guards:
        match guard:
            case OfType(Variable() | Object() as source, Object(_, type() as kind)) if is_there(source, set_by_guards):
                if kind is not np.ndarray:
                    found.setdefault(source, Typed(kind))
                    left[guard] = []
            case OfType(Assigned(name, source)) if is_there(source, set_by_guards):
                least, most = 1, 0
                if name in intervals:
                    asked, interval = intervals[name]
                    if max(-interval.least, interval.most) < 2**63:
                        least, most = int(interval.least), int(interval.most)
                        left[asked] = [] if least <= most else [Truth(Literal(False))]
                found[source] = Typed(int, least, most)
                left[guard] = [Binds(source, name)]
            case All((OfType(Assigned(name, source)), Ordered((_, Literal(number)), ("==",)))):
                if is_there(source, set_by_guards):
                    found[source] = Typed(int, number, number)
                    left[guard] = [Binds(source, name)]
    return [Fact(source, typed) for source, typed in found.items()], left


def name_of(guard: Guard, namespace: Mapping[str, Any]) -> Name | None:
    """What the guard says of a name, if that is all it says: of what a dictionary has under it, or a class and its bases."""
    match guard:
        case Is(Attribute(Object(_, type() as kind), key), Object(_, value), True):
            return if_it_holds(Name(kind, sys.intern(key), id(value)))
        case HasAttribute(Object(_, type() as kind), key, False):
            return if_it_holds(Name(kind, sys.intern(key), None))
        case Is(Item(owner, Literal(str() as key)), Object(_, value), True) if key.isidentifier():
            address: int | None = id(value)
        case HasKey(owner, Literal(str() as key), False) if key.isidentifier():
            address = None
        case _:
            return None
    space = namespace.get("G") if owner == GLOBALS else getattr(owner, "value", None)
    # The string that the dictionary has is found without being compared.
    return Name(space, sys.intern(key), address) if type(space) is dict else None


def if_it_holds(name: Name) -> Name | None:
    """None where it is a metaclass's, or made when it is asked for."""
    return name if name.holds() else None
