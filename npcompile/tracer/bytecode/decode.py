"""A code object as a list of instructions with resolved jump targets, the same on every CPython version."""

from __future__ import annotations

import dis
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from npcompile.tensor_core.graph import Location

LONGEST_CODE = 150_000  # bytes, 4,000 statements or more: to compile it takes about ten seconds
_HIDDEN = ("EXTENDED_ARG", "CACHE")
_CALL_PREFIX = ("KW_NAMES", "PRECALL")  # belong to the CALL after them: execution enters before the first of them


def is_too_long(code: CodeType) -> bool:
    """Would it take longer to compile than it is likely to give back?"""
    return len(code.co_code) > LONGEST_CODE


@dataclass(frozen=True, slots=True)
class Instruction:
    index: int  # position among the instructions, prefixes and caches left out
    opname: str
    arg: int
    argval: Any
    argrepr: str
    line: int
    target: int  # index of the jump target, -1 where there is none


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of one code object."""

    code: CodeType
    instructions: tuple[Instruction, ...]

    def location(self, index: int) -> Location:
        return Location(self.code.co_filename, self.instructions[index].line, self.code.co_qualname)

    def entry_of(self, index: int) -> int:
        """Where execution can enter to run the instruction at `index`: before the prefixes of a call."""
        while (
            index
            and self.instructions[index].opname in ("CALL", "PRECALL")
            and (self.instructions[index - 1].opname in _CALL_PREFIX)
        ):
            index -= 1
        return index

    def after_loop(self, index: int) -> int:
        """Where an exhausted FOR_ITER at `index` goes, with the iterator popped."""
        target = self.instructions[index].target
        if self.instructions[target].opname == "END_FOR":
            target += 1
            if self.instructions[target].opname == "POP_TOP" and dis.stack_effect(dis.opmap["END_FOR"]) == -1:
                target += 1
        return target


def decode(code: CodeType) -> Program:
    """The instructions of `code`: the same Program while it is often asked for, as by functions that call themselves."""
    return _decode(code, id(code))


def forget_decoded() -> None:
    """Let go of the code that was decoded."""
    _decode.cache_clear()


@lru_cache(256)
def _decode(code: CodeType, identity: int) -> Program:  # equal code may be of another file
    raw = [i for i in dis.get_instructions(code) if i.opname not in _HIDDEN]
    index_at: dict[int, int] = {}
    hidden_since = 0
    for i in dis.get_instructions(code):
        # A jump to an EXTENDED_ARG means the instruction that it extends.
        index_at[i.offset] = hidden_since
        if i.opname not in _HIDDEN:
            hidden_since += 1
    line = code.co_firstlineno
    instructions = []
    for index, i in enumerate(raw):
        if i.positions is not None and i.positions.lineno is not None:
            line = i.positions.lineno
        is_jump = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
        target = index_at[i.argval] if is_jump else -1
        instructions.append(Instruction(index, i.opname, i.arg or 0, i.argval, i.argrepr, line, target))
    return Program(code, tuple(instructions))
