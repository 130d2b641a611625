"""Code of the user's that runs as it is, but for an iterator that each call takes an item of."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any

from npcompile.tracer.bytecode.analysis import EXHAUSTED_SKIPS, decode
from npcompile.tracer.bytecode.assembler import (
    JUMP_FORWARD,
    LOAD_CONST,
    POP_TOP,
    RESUME,
    Item,
    assembled_instructions,
    exception_table,
    first_of,
    line_table,
)

FOR_ITER = first_of("FOR_ITER")
AT_END = [dis.opmap[name] for name in ("END_FOR", "POP_TOP")[:EXHAUSTED_SKIPS]]


def taking_an_item(code: CodeType, items_of: Iterator[Any], kept: Any) -> CodeType:
    """The code, of which each call takes an item of an endless iterator first. `kept` is one of its constants."""
    instructions = decode(code)
    begin = next(k for k, i in enumerate(instructions) if i.opcode == RESUME) + 1
    where, body = instructions[begin - 1].positions, len(instructions)  # labels of its own: the end of the loop, the body
    items: list[Item] = []
    labels: dict[int, int] = {}
    for k, i in enumerate(instructions):
        if k == begin:
            taken = [(LOAD_CONST, len(code.co_consts), None), (FOR_ITER, 0, body), *[(POP_TOP, 0, None)] * 2]
            taken += [(JUMP_FORWARD, 0, body + 1), *((opcode, 0, None) for opcode in AT_END)]
            labels |= {body: len(items) + 5, body + 1: len(items) + len(taken)}
            items += [Item(opcode, arg, label, where, None) for opcode, arg, label in taken]
        labels[i.index] = len(items)
        items.append(Item(i.opcode, i.arg, i.target, i.positions, i.handler))
    return code.replace(
        co_code=assembled_instructions(items, labels),
        co_consts=(*code.co_consts, items_of, kept),
        co_stacksize=max(code.co_stacksize, 2),
        co_linetable=line_table(items, code.co_firstlineno),
        co_exceptiontable=exception_table(items, labels),
    )
