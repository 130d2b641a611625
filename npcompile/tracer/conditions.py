"""The condition under which a variant runs: its guards, those on names, types and arrays as native questions."""

from __future__ import annotations

import builtins
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.likeness import LIKENESS, Facts, Name, Typed, as_array

# After a guard has raised: an attribute or item is gone, a number is out of range. What a handler of signals raised is raised on.
UNLESS_IT_HOLDS = ("except Exception:", "    if not cannot_hold():", "        raise", "    holds = False")
FOUND = re.compile(r"(\w+)\['(\w+)'\] is (\w+)")  # what a dictionary has under a name
ABSENT = re.compile(r"'(\w+)' not in (\w+)")
ON_CLASS = re.compile(r"(\w+)\.(\w+) is (\w+)")  # what a class or its bases have under a name
ABSENT_ON_CLASS = re.compile(r"not hasattr\((\w+), '(\w+)'\)")
OF_TYPE = re.compile(r"type\((\w+)\) is (\w+)")
INTEGER = re.compile(r"type\((s\d+) := (\w+)\) is int(?: and \1 == (-?\d+))?")
FEW = 2  # types that Python asks as quickly as one native call does
BOUND = re.compile(r"\(\((s\d+) := (.+)\) is not None\)")
SET = re.compile(r"[\[(](\w+) := ")
IS_FIXED = re.compile(r"(s\d+) == -?\d+")
ORDERED = re.compile(r"(not )?\(?(?:(-?\d+) ([<>]=?) )?(s\d+)(?: ([<>]=?) (-?\d+))?\)?")
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class ArrayGuards:
    """Guards that say the same as the facts."""

    source: str
    texts: tuple[str, ...]
    facts: Facts


def conditions(
    guards: Iterable[str],
    arrays: Iterable[ArrayGuards] | None,
    name_constant: Callable[[Any], str],
    constants: Mapping[str, Any],
) -> list[str]:
    """The guards in order, as `constants` has what they name.

    Those on names of modules and on classes need nothing else: they come first, and at once, with those on the types of
    parameters and on the arrays among these. Those on other arrays wait until a guard is about one of them, and are then asked
    together. `arrays`: None where only names are asked for natively.
    """
    guards = with_numbers(guards)
    if LIKENESS.are_like is None:
        return guards
    ask_native = name_constant(LIKENESS.are_like)
    first = {each.texts[0]: each for each in arrays or ()}
    covered = {text for each in first.values() for text in each.texts}
    names = {text: name for text in guards if (name := name_of(text, constants)) is not None}
    covered |= names.keys()
    waiting: list[ArrayGuards] = []
    found: list[str] = []

    def ask(facts: Sequence[tuple[str, Facts | Typed]]) -> None:
        for name in names.values():
            name_constant(name.key)  # which lives as long as the facts do
        numbers = name_constant(as_array((each for _, each in facts), [*names.values()]))
        found.append(f"{ask_native}({', '.join([numbers, *(source for source, _ in facts)])})")
        names.clear()

    set_by_guards = {name for text in guards for name in SET.findall(text)}
    given = [each for each in first.values() if each.source.isidentifier() and each.source not in set_by_guards]
    typed, left = types_of(guards, constants, set_by_guards) if arrays is not None else ({}, {})
    if not names and not given and len(typed) <= FEW:
        typed, left = {}, {}
    if names or given or typed:
        ask([*((each.source, each.facts) for each in given), *typed.items()])
    for guard in guards:
        if guard in left:
            found += left[guard]
        elif guard in first:
            waiting += [first[guard]] * (first[guard] not in given)
        elif guard not in covered:
            if any(each.source in guard for each in waiting):
                ask([(each.source, each.facts) for each in waiting])
                waiting.clear()
            found.append(guard)
    if waiting:
        ask([(each.source, each.facts) for each in waiting])
    return found


def types_of(
    guards: Sequence[str], constants: Mapping[str, Any], set_by_guards: Collection[str]
) -> tuple[dict[str, Typed], dict[str, list[str]]]:
    """What guards say of the types of parameters, and of integers among them; what is left of each of these guards."""
    intervals = {interval.name: (text, interval) for text in guards if (interval := interval_of(text)) is not None}
    found: dict[str, Typed] = {}
    left: dict[str, list[str]] = {}
    for text in guards:
        if (match := OF_TYPE.fullmatch(text)) and match[1] not in set_by_guards:
            kind = constants.get(match[2], getattr(builtins, match[2], None))
            if isinstance(kind, type) and kind is not np.ndarray:
                found.setdefault(match[1], Typed(kind))
                left[text] = []
        elif (match := INTEGER.fullmatch(text)) and match[2] not in set_by_guards:
            name, source, fixed = match.groups()
            low, high = (int(fixed), int(fixed)) if fixed else (1, 0)
            if not fixed and name in intervals:
                asked, interval = intervals[name]
                if max(-interval.least, interval.most) < 2**63:
                    low, high = int(interval.least), int(interval.most)
                    left[asked] = [] if low <= high else ["False"]
            found[source] = Typed(int, low, high)
            left[text] = [f"(({name} := {source}) is not None)"]
    return found, left


def name_of(guard: str, constants: Mapping[str, Any]) -> Name | None:
    """What the guard says of a name, if that is all it says."""
    if match := ON_CLASS.fullmatch(guard) or ABSENT_ON_CLASS.fullmatch(guard):
        kind, is_there = constants.get(match[1]), match.re is ON_CLASS
        if not isinstance(kind, type) or is_there and match[3] not in constants:
            return None
        name = Name(kind, sys.intern(match[2]), id(constants[match[3]]) if is_there else None)
        return name if name.holds() else None  # else it is a metaclass's, or made when it is asked for
    if match := FOUND.fullmatch(guard):
        space, key, value = match.groups()
    elif match := ABSENT.fullmatch(guard):
        key, space = match.groups()
        value = None
    else:
        return None
    owner = constants.get(space)
    if type(owner) is not dict or (value is not None and value not in constants):
        return None
    # The string that the dictionary has is found without being compared.
    return Name(owner, sys.intern(key), None if value is None else id(constants[value]))


def with_numbers(guards: Iterable[str]) -> list[str]:
    """The guards, with less to ask of Python's integers: of one that must be this number nothing else."""
    given = [*guards]
    bound = {match[1] for text in given if (match := BOUND.fullmatch(text))}
    fixed = {match[1]: text for text in given if (match := IS_FIXED.fullmatch(text)) and match[1] in bound}
    found: list[str] = []
    for text in given:
        if match := BOUND.fullmatch(text):
            name, source = match.groups()
            if found and found[-1] == f"type({source}) is int":
                text = f"type({name} := {source}) is int"
                found.pop()
            found.append(f"{text} and {fixed[name]}" if name in fixed else text)
        elif not fixed.keys() >= {*re.findall(r"[A-Za-z_]\w*", text)}:
            found.append(text)
    return with_intervals(found, bound)


@dataclass(frozen=True, slots=True)
class Interval:
    """An integer is neither less nor more than these."""

    name: str
    least: float = -math.inf
    most: float = math.inf

    def __and__(self, other: Interval) -> Interval:
        return Interval(self.name, max(self.least, other.least), min(self.most, other.most))

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.name} == {self.least}"
        low = f"{self.least} <= " if self.least != -math.inf else ""
        high = f" <= {self.most}" if self.most != math.inf else ""
        return f"{low}{self.name}{high}"


def interval_of(guard: str) -> Interval | None:
    """What the guard says of an integer, if it compares one with constants and does nothing else."""
    match = ORDERED.fullmatch(guard)
    if match is None:
        return None
    negated, low, before, name, after, high = match.groups()
    compared = [(MIRRORED[before], int(low))] if before else []
    compared += [(after, int(high))] if after else []
    if not compared or negated and len(compared) > 1:
        return None
    found = Interval(name)
    for symbol, number in compared:
        match OPPOSITE[symbol] if negated else symbol:
            case "<":
                found &= Interval(name, most=number - 1)
            case "<=":
                found &= Interval(name, most=number)
            case ">":
                found &= Interval(name, least=number + 1)
            case ">=":
                found &= Interval(name, least=number)
    return found


def with_intervals(guards: Sequence[str], names: Collection[str]) -> list[str]:
    """The guards, one of which says between which constants an integer lies: a loop asks whether it has ended in each turn."""
    asked: dict[str, Interval] = {}
    for text in guards:
        interval = interval_of(text)
        if interval is not None and interval.name in names:
            asked[interval.name] = asked.get(interval.name, interval) & interval
    found: dict[str, None] = {}
    for text in guards:
        interval = interval_of(text)
        found[str(asked[interval.name]) if interval is not None and interval.name in asked else text] = None
    return [*found]
