"""Where a program may end although Python's function goes on: after its loops."""

from __future__ import annotations

from collections.abc import Callable

from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.loop_ir.abstract import Raises, Unsupported
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.lists import OtherElement


def attempted(b: Builder, translate: Callable[[], None]) -> bool:
    """Translate an instruction. False: Python goes on before it, which raises there, or it has no IR and the loops are done."""
    before = b.saved() if is_after_loops(b) else None
    try:
        translate()
    except Raises:
        if b.aborts:
            raise
        b.leave()
        return False
    except Unsupported as error:
        if before is None or isinstance(error, OtherElement):
            raise
        b.restore(before)
        b.leave()
        return False
    return True


def leads_to_raise(b: Builder) -> bool:
    """Does all that follows end in a `raise`? A program that aborts is left before it, and Python raises the error."""
    index = b.frame.index
    while b.aborts:
        flow = b.facts.instructions[index].traits.flow
        if flow and flow != "start":
            return flow == "raise"
        index += 1
    return False


def is_after_loops(b: Builder) -> bool:
    """Is no loop of the function left to run, and was there one?"""
    headers = b.facts.loop_headers
    if b.aborts or not headers or b.frame.index < max(headers):
        return False
    regions = [loop_region(b.facts, header) for header in headers]
    return not any(b.frame.index in region for region in regions) and max(map(max, regions)) < b.frame.index
