"""Reductions of arrays in native loops. NoForm where NumPy gives something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Part, Read, Tree
from npcompile.backends.cpu.elements import PART_OF_COMPLEX
from npcompile.backends.cpu.loops import array_positions, array_reductions, complex_numbers
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
from npcompile.tracer.native.types import Formula, Items, Known, Scalar

EXTREMES = ("max", "min")  # of two zeros NumPy takes that which its vectors and their order decide


def summed(kind: str) -> str:
    """The kind that NumPy adds in."""
    return kind if is_float(kind) else "u8" if kind[0] == "u" else "i8"


def is_view(tree: Tree) -> bool:
    """Is it an array's memory?"""
    return isinstance(tree, Read) or isinstance(tree, Apply) and tree.op in ("real", "imag") and is_view(tree.args[0])


def reduction(code: ScalarLoops, name: str, x: Any, axes: Sequence[int], fail: Fail) -> Any:
    """Along axes in order, which may be all."""
    tree, sizes = tree_of(x)
    kind, is_all = kind_of(x), len(axes) == len(sizes)
    if code.is_bitwise and (is_complex(kind) or is_float(kind) and name in EXTREMES):
        raise NoForm(f"{name} of {kind}, with NumPy's last bits")
    if is_complex(kind):
        return summed_by_parts(code, name, x, axes, fail)
    if not is_all:
        require_order(tree, len(sizes) - 1)
    read = array_reductions.VIEW if is_view(tree) else array_reductions.MADE
    if name in ("sum", "sum_of_parts", "mean", "prod"):
        if name == "mean" and not is_float(kind):
            tree, read = cast(tree, "f8"), array_reductions.CAST
        else:
            tree = cast(tree, summed(kind))
    elif name in ("any", "all"):
        tree = cast(tree, "b1")
    made = statements(code)
    fold = "sum" if name == "mean" else name
    if name in ("argmax", "argmin"):
        found = array_positions.position(made, name, tree, sizes, None if is_all else axes[0], fail)
        return found if isinstance(found, Part) else Scalar("i8", found)
    kind = tree.dtype.str[1:]
    if name == "mean":
        items = " * ".join(sizes[k] for k in axes)
        code.leave_if(f"({items}) == 0", fail)
        count = code.new("f8", f"(double)({items})")
    if is_all:
        total = array_reductions.reduce(made, fold, tree, sizes, fail, read)
        if name == "mean":
            total = code.new(kind, f"{total} / {count}")
        return Scalar(kind, total)
    rows = array_reductions.reduce_axes(made, fold, tree, sizes, axes, fail, read)
    if name != "mean":
        return rows
    return elementwise(code, np.divide, [rows, Scalar("float", count)], fail)


def summed_by_parts(code: ScalarLoops, name: str, x: Any, axes: Sequence[int], fail: Fail) -> Any:
    if name != "sum":
        raise NoForm(f"{name} of an array of complex numbers")
    tree, sizes = tree_of(settled(code, x, fail))
    kind, part = kind_of(x), np.dtype(PART_OF_COMPLEX[kind_of(x)])
    re, im = (reduction(code, "sum_of_parts", Formula(Apply(n, (tree,), part), sizes), axes, fail) for n in ("real", "imag"))
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


REDUCTIONS = ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin")


def reduce(code: ScalarLoops, name: str, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    x, *others = arguments
    if not is_array(x) or len(others) > 1 or set(keywords) - {"axis"} or (others and keywords):
        raise NoForm(f"{name} with these arguments")
    rank, axis = len(tree_of(x)[1]), others[0] if others else keywords.get("axis")
    if not rank:
        raise NoForm("a reduction of no axis")
    axes = [axis_of(a, rank) for a in (axis.items if isinstance(axis, Items) else [axis])]
    if axes == [None]:
        return reduction(code, name, x, range(rank), fail)
    chosen = sorted({a for a in axes if a is not None})
    if len(chosen) != len(axes) or not chosen or len(chosen) > 1 and name in ("argmax", "argmin"):
        raise NoForm(f"{name} along axes that are not several different ones")
    return reduction(code, name, x, chosen, fail)
