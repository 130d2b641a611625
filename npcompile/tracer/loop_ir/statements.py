"""Statements about arrays: numpy_shim says which graph they are, and that becomes loops over elements.

In a program that aborts each statement is computed where it stands. Where execution can be resumed, an array that an operator
makes waits (`Pending`) for the operators around it: one nest of loops computes an expression. It is computed before the next
effect, which Python must not do again, and before the block ends; until then execution is left at the frame before all of it.
Then what an effect stores is computed, in memory of its own where it reads any, before anything is stored.

Sizes are symbols of the graph and values of the program. What the shim asks of them is answered as it is for the first call's
arrays, and where that is not known for the general case; the answer becomes a Check before the statement.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from npcompile import numpy_shim  # noqa: F401  (fills its tables)
from npcompile.numpy_shim import operators
from npcompile.numpy_shim.indexing import getitem, setitem
from npcompile.numpy_shim.registry import ATTRIBUTES, FUNCTIONS, METHODS
from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex, Step, Storage, basic_index, fresh, transpose
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dim import Dim, ShapeEnv, Size, same
from npcompile.tensor_core.graph import Builder as GraphBuilder
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.guards import Guard
from npcompile.tensor_core.loop_ir.types import DTYPES, I64, INT, NUMPYS, Memref, Scalar
from npcompile.tensor_core.meta import TensorMeta, contiguous_strides
from npcompile.tensor_core.transforms.decompose import expanded
from npcompile.tracer.loop_ir import indexing
from npcompile.tracer.loop_ir.abstract import (
    Abstract,
    Along,
    Known,
    Method,
    Pending,
    Seen,
    Slice,
    Tuple,
    Unsupported,
    Value,
    in_words,
)
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.element_loops import Loops
from npcompile.tracer.loop_ir.graph_rules import RULES

OF_ONES = ("squeeze", np.squeeze)  # what axes there are depends on which sizes are 1, and no Check asks for that
WHOLE = Slice(None, None)
UNKNOWN_SIZE, UNKNOWN_INTEGER = 1000, 2  # hints of those of which nothing is known: integers often are indices


@dataclass
class Sizes(ShapeEnv):
    """The sizes of one statement, and what was asked of them."""

    guessed: set[str] = field(default_factory=set)  # symbols without a known hint
    asked: list[tuple[Size, str, Size]] = field(default_factory=list)

    def answer(self, a: Size, relation: str, b: Size) -> bool:
        """Of sizes that are not known that they are equal, unless it is asked whether one is 0 or 1."""
        names = {name for size in (a, b) if isinstance(size, Dim) for name in size.symbols()}
        if relation == "==" and names & self.guessed:
            return not asks_for_one(a, b) and not any(isinstance(size, int) and size == 0 for size in (a, b))
        return super().answer(a, relation, b)

    def assume_sizes(self, a: Size, relation: str, b: Size) -> None:
        # Whether an axis repeats: where it has the size of the others, as is asked besides, 1 is a size as any other.
        if relation != "!=" or not asks_for_one(a, b):
            self.asked.append((a, relation, b))

    def assume(self, guard: Guard) -> NoReturn:
        raise Decline("a number that the program finds out is needed as a constant")


def asks_for_one(a: Size, b: Size) -> bool:
    """Is `a == b` the question whether a size is 1, or a stride that of an axis of size 1?"""
    difference = a - b
    if not isinstance(difference, Dim) or len(difference.terms) != 2:
        return False
    (one, factor), (other, constant) = difference.terms
    return factor == -constant and () in (one, other)


@dataclass(slots=True)
class Statement:
    """One, while it is made."""

    b: Builder
    env: Sizes = field(default_factory=Sizes)
    graph: GraphBuilder = field(init=False)
    loops: Loops = field(init=False)
    storages: dict[int, Node] = field(default_factory=dict)  # arrays of the program, by value where the statement begins
    given: list[tuple[Array, Node]] = field(default_factory=list)
    results: dict[int, Value] = field(default_factory=dict)  # by id of arrays that were pending

    def __post_init__(self) -> None:
        self.graph = GraphBuilder(env=self.env)
        self.loops = Loops(self.b, self.env, RULES)

    # --- from the program to the shim

    def lifted(self, x: Abstract) -> Any:
        """What the shim takes for an object."""
        b = self.b
        match x:
            case Value(value) if isinstance(kind := b.type(value), Memref):
                return self.array(value, kind)
            case Value(value) if value in b.constants:
                return b.constants[value]
            case Value(value) if b.type(value) == INT:
                return self.symbol(value)
            case Value(value) if isinstance(kind := b.type(value), Scalar):
                return self.number(value, kind)
            case Seen(array):
                return self.shown(x, array)
            case Pending(waiting):
                return waiting
            case Tuple(items, is_list):
                return (list if is_list else tuple)(map(self.lifted, items))
            case Slice(start, stop, step):
                return slice(start and self.lifted(start), stop and self.lifted(stop), step)
            case Known(named):
                return named
        raise Unsupported(f"a statement about arrays and {in_words(x, b.program.types)}")

    def array(self, value: int, kind: Memref) -> Array:
        if value not in self.storages:
            if self.b.has_numpys_bits and kind.rank > 1 and not self.is_in_order(value):
                raise Unsupported("an array whose order in memory may not be C's")
            shape = tuple(self.size(value, axis) for axis in range(kind.rank))
            node = self.storages[value] = self.graph.input(TensorMeta(shape, DTYPES[kind.element]))
            self.loops.made[node] = value
            if value in self.b.fresh:
                self.loops.own.add(node)
        node = self.storages[value]
        made = Array(Storage(self.graph, node, node.meta, value), (), node.meta.with_(writeable=kind.writeable))
        for known, known_node in self.given:
            if known_node is node:
                return Array(known.storage, (), made.meta)
        self.given.append((made, node))
        return made

    def is_in_order(self, value: int) -> bool:
        """Is it an array in C order, or a part of one?"""
        kind = self.b.type(value)
        assert isinstance(kind, Memref), kind
        return kind.contiguous or value in self.b.views and self.is_in_order(self.b.views[value][0])

    def size(self, array: int, axis: int) -> Size:
        known = self.b.size_hint(array, axis)
        name = f"n{array}_{axis}"
        self.loops.sizes[name] = array, axis
        return self.named(name, known, UNKNOWN_SIZE, at_least=0)

    def named(self, name: str, known: int | None, general: int, at_least: int | None = None) -> Size:
        if known is None:
            self.env.guessed.add(name)
        self.env.changing.add(name)
        return self.env.symbol(name, general if known is None else known, at_least)

    def symbol(self, value: int, general: int = UNKNOWN_INTEGER) -> Size:
        name = f"i{value}"
        if name not in self.env.hints:
            self.loops.sizes[name] = value, None
        return self.named(name, self.b.hints.get(value), general)

    def number(self, value: int, kind: Scalar) -> Array:
        node = self.graph.input(TensorMeta((), DTYPES[NUMPYS.get(kind.kind, kind.kind)], boxed=False))
        self.loops.made[node] = value
        return fresh(self.graph, node, boxed=False)

    def shown(self, x: Seen, array: int) -> Array:
        kind = self.b.type(array)
        assert isinstance(kind, Memref), kind
        base = self.array(array, kind)
        starts = [self.symbol(start) for start in x.starts]
        lengths = iter(self.symbol(length, UNKNOWN_SIZE) for length in x.lengths)
        along = [each for each in x.axes if each is not None]
        cut: list[Size | AxisSlice] = list(starts)
        for each in along:
            length = next(lengths)
            if isinstance(length, Dim):
                self.env.learn(length)
            cut[each.axis] = AxisSlice(starts[each.axis], each.step, length)
        result = basic_index(base, BasicIndex(tuple(cut)))
        kept = sorted(each.axis for each in along)
        result = transpose(result, [kept.index(each.axis) for each in along])
        whole = tuple(AxisSlice(0, 1, n) for n in result.shape)
        return basic_index(result, BasicIndex(whole, tuple(k for k, each in enumerate(x.axes) if each is None)))

    # --- from the shim to the program

    def checks(self) -> None:
        """What was assumed of sizes."""
        b = self.b
        for left, relation, right in self.env.asked:
            one, other = self.loops.size(left), self.loops.size(right)
            row = {"==": "equal", "!=": "not_equal", "<": "less", ">=": "greater_equal"}[relation]
            b.check(b.let(row, one, other))
        self.env.asked.clear()

    def lowered(self, found: Any) -> Abstract:
        """What the program has for what the shim gave."""
        match found:
            case Array() if found.meta.boxed and self.owner(found) is not None and found.ndim:
                return self.view(found)
            case Array() if found.meta.boxed and not found.ndim:
                raise Unsupported("an array without axes")
            case Array() if found.ndim and not self.b.aborts:
                return Pending(found)
            case Array():
                self.require_order(found)
                return self.computed(found.node)
            case Dim():
                return Value(self.loops.size(found))
            case bool() | int() | float() if not isinstance(found, np.generic):
                return Value(self.b.constant(found))
            case tuple() | list():
                return Tuple(tuple(map(self.lowered, found)), type(found) is list)
            case None | str() | np.dtype():
                return Known(found)
        raise Unsupported(f"a statement about arrays that gives {type(found).__name__}")

    def require_order(self, x: Array) -> None:
        """The arrays that a program makes are in C's order, NumPy's often in that of operands."""
        strides = contiguous_strides(x.shape, x.dtype.itemsize)
        if self.b.has_numpys_bits and x.ndim > 1 and not all(map(same, strides, x.meta.strides)):
            raise Unsupported("an array whose order in memory is not C's")

    def owner(self, x: Array) -> int | None:
        """The array of the program whose memory this is."""
        found: int | None = x.storage.source
        return found

    def computed(self, node: Node) -> Abstract:
        graph = expanded(self.graph.finish([node]))
        self.loops.prepare(graph)
        result = self.loops.result(graph.outputs[0])
        if graph.outputs[0].meta.ndim:
            self.b.fresh.add(result)
        return Value(result)

    def view(self, x: Array) -> Abstract:
        """Part of an array of the program's: its memory, not a copy."""
        array = self.owner(x)
        assert array is not None
        node = self.storages[array]
        starts: list[Size] = [0] * node.meta.ndim
        axes: list[tuple[Along, Size] | None] = [(Along(k, 1), n) for k, n in enumerate(node.meta.shape)]
        for step in x.steps:
            axes = self.through(step, starts, axes)
        found = self.loops.made[node]
        along = [each[0] for each in axes if each is not None]
        first = [self.loops.size(start) for start in starts]
        lengths = [self.loops.size(each[1]) for each in axes if each is not None]
        is_plain = all(each is not None for each in axes) and all(each.step == 1 for each in along)
        if not is_plain or [each.axis for each in along] != sorted(each.axis for each in along):
            return Seen(found, tuple(first), tuple(None if each is None else each[0] for each in axes), tuple(lengths))
        if not x.steps:
            return Value(found)
        kind = self.b.type(found)
        assert isinstance(kind, Memref), kind
        return indexing.part(self.b, found, kind, first, [k in [each.axis for each in along] for k in range(kind.rank)], lengths)

    def through(self, step: Step, starts: list[Size], axes: list[tuple[Along, Size] | None]) -> list[tuple[Along, Size] | None]:
        match step.kind, step.param:
            case "permute", order:
                return [axes[k] for k in order]
            case "index", BasicIndex(cuts, new):
                made: list[tuple[Along, Size] | None] = []
                for cut, each in zip(cuts, axes, strict=True):
                    first = cut.start if isinstance(cut, AxisSlice) else cut
                    if each is not None:
                        starts[each[0].axis] = starts[each[0].axis] + each[0].step * first
                    if isinstance(cut, AxisSlice):
                        made.append(None if each is None else (Along(each[0].axis, each[0].step * cut.step), cut.length))
                for place in new:
                    made.insert(place, None)
                return made
            case "reshape", shape if (found := with_new_axes(axes, shape)) is not None:
                return found
        raise Unsupported("a view that is not part of an array along its axes")

    # --- effects

    @property
    def writes(self) -> bool:
        return any(x.storage.node is not node for x, node in self.given)

    def write(self) -> None:
        """Store what the statement has changed."""
        changed = [(self.loops.made[node], x.storage.node, node) for x, node in self.given if x.storage.node is not node]
        updates = [self.loops.update(array, now, before, self.graph) for array, now, before in changed]
        self.checks()
        if updates:
            self.b.statement = None
            self.b.flush()
        for update in updates:
            self.loops.store(update)

    # --- arrays that wait

    def compute_all(self) -> None:
        """Those on the stack."""
        stack = self.b.frame.stack
        stack[:] = [self.computed_parts(x) for x in stack]

    def computed_parts(self, x: Abstract) -> Abstract:
        match x:
            case Pending(array):
                if id(array) not in self.results:
                    self.require_order(array)
                    found = self.computed(array.node)
                    assert isinstance(found, Value), found
                    self.results[id(array)] = found
                return self.results[id(array)]
            case Method(receiver, name):
                return Method(self.computed_parts(receiver), name)  # type: ignore[arg-type]
            case Tuple(items):
                return replace(x, items=tuple(map(self.computed_parts, items)))
        return x


def with_new_axes(axes: Sequence[tuple[Along, Size] | None], shape: Sequence[Size]) -> list[tuple[Along, Size] | None] | None:
    """The same axes with others of size 1 between them, or without some, if that is all that a reshape does."""
    kept = [each for each in axes if each is not None and not is_one(each[1])]
    if sum(not is_one(n) for n in shape) != len(kept):
        return None
    rest = iter(kept)
    made = [None if is_one(n) else next(rest) for n in shape]
    fits = all(each is None or isinstance(n, Dim) and n.is_identical(each[1]) or n is each[1] or n == each[1]
               for each, n in zip(made, shape))  # fmt: skip
    return made if fits else None


def is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def perform(b: Builder, call: Callable[..., Any], args: Sequence[Abstract], keywords: dict[str, Abstract]) -> Abstract:
    """The result of a captured form, whose effects are the program's."""
    if not b.with_statements:
        raise Unsupported("a statement about whole arrays")
    statement = b.statement if isinstance(b.statement, Statement) else Statement(b)
    if not b.aborts:
        b.statement = statement
    try:
        positional, named = [statement.lifted(x) for x in args], {name: statement.lifted(x) for name, x in keywords.items()}
        require_arguments(call, positional, named)
        found = call(statement.graph, *positional, **named)
        statement.checks()
        if not statement.writes:
            result = statement.lowered(found)
            statement.checks()
            return result
        if not b.aborts:
            statement.compute_all()
        result = statement.lowered(found)
        statement.write()
        if not b.aborts:
            if call is not setitem:
                b.frame.stack[-1] = result
            b.begin_point(b.frame.index + 1)
        return result
    except Decline as error:
        raise Unsupported(str(error)) from None
    except (TypeError, ValueError, IndexError) as error:  # a form raises what NumPy does
        raise Unsupported(f"NumPy raises {type(error).__name__}: {error}") from None


def require_arguments(call: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any]) -> None:
    """A form takes the graph and NumPy's arguments, or fewer; of others it is not known what NumPy says."""
    try:
        inspect.signature(call).bind(None, *positional, **named)
    except TypeError as error:
        raise Unsupported(str(error)) from None


# --- what statements there are


def is_about_arrays(b: Builder, *parts: Abstract) -> bool:
    """Is one of these an array, or a tuple or list with one?"""
    for x in parts:
        match x:
            case Seen() | Pending():
                return True
            case Value(value) if isinstance(b.type(value), Memref):
                return True
            case Tuple(items) if is_about_arrays(b, *items):
                return True
    return False


def binary(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    table = operators.INPLACE if symbol in operators.INPLACE and is_about_arrays(b, left) else operators.BINARY
    return perform(b, form(table, symbol if table is operators.INPLACE else symbol.removesuffix("=")), [left, right], {})


def form(table: Any, name: Any) -> Callable[..., Any]:
    found: Callable[..., Any] | None = table.get(name)
    if found is None or name in OF_ONES:
        raise Unsupported(f"{getattr(name, '__name__', name)} of arrays")
    return found


def compare(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    return perform(b, form(operators.COMPARE, symbol), [left, right], {})


def unary(b: Builder, symbol: str, x: Abstract) -> Abstract:
    return perform(b, form(operators.UNARY, symbol), [x], {})


def function(b: Builder, named: Any, args: Sequence[Abstract], keywords: dict[str, Abstract]) -> Abstract:
    return perform(b, form(FUNCTIONS, named), args, keywords)


def method(b: Builder, x: Abstract, name: str, args: Sequence[Abstract], keywords: dict[str, Abstract]) -> Abstract:
    return perform(b, form(METHODS, name), [x, *args], keywords)


def attribute(b: Builder, x: Abstract, name: str) -> Abstract:
    return perform(b, form(ATTRIBUTES, name), [x], {})


def item(b: Builder, x: Abstract, key: Abstract) -> Abstract:
    x, rest = without_integers(b, x, key)
    return perform(b, getitem, [x, rest], {})


def set_item(b: Builder, x: Abstract, key: Abstract, value: Abstract) -> None:
    x, rest = without_integers(b, x, key)
    perform(b, setitem, [x, rest, value], {})


def is_own_view(b: Builder, x: Abstract, keys: Sequence[Abstract], value: Abstract) -> bool:
    """Is the value the view `x[keys]` itself?"""
    if not isinstance(x, Value) or not isinstance(value, Value) or value.value not in b.views:
        return False
    array, its_keys = b.views[value.value]
    kind = b.type(array)
    if not isinstance(kind, Memref) or not kind.writeable:
        return False
    return array == x.value and tuple(its_keys[: len(keys)]) == tuple(keys) and all(key == WHOLE for key in its_keys[len(keys) :])


def without_integers(b: Builder, x: Abstract, key: Abstract) -> tuple[Abstract, Abstract]:
    """The part of an array that integers and slices choose, and the rest of the key: the shim's questions about integers were
    answered for this call alone."""
    parts = indexing.parts_of(key)
    if not isinstance(x, Value) or not all(is_basic(b, part) for part in parts):
        return x, key
    kind = b.type(x.value)
    assert isinstance(kind, Memref), kind
    chosen = [part for part in parts if part != Known(None)]
    if len(chosen) > kind.rank or all(isinstance(part, Value) for part in chosen) and len(chosen) == kind.rank:
        return x, key
    keys = [WHOLE if isinstance(part, Slice) and part.step != 1 else part for part in chosen]
    view = indexing.view(b, x.value, kind, indexing.all_axes(keys, kind))
    rest = [WHOLE if isinstance(part, Slice) and part.step == 1 else part for part in parts if not isinstance(part, Value)]
    return view, Tuple(tuple(rest))


def is_basic(b: Builder, part: Abstract) -> bool:
    return isinstance(part, Slice) or part == Known(None) or isinstance(part, Value) and b.type(part.value) in (INT, I64)


def is_plain(b: Builder, x: Abstract, key: Abstract) -> bool:
    """Are there integers, and slices with step 1, for an array of the program's?"""
    parts = indexing.parts_of(key)
    return isinstance(x, Value) and all(
        isinstance(part, Slice) and part.step == 1 or isinstance(part, Value) and b.type(part.value) in (INT, I64)
        for part in parts
    )
