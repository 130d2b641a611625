"""The order in which NumPy adds floating-point numbers up: its iterator's over the array that is summed.

Axes are sorted by their strides and joined where they lie one after another. Where the innermost is summed over, the numbers of
a run are added pairwise, and the sums of runs one after another to the result. A run is what is joined to that axis, or as much
as a buffer holds (backends/cpu/pairwise.py). Where the innermost stays, rows are added one after another to the results.
Source: numpy/_core/src/multiarray/nditer_constr.c, `npyiter_find_best_axis_ordering` and `npyiter_coalesce_axes`.
"""

from __future__ import annotations

from npcompile.backends.kernels.index import is_one
from npcompile.backends.kernels.kernel import Run
from npcompile.backends.kernels.layouts import estimate
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.ops.reduction import is_ordered
from npcompile.tensor_core.value_ranges import interval_of_size

Key = tuple[object, ...]


def has_order(node: Node) -> bool:
    """Does the order of its additions show in the result, and is it NumPy's?"""
    return node.op == "reduce" and node.params["reducer"] == "add" and node.dtype.kind in "fc" and not is_ordered(node)


def summed(node: Node) -> TensorMeta:
    """Of the array that NumPy's iterator goes over."""
    (x,) = node.inputs
    return x.inputs[0].meta if node.params.get("buffered") and x.op == "cast" else x.meta


def order_of(node: Node) -> list[int]:
    """The axes of the array that is reduced, as NumPy's loops over it go, outermost first; without those of one element."""
    meta = summed(node)
    steps = [abs(estimate(s)) for s in meta.strides]
    inside: list[int] = []  # innermost first
    for axis in reversed(range(meta.ndim)):
        if is_one(meta.shape[axis]):
            continue
        at = len(inside)
        for k in reversed(range(len(inside))):
            other = steps[inside[k]]
            if other and steps[axis]:  # of a stride of 0 nothing is known
                if other <= steps[axis]:
                    break
                at = k
        inside.insert(at, axis)
    return inside[::-1]


def is_in_runs(node: Node) -> bool:
    """Is the innermost axis summed over?"""
    order = order_of(node)
    return not order or order[-1] in node.params["axes"]


def run_of(node: Node) -> Run:
    """What is added up pairwise, of a node that is_in_runs."""
    meta = summed(node)
    axes: list[tuple[Size, Size, bool]] = []
    for axis in reversed(order_of(node)):
        size, stride, is_summed = meta.shape[axis], meta.strides[axis], axis in node.params["axes"]
        if not is_summed and is_several(size):
            break
        if axes and is_summed and axes[-1][2] and same(axes[-1][0] * axes[-1][1], stride):
            axes[-1] = (size * axes[-1][0], axes[-1][1], True)
        else:
            axes.append((size, stride, is_summed))
    while axes and not axes[-1][2]:
        axes.pop()
    return Run(tuple(axes), is_cast=bool(node.params.get("buffered")))


def is_several(size: Size) -> bool:
    """Is it known that the axis has more elements than one?"""
    return interval_of_size(size)[0] > 1


def lanes_of(node: Node) -> str | None:
    """How a reduction adds floating-point numbers: "one by one", or to the lanes of its kind. None where it adds none."""
    if node.op == "reduce" and is_ordered(node):
        return "one by one"
    adds = node.op == "einsum" or node.op == "reduce" and node.params["reducer"] == "add"
    return kind_of(node.dtype) if adds and kind_of(node.dtype) in "fc" else None


def key_of(node: Node) -> Key | None:
    """Equal for sums that can be made in the same loops; None where any order will do."""
    if not has_order(node):
        return None
    reduced = tuple(a for a in order_of(node) if a in node.params["axes"])
    return (reduced, str(run_of(node)) if is_in_runs(node) else "", node.dtype.kind)
