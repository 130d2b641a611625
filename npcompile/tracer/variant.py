"""One compiled program of a Point, what the user asked of the function that it is for, and why there may be none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from npcompile.backends.entering import FastPath
from npcompile.backends.registry import Backend, CompiledGraph
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.guards import Guard
from npcompile.tracer.conditions import Asked
from npcompile.tracer.restarts import BranchKey, Break


@dataclass(frozen=True, slots=True)
class StaticItem:
    """An argument of those that a function hands on: an item of its `*args`, or of its `**kwargs`."""

    container: str  # the parameter
    key: int | str
    name: str


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked of `compile`."""

    backend: Backend
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str = "default"
    accuracy: str | None = None  # None: the setting
    has_own_backend: bool = False  # the user's, whose errors are the user's
    when_hot: bool = False  # is something compiled only after it has run as it is for about as long as compiling takes?
    falls_back: bool = False  # with `fullgraph`: the caller has something else that takes the place of a graph
    static: tuple[str | int | StaticItem, ...] = ()  # parameters that are constants; numbers until they are known

    @property
    def of_callees(self) -> Options:
        """The same for functions that it calls, whose parameters are others."""
        return replace(self, static=()) if self.static else self


class GraphBreakError(RuntimeError):
    """`fullgraph=True`, or a transform as `grad`, and the function cannot be captured as one graph."""

    def __init__(self, message: str, why: Break | None = None) -> None:
        super().__init__(message)
        self.why = why  # None where that is a mistake of this package


class ConstantSize(GraphBreakError):
    """A program would be for one size alone of those that the user says change."""


class WrongTypeError(GraphBreakError, TypeError):
    """A transform is given what it cannot take, or a function that returns what it cannot take."""


class WrongValueError(GraphBreakError, ValueError):
    """Positions or sizes that a transform is given do not fit."""


def break_error(message: str, why: Break | None) -> GraphBreakError:
    """The error for why there is no result: of misuse a TypeError or ValueError too, as other libraries raise."""
    misuse = None if why is None else why.misuse
    kind = WrongTypeError if misuse is TypeError else WrongValueError if misuse is ValueError else GraphBreakError
    return kind(message, why)


@dataclass(slots=True, eq=False)
class Variant:
    """What was compiled for a Point under one set of guards. Holds no arrays."""

    guards: tuple[Guard, ...]
    conditions: tuple[Asked, ...]  # the same as the generated program asks them
    body: tuple[str, ...]  # lines of the generated program
    graph: Graph | None
    compiled: CompiledGraph | None
    reason: Break | None  # why the graph ended, None when the function returned
    seconds: dict[str, float]
    assumed: tuple[BranchKey, ...] = ()  # branches of which an arm is assumed to be taken
    fast_path: FastPath | None = None  # the same as one native call, where it is that and nothing else
    aborts: bool = False  # is it all of the function without Python, which does again what is left?

    @property
    def computes(self) -> bool:
        """Does it run what was compiled, a graph or a loop?"""
        return self.compiled is not None


def names_in(lines: Iterable[str]) -> set[str]:
    """Words of generated text, the variables that it reads among them."""
    return set(re.findall(r"\w+", "\n".join(lines)))
