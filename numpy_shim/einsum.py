"""np.einsum: subscripts as labels of axes, one node for the product, and the memory order that NumPy gives the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, dtype_of, flag, is_sequence, order_of, require_cast, unbox, write_out
from npcompile.numpy_shim.contraction import SHORT_SUM, Labels, as_called, common_dtype, contract
from npcompile.numpy_shim.registry import implements, is_traced, result_dtype
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, cast, fresh, permute, reshape, reshaped, transpose
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import (
    Decline,
    Shape,
    TensorMeta,
    by_strides,
    concrete,
    contiguous_strides,
    is_contiguous,
    keep_order_strides,
    packed_strides,
    product,
)
from npcompile.tensor_core.ops.numpy_calls import Keywords


@implements(np.einsum)
def einsum(builder: Builder, *operands: Any, out: Any = None, optimize: Any = False, **keywords: Any) -> Array:
    path = optimize if is_sequence(optimize) or isinstance(optimize, str) else flag(optimize)
    unknown = set(keywords) - {"dtype", "order", "casting"}
    if unknown:
        raise Decline(f"einsum({', '.join(sorted(unknown))}=)")
    text, values = subscripts_of(operands)
    arrays = [array_of(builder, v) for v in values]
    inputs, output = parse_subscripts(text, [x.ndim for x in arrays])
    dtype = keywords.get("dtype")
    dtype = common_dtype(*arrays) if dtype is None else dtype_of(dtype, takes_classes=False)
    for x in arrays:
        require_cast(x.dtype, dtype, keywords.get("casting", "safe"))
    order = order_of(keywords.get("order"), default="K")
    if len(arrays) == 1 and len(output) == len(set(inputs[0])) and out is None:
        return rearranged(builder, arrays[0], inputs[0], output, dtype, order)
    if (called := called_einsum(builder, text, arrays, inputs, output, dtype, keywords, optimize)) is not None:
        result = unbox(fresh(builder, called, einsum_meta(called.meta.shape, dtype, arrays, inputs, output, order)))
    elif path is False:
        nodes = [(cast(builder, x.node, dtype), labels) for x, labels in zip(arrays, inputs)]
        node = contract(builder, nodes, output, block=SHORT_SUM)
        result = unbox(fresh(builder, node, einsum_meta(node.meta.shape, dtype, arrays, inputs, output, order)))
    else:
        nodes = [(x.node, labels) for x, labels in zip(arrays, inputs)]
        steps = contraction_path(nodes, output, path)
        node = contract_pairs(builder, nodes, output, steps, None if keywords.get("dtype") is None else dtype)
        result = optimized_result(builder, node, inputs, output, arrays, steps, keywords)
    return result if out is None else write_out(out, result, keywords.get("casting", "safe"))


def called_einsum(
    builder: Builder,
    text: str,
    arrays: Sequence[Array],
    inputs: Sequence[Labels],
    output: Labels,
    dtype: np.dtype,
    keywords: dict[str, Any],
    optimize: Any,
) -> Node | None:
    """NumPy's own, where its bits are asked for."""
    if is_sequence(optimize) and builder.root.is_bitwise:
        raise Decline("einsum by a path that is given")
    function = Keywords(einsum_of, (("subscripts", text), ("optimize", optimize), *keywords.items()))
    return as_called(builder, function, arrays, inputs, output, dtype)


def einsum_of(*arrays: Any, subscripts: str, **keywords: Any) -> Any:
    return np.einsum(subscripts, *arrays, **keywords)


Steps = list[tuple[int, ...]]


def contraction_path(operands: list[tuple[Node, Labels]], output: Labels, path: Any) -> Steps:
    """Which operands einsum(optimize=) contracts one after the other: pairs in the order that NumPy finds best."""
    letters = {label: k for k, label in enumerate(dict.fromkeys(label for _, labels in operands for label in labels))}
    shown = [
        v for node, labels in operands for v in (np.broadcast_to(0, concrete(node.meta.shape)), [letters[i] for i in labels])
    ]
    try:
        found, _ = np.einsum_path(*shown, [letters[label] for label in output], optimize=path)
    except (TypeError, ValueError, KeyError) as error:
        raise Decline(str(error)) from None
    return found[1:]


def contract_pairs(
    builder: Builder, operands: list[tuple[Node, Labels]], output: Labels, steps: Steps, dtype: np.dtype | None
) -> Node:
    """The product of all. Each step is of the dtype of its own operands, unless one is given."""
    for step in steps:
        chosen = [operands[k] for k in step]
        operands = [operand for k, operand in enumerate(operands) if k not in step]
        needed = {*output, *(label for _, labels in operands for label in labels)}
        kept = tuple(dict.fromkeys(label for _, labels in chosen for label in labels if label in needed))
        kept = kept if operands else output
        common = result_dtype(*(node.dtype for node, _ in chosen)) if dtype is None else dtype
        operands.append((contract(builder, [(cast(builder, node, common), labels) for node, labels in chosen], kept), kept))
    ((node, _),) = operands
    return node


def optimized_result(
    builder: Builder, node: Node, inputs: Sequence[Labels], output: Labels, arrays: Sequence[Array], steps: Steps, keywords: Any
) -> Array:
    """The result with the memory order that NumPy's products of pairs give it: it is seen on small arrays that lie alike."""
    if any(n == 0 for x in arrays for n in x.shape):
        raise Decline("einsum(optimize=) of an empty array")
    letters = {label: k for k, label in enumerate(dict.fromkeys(label for labels in inputs for label in labels))}
    shown = [v for x, labels in zip(arrays, inputs) for v in (lying_alike(x), [letters[label] for label in labels])]
    try:
        seen = np.einsum(*shown, [letters[label] for label in output], optimize=["einsum_path", *steps], **keywords)
    except (AttributeError, TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    order = sorted(range(seen.ndim), key=lambda axis: -abs(seen.strides[axis]))
    if isinstance(seen, np.ndarray) and seen.base is not None and seen.base.size == seen.size and seen.base.flags.c_contiguous:
        return view_of_matrix(builder, node, order, [seen.shape[axis] for axis in order], seen.base)
    strides = packed_strides(node.meta.shape, seen.itemsize, order)
    return fresh(builder, node, TensorMeta(node.meta.shape, seen.dtype, strides), boxed=isinstance(seen, np.ndarray))


def view_of_matrix(builder: Builder, node: Node, order: list[int], sizes: list[int], like: np.ndarray) -> Array:
    """The result as a view of the product that NumPy made: like `like`, whose axes have one or more of those of `sizes` each."""
    lying = permute(builder, node, tuple(order))
    shape = lying.meta.shape
    ends = [0]
    for n in like.shape[:-1]:
        end = ends[-1]
        while math.prod(sizes[ends[-1] : end]) < n:
            end += 1
        ends.append(end)
    matrix = tuple(product(shape[begin:end]) for begin, end in zip(ends, [*ends[1:], len(shape)]))
    made = fresh(builder, reshaped(builder, lying, matrix), TensorMeta(matrix, like.dtype))
    return transpose(reshape(made, shape), [int(axis) for axis in np.argsort(order)])


def lying_alike(x: Array) -> np.ndarray:
    """Two elements along each axis that has more than one, in the same order of memory."""
    sizes = [1 if same(n, 1) or n == 1 else 2 for n in x.shape]
    order = sorted(range(x.ndim), key=lambda axis: (x.meta.strides[axis] == 0, -abs(x.meta.strides[axis])))
    small = np.zeros([sizes[axis] for axis in order], x.dtype).transpose(np.argsort(order) if order else ())
    small = small[tuple(slice(None, None, -1 if stride < 0 else None) for stride in x.meta.strides)]
    return np.broadcast_to(small[tuple(slice(1 if stride == 0 else None) for stride in x.meta.strides)], sizes)


def subscripts_of(operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """einsum takes a text and arrays, or arrays and lists of axis numbers by turns."""
    if not operands:
        raise Decline("must provide at least an operand")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    values, lists = operands[0:-1:2] if len(operands) % 2 else operands[0::2], operands[1::2]
    terms = [list_text(labels) for labels in lists]
    text = ",".join(terms)
    return f"{text}->{list_text(operands[-1])}" if len(operands) % 2 else text, values


def list_text(labels: Any) -> str:
    if not is_sequence(labels) or is_traced(labels):
        raise Decline("subscripts must be lists of integers")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if not all(label is Ellipsis or (isinstance(label, int) and 0 <= label < len(letters)) for label in labels):
        raise Decline("a subscript that is not in 0..51")
    return "".join("..." if label is Ellipsis else letters[label] for label in labels)


def parse_subscripts(text: str, ndims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Labels of each operand's axes and of the result's. Axes of an ellipsis count from the right, below 0."""
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise Decline("more or fewer operands than subscripts")
    inputs = [term_labels(term, ndim) for term, ndim in zip(terms, ndims)]
    widest = min((label for labels in inputs for label in labels if label < 0), default=0)
    hidden = tuple(range(widest, 0))
    if arrow:
        output = term_labels(right, None, hidden)
        known = {label for labels in inputs for label in labels}
        if len(set(output)) != len(output) or not set(output) <= known | set(hidden):
            raise Decline("einsum subscripts string has a wrong output")
        if hidden and "..." not in right:
            raise Decline("output has broadcast dimensions that are not in its subscripts")
        return inputs, output
    letters = [label for labels in inputs for label in labels if label >= 0]
    return inputs, (*hidden, *sorted(label for label in set(letters) if letters.count(label) == 1))


def term_labels(term: str, ndim: int | None, hidden: Labels = ()) -> Labels:
    before, ellipsis, after = term.partition("...")
    letters = before + after
    if any(not (c.isascii() and c.isalpha()) for c in letters):
        raise Decline(f"einsum subscripts {term!r}")
    if ndim is not None:
        missing = ndim - len(letters)
        if missing < 0 or (missing and not ellipsis):
            raise Decline("operand has another number of dimensions than subscripts")
        hidden = tuple(range(-missing, 0))
    return (*map(ord, before), *(hidden if ellipsis else ()), *map(ord, after))


def rearranged(builder: Builder, x: Array, labels: Labels, output: Labels, dtype: np.dtype, order: str) -> Array:
    """einsum of one operand without a sum: a view with its axes in another order."""
    if len(set(labels)) != len(labels):
        raise Decline("a writeable view of a diagonal", "Use np.diagonal.")
    if x.dtype != dtype:
        raise Decline("einsum of one operand to another dtype")
    return unbox(views.transpose(x, [labels.index(label) for label in output]))


def einsum_meta(
    shape: Shape, dtype: np.dtype, arrays: Sequence[Array], inputs: Sequence[Labels], output: Labels, order: str
) -> TensorMeta:
    """Memory order of the result: with order='K' that of nditer over all labels, summed ones last."""
    if order == "A":
        order = "F" if all(is_contiguous(x.meta, "F") for x in arrays) else "C"
    if order != "K":
        return TensorMeta(shape, dtype, contiguous_strides(shape, dtype.itemsize, order))
    summed = dict.fromkeys(label for labels in inputs for label in labels if label not in output)
    every = (*output, *summed)
    sizes = {label: n for x, labels in zip(arrays, inputs) for label, n in zip(labels, x.shape)} | dict(zip(output, shape))
    full = tuple(sizes[label] for label in every)
    strides = [tuple(label_stride(x, labels, label) for label in every) for x, labels in zip(arrays, inputs)]
    metas = [TensorMeta(full, dtype, steps) for steps in strides]
    packed = keep_order_strides(full, dtype.itemsize, metas)
    outermost_first = [axis for axis in by_strides(packed) if axis < len(output)]
    return TensorMeta(shape, dtype, packed_strides(shape, dtype.itemsize, outermost_first))


def label_stride(x: Array, labels: Labels, label: int) -> Size:
    """How far a step along a label moves in an operand: not at all when it has no such axis, or one that repeats."""
    return sum((s for known, n, s in zip(labels, x.shape, x.meta.strides) if known == label and not same(n, 1)), 0)
