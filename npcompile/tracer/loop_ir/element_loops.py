"""A graph as loops over elements: each op gives one element for an index; what is read again and again gets memory.

Values lie on the stack of the frame, in slots: so each block that a loop begins has them, as it has Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from npcompile.tensor_core.dim import Call as SizeCall
from npcompile.tensor_core.dim import Dim, ShapeEnv, Size, same
from npcompile.tensor_core.graph import Builder as GraphBuilder
from npcompile.tensor_core.graph import Graph, Node, users
from npcompile.tensor_core.loop_ir.ops import Branch, Jump, Store
from npcompile.tensor_core.loop_ir.rows import ROWS
from npcompile.tensor_core.loop_ir.types import KINDS, TRUTHS, Kind, Memref
from npcompile.tensor_core.transforms.decompose import expanded
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.loop_ir import indexing, numbers
from npcompile.tracer.loop_ir.abstract import Unsupported, Value
from npcompile.tracer.loop_ir.builder import Begun, Builder
from npcompile.tracer.loop_ir.elements import COMPARED, as_kind, constant, converted, of_integers, read

Index = Sequence[int]
CHEAP = ("add", "subtract", "multiply", "negative", "cast", "where", "absolute", "maximum", "minimum")
MOVED = ("permute", "reshape", "broadcast_to", "slice", "alias", "laid_out")
Rule: TypeAlias = "Callable[[Loops, Node], None]"  # gives a node memory, or a value
ELEMENTS = (Kind.F64, Kind.I64, Kind.B1)  # of what statements about arrays make


@dataclass(slots=True)
class Loops:
    b: Builder
    env: ShapeEnv
    rules: Mapping[str, Rule]  # of ops that need loops of their own
    made: dict[Node, int] = field(default_factory=dict)  # slots of nodes that are values
    sizes: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # symbol -> slot, and axis of an array
    memo: dict[tuple[Node, tuple[int, ...]], int] = field(default_factory=dict)  # elements that this block has
    own: set[Node] = field(default_factory=set)  # arrays that nothing else shows
    base: int = -1

    def __post_init__(self) -> None:
        self.base = len(self.b.frame.stack)

    # --- slots

    def push(self, value: int) -> int:
        self.b.frame.stack.append(Value(value))
        return len(self.b.frame.stack) - 1 - self.base

    def get(self, slot: int) -> int:
        found = self.b.frame.stack[self.base + slot]
        assert isinstance(found, Value), found
        return found.value

    def set(self, slot: int, value: int) -> None:
        self.b.frame.stack[self.base + slot] = Value(value)

    def size(self, size: Size) -> int:
        """The value of a size."""
        b = self.b
        if not isinstance(size, Dim):
            return b.constant(int(size))
        total: int | None = None
        for monomial, coefficient in size.terms:
            term = None if coefficient in (1, -1) and monomial else b.constant(abs(coefficient))
            for atom in monomial:
                value = self.symbol(atom) if isinstance(atom, str) else self.call(atom)
                term = value if term is None else self.checked("multiply", term, value)
            assert term is not None
            if coefficient < 0:
                total = self.checked("subtract", b.constant(0) if total is None else total, term)
            else:
                total = term if total is None else self.checked("add", total, term)
        return b.constant(0) if total is None else total

    def checked(self, op: str, left: int, right: int) -> int:
        self.b.check_not(self.b.let(f"{op}_overflows", left, right))
        return self.b.let(op, left, right)

    def symbol(self, name: str) -> int:
        slot, axis = self.sizes[name]
        return self.get(slot) if axis is None else indexing.size(self.b, self.get(slot), axis)

    def call(self, call: SizeCall) -> int:
        b = self.b
        left, right = self.size(call.args[0]), self.size(call.args[1])
        match call.fn:
            case "min":
                return b.let("least", left, right)
            case "max":
                return b.let("choose", b.let("less", left, right), right, left)
        b.check(b.let("greater", right, b.constant(0)))
        return b.let("floor_divide" if call.fn == "floordiv" else "remainder", left, right)

    # --- loops

    def over(self, sizes: Sequence[Size], body: Callable[[list[int]], None]) -> None:
        """Run `body` for all indices below `sizes`."""
        self.nest([self.push(self.size(size)) for size in sizes], [], body)
        del self.b.frame.stack[len(self.b.frame.stack) - len(sizes) :]

    def nest(self, sizes: list[int], index: list[int], body: Callable[[list[int]], None]) -> None:
        if not sizes:
            body(index)
            return
        b = self.b
        k = self.push(b.constant(0))
        header = self.block()
        self.jump(header.block.label)
        self.enter(header)
        condition = b.let("less", self.get(k), self.get(sizes[0]))
        inside, after = self.block(), self.block()
        b.emit(Branch(condition, inside.block.label, b.values(b.frame), after.block.label, b.values(b.frame), b.at))
        self.enter(inside)
        if b.aborts:
            b.poll()
        self.nest(sizes[1:], [*index, k], body)
        self.set(k, b.let("add", self.get(k), b.constant(1)))
        self.jump(header.block.label)
        self.enter(after)
        b.frame.stack.pop()

    def block(self) -> Begun:
        return self.b.new_block(self.b.frame)

    def jump(self, label: int) -> None:
        self.b.flush()
        self.b.emit(Jump(label, self.b.values(self.b.frame), self.b.at))

    def enter(self, begun: Begun) -> None:
        self.b.block, self.b.frame, self.b.constants = begun.block, begun.frame, {}
        self.memo.clear()

    def is_repeated(self) -> bool:
        """Is the statement in a loop of the user's, or in a function that one calls?"""
        return any(f.index in loop_region(f.facts, header) for f in self.b.frame.chain() for header in f.facts.loop_headers)

    def note_arrays(self, sizes: Sequence[Size]) -> None:
        if any(isinstance(size, Dim) for size in sizes) and self.is_repeated():
            self.b.has_arrays = True
            *_, own = self.b.frame.chain()
            self.b.array_loops |= {h for h in own.facts.loop_headers if own.index in loop_region(own.facts, h)}

    # --- memory

    def slots_of(self, graph: Graph) -> None:
        """Memory, or a value, for what is not computed element by element."""
        nodes = graph.nodes
        readers = users(nodes)
        for node in nodes:
            if node in self.made or node.op in ("input", "constant", "size", "index"):
                continue
            if node.op in self.rules:
                self.rules[node.op](self, node)
            elif len(readers[node]) > 1 and node.meta.ndim and node.op not in (*CHEAP, *MOVED):
                self.result(node)

    def result(self, node: Node) -> int:
        """The value of a node: a number, or an array that nothing else has."""
        if node in self.made and node.op != "input":
            return self.get(self.made[node])
        if not node.meta.ndim:
            self.made[node] = self.push(number := self.element(node, []))
            return number
        self.keep_array(node, lambda index: self.element(node, index))
        return self.get(self.made[node])

    def keep_array(self, node: Node, element: Callable[[list[int]], int]) -> None:
        slot = self.allocate(node)
        self.over(node.meta.shape, lambda slots: self.put(slot, index := self.values(slots), element(index)))
        self.made[node] = slot

    def allocate(self, node: Node) -> int:
        self.note_arrays(node.meta.shape)
        kind = KINDS.get(node.dtype)
        if kind not in ELEMENTS:
            raise Unsupported(f"an array of {node.dtype}")
        made = indexing.empty(self.b, [self.size(n) for n in node.meta.shape], False, kind)
        self.b.fresh.add(made.value)
        return self.push(made.value)

    def values(self, slots: Sequence[int]) -> list[int]:
        return [self.get(slot) for slot in slots]

    def put(self, slot: int, index: Sequence[int], value: int) -> None:
        array = self.get(slot)
        kind = self.b.type(array)
        assert isinstance(kind, Memref), kind
        self.memo.clear()
        self.b.emit(Store(array, list(index), as_kind(self.b, value, kind.element), self.b.at))

    # --- elements

    def element(self, node: Node, index: Index) -> int:
        key = node, tuple(index)
        if key not in self.memo:
            self.memo[key] = self.computed(node, index)
        return self.memo[key]

    def computed(self, node: Node, index: Index) -> int:
        b = self.b
        if node in self.made:
            value = self.get(self.made[node])
            return read(b, value, index) if isinstance(b.type(value), Memref) else value
        match node.op:
            case "constant":
                return constant(b, node.params["value"])
            case "size":
                return b.let("to_i64", self.size(node.params["value"]))
            case "index":
                return b.let("to_i64", index[node.params["axis"]])
            case "alias" if node.params["name"] is not None:
                return self.element(node.inputs[0], index)
            case "laid_out":
                return self.element(node.inputs[0], index)
            case "permute":
                axes = node.params["axes"]
                return self.element(node.inputs[0], [index[axes.index(k)] for k in range(len(axes))])
            case "broadcast_to":
                return self.element(node.inputs[0], self.broadcast(node, index))
            case "slice":
                return self.element(node.inputs[0], self.sliced(node.params["start"], node.params["step"], index))
            case "reshape":
                return self.element(node.inputs[0], self.reshaped(node.inputs[0].meta.shape, node.meta.shape, index))
        return self.scalar(node, [self.element(x, index) for x in node.inputs])

    def broadcast(self, node: Node, index: Index) -> list[int]:
        (x,) = node.inputs
        behind = index[len(index) - x.meta.ndim :]
        wanted = node.meta.shape[len(index) - x.meta.ndim :]
        return [
            k if same(n, m) or not self.is_one(n) else self.b.constant(0)
            for k, n, m in zip(behind, x.meta.shape, wanted, strict=True)
        ]

    def is_one(self, n: Size) -> bool:
        return n == 1 if isinstance(n, int) else self.env.answer(n, "==", 1)

    def sliced(self, start: Sequence[Size], step: Sequence[int], index: Index) -> list[int]:
        return [self.along(a, s, k) for a, s, k in zip(start, step, index, strict=True)]

    def along(self, start: Size, step: int, k: int) -> int:
        b = self.b
        if step == 1 and same(start, 0):
            return k
        moved = k if step in (1, -1) else b.let("multiply", k, b.constant(step))
        return b.let("subtract" if step == -1 else "add", self.size(start), moved)

    def reshaped(self, before: Sequence[Size], after: Sequence[Size], index: Index) -> list[int]:
        """The index into an array of the shape `before` of an element of one of the shape `after`."""
        b = self.b
        kept = [(n, k) for n, k in zip(after, index, strict=True) if not same(n, 1)]
        wanted = [n for n in before if not same(n, 1)]
        if len(kept) == len(wanted) and all(same(n, m) for (n, _), m in zip(kept, wanted)):
            rest = iter(kept)
            return [b.constant(0) if same(n, 1) else next(rest)[1] for n in before]
        place = b.constant(0)
        for n, k in zip(after, index, strict=True):
            place = b.let("add", b.let("multiply", place, self.size(n)), k)
        made = []
        for n in reversed(before[1:]):
            size = self.size(n)
            made.append(b.let("remainder", place, size))
            place = b.let("floor_divide", place, size)
        return [place, *reversed(made)] if before else []

    def scalar(self, node: Node, args: list[int]) -> int:
        b = self.b
        kinds = [numbers.kind_of(b, arg) for arg in args]
        if KINDS.get(node.dtype) not in ELEMENTS:
            raise Unsupported(f"elements of {node.dtype}")
        match node.op, args:
            case "cast", [x]:
                return converted(b, x, node.dtype)
            case "where", [condition, one, other]:
                kind = KINDS[node.dtype]
                return b.let("choose", condition, as_kind(b, one, kind), as_kind(b, other, kind))
            case "isnan", [x]:
                return b.let("not_equal", x, x)
            case "isfinite", [x]:
                return b.let("is_finite", x)
            case "logical_not" | "invert", [x] if kinds[0] in TRUTHS:
                return b.let("logical_not", x)
            case "logical_and" | "bitwise_and", [_, _] if set(kinds) <= set(TRUTHS):
                return b.let("logical_and", *args)
            case "logical_or" | "bitwise_or", [x, y] if set(kinds) <= set(TRUTHS):
                return b.let("logical_not", b.let("logical_and", b.let("logical_not", x), b.let("logical_not", y)))
        if any(kind in numbers.WORDS for kind in kinds):
            return of_integers(b, node.op, args)
        if node.op in COMPARED and Kind.F64 in kinds:
            return b.let(node.op, *(numbers.as_f64(b, arg) for arg in args))
        if node.op == "power" and b.is_exact:
            raise Unsupported("powers of elements, which NumPy rounds in another way")
        if node.op not in ROWS or any(kind not in numbers.DOUBLES for kind in kinds):
            raise Unsupported(f"{node.op} of elements of {', '.join(kind.value for kind in kinds)}")
        return b.let(node.op, *(numbers.as_f64(b, arg) for arg in args))

    # --- effects

    def store(self, slot: int, node: Node, before: Node, graph: GraphBuilder) -> None:
        """Make `node` the contents of the array in a slot, which were `before`."""
        if node.op == "slice_update" and node.inputs[0] is before:
            value = expanded(graph.finish([node.inputs[1]])).outputs[0]
            start, step, sizes = node.params["start"], node.params["step"], value.meta.shape
        else:
            value = expanded(graph.finish([node])).outputs[0]
            start, step, sizes = (0,) * node.meta.ndim, (1,) * node.meta.ndim, node.meta.shape
        self.slots_of(graph.finish([value]))
        if reads(value, self.own - {before}):
            self.result(value)  # what is stored to may be what it reads
        self.over(
            sizes,
            lambda slots: self.put(slot, self.sliced(start, step, self.values(slots)), self.element(value, self.values(slots))),
        )


def reads(node: Node, own: set[Node]) -> bool:
    """Does it read an array, but for those that are its own?"""
    if node.op == "input":
        return bool(node.meta.ndim) and node not in own
    return any(reads(x, own) for x in node.inputs)
