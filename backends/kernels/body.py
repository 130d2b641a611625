"""The body of a kernel, being written: each value computed once, in the outermost loop where its indices are known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.kernels.index import Index, axis_variable, computed_index, rejoin, source_index, symbols_in
from npcompile.backends.kernels.kernel import CheckIndex, Let, Load, Loop, Position, Statement, Store, Value
from npcompile.backends.kernels.regions import bounds
from npcompile.backends.kernels.schedule import MOVEMENT, Buffer, Schedule, concatenated, index_key
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.graph import Location, Node
from npcompile.tensor_core.keys import freeze
from npcompile.tensor_core.meta import contiguous_strides
from npcompile.tensor_core.value_ranges import is_inside

INT64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)


@dataclass(slots=True)
class Scope:
    """The body of one loop, being written."""

    axis: str
    statements: list[Statement] = field(default_factory=list)
    values: dict[tuple, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Lowering:
    schedule: Schedule
    name: str
    scopes: list[Scope] = field(default_factory=lambda: [Scope("")])
    ranges: dict[str, Size] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)  # of values and axes: the scope where they are known
    literals: dict[tuple, Buffer] = field(default_factory=dict)
    made: int = 0
    places: dict[str, Location] = field(default_factory=dict)  # of values: the user's line

    # --- scopes and statements

    @contextmanager
    def loop(self, axis: str, size: Size, *, is_parallel: bool = False) -> Iterator[None]:
        self.scopes.append(Scope(axis))
        self.depths[axis] = len(self.scopes) - 1
        self.ranges[axis] = size
        yield
        scope = self.scopes.pop()
        self.scopes[-1].statements.append(Loop(axis, size, scope.statements, is_parallel))

    @contextmanager
    def block(self, wrap) -> Iterator[None]:  # type: ignore[no-untyped-def]
        """A scope without an axis; `wrap(statements)` makes its statement."""
        self.scopes.append(Scope(""))
        yield
        scope = self.scopes.pop()
        self.scopes[-1].statements.append(wrap(scope.statements))

    def fresh(self, dtype: np.dtype) -> Value:
        self.made += 1
        return Value(f"t{self.made}", dtype)

    def depth_of(self, *uses: Value | Size | None) -> int:
        depth = 0
        for use in uses:
            names = [use.name] if isinstance(use, Value) else symbols_in(use) if isinstance(use, Dim) else ()
            depth = max([depth, *(self.depths.get(n, 0) for n in names)])
        return depth

    def emit(self, statement: Statement, target: Value, *uses: Value | Size | None) -> Value:
        depth = self.depth_of(*uses)
        self.depths[target.name] = depth
        self.scopes[depth].statements.append(statement)
        return target

    def let(self, dtype: np.dtype, op: str, /, *args: Value, **params: object) -> Value:
        target = self.fresh(dtype)
        return self.emit(Let(target, op, args, tuple(params.items())), target, *args)

    def position(self, index: Size) -> Value:
        target = self.fresh(INT64)
        return self.emit(Position(target, index), target, index)

    # --- values

    def remember(self, node: Node, index: Index, value: Value, mask: Value | None = None) -> Value:
        self.scopes[self.depths[value.name]].values[self.key(node, index, mask)] = value
        if node.location is not None:
            self.places.setdefault(value.name, node.location)
        return value

    def key(self, node: Node, index: Index, mask: Value | None) -> tuple:
        return node, index_key(index), mask.name if mask else None

    def value(self, node: Node, index: Index, mask: Value | None = None) -> Value:
        """The element `index` of a node: from a register, from memory, or computed."""
        for key in {self.key(node, index, mask): 0, self.key(node, index, None): 0}:
            for scope in reversed(self.scopes):
                if key in scope.values:
                    return scope.values[key]
        if node in self.schedule.memory:
            return self.remember(node, index, self.load(self.schedule.memory[node], index, mask), mask)
        return self.remember(node, index, self.compute(node, index, mask), mask)

    def compute(self, node: Node, index: Index, mask: Value | None = None) -> Value:
        op, params = node.op, node.params
        if op in MOVEMENT:
            return self.value(node.inputs[0], source_index(node, index, self.ranges), mask)
        match op:
            case "input":
                if node in self.schedule.memory:
                    return self.load(self.schedule.memory[node], index, mask)
                target = Value(f"x{params['index']}", node.dtype)
                self.depths[target.name] = 0
                return target
            case "constant":
                return self.let(node.dtype, "constant", value=params["value"])
            case "size":
                return self.position(params["value"])
            case "index":
                return self.position(index[params["axis"]])
            case "literal":
                return self.load(self.literal(node), index, mask)
            case "concatenate":
                return self.joined(node, index, mask)
            case "gather":
                return self.gathered(node, index, mask)
        args = [self.value(x, index, mask) for x in node.inputs]
        return self.let(node.dtype, op, *args, **params)

    def load(self, buffer: Buffer, index: Index, mask: Value | None) -> Value:
        offset = self.offset(buffer, index)
        target = self.fresh(buffer.dtype)
        unmoved = [n for n, i, s in zip(buffer.shape, index, buffer.strides) if not isinstance(i * s, Dim)]
        mask = self.both(mask, self.has_elements(unmoved))
        return self.emit(Load(target, buffer.name, offset, mask), target, offset, mask)

    def load_here(self, buffer: Buffer, index: Index) -> Value:
        """What is in memory in this iteration, also where the place is the same in all: they change it."""
        target = self.fresh(buffer.dtype)
        self.depths[target.name] = len(self.scopes) - 1
        self.scopes[-1].statements.append(Load(target, buffer.name, self.offset(buffer, index), None))
        return target

    def offset(self, buffer: Buffer, index: Index) -> Size:
        total: Size = 0
        for i, s in zip(index, buffer.strides, strict=True):
            total = total + i * s
        return rejoin(total)

    def literal(self, node: Node) -> Buffer:
        key = freeze(node.params)
        if key not in self.literals:
            strides = contiguous_strides(node.shape, node.dtype.itemsize)
            digest = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
            buffer = Buffer(f"literal_{digest}", node.dtype, node.shape, strides, "literal", data=node.params["data"])
            self.literals[key] = buffer
        return self.literals[key]

    def joined(self, node: Node, index: Index, mask: Value | None) -> Value:
        """An element of a concatenation: of the parts, only the one that holds it is read."""
        axis = node.params["axis"]
        parts = list(concatenated(node, index))
        inside_of = [bounds(i[axis], self.ranges) for _, i in parts]  # where all that the loops visit is in one part
        for (x, i), found in zip(parts, inside_of):
            size = x.shape[axis]
            if found and isinstance(size, int) and found[0] >= 0 and found[1] < size:
                return self.value(x, i, mask)
        at = self.position(index[axis])
        result: Value | None = None
        end: Size = node.shape[axis]
        for x, i in reversed(parts):
            start = end - x.shape[axis]
            below = self.let(BOOL, "less", at, self.position(end)) if result is not None else None
            above = (
                self.let(BOOL, "greater_equal", at, self.position(start)) if not (isinstance(start, int) and start == 0) else None
            )
            inside = self.both(mask, self.both(below, above))
            value = self.value(x, i, inside)
            condition = self.both(below, above)
            if result is None or condition is None:
                result = value
            else:
                result = self.let(node.dtype, "where", condition, value, result)
            end = start
        assert result is not None
        return result

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        if a is None or b is None:
            return a or b
        return self.let(BOOL, "logical_and", a, b)

    def gathered(self, node: Node, index: Index, mask: Value | None) -> Value:
        x, *indices = node.inputs
        n = indices[0].meta.ndim
        mask = self.both(mask, self.has_elements(indices[0].shape))
        places = [self.place(i, index[:n], axis, x.shape[axis], mask) for axis, i in enumerate(indices)]
        return self.value(x, (*places, *index[n:]), mask)

    def place(self, indices: Node, index: Index, axis: int, size: Size, mask: Value | None) -> Size:
        """Where an element of an index is in an axis of `size`."""
        known = computed_index(indices, index, size, self.ranges)
        return axis_variable(self.checked(indices, index, axis, size, mask).name) if known is None else known

    def has_elements(self, shape: Sequence[Size]) -> Value | None:
        """A mask for what no loop moves, and so stands before loops that may be empty. None where none can be."""
        mask: Value | None = None
        for n in shape:
            low = n.env.bound(n) if isinstance(n, Dim) else n
            if low is None or low < 1:
                mask = self.both(mask, self.let(BOOL, "greater", self.position(n), self.position(0)))
        return mask

    def checked(self, indices: Node, index: Index, axis: int, size: Size, mask: Value | None) -> Value:
        value = self.value(indices, index, mask)
        target = Value(f"k{self.fresh(INT64).name[1:]}", INT64)
        self.ranges[target.name] = size
        is_sure = is_inside(self.schedule.intervals.of(indices), size)
        return self.emit(CheckIndex(target, value, axis, size, mask, is_sure), target, value, mask)

    def store(self, buffer: Buffer, index: Index, value: Value) -> Store:
        return Store(buffer.name, self.offset(buffer, index), value)


def nest(lowering: Lowering, loops: Sequence[tuple[str, Size]], body, *, is_parallel: bool = True) -> list[Statement]:  # type: ignore[no-untyped-def]
    """Write `body()` inside loops. The statements of the outermost scope that this added."""
    depth = len(lowering.scopes) - 1
    started = len(lowering.scopes[depth].statements)
    nest_here(lowering, loops, body, is_parallel)
    return lowering.scopes[depth].statements[started:]


def nest_here(lowering: Lowering, loops: Sequence[tuple[str, Size]], body, is_parallel: bool) -> None:  # type: ignore[no-untyped-def]
    if not loops:
        body()
        return
    (axis, size), *rest = loops
    with lowering.loop(axis, size, is_parallel=is_parallel):
        nest_here(lowering, rest, body, is_parallel)
