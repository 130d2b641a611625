"""Reductions of arrays in native loops. NoForm where NumPy gives something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_trees import Apply, Part
from npcompile.backends.cpu.elements import PART_OF_COMPLEX
from npcompile.backends.cpu.loops import array_reductions, complex_numbers
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops, is_complex, is_float
from npcompile.tracer.native.arrays import (
    cast,
    elementwise,
    integer_text,
    is_array,
    kind_of,
    known,
    require_order,
    settled,
    statements,
    tree_of,
)
from npcompile.tracer.native.kinds import Formula, Items, Known, Scalar


def summed(kind: str) -> str:
    """The kind that NumPy adds in."""
    return kind if is_float(kind) else "u8" if kind[0] == "u" else "i8"


def reduction(name: str) -> Callable[..., Any]:
    def meaning(code: ScalarLoops, x: Any, axis: Any, fail: Fail) -> Any:
        tree, sizes = tree_of(x)
        kind = kind_of(x)
        if not sizes:
            raise NoForm("a reduction of no axis")
        if is_complex(kind):
            return summed_by_parts(code, name, x, axis, fail)
        if axis is not None:
            require_order(tree, len(sizes) - 1)
        if name in ("sum", "mean", "prod"):
            tree = cast(tree, "f8" if name == "mean" and not is_float(kind) else summed(kind))
        elif name in ("any", "all"):
            tree = cast(tree, "b1")
        made = statements(code)
        fold = "sum" if name == "mean" else name
        if name in ("argmax", "argmin"):
            found = array_reductions.position(made, name, tree, sizes, axis, fail)
            return found if isinstance(found, Part) else Scalar("i8", found)
        kind = tree.dtype.str[1:]
        reduced = range(len(sizes)) if axis is None else [axis]
        if name == "mean":
            code.leave_if(f"({' * '.join(sizes[k] for k in reduced)}) == 0", fail)
            count = code.new("f8", f"(double)({' * '.join(sizes[k] for k in reduced)})")
        if axis is None or len(sizes) == 1:
            total = array_reductions.reduce(made, fold, tree, sizes, fail)
            if name == "mean":
                total = code.new(kind, f"{total} / {count}")
            return Scalar(kind, total)
        rows = array_reductions.reduce_axis(made, fold, tree, sizes, axis, fail)
        if name != "mean":
            return rows
        return elementwise(code, np.divide, [rows, Scalar("float", count)], fail)

    return meaning


def summed_by_parts(code: ScalarLoops, name: str, x: Any, axis: Any, fail: Fail) -> Any:
    if name != "sum":
        raise NoForm(f"{name} of an array of complex numbers")
    tree, sizes = tree_of(settled(code, x, fail))
    kind, part = kind_of(x), np.dtype(PART_OF_COMPLEX[kind_of(x)])
    re, im = (REDUCTIONS[name](code, Formula(Apply(n, (tree,), part), sizes), axis, fail) for n in ("real", "imag"))
    if isinstance(re, Scalar):
        return Scalar(kind, complex_numbers.paired(code, kind, re.text, im.text))
    return Formula(Apply("complex", (tree_of(re)[0], tree_of(im)[0]), np.dtype(kind)), tree_of(re)[1])


def axis_of(value: Any, rank: int) -> int | None:
    if value is None or isinstance(value, Known) and value.value is None:
        return None
    at = known(integer_text(value)) if isinstance(value, Scalar) and value.kind == "int" else None
    if at is None or not -rank <= at < rank:
        raise NoForm("an axis that is computed, or that there is not")
    return at % rank


REDUCTIONS = {n: reduction(n) for n in ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin")}


def reduce(code: ScalarLoops, name: str, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    x, *others = arguments
    if not is_array(x) or len(others) > 1 or set(keywords) - {"axis"} or (others and keywords):
        raise NoForm(f"{name} with these arguments")
    rank, axis = len(tree_of(x)[1]), others[0] if others else keywords.get("axis")
    if isinstance(axis, Items):
        return reduce_axes(code, name, x, [axis_of(a, rank) for a in axis.items], fail)
    return REDUCTIONS[name](code, x, axis_of(axis, rank), fail)


def reduce_axes(code: ScalarLoops, name: str, x: Any, axes: Sequence[int | None], fail: Fail) -> Any:
    """Along several axes: one after the other, from the last."""
    sizes = tree_of(x)[1]
    chosen = sorted({a for a in axes if a is not None}, reverse=True)
    if len(chosen) != len(axes) or not chosen or name in ("argmax", "argmin"):
        raise NoForm(f"{name} along axes that are not several different ones")
    if len(chosen) == len(sizes):
        return REDUCTIONS[name](code, x, None, fail)
    require_order(tree_of(x)[0], len(sizes) - 1)
    if name != "mean":
        for axis in chosen:
            x = REDUCTIONS[name](code, x, axis, fail)
        return x
    if not is_float(kind_of(x)):
        x = Formula(cast(tree_of(x)[0], "f8"), sizes)
    items = " * ".join(sizes[a] for a in chosen)
    code.leave_if(f"({items}) == 0", fail)
    count = Scalar("float", code.new("f8", f"(double)({items})"))
    return elementwise(code, np.divide, [reduce_axes(code, "sum", x, chosen, fail), count], fail)
