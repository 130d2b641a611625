"""A function that is declared with its type where it is called, and defined by a module that imports the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Forward(Generic[P, R]):
    """A function that is called here and defined in a module that imports the caller's."""

    __slots__ = ("definition",)

    def __init__(self) -> None:
        self.definition: Callable[P, R] | None = None

    def defined(self, function: Callable[P, R]) -> Callable[P, R]:
        assert self.definition is None, f"{function.__qualname__}: defined before as {self.definition}"
        self.definition = function
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        assert self.definition is not None, "not defined: npcompile.tracer.captured is not imported"
        return self.definition(*args, **kwargs)
