"""Facts about a code object: what the stack and the locals hold on entry to each instruction."""

from __future__ import annotations

import dis
import heapq
import inspect
import opcode as opcode_tables
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from npcompile.tracer.bytecode.versions import WHY_UNKNOWN

Positions = tuple[int | None, int | None, int | None, int | None]


class Handler(NamedTuple):
    """Where an exception raised by an instruction goes."""

    target: int  # index of the handler's first instruction
    depth: int  # the stack is cut to this many slots
    push_lasti: bool  # the offset of the raising instruction is pushed below the exception


class Access(NamedTuple):
    """One use of a local variable by an instruction, in the order in which they happen."""

    kind: str  # read, write, delete, or take: read (NULL allowed) and leave unbound
    slot: int  # index into localsplus


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction with its EXTENDED_ARGs folded in and its caches left out."""

    index: int
    name: str
    opcode: int
    arg: int  # 0 when the opcode takes none
    target: int | None  # index of the instruction a jump goes to
    falls_through: bool
    handler: Handler | None
    positions: Positions
    effect: int  # change of stack depth when not jumping
    jump_effect: int  # change of stack depth when jumping
    consumes: int  # slots at the top of the stack that hold new values, or none, afterwards
    accesses: tuple[Access, ...]
    pushes_null: tuple[bool, int] | None  # certainly?, and at which of the pushed slots


class State(NamedTuple):
    """What is known before an instruction runs. The masks have a bit per stack slot or per localsplus slot."""

    depth: int
    null: int  # stack slots that are NULL
    unknown: int  # stack slots that are NULL on some runs only
    handled: int  # stack slots that belong to an exception being handled
    bound: int  # locals assigned on every path
    maybe_bound: int  # locals assigned on some path
    swapped: int  # stack slots with cells that an inlined comprehension has put aside


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """Facts per instruction, as tuples indexed by the instruction's index.

    The index of an instruction is its position among `dis.get_instructions(code)` without EXTENDED_ARG and CACHE. Locals are
    named; those that are cells are not among them: `cells` and `free` name these.
    """

    instructions: tuple[Instruction, ...]
    slots: tuple[str, ...]  # names by localsplus index
    cells: tuple[str, ...]
    free: tuple[str, ...]
    start: int  # index of RESUME, where arguments are in place and cells are made
    states: tuple[State | None, ...]  # None where control never comes
    depth: tuple[int | None, ...]  # stack depth, None where control never comes
    protected: tuple[bool, ...]  # an exception raised here is seen by a handler of this code, or one is being handled
    enterable: tuple[bool, ...]  # may execution be left before this instruction and taken up again
    live: tuple[frozenset[str], ...]  # locals that may be read before they are written
    bound: tuple[frozenset[str], ...]  # locals assigned on every path
    maybe_bound: tuple[frozenset[str], ...]  # locals assigned on some path
    successors: tuple[tuple[int, ...], ...]  # where control may go next, exceptions aside
    jump_targets: frozenset[int]
    loop_headers: frozenset[int]  # targets of backward jumps

    def nulls(self, entry: int, null_slots: Collection[int] = ()) -> tuple[tuple[int, ...] | None, ...]:
        """The stack slots that are NULL before each instruction reached from `entry`, where exactly `null_slots` are.

        None stands for an instruction that is not reached, or whose NULLs are known at run time only: `o.method(...)` finds
        out there whether a bound method has to be made.
        """
        start = self.states[entry]
        if start is None:
            return (None,) * len(self.instructions)
        states = flow(self, entry, start._replace(null=mask_of(null_slots), unknown=0))
        return tuple(null_slots_of(states.get(index)) for index in range(len(self.instructions)))

    def describe(self, code: CodeType, index: int) -> str:
        return f"instruction {index}, {self.instructions[index].name}, of {code.co_qualname}"

    def live_locals(self, index: int) -> tuple[str, ...]:
        """The locals that may be read at `index` or behind it, in the order of the code's variables."""
        wanted = self.live[index] & self.maybe_bound[index]
        return tuple(name for name in self.slots if name in wanted)

    def locals_at(self, index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The locals to hand over when execution is left before `index`: those that may be read, and those to keep."""
        return self.live_locals(index), self.kept_locals(index)

    def kept_locals(self, index: int) -> tuple[str, ...]:
        """The locals that nothing reads before it sets them: objects in them live on until then, or until the function ends."""
        wanted = self.maybe_bound[index] - self.live[index]
        return tuple(name for name in self.slots if name in wanted)


def mask_of(positions: Collection[int]) -> int:
    return sum(1 << position for position in positions)


def null_slots_of(state: State | None) -> tuple[int, ...] | None:
    if state is None or state.unknown:
        return None
    return tuple(slot for slot in range(state.depth) if state.null >> slot & 1)


# --- What differs between versions of CPython, asked of the interpreter that runs. Unknown ones may lack what is asked for.

# Up to 3.12 a call finds [NULL, callable, arguments], from 3.13 on [callable, NULL, arguments].
_A_CALL: Final = " ".join(i.opname for i in dis.get_instructions(compile("f()", "", "eval")))
NULL_AFTER_CALLABLE: Final = _A_CALL.find("PUSH_NULL") > _A_CALL.find("LOAD_NAME")

# Instructions that an exhausted FOR_ITER jumps over at its target: none in 3.11, END_FOR in 3.12, END_FOR and POP_TOP in 3.13.
EXHAUSTED_SKIPS: Final = 3 + dis.stack_effect(dis.opmap["END_FOR"]) if "END_FOR" in dis.opmap and not WHY_UNKNOWN else 0

NO_FALL_THROUGH: Final = frozenset(
    ["RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"]
)

ACCESSES: Final[dict[str, tuple[str, ...]]] = {
    "LOAD_FAST": ("read",),
    "LOAD_FAST_CHECK": ("read",),
    "LOAD_FAST_AND_CLEAR": ("take",),
    "STORE_FAST": ("write",),
    "DELETE_FAST": ("delete",),
    "LOAD_FAST_LOAD_FAST": ("read", "read"),
    "STORE_FAST_LOAD_FAST": ("write", "read"),
    "STORE_FAST_STORE_FAST": ("write", "write"),
}

# dis counts the arguments of a call as gone after PRECALL, where they still are, and not the generator left for POP_TOP.
EFFECTS: Final = {"PRECALL": lambda arg: 0, "CALL": lambda arg: -arg - 1, "RETURN_GENERATOR": lambda arg: 1}

# Instructions whose result takes the place of a NULL, or that push one among other values.
CONSUMES: Final = {
    "CALL": lambda arg: arg + 2,
    "CALL_KW": lambda arg: arg + 3,
    "CALL_FUNCTION_EX": lambda arg: 3 + (arg & 1),
    "LOAD_METHOD": lambda arg: 1,
    "LOAD_ATTR": lambda arg: 1,
    "LOAD_SUPER_ATTR": lambda arg: 3,
}
ASKS_FOR_NULL: Final = {  # opcode: (does this argument ask for a NULL, is it then certainly one)
    "LOAD_GLOBAL": (lambda arg: arg & 1, True),
    "LOAD_METHOD": (lambda arg: True, False),
    "LOAD_ATTR": (lambda arg: arg & 1 and dis.opmap.get("LOAD_METHOD", 256) > 255, False),
    "LOAD_SUPER_ATTR": (lambda arg: arg & 1, False),
}

# Pairs that share state in the interpreter, or that it jumps over: never the place to leave or to enter. Enter at the first.
BOUND_TO_PREVIOUS: Final = {
    "PRECALL": {"KW_NAMES"},
    "CALL": {"KW_NAMES", "PRECALL"},
    "POP_TOP": {"END_FOR"} if EXHAUSTED_SKIPS == 2 else set(),
}
NEVER_ENTERED: Final = {"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "END_FOR"}


# --- Decoding


def raw_instructions(code: CodeType) -> Iterator[tuple[int, int, int, int]]:
    """(offset of the first word, offset of the opcode's word, opcode, argument), offsets in words."""
    bytecode = code.co_code
    first, extended = None, 0
    for offset in range(0, len(bytecode), 2):
        opcode = bytecode[offset]
        if opcode == dis.opmap["CACHE"]:
            continue
        word = offset // 2
        first = word if first is None else first
        arg = bytecode[offset + 1] | extended
        if opcode == dis.EXTENDED_ARG:
            extended = arg << 8
            continue
        yield first, word, opcode, arg
        first, extended = None, 0


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


def cache_entries(name: str) -> int:
    """How many CACHE words follow an instruction: a list by opcode up to 3.12, then a table by name."""
    if WHY_UNKNOWN:
        return 0
    table: Any = vars(opcode_tables)["_inline_cache_entries"]
    return table.get(name, 0) if isinstance(table, dict) else table[dis.opmap[name]]


def jump_offset(name: str, word: int, arg: int) -> int:
    after = word + 1 + cache_entries(name)
    return after - arg if "BACKWARD" in name else after + arg


def decode(code: CodeType) -> tuple[Instruction, ...]:
    """All instructions of `code`, jumps and handlers as indices."""
    raw = list(raw_instructions(code))
    index_at = {offset: index for index, (first, word, _, _) in enumerate(raw) for offset in range(first, word + 1)}
    handlers: dict[int, Handler] = {}
    for start, end, target, depth, push_lasti in exception_table(code):
        handlers.update(dict.fromkeys(range(start, end), Handler(index_at[target], depth, push_lasti)))
    positions = list(code.co_positions())
    jumps = set(dis.hasjrel) | set(dis.hasjabs)
    instructions = []
    for index, (_, word, opcode, arg) in enumerate(raw):
        name = dis.opname[opcode]
        jump = index_at[jump_offset(name, word, arg)] if opcode in jumps else None
        instructions.append(described(index, name, opcode, arg, jump, handlers.get(word), positions[word]))
    return tuple(instructions)


def described(
    index: int, name: str, opcode: int, arg: int, target: int | None, handler: Handler | None, positions: Positions
) -> Instruction:
    has_arg = opcode >= dis.HAVE_ARGUMENT
    if name in EFFECTS:
        effect = jump_effect = EFFECTS[name](arg)
    else:
        effect = dis.stack_effect(opcode, arg if has_arg else None, jump=False)
        jump_effect = dis.stack_effect(opcode, arg if has_arg else None, jump=True) if target is not None else effect
    kinds = ACCESSES.get(name, ())
    accesses = tuple(map(Access, kinds, (arg,) if len(kinds) == 1 else (arg >> 4, arg & 15)))
    if accesses:
        consumes = kinds.count("write")
    else:
        consumes = CONSUMES[name](arg) if name in CONSUMES else max(0, -effect, -jump_effect)
    pushes_null: tuple[bool, int] | None
    if name == "PUSH_NULL":
        pushes_null = (True, 0)
    else:
        asks, certainly = ASKS_FOR_NULL.get(name, (lambda arg: False, False))
        pushes_null = (certainly, int(NULL_AFTER_CALLABLE)) if asks(arg) else None
    return Instruction(
        index,
        name,
        opcode,
        arg,
        target,
        name not in NO_FALL_THROUGH,
        handler,
        positions,
        effect,
        jump_effect,
        consumes,
        accesses,
        pushes_null,
    )


# --- Forward: stack and assignments


def after(instruction: Instruction, state: State, jump: bool, cell_slots: int) -> State:
    """The state behind `instruction` when it does not raise."""
    depth, null, unknown, handled, bound, maybe_bound, swapped = state
    new_depth = depth + (instruction.jump_effect if jump else instruction.effect)
    if instruction.name == "SWAP":
        top, other = depth - 1, depth - instruction.arg
        null, unknown, handled, swapped = (swap_bits(mask, top, other) for mask in (null, unknown, handled, swapped))
        return State(depth, null, unknown, handled, bound, maybe_bound, swapped)
    if instruction.name == "COPY":
        source = depth - instruction.arg
        null, unknown, handled, swapped = (mask | (mask >> source & 1) << depth for mask in (null, unknown, handled, swapped))
        return State(new_depth, null, unknown, handled, bound, maybe_bound, swapped)
    base = depth - instruction.consumes
    keep = (1 << base) - 1
    swapped &= keep
    new_null, new_unknown = null & keep, unknown & keep
    if instruction.pushes_null is not None:
        certainly, offset = instruction.pushes_null
        if certainly:
            new_null |= 1 << base + offset
        else:
            new_unknown |= 1 << base + offset
    top = depth
    for kind, slot in instruction.accesses:
        bit = 1 << slot
        if kind == "read":  # It raises when unbound.
            bound, maybe_bound = bound | bit, maybe_bound | bit
        elif kind == "write":
            top -= 1
            bound = bound & ~bit if (null | unknown) >> top & 1 else bound | bit
            maybe_bound = maybe_bound & ~bit if null >> top & 1 else maybe_bound | bit
        else:
            if kind == "take" and bit & cell_slots:
                swapped |= 1 << depth
            elif kind == "take" and not maybe_bound & bit:
                new_null |= 1 << depth
            elif kind == "take" and not bound & bit:
                new_unknown |= 1 << depth
            bound, maybe_bound = bound & ~bit, maybe_bound & ~bit
    return State(new_depth, new_null, new_unknown, handled & keep, bound, maybe_bound, swapped)


def swap_bits(mask: int, one: int, other: int) -> int:
    differ = (mask >> one ^ mask >> other) & 1
    return mask ^ (differ << one | differ << other)


def in_handler(handler: Handler, state: State) -> State:
    keep = (1 << handler.depth) - 1
    depth = handler.depth + 1 + handler.push_lasti
    return state._replace(
        depth=depth,
        null=state.null & keep,
        unknown=state.unknown & keep,
        handled=state.handled & keep | (1 << depth) - 1 & ~keep,
        swapped=state.swapped & keep,
    )


def join(one: State, other: State) -> State:
    """What is known where two paths meet."""
    assert one.depth == other.depth, (one, other)
    return State(
        one.depth,
        one.null & other.null,
        one.unknown | other.unknown | (one.null ^ other.null),
        one.handled | other.handled,
        one.bound & other.bound,
        one.maybe_bound | other.maybe_bound,
        one.swapped | other.swapped,
    )


def flow(facts: CodeFacts, entry: int, state: State, stops: Collection[int] = ()) -> dict[int, State]:
    """The state on arrival at each instruction reached from `entry`, which is entered in `state`.

    Nothing is followed beyond `stops`. The entry may be one of them: it is left once, and only arriving there again counts.
    """
    return flow_over(facts.instructions, cell_slots_of(facts.slots, facts.cells, facts.free), entry, state, stops)


def flow_over(
    instructions: tuple[Instruction, ...], cell_slots: int, entry: int, state: State, stops: Collection[int] = ()
) -> dict[int, State]:
    states: dict[int, State] = {}
    pending: list[int] = []

    def arrive(index: int, new: State) -> None:
        known = states.get(index)
        if known is not None:
            new = join(known, new)
            if new == known:
                return
        states[index] = new
        if index not in stops:
            heapq.heappush(pending, index)

    def leave(index: int, current: State) -> None:
        instruction = instructions[index]
        if instruction.falls_through:
            arrive(index + 1, after(instruction, current, False, cell_slots))
        if instruction.target is not None:
            arrive(instruction.target, after(instruction, current, True, cell_slots))
        if instruction.handler is not None:
            arrive(instruction.handler.target, in_handler(instruction.handler, current))

    if entry in stops:
        leave(entry, state)
    else:
        arrive(entry, state)
    while pending:
        index = heapq.heappop(pending)
        while pending and pending[0] == index:
            heapq.heappop(pending)
        leave(index, states[index])
    return states


# --- Backward: liveness


def live_masks(instructions: tuple[Instruction, ...], always: int) -> list[int]:
    """Per instruction the localsplus slots that may be read before they are written."""
    live = [0] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for instruction in reversed(instructions):
            mask = live[instruction.index + 1] if instruction.falls_through else 0
            if instruction.target is not None:
                mask |= live[instruction.target]
            for kind, slot in reversed(instruction.accesses):
                mask = mask & ~(1 << slot) if kind == "write" else mask | 1 << slot
            if instruction.handler is not None:
                mask |= live[instruction.handler.target]
            mask |= always
            if mask != live[instruction.index]:
                live[instruction.index], changed = mask, True
    return live[:-1]


# --- All together


def localsplus_names(code: CodeType) -> tuple[str, ...]:
    """The names of the fast locals array; a parameter that is a cell keeps its place among the variables."""
    own_cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + own_cells + code.co_freevars


def cell_slots_of(slots: tuple[str, ...], cells: tuple[str, ...], free: tuple[str, ...]) -> int:
    return mask_of([slot for slot, name in enumerate(slots) if name in cells or name in free])


def argument_count(code: CodeType) -> int:
    star = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + star


FACTS: Final[WeakKeyDictionary[CodeType, CodeFacts]] = WeakKeyDictionary()  # a memo: facts follow from the code alone


def analyse(code: CodeType) -> CodeFacts:
    """The facts of `code`, computed once for each code object.

    Example: `analyse(f.__code__).live[5]` names the locals that instruction 5 and those after it may read.
    """
    facts = FACTS.get(code)
    if facts is None:
        facts = FACTS[code] = compute_facts(code)
    return facts


def compute_facts(code: CodeType) -> CodeFacts:
    instructions = decode(code)
    slots = localsplus_names(code)
    cell_slots = cell_slots_of(slots, code.co_cellvars, code.co_freevars)
    plain = (1 << len(slots)) - 1 & ~cell_slots
    arguments = (1 << argument_count(code)) - 1 & plain
    reached = flow_over(instructions, cell_slots, 0, State(0, 0, 0, 0, arguments, arguments, 0))
    states = tuple(reached.get(index) for index in range(len(instructions)))
    start = next(instruction.index for instruction in instructions if instruction.name == "RESUME")
    # super() without arguments reads the first argument behind the compiler's back.
    always = 1 & plain if "__class__" in code.co_freevars and code.co_argcount else 0

    names_of: dict[int, frozenset[str]] = {}

    def names(mask: int) -> frozenset[str]:
        mask &= plain
        if mask not in names_of:
            names_of[mask] = frozenset(name for slot, name in enumerate(slots) if mask >> slot & 1)
        return names_of[mask]

    successors = tuple(physical_successors(instruction) for instruction in instructions)
    return CodeFacts(
        instructions=instructions,
        slots=slots,
        cells=code.co_cellvars,
        free=code.co_freevars,
        start=start,
        states=states,
        depth=tuple(state and state.depth for state in states),
        protected=tuple(
            instruction.handler is not None or state is not None and state.handled != 0
            for instruction, state in zip(instructions, states, strict=True)
        ),
        enterable=tuple(is_enterable(instructions, state, index, start) for index, state in enumerate(states)),
        live=tuple(names(mask) for mask in live_masks(instructions, always)),
        bound=tuple(names(state.bound if state else 0) for state in states),
        maybe_bound=tuple(names(state.maybe_bound if state else 0) for state in states),
        successors=successors,
        jump_targets=frozenset(jump_target(i) for i in instructions if i.target is not None),
        loop_headers=frozenset(i.target for i in instructions if i.target is not None and i.target <= i.index),
    )


def jump_target(instruction: Instruction) -> int:
    assert instruction.target is not None
    return instruction.target + (EXHAUSTED_SKIPS if instruction.name == "FOR_ITER" else 0)


def physical_successors(instruction: Instruction) -> tuple[int, ...]:
    following = (instruction.index + 1,) if instruction.falls_through else ()
    return following + ((jump_target(instruction),) if instruction.target is not None else ())


def leaves_with(instructions: tuple[Instruction, ...], index: int) -> bool:
    """Is this part of what calls __exit__ at the end of a `with` block: three times None, and the call?

    The block's handler does not cover it, and CPython lets nothing interrupt it before the call.
    """
    for start in range(max(0, index - 4), index + 1):
        found = instructions[start : start + 4]
        is_exit = (
            [i.name for i in found[:3]] == ["LOAD_CONST"] * 3 and found[-1].name in ("PRECALL", "CALL") and found[-1].arg == 2
        )
        if is_exit and index <= start + 3 + (found[-1].name == "PRECALL"):
            return True
    return False


def is_enterable(instructions: tuple[Instruction, ...], state: State | None, index: int, start: int) -> bool:
    """Not: unreachable code, the making of cells, the middle of a call, and code that runs while an exception is handled.

    The interpreter keeps the handled exception outside the stack, from the handler's entry to POP_EXCEPT. An inlined
    comprehension that puts a cell aside has another cell under the same name.
    """
    if state is None or state.handled or state.swapped or index < start:
        return False
    name = instructions[index].name
    previous = instructions[index - 1].name if index else ""
    return name not in NEVER_ENTERED and previous not in BOUND_TO_PREVIOUS.get(name, ())


def loop_region(facts: CodeFacts, header: int) -> frozenset[int]:
    """The natural loop of a header: what can come back to it without leaving through it."""
    before: dict[int, list[int]] = {}
    for index, successors in enumerate(facts.successors):
        if facts.states[index] is not None:
            for following in successors:
                before.setdefault(following, []).append(index)
    found = {header}
    pending = [k for k in before.get(header, []) if k >= header]
    while pending:
        k = pending.pop()
        if k not in found and k >= header:
            found.add(k)
            pending += before.get(k, [])
    return frozenset(found)
