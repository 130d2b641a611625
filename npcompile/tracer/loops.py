"""Long `for` loops as nodes of the graph, where gradients go through them and on a device: the body is captured once.

The first iteration is captured as it stands, so that every variable which the body sets has a value. The others become
one `for_loop`: what the body changes (local variables, contents of arrays) are its carries. Carries are values, so variables
whose memory somebody else may see have no place in one that is written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.backends.device_arrays import array_kind
from npcompile.numpy_shim import indexing
from npcompile.tensor_core.array import Array, ClosedWrite, Storage
from npcompile.tensor_core.control import INDEX, make_for_loop
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.tensor import Tensor
from npcompile.tracer.arrays.control import arrays_of, leaf_array, rebuilt, scalar
from npcompile.tracer.arrays.trees import Tree
from npcompile.tracer.frame import BodyDeclined, Frame, Jump
from npcompile.tracer.python import operators
from npcompile.tracer.python.arithmetic import plain_number
from npcompile.tracer.values import Constant, Iterator, Lazy, TensorValue

MOST_CARRIED_ARRAYS = 32


def has_gradients(frame: Frame) -> bool:
    """May gradients go through this loop? Other long loops run as compiled functions."""
    return frame.capture.goes_through_gradients or any(type(x) is Tensor and x.requires_grad for x in waiting(frame))


def is_on_device(frame: Frame) -> bool:
    """Does the program run on a device, or will it when it comes to its arguments?"""
    arrays = (x._data if type(x) is Tensor else x for x in waiting(frame))
    return frame.capture.place is not None or any(array_kind(type(x)) is not None for x in arrays)


def waiting(frame: Frame) -> list[Any]:
    """Examples of what nobody has looked at yet."""
    return [v.example for v in frame.locals.values() if isinstance(v, Lazy)]


def may_be_node(frame: Frame, iterator: Iterator) -> bool:
    """A device runs such a loop as one kernel or one recording, and the host needs no iteration of it."""
    if not has_gradients(frame) and not is_on_device(frame):
        return False
    return iterator.kind == "range" or (iterator.kind == "array" and isinstance(iterator.parts[0], Array))


def capture_loop(frame: Frame, header: int, iterator: Iterator) -> None:
    """Run what is left of the loop whose FOR_ITER is at `header`. Declines where it does not fit into a node."""
    loop = Loop(frame, header, iterator, stored_names(frame, header))
    while True:
        try:
            loop.capture()
            return
        except BodyDeclined as declined:
            storage = declined.decline.storage if isinstance(declined.decline, ClosedWrite) else None
            if storage is not None and storage.source is None and storage.builder is not frame.capture.builder:
                raise declined.decline from None  # made outside of the body that this loop is in
            if storage is None or storage in loop.storages or len(loop.storages) >= MOST_CARRIED_ARRAYS:
                raise Decline(f"a long loop: {declined.decline.reason}", declined.decline.hint) from None
            loop.storages.append(storage)
        except Found as found:
            loop.dead |= found.dead
            loop.rebound |= found.rebound
            loop.storages.clear()  # perhaps only variables that are carried now showed them
        except TypeError as error:
            raise Decline(f"a long loop: {error}") from None


def stored_names(frame: Frame, header: int) -> list[str]:
    """Local variables that the body may set."""
    instructions = frame.program.instructions
    end = max(i.index for i in instructions if i.target == header <= i.index and i.traits.flow == "goto")
    names: dict[str, None] = {}
    for i in instructions[header + 1 : end]:
        if i.traits.writes("local"):
            names[i.argval] = None
        elif i.traits.writes("cell") or i.traits.access == "delete":
            raise Decline("a long loop that sets a variable of an inner function, or deletes one")
    return list(names)


class Found(Exception):
    """More is known of the names that the body may set: the loop is captured again."""

    def __init__(self, dead: set[str], rebound: set[str]):
        self.dead, self.rebound = dead, rebound


@dataclass(slots=True)
class Loop:
    frame: Frame
    header: int
    iterator: Iterator
    names: list[str]  # that the body may set
    dead: set[str] = field(default_factory=set)  # those that nobody reads after an iteration
    rebound: set[str] = field(default_factory=set)  # those to which it gives other values
    storages: list[Storage] = field(default_factory=list)  # of arrays from before the loop that the body writes
    present: object = None  # the item in the last run of the body

    def capture(self) -> None:
        frame, capture = self.frame, self.frame.capture
        builder = capture.builder
        before = {n: capture.realize(frame.locals[n]) for n in self.names if n in frame.locals and n not in self.dead}
        trees = {n: tree for n in before if n in self.rebound and (tree := self.carried(before[n])) is not None}
        init = [leaf_array(frame, leaf) for tree in trees.values() for leaf in tree.leaves]
        contents = [Array(Storage(builder, s.node, s.meta), (), s.meta) for s in self.storages]
        after: dict[str, Any] = {}
        inside: list[Array] = []  # what the carried variables are when the body begins
        left: list[Array] = []  # and when it ends

        def body(inner: Builder, carries: list[Node], items: list[Node]) -> tuple[list[Array], list[Array]]:
            index, *rest = carries
            inside[:] = arrays_of(inner, rest[len(self.storages) :])
            arrays = iter(inside)
            values = {n: rebuilt(t, [next(arrays) for _ in t.leaves]) for n, t in trees.items()}
            item = self.item(inner, index, items)
            found, written = self.run(inner, before | values, item, rest[: len(self.storages)])
            live = before.keys() & found.keys()
            rebound = {n for n in live if not self.stays(before[n], found[n], item)}
            if live != before.keys() or not rebound <= self.rebound:
                raise Found(before.keys() - live, rebound)
            after.clear()
            after.update(found)
            results = [scalar(inner, inner.apply("add", index, inner.constant(1, index.dtype)))]
            results += [Array(Storage(inner, n, s.meta), (), s.meta) for n, s in zip(written, self.storages)]
            left[:] = [x for name, tree in trees.items() for x in self.leaves(name, tree, found[name])]
            for name in rebound - trees.keys():
                raise Decline(f"a long loop changes {name!r}, which is not an array or number")
            return [*results, *left], []

        first = builder.apply("constant", value=0, dtype=INDEX)
        elements = [self.rest()] if self.iterator.kind == "array" else []
        last, _ = make_for_loop(builder, body, [scalar(builder, first), *contents, *init], elements, self.count())
        self.require_values(init, inside, left)
        _, *nodes = last
        for storage, node in zip(self.storages, nodes):
            storage.node = node
        arrays = iter(arrays_of(builder, nodes[len(self.storages) :]))
        for name, tree in trees.items():
            frame.locals[name] = rebuilt(tree, [next(arrays) for _ in tree.leaves])
        for name in before:
            if name not in trees:
                frame.locals[name] = self.last_item() if name in self.targets(after) else after[name]
        for name in self.dead:
            frame.locals.pop(name, None)
        frame.pop_raw()
        capture.require_no_overlap()

    def stays(self, before: Any, after: Any, item: Any) -> bool:
        return after is item or same_value(after, before)

    def require_values(self, init: Sequence[Array], inside: Sequence[Array], left: Sequence[Array]) -> None:
        """Declines where the carried variables are more than their values: memory that is seen through something else too.

        They are `init` before the loop, `inside` and `left` when an iteration begins and ends.
        """
        boxed = [k for k, x in enumerate(inside) if x.meta.boxed]
        entered, ended = [init[k].storage for k in boxed], [left[k].storage for k in boxed]
        is_apart = not any(s is w for s in (*entered, *ended) for w in self.storages)
        if any(inside[k].storage.is_written for k in boxed):
            others = [*entered, *self.memory_of_others()]
            inner = left[boxed[0]].builder
            is_apart &= len({*map(id, others)}) == len(others) and all(s.source is None for s in entered)
            is_apart &= len({*map(id, ended)}) == len(ended) and all(s.builder is inner for s in ended)
        if self.iterator.kind == "array":
            is_apart &= not any(self.iterator.parts[0].storage is w for w in self.storages)
        if not is_apart:
            raise Decline("a long loop writes to memory that several variables show")

    def memory_of_others(self) -> list[Storage]:
        """Memory that local variables show which the loop does not carry, each once."""
        found: dict[int, Storage] = {}
        frame: Frame | None = self.frame
        while frame is not None:
            values = [v for n, v in frame.locals.items() if frame is not self.frame or n not in self.rebound]
            values += [*frame.stack, *(cell.content for cell in frame.cells.values())]
            known = [v for v in values if v is not None and not isinstance(v, Lazy)]  # the others came from outside
            for leaf in (x for v in known for x in Tree.of(frame, v).leaves):
                x = leaf.array if isinstance(leaf, TensorValue) else leaf
                if isinstance(x, Array) and x.meta.boxed:
                    found[id(x.storage)] = x.storage
            frame = frame.parent
        return list(found.values())

    def targets(self, after: dict[str, Any]) -> set[str]:
        """Names of the loop variable."""
        return {n for n, v in after.items() if v is self.present}

    def carried(self, value: Any) -> Tree | None:
        """The value as a tree of arrays and numbers, or None."""
        tree = Tree.of(self.frame, value)
        try:
            for leaf in tree.leaves:
                leaf_array(self.frame, leaf)
        except Decline:
            return None
        return tree if tree.leaves else None

    def leaves(self, name: str, tree: Tree, value: Any) -> list[Array]:
        made = Tree.of(self.frame, value)
        if not made.is_like(tree):
            raise Decline(f"a long loop changes the form of {name!r}")
        return [leaf_array(self.frame, leaf) for leaf in made.leaves]

    # --- items

    def count(self) -> Size:
        """Iterations that are left."""
        if self.iterator.kind == "array":
            return self.iterator.parts[0].shape[0] - self.iterator.position
        span = self.iterator.parts[0]
        if span.step == 1:
            return plain_number(span.stop) - plain_number(span.start) - self.iterator.position
        return len(operators.range_items(span)) - self.iterator.position

    def rest(self) -> Array:
        """The rows that are left of the array that the loop goes over."""
        rows = slice(self.iterator.position, None)
        found: Array = indexing.getitem(self.frame.capture.builder, self.iterator.parts[0], rows)
        return found

    def item(self, inner: Builder, index: Node, items: list[Node]) -> Any:
        if items:
            (row,) = arrays_of(inner, items)
            return row
        span = self.iterator.parts[0]
        value = index
        if span.step != 1:
            value = inner.apply("multiply", value, inner.constant(span.step, index.dtype))
        start = plain_number(span.start) + self.iterator.position * span.step
        offset = inner.apply("size", value=start) if isinstance(start, Dim) else inner.constant(start, index.dtype)
        return scalar(inner, inner.apply("add", value, offset), weak=True)

    def last_item(self) -> Any:
        if self.iterator.kind == "array":
            return operators.lift(indexing.getitem(self.frame.capture.builder, self.iterator.parts[0], -1))
        span = self.iterator.parts[0]
        return operators.lift(plain_number(span.start) + (self.count() + self.iterator.position - 1) * span.step)

    # --- the body

    def run(
        self, inner: Builder, values: dict[str, Any], item: Any, contents: Sequence[Node]
    ) -> tuple[dict[str, Any], list[Node]]:
        """The names' values and the storages' contents after one iteration."""
        outer_frame, capture = self.frame, self.frame.capture
        body = Frame(
            capture,
            outer_frame.program,
            outer_frame.globals,
            outer_frame.globals_source,
            outer_frame.locals | values,
            cells=outer_frame.cells,
            stack=[*outer_frame.stack, item],
            index=self.header + 1,
            parent=outer_frame,
            loop_header=self.header,
        )
        self.present = item
        outer, saved = capture.builder, [(s.node, s.builder) for s in self.storages]
        capture.builder, outer.is_closed, inner.outer = inner, True, outer
        capture.bodies += 1
        for storage, node in zip(self.storages, contents):
            storage.node, storage.builder = node, inner
        try:
            outcome = body.run()
            written = [s.node for s in self.storages]
        finally:
            capture.builder, outer.is_closed = outer, False
            capture.bodies -= 1
            for storage, (node, builder) in zip(self.storages, saved):
                storage.node, storage.builder = node, builder
        assert isinstance(outcome, Jump)
        return {n: capture.realize(body.locals[n]) for n in self.names if n in body.locals}, written


def same_value(a: Any, b: Any) -> bool:
    if isinstance(a, Array) and isinstance(b, Array):  # or the same view of the same memory
        return a is b or (a.meta.boxed and b.meta.boxed and a.storage is b.storage and a.steps == b.steps)
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.value is b.value or (type(a.value) is type(b.value) and a.value == b.value)
    return a is b
