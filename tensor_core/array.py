"""A NumPy array while a program is captured: which memory it is, through which view, and its metadata.

Memory is a `Storage` whose contents are a node of the graph. An `Array` sees it through view `steps`. Reading applies
the steps to the contents; writing replaces the contents, so every other array of the same storage sees the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Dim, Size, maximum, minimum, same
from npcompile.tensor_core.dtypes import is_same_dtype, name_of
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import (
    Decline,
    Shape,
    TensorMeta,
    broadcast_strides,
    contiguous_strides,
    is_contiguous,
    keep_order_strides,
    reshape_strides,
)


@dataclass(slots=True, eq=False)
class Storage:
    """Memory shared by arrays. `node` is its contents now, as the array that owns the memory would show it."""

    builder: Builder
    node: Node
    meta: TensorMeta  # of the owning array
    source: Any = None  # where the owner came from when the program got it from outside, else None: fresh memory
    original: Node = field(init=False)
    may_be: tuple[Storage, ...] = ()  # other memory that this may be, which data decides: so it is only read

    def __post_init__(self) -> None:
        self.original = self.node

    @property
    def is_written(self) -> bool:
        return self.node is not self.original

    def write(self, steps: Sequence[Step], value: Node) -> None:
        """Replace what the view `steps` shows by `value`."""
        if self.may_be:
            raise Decline("an array is written to, and data decides whose memory it has")
        kinds = {step.kind for step in steps}
        is_recorded = self.builder.records and "constant" not in kinds
        if is_recorded and "variable" in kinds:
            raise Decline("a Tensor that requires grad is changed in place", "Change a copy, or change it under npc.no_grad().")
        contents = updated(self.builder, self.node, steps, value)
        if not is_recorded:  # the gradient is that of what was there
            constant = self.builder.apply("alias", contents, name=None)
            contents = self.builder.apply("custom_gradient", constant, self.node, rule=unchanged)
        self.node = contents


def unchanged(gradient: Any) -> list[Any]:
    return [gradient]


def overwritten(nodes: Sequence[Node]) -> set[Node]:
    """Of all nodes of a builder the contents of memory before it was written unrecorded, and what shows that memory."""
    gone = {n.inputs[1] for n in nodes if n.op == "custom_gradient" and n.params["rule"] is unchanged}
    for n in nodes if gone else ():
        if n.op in SHOWN_THROUGH and n.inputs[0] in gone:
            gone.add(n)
    return gone


SHOWN_THROUGH = ("alias", "permute", "reshape", "broadcast_to", "slice")


@dataclass(frozen=True, slots=True)
class Step:
    """One view operation: what NumPy method makes it, and what it means to a graph."""

    kind: str  # a row of STEPS
    param: Any  # axes, shape, index or dtype


class ClosedWrite(Decline):
    """A sub-graph being made cannot change what was there before."""

    def __init__(self, storage: Storage):
        super().__init__("a function of a loop or branch writes to an array from outside", "Make it part of the carry.")
        self.storage = storage


@dataclass(slots=True, eq=False)
class Array:
    """A traced ndarray, or NumPy scalar where `meta.boxed` is False."""

    storage: Storage
    steps: tuple[Step, ...]
    meta: TensorMeta

    @property
    def builder(self) -> Builder:
        return self.storage.builder

    @property
    def shape(self) -> Shape:
        return self.meta.shape

    @property
    def dtype(self) -> np.dtype:
        return self.meta.dtype

    @property
    def ndim(self) -> int:
        return len(self.meta.shape)

    @property
    def node(self) -> Node:
        """The present contents."""
        node = self.storage.node
        for step in self.steps:
            node = STEPS[step.kind].read(self.builder, node, step.param)
        return node

    def write(self, value: Node) -> None:
        """Replace the contents by `value`, of this array's shape and dtype. Declines when read-only."""
        if not self.meta.boxed:
            raise Decline("a NumPy scalar is immutable")
        if not self.meta.writeable:
            raise Decline("assignment destination is read-only")
        if self.builder.is_closed:
            raise ClosedWrite(self.storage)
        value = reshaped(self.builder, value, self.shape)  # sizes that were found equal may be written differently
        self.storage.write(self.steps, value)

    def view(self, kind: str, param: Any, meta: TensorMeta) -> Array:
        """An array of the same memory, seen through one more step."""
        return Array(self.storage, (*self.steps, Step(kind, param)), meta)

    def __repr__(self) -> str:
        return f"Array({self.meta}{'' if self.meta.boxed else ' scalar'})"


def updated(builder: Builder, base: Node, steps: Sequence[Step], value: Node) -> Node:
    """Contents `base` with what the view `steps` shows replaced by `value`."""
    if not steps:
        return value
    first, rest = steps[0], steps[1:]
    rule = STEPS[first.kind]
    inner = updated(builder, rule.read(builder, base, first.param), rest, value) if rest else value
    return rule.update(builder, base, inner, first.param)


def fresh(builder: Builder, node: Node, meta: TensorMeta | None = None, *, boxed: bool = True) -> Array:
    """A new array (or scalar) of its own memory with the contents `node`."""
    meta = (node.meta if meta is None else meta).with_(boxed=boxed, writeable=boxed, weak=False)
    return Array(Storage(builder, node, meta), (), meta)


# --- view operations on arrays


def transpose(x: Array, axes: Sequence[int]) -> Array:
    """x.transpose(axes): always a view. `axes` are 0..ndim-1 in some order."""
    axes = tuple(axes)
    shape, strides = (tuple(s[a] for a in axes) for s in (x.shape, x.meta.strides))
    return x.view("permute", axes, x.meta.with_(shape=shape, strides=strides))


def reshape(x: Array, shape: Shape, order: str = "C") -> Array:
    """x.reshape(shape, order=order) for a shape without -1: a view where NumPy gives one, else a fresh array."""
    strides = reshape_strides(x.meta, shape, order)
    if strides is None:  # a view of a copy
        x = fresh(x.builder, x.node, TensorMeta(x.shape, x.dtype, contiguous_strides(x.shape, x.dtype.itemsize, order)))
        strides = contiguous_strides(shape, x.dtype.itemsize, order)
    return x.view("reshape_f" if order == "F" else "reshape", shape, x.meta.with_(shape=shape, strides=strides))


def broadcast_to(x: Array, shape: Shape) -> Array:
    """np.broadcast_to(x, shape): a read-only view."""
    meta = x.meta.with_(shape=shape, strides=broadcast_strides(x.meta, shape), writeable=False, boxed=True)
    return x.view("broadcast_to", shape, meta)


def broadcast_arrays(arrays: Sequence[Array], shape: Shape) -> list[Array]:
    """np.broadcast_arrays of arrays that broadcast to `shape`: those that have it as they are, views of the others.

    NumPy lets these views be written, with a warning: their writes decline.
    """
    return [
        x
        if len(x.shape) == len(shape) and all(map(same, x.shape, shape))
        else x.view("broadcast_arrays", shape, x.meta.with_(shape=shape, strides=broadcast_strides(x.meta, shape)))
        for x in arrays
    ]


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """One axis of a normalized basic index: elements start + step * (0 .. length-1)."""

    start: Size
    step: int
    length: Size


@dataclass(frozen=True, slots=True)
class BasicIndex:
    """A basic index, normalized: for each axis of the array an AxisSlice or an integer (Size) in bounds, and where the
    result has new axes (positions in the result's shape)."""

    axes: tuple[AxisSlice | Size, ...]
    new_axes: tuple[int, ...] = ()

    def result_shape(self) -> Shape:
        shape: list[Size] = [a.length for a in self.axes if isinstance(a, AxisSlice)]
        for position in self.new_axes:
            shape.insert(position, 1)
        return tuple(shape)


def basic_index(x: Array, index: BasicIndex) -> Array:
    """x[index]: a view, also where the result is 0-D (what NumPy turns into a scalar is the caller's matter)."""
    strides: list[Size] = [s * a.step for s, a in zip(x.meta.strides, index.axes) if isinstance(a, AxisSlice)]
    for position in index.new_axes:
        strides.insert(position, 0)
    return x.view("index", index, x.meta.with_(shape=index.result_shape(), strides=tuple(strides)))


# --- what each step means


@dataclass(frozen=True, slots=True)
class StepRule:
    read: Callable[[Builder, Node, Any], Node]  # contents -> what the view shows
    update: Callable[[Builder, Node, Node, Any], Node]  # contents, what the view shall show -> new contents
    text: Callable[[str, Any], str]  # the NumPy expression that makes the view of a real array


def read_index(builder: Builder, node: Node, index: BasicIndex) -> Node:
    if not is_whole(index, node.meta.shape):
        node = builder.apply("slice", node, **slice_params(index), shape=slice_shape(index))
    return reshaped(builder, node, index.result_shape())


def update_index(builder: Builder, base: Node, value: Node, index: BasicIndex) -> Node:
    value = reshaped(builder, value, slice_shape(index))
    return value if is_whole(index, base.meta.shape) else builder.apply("slice_update", base, value, **slice_params(index))


def is_whole(index: BasicIndex, shape: Shape) -> bool:
    """Does the index keep every element at its place?"""
    return all(
        isinstance(a, AxisSlice) and same(a.start, 0) and same(a.step, 1) and same(a.length, n) for a, n in zip(index.axes, shape)
    )


def reshaped(builder: Builder, node: Node, shape: Shape) -> Node:
    """reshape, or the node itself when it has that shape."""
    if len(shape) == node.meta.ndim and all(map(same, shape, node.meta.shape)):
        return node
    return builder.apply("reshape", node, shape=shape)


def slice_params(index: BasicIndex) -> dict[str, Any]:
    return {
        "start": tuple(a.start if isinstance(a, AxisSlice) else a for a in index.axes),
        "step": tuple(a.step if isinstance(a, AxisSlice) else 1 for a in index.axes),
    }


def slice_shape(index: BasicIndex) -> Shape:
    return tuple(a.length if isinstance(a, AxisSlice) else 1 for a in index.axes)


def end_text(stop: Size, step: int) -> str:
    """A slice's end, which is left out where it would be before the first element: -1 would be the last one."""
    if step > 0:
        return str(stop)
    if isinstance(stop, int):
        return str(stop) if stop >= 0 else ""
    return f"({stop} if {stop} >= 0 else None)"


def index_text(base: str, index: BasicIndex) -> str:
    parts: list[str] = []
    for axis in index.axes:
        if not isinstance(axis, AxisSlice):
            parts.append(str(axis))
            continue
        if same(axis.length, 0):
            parts.append("0:0")
            continue
        stop = axis.start + axis.step * axis.length
        parts.append(f"{axis.start}:{end_text(stop, axis.step)}:{axis.step}")
    positions = [i for i, a in enumerate(index.axes) if isinstance(a, AxisSlice)]
    for count, new in enumerate(index.new_axes):
        # A new axis at result position p stands before the kept axis number p - (new axes already placed).
        kept = new - count
        at = positions[kept] + count if kept < len(positions) else len(parts)
        parts.insert(at, "None")
    return f"{base}[{', '.join([*parts, '...'])}]"


@dataclass(frozen=True, slots=True)
class Diagonal:
    """np.diagonal(x, offset, axis1, axis2), of `length` elements."""

    offset: int
    axis1: int
    axis2: int
    length: Size


def diagonal(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    """np.diagonal(x, offset, axis1, axis2): a read-only view, the diagonal as last axis."""
    rows, columns = x.shape[axis1], x.shape[axis2]
    rows, columns = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    length = maximum(minimum(rows, columns), 0)
    rest = [a for a in range(x.ndim) if a not in (axis1, axis2)]
    shape = (*(x.shape[a] for a in rest), length)
    strides = (*(x.meta.strides[a] for a in rest), x.meta.strides[axis1] + x.meta.strides[axis2])
    meta = x.meta.with_(shape=shape, strides=strides, writeable=False)
    return x.view("diagonal", Diagonal(offset, axis1, axis2, length), meta)


def read_diagonal(builder: Builder, node: Node, view: Diagonal) -> Node:
    """Rows one after the other, the diagonal is every (columns + 1)th element."""
    rest = [a for a in range(node.meta.ndim) if a not in (view.axis1, view.axis2)]
    last = permute(builder, node, (*rest, view.axis1, view.axis2))
    *outer, rows, columns = last.meta.shape
    start = view.offset if view.offset >= 0 else -view.offset * columns
    return builder.apply(
        "slice",
        reshaped(builder, last, (*outer, rows * columns)),
        start=(*(0 for _ in outer), 0 if same(view.length, 0) else start),
        step=(*(1 for _ in outer), columns + 1),
        shape=(*outer, view.length),
    )


@dataclass(frozen=True, slots=True)
class Windows:
    """sliding_window_view(x, width, axis)."""

    width: Size
    axis: int


def windows(x: Array, width: Size, axis: int) -> Array:
    """np.lib.stride_tricks.sliding_window_view(x, width, axis): a read-only view, the windows along a new last axis."""
    shape = (*x.shape[:axis], x.shape[axis] - width + 1, *x.shape[axis + 1 :], width)
    strides = (*x.meta.strides, x.meta.strides[axis])
    return x.view("windows", Windows(width, axis), x.meta.with_(shape=shape, strides=strides, writeable=False))


def read_windows(builder: Builder, node: Node, view: Windows) -> Node:
    """Gather element i + k along the axis for element k of window i."""
    ndim, axis = node.meta.ndim, view.axis
    shape = (node.meta.shape[axis] - view.width + 1, view.width)
    places = builder.apply("add", *(builder.apply("index", shape=shape, axis=a) for a in (0, 1)))
    first = permute(builder, node, (axis, *(a for a in range(ndim) if a != axis)))
    gathered = builder.apply("gather", first, places)
    return permute(builder, gathered, (*range(2, 2 + axis), 0, *range(2 + axis, ndim + 1), 1))


@dataclass(frozen=True, slots=True)
class Strided:
    """np.lib.stride_tricks.as_strided(x[start:], shape, strides) of a contiguous x of one dimension; in elements."""

    start: Size
    shape: Shape
    strides: Shape
    itemsize: int
    writeable: bool  # as NumPy says; writes decline


def strided(x: Array, view: Strided) -> Array:
    """The elements of x at start + the sum of each index times its stride. Declines where that may leave x."""
    reach = [(n - 1) * s for n, s in zip(view.shape, view.strides)]
    if any(n < 1 for n in view.shape) or any(isinstance(s, Dim) for s in view.strides):
        raise Decline("as_strided of no elements, or by strides that change")
    least = view.start + sum((r for r, s in zip(reach, view.strides) if s < 0), 0)
    most = view.start + sum((r for r, s in zip(reach, view.strides) if s > 0), 0)
    if least < 0 or most >= x.shape[0]:
        raise Decline("as_strided beyond the memory of the array")
    strides = tuple(s * view.itemsize for s in view.strides)
    writeable = view.writeable and x.meta.writeable
    return x.view("strided", view, x.meta.with_(shape=view.shape, strides=strides, writeable=writeable))


def read_strided(builder: Builder, node: Node, view: Strided) -> Node:
    places = expand(builder, size_node(builder, view.start), view.shape)
    for axis, stride in enumerate(view.strides):
        index = builder.apply("index", shape=view.shape, axis=axis)
        factor = expand(builder, builder.constant(stride, index.dtype), view.shape)
        places = builder.apply("add", places, builder.apply("multiply", index, factor))
    return builder.apply("gather", node, places)


def strided_text(base: str, view: Strided) -> str:
    strides = sizes_text(tuple(s * view.itemsize for s in view.strides))
    row = f"{base}[{view.start}:]"
    return f"np.lib.stride_tricks.as_strided({row}, {sizes_text(view.shape)}, {strides}, writeable={view.writeable})"


@dataclass(slots=True, eq=False)
class Variable:
    """What gradients are taken with respect to: its uses are told apart from those of the same memory as a constant."""

    source: str
    generation: int = 0  # what is computed after it changed is another graph, as a freed one is
    uses: dict[Node, None] = field(default_factory=dict)


def read_variable(builder: Builder, node: Node, variable: Variable) -> Node:
    use = builder.apply("alias", node, name=("variable", variable.source, variable.generation))
    variable.uses[use] = None
    return use


def read_real(part: str) -> Callable[[Builder, Node, Any], Node]:
    return lambda builder, node, _: builder.apply(part, node)


def update_real(builder: Builder, base: Node, value: Node, _: Any) -> Node:
    return builder.apply("complex", value, builder.apply("imag", base))


def update_imag(builder: Builder, base: Node, value: Node, _: Any) -> Node:
    return builder.apply("complex", builder.apply("real", base), value)


NEW_ZEROS = "new_zeros"  # the imaginary part of real numbers: an array of its own, which cannot be written


def is_new_memory(x: Array) -> bool:
    """Does the last step make memory of its own?"""
    return bool(x.steps) and x.steps[-1].kind == NEW_ZEROS


def no_update(builder: Builder, base: Node, value: Node, param: Any) -> Node:
    raise Decline("assignment destination is read-only")


def permute(builder: Builder, node: Node, axes: tuple[int, ...]) -> Node:
    return node if axes == tuple(range(len(axes))) else builder.apply("permute", node, axes=axes)


def reshape_f(builder: Builder, node: Node, shape: Shape) -> Node:
    turned = permute(builder, node, tuple(reversed(range(node.meta.ndim))))
    result = builder.apply("reshape", turned, shape=tuple(reversed(shape)))
    return permute(builder, result, tuple(reversed(range(len(shape)))))


def sizes_text(shape: Shape) -> str:
    return f"({''.join(f'{n}, ' for n in shape)})"


STEPS: dict[str, StepRule] = {
    "permute": StepRule(
        permute,
        lambda builder, base, value, axes: permute(builder, value, tuple(int(a) for a in np.argsort(axes))),
        lambda base, axes: f"{base}.transpose({axes})",
    ),
    "reshape": StepRule(
        reshaped,
        lambda builder, base, value, _: reshaped(builder, value, base.meta.shape),
        lambda base, shape: f"{base}.reshape({sizes_text(shape)})",
    ),
    "reshape_f": StepRule(
        reshape_f,
        lambda builder, base, value, _: reshape_f(builder, value, base.meta.shape),
        lambda base, shape: f"{base}.reshape({sizes_text(shape)}, order='F')",
    ),
    "index": StepRule(read_index, update_index, index_text),
    "broadcast_to": StepRule(
        lambda builder, node, shape: builder.apply("broadcast_to", node, shape=shape),
        no_update,
        lambda base, shape: f"np.broadcast_to({base}, {sizes_text(shape)})",
    ),
    "broadcast_arrays": StepRule(
        lambda builder, node, shape: builder.apply("broadcast_to", node, shape=shape),
        no_update,
        lambda base, shape: f"np.broadcast_arrays({base}, np.broadcast_to(0, {sizes_text(shape)}))[0]",
    ),
    "windows": StepRule(
        read_windows,
        no_update,
        lambda base, view: f"np.lib.stride_tricks.sliding_window_view({base}, {view.width}, {view.axis})",
    ),
    "strided": StepRule(read_strided, no_update, strided_text),
    "diagonal": StepRule(
        read_diagonal,
        no_update,
        lambda base, view: f"np.diagonal({base}, {view.offset}, {view.axis1}, {view.axis2})",
    ),
    # The same array, with a gradient and without one.
    "variable": StepRule(read_variable, lambda builder, base, value, _: value, lambda base, _: base),
    "constant": StepRule(
        lambda builder, node, _: builder.apply("alias", node, name=None),
        lambda builder, base, value, _: value,
        lambda base, _: base,
    ),
    "real": StepRule(read_real("real"), update_real, lambda base, _: f"{base}.real"),
    "imag": StepRule(read_real("imag"), update_imag, lambda base, _: f"{base}.imag"),
    NEW_ZEROS: StepRule(lambda builder, node, _: node, no_update, lambda base, _: f"{base}.imag"),
    "bitcast": StepRule(
        lambda builder, node, dtype: builder.apply("bitcast", node, dtype=dtype),
        lambda builder, base, value, _: builder.apply("bitcast", value, dtype=base.meta.dtype),
        lambda base, dtype: f"{base}.view({name_of(dtype)!r})",
    ),
}


def view_text(base: str, steps: Sequence[Step]) -> str:
    """The NumPy expression that makes this view of a real array named `base`."""
    for step in steps:
        base = STEPS[step.kind].text(base, step.param)
    return base


# --- nodes from whatever a NumPy function accepts


def cast(builder: Builder, node: Node, dtype: np.dtype) -> Node:
    return node if is_same_dtype(node.meta.dtype, np.dtype(dtype)) else builder.apply("cast", node, dtype=np.dtype(dtype))


def as_it_lies(x: Array) -> Node:
    """The value of an array, with the strides that the array has in NumPy: a copy has the same value in another place."""
    node, strides = x.node, x.meta.strides
    lies_so = all(same(n, 1) or same(s, t) for n, s, t in zip(x.shape, strides, node.meta.strides))
    if lies_so or x.dtype.kind not in "fc":
        return node
    return x.builder.apply("laid_out", node, strides=strides)


def expand(builder: Builder, node: Node, shape: Shape) -> Node:
    """broadcast_to, or the node itself when it has that shape."""
    if len(shape) == node.meta.ndim and all(same(n, m) for n, m in zip(shape, node.meta.shape)):
        return node
    return builder.apply("broadcast_to", node, shape=shape)


def full(builder: Builder, shape: Shape, value: Any, dtype: np.dtype) -> Node:
    return expand(builder, builder.constant(value, dtype), shape)


def size_node(builder: Builder, size: Size) -> Node:
    """A symbolic or plain integer as a 0-D int64."""
    return builder.apply("size", value=size) if isinstance(size, Dim) else builder.constant(size, np.dtype(np.int64))


def result_meta(shape: Shape, dtype: np.dtype, operands: Sequence[Array], order: str = "K") -> TensorMeta:
    """Meta of a fresh result: memory order as NumPy's for `order` and these operands, which broadcast to `shape`."""
    if order == "A":
        from_fortran = operands and all(is_contiguous(x.meta, "F") for x in operands)
        order = "F" if from_fortran else "C"
    if order in "CF":
        return TensorMeta(shape, dtype, contiguous_strides(shape, dtype.itemsize, order))
    metas = [x.meta.with_(shape=shape, strides=broadcast_strides(x.meta, shape)) for x in operands if x.ndim]
    return TensorMeta(shape, dtype, keep_order_strides(shape, dtype.itemsize, metas))
