"""Control flow is driven from the host: what is carried stays on the device, and only predicates come from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npcompile.backends.cuda.runtime.graphs import Replayed
from npcompile.backends.cuda.runtime.interface import Device, copied, on_device
from npcompile.tensor_core.graph import Bound, Node
from npcompile.tensor_core.meta import contiguous_strides
from npcompile.tensor_core.op import OPS

MOST_ITERATIONS = 4096  # of a loop that is recorded: each is some nodes of a CUDA graph
MOST_BYTES = 2**26  # of its arrays: memory of a recording stays, and long kernels hide what launches cost


def run_control(device: Device, node: Node, inputs: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """The results of a node of control flow, on the device. Its graphs, `Bound` in `params`, take and give such arrays.

    0-D operands that no iteration replaces may be of the host: kernels take them by value.
    """
    first = 1 if node.op == "cond" else 0  # its predicate is only asked
    replaced = params.get("carried", 0)
    operands = [on_device(device, x) if k >= first and (x.ndim or k < replaced) else x for k, x in enumerate(inputs)]
    if node.op == "for_loop":
        results = for_loop(device, operands, **params)
    else:
        results = OPS[node.op].eager(*operands, **params)
    # A loop without iterations gives what it was given.
    return tuple(copied(device, x) if any(x is o for o in operands) else on_device(device, x) for x in results)


def run_loop(device: Device, loop: Replayed, inputs: Sequence[Any], params: dict[str, Any], sizes: dict[str, int]) -> Any:
    """The results of a `for_loop`; it runs as it is where it is too long for a recording."""
    if not 1 < params["length"] <= MOST_ITERATIONS:
        return loop.runner(device, inputs, tuple(sizes.items()))
    carried = params["carried"]
    given = [on_device(device, x) if x.ndim or k < carried else x for k, x in enumerate(inputs)]
    return tuple(loop.run(device, given, tuple(sizes.items())))


def for_loop(
    device: Device,
    operands: Sequence[Any],
    *,
    body_graph: Bound,
    carried: int,
    scanned: int,
    length: int,
    reverse: bool = False,
    extends: Any = None,
) -> tuple[Any, ...]:
    """See `tensor_core.ops.control.for_loop`. Elements are views of the arrays; results are stacked where they are made."""
    carry, arrays = operands[:carried], operands[carried : carried + scanned]
    constants = operands[carried + scanned :]
    metas = body_graph.graph.metas[carried:]
    stacked = []
    for shape, meta in zip(body_graph.shapes[carried:], metas):
        shape = (length, *shape)
        strides: Any = contiguous_strides(shape, meta.dtype.itemsize)
        stacked.append(device.empty(shape, meta.dtype, strides))
    for k in range(length - 1, -1, -1) if reverse else range(length):
        results = body_graph(*carry, *[x[k, ...] for x in arrays], *constants)
        carry = results[:carried]
        for array, value in zip(stacked, results[carried:]):
            place = array[k, ...]
            if place.strides == value.strides:
                device.assign(place, value)
            else:
                place[...] = value
    return (*carry, *stacked)
