"""Sums along several rows at a time: what the rows have in common is read once, and no addition waits for the one before it.

Every row is summed as it is alone, so no result depends on which rows are in a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.doubts import doubt_rows
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.reducers import is_fused, is_pairwise
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import Kernel, Load, Loop, Reduce, Statement, children
from npcompile.tensor_core.dim import same

ROWS = 4
MOST_SUMS, MOST_STATEMENTS = 2, 12  # of a row: more would not stay in registers
MOST_APART = 512  # elements of rows that have nothing in common: longer ones come faster from memory one by one


def sums_rows(kernel: Kernel, body: Sequence[Statement]) -> bool:
    """Do the statements for a row begin with sums along it, quickly computed?"""
    first = body[0] if body else None
    if kernel.can_fail or not isinstance(first, Reduce) or len(first.body) != 1 or len(first.accumulators) > MOST_SUMS:
        return False
    (loop,) = first.body
    if not isinstance(loop, Loop) or len(loop.body) > MOST_STATEMENTS or not is_fused(first):
        return False
    if any(map(children, loop.body)):
        return False
    is_one_run = first.run is None or (first.run.size is not None and same(first.run.size, loop.size))
    return is_one_run and all(map(is_pairwise, first.accumulators))


def block_condition(axis: str, end: str, body: Sequence[Statement]) -> str:
    """When ROWS rows from `axis` on, but none from `end` on, are to be summed at a time, in C."""
    (loop,) = body[0].body if isinstance(body[0], Reduce) else body[:1]
    assert isinstance(loop, Loop)
    is_shared = any(isinstance(s, Load) and axis not in symbols_in(s.offset) for s in loop.body)
    is_short = "" if is_shared else f" && {size_text(loop.size)} <= {MOST_APART}"
    return f"{axis} + {ROWS} <= {end}{is_short}"


def print_row_block(p: Printer, axis: str, body: Sequence[Statement]) -> None:
    """The statements of ROWS rows, of which `axis` is the first."""
    reduce, *after = body
    assert isinstance(reduce, Reduce)
    rows = [
        {
            a.name: replace(a, name=f"{a.name}_{k}", result=replace(a.result, name=f"{a.result.name}_{k}"))
            for a in reduce.accumulators
        }
        for k in range(ROWS)
    ]
    p.line(f"const int64_t first_row = {axis};")
    p.rows = [(f"const int64_t {axis} = first_row + {k};", sums) for k, sums in enumerate(rows)]
    p.reduce(replace(reduce, accumulators=[replace(a, doubted="") for sums in rows for a in sums.values()]))
    p.rows = []
    for a in reduce.accumulators:
        for line in doubt_rows([sums[a.name] for sums in rows], p.kernel):
            p.line(line)
    for k in range(ROWS):
        p.open("{")
        p.line(f"const int64_t {axis} = first_row + {k};")
        for a in reduce.accumulators:
            p.line(f"const {c_type(a.result.dtype)} {a.result.name} = {a.result.name}_{k};")
        p.statements(after)
        p.close()
