"""Running combinations across memory: many lines abreast, a row after the other, instead of line by line.

`np.cumsum(x, axis=0)` of an array in C order would read and write one element of each cache line at a time. Here the running
results of a block of columns are kept as a row, as those of a reduction over leading axes are, and each step stores them.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.kernels.index import split_linear
from npcompile.backends.kernels.kernel import Columns, Kernel, Let, Load, Loop, Scan, Statement, Store, children
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.operations import is_costly
from npcompile.tensor_core.dim import hint_of

FEWEST = 8  # columns
EXACT = ("add", "multiply", "maximum", "minimum", "fmax", "fmin")  # what their identities are combined with stays as it is


def scan_columns(kernel: Kernel) -> None:
    """Scans of the kernel become Columns where that goes along memory."""
    if not kernel.can_fail:
        kernel.body = in_columns(kernel.body)


def in_columns(body: list[Statement]) -> list[Statement]:
    match body:
        case [*before, Loop(column, size, [*above, Scan(acc, [*pre, Loop(axis, n, steps)])])] if (
            acc.reducer in EXACT
            and acc.dtype == acc.result.dtype
            and hint_of(size) >= FEWEST
            and not any(children(s) for s in (*above, *pre, *steps))
            and not any(isinstance(s, Let) and is_costly(s.op) for s in (*above, *pre))
            and stride_along(column, steps) < stride_along(axis, steps)
        ):
            inside = [*above, *pre, *steps]
            return [*before, Columns(column, size, [acc], [(axis, n)], inside, [], is_running=True)]
        case [*before, Loop() as loop]:
            loop.body = in_columns(loop.body)
    return body


def stride_along(axis: str, body: Sequence[Statement]) -> int:
    """Bytes between what neighbours along the axis read and write, of all arrays together."""
    found = [split_linear(s.offset, axis) for s in body if isinstance(s, (Load, Store))]
    return sum(abs(estimate(linear[0])) if linear else 64 for linear in found)
