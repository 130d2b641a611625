"""Products of matrices and tensors: dot, matmul, einsum and their kin, as sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, axes_of, axis_of, copy_of, integer, is_sequence, scalar, unbox, write_out
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.manipulation import part, ravel
from npcompile.numpy_shim.registry import FUNCTIONS, implements, result_dtype
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, as_it_lies, cast, fresh, reshape, reshaped
from npcompile.tensor_core.dim import Dim, Size, minimum, same
from npcompile.tensor_core.dtypes import is_bfloat16, is_same_dtype
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import (
    Decline,
    Shape,
    TensorMeta,
    broadcast_strides,
    contiguous_strides,
    is_at_least,
    is_contiguous,
    keep_order_strides,
    product,
)
from npcompile.tensor_core.ops.numpy_calls import Keywords

Labels = tuple[int, ...]


SHORT_SUM = 32  # products that np.einsum adds one after another: it keeps several sums side by side


def contract(builder: Builder, operands: Sequence[tuple[Node, Labels]], output: Labels, *, block: int | None = None) -> Node:
    """The einsum node for operands whose axes have labels. Axes of length 1 repeat along longer ones of their label.

    A label that is twice in one operand takes its diagonal.
    """
    if any(is_bfloat16(node.dtype) for node, _ in operands):
        raise Decline("sums of products in bfloat16 run as NumPy", "Convert the operands: x.astype(np.float32).")
    operands = [diagonals(builder, node, labels) for node, labels in operands]
    sizes: dict[int, Size] = {}
    for node, labels in operands:
        for label, n in zip(labels, node.meta.shape):
            known = sizes.get(label, 1)
            if same(known, 1) or (not same(known, n) and known == 1):
                sizes[label] = n
            elif not same(known, n) and known != n and n != 1:
                raise Decline(f"operands could not be broadcast together: an axis is {known} and {n} long")
    nodes, inputs = [], []
    for node, labels in operands:
        repeated = [k for k, (label, n) in enumerate(zip(labels, node.meta.shape)) if not same(n, sizes[label]) and n == 1]
        if repeated:
            node = reshaped(builder, node, tuple(n for k, n in enumerate(node.meta.shape) if k not in repeated))
            labels = tuple(label for k, label in enumerate(labels) if k not in repeated)
        nodes.append(node)
        inputs.append(labels)
    missing = [label for label in output if not any(label in labels for labels in inputs)]
    kept = tuple(label for label in output if label not in missing)
    number = {label: k for k, label in enumerate(dict.fromkeys(label for labels in inputs for label in labels))}
    numbered = tuple(tuple(number[label] for label in labels) for labels in inputs)
    options = {} if block is None else {"block": block}
    result = builder.apply("einsum", *nodes, inputs=numbered, output=tuple(number[label] for label in kept), **options)
    return reshaped(builder, result, tuple(sizes[label] for label in output)) if missing else result


def diagonals(builder: Builder, node: Node, labels: Labels) -> tuple[Node, Labels]:
    """The operand with every label once."""
    for label in labels:
        if labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            require_equal(node.meta.shape[first], node.meta.shape[second])
            node = views.read_diagonal(builder, node, views.Diagonal(0, first, second, node.meta.shape[first]))
            rest = tuple(other for axis, other in enumerate(labels) if axis not in (first, second))
            return diagonals(builder, node, (*rest, label))
    return node, labels


def common_dtype(*arrays: Array) -> np.dtype:
    return result_dtype(*(x.dtype for x in arrays))


def as_called(
    builder: Builder,
    function: Callable[..., Any],
    arrays: Sequence[Array],
    inputs: Sequence[Labels],
    output: Labels,
    dtype: np.dtype,
) -> Node | None:
    """The product as NumPy's function makes it, where its bits are asked for; which of these functions it is shows in them."""
    if not builder.root.is_bitwise or dtype.kind not in "fc":
        return None
    nodes = map(as_it_lies, arrays)
    return builder.apply("numpy_product", *nodes, inputs=tuple(inputs), output=output, function=function, dtype=dtype)


def product_of(
    builder: Builder, function: Callable[..., Any], a: Array, b: Array, a_labels: Labels, b_labels: Labels, output: Labels
) -> Array:
    """A fresh C-ordered array, function(a, b); a scalar when it has no axes."""
    dtype = common_dtype(a, b)
    if (called := as_called(builder, function, (a, b), (a_labels, b_labels), output, dtype)) is not None:
        return unbox(fresh(builder, called, TensorMeta(called.meta.shape, dtype)))
    first, second = (cast(builder, x.node, dtype) for x in (a, b))
    node = contract(builder, [(first, a_labels), (second, b_labels)], output)
    if max(a.ndim, b.ndim) <= 2:
        node = with_one_number(builder, node, (a, first), (b, second))
    return unbox(fresh(builder, node, TensorMeta(node.meta.shape, dtype)))


def is_one(x: Array) -> bool:
    return all(same(n, 1) for n in x.shape)


def with_one_number(builder: Builder, made: Node, *factors: tuple[Array, Node]) -> Node:
    """What NumPy makes of a product where an operand is a single number: by BLAS's axpy, or of two such by one multiplication."""
    ones = [node for x, node in factors if is_one(x)]
    if len(ones) == 2 and made.dtype.char in "fdFD":
        return builder.apply("multiply", *(reshaped(builder, node, made.shape) for node in ones))
    return as_axpy(builder, made, ones[0]) if len(ones) == 1 else made


def as_axpy(builder: Builder, product: Node, factor: Node) -> Node:
    """The product with a single number, for which BLAS adds to zeros: -0.0 becomes 0.0, and NaN times 0 is 0."""
    if product.dtype.char not in "fdFD":
        return product
    zeros = views.full(builder, product.shape, 0, product.dtype)
    factor = views.expand(builder, reshaped(builder, factor, ()), product.shape)
    # Only NaN is replaced, so that a factor that is 0 has its derivative.
    is_nothing = builder.apply("logical_and", builder.apply("equal", factor, zeros), builder.apply("isnan", product))
    return builder.apply("where", is_nothing, zeros, builder.apply("add", product, zeros))


def require_equal(n: Size, m: Size) -> None:
    if not same(n, m) and n != m:
        raise Decline(f"shapes not aligned: {n} and {m}")


# --- dot and its kin


def factor_of(builder: Builder, value: Any) -> Array:
    """An argument of products that NumPy has in C: an empty list has no dtype there, it takes the other's."""
    x = array_of(builder, value)
    if is_sequence(value) and any(same(n, 0) for n in x.shape):
        raise Decline("a product with an empty list")
    return x


def dot_arrays(builder: Builder, a: Array, b: Any, out: Any = None) -> Array:
    """Sum over the last axis of a and the last but one (or only) axis of b."""
    b = factor_of(builder, b)
    if not a.ndim or not b.ndim:
        result = scaled(builder, a, b)
    else:
        axis = max(b.ndim - 2, 0)
        require_equal(a.shape[-1], b.shape[axis])
        a_labels = tuple(range(a.ndim))
        b_labels = tuple(a.ndim - 1 if i == axis else a.ndim + i for i in range(b.ndim))
        output = (*a_labels[:-1], *b_labels[:axis], *b_labels[axis + 1 :])
        result = product_of(builder, np.dot, a, b, a_labels, b_labels, output)
    if out is not None and not result.ndim:
        raise Decline("a product of vectors with out=, which is a scalar nevertheless")
    return result if out is None else into(out, result)


def scaled(builder: Builder, a: Array, b: Array) -> Array:
    """The product with a 0-D operand: a ufunc, but for matrices that BLAS takes."""
    dtype = common_dtype(a, b)
    if max(a.ndim, b.ndim) > 2 or dtype.char not in "fdFD":
        a, b = (x if is_same_dtype(x.dtype, dtype) else copy_of(x, "K", dtype) for x in (a, b))
        return FUNCTIONS[np.multiply](builder, a, b)
    shape = a.shape or b.shape
    factors = [cast(builder, x.node, dtype) for x in (a, b)]
    node = builder.apply("multiply", *(views.expand(builder, f, shape) for f in factors))
    if any(n != 1 for n in shape):
        node = as_axpy(builder, node, factors[1] if a.ndim else factors[0])
    return unbox(fresh(builder, node, TensorMeta(shape, dtype)))


def into(out: Any, result: Array) -> Array:
    """np.dot's out: exactly the array that it would make."""
    if not isinstance(out, Array) or out.dtype != result.dtype or not is_contiguous(out.meta, "C"):
        raise Decline("output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)")
    return write_out(out, result)


@implements(np.dot)
def dot(builder: Builder, a: Any, b: Any, out: Any = None) -> Array:
    return dot_arrays(builder, factor_of(builder, a), b, out)


@implements(np.inner)
def inner(builder: Builder, a: Any, b: Any, /) -> Array:
    """Sum over the last axes of both."""
    a, b = factor_of(builder, a), factor_of(builder, b)
    if not a.ndim or not b.ndim:
        return scaled(builder, a, b)
    require_equal(a.shape[-1], b.shape[-1])
    a_labels = tuple(range(a.ndim))
    b_labels = (*range(a.ndim, a.ndim + b.ndim - 1), a.ndim - 1)
    return product_of(builder, np.inner, a, b, a_labels, b_labels, (*a_labels[:-1], *b_labels[:-1]))


@implements(np.vdot)
def vdot(builder: Builder, a: Any, b: Any, /) -> Array:
    whole = tuple(factor_of(builder, x) for x in (a, b))
    a, b = (ravel(builder, x) for x in whole)
    require_equal(a.shape[0], b.shape[0])
    dtype = common_dtype(a, b)
    labels = tuple(range(whole[0].ndim))
    if builder.root.is_bitwise and len(labels) != whole[1].ndim:
        raise Decline("np.vdot of arrays of different shapes, as they lie")
    if (called := as_called(builder, np.vdot, whole, (labels, labels), (), dtype)) is not None:
        return scalar(builder, called)
    first = cast(builder, a.node, dtype)
    if dtype.kind == "c":
        first = builder.apply("conjugate", first)
    node = contract(builder, [(first, (0,)), (cast(builder, b.node, dtype), (0,))], ())
    return scalar(builder, node)


@implements(np.outer)
def outer(builder: Builder, a: Any, b: Any, out: Any = None) -> Array:
    if out is ... or isinstance(out, tuple):
        raise Decline("an output that is only allowed as a keyword argument")
    column, row = (ravel(builder, array_of(builder, x)) for x in (a, b))
    column = views.reshape(column, (*column.shape, 1))
    row = views.reshape(row, (1, *row.shape))
    return FUNCTIONS[np.multiply](builder, column, row, **({} if out is None else {"out": out}))


@implements(np.tensordot)
def tensordot(builder: Builder, a: Any, b: Any, axes: Any = 2) -> Array:
    a, b = array_of(builder, a), array_of(builder, b)
    first, second = summed_axes(a, b, axes)
    for i, j in zip(first, second):
        require_equal(a.shape[i], b.shape[j])
    a_labels = tuple(range(a.ndim))
    partner = dict(zip(second, first))
    b_labels = tuple(partner.get(j, a.ndim + j) for j in range(b.ndim))
    output = (*(i for i in a_labels if i not in first), *(label for j, label in enumerate(b_labels) if j not in partner))
    dtype = common_dtype(a, b)
    function = Keywords(np.tensordot, (("axes", (first, second)),))
    node = as_called(builder, function, (a, b), (a_labels, b_labels), output, dtype)
    if node is None:
        factors = [cast(builder, x.node, dtype) for x in (a, b)]
        node = contract(builder, [(factors[0], a_labels), (factors[1], b_labels)], output)
        node = with_one_number(builder, node, (a, factors[0]), (b, factors[1]))
    shape, rows = node.meta.shape, a.ndim - len(first)
    matrix = product(shape[:rows]), product(shape[rows:])  # NumPy's result is a view of it
    made = fresh(builder, views.reshaped(builder, node, matrix), TensorMeta(matrix, dtype))
    return made.view("reshape", shape, TensorMeta(shape, dtype))


def summed_axes(a: Array, b: Array, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not is_sequence(axes):
        count = max(int(integer(axes)), 0)
        if count > min(a.ndim, b.ndim):
            raise Decline("shape-mismatch for sum")
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(axes) != 2:
        raise Decline("axes must be two sequences")
    first, second = axes_of(axes[0], a.ndim), axes_of(axes[1], b.ndim)
    if len(first) != len(second):
        raise Decline("shape-mismatch for sum")
    return first, second


# --- matrix products over broadcast stacks

DEFAULTS = {"casting": "same_kind", "order": "K", "dtype": None, "subok": True, "signature": None, "keepdims": False}


def stacked_product(ufunc: np.ufunc, a_core: str, b_core: str) -> None:
    """Register a gufunc that sums over axis `n` of both; other letters of the cores are axes of the result."""

    def captured(builder: Builder, x1: Any, x2: Any, /, out: Any = None, **keywords: Any) -> Array:
        if ufunc.signature.startswith("(n),(n)") and isinstance(keywords.get("axis"), int):
            axis = keywords.pop("axis")
            x1, x2 = (last_axis(array_of(builder, x), axis) for x in (x1, x2))
        unusual = [k for k, v in keywords.items() if k not in DEFAULTS or type(v) is not type(DEFAULTS[k]) or v != DEFAULTS[k]]
        if unusual:
            raise Decline(f"{ufunc.__name__}({', '.join(unusual)}=)")
        a, b = array_of(builder, x1), array_of(builder, x2)
        cores = [core_of(ufunc, a, a_core, "m"), core_of(ufunc, b, b_core, "p")]
        if a.ndim < len(cores[0]) or b.ndim < len(cores[1]):
            raise Decline(f"{ufunc.__name__}: Input operand does not have enough dimensions")
        try:
            dtype = ufunc.resolve_dtypes((a.dtype, b.dtype, None))[-1]
        except TypeError as error:
            raise Decline(str(error)) from None
        require_equal(*(x.shape[x.ndim - len(core) + core.index("n")] for x, core in zip((a, b), cores)))
        labels = [labels_of(x, core) for x, core in zip((a, b), cores)]
        stack = max((label[: len(label) - len(core)] for label, core in zip(labels, cores)), key=len)
        output = (*stack, *(ord(c) for core in cores for c in core if c != "n"))
        node = as_called(builder, ufunc, (a, b), labels, output, dtype)
        if node is None:
            first = cast(builder, a.node, dtype)
            if ufunc in CONJUGATES_FIRST and dtype.kind == "c":
                first = builder.apply("conjugate", first)
            node = contract(builder, [(first, labels[0]), (cast(builder, b.node, dtype), labels[1])], output)
        stacks = [(x, x.ndim - len(core)) for x, core in zip((a, b), cores)]
        result = unbox(fresh(builder, node, stacked_meta(node.meta.shape, dtype, stacks)))
        return result if out is None else write_out(out[0] if isinstance(out, tuple) else out, result)

    implements(ufunc)(captured)


def last_axis(x: Array, axis: int) -> Array:
    """The array with the axis that is summed over as its last."""
    axis = axis_of(axis, x.ndim)
    return views.transpose(x, [*(a for a in range(x.ndim) if a != axis), axis])


def core_of(ufunc: np.ufunc, x: Array, core: str, optional: str) -> str:
    """matmul takes a vector for a matrix of one row or column, which the result does not have."""
    return core.replace(optional, "") if ufunc is np.matmul and x.ndim == 1 else core


def stacked_meta(shape: Shape, dtype: np.dtype, stacks: Sequence[tuple[Array, int]]) -> TensorMeta:
    """Memory order of a gufunc's result: the stack as the operands have it, then the core in C order."""
    width = max(count for _, count in stacks)
    stack, core = shape[:width], shape[width:]
    metas = [TensorMeta(x.shape[:count], dtype, x.meta.strides[:count]) for x, count in stacks if count]
    metas = [m.with_(shape=stack, strides=broadcast_strides(m, stack)) for m in metas]
    outer = keep_order_strides(stack, dtype.itemsize * product(core), metas)
    return TensorMeta(shape, dtype, (*outer, *contiguous_strides(core, dtype.itemsize)))


def labels_of(x: Array, core: str) -> Labels:
    """Stack axes count from the right, below 0; core axes are their letters."""
    stack = x.ndim - len(core)
    return (*range(-stack, 0), *map(ord, core))


CONJUGATES_FIRST = {getattr(np, name) for name in ("vecdot", "vecmat") if hasattr(np, name)}
stacked_product(np.matmul, "mn", "np")
if hasattr(np, "vecdot"):
    stacked_product(np.vecdot, "n", "n")
if hasattr(np, "matvec"):
    stacked_product(np.matvec, "mn", "n")
    stacked_product(np.vecmat, "n", "np")


# --- convolution


@implements(np.convolve)
def convolve(builder: Builder, a: Any, v: Any, mode: Any = "full") -> Array:
    """Sums of a[i - k] * v[k]. NumPy asks which is longer, and takes that first."""
    if not isinstance(mode, str):
        raise Decline(f"np.convolve with mode={mode!r}")
    a, v = (reshape(x, (1,)) if not x.ndim else x for x in (factor_of(builder, a), factor_of(builder, v)))
    if a.ndim == v.ndim == 1 and not is_short(v, a) and (is_short(a, v) or a.shape[0] < v.shape[0]):
        a, v = v, a
    backwards = getitem(builder, v, slice(None, None, -1)) if v.ndim == 1 else v
    return correlation(builder, a, backwards, mode, conjugates=False)


@implements(np._core.multiarray.correlate)
def correlate_reversed(builder: Builder, a: Any, v: Any, mode: Any = 0) -> Array:
    """Sums of a[i + k] * v[k], where a goes on with zeros. NumPy calls it with the longer vector first."""
    a, v = factor_of(builder, a), factor_of(builder, v)
    require_longer(a, v)
    return correlation(builder, a, v, mode, conjugates=False)


@implements(np._core.multiarray.correlate2)
def correlate(builder: Builder, a: Any, v: Any, mode: Any = 0) -> Array:
    """What np.correlate calls."""
    a, v = factor_of(builder, a), factor_of(builder, v)
    if not is_short(v, a) or mode in (1, "same"):  # which is longer decides on which side "same" has one more
        require_longer(a, v)
    return correlation(builder, a, v, mode, conjugates=True)


def is_short(v: Array, a: Array) -> bool:
    """Is v so short that its products with zeros around a cost little, while nobody knows which is longer?"""
    return a.ndim == v.ndim == 1 and isinstance(v.shape[0], int) and v.shape[0] <= SHORT and isinstance(a.shape[0], Dim)


def require_longer(a: Array, v: Array) -> None:
    if a.ndim == v.ndim == 1 and a.shape[0] < v.shape[0]:
        raise Decline("correlation with the longer vector second")


def correlation(builder: Builder, a: Array, v: Array, mode: Any, conjugates: bool) -> Array:
    """Sums of a[i + k] * v[k]: `mode` says for how many i, by the length of the shorter vector."""
    if builder.root.is_bitwise and common_dtype(a, v).kind in "fc":
        raise Decline("NumPy's own sums of products, which are not a product of matrices")
    if (
        a.ndim != 1
        or v.ndim != 1
        or not isinstance(mode, (int, str))
        or mode not in MARGINS
        or a.shape[0] == 0
        or v.shape[0] == 0
    ):
        raise Decline("correlation of arrays that are not vectors, or are empty, or of another mode")
    length, width = a.shape[0], v.shape[0]
    if is_at_least(length, width):
        return sums_of_products(builder, a, v, MARGINS[mode](width), conjugates)
    whole = sums_of_products(builder, a, v, full_length(width), conjugates)
    shorter = minimum(length, width)
    before, after = (full - kept for full, kept in zip(full_length(shorter), MARGINS[mode](shorter)))
    if same(before, 0) and same(after, 0):
        return whole
    count = whole.shape[0] - before - after
    return fresh(builder, part(builder, whole.node, 0, before, count), TensorMeta((count,), whole.dtype))


def sums_of_products(builder: Builder, a: Array, v: Array, margins: tuple[Size, Size], conjugates: bool) -> Array:
    """`margins`: how many zeros stand before and after a."""
    length, width, (before, after) = a.shape[0], v.shape[0], margins
    dtype = common_dtype(a, v)
    nodes = [cast(builder, x.node, dtype) for x in (a, v)]
    if conjugates and dtype.kind == "c":
        nodes[1] = builder.apply("conjugate", nodes[1])
    zeros = [views.full(builder, (n,), 0, dtype) for n in (before, after)]
    parts = [part for part, n in zip((zeros[0], nodes[0], zeros[1]), (before, length, after)) if not same(n, 0)]
    padded = builder.apply("concatenate", *parts, axis=0) if len(parts) > 1 else parts[0]
    count = length + before + after - width + 1
    if isinstance(width, int) and width <= FEW and dtype.kind != "b":
        node = sum_of_shifted(builder, padded, nodes[1], count, width, (int(before), length))
        return fresh(builder, node, TensorMeta((count,), dtype))
    if len(parts) > 1 and dtype.kind in "fc":  # NumPy has no terms outside: there infinity times 0 would be NaN
        is_finite = builder.apply("isfinite", nodes[1])
        builder.apply("require_none", builder.apply("logical_not", is_finite))
    shape = (count, width)
    windows = builder.apply("gather", padded, windows_of(builder, shape))
    node = contract(builder, [(windows, (0, 1)), (nodes[1], (1,))], (0,))
    return fresh(builder, node, TensorMeta(node.meta.shape, dtype))


def valid(width: Size) -> tuple[Size, Size]:
    return 0, 0


def same_length(width: Size) -> tuple[Size, Size]:
    return width // 2, width - width // 2 - 1


def full_length(width: Size) -> tuple[Size, Size]:
    return width - 1, width - 1


# mode -> length of the second vector -> zeros before and after the first
MARGINS = {0: valid, "valid": valid, 1: same_length, "same": same_length, 2: full_length, "full": full_length}


SHORT = 256  # terms of a sum for each element
FEW = 32  # terms that are added one by one, which needs no gather


def sum_of_shifted(builder: Builder, padded: Node, factors: Node, count: Size, width: int, inside: tuple[int, Size]) -> Node:
    """`inside`: where what is padded begins, and how long it is. Outside NumPy has no terms, not even infinity times 0."""
    before, length = inside
    zero = views.full(builder, (count,), 0, factors.dtype)
    index = builder.apply("index", shape=(count,), axis=0)
    total = zero  # a dot product is never -0.0
    for k in range(width):
        factor = views.expand(builder, part(builder, factors, 0, k, 1), (count,))
        term = builder.apply("multiply", part(builder, padded, 0, k, count), factor)
        if factors.dtype.kind in "fc" and k < before:
            first = views.expand(builder, views.size_node(builder, before - k), (count,))
            term = builder.apply("where", builder.apply("greater_equal", index, first), term, zero)
        if factors.dtype.kind in "fc" and not same(before + length - k, count) and before + length - k < count:
            end = views.expand(builder, views.size_node(builder, before + length - k), (count,))
            term = builder.apply("where", builder.apply("less", index, end), term, zero)
        total = builder.apply("add", total, term)
    return total


def windows_of(builder: Builder, shape: Shape) -> Node:
    """i + k: where element k of window i lies."""
    return builder.apply("add", *(builder.apply("index", shape=shape, axis=axis) for axis in (0, 1)))
