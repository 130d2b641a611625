"""A graph as loops over elements: each op gives one element for an index; what is read again and again gets memory.

The loops are structured, in the middle of a block: Python goes on in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from npcompile.tensor_core.dim import Call as SizeCall
from npcompile.tensor_core.dim import Dim, ShapeEnv, Size, same
from npcompile.tensor_core.graph import Builder as GraphBuilder
from npcompile.tensor_core.graph import Graph, Node, users
from npcompile.tensor_core.loop_ir.ops import For, LoopKind, Store, Yield
from npcompile.tensor_core.loop_ir.rows import ROWS
from npcompile.tensor_core.loop_ir.types import INT, KINDS, TRUTHS, Kind, Memref
from npcompile.tensor_core.transforms.decompose import expanded
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.loop_ir import indexing, numbers
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.elements import COMPARED, as_kind, constant, converted, of_integers, read

Index = Sequence[int]
Body: TypeAlias = "Callable[[list[int], list[int]], Sequence[int]]"  # of an index and what is handed on: what goes to the next
CHEAP = ("add", "subtract", "multiply", "negative", "cast", "where", "absolute", "maximum", "minimum")
MOVED = ("permute", "reshape", "broadcast_to", "slice", "alias", "laid_out")
Rule: TypeAlias = "Callable[[Loops, Node], None]"  # gives a node memory, or a value
ELEMENTS = (Kind.F64, Kind.I64, Kind.B1)  # of what statements about arrays make


@dataclass(slots=True)
class Loops:
    b: Builder
    env: ShapeEnv
    rules: Mapping[str, Rule]  # of ops that need loops of their own
    made: dict[Node, int] = field(default_factory=dict)  # nodes that are values
    sizes: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # symbol -> a value, and axis if it is an array
    memo: dict[tuple[Node, tuple[int, ...]], int] = field(default_factory=dict)  # elements that the region has
    own: set[Node] = field(default_factory=set)  # arrays that nothing else shows
    computed_sizes: dict[Size, int] = field(default_factory=dict)  # outside of loops

    def size(self, size: Size) -> int:
        """The value of a size."""
        if size in self.computed_sizes:
            return self.computed_sizes[size]
        found = self.sum_of(size)
        if self.b.region is None:
            self.computed_sizes[size] = found
        return found

    def sum_of(self, size: Size) -> int:
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
        value, axis = self.sizes[name]
        return value if axis is None else indexing.size(self.b, value, axis)

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

    def over(self, sizes: Sequence[Size], body: Body, first: Sequence[int] = ()) -> list[int]:
        """Run `body` for all indices below `sizes`. It takes an index and what the iteration before has handed on, which are the
        numbers `first` at first, and gives what goes to the next. The last ones."""
        return nested(self.b, [self.size(size) for size in sizes], self.alone(body), first)

    def alone(self, body: Body) -> Body:
        """Elements that were computed in a loop are not there outside, nor after it has stored."""

        def run(index: list[int], handed: list[int]) -> Sequence[int]:
            self.memo.clear()
            found = body(index, handed)
            self.memo.clear()
            return found

        return run

    def is_repeated(self) -> bool:
        """Is the statement in a loop of the user's, or in a function that one calls?"""
        return any(f.index in loop_region(f.facts, header) for f in self.b.frame.chain() for header in f.facts.loop_headers)

    def note_arrays(self, sizes: Sequence[Size]) -> None:
        if any(isinstance(size, Dim) for size in sizes) and self.is_repeated():
            self.b.has_arrays = True
            *_, own = self.b.frame.chain()
            self.b.array_loops |= {h for h in own.facts.loop_headers if own.index in loop_region(own.facts, h)}

    # --- memory

    def prepare(self, graph: Graph) -> None:
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
            return self.made[node]
        if not node.meta.ndim:
            self.made[node] = self.element(node, [])
        else:
            self.keep_array(node, lambda index: self.element(node, index))
        return self.made[node]

    def keep_array(self, node: Node, element: Callable[[list[int]], int]) -> None:
        array = self.allocate(node)
        self.fill(array, node.meta.shape, lambda index: (index, element(index)))
        self.made[node] = array

    def fill(self, array: int, sizes: Sequence[Size], element: Callable[[list[int]], tuple[Sequence[int], int]]) -> None:
        """Store to an array, for each index below `sizes`, a number at the place that goes with it."""

        def body(index: list[int], handed: list[int]) -> Sequence[int]:
            place, value = element(index)
            self.put(array, place, value)
            return ()

        self.over(sizes, body)

    def allocate(self, node: Node) -> int:
        self.note_arrays(node.meta.shape)
        kind = KINDS.get(node.dtype)
        if kind not in ELEMENTS:
            raise Unsupported(f"an array of {node.dtype}")
        made = indexing.empty(self.b, [self.size(n) for n in node.meta.shape], False, kind)
        self.b.fresh.add(made.value)
        return made.value

    def put(self, array: int, index: Sequence[int], value: int) -> None:
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
            value = self.made[node]
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
        if node.op == "power" and b.has_numpys_bits:
            raise Unsupported("powers of elements, which NumPy rounds in another way")
        if node.op not in ROWS or any(kind not in numbers.DOUBLES for kind in kinds):
            raise Unsupported(f"{node.op} of elements of {', '.join(kind.value for kind in kinds)}")
        return b.let(node.op, *(numbers.as_f64(b, arg) for arg in args))

    # --- effects

    def update(self, array: int, node: Node, before: Node, graph: GraphBuilder) -> Update:
        """What makes `node` the contents of the array, which were `before`. What the array may be read for is computed."""
        if node.op == "slice_update" and node.inputs[0] is before:
            value = expanded(graph.finish([node.inputs[1]])).outputs[0]
            start, step, sizes = node.params["start"], node.params["step"], value.meta.shape
        else:
            value = expanded(graph.finish([node])).outputs[0]
            start, step, sizes = (0,) * node.meta.ndim, (1,) * node.meta.ndim, node.meta.shape
        self.prepare(graph.finish([value]))
        if reads(value, self.own - {before} if self.b.aborts else set()):
            self.result(value)  # what is stored to may be what it reads
        for each in (*sizes, *start):
            self.size(each)  # what may be left for is before the first store
        return Update(array, value, start, step, sizes)

    def store(self, update: Update) -> None:
        value, start, step = update.value, update.start, update.step
        self.fill(update.array, update.sizes, lambda index: (self.sliced(start, step, index), self.element(value, index)))


@dataclass(frozen=True, slots=True)
class Update:
    """Elements of an array from `start` on, with a step, that become those of a node."""

    array: int
    value: Node
    start: Sequence[Size]
    step: Sequence[int]
    sizes: Sequence[Size]


def nested(b: Builder, sizes: Sequence[int], body: Body, first: Sequence[int] = (), outer: Sequence[int] = ()) -> list[int]:
    """Loops in each other, for all indices below `sizes`. See Loops.over."""
    if len(outer) == len(sizes):
        return list(body(list(outer), list(first)))
    index, zero = b.new(INT), b.constant(0)
    args, results = ([b.program.copy(value) for value in first] for _ in range(2))
    with b.inside() as region:
        if b.aborts:
            b.poll()
        b.emit(Yield(nested(b, sizes, body, args, [*outer, index]), b.at))
    b.emit(For(LoopKind.SERIAL, index, zero, sizes[len(outer)], args, list(first), region, results, b.at))
    return results


def reads(node: Node, own: set[Node]) -> bool:
    """Does it read an array, but for those that are its own?"""
    if node.op == "input":
        return bool(node.meta.ndim) and node not in own
    return any(reads(x, own) for x in node.inputs)
