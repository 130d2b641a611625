"""Functions that NumPy runs as they are, in the graph: what they give is known, or its size is what data decides.

They are not differentiated, and their arrays are on the host: elsewhere they run as NumPy, or its source is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import (
    array_of,
    arrays_of,
    assigned,
    axis_of,
    copied_meta,
    dtype_of,
    flag,
    integer,
    require_cast,
    same_shape,
    shape_of,
    unbox,
)
from npcompile.numpy_shim.data_sizes import counted, elements_at, places, require_none, sized, whole
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.manipulation import place_of_extreme, ravel
from npcompile.numpy_shim.methods import method, place_one
from npcompile.numpy_shim.registry import FUNCTIONS, as_array, implements, is_traced, literal, result_dtype
from npcompile.numpy_shim.ufunc_methods import UFUNC_METHODS
from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex, basic_index, cast, expand, fresh, full, result_meta
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, broadcast_shapes, contiguous_strides, is_contiguous, product
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.ops.extern import Unexpected
from npcompile.tensor_core.value_ranges import Intervals, is_inside

INTP = np.dtype(np.intp)
DOUBLE = np.dtype(np.float64)
BYTE = np.dtype(np.uint8)


def only(found: list[Array]) -> Array:
    (x,) = found
    return x


def constants(**keywords: Any) -> dict[str, Any]:
    """Keywords that must be no data."""
    if any(map(is_traced, keywords.values())):
        raise Decline("an argument that is data")
    if any(isinstance(v, (list, slice)) for v in keywords.values()):
        raise Decline("an option that has no hash")
    return keywords


@method("byteswap")
def byteswap(builder: Builder, x: Array, inplace: Any = False) -> Array:
    if flag(inplace):
        raise Decline("the bytes of an array are swapped in place")
    found = only(whole(builder, swapped, [x], ((x.shape, x.dtype),)))
    return fresh(builder, found.node, copied_meta(x.meta, "A"))


def swapped(x: np.ndarray) -> np.ndarray:
    return x.byteswap()


@implements(np.min_scalar_type)
def min_scalar_type(builder: Builder, a: Any, /) -> np.dtype:
    """Of an array with dimensions its dtype; for numbers their values decide."""
    if isinstance(a, Array) and a.ndim:
        return a.dtype
    if is_traced(a):
        raise Decline("the dtype that the value of a number needs")
    return np.min_scalar_type(a)


# --- counts and bins


@implements(np.bincount)
def bincount(builder: Builder, x: Any, /, weights: Any = None, minlength: Any = 0) -> Array:
    arrays = [array_of(builder, x)] + ([] if weights is None else [array_of(builder, weights)])
    if any(a.ndim != 1 for a in arrays) or arrays[0].dtype.kind not in "iub":
        raise Decline("bincount of what is not a vector of integers")
    least = int(integer(minlength))
    if builder.is_measurable and are_bins_known(arrays, least):
        return summed(builder, (least,), *arrays)
    if len(arrays) == 2 and builder.may_differentiate(arrays[1].node):
        counts = only(sized(builder, np.bincount, arrays[:1], (((None,), INTP),), minlength=least))
        if not same_shape(arrays[0].shape, arrays[1].shape):
            raise Decline("weights of another length")
        return summed(builder, counts.shape, *arrays)
    result = ((None,), INTP if weights is None else DOUBLE)
    return only(sized(builder, np.bincount, arrays, (result,), minlength=least))


def are_bins_known(arrays: list[Array], least: int) -> bool:
    """Are there as many bins as asked for, whatever the data is? False too where NumPy refuses the arrays."""
    places, *weights = arrays
    if same(places.shape[0], 0):  # NumPy counts in integers, whatever the weights
        return False
    is_safe = np.can_cast(places.dtype, INTP) and all(np.can_cast(w.dtype, DOUBLE) for w in weights)
    are_alike = all(same_shape(w.shape, places.shape) for w in weights)
    return is_safe and are_alike and is_inside(Intervals().of(places.node), least)


def summed(builder: Builder, shape: Shape, places: Array, *weights: Array) -> Array:
    """The sums of the weights, or the numbers of elements, at each place."""
    dtype = DOUBLE if weights else INTP
    parts = cast(builder, weights[0].node, dtype) if weights else full(builder, places.shape, 1, dtype)
    zeros, at = full(builder, shape, 0, dtype), cast(builder, places.node, INTP)
    return fresh(builder, builder.apply("scatter", zeros, parts, at, mode="add"))


@implements(np.digitize)
def digitize(builder: Builder, x: Any, bins: Any, right: Any = False) -> Array:
    values, edges = array_of(builder, x), array_of(builder, bins)
    if edges.ndim != 1 or any(a.dtype.kind == "c" for a in (values, edges)):
        raise Decline("digitize with bins that are not a vector, or complex numbers")
    results = ((values.shape, INTP),)
    found = only(whole(builder, np.digitize, [values, edges], results, right=flag(right)))
    return unbox(found)


@implements(np.histogram)
def histogram(builder: Builder, a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """By a number of bins, or by edges."""
    x = array_of(builder, a)
    if weights is not None or x.dtype.kind not in "iuf" or isinstance(bins, str):
        raise Decline("a histogram with weights, or with bins that data decides")
    keywords = constants(range=range, density=None if density is None else flag(density))
    if isinstance(range, list):
        raise Decline("a range that is a list")
    counted = DOUBLE if keywords["density"] else INTP
    if isinstance(bins, (list, tuple, np.ndarray, Array)):
        edges = array_of(builder, bins)
        if edges.ndim != 1 or edges.dtype.kind not in "iuf":
            raise Decline("edges of bins that are not a vector of real numbers")
        counts = only(whole(builder, with_edges, [x, edges], (((edges.shape[0] - 1,), counted),), **keywords))
        return counts, edges
    number = int(integer(bins))
    if number < 1:
        raise Decline("no bins")
    kinds = edges_dtype(x.dtype, range)
    counts, edges = whole(builder, np.histogram, [x], (((number,), counted), ((number + 1,), kinds)), bins=number, **keywords)
    return counts, edges


def with_edges(x: np.ndarray, edges: np.ndarray, **keywords: Any) -> np.ndarray:
    return np.histogram(x, edges, **keywords)[0]


def edges_dtype(dtype: np.dtype, range: Any) -> np.dtype:
    try:
        return np.histogram_bin_edges(np.ones(2, dtype), 1, range).dtype
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None


@implements(np.histogramdd)
def histogramdd(
    builder: Builder, sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Array, Any]:
    """By numbers of bins."""
    arrays = arrays_of(builder, sample) if isinstance(sample, (tuple, list)) else []
    numbers = tuple(map(integer, bins)) if isinstance(bins, (tuple, list)) else (integer(bins),) * len(arrays)
    if weights is not None or range is not None or len(numbers) != len(arrays) or any(n < 1 for n in numbers):
        raise Decline("a histogram with weights or a range, or of other samples")
    if not arrays or any(x.ndim != 1 or x.dtype != arrays[0].dtype or x.dtype.kind not in "iuf" for x in arrays):
        raise Decline("a histogram of samples that are not vectors of one dtype")
    if any(x.shape != arrays[0].shape for x in arrays):
        raise Decline("samples of different lengths")
    fixed = tuple(map(int, numbers))
    like, like_edges = np.histogramdd([np.arange(2).astype(x.dtype) for x in arrays], (1,) * len(arrays), density=density)
    # What lies outside is counted around the boxes, in the array that the result is a view of.
    is_view = like.base is not None
    shape = tuple(n + 2 for n in fixed) if is_view else fixed
    results = ((shape, like.dtype), *(((n + 1,), e.dtype) for n, e in zip(fixed, like_edges)))
    counts, *edges = whole(builder, counted_in_boxes, arrays, results, bins=fixed, density=density)
    if is_view:
        counts = getitem(builder, counts, (slice(1, -1),) * len(fixed))
    return counts, type(like_edges)(edges)


def counted_in_boxes(*arrays: np.ndarray, **keywords: Any) -> list[np.ndarray]:
    counts, edges = np.histogramdd(arrays, **keywords)
    return [counts if counts.base is None else np.pad(counts, 1), *edges]


# --- bits and positions


def packed(function: Callable[..., Any], length: Callable[[Size], Size]) -> Callable[..., Array]:
    def captured(builder: Builder, a: Any, /, axis: Any = None, bitorder: Any = "big", **keywords: Any) -> Array:
        x = array_of(builder, a)
        if keywords or x.dtype.kind not in "biu" or not x.ndim:
            raise Decline(f"{function.__name__} with a count, or of numbers that are not bits")
        if axis is None:
            shape: Shape = (length(x.meta.size),)
        else:
            axis = axis_of(axis, x.ndim)
            shape = (*x.shape[:axis], length(x.shape[axis]), *x.shape[axis + 1 :])
        found = only(whole(builder, function, [x], ((shape, BYTE),), axis=axis, bitorder=constants(_=bitorder)["_"]))
        is_fortran = len(shape) > 1 and is_contiguous(x.meta, "F") and not is_contiguous(x.meta, "C")
        return fresh(builder, found.node, TensorMeta(shape, BYTE, contiguous_strides(shape, 1, "F"))) if is_fortran else found

    return captured


implements(np.packbits)(packed(np.packbits, lambda n: (n + 7) // 8))
implements(np.unpackbits)(packed(np.unpackbits, lambda n: n * 8))


@implements(np.ravel_multi_index)
def ravel_multi_index(builder: Builder, multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Array:
    arrays = arrays_of(builder, multi_index)
    sizes = tuple(int(n) for n in shape_of(dims))
    shape = broadcast_shapes(*(x.shape for x in arrays))
    if not shape or any(x.dtype.kind not in "iu" for x in arrays):
        raise Decline("ravel_multi_index of what are not arrays of integers")
    keywords = constants(dims=sizes, mode=mode, order=order)
    return only(whole(builder, raveled, arrays, ((shape, INTP),), **keywords))


def raveled(*arrays: np.ndarray, **keywords: Any) -> np.ndarray:
    return np.asarray(np.ravel_multi_index(arrays, **keywords))


@implements(np.unravel_index)
def unravel_index(builder: Builder, indices: Any, shape: Any, order: Any = "C") -> tuple[Array, ...]:
    """Columns of one array; for the place of an extreme, which is known to be inside, numbers."""
    if isinstance(indices, Array) and indices.node.op == "arg_reduce":
        return place_of_extreme(builder, indices, shape, order)
    sizes = tuple(int(n) for n in shape_of(shape))
    if isinstance(indices, (int, np.integer)) and not isinstance(indices, bool):
        try:
            return tuple(literal(builder, n) for n in np.unravel_index(indices, sizes, order))
        except (TypeError, ValueError) as error:
            raise Decline(str(error)) from None
    x = array_of(builder, indices)
    if x.ndim != 1 or x.dtype.kind not in "iu" or not sizes:
        raise Decline("positions that are not a vector of integers")
    keywords = constants(shape=sizes, order=order)
    rows = only(whole(builder, unraveled, [x], ((((*x.shape, len(sizes))), INTP),), **keywords))
    return tuple(getitem(builder, rows, (slice(None), axis)) for axis in range(len(sizes)))


def unraveled(x: np.ndarray, **keywords: Any) -> np.ndarray:
    return np.stack(np.unravel_index(x, **keywords), axis=-1)


@implements(np.place, np._core._multiarray_umath._place)
def place(builder: Builder, arr: Any, mask: Any, vals: Any) -> None:
    """arr.flat[i] = the next of vals, where mask.flat[i]; they begin anew as often as needed."""
    if is_traced(vals) and not isinstance(vals, Array):
        raise Decline("values that hold array data")
    if isinstance(vals, Array) and isinstance(arr, Array) and vals.storage is arr.storage:
        raise Decline("NumPy reads values that it has overwritten")
    condition, count = array_of(builder, mask), product(array_of(builder, vals).shape)
    if same(count, 1) or not isinstance(arr, Array) or condition.dtype.kind != "b" or not same_shape(condition.shape, arr.shape):
        return place_one(builder, arr, mask, vals)
    if isinstance(vals, (Array, np.ndarray)):
        require_cast(array_of(builder, vals).dtype, arr.dtype, "safe")
    source = assigned(builder, vals, arr.dtype)
    if source.ndim != 1 or not isinstance(count, int) or not count:
        raise Decline("values that are not a vector of known length")
    positions = places(builder, condition)
    number = builder.apply("index", shape=positions[0].shape, axis=0)
    turn = builder.apply("remainder", number, expand(builder, builder.constant(count, INTP), number.meta.shape))
    value = builder.apply("gather", cast(builder, source.node, arr.dtype), turn)
    arr.write(builder.apply("scatter", arr.node, value, *(p.node for p in positions), mode="set"))


# --- choices


@method("choose")
def choose(builder: Builder, a: Array, choices: Any, /, out: Any = None, mode: Any = "raise") -> Array:
    if out is not None or isinstance(choices, Array) or a.dtype.kind not in "iu":
        raise Decline("choose into an array, or from the rows of one")
    if not all(isinstance(c, (Array, np.ndarray)) for c in choices):
        raise Decline("choose between what are not arrays")
    arrays = arrays_of(builder, choices)
    dtype = result_dtype(*(x.dtype for x in arrays))
    shape = broadcast_shapes(a.shape, *(x.shape for x in arrays))
    if not shape or any(x.meta.weak for x in arrays):
        raise Decline("choose between numbers")
    keywords = constants(mode=mode)
    if not builder.is_plain_here and dtype.kind in "fc" and mode == "raise":
        return chosen_rows(builder, a, [cast_to(builder, x, dtype) for x in arrays], shape)
    return only(whole(builder, chosen, [a, *arrays], ((shape, dtype),), **keywords))


def cast_to(builder: Builder, x: Array, dtype: np.dtype) -> Array:
    return fresh(builder, cast(builder, x.node, dtype))


def chosen_rows(builder: Builder, a: Array, arrays: list[Array], shape: Shape) -> Array:
    """The form of np.choose that is differentiated. Where a number names none of the arrays, NumPy raises."""
    less, at_least, either, where = (FUNCTIONS[f] for f in (np.less, np.greater_equal, np.logical_or, np.where))
    require_none(builder, either(builder, less(builder, a, 0), at_least(builder, a, len(arrays))))
    found = fresh(builder, expand(builder, arrays[0].node, shape))
    for k, x in enumerate(arrays[1:], 1):
        found = where(builder, FUNCTIONS[np.equal](builder, a, k), x, found)
    return found


def chosen(a: np.ndarray, *arrays: np.ndarray, **keywords: Any) -> np.ndarray:
    return np.choose(a, arrays, **keywords)


@implements(np.choose)
def function_choose(builder: Builder, a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Array:
    return choose(builder, array_of(builder, a), choices, out, mode)


# --- parts


@implements(np.delete)
def delete(builder: Builder, arr: Any, obj: Any, axis: Any = None) -> Array:
    """Without what a mask names. Of positions NumPy's source is captured."""
    x = array_of(builder, arr)
    if not isinstance(obj, Array) or obj.ndim != 1 or obj.dtype.kind != "b" or not x.ndim:
        raise Decline("np.delete by positions")
    x, axis = (ravel(builder, x), 0) if axis is None and x.ndim > 1 else (x, axis_of(-1 if axis is None else axis, x.ndim))
    if not same(obj.shape[0], x.shape[axis]):
        raise Decline("a mask of another length")
    keep = fresh(builder, builder.apply("logical_not", obj.node))
    return getitem(builder, x, (slice(None),) * axis + (keep,))


@implements(np.trim_zeros)
def trim_zeros(builder: Builder, filt: Any, trim: Any = "fb", axis: Any = None) -> Array:
    """A view of a vector, from its first element that is not 0 to the last."""
    ends = trim.lower() if isinstance(trim, str) else None
    if not isinstance(filt, Array) or filt.ndim != 1 or ends not in ("fb", "bf", "f", "b"):
        raise Decline("np.trim_zeros of what is not a vector")
    if not (axis is None or type(axis) is int and axis in (0, -1)):
        raise Decline("np.trim_zeros along several axes")
    start = counted(builder, leading_zeros, filt, 0) if "f" in ends else 0
    return basic_index(filt, BasicIndex((AxisSlice(start, 1, counted(builder, trimmed_size, filt, ends=ends)),)))


def leading_zeros(x: np.ndarray) -> int:
    places = np.flatnonzero(x)
    return int(places[0]) if places.size else 0


def trimmed_size(x: np.ndarray, ends: str) -> int:
    return int(np.trim_zeros(x, ends).size)


# --- sets


@implements(np.setdiff1d)
def setdiff1d(builder: Builder, ar1: Any, ar2: Any, assume_unique: Any = False) -> Array:
    one, other = array_of(builder, ar1), array_of(builder, ar2)
    if builder.may_differentiate(one.node):
        one = ravel(builder, one)
        found = sized(builder, places_not_in, [one, other], (((None,), INTP),), assume_unique=flag(assume_unique))
        return elements_at(builder, one, only(found))
    result = ((None,), one.dtype)
    return only(sized(builder, np.setdiff1d, [one, other], (result,), assume_unique=flag(assume_unique)))


def places_not_in(one: np.ndarray, other: np.ndarray, assume_unique: bool) -> np.ndarray:
    places = np.arange(one.size) if assume_unique else np.unique(one, return_index=True)[1]
    return places[~np.isin(one[places], other)]


# --- polynomials and special functions


@implements(np.polymul)
def polymul(builder: Builder, a1: Any, a2: Any) -> Array:
    """Without leading zeros, so data decides how long the product is."""
    arrays = [array_of(builder, a) for a in (a1, a2)]
    if any(x.ndim != 1 or x.dtype.kind not in "iufc" for x in arrays):
        raise Decline("polynomials that are not vectors of numbers")
    return only(sized(builder, np.polymul, arrays, (((None,), result_dtype(*(x.dtype for x in arrays))),)))


@implements(np.polydiv)
def polydiv(builder: Builder, u: Any, v: Any) -> tuple[Array, Array]:
    """Quotient and remainder. How many leading zeros the remainder loses, data decides: it is taken to be as long as most."""
    arrays = [array_of(builder, a) for a in (u, v)]
    if any(x.ndim != 1 or x.dtype.kind not in "iufc" for x in arrays):
        raise Decline("polynomials that are not vectors of numbers")
    length, least = (x.shape[0] for x in arrays)
    if not isinstance(least, int) or least < 2 or length < least:
        raise Decline("a polynomial by a number, or by a longer one")
    dtype = np.polydiv(*(np.ones(2, x.dtype) for x in arrays))[0].dtype
    results = (((length - least + 1,), dtype), ((length,), dtype))
    quotient, remainder = whole(builder, divided, arrays, results)
    return quotient, getitem(builder, remainder, slice(length - least + 1, None))


def divided(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With the whole of the memory that the remainder is a view of."""
    quotient, remainder = np.polydiv(u, v)
    if remainder.size != v.size - 1:
        raise Unexpected
    return quotient, remainder.base


@implements(np.polyint)
def polyint(builder: Builder, p: Any, m: Any = 1, k: Any = None) -> Array:
    x, times = array_of(builder, p), int(integer(m))
    if x.ndim != 1 or k is not None or times < 1 or x.dtype.kind not in "iufc":
        raise Decline("an integral with constants, none at all, or of what is not a vector of coefficients")
    dtype = np.polyint(np.ones(2, x.dtype), times).dtype
    return only(whole(builder, np.polyint, [x], (((x.shape[0] + times,), dtype),), m=times))


@implements(np.i0)
def i0(builder: Builder, x: Any) -> Array:
    values = array_of(builder, x)
    if values.dtype.kind not in "biuf" or not values.ndim:
        raise Decline("i0 of complex numbers, or of one number")
    dtype = values.dtype if values.dtype.kind == "f" else DOUBLE
    found = only(whole(builder, np.i0, [values], ((values.shape, dtype),)))
    # A converted copy lies as copies do; else it is np.abs that decides.
    is_copied = values.dtype != dtype
    meta = copied_meta(values.meta, "K", dtype) if is_copied else result_meta(values.shape, dtype, [values])
    return fresh(builder, found.node, meta)


def window(function: Callable[..., Any]) -> Callable[..., Array]:
    """A window of M points, which is another size of the same program for another M."""

    def captured(builder: Builder, M: Any, *parameters: Any) -> Array:
        length = integer(M)
        if length < 1 or not all(isinstance(p, (int, float, Number)) for p in parameters):
            raise Decline("a window of no points")
        arrays = [as_array(builder, length if isinstance(length, Dim) else np.asarray(length))]
        arrays += [as_array(builder, p) for p in parameters]
        return only(whole(builder, function, arrays, (((length,), DOUBLE),)))

    return captured


for _function in (np.bartlett, np.blackman, np.hamming, np.hanning, np.kaiser):
    implements(_function)(window(_function))


# --- of a ufunc


def reduceat(
    builder: Builder, ufunc: np.ufunc, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Array:
    """ufunc.reduceat(...) of a vector."""
    x, places = array_of(builder, array), array_of(builder, indices)
    if x.ndim != 1 or places.ndim != 1 or places.dtype.kind not in "iu" or out is not None or int(integer(axis)) not in (0, -1):
        raise Decline("reduceat of more than one axis, or into an array")
    given = {} if dtype is None else {"dtype": dtype_of(dtype)}
    try:
        result = ufunc.reduceat(np.ones(1, x.dtype), [0], **given).dtype
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    return only(whole(builder, ReduceAt(ufunc), [x, places], ((places.shape, result),), **given))


@dataclass(frozen=True, slots=True)
class ReduceAt:
    """ufunc.reduceat, which is another object each time that it is read."""

    ufunc: np.ufunc

    @property
    def __name__(self) -> str:
        return f"{self.ufunc.__name__}.reduceat"

    def __call__(self, *arrays: Any, **keywords: Any) -> Any:
        return self.ufunc.reduceat(*arrays, **keywords)


UFUNC_METHODS["reduceat"] = reduceat
