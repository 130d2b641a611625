"""Loops of known length whose elements do not depend on each other: the whole loop in one kernel, with carries in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npcompile.backends.cuda.native import is_native_graph
from npcompile.backends.cuda.programs.plan import flat_tile
from npcompile.backends.cuda.programs.printer import Context, Nest, finished, masks, nest_of
from npcompile.backends.cuda.programs.program import Launch, NotPrintable, Plan, Program, Values, number_of
from npcompile.backends.cuda.programs.tile_printer import COLUMN, NONE, Writer, parts
from npcompile.backends.cuda.runtime.run import Kernels, Prepared
from npcompile.backends.kernels.index import axis_variable, symbols_in
from npcompile.backends.kernels.kernel import Kernel, Let, Load, Position, Statement, Store, Value, children
from npcompile.backends.kernels.layouts import dense_strides
from npcompile.backends.kernels.lower import lower
from npcompile.backends.kernels.memory import build_schedule
from npcompile.backends.kernels.schedule import Buffer
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Graph, Node, symbols_of
from npcompile.tensor_core.meta import product

EACH = 64  # elements for a warp: a long loop hides little, so all multiprocessors should have some
MOST_STATEMENTS = 400  # of a body that is printed whole
TURN = axis_variable("turn")  # the index of what is scanned


def loop_graph(node: Node, graph: Graph) -> Graph:
    """The `for_loop` alone: its operands, C-contiguous, are the inputs, and each of its results is an output."""
    inputs = [Node("input", (), {"index": k}, n.meta.with_(strides=(), weak=False)) for k, n in enumerate(node.inputs)]
    loop = replace(node, inputs=tuple(inputs))
    metas = [m.with_(strides=(), boxed=True) for m in node.meta.items]  # type: ignore[attr-defined]
    outputs = tuple(Node("item", (loop,), {"index": k}, m) for k, m in enumerate(metas))
    found = {s for n in (*inputs, loop, *outputs) for s in symbols_of(n)} | {*node.params["body_graph"].symbols}
    symbols = tuple(s for s in graph.symbols if s in found)
    return Graph(tuple(inputs), outputs, tuple(metas), (), symbols, graph.env, graph.name, accuracy=graph.accuracy)


@dataclass(slots=True, eq=False)
class LoopKernels(Kernels):
    """The kernel of a graph that `loop_graph` made."""

    def prepare(self, strided: frozenset[int] = frozenset(), scalars: frozenset[int] = frozenset()) -> Prepared:
        assert not strided, strided
        key = (strided, scalars)
        if key not in self.prepared:
            self.prepared[key] = prepared_loop(self.graph, scalars)
        return self.prepared[key]

    def can_read(self, node: Node, x: Any) -> bool:
        """Only what is C-contiguous: anything else is copied once, and read in every turn."""
        return False


def prepared_loop(graph: Graph, on_device: frozenset[int]) -> Prepared:
    """Raises NotPrintable where an element depends on others, or the body is more than scalar instructions."""
    nodes = {"input": graph.inputs, "output": graph.outputs}
    prefix = {"input": "x", "output": "out"}
    buffers = [
        Buffer(f"{prefix[kind]}{k}", n.dtype, n.meta.shape, dense_strides(n.meta), kind, k)
        for kind in nodes
        for k, n in enumerate(nodes[kind])
    ]
    return Prepared(graph, buffers, [plan_loop(graph, {b.name: b.dtype for b in buffers}, on_device)], -1)


def plan_loop(graph: Graph, types: dict[str, np.dtype], on_device: frozenset[int]) -> Plan:
    node = graph.outputs[0].inputs[0]
    body: Graph = node.params["body_graph"]
    if not is_native_graph(body):
        raise NotPrintable("the loop calls what is not a kernel")
    schedule = build_schedule(body)
    kernels = lower(schedule)
    nests = [nest_of(k.body) for k in kernels]
    statements = [s for nest in nests for s in nest.inside]
    wide = [nest for nest in nests if nest.axes]
    if len(wide) > 1 or len(statements) > MOST_STATEMENTS or any(b.kind not in ("input", "output") for b in schedule.buffers):
        raise NotPrintable("elements of the loop are not alone")
    if any(children(s) or not isinstance(s, (Let, Load, Store, Position)) for s in statements) or any(
        k.literals for k in kernels
    ):
        raise NotPrintable("the body of the loop is not scalar")
    scalars = {f"x{k}": n.dtype for k, n in enumerate(body.inputs) if not n.meta.ndim}
    name = next((k.name for k, nest in zip(kernels, nests) if nest.axes), kernels[0].name).replace("npc_", "npc_loop_", 1)
    kernel = Kernel(name, [], [], scalars=scalars)
    pointers = frozenset(f"x{k}" for k in on_device)
    context = Context(kernel, types, frozenset(graph.symbols), pointers, graph.accuracy == "fast")
    program = Printer(node, body, context.writer()).print(name, nests)
    count = wide[0].count if wide else 1

    def launches(values: Values) -> list[Launch]:
        total = number_of(count, values)
        return [Launch(program, flat_tile(total, EACH))] if total else []

    return Plan(kernel, launches, [program])


class Printer:
    """Prints the loop: carries are loaded, go from turn to turn in registers, and are stored."""

    def __init__(self, node: Node, body: Graph, writer: Writer):
        self.body, self.writer = body, writer
        self.carried, self.scanned = node.params["carried"], node.params["scanned"]
        self.length, self.reverse = node.params["length"], node.params["reverse"]
        self.carries = [Value(f"carry{k}", n.dtype) for k, n in enumerate(body.inputs[: self.carried])]

    def print(self, name: str, nests: Sequence[Nest]) -> Program:
        writer = self.writer
        writer.line("program = tl.program_id(0).to(INDEX)")
        writer.tile_indices(None, "program * BLOCK")
        for nest in nests:
            if nest.axes:
                masks(writer, None, writer.size(nest.count))
                writer.axes("column", nest.axes, COLUMN)
        statements = [self.renamed(s, n) for n, nest in enumerate(nests) for s in nest.inside]
        places = self.places(statements)
        for k, carry in enumerate(self.carries):
            self.enter(k, carry, places[k])
        writer.registers |= {f"x{k}": carry for k, carry in enumerate(self.carries)}
        writer.registers |= {f"out{k}": carry for k, carry in enumerate(self.carries)}
        is_constant = [isinstance(s, Load) and self.number(s.buffer) >= self.carried + self.scanned for s in statements]
        writer.statements([s for s, constant in zip(statements, is_constant) if constant])
        length = writer.size(self.length)
        with writer.block(f"for step in range(0, {length}):"):
            writer.deps["turn"] = NONE
            writer.line(f"turn = program * 0 + {f'({length} - 1 - step)' if self.reverse else 'step'}")
            self.take_scalars()
            writer.statements([self.at_turn(s) for s, constant in zip(statements, is_constant) if not constant])
            self.next_turn()
        for k, carry in enumerate(self.carries):
            del writer.registers[f"out{k}"]
            writer.store(Store(f"out{k}", places[k], carry))
        return finished(writer, name)

    @staticmethod
    def number(buffer: str) -> int:
        return int(buffer.removeprefix("out").removeprefix("x"))

    def renamed(self, s: Statement, n: int) -> Statement:
        """With names of its own: each kernel counts its values from one. 0-D operands have names of the loop's."""

        def value(v: Value) -> Value:
            if not v.name.startswith("x"):
                return Value(f"k{n}_{v.name}", v.dtype)
            k = self.number(v.name)
            return self.carries[k] if k < self.carried else Value(f"item{k}", v.dtype) if k < self.carried + self.scanned else v

        match s:
            case Let():
                return replace(s, target=value(s.target), args=tuple(map(value, s.args)))
            case Load():
                return replace(s, target=value(s.target), mask=None if s.mask is None else value(s.mask))
            case Store():
                return replace(s, value=value(s.value))
        assert isinstance(s, Position), s
        return replace(s, target=value(s.target))

    def places(self, statements: Sequence[Statement]) -> list[Size]:
        """Where the element of each carry is, in the operand and in the result. Raises NotPrintable where another is read."""
        places = {s.buffer: s.offset for s in statements if isinstance(s, Store)}
        if any(f"out{k}" not in places for k in range(self.carried)):
            raise NotPrintable("a carry is not computed")
        for s in statements:
            if not isinstance(s, Load):
                continue
            k, is_result = self.number(s.buffer), s.buffer.startswith("out")
            if s.mask is not None or not self.is_fixed(s.offset) or (is_result and k >= self.carried):
                raise NotPrintable("the loop reads what only a turn knows")
            if k < self.carried and not same(s.offset, places[f"out{k}"]):
                raise NotPrintable("an element of the loop reads others")
        for meta in self.body.metas[: self.carried]:
            if not all(map(same, meta.strides, meta.with_(strides=()).strides)):
                raise NotPrintable("carries change their memory order")
        return [places[f"out{k}"] for k in range(self.carried)]

    def is_fixed(self, offset: Size) -> bool:
        return symbols_in(offset) <= self.writer.deps.keys() | self.writer.symbols

    def enter(self, k: int, carry: Value, place: Size) -> None:
        writer = self.writer
        if self.body.inputs[k].meta.ndim:
            writer.load(Load(carry, f"x{k}", place))
        else:
            given = Value(f"x{k}", carry.dtype)
            writer.argument(given)
            writer.assign(carry, parts(given), NONE)

    def slice_bytes(self, meta: Any) -> Size:
        return product(meta.shape) * meta.dtype.itemsize

    def take_scalars(self) -> None:
        """0-D elements of what is scanned."""
        for k in range(self.carried, self.carried + self.scanned):
            meta = self.body.inputs[k].meta
            if not meta.ndim:
                self.writer.load(Load(Value(f"item{k}", meta.dtype), f"x{k}", TURN * self.slice_bytes(meta)))

    def at_turn(self, s: Statement) -> Statement:
        """Elements of this turn's slice of what is scanned, and of what is stacked."""
        if isinstance(s, Load) and self.carried <= self.number(s.buffer) and s.buffer.startswith("x"):
            return replace(s, offset=s.offset + TURN * self.slice_bytes(self.body.inputs[self.number(s.buffer)].meta))
        if isinstance(s, Store) and self.number(s.buffer) >= self.carried:
            return replace(s, offset=s.offset + TURN * self.slice_bytes(self.body.metas[self.number(s.buffer)]))
        return s

    def next_turn(self) -> None:
        writer = self.writer
        made = [writer.registers[f"out{k}"] for k in range(self.carried)]
        for k, (value, carry) in enumerate(zip(made, self.carries)):
            if writer.deps_of(value) != writer.deps[carry.name]:
                raise NotPrintable("a carry becomes the same for all elements, or ceases to be")
            writer.assign(Value(f"next{k}", carry.dtype), parts(value), writer.deps[carry.name])
        for k, carry in enumerate(self.carries):  # when all are known
            writer.assign(carry, parts(Value(f"next{k}", carry.dtype)), writer.deps[carry.name])
