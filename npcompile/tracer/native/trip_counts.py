"""How many iterations loops have, where the program says so: of such few that threads or strips would only cost."""

from __future__ import annotations

from npcompile.backends.cpu.loops.scalar_loops import LITERAL
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.types import Span

FEW = 1000  # iterations of a nest, of about a nanosecond


def note(b: Blocks, header: int, span: Span, step: int | None) -> None:
    """The loop whose header is there goes over this range."""
    ends = [LITERAL.fullmatch(x.text) for x in (span.start, span.stop)]
    if ends[0] is None or ends[1] is None or not step:
        b.trip_counts.pop(header, None)
    else:
        b.trip_counts[header] = len(range(int(ends[0][1]), int(ends[1][1]), step))


def are_few(b: Blocks, region: frozenset[int]) -> bool:
    """Has a nest of loops, of this region of instructions, only few iterations?"""
    total = 1
    for header, inside in b.loops.items():
        if inside <= region:
            total *= max(b.trip_counts.get(header, FEW), 1)
    return total < FEW
