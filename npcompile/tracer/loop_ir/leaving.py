"""Where a program may end although Python's function goes on: after its loops, and where Python raises an error."""

from __future__ import annotations

from collections.abc import Callable

from npcompile.tensor_core.loop_ir.ops import Return
from npcompile.tensor_core.loop_ir.states import Fixed, TupleOf
from npcompile.tracer.bytecode.analysis import CodeFacts, loop_region
from npcompile.tracer.loop_ir.abstract import Raises, Unsupported, recipe_of
from npcompile.tracer.loop_ir.builder import Builder, Frame, Saved, Tail
from npcompile.tracer.loop_ir.lists import OtherElement


class EndsBefore(Exception):
    """A program that aborts has to end at the first block after the loops, as it cannot end in a later one."""


def attempted(b: Builder, translate: Callable[[], None], beginning: Saved | None) -> bool:
    """Translate an instruction. False: Python goes on before it, which raises there, or it has no IR and the loops are done.

    `beginning`: of the block, if the program may end there.
    """
    before = b.saved() if not b.aborts and is_after_loops(b.frame) else None
    try:
        translate()
    except Raises:
        if b.aborts:
            raise
        b.leave()
        return False
    except Unsupported as error:
        if before is None and beginning is None or isinstance(error, OtherElement):
            raise
        if beginning is not None:
            end(b, beginning)
            return False
        assert before is not None
        b.restore(before)
        b.leave()
        return False
    return True


def begun(b: Builder) -> Saved | None:
    """The beginning of a block that a program which aborts may end at."""
    may_end = b.goes_on and b.frame.caller is None and b.facts.enterable[b.frame.index] and is_behind(b, b.frame)
    return b.saved() if may_end else None


def is_behind(b: Builder, frame: Frame) -> bool:
    """Is the function's frame after all loops, or outside the one that the program began at?"""
    return is_after_loops(frame) if b.loop is None else frame.index not in b.loop


def end(b: Builder, beginning: Saved) -> None:
    """The program ends at the beginning of the block, and Python goes on there."""
    b.restore(beginning)
    frame = b.frame
    given = unchanged(b.facts)
    slots = tuple(slot for slot in sorted(frame.living(frame.index)) if slot >= 0 and b.facts.slots[slot] not in given)
    stack = frame.stack[b.held :]
    parts = [recipe_of(x) for x in (*stack, *(frame.locals[slot] for slot in slots))]
    op = Return(TupleOf((Fixed(None), Fixed(len(b.tails)), *parts)), b.at)
    b.emit(op)
    b.tails.append(Tail(op, frame.index, len(stack), slots))


def is_left_behind(b: Builder) -> bool:
    """Has a program that may be left, and began at a loop, come to its end, where others follow, or one is around it?"""
    return not b.aborts and b.loop is not None and b.frame.index not in b.loop and not is_after_loops(b.frame)


def unchanged(facts: CodeFacts) -> set[str]:
    """The variables that nothing sets: parameters stay what they are."""
    changed = {i.argval for i in facts.instructions if i.traits.place == "local" and i.traits.access != "read"}
    return {*facts.slots} - changed


def leads_to_raise(b: Builder) -> bool:
    """Does all that follows end in a `raise`? A program that aborts is left before it, and Python raises the error."""
    index = b.frame.index
    while b.aborts:
        flow = b.facts.instructions[index].traits.flow
        if flow and flow != "start":
            return flow == "raise"
        index += 1
    return False


def is_after_loops(frame: Frame) -> bool:
    """Is no loop of the function left to run, and was there one?"""
    headers = frame.facts.loop_headers
    if not headers or frame.index < max(headers):
        return False
    regions = [loop_region(frame.facts, header) for header in headers]
    return not any(frame.index in region for region in regions) and max(map(max, regions)) < frame.index
