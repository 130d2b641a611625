"""Native programs that are written: what becomes a variant when their unit is compiled, now or after the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npcompile.backends.array_guards import as_array
from npcompile.backends.errors import CompilerRefused, NoCompiler
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph
from npcompile.settings import config
from npcompile.tensor_core.events import COUNTS
from npcompile.tensor_core.guards import Guard
from npcompile.tensor_core.user_warnings import warn_once
from npcompile.tracer.conditions import Asked, NativeQuestion, conditions


class NotNative(Exception):
    """The loop runs as a compiled body, an iteration at a time."""


class TooLarge(NotNative):
    """With arrays of such sizes."""


RETURN = ("if type(found) is not list:", "    return found")  # lines after a call that may return what the function returns


@dataclass(frozen=True, slots=True)
class LoopCall:
    """How a program is called, where RETURN follows its first call."""

    asked: tuple[str, ...]  # has to be true before
    arguments: tuple[str, ...]
    after: tuple[str, ...]  # lines that go on after these


@dataclass(frozen=True, slots=True)
class Program:
    """When it may run, the lines that call it and go on after it, and its unit. It holds no arguments of a call."""

    guards: tuple[Guard, ...]
    asked: tuple[Guard, ...]  # those that each call asks
    facts: str  # the name that the lines have for those of them that the native program asks itself
    lines: tuple[str, ...]
    source: str  # of its unit
    unit: Callable[[], Any]  # compiles and loads that: its function and how long it took
    name: str  # that the lines have for this function
    passes: tuple[Pass, ...]
    call: LoopCall | None = None  # where the lines begin so: None where no call returns

    def compile(self, namespace: dict[str, Any]) -> CompiledGraph:
        """Raises NotNative, and NotYet where no call may wait for a compiler."""
        try:
            loaded = self.unit()
        except CompilerRefused as error:  # not for want of a compiler: graphs tell of that
            if config.internal_errors == "raise":
                raise
            warn_once(f"{error} A loop runs as a compiled body instead, an iteration at a time.")
            raise NotNative(str(error)) from None
        except NoCompiler as reason:
            raise NotNative(str(reason)) from None
        COUNTS["loop_programs"] += 1
        namespace[self.name] = loaded.call
        return CompiledGraph(loaded.call, self.source, ("npc_run",), {"compile": loaded.seconds}, passes=self.passes)

    def conditions(self, name_constant: Callable[[Any], str], namespace: dict[str, Any]) -> tuple[Asked, ...]:
        """Those that the native program does not ask itself: known when it is compiled, as a backend then has what asks."""
        found = conditions(self.asked, name_constant, namespace, of_arguments=False)
        [facts] = [each.numbers for each in found if isinstance(each, NativeQuestion)] or [name_constant(as_array(()))]
        namespace[self.facts] = namespace[facts]
        return tuple(each for each in found if not isinstance(each, NativeQuestion))
