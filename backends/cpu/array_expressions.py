"""What statements over arrays in native loops compute, as trees: parts of memory, numbers, and operations on their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npcompile.backends.cpu.primitives import EXACT, MIXED_OPERANDS, PRIMITIVES, kind
from npcompile.backends.kernels.operations import is_costly, op_cost
from npcompile.tensor_core.op import Cost


@dataclass(frozen=True, slots=True)
class Part:
    """Memory of an array: C expressions of the first byte, the sizes, and the strides in bytes. Digits are known numbers."""

    dtype: np.dtype
    data: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    root: str  # the array object that owns the memory, or from which it was had
    is_own: bool = False  # the program made the array: no other has its memory
    is_whole: bool = False  # it is the array `root`, not a view of it
    is_dense: bool = False  # surely in C order
    is_ordered: bool = False  # or at least its strides surely become smaller from axis to axis

    @property
    def ndim(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True)
class Read:
    part: Part

    @property
    def dtype(self) -> np.dtype:
        return self.part.dtype


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is known before the loop."""

    text: str
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Gather:
    """Elements of a one-dimensional part, at places that are computed. Negative ones count from the end."""

    part: Part
    places: Tree

    @property
    def dtype(self) -> np.dtype:
        return self.part.dtype


@dataclass(frozen=True, slots=True)
class Held:
    """An array that a loop makes and whose elements are in C variables (`row_tiling.py`)."""

    name: str
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Rolled:
    """What np.roll gives: an element stands `fronts` places further along each axis, those from the end at the beginning.

    Each front is a C expression from 0 to below the axis' size.
    """

    source: Read | Held
    fronts: tuple[str, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive of numbers of one dtype, with the result's."""

    op: str
    args: tuple[Tree, ...]
    dtype: np.dtype


Tree = Read | Number | Gather | Held | Rolled | Apply


def has_form(op: str, dtypes: Sequence[np.dtype]) -> bool:
    """Is there a primitive for these operands?"""
    if op == "cast":
        return True
    first = dtypes[0]
    if kind(first) not in PRIMITIVES.get(op, {}) or (op not in MIXED_OPERANDS and any(d != first for d in dtypes)):
        return False
    return not (op in ("power", "ldexp") and kind(first) in "iu")


def parts_of(tree: Tree) -> list[Part]:
    """All memory that the tree reads."""
    match tree:
        case Read(part):
            return [part]
        case Gather(part, places):
            return [part, *parts_of(places)]
        case Rolled(Read(part), _):
            return [part]
        case Apply(_, args):
            return [p for a in args for p in parts_of(a)]
    return []


def may_fail(tree: Tree) -> bool:
    """Are there indices that may be out of bounds?"""
    return isinstance(tree, Gather) or isinstance(tree, Apply) and any(map(may_fail, tree.args))


def may_note(tree: Tree) -> bool:
    """May NumPy note a floating-point error?"""
    if isinstance(tree, Gather):
        return may_note(tree.places)
    if not isinstance(tree, Apply):
        return False
    dtypes = [a.dtype for a in tree.args]
    if tree.op == "cast":
        notes = dtypes[0].kind in "fc" and not (tree.dtype.kind == dtypes[0].kind and tree.dtype.itemsize >= dtypes[0].itemsize)
        notes &= tree.dtype.kind != "b"
    elif dtypes[0].kind in "iu":
        notes = tree.op in ("floor_divide", "remainder", "fmod")
    else:
        notes = tree.op not in EXACT and any(d.kind in "fc" for d in dtypes)
    return notes or any(map(may_note, tree.args))


def takes_long(tree: Tree) -> bool:
    """Is there an operation that takes longer than to read its result from memory near by?"""
    return isinstance(tree, Apply) and (op_cost(tree.op) >= Cost.DIVISION or any(map(takes_long, tree.args)))


def is_expensive(tree: Tree) -> bool:
    """Is there a function that takes longer than a division?"""
    return isinstance(tree, Apply) and (is_costly(tree.op) or any(map(is_expensive, tree.args)))


def is_flat(part: Part) -> bool:
    """Are its elements one row, without broadcasting?"""
    return part.is_dense and "1" not in part.sizes


def flat(part: Part, size: tuple[str]) -> Part:
    strides = (str(part.dtype.itemsize),)
    return replace(part, sizes=size, strides=strides, is_whole=False, is_dense=True, is_ordered=False)


def with_parts(tree: Tree, change: Callable[[Part], Part]) -> Tree:
    """The tree with other memory in place of what it reads at no computed places."""
    match tree:
        case Read(part):
            return Read(change(part))
        case Rolled(Read(part), fronts):
            return Rolled(Read(change(part)), fronts)
        case Apply(_, args):
            return replace(tree, args=tuple(with_parts(a, change) for a in args))
    return tree


def flat_tree(tree: Tree, size: tuple[str]) -> Tree:
    """The tree as one loop; all that it reads has the same sizes."""
    return with_parts(tree, lambda part: flat(part, size))


def has_one_rank(tree: Tree, rank: int) -> bool:
    """Does it read only parts of so many axes, at no computed places?"""
    if isinstance(tree, Apply):
        return all(has_one_rank(a, rank) for a in tree.args)
    return isinstance(tree, Number | Held) or isinstance(tree, Read) and tree.part.ndim == rank


def is_same(a: Part, b: Part) -> bool:
    return (a.data, a.sizes, a.strides) == (b.data, b.sizes, b.strides)
