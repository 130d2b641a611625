"""A code object as a list of instructions that are the same on every CPython version.

Names and meanings are those of `opcodes`. An instruction here stands for one of CPython's, for several that belong together
(`KW_NAMES`, `PRECALL` and `CALL` are one call), or for a half of one that does two things. `raw` has what CPython runs for it, so
it can be written again. Between two instructions execution can be left and entered, with the same stack on every version: slots
that some versions add (see `Version.has_split_exit`) are hidden, and NULL wherever execution is entered.
"""

from __future__ import annotations

import dis
import inspect
import opcode as opcode_tables
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, repeat
from types import CodeType
from typing import Any, Final, NamedTuple

from npcompile.tensor_core.graph import Location
from npcompile.tracer.bytecode.opcodes import (
    ARGUMENT_IS_PLACE,
    ASKS_TRUTH,
    COMMON_CONSTANTS,
    CONDITIONAL,
    HALVES,
    IDENTITY_CHECK,
    INTRINSICS,
    NAMES_OF_INTRINSICS,
    NO_FALL_THROUGH,
    OR_POP,
    SAME,
    is_jump,
)
from npcompile.tracer.bytecode.traits import NO_TRAITS, TRAITS, Traits
from npcompile.tracer.bytecode.versions import RUNNING, WHY_UNKNOWN

Positions = tuple[int | None, int | None, int | None, int | None]
Word = tuple[int, int]  # an opcode of the CPython that runs, and its argument


class Handler(NamedTuple):
    """Where an exception raised by an instruction goes."""

    target: int  # index of the handler's first instruction
    depth: int  # the stack is cut to this many slots
    push_lasti: bool  # the offset of the raising instruction is pushed below the exception
    raw_depth: int  # as CPython counts: with hidden slots


@dataclass(slots=True, eq=False)  # not frozen: that takes three times as long to make
class Instruction:
    index: int
    opname: str
    arg: int
    argval: Any  # a name, a constant, an operator's symbol, or the keywords of a call
    target: int  # index of the jump target, -1 where there is none
    null: int  # a callable is loaded with a NULL: 1 above it, -1 below it, 0 without one
    line: int
    positions: Positions
    handler: Handler | None
    raw: tuple[Word, ...]
    hidden: int  # bits of the stack's slots, as CPython counts them, that are hidden before it runs
    traits: Traits = field(init=False, repr=False)  # what it does: of its name

    def __post_init__(self) -> None:
        self.traits = TRAITS.get(self.opname, NO_TRAITS)

    @property
    def above_callee(self) -> int | None:
        """How many slots are above the two that what it calls may be in. None: it calls nothing."""
        call = self.traits.call
        return self.arg + (call == "spread") if call else None


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of one code object."""

    code: CodeType
    instructions: tuple[Instruction, ...]

    def location(self, index: int) -> Location:
        return Location(self.code.co_filename, self.instructions[index].line, self.code.co_qualname)


def only_moves(code: CodeType) -> bool:
    """Does it call and compute nothing, so that there is nothing to compile? What reads or sets attributes is so."""
    return MOVES.issuperset(code.co_code[::2])


def decode(code: CodeType) -> Program:
    """The instructions of `code`: the same Program while it is often asked for, as by functions that call themselves."""
    return _decode(code, id(code))


def forget_decoded() -> None:
    """Let go of the code that was decoded."""
    _decode.cache_clear()


@lru_cache(256)
def _decode(code: CodeType, identity: int) -> Program:  # equal code may be of another file
    return Program(code, Decoder(code).instructions())


# --- What CPython has


class Raw(NamedTuple):
    """One of CPython's instructions, with its EXTENDED_ARGs folded in and its caches left out. Offsets count words."""

    first: int  # offset of the first EXTENDED_ARG, or of the instruction
    word: int  # offset of the instruction
    opcode: int
    arg: int
    name: str


LOAD_FAST: Final = dis.opmap.get("LOAD_FAST", -1)
HALF_OPCODES: Final = {name: tuple((half, dis.opmap.get(half, -1)) for half in halves) for name, halves in HALVES.items()}
SPECIAL_EXIT: Final = 1  # the argument of LOAD_SPECIAL for __exit__
MOVING: Final = (  # how the names begin of instructions that call and compute nothing
    *("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "RESUME", "COPY", "SWAP", "POP_TOP", "POP_JUMP", "JUMP_FORWARD", "IS_OP"),
    *("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR", "STORE_FAST", "STORE_ATTR"),
    *("LOAD_COMMON_CONSTANT", "RETURN_VALUE", "RETURN_CONST"),
)
MOVES: Final = frozenset(opcode for name, opcode in dis.opmap.items() if name.startswith(MOVING))
OF_YIELD_FROM: Final = 3  # the argument of GET_ITER for `yield from`, where it has one
CALLED: Final = ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_SUPER_ATTR")  # the lowest bit of their argument asks for a NULL
JUMPS: Final = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
OF_LOCALS: Final = frozenset(dis.haslocal) | frozenset(dis.hasfree)
OF_NAMES: Final = frozenset(dis.hasname)
SYMBOLS: Final = tuple(symbol for _, symbol in vars(opcode_tables).get("_nb_ops", ()))


def cache_entries(name: str) -> int:
    """How many CACHE words follow an instruction: a list by opcode up to 3.12, then a table by name."""
    if WHY_UNKNOWN:
        return 0
    table: Any = vars(opcode_tables)["_inline_cache_entries"]
    return table.get(name, 0) if isinstance(table, Mapping) else table[dis.opmap[name]]


CACHES: Final = {opcode: cache_entries(name) for name, opcode in dis.opmap.items() if opcode < 256}
IS_BACKWARD: Final = frozenset(opcode for name, opcode in dis.opmap.items() if "BACKWARD" in name)


def raw_instructions(code: CodeType) -> list[Raw]:
    bytecode, names = code.co_code, dis.opname
    found = []
    first, extended = -1, 0
    offset, size = 0, len(bytecode) // 2
    while offset < size:
        opcode, arg = bytecode[2 * offset], bytecode[2 * offset + 1] | extended
        first = offset if first < 0 else first
        if opcode == dis.EXTENDED_ARG:
            extended = arg << 8
            offset += 1
            continue
        found.append(Raw(first, offset, opcode, arg, names[opcode]))
        first, extended = -1, 0
        offset += 1 + CACHES.get(opcode, 0)
    return found


def varint(table: Iterator[int]) -> int:
    byte = next(table)
    value = byte & 63
    while byte & 64:
        byte = next(table)
        value = value << 6 | byte & 63
    return value


def exception_table(code: CodeType) -> Iterator[tuple[int, int, int, int, bool]]:
    """(start, end, target, depth, push_lasti) of each region, offsets in words.

    Format: https://github.com/python/cpython/blob/3.13/InternalDocs/exception_handling.md
    """
    table = iter(code.co_exceptiontable)
    try:
        while True:
            start = varint(table)
            end = start + varint(table)
            target, depth_lasti = varint(table), varint(table)
            yield start, end, target, depth_lasti >> 1, bool(depth_lasti & 1)
    except StopIteration:
        return


def localsplus_names(code: CodeType) -> tuple[str, ...]:
    """The names of the fast locals array; a parameter that is a cell keeps its place among the variables."""
    own_cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + own_cells + code.co_freevars


# --- What is common to all versions


class Part(NamedTuple):
    """An instruction that is being made."""

    opname: str
    arg: int
    argval: Any
    null: int
    raw: tuple[Word, ...]


class Decoder:
    """Decodes one code object."""

    def __init__(self, code: CodeType):
        self.code = code
        self.raw = raw_instructions(code)
        self.variables = localsplus_names(code)
        at = {word: k for k, r in enumerate(self.raw) for word in range(r.first, r.word + 1)}
        self.targets = {k: at[target_of(r)] for k, r in enumerate(self.raw) if r.opcode in JUMPS}
        self.handlers: dict[int, tuple[int, int, bool]] = {}  # by word
        for start, end, to, depth, lasti in exception_table(code):
            self.handlers.update(dict.fromkeys(range(start, end), (at[to], depth, lasti)))
        self.entered = {*self.targets.values(), *(to for to, _, _ in self.handlers.values())}
        may_hide = not code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)  # these run as they are
        self.stack = self.hidden() if may_hide and any(hides(self.raw, k) for k in range(len(self.raw))) else {}

    def instructions(self) -> tuple[Instruction, ...]:
        unknown = repeat((None, None, None, None))  # of what a profiler of lines has put at the end
        positions = list(islice(chain(self.code.co_positions(), unknown), len(self.code.co_code) // 2))
        begins: list[int] = []  # for each raw instruction, where the parts begin that stand for it
        parts: list[tuple[Part, int, int]] = []  # with the raw instructions where they begin, and whose place they have
        k = 0
        while k < len(self.raw):
            size, main = self.group(k)
            begins += [len(parts)] * size
            parts += [(part, k, main) for part in self.parts(k, size, main)]
            k += size
        found = []
        line = self.code.co_firstlineno
        for index, (part, k, main) in enumerate(parts):
            word = self.raw[main].word
            line = positions[word][0] or line
            target, handler, hidden = -1, None, self.stack.get(k, (0, 0))[1]
            if main in self.targets and is_jump(part.opname):
                target = begins[self.targets[main]]
                target += part.opname == "FOR_ITER" and parts[target][0].opname == "END_FOR"
            if word in self.handlers:
                to, depth, lasti = self.handlers[word]
                below = self.stack.get(to, (0, 0))[1] & (1 << depth) - 1
                handler = Handler(begins[to], depth - below.bit_count(), lasti, depth)
            opname, arg, argval, null, raw = part
            found.append(Instruction(index, opname, arg, argval, target, null, line, positions[word], handler, raw, hidden))
        return tuple(found)

    def group(self, k: int) -> tuple[int, int]:
        """How many of CPython's instructions from the k-th on are one, and which of them has its place in the source."""
        name = self.raw[k].name
        following = [r.name for r in self.raw[k + 1 : k + 6]]
        follows = following[0] if following and k + 1 not in self.entered else ""
        if name in ("KW_NAMES", "PRECALL"):
            size = 2 + (follows == "PRECALL")
            return size, k + size - 1
        if name == "COPY" and follows == "LOAD_SPECIAL":
            return 1 + len(following), k
        if name == "COPY" and self.asks_identity(k):
            return 4 + (following[3] == "NOT_TAKEN"), k + 3
        if name == "MAKE_FUNCTION":
            size = 1
            while self.raw[k + size].name == "SET_FUNCTION_ATTRIBUTE":
                size += 1
            return size, k
        if name == "END_FOR":
            return len(RUNNING.end_of_loop), k
        if follows == "CALL_KW" or name == "PUSH_NULL" and follows == "CALL_FUNCTION_EX":
            return 2, k + 1
        if name == "CONVERT_VALUE" and follows == "FORMAT_SIMPLE":
            return 2, k
        size = 1 + (name == "TO_BOOL" and follows in ASKS_TRUTH)
        main = k + size - 1
        if self.raw[main].name in CONDITIONAL and main + 1 < len(self.raw) and self.raw[main + 1].name == "NOT_TAKEN":
            size += 1
        return size, main

    def asks_identity(self, k: int) -> bool:
        """Does the k-th instruction begin to ask whether a function is still the built-in one, as 3.14 does to inline it?"""
        asked = self.raw[k + 1 : k + 4]
        return tuple(r.name for r in asked) == IDENTITY_CHECK and callable(COMMON_CONSTANTS[asked[0].arg])

    def parts(self, k: int, size: int, main: int) -> list[Part]:
        """What the instructions of a group are."""
        group = self.raw[k : k + size]
        first, r = group[0], self.raw[main]
        raw = tuple((each.opcode, each.arg) for each in group)
        name, arg = r.name, r.arg
        if first.name == "COPY" and main > k:  # `any(v > 0 for v in x)`: go to the call, as earlier versions do
            return [Part("JUMP", 0, None, 0, ((dis.opmap["JUMP_FORWARD"], 0),))]
        if name in HALVES:
            return [self.local(half, opcode, slot) for (half, opcode), slot in zip(HALF_OPCODES[name], (arg >> 4, arg & 15))]
        if r.opcode in OF_LOCALS:
            opcode = LOAD_FAST if name == "LOAD_FAST_BORROW" else r.opcode
            return [self.local(SAME.get(name, name), opcode, arg)]
        if r.opcode in OF_NAMES:
            return [self.named(name, arg, raw)]
        if name == "RETURN_CONST":
            loads, returns = (dis.opmap["LOAD_CONST"], arg), (dis.opmap["RETURN_VALUE"], 0)
            return [Part("LOAD_CONST", arg, self.code.co_consts[arg], 0, (loads,)), Part("RETURN_VALUE", 0, None, 0, (returns,))]
        if name in OR_POP:
            common, jump = OR_POP[name]
            words = ((dis.opmap["COPY"], 1), (dis.opmap[jump], 0), (dis.opmap["POP_TOP"], 0))
            return [Part(n, int(n == "COPY"), None, 0, (w,)) for n, w in zip(("COPY", common, "POP_TOP"), words)]
        asks = name in ASKS_TRUTH and not RUNNING.jumps_ask_truth
        if asks and k and self.raw[k - 1].name == "COMPARE_OP" and first.name != "TO_BOOL":
            raw = ((dis.opmap["TO_BOOL"], 0), *raw)  # another value may be brought here
        argval: Any = None
        match name:
            case "LOAD_CONST":
                argval = self.code.co_consts[arg]
            case "LOAD_SMALL_INT":
                argval = arg
            case "LOAD_COMMON_CONSTANT":
                argval = COMMON_CONSTANTS[arg]
            case "LOAD_ASSERTION_ERROR":
                argval = AssertionError
            case "BINARY_OP":
                argval = SYMBOLS[arg]
                if argval == "[]":
                    name, arg, argval = "BINARY_SUBSCR", 0, None
            case "COMPARE_OP":
                argval = dis.cmp_op[arg >> RUNNING.compare_shift]
            case "CALL" | "CALL_KW":
                is_named = first.name in ("KW_NAMES", "LOAD_CONST")
                name = "CALL_KW" if is_named else name
                argval = self.code.co_consts[first.arg] if is_named else ()
            case "CALL_FUNCTION_EX" if RUNNING.null_for_keywords:
                arg = int(size == 1)
            case "COPY" if size > 1:
                name, arg = "BEFORE_WITH", 0
            case "MAKE_FUNCTION":
                arg += sum(each.arg for each in group[1:])
            case "FORMAT_SIMPLE" | "FORMAT_WITH_SPEC":
                arg = 4 * (name == "FORMAT_WITH_SPEC")
            case "CONVERT_VALUE" if size > 1:
                name = "FORMAT_VALUE"
            case "CALL_INTRINSIC_1" | "CALL_INTRINSIC_2":
                argval = NAMES_OF_INTRINSICS[name][arg]
                if argval in INTRINSICS:
                    name, arg, argval = INTRINSICS[argval], 0, None
            case "GET_ITER" if arg == OF_YIELD_FROM:
                name = "GET_YIELD_FROM_ITER"
        name = SAME.get(name, name)
        arg = 0 if is_jump(name) else arg
        if k in self.stack:
            name, arg = self.without_hidden(k, name, arg)
        return [Part(name, arg, argval, 0, raw)]

    def local(self, name: str, opcode: int, slot: int) -> Part:
        return Part(name, slot, self.variables[slot], 0, ((opcode, slot),))

    def named(self, name: str, arg: int, raw: tuple[Word, ...]) -> Part:
        argval = self.code.co_names[arg >> RUNNING.name_shifts.get(name, 0)]
        is_called = name == "LOAD_METHOD" or name in RUNNING.name_shifts and name in CALLED and bool(arg & 1)
        if name == "LOAD_ATTR" and is_called:
            name = "LOAD_METHOD"
        null = (1 if RUNNING.null_above else -1) if is_called else 0
        return Part(name, arg, argval, null, raw)

    # --- hidden slots

    def hidden(self) -> dict[int, tuple[int, int]]:
        """The depth of the stack before each of CPython's instructions, and which of its slots are hidden."""
        found: dict[int, tuple[int, int]] = {}
        pending = [(0, 0, 0)]
        while pending:
            k, depth, mask = pending.pop()
            if k in found:
                assert found[k] == (depth, mask), (self.code, self.raw[k], found[k], depth, mask)
                continue
            found[k] = depth, mask
            r = self.raw[k]
            if r.word in self.handlers:
                to, below, lasti = self.handlers[r.word]
                if depth >= below:  # else nothing is raised here
                    pending.append((to, below + 1 + lasti, mask & (1 << below) - 1))
            jump, name = self.targets.get(k), SAME.get(r.name, r.name)
            if jump is not None:
                after = depth + stack_effect(r, True)
                pending.append((jump, after, mask & (1 << min(depth, after)) - 1))
            if name in NO_FALL_THROUGH:
                continue
            after = depth + stack_effect(r, False)
            if name == "SWAP":
                differ = (mask >> depth - 1 ^ mask >> depth - r.arg) & 1
                mask ^= differ << depth - 1 | differ << depth - r.arg
            elif hides(self.raw, k):
                mask = mask & (1 << depth) - 1 | 1 << after - 1
            else:
                mask &= (1 << min(depth, after)) - 1
            pending.append((k + 1, after, mask))
        return found

    def without_hidden(self, k: int, name: str, arg: int) -> tuple[str, int]:
        """The instruction that does the same to a stack without the hidden slots."""
        depth, mask = self.stack[k]
        if self.raw[k].name == "POP_TOP" and mask >> depth - 1 & 1 or name == "PUSH_NULL" and hides(self.raw, k):
            return "NOP", 0
        if name == "CALL" and depth > arg and mask >> depth - arg - 1 & 1:  # the hidden slot is where a method has its object
            return name, arg - 1
        if name not in ARGUMENT_IS_PLACE:
            return name, arg
        place = depth - ARGUMENT_IS_PLACE[name] - arg
        if name == "SWAP" and (mask >> place | mask >> depth - 1) & 1:
            assert arg == 2, (self.code, self.raw[k])
            return "NOP", 0
        return name, arg - (mask >> place & (1 << depth - place) - 1).bit_count()


def target_of(r: Raw) -> int:
    after = r.word + 1 + CACHES[r.opcode]
    return after - r.arg if r.opcode in IS_BACKWARD else after + r.arg


def stack_effect(r: Raw, jump: bool) -> int:
    if r.name in ("CALL", "RETURN_GENERATOR"):
        return 1 if r.name == "RETURN_GENERATOR" else -r.arg - 1
    return dis.stack_effect(r.opcode, r.arg if r.opcode >= dis.HAVE_ARGUMENT else None, jump=jump)


def hides(raw: list[Raw], k: int) -> bool:
    """Does the k-th instruction push a slot that is to be hidden?"""
    name = raw[k].name
    if name == "LOAD_SPECIAL":
        return raw[k].arg == SPECIAL_EXIT and RUNNING.has_split_exit
    if not RUNNING.has_split_iterator:
        return False
    return name == "GET_ITER" or name == "PUSH_NULL" and k + 1 < len(raw) and raw[k + 1].name == "FOR_ITER"
