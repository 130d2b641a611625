"""Running extremes and running combinations of integers along one long axis, in slices that run side by side.

First each slice is combined, then each goes again from what those before it came to. That is exact where the order in which
neighbours are combined does not matter, as it does for sums of floating-point numbers. So how many slices there are may
depend on the number of threads; the second time costs as much as the first, which few threads do not make up for.
"""

from __future__ import annotations

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.kernel_plan import ScanSlices
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.reducers import in_order_text
from npcompile.backends.kernels.kernel import Store

MOST_SLICES, LEAST_SLICE = 64, 32768
FEWEST_THREADS = 4


def print_scan_slices(p: Printer, way: ScanSlices) -> None:
    """The body of the range function: with c->between the second time, from c->partial on."""
    a, loop = way.scan.accumulator, way.loop
    c = c_type(a.dtype)
    p.statements(way.before)
    p.accumulators = {a.name: a}
    p.statements(way.inside)
    p.open("for (int64_t task = begin; task < end; task++) {")
    p.line("const int64_t slice_first = task * c->slice_size;")
    p.line(f"const int64_t slice_end = npc_min(slice_first + c->slice_size, {size_text(loop.size)});")
    p.line(f"{c} {a.name} = 0;")
    p.line(f"int {a.name}_started = 0;")
    p.limits[loop.axis] = ("slice_first", "slice_end")
    p.open("if (!c->between) {")
    p.serial_loop(loop.axis, ("slice_first", "slice_end"), [s for s in loop.body if not isinstance(s, Store)])
    p.line(f"(({c}*)c->partial)[task] = {a.name};")
    p.close("} else {")
    p.indent += 1
    p.line(f"if (task) {a.name} = (({c}*)c->partial)[task - 1], {a.name}_started = 1;")
    p.statement(loop)
    p.close()
    p.close()


def scan_call(name: str, way: ScanSlices) -> list[str]:
    """Statements that run the kernel with the context `c`."""
    a, c = way.scan.accumulator, c_type(way.scan.accumulator.dtype)
    combined = in_order_text(a.reducer, "totals[k - 1]", "totals[k]", a.dtype)
    return [
        f"const int64_t n = {size_text(way.loop.size)};",
        f"const int64_t threads = n < {2 * LEAST_SLICE} ? 1 : rt->threads();",
        f"const int64_t most = threads < {FEWEST_THREADS} ? 1 : npc_min({MOST_SLICES}, 2 * threads);",
        f"c.slices = npc_max(1, npc_min(most, n / {LEAST_SLICE}));",
        "c.slice_size = npc_max(1, (n + c.slices - 1) / c.slices);",
        "c.slices = (n + c.slice_size - 1) / c.slice_size;",
        f"{c} totals[{MOST_SLICES}];",
        "c.partial = (char*)totals;",
        f"if (c.slices > 1 && rt->parallel({name}, &c, c.slices - 1, 1)) goto failed;",
        f"for (int64_t k = 1; k < c.slices - 1; k++) totals[k] = {combined};",
        "c.between = 1;",
        f"if (rt->parallel({name}, &c, c.slices, 1)) goto failed;",
    ]
