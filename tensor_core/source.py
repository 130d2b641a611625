"""Where a value comes from: an expression of the generated program, as data.

An argument, a global, an attribute of what another source gives: each source is a small tree. `str(source)` writes it as Python,
which is done where a program is printed. Equal sources are written alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


class Source:
    """The base of all sources."""

    __slots__ = ("_text",)
    _text: str

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources that this one is made of."""
        return ()

    def write(self, say: Callable[[Source], str]) -> str:
        """Python text, in which `say` writes the parts."""
        raise NotImplementedError

    def attribute(self, name: str) -> Attribute:
        return Attribute(self, name)

    def item(self, key: Any) -> Item:
        return Item(self, Literal(key))

    def walk(self) -> Iterator[Source]:
        """This source and all that it is made of."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def given(self) -> tuple[str, ...]:
        """The variables that it gives a value."""
        found: tuple[str, ...] = ()
        for part in self.parts:
            found += part.given()
        return found

    def names(self) -> Iterator[str]:
        """The variables of the generated program that it reads."""
        return (each.name for each in self.walk() if isinstance(each, Name))

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = self.write(str)
            return self._text

    def __repr__(self) -> str:
        return f"<source {self}>"

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Source) and str(self) == str(other)

    def __hash__(self) -> int:
        try:
            return hash(self._text)
        except AttributeError:
            return hash(str(self))


@dataclass(slots=True, eq=False, repr=False)
class Name(Source):
    """A variable of the generated program: a parameter, unless it is Bound."""

    name: str

    def write(self, say: Callable[[Source], str]) -> str:
        return self.name


class Bound(Name):
    """A variable to which a guard gives its value: a symbolic integer, what a cell has, what a call has given."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Object(Source):
    """An object that is the same in every call, and its name in the generated program."""

    name: str
    value: Any

    def write(self, say: Callable[[Source], str]) -> str:
        return self.name


@dataclass(slots=True, eq=False, repr=False)
class Literal(Source):
    """A constant that is written as itself."""

    value: Any

    def write(self, say: Callable[[Source], str]) -> str:
        if isinstance(self.value, float) and not math.isfinite(self.value):
            return f"float({str(self.value)!r})"
        return repr(self.value)


@dataclass(slots=True, eq=False, repr=False)
class Attribute(Source):
    owner: Source
    name: str

    @property
    def parts(self) -> tuple[Source, ...]:
        return (self.owner,)

    def write(self, say: Callable[[Source], str]) -> str:
        return f"{say(self.owner)}.{self.name}"


@dataclass(slots=True, eq=False, repr=False)
class Item(Source):
    owner: Source
    key: Source

    @property
    def parts(self) -> tuple[Source, ...]:
        return self.owner, self.key

    def write(self, say: Callable[[Source], str]) -> str:
        return f"{say(self.owner)}[{say(self.key)}]"


@dataclass(slots=True, eq=False, repr=False, init=False)
class Call(Source):
    """What a function gives for these arguments."""

    function: Source
    arguments: tuple[Source, ...]

    def __init__(self, function: Source, *arguments: Source):
        self.function, self.arguments = function, arguments

    @property
    def parts(self) -> tuple[Source, ...]:
        return self.function, *self.arguments

    def write(self, say: Callable[[Source], str]) -> str:
        return f"{say(self.function)}({', '.join(map(say, self.arguments))})"


@dataclass(slots=True, eq=False, repr=False, init=False)
class Formula(Source):
    """An expression of other forms: a template of str.format, and what fills it."""

    template: str
    operands: tuple[Source, ...]

    def __init__(self, template: str, *operands: Source):
        self.template, self.operands = template, operands

    @property
    def parts(self) -> tuple[Source, ...]:
        return self.operands

    def write(self, say: Callable[[Source], str]) -> str:
        return self.template.format(*map(say, self.operands))


@dataclass(slots=True, eq=False, repr=False)
class Assigned(Source):
    """The same, which a variable is given on the way: `(name := source)`."""

    name: str
    source: Source

    @property
    def parts(self) -> tuple[Source, ...]:
        return (self.source,)

    def given(self) -> tuple[str, ...]:
        return self.name, *self.source.given()

    def write(self, say: Callable[[Source], str]) -> str:
        return f"({self.name} := {say(self.source)})"


@dataclass(slots=True, eq=False, repr=False)
class Written(Source):
    """Text for the generated program, of which nothing is asked."""

    text: str

    def write(self, say: Callable[[Source], str]) -> str:
        return self.text


@dataclass(slots=True, eq=False, repr=False)
class Compared(Source):
    """Whether one is as the symbol says to the other: `(a < b)`."""

    left: Source
    symbol: str
    right: Source

    @property
    def parts(self) -> tuple[Source, ...]:
        return self.left, self.right

    def write(self, say: Callable[[Source], str]) -> str:
        return f"({say(self.left)} {self.symbol} {say(self.right)})"


def builtin(function: Callable[..., Any]) -> Object:
    """A function that generated programs call by Python's own name for it."""
    name = function.__name__
    return _BUILTINS.get(name) or _BUILTINS.setdefault(name, Object(name, function))


_BUILTINS: dict[str, Object] = {}


NONE = Literal(None)
UNBOUND = Name("UNBOUND")  # what stands for a local variable without a value
GLOBALS = Name("G")  # the globals of the function that is compiled
