"""The Builder of eager Tensors: it evaluates nodes as it makes them, and keeps what gradients will need.

The graph is functional while the memory is shared. A `TapeStorage` is real memory together with the node of its present
contents; a write changes the memory in place and puts another node there. Every node knows which `Memory` its value lies
in and how often that had been written, so that a value that is no longer what it was is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from npcompile.tensor_core.array import Array, Step, Storage, updated
from npcompile.tensor_core.context import set_within
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import OPS, Reads
from npcompile.tensor_core.source import Source
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.devices import KINDS
from npcompile.tensor_core.tensors.products import product
from npcompile.tensor_core.tensors.views import read_through, view_of
from npcompile.tensor_core.transforms.reverse import is_differentiable, reads_of

# Is what is computed here recorded for gradients? Each thread, and each task, has its own answer.
RECORDING: ContextVar[bool] = ContextVar("RECORDING", default=True)


# Will NumPy compute the results of what is recorded now? Then only what gradients need is evaluated here, when they do.
DEFERRING: ContextVar[bool] = ContextVar("DEFERRING", default=False)


@contextmanager
def deferring() -> Iterator[None]:
    with set_within(DEFERRING, True):
        yield


@contextmanager
def recording(is_on: bool) -> Iterator[None]:
    with set_within(RECORDING, is_on):
        yield


class Memory:
    """A block of memory that values lie in: how often it was written, and whether some storage has it for its own."""

    __slots__ = ("is_owned", "items", "version")

    def __init__(self) -> None:
        self.version = 0
        self.is_owned = False
        self.items: tuple[Memory, ...] = ()  # of a tuple of arrays: the memory of each


class Overwritten(RuntimeError):
    """A value that a gradient needs is not there any more."""

    def __init__(self, node: TapeNode):
        super().__init__(f"{node} was changed in place")
        self.node = node


class TapeNode(Node):
    """A node with its value. One that needs no gradient keeps no inputs, so that no graph grows behind it."""

    __setattr__ = object.__setattr__  # a Node is frozen; what the tape knows of one changes
    __slots__ = (
        *("content", "weak", "is_made", "memory", "version", "needs_grad", "is_present", "is_freed"),
        *("leaf", "retain", "hooks", "vjp", "error"),
    )

    def __init__(
        self,
        op: str,
        inputs: tuple[TapeNode, ...],
        params: dict[str, Any],
        meta: TensorMeta,
        content: Any,
        memory: Memory,
        needs_grad: bool = False,
    ):
        self.op, self.inputs, self.params, self.meta, self.location = op, inputs, params, meta, None  # type: ignore[misc]
        self.content = content  # an ndarray, or a tuple for TupleMeta; None: it is computed when it is asked for
        self.weak: ref | None = None  # the content, for as long as a Tensor shows it
        self.is_made = content is not None
        self.memory = memory
        self.version = memory.version
        self.needs_grad = needs_grad
        self.is_present = False  # an alias that a storage made because its memory was written outside of the graph
        self.is_freed = False
        self.leaf: ref | None = None  # the Tensor whose `grad` this node's gradient is added to
        self.retain: ref | None = None  # a Tensor computed by this node whose `grad` is set
        self.hooks: dict[int, Callable[[Any], Any]] | None = None
        self.vjp: Callable | None = None  # in place of the op's own rule
        self.error: str | None = None  # why there is no gradient
        if needs_grad and Reads.OPERANDS in reads_of(op, params):
            for i in inputs:
                if i.content is None and i.weak is not None:
                    i.content = i.weak()

    @property
    def value(self) -> Any:
        """The ndarray (or tuple of them) as it was when the node was made. Raises Overwritten when it is gone."""
        if self.version != self.memory.version:
            raise Overwritten(self)
        content = self.content if self.content is not None or self.weak is None else self.weak()
        if content is None:
            values = [i.value for i in self.inputs]  # type: ignore[attr-defined]
            content = self.content = evaluate(self.op, values, self.params)
            self.is_made = True
            self.memory = memory_of(self.op, content, self.inputs, values, self.params)  # type: ignore[arg-type]
            self.version = self.memory.version
        return content

    def loosen(self) -> None:
        """A Tensor shows the value: where no rule reads it, it may go with the Tensor."""
        if self.needs_grad and self.inputs and Reads.RESULT not in reads_of(self.op, self.params):
            self.content, self.weak = None, ref(self.content)

    @property
    def is_deferred(self) -> bool:
        """Is it evaluated only when something asks for it?"""
        return self.needs_grad and not self.is_made

    @property
    def known(self) -> np.ndarray | None:
        """The value, for who asks when capturing what an array holds; not where a gradient would be lost with it, nor
        where many elements of a device would have to be waited for."""
        if self.needs_grad or isinstance(self.meta, TupleMeta):
            return None
        value = self.value
        if type(value) in KINDS:
            return None if value.ndim else devices.to_host(value)
        return value

    @property
    def is_leaf(self) -> bool:
        """Does the gradient end here, in a Tensor's `grad`?"""
        return self.leaf is not None

    @property
    def graph_node(self) -> TapeNode:
        """The node that computed this value: not the alias that stands for it since the memory was written."""
        return self.inputs[0] if self.is_present and self.inputs else self  # type: ignore[return-value]


class Tape(Builder):
    """Evaluates at once. Nothing is hash-consed: a node is one evaluation."""

    def __init__(self) -> None:
        super().__init__()

    def apply(self, op: str, *inputs: Node, **params: Any) -> Node:
        row = OPS[op]
        needs_grad = RECORDING.get() and any(n.needs_grad for n in inputs)  # type: ignore[attr-defined]
        # What an elementwise op gives says all that its rule does.
        meta = None if row.kind == "elementwise" else row.meta(*[n.meta for n in inputs], **params)
        if needs_grad and is_evaluated_later(op, row.kind, inputs):  # type: ignore[arg-type]
            meta = row.meta(*[n.meta for n in inputs], **params) if meta is None else meta
            if is_differentiable(meta):
                return TapeNode(op, inputs, params, meta, None, Memory(), True)  # type: ignore[arg-type]
        values = [n.value for n in inputs]  # type: ignore[attr-defined]
        content = evaluate(op, values, params)
        memory = memory_of(op, content, inputs, values, params)  # type: ignore[arg-type]
        meta = meta_of(content) if meta is None else meta
        if needs_grad and is_differentiable(meta):
            return TapeNode(op, inputs, params, meta, content, memory, True)  # type: ignore[arg-type]
        if not inputs or (op == "broadcast_to" and inputs[0].op == "constant"):  # rules ask for constants
            return TapeNode(op, inputs, params, meta, content, memory)  # type: ignore[arg-type]
        return data_node(content, memory, meta)

    def measure(self, op: str, *inputs: Node, **params: Any) -> Node:
        """As many results as there are."""
        values = [n.value for n in inputs]  # type: ignore[attr-defined]
        if KINDS and devices.kind_among(values) is not None:
            raise Decline("as many results as data decides, on a device")
        content = OPS[op].eager(*values, **params)
        size = (content[0] if isinstance(content, tuple) else content).shape[0]
        meta = OPS[op].meta(*(n.meta for n in inputs), size=size, **params)
        return TapeNode(op, (), params, meta, content, memory_of(op, content, inputs, values))  # type: ignore[arg-type]

    def may_differentiate(self, node: Node) -> bool:
        return bool(node.needs_grad)  # type: ignore[attr-defined]

    def input(self, meta: TensorMeta, argument: Source | None = None) -> Node:
        raise AssertionError("a Tape has no inputs: its nodes have values")


def is_evaluated_later(op: str, kind: str, inputs: Sequence[TapeNode]) -> bool:
    """Is there a value only when something asks for it? Of a write: its storage changes the memory in place. Of what
    NumPy computes: each call's results are NumPy's own."""
    if DEFERRING.get() and kind not in ("extern", "movement"):  # the former are as costly as the call, the latter cost nothing
        return True
    return kind == "update" or any(n.is_deferred for n in inputs)


def evaluate(op: str, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """The op's meaning in NumPy, or on the device where its operands are."""
    if KINDS and (kind := devices.kind_among(values)) is not None:
        return devices.evaluate(kind, op, values, params)
    if op == "index" and (place := devices.PLACE.get()) is not None and prod(params["shape"]) > devices.LARGE:
        return devices.open_kind(place).grid(params["shape"], params["axis"], place)
    if op == "einsum" and len(values) == 2:
        x, y = values
        return product(x, y, params["inputs"], params["output"])
    return OPS[op].eager(*values, **params)


def memory_of(
    op: str, content: Any, inputs: Sequence[TapeNode], values: Sequence[Any] = (), params: dict[str, Any] | None = None
) -> Memory:
    """The memory of an input that a result is a view of, else memory of its own."""
    if isinstance(content, tuple):
        memory = Memory()
        memory.items = tuple(Memory() for _ in content)
        return memory
    if op == "item":
        assert params is not None
        return inputs[0].memory.items[params["index"]]
    for i, value in zip(inputs, values):
        if content is value or ((type(content) in KINDS or content.base is not None) and devices.share_memory(content, value)):
            return i.memory
    return Memory()


def data_node(data: Any, memory: Memory, meta: TensorMeta | None = None) -> TapeNode:
    """A node for memory that is just there."""
    return TapeNode("input", (), {"index": None}, meta_of(data) if meta is None else meta, data, memory)


def alias_node(node: TapeNode, data: Any, memory: Memory, is_present: bool = False) -> TapeNode:
    """The same value of the graph, held in other memory."""
    if not node.needs_grad:
        return data_node(data, memory)
    alias = TapeNode("alias", (node,), {"name": ""}, meta_of(data), data, memory, True)
    alias.is_present = is_present
    return alias


def meta_of(data: Any) -> TensorMeta:
    if type(data) in KINDS:
        return TensorMeta(data.shape, data.dtype, data.strides, devices.device_of(data))
    return TensorMeta(data.shape, data.dtype, data.strides, writeable=data.flags.writeable)


TAPE = Tape()


class TapeStorage(Storage):
    """Real memory that Tensors see through view steps."""

    __slots__ = ("data", "is_locked", "memory", "present")

    def __init__(self, data: Any, memory: Memory, present: TapeNode | None = None):
        self.builder = TAPE
        self.meta = meta_of(data)
        self.source = None
        self.data = data  # what the array that owns the memory shows
        self.memory = memory
        memory.is_owned = True
        self.present = data_node(data, memory, self.meta) if present is None else present
        self.is_locked = ""  # why values that need gradients cannot be written here

    @property
    def needs_grad(self) -> bool:
        return self.present.needs_grad

    @property
    def node(self) -> TapeNode:  # type: ignore[override]
        """The present contents. Writes that the graph does not know of (of detached Tensors, under no_grad) show in
        the value, and the gradient is that of what was there."""
        if self.present.version != self.memory.version:
            self.present = alias_node(self.present.graph_node, self.data, self.memory, is_present=True)
        return self.present

    def write(self, steps: Sequence[Step], value: Node) -> None:
        assert isinstance(value, TapeNode)
        node = self.node
        if not (RECORDING.get() and is_differentiable(self.meta) and (node.needs_grad or value.needs_grad)):
            self.store(steps, value)
            return
        if self.is_locked:
            raise RuntimeError(self.is_locked)
        if node.graph_node.is_leaf:
            what = "a view of a leaf Tensor" if steps else "a leaf Tensor"
            raise RuntimeError(
                f"{what} that requires grad cannot be changed in place: its gradient would be lost. "
                "Compute a new Tensor (x = x + y), change x.clone(), or change it under npc.no_grad()."
            )
        contents = updated(TAPE, node, steps, value)
        self.store(steps, value)
        self.present = alias_node(contents, self.data, self.memory)  # type: ignore[arg-type]

    def store(self, steps: Sequence[Step], value: TapeNode) -> None:
        target, source = view_of(self.data, steps), value.value
        kind = devices.kind_of(target)
        if kind is None:
            np.copyto(target, devices.to_host(source))
        else:
            kind.assign(target, devices.operand_for(kind, source, target))
        self.memory.version += 1


class TapeArray(Array):
    """What one Tensor shows. It keeps the node of its contents, so that all uses of the Tensor are uses of one node."""

    __slots__ = ("parent", "seen", "seen_in")

    def __init__(self, storage: TapeStorage, steps: tuple[Step, ...], meta: TensorMeta, parent: TapeArray | None = None):
        super().__init__(storage, steps, meta)
        self.parent = parent  # the Tensor this is a view of: its steps are the first of these
        self.seen: Node | None = None
        self.seen_in: Node | None = None  # the contents of the storage that `seen` was read from

    @property
    def node(self) -> Node:
        contents = self.storage.node
        if self.seen_in is contents:
            assert self.seen is not None
            return self.seen
        stale = [self]
        while (parent := stale[-1].parent) is not None and parent.seen_in is not contents:
            stale.append(parent)
        for array in reversed(stale):
            base, done = (array.parent.seen, len(array.parent.steps)) if array.parent is not None else (contents, 0)
            assert base is not None
            array.see(contents, read_through(TAPE, base, array.steps[done:]))
        assert self.seen is not None
        return self.seen

    def see(self, contents: Node, node: Node) -> None:
        self.seen_in, self.seen = contents, node

    def keep_contents(self) -> None:
        """Give the graph a copy of the present contents, before they are overwritten by what is computed from them."""
        node = self.node
        assert isinstance(node, TapeNode)
        self.see(self.storage.node, alias_node(node, node.value.copy(), Memory()))
