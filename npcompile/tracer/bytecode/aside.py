"""The user's own code after a beginning of ours, which counts calls and hands those with other types of arguments on.

The beginning stands before RESUME. CPython does not show a frame that has not come to its RESUME: tracebacks, warnings and
`sys._getframe` pass it over, so what is called there seems to be called by the caller. The result of that call is returned after
another RESUME, and its exception raised again after one: profilers are told of such an end, and have to hear of a beginning.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from npcompile.tracer.bytecode.assembler import (
    CALLING,
    FOR_ITER,
    JUMP_FORWARD,
    JUMP_IF_FALSE,
    LOAD_FAST,
    NOP,
    POP_TOP,
    PUSH_NULL,
    RERAISE,
    RESUME,
    RETURN_VALUE,
    Assembly,
    written,
)
from npcompile.tracer.bytecode.decode import Handler, decode
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.bytecode.versions import RUNNING

SPLIT = 1  # what instructions of several steps leave on the stack between these
HIDDEN = RUNNING.has_split_iterator  # slots of the stack above the iterator
AT_END = [dis.opmap.get(name, -1) for name in RUNNING.end_of_loop]


@dataclass(frozen=True, slots=True)
class Others:
    """The calls that are handed on to `enter`, with a value for each parameter: those for which `test(words, ...)` is False."""

    test: Callable[..., bool]
    words: bytes  # what `npc_is_of_kind` asks
    enter: Callable[..., Any]
    are_counted_alone: bool  # do these alone take items?


def taking_an_item(code: CodeType, items_of: Iterator[Any], kept: Any, others: Others | None = None) -> CodeType:
    """The code, of which each call takes an item of an endless iterator. `kept` is one of its constants."""
    return Aside(code=code).write(items_of, kept, others)


@dataclass
class Aside(Assembly):
    """Writes the beginning, the user's code, and the ends of calls that were handed on."""

    depth: int = field(default=2 + HIDDEN, init=False)  # of the stack in the beginning

    def write(self, items_of: Iterator[Any], kept: Any, others: Others | None) -> CodeType:
        instructions = decode(self.code).instructions
        start = next(i.positions for i in instructions if i.traits.flow == "start")
        body, other, leave, failed = 0, self.new_label(), self.new_label(), self.new_label()
        self.positions, self.handler = instructions[body].positions, Handler(failed, 0, False, 0)
        self.consts.append(kept)
        if others is None or not others.are_counted_alone:
            self.take_an_item(items_of)
        if others is not None:
            self.call(others.test, others.words)
            self.add(JUMP_IF_FALSE, label=other)
            self.add(JUMP_FORWARD, label=body)
            self.place(other)
            if others.are_counted_alone:
                self.take_an_item(items_of)
            self.call(others.enter)
            self.add(JUMP_FORWARD, label=leave)
        for i in instructions:
            self.place(i.index)
            self.items += written(instructions, i)
        self.positions, self.handler = start, None
        self.add(NOP)  # not run: trace functions are told of a line where that of the instruction before is another
        for label, opcode in (leave, RETURN_VALUE), (failed, RERAISE):
            self.place(label)
            self.add(RESUME)
            self.add(opcode)
        return self.assembled(co_stacksize=max(self.code.co_stacksize + SPLIT, self.depth))

    def take_an_item(self, items_of: Iterator[Any]) -> None:
        end, after = self.new_label(), self.new_label()
        self.load_constant(items_of)
        for _ in range(HIDDEN):
            self.add(PUSH_NULL)
        self.add(FOR_ITER, label=end)
        for _ in range(2 + HIDDEN):
            self.add(POP_TOP)
        self.add(JUMP_FORWARD, label=after)
        self.place(end)
        for opcode in AT_END:
            self.add(opcode)
        self.place(after)

    def call(self, function: Callable[..., Any], *first: Any) -> None:
        """Call it with some constants and the arguments."""
        if not RUNNING.null_above:
            self.add(PUSH_NULL)
        self.load_constant(function)
        if RUNNING.null_above:
            self.add(PUSH_NULL)
        for constant in first:
            self.load_constant(constant)
        count = len(Parameters.of(self.code).names)
        for slot in range(count):
            self.add(LOAD_FAST, slot)
        for opcode in CALLING:
            self.add(opcode, len(first) + count)
        self.depth = max(self.depth, 2 + len(first) + count)
