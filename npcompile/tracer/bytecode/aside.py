"""Code of the user's that runs as it is, but for an iterator that each call takes an item of."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any

from npcompile.tracer.bytecode.assembler import (
    FOR_ITER,
    JUMP_FORWARD,
    LOAD_CONST,
    POP_TOP,
    PUSH_NULL,
    Item,
    assembled_instructions,
    exception_table,
    line_table,
    written,
)
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.bytecode.versions import RUNNING

SPLIT = 1  # what instructions of several steps leave on the stack between these
HIDDEN = RUNNING.has_split_iterator  # slots of the stack above the iterator
AT_END = [dis.opmap.get(name, -1) for name in RUNNING.end_of_loop]


def taking_an_item(code: CodeType, items_of: Iterator[Any], kept: Any) -> CodeType:
    """The code, of which each call takes an item of an endless iterator first. `kept` is one of its constants."""
    instructions = decode(code).instructions
    begin = next(k for k, i in enumerate(instructions) if i.traits.flow == "start") + 1
    where, body = instructions[begin - 1].positions, len(instructions)  # labels of its own: the end of the loop, the body
    items: list[Item] = []
    labels: dict[int, int] = {}
    for k, i in enumerate(instructions):
        if k == begin:
            taken = [(LOAD_CONST, len(code.co_consts), None), *[(PUSH_NULL, 0, None)] * HIDDEN, (FOR_ITER, 0, body)]
            taken += [(POP_TOP, 0, None)] * (2 + HIDDEN)
            taken += [(JUMP_FORWARD, 0, body + 1), *((opcode, 0, None) for opcode in AT_END)]
            labels |= {body: len(items) + len(taken) - len(AT_END), body + 1: len(items) + len(taken)}
            items += [Item(opcode, arg, label, where, None) for opcode, arg, label in taken]
        labels[i.index] = len(items)
        items += written(instructions, i)
    return code.replace(
        co_code=assembled_instructions(items, labels),
        co_consts=(*code.co_consts, items_of, kept),
        co_stacksize=max(code.co_stacksize + SPLIT, 2 + HIDDEN),
        co_linetable=line_table(items, code.co_firstlineno),
        co_exceptiontable=exception_table(items, labels),
    )
