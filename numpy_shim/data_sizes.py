"""Results of as many elements as data decides: places that are not 0, masks, different elements, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex, basic_index, fresh
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, TupleMeta
from npcompile.tensor_core.ops.numpy_calls import LEAST, Keywords

Results = tuple[tuple[tuple[Any, ...], np.dtype], ...]


def places(builder: Builder, x: Array) -> tuple[Array, ...]:
    """x.nonzero(): for each axis a column of one array."""
    if not x.ndim:
        raise Decline("nonzero of an array of no dimensions")
    node = builder.measure("argwhere", x.node)
    rows = fresh(builder, node)
    whole = AxisSlice(0, 1, node.meta.shape[0])
    return tuple(basic_index(rows, BasicIndex((whole, axis))) for axis in range(x.ndim))


def sized(builder: Builder, function: Callable[..., Any], arrays: list[Array], results: Results, **keywords: Any) -> list[Array]:
    """What NumPy's function gives, where the sizes that are None in `results` are the one that data decides."""
    if any(builder.may_differentiate(x.node) for x in arrays) and any(dtype.kind in "fc" for _, dtype in results):
        raise Decline("a function that is not differentiated")
    call = Keywords(function, tuple(keywords.items()))
    node = builder.measure("whole_sized", *(x.node for x in arrays), function=call, results=results)
    return items(builder, node)


def counted(builder: Builder, function: Callable[..., int], x: Array, least: int = LEAST, **keywords: Any) -> Size:
    """The number that `function` finds in the data of x, at least `least`: an integer of the program."""
    count = Keywords(as_many, (("function", function), ("more", LEAST - least), *keywords.items()))
    node = builder.measure("whole_sized", x.node, function=count, results=(((None,), np.dtype(np.uint8)),))
    return items(builder, node)[0].shape[0] - (LEAST - least)


def as_many(x: np.ndarray, function: Callable[..., int], more: int, **keywords: Any) -> np.ndarray:
    return np.empty(function(x, **keywords) + more, np.uint8)


def whole(builder: Builder, function: Callable[..., Any], arrays: list[Array], results: Results, **keywords: Any) -> list[Array]:
    """What NumPy's function gives, in C order, where shapes and dtypes are known."""
    if any(dtype.kind in "fc" for _, dtype in results):
        builder.require_plain()
    else:
        builder.require_measurable()
    call = Keywords(function, tuple(keywords.items()))
    return items(builder, builder.apply("whole", *(x.node for x in arrays), function=call, results=results))


def require_none(builder: Builder, are_unusual: Array) -> None:
    """The program checks that NumPy neither warns nor raises: where one is true, NumPy runs instead."""
    if "branches" not in builder.ignored:
        builder.apply("require_none", are_unusual.node)


def elements_at(builder: Builder, x: Array, places: Array) -> Array:
    """x[places] along the first axis, in C order: the form of such functions that is differentiated."""
    return fresh(builder, builder.apply("gather", x.node, places.node))


def items(builder: Builder, node: Node) -> list[Array]:
    assert isinstance(node.meta, TupleMeta)
    return [fresh(builder, builder.apply("item", node, index=k)) for k in range(len(node.meta.items))]
