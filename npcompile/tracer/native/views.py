"""Functions of NumPy's that give views in native programs, flipped or transposed ones, and what is written with views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Part, Read
from npcompile.backends.cpu.loops.loop_nest import dense_strides, known_product
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops, is_float
from npcompile.tensor_core.guards import Guard, OfDType
from npcompile.tensor_core.source import Source
from npcompile.tracer.native.arrays import (
    AXES,
    as_index,
    elementwise,
    index_items,
    is_array,
    kind_of,
    known,
    memory,
    number,
    statements,
    transposed,
    tree_of,
    view,
)
from npcompile.tracer.native.reductions import axis_of, reduce
from npcompile.tracer.native.types import Elements, Formula, Items, Known, Scalar, Slice

EVERYTHING = Slice(None, None, None)
IS_VIEW = f"""\
/* Is another shape a view of elements of these sizes and strides? Groups of axes hold as many elements in both shapes; the axes
   of one group must follow each other in memory. Of no elements, it is said to be. */
static int npc_is_view(int rank, const int64_t* sizes, const int64_t* strides, int new_rank, const int64_t* new_sizes) {{
  int64_t size[{AXES}], stride[{AXES}];
  int axes = 0, axis = 0, other = 0;
  for (int k = 0; k < rank; k++) {{
    if (sizes[k] == 0) return 1;
    if (sizes[k] != 1) {{ size[axes] = sizes[k]; stride[axes++] = strides[k]; }}
  }}
  while (axis < axes && other < new_rank) {{
    const int first = axis;
    int64_t a = size[axis++], b = new_sizes[other++];
    while (a != b) {{ if (a < b) a *= size[axis++]; else b *= new_sizes[other++]; }}
    for (int k = first; k + 1 < axis; k++) if (stride[k] != size[k + 1] * stride[k + 1]) return 0;
  }}
  return 1;
}}
"""
BACKWARDS = Slice(None, None, Scalar("int", "INT64_C(-1)"))


def along(rank: int, axes: Sequence[int], item: Slice) -> Items:
    """An index that takes everything, but `item` along some axes."""
    return Items(tuple(item if k in axes else EVERYTHING for k in range(rank)))


def flip(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    x, *others = arguments
    if not is_array(x) or len(others) + len(keywords) > 1 or set(keywords) - {"axis"}:
        raise NoForm("np.flip with these arguments")
    part = memory(code, x, fail)
    axis = axis_of(others[0] if others else keywords.get("axis"), part.ndim)
    return view(code, part, along(part.ndim, range(part.ndim) if axis is None else [axis], BACKWARDS), fail)


def flipped(axis: int) -> Callable[..., Part]:
    def meaning(code: ScalarLoops, x: Any, fail: Fail) -> Part:
        part = memory(code, x, fail)
        if part.ndim <= axis:
            raise NoForm("an axis that there is not is flipped")
        return view(code, part, along(part.ndim, [axis], BACKWARDS), fail)

    return meaning


def transpose(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    return transposed(memory(code, x, fail))


def ravel(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    part = memory(code, x, fail)
    if part.is_dense:
        return reshape(code, [part, Scalar("int", "INT64_C(-1)")], {}, fail)
    leave_where_a_view(code, part, [known_product(part.sizes)], fail)
    return flatten(code, part, fail)


def flatten(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    """A vector of its own."""
    tree, sizes = tree_of(x)
    made = statements(code).fresh(tree.dtype, [size_of(code, sizes)])
    strides = dense_strides(sizes, tree.dtype.itemsize)
    statements(code).store(replace(made, sizes=tuple(sizes), strides=strides), tree, fail, is_new=True)
    return made


def size_of(code: ScalarLoops, sizes: Sequence[str]) -> str:
    size = known_product(sizes)
    return size if known(size) is not None else code.new("int", size)


def leave_where_a_view(code: ScalarLoops, part: Part, sizes: Sequence[str], fail: Fail) -> None:
    """Where the elements could be looked at in another shape, NumPy does that, and does not copy them."""
    statements(code).folds.setdefault("views", IS_VIEW)
    old, strides, new = (f"(int64_t[]){{{', '.join(texts)}}}" for texts in (part.sizes, part.strides, sizes))
    code.leave_if(f"npc_is_view({part.ndim}, {old}, {strides}, {len(sizes)}, {new})", fail)


def reshape(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """Another shape for elements: for those that are side by side the same memory, else that of a copy."""
    part = memory(code, arguments[0], fail)
    items = arguments[1:] if len(arguments) > 2 else index_items(arguments[1]) if len(arguments) == 2 else []
    if keywords or not 1 <= len(items) <= AXES or not all(isinstance(n, Scalar) for n in items):
        raise NoForm("reshape() with these arguments")
    texts = [as_index(n) for n in items]
    texts = [text if known(text) is not None else code.new("int", text) for text in texts]
    computed, free = [t for t in texts if known(t) is None], [k for k, t in enumerate(texts) if t.startswith("-")]
    if len(free) > 1 or any(texts[k] != "-1" for k in free):
        raise NoForm("reshape() to sizes below 0")
    size = known_product(part.sizes)
    if computed:
        code.leave_if(" || ".join(f"{n} < 0 || {n} > ({size})" for n in computed), fail)
    others = known_product([n for k, n in enumerate(texts) if k not in free])
    if free:
        code.leave_if(f"{others} == 0 || ({size}) % ({others}) != 0", fail)
        texts[free[0]] = code.new("int", f"({size}) / ({others})")
    else:
        code.leave_if(f"{others} != {size}", fail)
    if not part.is_dense:
        leave_where_a_view(code, part, texts, fail)
        part = statements(code).make(Read(part), part.sizes, fail)
    strides = dense_strides(texts, part.dtype.itemsize)
    strides = tuple(s if s.isdigit() else code.new("int", s) for s in strides)
    return replace(part, sizes=tuple(texts), strides=strides, is_whole=False)


def with_axes(code: ScalarLoops, made: Any, sizes: Sequence[str], axis: Any, fail: Fail) -> Part:
    """A reduction's result with axes of one element where it has lost them."""
    axes = [axis_of(a, len(sizes)) for a in (axis.items if isinstance(axis, Items) else [axis])]
    if not is_array(made) or None in axes:
        raise NoForm("a reduction to one number that keeps its axes")
    one = Known(None)
    return view(code, memory(code, made, fail), Items(tuple(one if k in axes else EVERYTHING for k in range(len(sizes)))), fail)


def reduced(code: ScalarLoops, name: str, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """A reduction, which may keep its axes."""
    others = {k: v for k, v in keywords.items() if k != "keepdims"}
    made = reduce(code, name, arguments, others, fail)
    kept = keywords.get("keepdims", Scalar("bool", "0"))
    if kept not in (Scalar("bool", "0"), Scalar("bool", "1")):
        raise NoForm("keepdims that is computed")
    if kept.text == "0":
        return made
    return with_axes(code, made, tree_of(arguments[0])[1], others.get("axis", *arguments[1:]), fail)


def diff(code: ScalarLoops, x: Any, fail: Fail) -> Formula:
    """Of neighbours along the last axis, once."""
    part = memory(code, x, fail)
    if part.dtype.kind == "b":
        raise NoForm("np.diff of booleans")
    if part.sizes[-1].isdigit() and int(part.sizes[-1]) < 1:
        raise NoForm("np.diff of nothing")
    code.leave_if(f"{part.sizes[-1]} == 0", fail)
    one = Scalar("int", "INT64_C(1)")
    last = [part.ndim - 1]
    behind = view(code, part, along(part.ndim, last, Slice(one, None, None)), fail)
    before = view(code, part, along(part.ndim, last, Slice(None, Scalar("int", "INT64_C(-1)"), None)), fail)
    return elementwise(code, np.subtract, [behind, before], fail)


def outer(code: ScalarLoops, a: Any, b: Any, fail: Fail) -> Formula:
    if not (is_array(a) and is_array(b) and len(tree_of(a)[1]) == len(tree_of(b)[1]) == 1):
        raise NoForm("np.outer of other than vectors")
    return outer_of(code, [Known(np.multiply), a, b], {}, fail)


def outer_of(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Formula:
    """The method of a ufunc, which is the first argument: of each element of one array and each of another."""
    if keywords or len(arguments) != 3 or not all(map(is_array, arguments[1:])) or arguments[0].value.nout != 1:
        raise NoForm("outer() with these arguments")
    x, y = (memory(code, v, fail) for v in arguments[1:])
    spread = view(code, x, Items((*[EVERYTHING] * x.ndim, *[Known(None)] * y.ndim)), fail)
    return elementwise(code, arguments[0].value, [spread, y], fail)


def clip(code: ScalarLoops, x: Any, low: Any, high: Any, fail: Fail) -> Formula:
    """Between two numbers. What equals a bound stays, as the sign of a zero shows (numpy/_core/src/umath/clip.cpp)."""
    if not is_array(x) or not (isinstance(low, Scalar) and isinstance(high, Scalar)):
        raise NoForm("np.clip between other than two numbers")
    kind = kind_of(x)
    if not is_float(kind):
        return elementwise(code, np.minimum, [elementwise(code, np.maximum, [x, low], fail), high], fail)
    if any(b.is_numpy and b.kind != kind for b in (low, high)):
        raise NoForm("np.clip between numbers of another type")
    tree, sizes = tree_of(x)
    flags = np.dtype("b1")
    for bound, stays in ((low, "greater_equal"), (high, "less_equal")):
        limit = number(code.converted(bound.text, bound.kind, kind, fail), kind)
        inside = Apply("logical_or", (Apply(stays, (tree, limit), flags), Apply("isnan", (tree,), flags)), flags)
        tree = Apply("where", (inside, tree, limit), np.dtype(kind))
    return Formula(tree, sizes)


def dtype_of(value: Any, guard: Callable[[Guard], None], object_of: Callable[[Any], Source]) -> Known:
    """`x.dtype`, which is the same object at each call."""
    dtype = np.dtype(kind_of(value))
    constant = object_of(dtype)
    if isinstance(value, Part) and not value.is_own or isinstance(value, Elements) and not value.is_plain:
        raise NoForm("the dtype of a view, or one that is not NumPy's own")
    if isinstance(value, Elements) and not value.input.made:
        guard(OfDType(value.source, constant))
    return Known(dtype, constant)
