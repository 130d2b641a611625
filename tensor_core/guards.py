"""What a compiled program assumes of a call: guards, as data.

Each class is one kind of question. In `npcompile.tracer`, `guard_text` writes guards as Python, `guard_words` and `value_words`
say them in words; what else reads guards asks their fields. A guard is equal to another that asks the same. None is changed
after it was made; that they are not frozen makes making them three times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from npcompile.tensor_core.source import Source


class Guard:
    """The base of all guards."""

    __slots__ = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """What it asks about, the first what it is about above all."""
        raise NotImplementedError

    def walk(self) -> Iterator[Source]:
        """All sources in it."""
        for source in self.sources:
            yield from source.walk()

    def names(self) -> set[str]:
        """The variables of the generated program that it reads."""
        return {name for source in self.sources for name in source.names()}

    def gives(self) -> tuple[str, ...]:
        """The variables to which it gives a value."""
        return tuple(name for source in self.sources for name in source.given())


@dataclass(slots=True, unsafe_hash=True)
class OneSource(Guard):
    source: Source

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source,)


@dataclass(slots=True, unsafe_hash=True)
class OfType(OneSource):
    """Its class is this one, no subclass."""

    kind: Source

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, self.kind


@dataclass(slots=True, unsafe_hash=True)
class Is(OneSource):
    """Is it the same object?"""

    other: Source
    answer: bool = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, self.other


@dataclass(slots=True, unsafe_hash=True)
class Equals(OneSource):
    """It is equal to what does not change."""

    value: Source

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, self.value


@dataclass(slots=True, unsafe_hash=True)
class Truth(OneSource):
    """Is it true?"""

    answer: bool = True


@dataclass(slots=True, unsafe_hash=True)
class HasKey(OneSource):
    """Does a dict have the key?"""

    key: Source
    answer: bool = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, self.key


@dataclass(slots=True, unsafe_hash=True)
class HasAttribute(OneSource):
    name: str
    answer: bool = True


@dataclass(slots=True, unsafe_hash=True)
class Keys(OneSource):
    """A dict has these keys, a set these members, in this order."""

    keys: Source

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, self.keys


@dataclass(slots=True, unsafe_hash=True)
class KeyTypes(OneSource):
    """Of these classes are the keys of a dict, or the members of a set."""

    kinds: tuple[Source, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, *self.kinds


@dataclass(slots=True, unsafe_hash=True)
class Length(OneSource):
    """How long it is, or is at least."""

    symbol: OneOf["==", ">", ">="]
    length: int


# --- arrays


@dataclass(slots=True, unsafe_hash=True)
class OfDType(OneSource):
    """The dtype of an array: this object, or one that is equal."""

    dtype: Source
    is_same: bool = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.source, self.dtype


@dataclass(slots=True, unsafe_hash=True)
class Flags(OneSource):
    """Of `ndarray.flags.num` these, under a mask."""

    mask: int
    flags: int


@dataclass(slots=True, unsafe_hash=True)
class Layout(OneSource):
    """`ndim`, `shape` or `strides` of an array."""

    part: OneOf["ndim", "shape", "strides"]
    value: int | tuple[int, ...]


@dataclass(slots=True, unsafe_hash=True)
class Axis(OneSource):
    """`shape` or `strides` of an array on one axis."""

    part: OneOf["shape", "strides"]
    axis: int
    value: int


# --- numbers


@dataclass(slots=True, unsafe_hash=True)
class Ordered(Guard):
    """Numbers compared one with the next: `0 <= s0 < n`. Does that hold?"""

    operands: tuple[Source, ...]
    symbols: tuple[str, ...]
    answer: bool = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.operands


@dataclass(slots=True, unsafe_hash=True)
class Binds(OneSource):
    """No question: gives a variable the value of a number, which is not None."""

    name: str

    def gives(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(slots=True, unsafe_hash=True)
class Keeps(OneSource):
    """No question: gives a variable any value, read before the program changes what leads to it."""

    name: str

    def gives(self) -> tuple[str, ...]:
        return (self.name,)


# --- several


@dataclass(slots=True, unsafe_hash=True)
class Several(Guard):
    guards: tuple[Guard, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(source for guard in self.guards for source in guard.sources)

    def gives(self) -> tuple[str, ...]:
        return tuple(name for guard in self.guards for name in guard.gives())


class All(Several):
    """All of these hold, the next asked where those before hold."""

    __slots__ = ()


class Either(Several):
    """One of these holds."""

    __slots__ = ()


def compared(left: Source, symbol: str, right: Source) -> Ordered:
    return Ordered((left, right), (symbol,))


def within(least: Source, source: Source, most: Source, symbols: tuple[str, str] = ("<=", "<=")) -> Ordered:
    """The source lies between the two."""
    return Ordered((least, source, most), symbols)


def parts_of(guard: Guard) -> tuple[Guard, ...]:
    """The questions that it asks one after the other."""
    return guard.guards if isinstance(guard, All) else (guard,)
