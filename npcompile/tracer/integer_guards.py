"""What guards ask of one Python integer, put together: that it is this number, or lies between two."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from npcompile.tensor_core.guards import All, Binds, Guard, OfType, Ordered, Truth, compared, within
from npcompile.tensor_core.source import Assigned, Bound, Compared, Literal, Object, Source

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def with_numbers(guards: Iterable[Guard]) -> list[Guard]:
    """The guards, with less to ask of Python's integers: of one that must be this number nothing else."""
    given = [*guards]
    bound = {guard.name for guard in given if isinstance(guard, Binds)}
    fixed = {name: guard for guard in given if (name := name_fixed(guard)) is not None and name in bound}
    found: list[Guard] = []
    for guard in given:
        if isinstance(guard, Binds):
            asked: Guard = guard
            if found and found[-1] == OfType(guard.source, INT):
                asked = OfType(Assigned(guard.name, guard.source), INT)
                found.pop()
            found.append(All((asked, fixed[guard.name])) if guard.name in fixed else asked)
        elif not is_settled(guard, fixed):
            found.append(guard)
    return with_intervals(found, bound)


INT = Object("int", int)


def name_fixed(guard: Guard) -> str | None:
    """The integer that must be one number, if the guard says so."""
    match guard:
        case Ordered((Bound(name), Literal()), ("==",), True):
            return name
    return None


def is_settled(guard: Guard, fixed: Collection[str]) -> bool:
    """Does a guard ask of integers that must be these numbers alone?"""
    names = guard.names() if fixed and isinstance(guard, Ordered | Truth) else set()
    return bool(names) and names <= {*fixed}


@dataclass(frozen=True, slots=True)
class Interval:
    """An integer is neither less nor more than these."""

    name: str
    least: float = -math.inf
    most: float = math.inf

    def __and__(self, other: Interval) -> Interval:
        return Interval(self.name, max(self.least, other.least), min(self.most, other.most))

    @property
    def guard(self) -> Guard:
        """The question whether it is so."""
        source, least, most = Bound(self.name), Literal(self.least), Literal(self.most)
        if self.least == self.most:
            return compared(source, "==", least)
        if self.most == math.inf:
            return compared(least, "<=", source)
        return compared(source, "<=", most) if self.least == -math.inf else within(least, source, most)


def interval_of(guard: Guard) -> Interval | None:
    """What the guard says of an integer, if it compares one with constants and does nothing else."""
    match guard:
        case Ordered((left, right), (symbol,), answer) | Truth(Compared(left, symbol, right), answer):
            return half_line(left, symbol if answer else OPPOSITE.get(symbol, symbol), right)
        case Ordered((least, source, most), (first, second), True):
            low, high = half_line(least, first, source), half_line(source, second, most)
            return low & high if low is not None and high is not None else None
    return None


def half_line(left: Source, symbol: str, right: Source) -> Interval | None:
    """The integers that are less than a constant, or more, as an inequality says."""
    match left, right:
        case Bound(name), Literal(int() as number):
            ...
        case Literal(int() as number), Bound(name):
            symbol = MIRRORED.get(symbol, symbol)
        case _:
            return None
    match symbol:
        case "<":
            return Interval(name, most=number - 1)
        case "<=":
            return Interval(name, most=number)
        case ">":
            return Interval(name, least=number + 1)
        case ">=":
            return Interval(name, least=number)
    return None


def with_intervals(guards: Sequence[Guard], names: Collection[str]) -> list[Guard]:
    """The guards, one of which says between which constants an integer lies: a loop asks whether it has ended in each turn."""
    if not names:
        return [*guards]
    intervals = [interval_of(guard) for guard in guards]
    asked: dict[str, Interval] = {}
    for interval in intervals:
        if interval is not None and interval.name in names:
            asked[interval.name] = asked.get(interval.name, interval) & interval
    found: dict[Guard, None] = {}
    for guard, interval in zip(guards, intervals):
        found[asked[interval.name].guard if interval is not None and interval.name in asked else guard] = None
    return [*found]
