"""What a function has compiled, with all that its programs call, and the seconds that loops of it take within a call."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from npcompile.tensor_core.op import OPS
from npcompile.tracer.entry import compiled_function


def functions_of(function: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The function, and those compiled that its programs call where their graphs end."""
    seen = set() if seen is None else seen
    if id(function) not in seen:
        seen.add(id(function))
        yield function
        for callee in [*function.callees.values()]:
            if (known := compiled_function(callee)) is not None:
                yield from functions_of(known, seen)


def aborts(function: Any) -> bool:
    """Is it a program that aborts?"""
    return any(variant.aborts for point in [*function.points.values()] for variant in point.variants)


def compiling_seconds(function: Any) -> float:
    return sum(sum(v.seconds.values()) for f in functions_of(function) for p in [*f.points.values()] for v in p.variants)


WATCHING = threading.RLock()


class Stopwatch:
    """The seconds that compiled loops take inside of a `with` block, of which Python may take many times as long.

    They are timed in one thread at a time, as what is put back afterwards is what was found; infinite in others.
    """

    def __init__(self, function: Any):
        self.function, self.seconds = function, 0.0
        self.timed: list[tuple[dict[str, Any], str, Any]] = []  # namespace, name in it, what it names

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = perf_counter()
            try:
                return call(*arguments)
            finally:
                self.seconds += perf_counter() - began

        return timed

    def __enter__(self) -> Stopwatch:
        self.is_alone = WATCHING.acquire(blocking=False)  # a call may wait for one in another thread
        if not self.is_alone:
            self.seconds = math.inf
            return self
        for each in functions_of(self.function):
            variants = [v for point in [*each.points.values()] for v in point.variants]
            for compiled in [v.compiled for v in variants if v.compiled is not None and has_loop(v.graph)]:
                if named := each.objects.get(id(compiled.quickest)):
                    self.timed.append((each.namespace, named.name, each.namespace[named.name]))
        for namespace, name, call in self.timed:
            namespace[name] = self.around(call)
        return self

    def __exit__(self, *error: object) -> None:
        for namespace, name, call in reversed(self.timed):
            namespace[name] = call
        if self.is_alone:
            WATCHING.release()


def has_loop(graph: Any) -> bool:
    """Is it a native program, or a graph with a loop in it?"""
    return graph is None or any(OPS[node.op].kind == "control" for node in graph.nodes)
