"""The kernels of one piece of a program: prepared once for each way in which inputs come, then launched."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.cuda.compiler import CompileFailed, Request
from npcompile.backends.cuda.device import Device
from npcompile.backends.cuda.partition import Runner, on_device, to_host
from npcompile.backends.cuda.plan import plan_kernel
from npcompile.backends.cuda.program import Launch, Parameter, Plan
from npcompile.backends.eager import compile_eager
from npcompile.backends.kernels.lower import lower
from npcompile.backends.kernels.memory import build_schedule
from npcompile.backends.kernels.schedule import Buffer, dense_strides
from npcompile.tensor_core.graph import Graph, Node, bind

MOST_RECIPES = 64  # sizes remembered for one program
WIDE = 2**31 - 2**16  # elements: offsets of more do not fit 32 bits, a tile beyond the end included


class BadIndex(Exception):
    """A kernel met an index out of bounds; nothing is written yet."""


def numpy_runner(graph: Graph) -> Runner:
    """A piece by NumPy, on copies."""
    call = compile_eager(graph, ()).call

    def run(device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        copies = [to_host(device, x) for x in inputs]
        results = [on_device(device, x) for x in call(*copies, *symbols)]
        for index, _ in graph.writes:
            inputs[index][...] = on_device(device, copies[index])
        return results

    return run


@dataclass(frozen=True, slots=True)
class Step:
    """One launch."""

    launcher: Callable[..., None]
    grid: int
    arguments: tuple[tuple[str | None, str | None, Any], ...]
    checks: bool  # is it the first that must not run after a bad index?


@dataclass(frozen=True, slots=True)
class Recipe:
    """A run for given sizes: what is allocated, and launched."""

    allocated: list[tuple[str, tuple[int, ...], np.dtype, tuple[int, ...]]]
    steps: list[Step]
    checks_last: bool


@dataclass(slots=True, eq=False)
class Prepared:
    """A graph as kernels, for inputs that are dense or not, and 0-D inputs in memory or not."""

    graph: Graph
    buffers: list[Buffer]
    plans: list[Plan]
    check_after: int  # the last kernel that can meet a bad index; -1 when none can
    launchers: dict[tuple, Any] = field(default_factory=dict)
    literals: dict[str, Any] = field(default_factory=dict)
    recipes: dict[tuple, Recipe] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, dense: frozenset[int], on_device: frozenset[int]) -> Prepared:
        graph = with_dense_inputs(graph, dense)
        schedule = build_schedule(graph)
        kernels = lower(schedule)
        literals = {b.name: b for k in kernels for b in k.literals}
        buffers = [*schedule.buffers, *literals.values()]
        types = {b.name: b.dtype for b in buffers}
        pointers = frozenset(f"x{k}" for k in on_device)
        plans = [plan_kernel(k, types, graph.symbols, pointers) for k in kernels]
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
    by_numpy: Runner | None = None  # where Triton refused a kernel

    def prepare(self, strided: frozenset[int] = frozenset(), scalars: frozenset[int] = frozenset()) -> Prepared:
        """For inputs that are dense but `strided`, and 0-D ones passed by value but `scalars`, which are in memory."""
        dense = frozenset(range(len(self.graph.inputs))) - strided
        key = (dense, scalars)
        if key not in self.prepared:
            self.prepared[key] = Prepared.of(self.graph, dense, scalars)
        return self.prepared[key]

    def run(self, device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        if self.by_numpy is not None:
            return self.by_numpy(device, inputs, symbols)
        graph = self.graph
        sizes = dict(zip(graph.symbols, symbols))
        strided, scalars, copies = set(), set(), {}
        given = list(inputs)
        written = {index for index, _ in graph.writes}
        for k, (x, node) in enumerate(zip(inputs, graph.inputs)):
            if not node.meta.ndim and k not in written:
                if device.is_array(x):
                    scalars.add(k)
            elif not device.is_array(x):
                given[k] = copies[k] = on_device(device, x)
            elif not has_strides(x, bind(dense_strides(node.meta), sizes)):
                if has_strides(x, bind(node.meta.strides, sizes)) and not any(s % x.itemsize for s in x.strides):
                    strided.add(k)
                else:  # not as the program was promised: through a copy
                    given[k] = copies[k] = device.empty(x.shape, node.dtype, bind(dense_strides(node.meta), sizes))
                    given[k][...] = x
        try:
            prepared = self.prepare(frozenset(strided), frozenset(scalars))
            results = run_prepared(prepared, device, given, sizes)
        except CompileFailed as error:  # before anything is launched
            warnings.warn(f"a part of this program runs with NumPy: Triton refused a kernel. {error}", stacklevel=2)
            self.by_numpy = numpy_runner(graph)
            return self.by_numpy(device, inputs, symbols)
        for k in written & copies.keys():
            inputs[k][...] = given[k]
        return results


def has_strides(array: Any, strides: Sequence[int]) -> bool:
    return not array.size or all(n == 1 or a == b for n, a, b in zip(array.shape, array.strides, strides))


def run_prepared(prepared: Prepared, device: Device, inputs: Sequence[Any], sizes: dict[str, int]) -> list[Any]:
    """Launch every kernel on the current stream."""
    memory: dict[str, Any] = {f"x{k}": x for k, x in enumerate(inputs)}
    aligned = tuple([device.is_array(x) and device.address(x) % 16 == 0 for x in inputs])
    key = (tuple(sizes.values()), aligned)
    recipe = prepared.recipes.get(key)
    if recipe is None:
        if len(prepared.recipes) >= MOST_RECIPES:
            prepared.recipes.clear()
        recipe = prepared.recipes[key] = recipe_for(prepared, device, memory, sizes)
    memory |= prepared.literals
    for name, shape, dtype, strides in recipe.allocated:
        memory[name] = device.empty(shape, dtype, strides)
    if prepared.check_after >= 0:
        memory["error"] = device.zeros(1, np.dtype(np.int32))
    for step in recipe.steps:
        if step.checks:
            check(device, memory["error"])
        step.launcher(
            step.grid, *[a if name is None else value_of(device, memory, name, part) for name, part, a in step.arguments]
        )
    if recipe.checks_last:
        check(device, memory["error"])
    return [memory[f"out{k}"] for k in range(len(prepared.graph.outputs))]


def value_of(device: Device, memory: dict[str, Any], name: str, part: str | None) -> Any:
    """An address, or the value of a 0-D input: all of it, or its real or imaginary part."""
    if part is None:
        return device.address(memory[name])
    value = memory[name][()]
    return value.real if part == "r" else value.imag if part == "i" else value


def recipe_for(prepared: Prepared, device: Device, memory: dict[str, Any], sizes: dict[str, int]) -> Recipe:
    """All that the sizes decide, computed once."""
    allocated: list[tuple[str, tuple[int, ...], np.dtype, tuple[int, ...]]] = []
    wide = False
    for b in prepared.buffers:
        shape, strides = bind(b.shape, sizes), bind(b.strides, sizes)
        wide |= sum(abs(s) * max(n - 1, 0) for n, s in zip(shape, strides)) // b.dtype.itemsize >= WIDE
        if b.kind == "output":  # the buffer may have the shape that the result had before it was reshaped
            meta = prepared.graph.metas[b.number]
            allocated.append((b.name, bind(meta.shape, sizes), b.dtype, bind(dense_strides(meta), sizes)))
        elif b.kind == "temporary":
            allocated.append((b.name, shape, b.dtype, strides))
        elif b.kind == "literal" and b.name not in prepared.literals:
            data = np.frombuffer(b.data or bytes(b.dtype.itemsize), b.dtype)
            prepared.literals[b.name] = device.upload(data.copy())
    work = [(number, launch) for number, plan in enumerate(prepared.plans) for launch in plan.launches(sizes)]
    launchers = launchers_for(prepared, device, [launch for _, launch in work], memory, sizes, wide)
    steps: list[Step] = []
    rooms: dict[str, int] = {}
    is_checked = prepared.check_after < 0
    for (number, launch), launcher in zip(work, launchers):
        checks = not is_checked and number > prepared.check_after
        is_checked |= checks
        rooms |= {f"{number} {room.name}": room.bytes for room in launch.scratch}
        arguments = tuple(argument(p, sizes, number) for p in launch.program.parameters)
        steps.append(Step(launcher, launch.tile.grid, arguments, checks))
    allocated += [(name, (size,), np.dtype(np.uint8), (1,)) for name, size in rooms.items()]
    return Recipe(allocated, steps, not is_checked)


def argument(parameter: Parameter, sizes: dict[str, int], number: int) -> tuple[str | None, str | None, Any]:
    """(name in memory, part of a 0-D value, a number that is known)."""
    match parameter.role:
        case "size":
            return None, None, sizes[parameter.source]
        case "scalar":
            name, _, part = parameter.source.partition("_")
            return name, part, None
        case "scratch":
            return f"{number} {parameter.source}", None, None
        case "error":
            return "error", None, None
        case _:
            return parameter.source, None, None


def check(device: Device, error: Any) -> None:
    flag = np.empty(1, np.int32)
    device.download(error, flag)
    if flag[0]:
        raise BadIndex


def launchers_for(
    prepared: Prepared, device: Device, work: Sequence[Launch], memory: dict[str, Any], sizes: dict[str, int], wide: bool
) -> list[Any]:
    """What launches each program, compiled together where they are new."""
    keys, missing = [], {}
    for launch in work:
        tile = launch.tile
        wide_here = wide or tile.grid * tile.block * tile.rows * tile.steps >= WIDE
        divisible = tuple(k for k, p in enumerate(launch.program.parameters) if is_divisible(device, p, memory, sizes))
        key = (launch.program, replace(tile, grid=0), wide_here, divisible)
        keys.append(key)
        if key not in prepared.launchers:
            missing[key] = Request(
                launch.program.name,
                launch.program.with_tile(tile, wide_here),
                signature(launch, wide_here),
                divisible,
                tile.warps,
            )
    if missing:
        prepared.launchers.update(zip(missing, device.load(list(missing.values()))))
    return [prepared.launchers[key] for key in keys]


def signature(launch: Launch, wide: bool) -> tuple[tuple[str, str], ...]:
    index = "i64" if wide else "i32"
    return tuple((p.name, index if p.type == "INDEX" else p.type) for p in launch.program.parameters)


def is_divisible(device: Device, parameter: Parameter, memory: dict[str, Any], sizes: dict[str, int]) -> bool:
    """Is this address, or size, known to be a multiple of 16? Then memory is read in wide pieces."""
    match parameter.role:
        case "size":
            return sizes[parameter.source] % 16 == 0
        case "buffer":  # what is not an argument is allocated here
            return parameter.source not in memory or device.address(memory[parameter.source]) % 16 == 0
        case "literal" | "scratch" | "error":
            return True
    return False
