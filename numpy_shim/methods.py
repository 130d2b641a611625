"""ndarray methods, on arrays and on NumPy scalars, and the functions that only call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from npcompile.numpy_shim import contraction, data_sizes, diagonals, indexing, manipulation
from npcompile.numpy_shim.arguments import (
    array_of,
    assigned,
    boxed,
    copied_meta,
    copy_of,
    dtype_of,
    filled_with,
    fit,
    fixed,
    flag,
    integer,
    known,
    order_of,
    require_cast,
    require_element,
    same_shape,
    unbox,
    values_of,
    write_out,
)
from npcompile.numpy_shim.item_sizes import view_items
from npcompile.numpy_shim.manipulation import calls_method
from npcompile.numpy_shim.overlaps import require_read_first
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS, Captured, as_array, implements, is_traced, literal
from npcompile.tensor_core.array import Array, cast, expand, fresh, full, reshaped
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.dtypes import is_bfloat16, is_same_dtype
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.known import known_values
from npcompile.tensor_core.meta import Decline, TensorMeta, contiguous_strides, is_contiguous, product

DTYPE_CLASS = type(np.dtypes.Float64DType)


def method(*names: str) -> Callable[[Captured], Captured]:
    """Register ndarray methods. On a NumPy scalar they work on its 0-D array, and 0-D results are scalars again."""

    def add(captured: Captured) -> Captured:
        @wraps(captured)
        def call(builder: Builder, x: Array, /, *args: Any, **kwargs: Any) -> Any:
            if not x.meta.boxed and not all(hasattr(np.generic, name) for name in names):
                raise Decline(f"a NumPy scalar has no {names[0]}")
            result = captured(builder, boxed(x), *args, **kwargs)
            if x.meta.boxed:
                return result
            if result is None:
                raise Decline("a NumPy scalar cannot be changed")
            return unbox(result)

        for name in names:
            assert name not in METHODS, f"ndarray.{name} has two captured forms"
            METHODS[name] = call
        return captured

    return add


def shape_arguments(args: tuple[Any, ...]) -> Any:
    """Methods take a shape or axes as one tuple, or one after the other."""
    return args[0] if len(args) == 1 else args


# --- shape


@method("reshape")
def reshape(builder: Builder, x: Array, *shape: Any, order: Any = "C", copy: Any = None) -> Array:
    if not shape:
        raise Decline("reshape without a shape")
    return manipulation.reshape(builder, x, shape_arguments(shape), order, copy=copy)


@method("transpose")
def transpose(builder: Builder, x: Array, *axes: Any) -> Array:
    return manipulation.transpose(builder, x, shape_arguments(axes) if axes else None)


method("ravel")(manipulation.ravel)
method("flatten")(manipulation.flatten)
method("swapaxes")(manipulation.swapaxes)
method("squeeze")(manipulation.squeeze)
method("repeat")(manipulation.repeat)
method("diagonal")(diagonals.diagonal)


# --- copies, casts, contents


@method("astype")
def astype(
    builder: Builder, x: Array, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True
) -> Array:
    flag(subok)
    wanted, order = dtype_of(dtype), order_of(order, default="K")
    require_cast(x.dtype, wanted, casting)
    layouts = {"K": "", "A": "CF"}.get(order, order)
    is_ready = x.dtype == wanted and (not layouts or any(is_contiguous(x.meta, layout) for layout in layouts))
    return x if is_ready and not flag(copy) else copy_of(x, order, wanted)


@implements(*([np.astype] if hasattr(np, "astype") else []))
def function_astype(builder: Builder, x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Array:
    if not isinstance(x, Array) or not x.meta.boxed or device not in (None, "cpu"):
        raise Decline("np.astype of what is not an array")
    return astype(builder, x, dtype, copy=copy)


@method("copy")
def copy(builder: Builder, x: Array, order: Any = "C") -> Array:
    return copy_of(x, order_of(order))


@method("view")
def view(builder: Builder, x: Array, dtype: Any = np._NoValue, type: Any = None) -> Array:
    if type is not None or dtype is None or isinstance(dtype, DTYPE_CLASS):
        raise Decline("view(type=), of a class of dtypes, or of the dtype None, which is float64")
    wanted = x.dtype if dtype is np._NoValue else dtype_of(dtype)
    if is_same_dtype(wanted, x.dtype):  # another array, whose base is x
        return x.view("permute", tuple(range(x.ndim)), x.meta)
    if wanted.kind == "b" or (wanted.char in "gG") != (x.dtype.char in "gG"):
        raise Decline("bytes seen as truths, or bytes that no number is made of")
    if wanted.itemsize != x.dtype.itemsize:
        return view_items(builder, x, wanted)
    return x.view("bitcast", wanted, x.meta.with_(dtype=wanted, strides=x.meta.strides))


@method("item")
def item(builder: Builder, x: Array, *args: Any) -> Any:
    """A Python number, where it is known."""
    values = None if args else values_of(x)
    if values is None:
        raise Decline("a Python number made of array data", "A NumPy scalar stays in the graph.")
    while isinstance(values, list):
        if len(values) != 1:
            raise Decline("can only convert an array of size 1 to a Python scalar")
        (values,) = values
    return values


@method("tolist")
def tolist(builder: Builder, x: Array) -> Any:
    """Python numbers, where they are known."""
    values = known_values(x.node)
    if values is None:
        raise Decline("Python numbers made of array data", "Arrays stay in the graph.")
    return values


@method("to_device")
def to_device(builder: Builder, x: Array, device: Any, /, *, stream: Any = None) -> Array:
    """The array itself: all of NumPy's are on the CPU."""
    if device != "cpu" or stream is not None:
        raise Decline("another device, or a stream")
    return x


@method("tobytes")
def tobytes(builder: Builder, x: Array, order: Any = "C") -> Any:
    """Of elements that are known."""
    contents = known(x)
    if contents is None or order not in ("C", "F", None):
        raise Decline("bytes made of array data")
    return contents.tobytes(order)


@method("fill")
def fill(builder: Builder, x: Array, value: Any, /) -> None:
    source = assigned(builder, value, x.dtype)
    require_element(value, x.dtype)
    if source.ndim:
        raise Decline("fill with an array")
    x.write(expand(builder, source.node, x.shape))


@method("conj", "conjugate")
def conj(builder: Builder, x: Array) -> Array:
    """The array itself when it is real."""
    return FUNCTIONS[np.conjugate](builder, x) if x.dtype.kind == "c" or is_bfloat16(x.dtype) else x


# --- elements


def take(builder: Builder, a: Array, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Array:
    """Elements at positions along an axis, as a fresh C-contiguous array."""
    a, axis = manipulation.along(builder, a, axis)
    positions = position_node(builder, indices)
    if any(n == 0 for i, n in enumerate(a.shape) if i != axis):
        raise Decline("take from an empty array does not always check positions")
    node = in_bounds(builder, positions, a.shape[axis], mode)
    order = (axis, *(i for i in range(a.ndim) if i != axis))
    gathered = builder.apply("gather", manipulation.permute(builder, a.node, order), node)
    width = node.meta.ndim
    back = (*range(width, width + axis), *range(width), *range(width + axis, gathered.meta.ndim))
    result = manipulation.permute(builder, gathered, back)
    taken = fresh(builder, result, TensorMeta(result.meta.shape, a.dtype))
    if out is None:
        return unbox(taken)
    if isinstance(out, Array) and out.dtype != a.dtype:
        raise Decline("take into another dtype")
    return write_out(out, taken)


def position_node(builder: Builder, indices: Any) -> Node:
    positions = as_array(builder, indices if is_traced(indices) else indexing.constant_index(indices))
    if positions.dtype.kind not in "iub":
        raise Decline("indices must be integers")
    return cast(builder, positions.node, indexing.INTP)


def in_bounds(builder: Builder, positions: Node, n: Any, mode: Any) -> Node:
    """Positions that np.take's mode makes of others: wrapped around, clipped, or left to raise IndexError."""
    if mode == "raise":
        return positions
    if mode not in ("wrap", "clip") or n == 0:
        raise Decline(f"mode {mode!r}")
    size = expand(builder, manipulation.size_node(builder, n), positions.meta.shape)
    if mode == "wrap":
        return builder.apply("remainder", positions, size)
    zero, one = (full(builder, positions.meta.shape, v, indexing.INTP) for v in (0, 1))
    return builder.apply("minimum", builder.apply("maximum", positions, zero), builder.apply("subtract", size, one))


calls_method(np.take)(take)
method("take")(take)


@method("put")
def put(builder: Builder, a: Array, indices: Any, values: Any, mode: Any = "raise") -> None:
    """a.flat[indices] = values, repeated as often as needed."""
    if isinstance(indices, Array) and not np.can_cast(indices.dtype, np.intp):
        raise Decline(f"positions of dtype {indices.dtype}")
    positions = position_node(builder, indices)
    source = assigned(builder, values, a.dtype)
    count = manipulation.product(positions.meta.shape)
    flat = views_of(builder, a)
    positions = in_bounds(builder, reshaped(builder, positions, (count,)), flat.meta.shape[0], mode)
    value = manipulation.views.reshaped(builder, source.node, (manipulation.product(source.shape),))
    if value.meta.shape[0] != 1 and value.meta.shape[0] != count:
        raise Decline("as many values as positions, or one")
    value = fit(builder, value, (count,))
    node = builder.apply("scatter", flat, value, positions, mode="set")
    a.write(manipulation.views.reshaped(builder, node, a.shape))


def views_of(builder: Builder, a: Array) -> Node:
    return manipulation.views.reshaped(builder, a.node, (manipulation.product(a.shape),))


@implements(np.put)
def function_put(builder: Builder, a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    if not isinstance(a, Array):
        raise Decline("np.put into what is not an array")
    put(builder, a, ind, v, mode)


@implements(np.copyto)
def copyto(builder: Builder, dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """dst[where] = src."""
    if not isinstance(dst, Array) or not dst.meta.boxed:
        raise Decline("copyto into what is not an array")
    if isinstance(src, Array):
        require_cast(src.dtype, dst.dtype, casting)
    elif casting not in ("same_kind", "unsafe") or not np.can_cast(np.asarray(src).dtype, dst.dtype, casting):
        raise Decline("copyto of a constant of another kind")
    require_read_first(dst, src)
    source = fit(builder, filled_with(builder, src, dst.dtype).node, dst.shape)
    if where is not True:
        mask = array_of(builder, where)
        if mask.dtype.kind != "b" or mask.ndim > dst.ndim:
            raise Decline("a mask that is not boolean, or has more dimensions")
        source = builder.apply("where", expand(builder, mask.node, dst.shape), source, dst.node)
    dst.write(source)


def safely_cast(builder: Builder, values: Any, dtype: np.dtype) -> Any:
    """Values that np.putmask and np.place convert to `dtype`: arrays only where nothing is lost."""
    if not isinstance(values, (Array, np.ndarray, np.generic)):
        return values
    values = array_of(builder, values)
    require_cast(values.dtype, dtype, "safe")
    return values


@implements(np.putmask)
def putmask(builder: Builder, a: Any, /, mask: Any, values: Any) -> None:
    """a.flat[i] = values.flat[i] where mask.flat[i]; repeated values only when there is one."""
    if not isinstance(a, Array) or not a.meta.boxed:
        raise Decline("putmask into what is not an array")
    condition, source = array_of(builder, mask), assigned(builder, safely_cast(builder, values, a.dtype), a.dtype)
    if condition.dtype.kind != "b" or not same_shape(condition.shape, a.shape):
        raise Decline("a mask of another dtype or shape")
    if source.ndim and not same_shape(source.shape, a.shape):
        raise Decline("putmask that repeats values")
    a.write(builder.apply("where", condition.node, expand(builder, source.node, a.shape), a.node))


def place_one(builder: Builder, arr: Any, mask: Any, vals: Any) -> None:
    """arr.flat[i] = the next of vals, where mask.flat[i]; only when there is one, which is put everywhere."""
    if not isinstance(arr, Array) or not arr.meta.boxed:
        raise Decline("place into what is not an array")
    condition, source = array_of(builder, mask), assigned(builder, safely_cast(builder, vals, arr.dtype), arr.dtype)
    if condition.dtype.kind != "b" or not same_shape(condition.shape, arr.shape) or not same(product(source.shape), 1):
        raise Decline("place of several values, or where a mask of another dtype or shape is")
    value = reshaped(builder, source.node, (1,) * arr.ndim)
    arr.write(builder.apply("where", condition.node, expand(builder, value, arr.shape), arr.node))


@method("nonzero")
def nonzero(builder: Builder, a: Array) -> tuple[Array, ...]:
    """The places of elements that are not 0."""
    contents = fixed(a)
    if contents is None or not a.ndim:
        return data_sizes.places(builder, a)
    places = literal(builder, np.argwhere(contents))
    return tuple(indexing.getitem(builder, places, (slice(None), axis)) for axis in range(a.ndim))


@method("compress")
def compress(builder: Builder, a: Array, condition: Any, axis: Any = None, out: Any = None) -> Array:
    """The slices for which a condition is true."""
    condition = array_of(builder, condition)
    mask = known(condition)
    if condition.ndim != 1 or out is not None:
        raise Decline("compress by a condition that is not a vector, or into an array")
    if mask is None:
        (positions,) = data_sizes.places(builder, condition)
        return take(builder, a, positions, axis)
    return take(builder, a, np.flatnonzero(mask), axis)


@implements(np.compress)
def function_compress(builder: Builder, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Array:
    return compress(builder, array_of(builder, a), condition, axis, out)


calls_method(np.nonzero)(nonzero)


# --- rounding


@method("round")
def round_(builder: Builder, x: Array, decimals: Any = 0, out: Any = None) -> Array:
    """NumPy's own arithmetic: rint(x * 10**decimals) / 10**decimals."""
    places = int(integer(decimals))
    if out is not None:
        raise Decline("round(out=)")
    if x.dtype.kind in "iu" and places >= 0:
        return unbox(copy_of(x, "K"))
    if is_bfloat16(x.dtype) and places:
        raise Decline("rounding bfloat16 to decimals goes through float32, by way of a bfloat16 out")
    if x.dtype.kind == "b" and places:
        raise Decline("rounding booleans")
    if x.dtype.kind == "c":
        parts = [rounded(builder, builder.apply(part, x.node), places) for part in ("real", "imag")]
        return unbox(fresh(builder, builder.apply("complex", *parts), copied_meta(x.meta, "K")))
    if not places:
        return FUNCTIONS[np.rint](builder, x)
    order = "F" if is_contiguous(x.meta, "F") and not is_contiguous(x.meta, "C") else "C"
    meta = TensorMeta(x.shape, x.dtype, contiguous_strides(x.shape, x.dtype.itemsize, order))
    node = x.node if x.dtype.kind == "f" else cast(builder, x.node, np.dtype(float))
    return unbox(fresh(builder, cast(builder, rounded(builder, node, places), x.dtype), meta))


def rounded(builder: Builder, node: Node, places: int) -> Node:
    if not places:
        return builder.apply("rint", node)
    if abs(places) > 308 or 10.0 ** abs(places) > np.finfo(node.dtype).max:
        raise Decline(f"rounding to {places} decimals")
    factor = full(builder, node.meta.shape, node.dtype.type(10.0 ** abs(places)), node.dtype)
    scale, unscale = ("multiply", "divide") if places > 0 else ("divide", "multiply")
    return builder.apply(unscale, builder.apply("rint", builder.apply(scale, node, factor)), factor)


calls_method(np.round)(round_)
if np.around is not np.round:
    calls_method(np.around)(round_)


# --- products

method("dot")(contraction.dot_arrays)
method("trace")(diagonals.trace)
