"""All of an array but its numbers: shape, dtype, signed strides, device, scalar-or-array, read-only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key, partial
from itertools import pairwise

import numpy as np

from npcompile.tensor_core.decline import Decline as Decline
from npcompile.tensor_core.dim import Dim, Size, answer_known, hint_of, same
from npcompile.tensor_core.dtypes import short

Shape = tuple[Size, ...]
MOST_DIMENSIONS = 64  # of an ndarray
MOST_BYTES = 2**63 - 1  # that an array can have, or could without its axes of no elements


@dataclass(frozen=True, slots=True)
class TensorMeta:
    shape: Shape
    dtype: np.dtype
    strides: Shape = ()  # bytes, signed, as NumPy's; C-contiguous when not given
    device: str = "cpu"
    boxed: bool = True  # False where NumPy has a scalar (np.float64), not a 0-D array
    writeable: bool = True
    weak: bool = False  # a Python int, float or complex: NEP 50 lets the other operand decide the dtype

    def __post_init__(self) -> None:
        if len(self.shape) > MOST_DIMENSIONS:
            raise Decline(f"maximum supported dimension for an ndarray is {MOST_DIMENSIONS}, found {len(self.shape)}")
        if self.shape and math.prod(n for n in self.shape if type(n) is int and n) * self.dtype.itemsize > MOST_BYTES:
            raise Decline("Maximum allowed dimension exceeded")
        if len(self.strides) != len(self.shape):
            object.__setattr__(self, "strides", contiguous_strides(self.shape, self.dtype.itemsize))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Size:
        return product(self.shape)

    def with_(self, **changes: object) -> TensorMeta:
        """The same with some fields changed; a new shape or dtype without strides is C-contiguous."""
        if ("shape" in changes or "dtype" in changes) and "strides" not in changes:
            changes["strides"] = ()
        return replace(self, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{short(self.dtype)}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class TupleMeta(TensorMeta):
    """Of an op with several results, which op `item` picks apart. Its value is a Python tuple of arrays."""

    items: tuple[TensorMeta, ...] = ()

    @classmethod
    def of(cls, *items: TensorMeta) -> TupleMeta:
        return cls((), np.dtype(np.void), items=items)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


def product(sizes: Sequence[Size]) -> Size:
    return math.prod(sizes) if sizes else 1


def contiguous_strides(shape: Shape, itemsize: int, order: str = "C") -> Shape:
    """Strides of a fresh array in C or F order.

    NumPy counts a size of 0 as 1 here (numpy/_core/src/multiarray/ctors.c, _array_fill_strides).
    """
    strides: list[Size] = []
    step: Size = itemsize
    for n in reversed(shape) if order == "C" else shape:
        strides.append(step)
        if not (isinstance(n, int) and n == 0):
            step = step * n
    return tuple(reversed(strides)) if order == "C" else tuple(strides)


def is_packed(meta: TensorMeta, order: str = "C") -> bool:
    """Contiguous whatever the sizes are: asks nothing."""
    step: Size = meta.dtype.itemsize
    for n, s in in_order(meta, order):
        if not same(n, 1) and not same(s, step):
            return False
        step = step * n
    return True


def lies_forward(meta: TensorMeta) -> bool:
    """Is no stride negative, whatever the sizes are?"""
    return all(same(n, 1) or is_at_least(stride, 0) for n, stride in zip(meta.shape, meta.strides))


def is_contiguous(meta: TensorMeta, order: str = "C") -> bool:
    """NumPy's relaxed test: axes of size 1 may have any stride, empty arrays are contiguous."""
    step: Size = meta.dtype.itemsize
    for n, s in in_order(meta, order):
        if not same(s, step):  # sizes are asked only where they decide
            if n == 1:
                continue
            if s != step:
                return any(n == 0 for n in meta.shape)
        step = step * n
    return True


def in_order(meta: TensorMeta, order: str) -> Iterator[tuple[Size, Size]]:
    """Size and stride of each axis, from the innermost of an array in C or F order."""
    return zip(*((reversed(meta.shape), reversed(meta.strides)) if order == "C" else (meta.shape, meta.strides)))


def order_in_memory(meta: TensorMeta) -> str:
    """F for what is contiguous in that order alone, else C."""
    order = next((order for order in "CF" if is_packed(meta, order)), None)  # the other one only where sizes are 1 or 0
    return order or ("F" if is_contiguous(meta, "F") and not is_contiguous(meta, "C") else "C")


def like_strides(shape: Shape, itemsize: int, prototype: TensorMeta) -> Shape:
    """Strides of a copy with order='K' of an array of as many axes (PyArray_NewLikeArray).

    Unlike keep_order_strides, axes that repeat (stride 0) count as the innermost. NumPy asks whether the array is contiguous
    before it sorts; where it is not empty that gives the same order, axes of size 1 apart, whose strides nobody reads.
    """
    is_empty = any(same(n, 0) for n in prototype.shape)
    if len(shape) < 2 or is_empty or is_packed(prototype, "C"):
        return contiguous_strides(shape, itemsize)
    if is_packed(prototype, "F"):
        return contiguous_strides(shape, itemsize, "F")
    return packed_strides(shape, itemsize, asked_order(prototype))


def strides_beside_places(rest: TensorMeta) -> Shape:
    """Of the axes that are not looked up, in a copy by index arrays: as with order='K', where axes of length 1 count too.

    New ones, of stride 0, are innermost.
    """
    if any(same(n, 1) for n in rest.shape) and not any(same(n, 0) for n in rest.shape):
        return packed_strides(rest.shape, rest.dtype.itemsize, asked_order(rest))
    return like_strides(rest.shape, rest.dtype.itemsize, rest)


def asked_order(meta: TensorMeta) -> list[int]:
    """The axes, that of the longest stride first. Symbolic strides are asked."""
    return sorted(range(meta.ndim), key=cmp_to_key(partial(_compare_strides, meta)))


def _compare_strides(meta: TensorMeta, axis: int, other: int) -> int:
    """Negative where `axis` has the longer stride: a sort puts it outside. Symbolic strides are asked."""
    a, b = abs(meta.strides[axis]), abs(meta.strides[other])
    if same(a, b):
        return 0
    if spans(meta.shape[other], b, a):
        return -1
    if spans(meta.shape[axis], a, b):
        return 1
    return -1 if a > b else int(a != b)


def spans(size: Size, stride: Size, longer: Size) -> bool:
    """Does one step by `longer` surely pass all elements of an axis of this size and stride?

    Then it is the longer stride, or the axis has one element, whose place in the order of axes nobody sees.
    """
    return is_at_least(size, 1) and is_at_least(longer, stride * size)


def is_at_least(a: Size, b: Size) -> bool:
    """a >= b for all sizes: asks nothing."""
    return answer_known(a, "<", b) is False


def is_sorted(metas: Iterable[TensorMeta], zeros_count: bool) -> bool:
    """Is for all sizes no stride shorter than one further in? `zeros_count`: also those of axes that repeat.

    A stride that passes all elements further in is shorter only where there are none: all strides of such an array are 0.
    """
    for meta in metas:
        axes = [(n, abs(s)) for n, s in zip(meta.shape, meta.strides) if not same(n, 1) and (zeros_count or not same(s, 0))]
        for (_, outer), (size, inner) in pairwise(axes):
            if not is_at_least(outer, inner) and not is_at_least(outer, inner * size):
                return False
    return True


def concatenated_strides(shape: Shape, itemsize: int, parts: Sequence[TensorMeta]) -> Shape:
    """Strides of np.concatenate's result: axes sorted as those of all parts together (PyArray_CreateMultiSortedStridePerm)."""
    order = list(range(len(shape)))
    for i in range(1, len(shape) if not is_sorted(parts, zeros_count=True) else 0):
        position = i
        for j in range(i - 1, -1, -1):
            swap, ambiguous = _compare_lengths(parts, order[i], order[j])
            if ambiguous:
                continue
            if not swap:
                break
            position = j
        order.insert(position, order.pop(i))
    return packed_strides(shape, itemsize, order)


def _compare_lengths(metas: Sequence[TensorMeta], axis: int, outer: int) -> tuple[bool, bool]:
    """Should `axis` move outside `outer`? Second answer: no part is longer than 1 along both."""
    compared = [m for m in metas if m.shape[axis] != 1 and m.shape[outer] != 1]
    if not compared:
        return False, True
    strides = [(abs(m.strides[axis]), abs(m.strides[outer])) for m in compared]
    return all(not same(a, b) and a > b for a, b in strides), False


def packed_strides(shape: Shape, itemsize: int, outermost_first: Sequence[int]) -> Shape:
    """Strides without gaps, for axes in the given order of memory."""
    strides: list[Size] = [0] * len(shape)
    step: Size = itemsize
    for axis in reversed(outermost_first):
        strides[axis] = step
        if not (isinstance(shape[axis], int) and shape[axis] == 0):
            step = step * shape[axis]
    return tuple(strides)


def by_strides(packed: Shape) -> tuple[int, ...]:
    """Axes from the outermost, for strides without gaps. Sizes of 1 and 0 leave ties, which keep their order."""
    axes = list(range(len(packed)))
    for i in axes[1:]:
        while i and not same(packed[axes[i - 1]], packed[axes[i]]) and packed[axes[i - 1]] < packed[axes[i]]:
            axes[i - 1], axes[i] = axes[i], axes[i - 1]
            i -= 1
    return tuple(axes)


def keep_order_strides(shape: Shape, itemsize: int, operands: Sequence[TensorMeta]) -> Shape:
    """Strides of a fresh result with order='K': axes sorted as the operands' are (nditer's rule).

    Operands must already be broadcast to `shape`.
    """
    return packed_strides(shape, itemsize, kept_order(shape, operands))


def kept_order(shape: Shape, operands: Sequence[TensorMeta]) -> Sequence[int]:
    """The axes with order='K', the outermost first.

    They are compared by the absolute strides of each operand that has both non-zero, insertion sorted from the last axis;
    ties and conflicts keep C order (numpy/_core/src/multiarray/nditer_constr.c, npyiter_find_best_axis_ordering).
    """
    ndim = len(shape)
    if ndim < 2 or is_sorted(operands, zeros_count=False):
        return range(ndim)
    # Axes of size 1 have no say: nditer gives them stride 0. That need not be asked of a single operand, whose other axes
    # are sorted among themselves wherever this one stands.
    first, *others = (m for m in operands if not all(same(s, 0) for s in m.strides))
    is_single = all(same(s, t) for m in others for s, t in zip(m.strides, first.strides))
    is_one = [same(n, 1) or (not is_single and n == 1) for n in shape]
    strides = [tuple(0 if one else s for one, s in zip(is_one, m.strides)) for m in (first, *others)]
    order = list(range(ndim))[::-1]  # innermost first
    for i in range(1, ndim):
        position, axis = i, order[i]
        for j in range(i - 1, -1, -1):
            should_swap, ambiguous = _compare_axes(shape, strides, order[j], axis)
            if not ambiguous:
                if should_swap:
                    position = j
                else:
                    break
        order.insert(position, order.pop(i))
    return order[::-1]


def _compare_axes(shape: Shape, strides: Sequence[Shape], inner: int, axis: int) -> tuple[bool, bool]:
    """Should `axis` move inside `inner`? Second answer: no operand could tell."""
    swap, ambiguous = False, True
    for operand in strides:
        a, b = abs(operand[inner]), abs(operand[axis])
        if (isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0):
            continue
        if same(a, b) or is_at_least(b, a) or not (spans(shape[axis], b, a) or a > b):
            swap = False
            ambiguous = False
        elif ambiguous:
            swap = True
            ambiguous = False
    return swap, ambiguous


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting, over symbolic sizes too. Declines where NumPy raises ValueError."""
    ndim = max(map(len, shapes), default=0)
    result: list[Size] = [1] * ndim
    for shape in shapes:
        for axis, n in enumerate(shape, ndim - len(shape)):
            m = result[axis]
            if same(n, m) or (isinstance(n, int) and n == 1):
                continue
            if isinstance(m, int) and m == 1:
                result[axis] = n
            elif n == m:
                result[axis] = n if isinstance(n, int) else m
            elif n != 1:
                if m == 1:
                    result[axis] = n
                else:
                    raise Decline(f"operands could not be broadcast together with shapes {' '.join(map(str, shapes))}")
    return tuple(result)


def broadcast_strides(meta: TensorMeta, shape: Shape) -> Shape:
    """Strides of a broadcast_to view: 0 along every axis that has one element, whether it is repeated or not."""
    lead = (0,) * (len(shape) - meta.ndim)
    return lead + tuple(0 if isinstance(n, int) and n == 1 else s for n, s in zip(meta.shape, meta.strides))


def reshape_strides(meta: TensorMeta, shape: Shape, order: str = "C") -> Shape | None:
    """Strides of the view that `reshape` gives, or None where NumPy copies (_attempt_nocopy_reshape)."""
    itemsize = meta.dtype.itemsize
    if is_contiguous(meta, order):
        return contiguous_strides(shape, itemsize, order)
    old = [(n, s) for n, s in zip(meta.shape, meta.strides) if n != 1]
    new = list(shape)
    strides: list[Size] = [0] * len(new)
    oi = ni = 0
    while ni < len(new) and oi < len(old):
        np_, op_ = new[ni], old[oi][0]
        nj, oj = ni + 1, oi + 1
        while not same(np_, op_) and np_ != op_:
            if np_ < op_:
                np_ = np_ * new[nj]
                nj += 1
            else:
                op_ = op_ * old[oj][0]
                oj += 1
        for k in range(oi, oj - 1):
            first, second = (k, k + 1) if order == "F" else (k + 1, k)
            n, s = old[first]
            if old[second][1] != n * s:
                return None
        if order == "F":
            strides[ni] = old[oi][1]
            for k in range(ni + 1, nj):
                strides[k] = strides[k - 1] * new[k - 1]
        else:
            strides[nj - 1] = old[oj - 1][1]
            for k in range(nj - 1, ni, -1):
                strides[k - 1] = strides[k] * new[k]
        ni, oi = nj, oj
    last: Size = strides[ni - 1] if ni else itemsize
    if order == "F" and ni:
        last = last * new[ni - 1]
    for k in range(ni, len(new)):
        strides[k] = last
    return tuple(strides)


def normalize_axis(axis: int, ndim: int) -> int:
    """A possibly negative axis as 0..ndim-1. Declines where NumPy raises AxisError."""
    axis = int(axis)
    if not -ndim <= axis < ndim:
        raise Decline(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def concrete(shape: Shape) -> tuple[int, ...]:
    """The shape at the sizes seen at capture: for cost estimates, never for correctness."""
    return tuple(hint_of(n) for n in shape)


def is_static(shape: Shape) -> bool:
    return not any(isinstance(n, Dim) for n in shape)
