"""What a program's arrays hold when that is known without running it: sizes and constants computed with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Node, bind, topological
from npcompile.tensor_core.meta import Decline, is_static
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.value_ranges import fits_int64, magnitude

LARGEST = 1024  # elements: sizes, axes and index lists are small
MOST_QUESTIONS = 16  # of elements that may be beyond int64

# Integer arithmetic that means the same on Dims as on int64, given values of the size of array sizes.
ON_SIZES = {
    "constant", "literal", "size", "index", "reshape", "permute", "broadcast_to", "slice", "concatenate", "slice_update",
    "gather", "add", "subtract", "multiply", "negative", "floor_divide", "remainder", "reduce", "scan",
    "scalar_add", "scalar_subtract", "scalar_multiply", "scalar_negative",
}  # fmt: skip


COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


def known_contents(node: Node) -> np.ndarray | None:
    """The elements of a small array that depends on constants alone, else None: an array that any NumPy function may read."""
    return numbers_of(_known(node))


def known_values(node: Node) -> Any:
    """Its elements as Python numbers, nested as `tolist` nests them, with a Dim where a size is symbolic; else None.

    NumPy must not read Dims: an array of objects gives it their addresses. So they leave this file in lists alone.
    """
    found = _known(node)
    return None if found is None else found.tolist()


def numbers_of(found: np.ndarray | None) -> np.ndarray | None:
    return None if found is None or found.dtype == object else found


def _known(node: Node) -> np.ndarray | None:
    """The elements that constants and sizes decide: an array of dtype object, with Dims, where a size is symbolic."""
    if (contents := getattr(node, "known", None)) is not None:  # evaluated already
        return contents
    if depends_on_data(node):
        return None
    done: dict[Node, np.ndarray | None] = {}
    for each in topological([node]):
        done[each] = _evaluate(each, done)
    return done[node]


def fixed_contents(node: Node) -> np.ndarray | None:
    """The same with numbers for sizes: comparisons of sizes are answered, else sizes fixed, by guards, where that may be."""
    contents = known_contents(node)
    if contents is not None or depends_on_data(node):
        return contents
    answered: dict[Node, np.ndarray | None] = {}
    for each in topological([node]):
        answered[each] = _evaluate(each, answered, ON_SIZES | COMPARISONS)
    found = answered[node]
    if found is not None and found.dtype != object:
        return found
    done: dict[Node, np.ndarray | None] = {}
    for each in topological([node]):
        try:
            done[each] = np.asarray(int(each.params["value"])) if each.op == "size" else _evaluate(each, done)
        except Decline:  # it changes from call to call
            return None
    return numbers_of(done[node])


def depends_on_data(node: Node) -> bool:
    """Is the array computed from inputs, or from more than a few elements?"""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        if each.op in ("input", "alias") or not is_static(each.shape) or each.meta.size > LARGEST:
            return True
        seen.add(each)
        stack.extend(each.inputs)
    return False


def _evaluate(node: Node, done: dict[Node, np.ndarray | None], on_sizes: set[str] = ON_SIZES) -> np.ndarray | None:
    if node.op == "size":
        return _object(node.params["value"])
    inputs = [found for i in node.inputs if (found := done[i]) is not None]
    if len(inputs) < len(node.inputs):
        return None
    symbolic = any(i.dtype == object for i in inputs)
    if symbolic and node.op == "cast" and node.dtype.kind == "i" and node.dtype.itemsize == 8:  # unsigned wraps a negative size
        return inputs[0]
    if symbolic and node.op not in on_sizes:
        return None
    if symbolic and node.op == "gather" and any(i.dtype == object for i in inputs[1:]):  # positions that sizes decide
        return None
    are_sizes = [symbolic and (k == 0 or node.op != "gather") for k in range(len(inputs))]
    found = _run(node, [_as_objects(i) if is_size else i for i, is_size in zip(inputs, are_sizes)])
    return None if symbolic and found is not None and _may_wrap(found) else found


def _may_wrap(found: np.ndarray) -> bool:
    """Do NumPy's integers, other than the sum or product of symbols, wrap around at some element? Guarded where they do not."""
    large = {v: None for v in found.flat if isinstance(v, (int, Dim)) and magnitude(v) >= 2**63}
    try:
        return len(large) > MOST_QUESTIONS or not all(map(fits_int64, large))
    except Decline:  # sizes that data decides
        return True


def _run(node: Node, inputs: list[Any]) -> np.ndarray | None:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(OPS[node.op].eager(*inputs, **bind(node.params, {})))
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):  # symbolic params, or what NumPy refuses
        return None


def _object(value: Any) -> np.ndarray:
    array = np.empty((), object)
    array[()] = value
    return array


def _as_objects(values: Any) -> np.ndarray:
    return values if values.dtype == object or values.dtype.kind not in "iu" else values.astype(object)
