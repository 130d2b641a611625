"""The kernels of one piece of a program: prepared once for each way in which inputs come, then launched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.cuda.programs.plan import plan_kernel
from npcompile.backends.cuda.programs.program import Launch, NotPrintable, Parameter, Plan
from npcompile.backends.cuda.programs.tile_printer import divided
from npcompile.backends.cuda.runtime.compiler import CompileFailed, Request
from npcompile.backends.cuda.runtime.interface import Device, Runner, on_device, to_host
from npcompile.backends.cuda.runtime.launch import Argument, Step
from npcompile.backends.cuda.runtime.memory import Lifetime, plan_memory
from npcompile.backends.cuda.runtime.recipe import MOST_RECIPES, Phase, Recipe, key_of_call
from npcompile.backends.cuda.runtime.tuning import tuned
from npcompile.backends.eager import compile_eager
from npcompile.backends.kernels.layouts import dense_strides
from npcompile.backends.kernels.lower import lower
from npcompile.backends.kernels.memory import build_schedule
from npcompile.backends.kernels.schedule import Buffer
from npcompile.tensor_core.graph import Graph, Node, bind
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.user_warnings import warn_user

WIDE = 2**31 - 2**16  # elements: offsets of more do not fit 32 bits, a tile beyond the end included


def numpy_runner(graph: Graph) -> Runner:
    """A piece by NumPy, on copies."""
    call = compile_eager(graph, ()).call

    def run(device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        copies = [to_host(device, x) for x in inputs]
        results = [on_device(device, x) for x in call(*copies, *symbols)]
        contents = [(k, on_device(device, copies[k])) for k, _ in graph.writes]
        for k, value in contents:  # when nothing can fail any more
            inputs[k][...] = value
        return results

    return run


@dataclass(slots=True, eq=False)
class Prepared:
    """A graph as kernels, for inputs that are dense or not, and 0-D inputs in memory or not."""

    graph: Graph
    buffers: list[Buffer]
    plans: list[Plan]
    check_after: int  # the last kernel that can meet a bad index; -1 when none can
    launchers: dict[tuple, Any] = field(default_factory=dict)
    literals: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, dense: frozenset[int], on_device: frozenset[int]) -> Prepared:
        graph = with_dense_inputs(graph, dense)
        schedule = build_schedule(graph, abreast=True)
        kernels = lower(schedule)
        literals = {b.name: b for k in kernels for b in k.literals}
        buffers = [*schedule.buffers, *literals.values()]
        types = {b.name: b.dtype for b in buffers}
        pointers = frozenset(f"x{k}" for k in on_device)
        plans = [plan_kernel(k, types, graph.symbols, pointers, is_fast=graph.accuracy == "fast") for k in kernels]
        last = max((number for number, k in enumerate(kernels) if k.can_fail), default=-1)
        return cls(graph, buffers, plans, last)


def with_dense_inputs(graph: Graph, dense: frozenset[int]) -> Graph:
    """The same program on copies of some inputs without gaps between elements."""
    made: dict[Node, Node] = {}
    for k, node in enumerate(graph.inputs):
        strides = dense_strides(node.meta) if k in dense else node.meta.strides
        made[node] = replace(node, params={"index": k}, meta=node.meta.with_(strides=strides, weak=False))
    for node in graph.nodes:
        if node.op != "input":
            made[node] = replace(node, inputs=tuple(made[i] for i in node.inputs))
    return replace(
        graph,
        inputs=tuple(made[n] for n in graph.inputs),
        outputs=tuple(made[n] for n in graph.outputs),
        writes=tuple((k, made[n]) for k, n in graph.writes),
    )


@dataclass(slots=True, eq=False)
class Kernels:
    """One piece of a program: its kernels for each way in which inputs come."""

    graph: Graph
    prepared: dict[tuple[frozenset[int], frozenset[int]], Prepared] = field(default_factory=dict)
    recipes: dict[tuple, Recipe] = field(default_factory=dict)
    by_numpy: Runner | None = None  # where Triton refused a kernel
    is_tuned: bool = False  # see tuning.py
    lock: threading.RLock = field(default_factory=threading.RLock)  # a second copy of a kernel would unload the first

    def prepare(self, strided: frozenset[int] = frozenset(), scalars: frozenset[int] = frozenset()) -> Prepared:
        """For inputs that are dense but `strided`, and 0-D ones passed by value but `scalars`, which are in memory."""
        dense = frozenset(range(len(self.graph.inputs))) - strided
        key = (dense, scalars)
        if key not in self.prepared:
            self.prepared[key] = Prepared.of(self.graph, dense, scalars)
        return self.prepared[key]

    def run(self, device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        addresses = device.addresses(inputs)
        key = key_of_call(inputs, addresses, symbols)
        recipe = self.recipes.get(key)
        if recipe is not None:
            return recipe.run(device, inputs, addresses)
        return self.run_first(device, inputs, symbols, key)

    def run_first(self, device: Device, inputs: Sequence[Any], symbols: Sequence[int], key: tuple) -> list[Any]:
        """Inputs that come as they never did, or not as the program was promised: those go through copies each time."""
        if self.by_numpy is not None:
            return self.by_numpy(device, inputs, symbols)
        graph = self.graph
        sizes = dict(zip(graph.symbols, symbols))
        strided, scalars, copies = set(), set(), {}
        written = {index for index, _ in graph.writes}
        for k, (x, node) in enumerate(zip(inputs, graph.inputs)):
            if not node.meta.ndim and k not in written:
                if device.is_array(x):
                    scalars.add(k)
            elif not device.is_array(x):
                copies[k] = on_device(device, x)
            elif not has_strides(x, bind(dense_strides(node.meta), sizes)):
                if has_strides(x, bind(node.meta.strides, sizes)) and self.can_read(node, x):
                    strided.add(k)
                else:
                    copies[k] = device.empty(x.shape, node.dtype, bind(dense_strides(node.meta), sizes))
                    copies[k][...] = x
        if copies:
            given = [copies.get(k, x) for k, x in enumerate(inputs)]
            results = self.run(device, given, symbols)
            for k in written & copies.keys():
                inputs[k][...] = given[k]
            return results
        addresses = device.addresses(inputs)
        try:
            with self.lock:
                recipe = self.recipes.get(key)  # another thread may have made it meanwhile
                if recipe is None:
                    prepared = self.prepare(frozenset(strided), frozenset(scalars))
                    recipe = recipe_for(prepared, device, addresses, sizes, self.is_tuned and not strided & written)
        except CompileFailed as error:
            self.by_numpy = numpy_runner(graph)
            self.recipes.clear()
            warn_user(f"a part of this program runs with NumPy: Triton refused a kernel. {error}")
            return self.by_numpy(device, inputs, symbols)
        if len(self.recipes) >= MOST_RECIPES:
            self.recipes.clear()
        self.recipes[key] = recipe
        return recipe.run(device, inputs, addresses)

    def can_read(self, node: Node, x: Any) -> bool:
        """Are the gaps between elements whole elements, as the program knows it?"""
        try:
            for s in node.meta.strides:
                divided(s, x.itemsize)
        except NotPrintable:
            return False
        return not any(s % x.itemsize for s in x.strides)


def has_strides(array: Any, strides: Sequence[int]) -> bool:
    return not array.size or all(n == 1 or a == b for n, a, b in zip(array.shape, array.strides, strides))


def recipe_for(
    prepared: Prepared, device: Device, addresses: Sequence[int | None], sizes: dict[str, int], is_tuned: bool = False
) -> Recipe:
    """All that sizes and layouts decide, computed once. Raises CompileFailed."""
    outputs: dict[int, Callable[[], Any]] = {}
    rooms: dict[str, int] = {}  # bytes of each temporary
    wide = False
    for b in prepared.buffers:
        shape, strides = bind(b.shape, sizes), bind(b.strides, sizes)
        wide |= sum(abs(s) * max(n - 1, 0) for n, s in zip(shape, strides)) // b.dtype.itemsize >= WIDE
        if b.kind == "output":  # the buffer may have the shape that the result had before it was reshaped
            meta = prepared.graph.metas[b.number]
            outputs[b.number] = device.maker(bind(meta.shape, sizes), b.dtype, bind(dense_strides(meta), sizes))
        elif b.kind == "temporary":
            rooms[b.name] = product(shape) * b.dtype.itemsize
        elif b.kind == "literal" and b.name not in prepared.literals:
            data = np.frombuffer(b.data or bytes(b.dtype.itemsize), b.dtype)
            prepared.literals[b.name] = device.upload(data.copy())
            device.wait()  # other streams read it too
    work = [(number, launch) for number, plan in enumerate(prepared.plans) for launch in plan.launches(sizes)]
    if is_tuned:
        work = [(number, tune(prepared, device, launch, addresses, sizes, wide)) for number, launch in work]
    rooms |= {f"{number} {room.name}": room.bytes for number, launch in work for room in launch.scratch}
    scalars = list(dict.fromkeys(p.source for _, launch in work for p in launch.program.parameters if p.role == "scalar"))

    places = {f"x{k}": Argument(k) for k in range(len(addresses))}
    places |= {source: Argument(len(addresses) + j) for j, source in enumerate(scalars)}
    first = len(addresses) + len(scalars)
    places |= {f"out{k}": Argument(first + k) for k in outputs}
    places |= {name: Argument(None, device.addresses([x])[0] or 0) for name, x in prepared.literals.items()}
    offsets, size = plan_memory(lifetimes(work, rooms))
    end = first + len(outputs)
    places |= {name: Argument(end, offset) for name, offset in zip(rooms, offsets)}
    places["error"] = Argument(end + bool(rooms))
    arguments = [[argument(p, number, places, sizes) for p in launch.program.parameters] for number, launch in work]

    launchers = launchers_for(prepared, device, [launch for _, launch in work], addresses, sizes, wide)
    steps = [Step(f, launch.tile.grid, tuple(a)) for f, (_, launch), a in zip(launchers, work, arguments)]
    safe = next((k for k, (number, _) in enumerate(work) if number > prepared.check_after), len(work))  # then writes begin
    if prepared.check_after < 0:
        safe = 0
    phases = [Phase.of(part, checked) for part, checked in ((steps[:safe], True), (steps[safe:], False)) if part]
    arena = device.maker((size,), np.dtype(np.uint8), (1,)) if rooms else None
    parts = [(int(name), part) for name, _, part in (s.removeprefix("x").partition("_") for s in scalars)]
    return Recipe(parts, [outputs[k] for k in sorted(outputs)], arena, phases, bool(prepared.graph.writes))


def tune(
    prepared: Prepared, device: Device, launch: Launch, addresses: Sequence[int | None], sizes: dict[str, int], wide: bool
) -> Launch:
    """The launch with its best tile. Inputs that are only read are the call's own, all else is memory of zeros."""
    written = {f"x{k}" for k, _ in prepared.graph.writes}
    sizes_of = {b.name: product(bind(b.shape, sizes)) * b.dtype.itemsize for b in prepared.buffers}
    sizes_of |= {room.name: room.bytes for room in launch.scratch} | {"error": 4}
    memory, held = {}, []
    for p in launch.program.parameters:
        if p.role == "buffer" and p.source.startswith("x") and p.source not in written:
            memory[p.name] = addresses[int(p.source[1:])] or 0
        elif p.is_pointer:
            held.append(device.zeros(max(sizes_of[p.source or p.name], 1), np.dtype(np.uint8)))
            memory[p.name] = device.address(held[-1])

    def load(launches: Sequence[Launch]) -> list[Callable[..., None]]:
        return launchers_for(prepared, device, launches, addresses, sizes, wide)

    divisible = [is_divisible(p, addresses, sizes) for p in launch.program.parameters]
    return tuned(device, launch, load, memory, sizes, wide, divisible)


def lifetimes(work: Sequence[tuple[int, Launch]], rooms: dict[str, int]) -> list[Lifetime]:
    """From the first launch that a temporary is an argument of to the last."""
    users: dict[str, list[int]] = {name: [] for name in rooms}
    for k, (number, launch) in enumerate(work):
        for p in launch.program.parameters:
            name = f"{number} {p.source}" if p.role == "scratch" else p.source
            if name in users:
                users[name].append(k)
    return [Lifetime(rooms[name], min(at, default=0), max(at, default=0)) for name, at in users.items()]


def argument(parameter: Parameter, number: int, places: dict[str, Argument], sizes: dict[str, int]) -> Argument:
    """Where a launch of the kernel `number` finds a parameter."""
    match parameter.role:
        case "size":
            return Argument(None, sizes[parameter.source])
        case "scratch":
            return places[f"{number} {parameter.source}"]
        case "error":
            return places["error"]
    return places[parameter.source]


def launchers_for(
    prepared: Prepared,
    device: Device,
    work: Sequence[Launch],
    addresses: Sequence[int | None],
    sizes: dict[str, int],
    wide: bool,
) -> list[Callable[..., None]]:
    """What launches each program, compiled together where they are new."""
    keys, missing = [], {}
    for launch in work:
        tile = launch.tile
        wide_here = wide or tile.grid * tile.block * tile.rows * tile.steps >= WIDE
        divisible = tuple(k for k, p in enumerate(launch.program.parameters) if is_divisible(p, addresses, sizes))
        key = (launch.program, replace(tile, grid=0), wide_here, divisible)
        keys.append(key)
        if key not in prepared.launchers:
            missing[key] = Request(
                launch.program.name,
                launch.program.with_tile(tile, wide_here),
                signature(launch, wide_here),
                divisible,
                tile.warps,
                tile.stages,
                launch.program.is_fast,
            )
    if missing:
        prepared.launchers.update(zip(missing, device.load(list(missing.values()))))
    return [prepared.launchers[key] for key in keys]


def signature(launch: Launch, wide: bool) -> tuple[tuple[str, str], ...]:
    index = "i64" if wide else "i32"
    return tuple((p.name, index if p.type == "INDEX" else p.type) for p in launch.program.parameters)


def is_divisible(parameter: Parameter, addresses: Sequence[int | None], sizes: dict[str, int]) -> bool:
    """Is this address, or size, known to be a multiple of 16? Then memory is read in wide pieces."""
    match parameter.role:
        case "size":
            return sizes[parameter.source] % 16 == 0
        case "buffer" if parameter.source.startswith("x"):
            return not (addresses[int(parameter.source[1:])] or 0) % 16
        case "buffer" | "literal" | "scratch" | "error":  # allocated here
            return True
    return False
