"""Rows, or elements of one axis, at integers in a list: `A[[k, p]] = A[[p, k]]`. NoForm where they are anything else."""

from __future__ import annotations

from typing import Any

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops
from npcompile.tracer.native import arrays
from npcompile.tracer.native.types import Listed, Scalar


def rows_at(code: ScalarLoops, part: Part, key: Listed, fail: Fail) -> list[Part]:
    """The program leaves where one is out of bounds, before any is read or written."""
    if not part.ndim or not key.items or any(not isinstance(x, Scalar) or x.kind in ("bool", "b1") for x in key.items):
        raise NoForm("no rows, or a list of something else than integers")
    return [arrays.view(code, part, item, fail) for item in key.items]


def getitem(code: ScalarLoops, owner: Any, key: Listed, fail: Fail) -> Part:
    """A new array of these rows."""
    part = arrays.memory(code, owner, fail)
    if part.ndim > 1 and not part.is_ordered:
        raise NoForm("rows that may be in another order than C's")
    rows = rows_at(code, part, key, fail)
    made = arrays.filled(code, arrays.kind_of(part), (str(len(rows)), *part.sizes[1:]), None, fail)
    for target, row in zip(arrays.rows_of(code, made, fail), rows):
        arrays.assign(code, target, row, fail)
    return made


def setitem(code: ScalarLoops, owner: Any, key: Listed, value: Any, fail: Fail) -> None:
    """Write rows of an array that the program has made, and that is no view, into these: where one is twice the last stays."""
    target = arrays.part_of(owner)
    is_new = isinstance(value, Part) and value.is_own and value.is_whole and value.root.startswith("made")
    if not is_new or value.root == target.root:  # else both may have the same memory
        raise NoForm("rows of other arrays are stored")
    if value.dtype != target.dtype or value.ndim != target.ndim or value.sizes[0] != str(len(key.items)):
        raise NoForm("rows of other arrays are stored")
    rows = rows_at(code, target, key, fail)
    for row, stored in zip(rows, arrays.rows_of(code, value, fail)):
        arrays.assign(code, row, stored, fail)
