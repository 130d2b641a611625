"""Subscripts: which elements `x[key]` names, read and written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npcompile.numpy_shim import data_sizes
from npcompile.numpy_shim.arguments import assigned, boxed, copied_meta, fit, integer, known, require_element, same_shape, scalar
from npcompile.numpy_shim.overlaps import require_read_first
from npcompile.numpy_shim.registry import as_array, is_traced, literal
from npcompile.tensor_core.array import (
    STEPS,
    Array,
    AxisSlice,
    BasicIndex,
    StepRule,
    basic_index,
    cast,
    expand,
    fresh,
    permute,
    size_node,
    transpose,
)
from npcompile.tensor_core.dim import Dim, Size, maximum, minimum, same, source_of_size
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.known import fixed_contents, known_values
from npcompile.tensor_core.meta import (
    Decline,
    Shape,
    TensorMeta,
    broadcast_shapes,
    broadcast_strides,
    contiguous_strides,
    keep_order_strides,
    strides_beside_places,
)

INTP = np.dtype(np.intp)


@dataclass(frozen=True, slots=True)
class Mask:
    """A boolean array in a key: it stands for as many axes as it has."""

    array: Array


@dataclass(frozen=True, slots=True)
class Positions:
    """Integer arrays in a key, one for each axis that they stand for: positions along it."""

    arrays: tuple[Array | np.ndarray, ...]
    mask_shape: Shape | None = None  # of the constant mask that these are the nonzeros of

    @property
    def is_integer(self) -> bool:
        return all(a.ndim == 0 for a in self.arrays)

    @property
    def is_scalar(self) -> bool:
        """NumPy integers that are data: unlike 0-D arrays they make views."""
        return all(isinstance(a, Array) and not a.meta.boxed for a in self.arrays)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Axes of the basically indexed array that arrays of a key stand for, beginning with `axis`."""

    axis: int
    item: Mask | Positions


@dataclass(frozen=True, slots=True)
class Selection:
    """A key, normalized: first a basic index, then lookups along axes that it left whole."""

    index: BasicIndex
    lookups: tuple[Lookup, ...]
    target: int  # where the axes of the looked-up part stand in the result
    is_scalar: bool  # integers for every axis: NumPy gives a scalar, not a view
    is_copy: bool  # a 0-D array among integers: NumPy copies the view
    is_view: bool = False  # integers that are array data among slices: NumPy gives a view


def getitem(builder: Builder, x: Array, key: Any) -> Array:
    """x[key]: a view for basic indices, a scalar for integers on every axis, a fresh array for index arrays."""
    selection = select(builder, x, key)
    view = basic_index(boxed(x), selection.index)
    if not selection.lookups:
        return scalar(builder, view.node) if selection.is_scalar else view
    axes, positions, order = looked_up_axes(builder, view, selection)
    if selection.is_view:
        return view_of_position(builder, view, selection, Position(axes, positions))
    run = evenly_spaced(view, selection)
    if run is not None:
        node = permute(builder, run.node, axes_first(axes, view.ndim))
    else:
        node = builder.apply("gather", permute(builder, view.node, axes_first(axes, view.ndim)), *positions)
    if selection.is_scalar:
        return scalar(builder, node)
    rest = rest_of(view, selection)
    if selection.is_copy:
        return fresh(builder, node, copied_meta(rest, "K"))
    return place(builder, node, rest, order, selection.target)


@dataclass(frozen=True, slots=True)
class Position:
    """A view of one position along some axes, which data gives."""

    axes: tuple[int, ...]
    indices: tuple[Node, ...]  # 0-D int64

    def order(self, ndim: int) -> tuple[int, ...]:
        return axes_first(self.axes, ndim)


def view_of_position(builder: Builder, x: Array, selection: Selection, position: Position) -> Array:
    """Made in a sub-graph alone: no view comes out of it, so that none is to be made of a real array."""
    meta = rest_of(x, selection)
    if not x.builder.is_closed:
        return x.view("position", position, meta.with_(writeable=x.meta.writeable))
    # Nothing writes to an array from outside while the sub-graph is made, so a copy shows the same.
    copy = fresh(builder, read_position(builder, x.node, position), copied_meta(meta, "K"))
    return Array(copy.storage, (), copy.meta.with_(writeable=False))


def read_position(builder: Builder, node: Node, position: Position) -> Node:
    return builder.apply("gather", permute(builder, node, position.order(node.meta.ndim)), *position.indices)


def update_position(builder: Builder, base: Node, value: Node, position: Position) -> Node:
    order = position.order(base.meta.ndim)
    written = builder.apply("scatter", permute(builder, base, order), value, *position.indices, mode="set")
    return permute(builder, written, inverse(order))


def no_text(base: str, position: Position) -> str:
    raise AssertionError(f"a view at {position} leaves the program")


STEPS["position"] = StepRule(read_position, update_position, no_text)


def setitem(builder: Builder, x: Array, key: Any, value: Any) -> None:
    """x[key] = value."""
    if not x.meta.boxed:
        raise Decline("a NumPy scalar does not support item assignment")
    source = assigned(builder, value, x.dtype)
    selection = select(builder, x, key, for_write=True, keep_masks=source.ndim == 0)
    if selection.is_scalar and source.ndim:
        raise Decline("setting an array element with a sequence")
    if source.ndim > 1 and any(is_whole_mask(lookup.item, x.ndim) for lookup in selection.lookups):
        raise Decline("boolean array indexing assignment of what has several dimensions")
    view = basic_index(x, selection.index)
    if not selection.lookups:
        require_element(value, x.dtype)
        if isinstance(value, (list, tuple)) and source.ndim > view.ndim:
            raise Decline("setting an array element with a sequence")
        require_read_first(view, value)
        view.write(fit(builder, source.node, view.shape))
    elif any(isinstance(lookup.item, Mask) for lookup in selection.lookups):
        write_masked(builder, view, selection, source)
    elif (run := evenly_spaced(view, selection)) is not None and selection.target == selection.lookups[0].axis:
        run.write(fit(builder, source.node, run.shape))
    else:
        write_looked_up(builder, view, selection, source)


def is_whole_mask(item: Mask | Positions, ndim: int) -> bool:
    shape = item.array.shape if isinstance(item, Mask) else item.mask_shape
    return shape is not None and len(shape) == ndim


# --- keys


def select(builder: Builder, x: Array, key: Any, *, for_write: bool = False, keep_masks: bool = False) -> Selection:
    """Normalize `key` for x as NumPy's prepare_index does. Declines where NumPy raises IndexError.

    A traced mask can only be written through: what it reads has a shape that depends on data.
    """
    keys = key if isinstance(key, tuple) else (key,)
    items = expand_ellipsis([item_of(builder, k, for_write, keep_masks) for k in keys], x.ndim)
    axes: list[AxisSlice | Size] = []
    new_axes: list[int] = []
    lookups: list[Lookup] = []
    kept = 0
    for item in items:
        width = width_of(item)
        sizes = x.shape[len(axes) : len(axes) + width]
        if item is Ellipsis:
            continue
        if item is None:
            new_axes.append(kept)
            kept += 1
        elif isinstance(item, slice):
            axes.append(axis_slice(item, sizes[0]))
            kept += 1
        elif isinstance(item, (Mask, Positions)):
            check_item(item, sizes)
            lookups.append(Lookup(kept, item))
            axes += [AxisSlice(0, 1, n) for n in sizes]
            kept += width
        else:
            axes.append(position_of(item, sizes[0]))
    arrays = [lookup.item for lookup in lookups]
    is_integer = all(isinstance(a, Positions) and a.is_integer for a in arrays)  # no advanced index
    is_scalar = is_integer and not any(map(is_basic, items))
    is_copy = is_integer and any(isinstance(a, Positions) and not a.is_scalar for a in arrays)
    is_view = bool(arrays) and is_integer and not (is_scalar or is_copy or for_write)
    if is_view and builder.outer is None:
        raise Decline("a view at a position that is array data", "Copy the part, or index with a Python integer.")
    return Selection(BasicIndex(tuple(axes), tuple(new_axes)), tuple(lookups), target_of(items), is_scalar, is_copy, is_view)


def item_of(builder: Builder, item: Any, for_write: bool, keep_masks: bool) -> Any:
    """One item of a key: None, Ellipsis, slice, integer, Positions or Mask."""
    if isinstance(item, Array):
        found = known(item) if item.meta.boxed else known_values(item.node)
        item = item if found is None else found
    if is_basic(item):
        return item
    if isinstance(item, (bool, np.bool)):
        raise Decline("a boolean as index")
    if isinstance(item, (int, Dim, np.integer)):
        return integer(item)
    if not isinstance(item, (Array, np.ndarray, list, tuple)):
        raise Decline(f"{type(item).__name__} as index")
    array = as_array(builder, item) if is_traced(item) else constant_index(item)
    if array.dtype.kind in "iu":
        return Positions((array,))
    if array.dtype.kind != "b" or array.ndim == 0:
        raise Decline(f"arrays of dtype {array.dtype} and {array.ndim} dimensions as index")
    if isinstance(array, Array) and (not for_write or is_small(array.shape)):
        contents = fixed_contents(array.node)
        array = array if contents is None else contents
    if isinstance(array, Array):
        return Mask(array) if for_write else Positions(data_sizes.places(builder, array), array.shape)
    return Mask(literal(builder, array)) if keep_masks else Positions(np.nonzero(array), array.shape)


def is_small(shape: Shape) -> bool:
    """So few elements that a mask of them is rather about sizes and axes than about data."""
    return all(isinstance(n, int) for n in shape) and math.prod(shape) <= 32


def constant_index(item: Any) -> np.ndarray:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise Decline(str(error)) from None
    return array.astype(INTP) if array.size == 0 and not isinstance(item, np.ndarray) else array


def width_of(item: Any) -> int:
    """How many axes an item stands for."""
    if isinstance(item, Mask):
        return item.array.ndim
    if isinstance(item, Positions):
        return len(item.arrays)
    return 0 if item is None or item is Ellipsis else 1


def expand_ellipsis(items: list[Any], ndim: int) -> list[Any]:
    """Whole slices after the ellipsis, which stands at the end when there is none."""
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise Decline("an index can only have a single ellipsis ('...')")
    missing = ndim - sum(map(width_of, items))
    if missing < 0:
        raise Decline(f"too many indices for array: array is {ndim}-dimensional")
    at = places[0] + 1 if places else len(items)
    return [*items[:at], *[slice(None)] * missing, *items[at:]]


def target_of(items: Sequence[Any]) -> int:
    """Result position of looked-up axes: where their items stand if together (integers count too), else first.

    An ellipsis separates them even where it stands for no axis.
    """
    places = [i for i, item in enumerate(items) if not is_basic(item)]
    is_together = bool(places) and places[-1] - places[0] + 1 == len(places)
    return sum(item is not Ellipsis for item in items[: places[0]]) if is_together else 0


def is_basic(item: Any) -> bool:
    """Is it neither an array nor an integer?"""
    return item is None or item is Ellipsis or isinstance(item, slice)


def check_item(item: Mask | Positions, sizes: Shape) -> None:
    """Decline masks of the wrong shape and constant positions out of bounds."""
    mask_shape = item.array.shape if isinstance(item, Mask) else item.mask_shape
    if mask_shape is not None:
        if not all(same(n, m) or n == m for n, m in zip(mask_shape, sizes)):
            raise Decline("boolean index did not match indexed array")
        return
    assert isinstance(item, Positions)
    for array, n in zip(item.arrays, sizes):
        if isinstance(array, np.ndarray) and array.size and not (n > int(array.max()) and n >= -int(array.min())):
            raise Decline(f"index out of bounds for axis with size {n}")


def position_of(position: Size, n: Size) -> Size:
    """An integer index as 0..n-1."""
    if position < 0:
        position = position + n
        if position < 0:
            raise Decline(f"index is out of bounds for axis with size {n}")
        return position
    if position >= n:
        raise Decline(f"index {position} is out of bounds for axis with size {n}")
    return position


def axis_slice(key: slice, n: Size) -> AxisSlice:
    """A slice of an axis of length n. Of symbolic sizes it is only asked whether bounds count from the end."""
    step = 1 if key.step is None else int(integer(key.step))
    if step == 0:
        raise Decline("slice step cannot be zero")
    first, last = (0, n) if step > 0 else (n - 1, -1)
    start = first if key.start is None else from_end(integer(key.start), n)
    stop = last if key.stop is None else from_end(integer(key.stop), n)
    if step > 0:
        start, stop = (maximum(minimum(end, n), 0) for end in (start, stop))
        return AxisSlice(start, step, (maximum(stop - start, 0) + step - 1) // step)
    start, stop = (maximum(minimum(end, n - 1), -1) for end in (start, stop))
    if start < 0:  # nothing is left, and -1 would be the last element
        start, stop = first, first
    return AxisSlice(start, step, (maximum(start - stop, 0) - step - 1) // -step)


def from_end(bound: Size, n: Size) -> Size:
    return bound + n if bound < 0 else bound


# --- lookups: gathers, scatters and masks


def index_node(builder: Builder, index: Array) -> Node:
    """The positions as int64. A NumPy scalar that this does not hold is out of bounds; arrays wrap, as NumPy's do."""
    node = index.node
    if index.dtype == np.uint64 and not index.meta.boxed:
        node = builder.apply("minimum", node, builder.constant(np.iinfo(INTP).max, index.dtype))
    return cast(builder, node, INTP)


def require_positions(builder: Builder, positions: Sequence[Node], shape: Shape) -> None:
    """Positions along the first axes of `shape`. NumPy looks at them also where no element is beside: no loop then would."""
    if not any(n == 0 for n in shape[len(positions) :]):
        return
    for node, n in zip(positions, shape):
        size = expand(builder, size_node(builder, n), node.meta.shape)
        is_below = builder.apply("less", node, builder.apply("negative", size))
        builder.apply("require_none", builder.apply("logical_or", is_below, builder.apply("greater_equal", node, size)))


def looked_up_axes(builder: Builder, view: Array, selection: Selection) -> tuple[tuple[int, ...], tuple[Node, ...], Shape]:
    """The axes that index arrays stand for, the arrays as int64 nodes broadcast to one shape, and their memory order."""
    axes: list[int] = []
    arrays: list[Array | np.ndarray] = []
    for lookup in selection.lookups:
        assert isinstance(lookup.item, Positions)
        for axis, array in enumerate(lookup.item.arrays, lookup.axis):
            axes.append(axis)
            arrays.append(array)
    shape = broadcast_shapes(*(a.shape for a in arrays))
    if not all(same_shape(a.shape, shape) for a in arrays) and any(n == 0 for n in shape):
        raise Decline("index arrays that repeat no times are still checked")
    nodes = tuple(expand(builder, index_node(builder, as_array(builder, a)), shape) for a in arrays)
    if any(isinstance(a, Array) for a in arrays):  # others are constants, in bounds
        require_positions(builder, nodes, tuple(view.shape[a] for a in axes_first(axes, view.ndim)))
    metas = [a.meta if isinstance(a, Array) else TensorMeta(a.shape, a.dtype, a.strides) for a in arrays if a.ndim]
    order = keep_order_strides(shape, INTP.itemsize, [m.with_(shape=shape, strides=broadcast_strides(m, shape)) for m in metas])
    return tuple(axes), nodes, order


def evenly_spaced(view: Array, selection: Selection) -> Array | None:
    """The part of the view that a slice would take too, where the only index array is constant and evenly spaced."""
    lookup, *others = selection.lookups
    if others or not isinstance(lookup.item, Positions) or len(lookup.item.arrays) != 1:
        return None
    (array,) = lookup.item.arrays
    if not isinstance(array, np.ndarray) or array.ndim != 1 or not array.size:
        return None
    n = view.shape[lookup.axis]
    array = array.astype(INTP)
    places = np.where(array < 0, array + n, array) if isinstance(n, int) else array
    steps = set(np.diff(places).tolist()) or {1}
    if len(steps) != 1 or 0 in steps or (places[0] < 0) != (places[-1] < 0):
        return None
    start = int(places[0]) + (n if places[0] < 0 else 0)
    along = AxisSlice(start, steps.pop(), array.size)
    axes = [along if axis == lookup.axis else AxisSlice(0, 1, size) for axis, size in enumerate(view.shape)]
    return basic_index(view, BasicIndex(tuple(axes)))


def axes_first(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    return (*axes, *(a for a in range(ndim) if a not in axes))


def rest_of(view: Array, selection: Selection) -> TensorMeta:
    """What is left of the view without the axes that are looked up."""
    taken = {lookup.axis + i for lookup in selection.lookups for i in range(width_of(lookup.item))}
    shape, strides = (tuple(v for a, v in enumerate(s) if a not in taken) for s in (view.shape, view.meta.strides))
    return TensorMeta(shape, view.dtype, strides)


def place(builder: Builder, node: Node, rest: TensorMeta, order: Shape, target: int) -> Array:
    """A new array, with the looked-up axes, which come first, at `target`: a view then, of the array with these axes first.

    In memory they are in C order, and the others keep the order that they had. Without others the looked-up axes are as the
    index arrays are (numpy/_core/src/multiarray/mapping.c, PyArray_MapIterNew).
    """
    width = node.meta.ndim - rest.ndim
    itemsize = rest.dtype.itemsize
    outer = contiguous_strides(node.meta.shape[:width], itemsize * rest.size)
    looked_up = tuple(s // INTP.itemsize * itemsize for s in order)
    if same(rest.size, 1) or (looked_up != contiguous_strides(node.meta.shape[:width], itemsize) and rest.size == 1):
        outer = looked_up
    axes = placed_axes(node.meta.ndim, width, target)
    found = fresh(builder, node, TensorMeta(node.meta.shape, rest.dtype, outer + strides_beside_places(rest)))
    return found if axes == tuple(range(len(axes))) else transpose(found, axes)


def placed_axes(ndim: int, width: int, target: int) -> tuple[int, ...]:
    rest = range(width, ndim)
    return (*rest[:target], *range(width), *rest[target:])


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=lambda a: axes[a]))


def write_looked_up(builder: Builder, view: Array, selection: Selection, source: Array) -> None:
    """view[positions] = source; where positions repeat, the last write wins."""
    axes, positions, strides = looked_up_axes(builder, view, selection)
    if not all(map(same, strides, contiguous_strides(positions[0].meta.shape, INTP.itemsize))):
        raise Decline("index arrays that are not in C order: which of repeated positions is written last")
    items = [lookup.item for lookup in selection.lookups]
    if any(is_reversed(x) for item in items if isinstance(item, Positions) for x in item.arrays):  # NumPy may go backwards too
        raise Decline("index arrays that are reversed: which of repeated positions is written last")
    order = axes_first(axes, view.ndim)
    base = permute(builder, view.node, order)
    looked_up_shape = positions[0].meta.shape
    shape = (*looked_up_shape, *base.meta.shape[len(axes) :])
    placing = placed_axes(len(shape), len(looked_up_shape), selection.target)
    value = fit(builder, source.node, tuple(shape[a] for a in placing))
    value = permute(builder, value, inverse(placing))
    node = builder.apply("scatter", base, value, *positions, mode="set")
    view.write(permute(builder, node, inverse(order)))


def is_reversed(x: Array | np.ndarray) -> bool:
    strides = x.meta.strides if isinstance(x, Array) else x.strides
    return any(stride < 0 and not same(n, 1) for n, stride in zip(x.shape, strides))


def write_masked(builder: Builder, view: Array, selection: Selection, source: Array) -> None:
    """view[mask] = source, for a source that is the same for every True of the mask."""
    lookup, *others = selection.lookups
    if others or not isinstance(lookup.item, Mask):
        raise Decline("a traced mask together with index arrays")
    mask = lookup.item.array
    end = lookup.axis + mask.ndim
    value = source.node
    if any(isinstance(n, Dim) and n.env.is_measured(source_of_size(n)) for n in source.shape):
        places = Lookup(lookup.axis, Positions(data_sizes.places(builder, mask), mask.shape))
        return write_looked_up(builder, view, replace(selection, lookups=(places,)), source)
    if source.ndim > lookup.axis + 1 + view.ndim - end:
        raise Decline("an assignment through a mask of an array with more axes than the mask selects")
    if source.ndim:
        value = spread(builder, value, mask.ndim, view.ndim - end)
        if selection.target != lookup.axis:
            raise Decline("a traced mask apart from an integer, with an array to assign")
    condition = builder.apply("reshape", mask.node, shape=(*mask.shape, *(1,) * (view.ndim - end)))
    condition = expand(builder, condition, view.shape)
    view.write(builder.apply("where", condition, fit(builder, value, view.shape), view.node))


def spread(builder: Builder, value: Node, width: int, tail: int) -> Node:
    """The axis of `value` that runs along the mask's True elements has length 1: make it as many axes as the mask has."""
    if value.meta.ndim <= tail:
        return value
    at = value.meta.ndim - tail - 1
    shape = value.meta.shape
    if shape[at] != 1:
        raise Decline("as many values as the mask has True elements", "Use np.where(mask, value, x).")
    return builder.apply("reshape", value, shape=(*shape[:at], *(1,) * width, *shape[at + 1 :]))
