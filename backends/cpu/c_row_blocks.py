"""Sums along several rows at a time: what the rows have in common is read once, and no addition waits for the one before it.

Every row is summed as it is alone, so no result depends on which rows are in a block.
"""

from __future__ import annotations

from dataclasses import replace

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.kernel_plan import RowSums
from npcompile.backends.cpu.nan_recheck import are_fours, doubt_rows
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.statement_forms import MOST_APART

ROWS = 4


def block_condition(axis: str, end: str, rows: RowSums) -> str:
    """When ROWS rows from `axis` on, but none from `end` on, are to be summed at a time, in C."""
    is_short = "" if rows.is_shared else f" && {size_text(rows.loop.size)} <= {MOST_APART}"
    return f"{axis} + {ROWS} <= {end}{is_short}"


def print_row_block(p: Printer, axis: str, rows: RowSums) -> None:
    """The statements of ROWS rows, of which `axis` is the first."""
    accumulators = rows.reduce.accumulators
    sums = [
        {a.name: replace(a, name=f"{a.name}_{k}", result=replace(a.result, name=f"{a.result.name}_{k}")) for a in accumulators}
        for k in range(ROWS)
    ]
    p.line(f"const int64_t first_row = {axis};")
    read = p.read.copy()
    p.rows = [(f"const int64_t {axis} = first_row + {k};", of_row) for k, of_row in enumerate(sums)]
    every = [replace(a, doubted="") for of_row in sums for a in of_row.values()]
    p.reduce(replace(rows.reduce, accumulators=every), p.plan.reduces[rows.reduce])
    p.rows = []
    for a in accumulators:
        p.in_fours |= are_fours(a, p.plan.rechecked)
        for line in doubt_rows([of_row[a.name] for of_row in sums], p.plan.rechecked):
            p.line(line)
    p.rows_at_once = ROWS
    for k in range(ROWS):
        p.open("{")
        p.line(f"const int64_t {axis} = first_row + {k};")
        for a in accumulators:
            p.line(f"const {c_type(a.result.dtype)} {a.result.name} = {a.result.name}_{k};")
        p.statements(rows.after)
        p.close()
    p.read, p.rows_at_once = read, 1  # where there are fewer rows
