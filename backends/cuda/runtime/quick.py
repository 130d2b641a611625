"""The way of most calls, as short as it can be: generated for a program's inputs, and for each of its recipes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.cuda.runtime.graphs import Replayed
from npcompile.backends.cuda.runtime.launch import Batch
from npcompile.backends.cuda.runtime.recipe import MOST_RECIPES, Recipe, key_of_call
from npcompile.backends.registry import may_not_return
from npcompile.tensor_core.graph import Graph

MOST_ATTEMPTS = 32  # calls in a row after which nothing was ready: the program is of another kind
Call = Callable[..., tuple[Any, ...]]
Go = Callable[..., Any]  # of addresses and scalars: the results, or None where the other way has to be taken

everywhere: weakref.WeakSet[Quick] = weakref.WeakSet()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Quick:
    """A program's calls with arrays of the device, and numbers, that come as before.

    `program` is what keeps recipes by `key_of_call`, or recordings.
    """

    device: Any
    graph: Graph
    program: Any
    general: Call
    ready: dict[tuple, Go] = field(default_factory=dict)
    attempts: int = 0

    def __post_init__(self) -> None:
        everywhere.add(self)

    def call(self) -> Call:
        """`general`, with a shorter way in front of it."""
        graph, device = self.graph, self.device
        written = {k for k, _ in graph.writes}
        names = [f"x{k}" for k in range(len(graph.inputs))]
        symbols = [f"s{k}" for k in range(len(graph.symbols))]
        arrays = [n for k, n in enumerate(names) if graph.inputs[k].meta.ndim or k in written]
        if not arrays:
            return self.general
        stream = ["stream().ptr"] if isinstance(self.program, Replayed) else []
        key = ", ".join([*(f"{n}.strides" for n in arrays), *symbols, *stream])
        are_there = " and ".join(f"type({n}) {'is' if n in arrays else 'is not'} ndarray" for n in names)
        checked = " and not may_not_return()" if graph.checks else ""
        pointers = [n.replace("x", "p") for n in arrays]
        given = [f"p{n[1:]}" if n in arrays else f"asarray({n}, d{n[1:]}).item()" for n in names]
        lines = [
            f"def call({', '.join([*names, *symbols])}):",
            f"    if {are_there}:",
            f"        go = ready.get(({key},))",
            f"        if go is not None and current() == {device.number}{checked}:",
            *(f"            {p} = {n}.data.ptr" for p, n in zip(pointers, arrays)),
            f"            if not ({' | '.join(pointers)}) & 15:",
            f"                made = go({', '.join(given)})",
            "                if made is not None:",
            "                    return made",
            f"    return slow({', '.join([*names, *symbols])})",
        ]
        dtypes = {f"d{k}": n.dtype for k, n in enumerate(graph.inputs)}
        return defined("call", lines, self.names() | dtypes | {"ready": self.ready, "slow": self.slow})

    def names(self) -> dict[str, Any]:
        """What generated texts refer to."""
        cuda = self.device.library.cuda
        return {
            "ndarray": self.device.library.ndarray,
            "asarray": np.asarray,
            "alloc": cuda.alloc,
            "stream": cuda.get_current_stream,
            "current": cuda.runtime.getDevice,
            "may_not_return": may_not_return,
        }

    def slow(self, *args: Any) -> tuple[Any, ...]:
        results = self.general(*args)
        if self.attempts < MOST_ATTEMPTS:
            self.attempts += 1
            self.prepare(args)
        return results

    def prepare(self, args: Sequence[Any]) -> None:
        """Make the next call that is like this one a short one, where it can be."""
        graph, device = self.graph, self.device
        count = len(graph.inputs)
        written = {k for k, _ in graph.writes}
        inputs, symbols = args[:count], args[count:]
        by_value = {k for k, n in enumerate(graph.inputs) if not n.meta.ndim and k not in written}
        if any((type(x) is device.library.ndarray) == (k in by_value) for k, x in enumerate(inputs)):
            return
        given = [np.asarray(x, graph.inputs[k].dtype) if k in by_value else x for k, x in enumerate(inputs)]
        strides = [x.strides for k, x in enumerate(inputs) if k not in by_value]
        if isinstance(self.program, Replayed):
            go = self.replaying(given, symbols)
            key = (*strides, *symbols, device.stream())
        else:
            recipe = self.program.recipes.get(key_of_call(given, device.addresses(given), symbols))
            go = None if recipe is None else self.going(recipe)
            key = (*strides, *symbols)
        if go is not None:
            if len(self.ready) >= MOST_RECIPES:
                self.ready.clear()
            self.ready[key] = go
            self.attempts = 0

    def replaying(self, inputs: Sequence[Any], symbols: Sequence[int]) -> Go | None:
        program, device = self.program, self.device
        known = program.known.get((device.stream(), tuple(symbols), tuple([x.strides for x in inputs])))
        if known is None or not all(map(device.is_array, inputs)) or not any(r.expected for r in known.free):
            return None

        def go(*addresses: int) -> tuple[Any, ...] | None:
            made = program.again(device, known, [*addresses])
            return None if made is None else tuple(made)

        return go

    def going(self, recipe: Recipe) -> Go | None:
        """The recipe as one function; None where more is to be done than to allocate and to launch."""
        if len(recipe.phases) != 1 or recipe.phases[0].is_checked or not isinstance(recipe.phases[0].run, Batch):
            return None
        batch = recipe.phases[0].run
        count = len(self.graph.inputs)
        names = self.names() | {"launch": batch.launch, "again": batch.again, "handle": self.device.blas_handle}
        lines = []
        for k, made in enumerate(recipe.outputs):
            names |= {f"shape{k}": made.shape, f"dtype{k}": made.dtype, f"strides{k}": made.strides}  # type: ignore[attr-defined]
            more = "" if made.strides is None else f", strides{k}"  # type: ignore[attr-defined]
            lines += [f"        m{k} = alloc({made.size})", f"        o{k} = ndarray(shape{k}, dtype{k}, m{k}{more})"]  # type: ignore[attr-defined]
        if recipe.arena is not None:
            lines.append(f"        arena = alloc({recipe.arena.size})")  # type: ignore[attr-defined]
        arguments = [f"a{k}" for k in range(count)]
        parts = [f"a{k}{ {'r': '.real', 'i': '.imag'}.get(part, '') }" for k, part in recipe.scalars]
        values = [*arguments, *parts, *(f"m{k}.ptr" for k in range(len(recipe.outputs)))]
        values += ["arena.ptr"] * (recipe.arena is not None) + ["handle()"] * recipe.uses_blas
        text = ", ".join(values)
        results = "".join(f"o{k}, " for k in range(len(recipe.outputs)))
        start = [f"def go({', '.join(arguments)}):"]
        if lines:  # where there is no memory, there may be when caches are freed
            start += ["    try:", *lines, "    except MemoryError:", "        return None"]
        launches = []
        for address in batch.addresses:
            again = f"again(error, {address}, s, ({text},))"
            launches += [f"    error = launch({address}, s, {text})", "    if error:", f"        {again}"]
        return defined("go", [*start, "    s = stream().ptr", *launches, f"    return ({results})"], names)


def defined(name: str, lines: Sequence[str], names: dict[str, Any]) -> Any:
    namespace = dict(names)
    exec(compile("\n".join(lines), f"<npcompile {name}>", "exec"), namespace)
    return namespace[name]


def forget() -> None:
    """In a forked child: devices refuse there."""
    for quick in everywhere:
        quick.ready.clear()
