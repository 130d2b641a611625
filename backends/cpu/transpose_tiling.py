"""Which loops that read along two axes of memory, `x.T + y`, go through squares of both, as wide as a cache line."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.kernel_plan import Axis, CopiedSquare, Squares
from npcompile.backends.kernels.index import split_linear
from npcompile.backends.kernels.kernel import CheckIndex, Let, Load, Loop, Statement, Store, walk
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.operations import is_costly
from npcompile.tensor_core.dim import Size, same

LINE = 64  # bytes of the caches'
SIDES = {1: 16, 2: 8, 4: 8, 8: 8}  # bytes of an element -> elements along each side of a square in registers
ACROSS = 64  # elements of both loops of which a task takes a square


def squares_of(axes: Sequence[Axis], inner: Axis, body: list[Statement], far: int) -> Squares | None:
    """The loop among `axes` along which something lies side by side that does not along the innermost loop, in the body."""
    if any(isinstance(s, CheckIndex) or (isinstance(s, Let) and is_costly(s.op)) for s in body):
        return None  # the first error counts; and what is known outside of the inner loop is computed again in each square
    steps: dict[str, int] = {}
    for s in walk(body):
        if isinstance(s, (Load, Store)) and (along := split_linear(s.offset, inner[0])) and abs(estimate(along[0])) > LINE:
            for axis, _ in axes:
                across = split_linear(s.offset, axis)
                if across and 0 < (step := abs(estimate(across[0]))) < LINE:
                    steps[axis] = min(step, steps.get(axis, step))
    if not steps:
        return None
    chosen = min(steps, key=lambda axis: steps[axis])
    width = max(4, min(16, LINE // steps[chosen]))
    outer = next((axis, size) for axis, size in axes if axis == chosen)
    turned = turned_loads(chosen, inner[0], width, body)
    copied = copied_square(chosen, inner[0], width, body, turned)
    others = tuple(x for x in axes if x != outer)
    computes = any(isinstance(s, Let) for s in walk(body))
    return Squares(others, outer, inner, body, ACROSS, width, far, tuple(turned), copied, computes)


def turned_loads(outer: str, inner: str, width: int, body: list[Statement]) -> list[tuple[Load, Size]]:
    """The loads of elements that are side by side along the outer loop alone, and their steps along the inner one."""
    found = []
    for s in walk(body):
        if isinstance(s, Load) and s.mask is None and width % SIDES.get(s.target.dtype.itemsize, 64) == 0:
            along, across = split_linear(s.offset, inner), split_linear(s.offset, outer)
            if along and across and same(across[0], s.target.dtype.itemsize) and abs(estimate(along[0])) > LINE:
                found.append((s, along[0]))
    return found


def copied_square(
    outer: str, inner: str, width: int, body: list[Statement], turned: Sequence[tuple[Load, Size]]
) -> CopiedSquare | None:
    """How a whole square is copied to where its rows are side by side, if the body does no more."""
    inside = [s for s in walk(body) if not isinstance(s, Loop)]
    if len(turned) != 1 or len(inside) != 2 or not isinstance(inside[1], Store):
        return None
    (load, step), store = turned[0], inside[1]
    along, across = split_linear(store.offset, inner), split_linear(store.offset, outer)
    size = load.target.dtype.itemsize
    if store.value is not load.target or store.buffer == load.buffer or not (along and across and same(along[0], size)):
        return None
    return CopiedSquare(load, step, store, across[0], is_line=size * width == LINE)
