"""Instructions to bytes: an assembler for the code objects of the CPython that runs."""

from __future__ import annotations

import dis
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

from npcompile.tracer.bytecode.decode import CACHES, IS_BACKWARD, JUMPS, Handler, Instruction, Positions
from npcompile.tracer.bytecode.opcodes import HALVES
from npcompile.tracer.bytecode.versions import RUNNING, WHY_UNKNOWN

# --- Opcodes


def first_of(*names: str) -> int:
    """The opcode that this version of CPython has of several that do the same. -1 where it is unknown and has none of them."""
    found = [dis.opmap[name] for name in names if name in dis.opmap]
    assert found or WHY_UNKNOWN, names
    return found[0] if found else -1


LOAD_FAST, STORE_FAST, DELETE_FAST, LOAD_CONST = map(first_of, ("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_CONST"))
PUSH_NULL, POP_TOP, SWAP, IS_OP, BUILD_TUPLE = map(first_of, ("PUSH_NULL", "POP_TOP", "SWAP", "IS_OP", "BUILD_TUPLE"))
COPY_FREE_VARS, RESUME, RETURN_VALUE, RAISE_VARARGS, RERAISE, JUMP_FORWARD, NOP = map(
    first_of, ("COPY_FREE_VARS", "RESUME", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "NOP")
)
BUILD_LIST, UNPACK_SEQUENCE, STORE_SUBSCR = map(first_of, ("BUILD_LIST", "UNPACK_SEQUENCE", "STORE_SUBSCR"))
LOAD_GLOBAL, FOR_ITER = map(first_of, ("LOAD_GLOBAL", "FOR_ITER"))
LOAD_SPECIAL, COPY, CALL, GET_ITER = (dis.opmap.get(name, -1) for name in ("LOAD_SPECIAL", "COPY", "CALL", "GET_ITER"))
CHECKED_LOAD = first_of("LOAD_FAST_CHECK", "LOAD_FAST")  # raises UnboundLocalError
JUMP_IF_FALSE = first_of("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_IF_FALSE")
JUMP_BACK = first_of("JUMP_BACKWARD_NO_INTERRUPT")  # no signal handler may raise while the state is being handed over
CALLING = [dis.opmap[name] for name in ("PRECALL", "CALL") if name in dis.opmap]  # each with the number of arguments
# Move a value out of a local, so that the stack alone owns it.
MOVE_FAST = (first_of("LOAD_FAST_AND_CLEAR"),) if "LOAD_FAST_AND_CLEAR" in dis.opmap else (LOAD_FAST, DELETE_FAST)

# Two instructions that CPython does as one, where their variables are among the first sixteen.
TOGETHER: Final = {
    tuple(dis.opmap.get(half, -1) for half in halves): dis.opmap[name]
    for name, halves in HALVES.items()
    if name in dis.opmap and "BORROW" not in name
}
COMPARE_OP, TO_BOOL = dis.opmap.get("COMPARE_OP", -1), dis.opmap.get("TO_BOOL", -1)


@dataclass(slots=True)
class Item:
    """An instruction to write."""

    opcode: int
    arg: int
    label: int | None  # where a jump goes
    positions: Positions
    handler: Handler | None  # its target is a label
    offset: int = 0  # of its first word
    size: int = 1  # in words, with EXTENDED_ARGs and caches
    is_done: bool = False  # does the item before it do this too?


@dataclass(kw_only=True)
class Assembly:
    """Code that is being written. A label is the index of one of the user's instructions, or negative for a place of ours."""

    code: CodeType  # the user's
    items: list[Item] = field(default_factory=list)
    labels: dict[int, int] = field(default_factory=dict)  # positions among the items
    consts: list[Any] = field(init=False)
    positions: Positions = (None, None, None, None)  # of what is being written
    handler: Handler | None = None  # of what is being written
    fresh_label: int = -1

    def __post_init__(self) -> None:
        self.consts = [*self.code.co_consts]

    def add(self, opcode: int, arg: int = 0, label: int | None = None) -> None:
        self.items.append(Item(opcode, arg, label, self.positions, self.handler))

    def place(self, label: int) -> None:
        self.labels.setdefault(label, len(self.items))

    def new_label(self) -> int:
        self.fresh_label -= 1
        return self.fresh_label

    def load_constant(self, value: Any) -> None:
        self.consts.append(value)
        self.add(LOAD_CONST, len(self.consts) - 1)

    def assembled(self, **others: Any) -> CodeType:
        """The user's code with these instructions and constants, and `others` of its parts."""
        return self.code.replace(
            co_code=assembled_instructions(self.items, self.labels),
            co_consts=(*self.consts,),
            co_linetable=line_table(self.items, self.code.co_firstlineno),
            co_exceptiontable=exception_table(self.items, self.labels),
            **others,
        )


def written(instructions: tuple[Instruction, ...], i: Instruction) -> list[Item]:
    """What CPython runs for an instruction. Labels are indices of instructions."""
    target = i.target
    if i.opname == "FOR_ITER" and instructions[target - 1].opname == "END_FOR":
        target -= 1
    return [Item(opcode, arg, target if opcode in JUMPS else None, i.positions, i.handler) for opcode, arg in i.raw]


def put_together(items: list[Item], labels: dict[int, int]) -> None:
    """Let single items do what two do that stand one after the other."""
    entered = {*labels.values()}
    for k in range(1, len(items)):
        one, other = items[k - 1], items[k]
        if one.is_done or k in entered or one.handler != other.handler:
            continue
        if one.opcode == COMPARE_OP and other.opcode == TO_BOOL:
            other.is_done = bool(one.arg & RUNNING.bool_bit)
        elif (both := TOGETHER.get((one.opcode, other.opcode))) is not None and max(one.arg, other.arg) < 16:
            one.opcode, one.arg, other.is_done = both, one.arg << 4 | other.arg, True


def assembled_instructions(items: list[Item], labels: dict[int, int]) -> bytes:
    """The bytes of the instructions, once their sizes, on which jumps depend, and the jumps, on which sizes depend, agree."""
    put_together(items, labels)
    for item in items:
        item.size = 0 if item.is_done else 1 + extended_words(item.arg) + CACHES[item.opcode]
    jumps = [item for item in items if item.label is not None]
    while True:
        offset = 0
        for item in items:
            item.offset = offset
            offset += item.size
        grown = False
        for item in jumps:
            assert item.label is not None
            distance = items[labels[item.label]].offset - (item.offset + item.size)
            item.arg = -distance if item.opcode in IS_BACKWARD else distance
            assert item.arg >= 0, (dis.opname[item.opcode], distance)
            needed = 1 + extended_words(item.arg) + CACHES[item.opcode]
            if needed > item.size:
                item.size, grown = needed, True
        if not grown:
            break
    words = bytearray()
    for item in items:
        if item.is_done:
            continue
        caches = CACHES[item.opcode]
        for shift in range(8 * (item.size - caches - 1), 0, -8):
            words += bytes((dis.EXTENDED_ARG, item.arg >> shift & 255))
        words += bytes((item.opcode, item.arg & 255)) + bytes(2 * caches)
    return bytes(words)


def extended_words(arg: int) -> int:
    return (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF)


def exception_table(items: list[Item], labels: dict[int, int]) -> bytes:
    """Format: https://github.com/python/cpython/blob/3.13/InternalDocs/exception_handling.md"""
    table = bytearray()
    position = 0
    while position < len(items):
        first, handler = items[position], items[position].handler
        while position < len(items) and items[position].handler == handler:
            last = items[position]
            position += 1
        if handler is not None:
            size = last.offset + last.size - first.offset
            target = items[labels[handler.target]].offset
            begin = len(table)
            for number in (first.offset, size, target, handler.raw_depth << 1 | handler.push_lasti):
                table += high_first(number)
            table[begin] |= 128
    return bytes(table)


def high_first(number: int) -> bytes:
    """Six bits a byte, the highest first; bit 6 says that more follow."""
    groups = [number & 63]
    while number := number >> 6:
        groups.append(number & 63 | 64)
    return bytes(reversed(groups))


def low_first(number: int) -> bytes:
    """Six bits a byte, the lowest first; bit 6 says that more follow."""
    groups = bytearray()
    while number > 63:
        groups.append(number & 63 | 64)
        number >>= 6
    groups.append(number)
    return bytes(groups)


def line_table(items: Iterable[Item], first_line: int) -> bytes:
    """Format: https://github.com/python/cpython/blob/3.13/InternalDocs/code_objects.md#source-code-locations"""
    table = bytearray()
    line = first_line
    runs: list[tuple[Positions, int]] = []
    for item in items:
        if runs and runs[-1][0] == item.positions:
            runs[-1] = (item.positions, runs[-1][1] + item.size)
        else:
            runs.append((item.positions, item.size))
    for positions, size in runs:
        encoded, line = encoded_positions(positions, line)
        kind = 15 if not encoded else 13 if None in positions else 14
        for words in (*[8] * (size // 8), size % 8):
            if words:
                table += bytes((128 | kind << 3 | words - 1,)) + encoded
                encoded, _ = encoded_positions(positions, line)
    return bytes(table)


def encoded_positions(positions: Positions, previous_line: int) -> tuple[bytes, int]:
    line, end_line, column, end_column = positions
    if line is None:
        return b"", previous_line
    delta = line - previous_line
    encoded = low_first(-delta << 1 | 1 if delta < 0 else delta << 1)
    if end_line is None or column is None or end_column is None:
        return encoded, line
    return encoded + low_first(end_line - line) + low_first(column + 1) + low_first(end_column + 1), line
