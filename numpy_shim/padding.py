"""np.pad: what stands around the elements, joined on axis by axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, product
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, assigned, integer, is_sequence, known_sequence
from npcompile.numpy_shim.manipulation import part
from npcompile.numpy_shim.registry import implements
from npcompile.tensor_core.array import Array, expand, fresh, full
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, TensorMeta, contiguous_strides, order_in_memory

Run = tuple[Size, int, Size]  # first position, step, how many
MOST_RUNS = 8  # longer pads repeat the elements more often than is worth a program
MOST_BLOCKS = 128


@implements(np.pad)
def pad(builder: Builder, array: Any, pad_width: Any, mode: Any = "constant", **keywords: Any) -> Array:
    """Modes that place constants or elements; those that compute with elements decline."""
    x = array_of(builder, array)
    if not x.ndim:
        raise Decline("padding a 0-D array")
    widths = [(integer(before), integer(after)) for before, after in pairs(pad_width, x.ndim)]
    if any(n < 0 for pair in widths for n in pair):
        raise Decline("index can't contain negative values")
    if not isinstance(mode, str):
        raise Decline("np.pad by a function")
    node = x.node
    if mode == "constant" and set(keywords) <= {"constant_values"}:
        values = pairs(keywords.get("constant_values", 0), x.ndim)
        for axis, (width, value) in enumerate(zip(widths, values)):
            node = with_constants(builder, node, axis, width, value)
    elif mode in RUNS and (not keywords or keywords == {"reflect_type": "even"} and mode in ("reflect", "symmetric")):
        node = with_elements(builder, node, [runs_of(n, width, mode) for n, width in zip(x.shape, widths)])
    else:
        raise Decline(f"np.pad(mode={mode!r})")
    order = order_in_memory(x.meta)
    shape = node.meta.shape
    return fresh(builder, node, TensorMeta(shape, x.dtype, contiguous_strides(shape, x.dtype.itemsize, order)))


def pairs(value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """What goes before and after each axis: one number, one pair, or a pair for each axis."""
    if isinstance(value, Array) and value.ndim:
        known = known_sequence(value)
        if known is None:
            raise Decline("widths or values that are array data")
        value = known
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not is_sequence(value):
        return [(value, value)] * ndim
    if any(is_sequence(v) for v in value):
        rows = [tuple(v) if is_sequence(v) else (v,) for v in value]
    else:
        rows = [tuple(value)]
    if len(rows) not in (1, ndim) or any(len(row) not in (1, 2) for row in rows) or len({len(row) for row in rows}) > 1:
        raise Decline("widths or values that do not fit the axes")
    return [(row[0], row[-1]) for row in (rows * ndim if len(rows) == 1 else rows)]


def joined(builder: Builder, parts: list[Node], axis: int) -> Node:
    kept = [node for node in parts if not same(node.meta.shape[axis], 0)] or parts[:1]
    return builder.apply("concatenate", *kept, axis=axis) if len(kept) > 1 else kept[0]


def with_constants(builder: Builder, node: Node, axis: int, width: tuple[Size, Size], value: tuple[Any, Any]) -> Node:
    shape = node.meta.shape
    ends = []
    for count, one in zip(width, value):
        constant = assigned(builder, one, node.dtype)
        if constant.ndim:
            raise Decline("arrays of values to pad with")
        ends.append(expand(builder, constant.node, (*shape[:axis], count, *shape[axis + 1 :])))
    return joined(builder, [ends[0], node, ends[1]], axis)


def runs_of(n: Size, width: tuple[Size, Size], mode: str) -> list[Run]:
    """The positions that an axis of n elements has after padding."""
    before, after = width
    if same(before, 0) and same(after, 0):
        return [(0, 1, n)]
    if n == 0:
        raise Decline("can't extend empty axis using modes other than 'constant' or 'empty'")
    is_static = all(isinstance(v, int) for v in (n, before, after))
    runs = known_runs(n, before, after, mode) if is_static else RUNS[mode](n, before, after)
    return [run for run in runs if not same(run[2], 0)]


def with_elements(builder: Builder, node: Node, runs: list[list[Run]]) -> Node:
    """Every block of positions, one run along each axis, written to its place in a new array."""
    if all(along == [(0, 1, n)] for along, n in zip(runs, node.meta.shape)):
        return node
    if math.prod(map(len, runs)) > MOST_BLOCKS:
        raise Decline("np.pad along many axes")
    placed = [list(zip(along, accumulate((run[2] for run in along), initial=0))) for along in runs]
    shape = tuple(along[-1][1] + along[-1][0][2] for along in placed)
    whole = full(builder, shape, 0, node.dtype)
    if any(same(n, 0) for n in shape):
        return whole
    for block in product(*placed):
        values = node
        for axis, (run, _) in enumerate(block):
            values = run_of(builder, values, axis, run)
        whole = builder.apply("slice_update", whole, values, start=tuple(start for _, start in block), step=(1,) * len(block))
    return whole


def run_of(builder: Builder, node: Node, axis: int, run: Run) -> Node:
    start, step, count = run
    if step:
        return part(builder, node, axis, start, count, step)
    shape = node.meta.shape
    return expand(builder, part(builder, node, axis, start, 1), (*shape[:axis], count, *shape[axis + 1 :]))


def known_runs(n: Size, before: Size, after: Size, mode: str) -> list[Run]:
    """Runs of the positions that NumPy itself pads an axis of n elements with."""
    positions = np.pad(np.arange(n), (before, after), mode=mode).tolist()
    runs: list[list[int]] = []
    for position in positions:
        if runs and (runs[-1][2] == 1 or position == runs[-1][0] + runs[-1][1] * runs[-1][2]):
            last = runs[-1]
            step = position - last[0] if last[2] == 1 else last[1]
            if step in (-1, 0, 1):
                last[1], last[2] = step, last[2] + 1
                continue
        runs.append([position, 1, 1])
    if len(runs) > MOST_RUNS:
        raise Decline("a pad much longer than its axis")
    return [(start, step, count) for start, step, count in runs]


def require_short(before: Size, after: Size, longest: Size) -> None:
    if before > longest or after > longest:
        raise Decline("a pad longer than its axis")


def edge(n: Size, before: Size, after: Size) -> list[Run]:
    return [(0, 0, before), (0, 1, n), (n - 1, 0, after)]


def reflect(n: Size, before: Size, after: Size) -> list[Run]:
    require_short(before, after, n - 1)
    return [(before, -1, before), (0, 1, n), (n - 2, -1, after)]


def symmetric(n: Size, before: Size, after: Size) -> list[Run]:
    require_short(before, after, n)
    return [(before - 1, -1, before), (0, 1, n), (n - 1, -1, after)]


def wrap(n: Size, before: Size, after: Size) -> list[Run]:
    require_short(before, after, n)
    return [(n - before, 1, before), (0, 1, n), (0, 1, after)]


RUNS: dict[str, Callable[[Size, Size, Size], list[Run]]] = {
    "edge": edge,
    "reflect": reflect,
    "symmetric": symmetric,
    "wrap": wrap,
}
