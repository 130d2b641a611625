"""Where a program found what it names, and what was there: asked again before it runs."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from types import CellType, FunctionType, ModuleType
from typing import Any, TypeAlias

from npcompile.tracer.entry import compiled_function


@dataclass(frozen=True, slots=True, eq=False)
class GlobalName:
    """A global of a function, or a builtin."""

    namespace: dict[str, Any]
    name: str

    @property
    def key(self) -> tuple[int, str]:
        return id(self.namespace), self.name

    def read(self) -> object:
        found = self.namespace.get(self.name, self)
        return vars(builtins).get(self.name) if found is self else found


@dataclass(frozen=True, slots=True, eq=False)
class CellContents:
    """A variable of a function around."""

    cell: CellType
    name: str

    @property
    def key(self) -> tuple[int, str]:
        return id(self.cell), self.name

    def read(self) -> object:
        try:
            return self.cell.cell_contents
        except ValueError:  # it is empty
            return None


@dataclass(frozen=True, slots=True, eq=False)
class ModuleAttribute:
    module: ModuleType
    name: str

    @property
    def key(self) -> tuple[int, str]:
        return id(self.module), self.name

    def read(self) -> object:
        return vars(self.module).get(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class PartOfFunction:
    """The code or the defaults of a function that is called."""

    function: FunctionType
    name: str

    @property
    def key(self) -> tuple[int, str]:
        return id(self.function), self.name

    def read(self) -> object:
        return getattr(self.function, self.name)


@dataclass(frozen=True, slots=True, eq=False)
class DefaultOfKeyword:
    """That of a parameter after a star, in the dict of a function that is called."""

    function: FunctionType
    name: str

    @property
    def key(self) -> tuple[int, str]:
        return id(self.function), f"* {self.name}"

    def read(self) -> object:
        return (self.function.__kwdefaults__ or {}).get(self.name, self)


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """What a function that `compile` has made enters."""

    function: FunctionType
    name: str = "__code__"

    @property
    def key(self) -> tuple[int, str]:
        return id(self.function), "entered"

    def read(self) -> object:
        return compiled_function(self.function)


Source: TypeAlias = GlobalName | CellContents | ModuleAttribute | PartOfFunction | DefaultOfKeyword | Entered


@dataclass(frozen=True, slots=True)
class Same:
    """The guard that an object is still there."""

    source: Source
    found: object

    def holds(self) -> bool:
        return self.source.read() is self.found
