"""Every construct of the language in a function of its own, around NumPy code, with what capture makes of it."""

from __future__ import annotations

import copy
import importlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.tracer.harness import Sample

FAMILIES = ("calls", "classes", "containers", "builtins", "modules", "syntax", "managers", "delegation", "exit_stacks", "groups")


@dataclass(frozen=True)
class Construct:
    """A function that uses one construct. `breaks`: how many of its instructions end a graph; None: not captured as a whole."""

    name: str
    sample: Sample
    breaks: int | None
    why: str  # it breaks

    def arguments(self, round: int) -> list[Any]:
        """Fresh ones for each call."""
        inputs = self.sample.inputs
        fresh = tuple(i if isinstance(i, types.FunctionType) else copy.deepcopy(i) for i in inputs)
        return Sample(self.sample.function, fresh).arguments(round)


CONSTRUCTS: dict[str, Construct] = {}  # by family and name of the function


def construct(
    name: str, *inputs: Any, breaks: int | None = 0, why: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a function and its inputs, which are those of tests.tracer.harness.check. What breaks says why."""
    assert bool(why) == (breaks != 0)

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        key = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        assert key not in CONSTRUCTS, key
        CONSTRUCTS[key] = Construct(name, Sample(function, inputs), breaks, why)
        return function

    return add


def all_constructs() -> dict[str, Construct]:
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return CONSTRUCTS
