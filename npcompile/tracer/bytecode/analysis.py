"""Facts about a code object: what the stack and the locals hold on entry to each instruction."""

from __future__ import annotations

import dis
import heapq
import inspect
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from npcompile.tracer.bytecode.decode import Handler, Instruction, decode, localsplus_names


class Access(NamedTuple):
    """One use of a local variable by an instruction, in the order in which they happen."""

    kind: str  # read, write, delete, or take: read (NULL allowed) and leave unbound
    slot: int  # index into localsplus


class Effect(NamedTuple):
    """What an instruction does to the stack and to the locals."""

    falls_through: bool
    change: int  # of the stack's depth when not jumping
    jump_change: int  # of the stack's depth when jumping
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
class NamesAt:
    """Locals at each instruction: a bit for each slot, of which names are made where they are asked for.

    A function of many variables has as many sets of as many names, and few are asked for.
    """

    slots: tuple[str, ...]
    masks: tuple[int, ...]
    made: dict[int, frozenset[str]] = field(compare=False)  # by mask; the same for all facts of a code object

    def __getitem__(self, index: int) -> frozenset[str]:
        mask = self.masks[index]
        if mask not in self.made:
            self.made[mask] = frozenset(name for slot, name in enumerate(self.slots) if mask >> slot & 1)
        return self.made[mask]

    def __iter__(self) -> Iterator[frozenset[str]]:
        return map(self.__getitem__, range(len(self.masks)))


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """Facts per instruction, as tuples indexed by the instruction's index.

    Locals are named; those that are cells are not among them: `cells` and `free` name these.
    """

    instructions: tuple[Instruction, ...]
    effects: tuple[Effect, ...]
    slots: tuple[str, ...]  # names by localsplus index
    cells: tuple[str, ...]
    free: tuple[str, ...]
    start: int  # index of RESUME, where arguments are in place and cells are made
    states: tuple[State | None, ...]  # None where control never comes
    depth: tuple[int | None, ...]  # stack depth, None where control never comes
    protected: tuple[bool, ...]  # an exception raised here is seen by a handler of this code, or one is being handled
    enterable: tuple[bool, ...]  # may execution be left before this instruction and taken up again
    live: NamesAt  # locals that may be read before they are written
    bound: NamesAt  # locals assigned on every path
    maybe_bound: NamesAt  # locals assigned on some path
    successors: tuple[tuple[int, ...], ...]  # where control may go next, exceptions aside
    jump_targets: frozenset[int]
    loop_headers: frozenset[int]  # targets of backward jumps
    regions: dict[int, frozenset[int]] = field(default_factory=dict, compare=False)  # those of headers that were asked for

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
        return f"instruction {index}, {self.instructions[index].opname}, of {code.co_qualname}"

    def live_locals(self, index: int) -> tuple[str, ...]:
        """The locals that may be read at `index` or after it, in the order of the code's variables."""
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


# --- What each instruction does

EFFECTS: Final[dict[tuple[Any, ...], Effect]] = {}  # a memo: they follow from the instruction


def effect_of(i: Instruction) -> Effect:
    key = (i.opname, i.arg, i.null, i.raw)
    found = EFFECTS.get(key)
    if found is None:
        found = EFFECTS[key] = described(i)
    return found


def described(i: Instruction) -> Effect:
    traits, arg = i.traits, i.arg
    if traits.change is not None:
        change = jump_change = traits.change(arg)
    elif traits.flow == "next":
        change, jump_change = 1, -1
    else:
        change, jump_change = (sum(changed(*word, jump) for word in i.raw) for jump in (False, True))
    is_local = traits.place == "local"
    if is_local:
        consumes = int(traits.access == "write")
    else:
        consumes = traits.renews(arg) if traits.renews is not None else max(0, -change, -jump_change)
    accesses = (Access(traits.access, arg),) if is_local else ()
    pushes_null = None
    if traits.stack == "null":
        pushes_null = (True, 0)
    elif i.null:
        pushes_null = (traits.reads("global"), int(i.null > 0))
    return Effect(not traits.ends_block, change, jump_change, consumes, accesses, pushes_null)


def changed(opcode: int, arg: int, jump: bool) -> int:
    return dis.stack_effect(opcode, arg if opcode >= dis.HAVE_ARGUMENT else None, jump=jump)


# --- Forward: stack and assignments


def after(instruction: Instruction, effect: Effect, state: State, jump: bool, cell_slots: int) -> State:
    """The state after `instruction` when it does not raise."""
    depth, null, unknown, handled, bound, maybe_bound, swapped = state
    new_depth = depth + (effect.jump_change if jump else effect.change)
    moved = instruction.traits.stack
    if moved == "swap":
        top, other = depth - 1, depth - instruction.arg
        null, unknown, handled, swapped = (swap_bits(mask, top, other) for mask in (null, unknown, handled, swapped))
        return State(depth, null, unknown, handled, bound, maybe_bound, swapped)
    if moved == "copy":
        source = depth - instruction.arg
        null, unknown, handled, swapped = (mask | (mask >> source & 1) << depth for mask in (null, unknown, handled, swapped))
        return State(new_depth, null, unknown, handled, bound, maybe_bound, swapped)
    base = depth - effect.consumes
    keep = (1 << base) - 1
    swapped &= keep
    new_null, new_unknown = null & keep, unknown & keep
    if effect.pushes_null is not None:
        certainly, offset = effect.pushes_null
        if certainly:
            new_null |= 1 << base + offset
        else:
            new_unknown |= 1 << base + offset
    top = depth
    for kind, slot in effect.accesses:
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
    return flow_over(facts.instructions, facts.effects, cell_slots_of(facts.slots, facts.cells, facts.free), entry, state, stops)


def flow_over(
    instructions: tuple[Instruction, ...],
    effects: tuple[Effect, ...],
    cell_slots: int,
    entry: int,
    state: State,
    stops: Collection[int] = (),
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
        instruction, effect = instructions[index], effects[index]
        if effect.falls_through:
            arrive(index + 1, after(instruction, effect, current, False, cell_slots))
        if instruction.target >= 0:
            arrive(instruction.target, after(instruction, effect, current, True, cell_slots))
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


def live_masks(instructions: tuple[Instruction, ...], effects: tuple[Effect, ...], always: int) -> list[int]:
    """Per instruction the localsplus slots that may be read before they are written."""
    live = [0] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for instruction in reversed(instructions):
            effect = effects[instruction.index]
            mask = live[instruction.index + 1] if effect.falls_through else 0
            if instruction.target >= 0:
                mask |= live[instruction.target]
            for kind, slot in effect.accesses:
                mask = mask & ~(1 << slot) if kind == "write" else mask | 1 << slot
            if instruction.handler is not None:
                mask |= live[instruction.handler.target]
            mask |= always
            if mask != live[instruction.index]:
                live[instruction.index], changed = mask, True
    return live[:-1]


# --- All together


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
    instructions = decode(code).instructions
    effects = tuple(map(effect_of, instructions))
    slots = localsplus_names(code)
    cell_slots = cell_slots_of(slots, code.co_cellvars, code.co_freevars)
    plain = (1 << len(slots)) - 1 & ~cell_slots
    arguments = (1 << argument_count(code)) - 1 & plain
    reached = flow_over(instructions, effects, cell_slots, 0, State(0, 0, 0, 0, arguments, arguments, 0))
    states = tuple(reached.get(index) for index in range(len(instructions)))
    start = next(instruction.index for instruction in instructions if instruction.traits.flow == "start")
    # super() without arguments reads the first argument behind the compiler's back.
    always = 1 & plain if "__class__" in code.co_freevars and code.co_argcount else 0

    made: dict[int, frozenset[str]] = {}

    def names(masks: Iterable[int]) -> NamesAt:
        return NamesAt(slots, tuple(mask & plain for mask in masks), made)

    successors = tuple(map(successors_of, instructions, effects))
    return CodeFacts(
        instructions=instructions,
        effects=effects,
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
        live=names(live_masks(instructions, effects, always)),
        bound=names(state.bound if state else 0 for state in states),
        maybe_bound=names(state.maybe_bound if state else 0 for state in states),
        successors=successors,
        jump_targets=frozenset(i.target for i in instructions if i.target >= 0),
        loop_headers=frozenset(i.target for i in instructions if 0 <= i.target <= i.index),
    )


def successors_of(instruction: Instruction, effect: Effect) -> tuple[int, ...]:
    following = (instruction.index + 1,) if effect.falls_through else ()
    return following + ((instruction.target,) if instruction.target >= 0 else ())


def leaves_with(instructions: tuple[Instruction, ...], index: int) -> bool:
    """Is this part of what calls __exit__ at the end of a `with` block: three times None, and the call?

    The block's handler does not cover it, and CPython lets nothing interrupt it before the call.
    """
    for start in range(max(0, index - 3), index + 1):
        found = instructions[start : start + 4]
        *given, call = found
        if len(given) == 3 and all(i.traits.is_constant for i in given) and call.traits.call == "positional" and call.arg == 2:
            return True
    return False


def is_enterable(instructions: tuple[Instruction, ...], state: State | None, index: int, start: int) -> bool:
    """Not: unreachable code, the making of cells, and code that runs while an exception is handled.

    The interpreter keeps the handled exception outside the stack, from the handler's entry to POP_EXCEPT. An inlined
    comprehension that puts a cell aside has another cell under the same name.
    """
    if state is None or state.handled or state.swapped or index < start:
        return False
    return instructions[index].traits.may_be_entered


def loop_region(facts: CodeFacts, header: int) -> frozenset[int]:
    """The natural loop of a header: what can come back to it without leaving through it."""
    if header not in facts.regions:
        facts.regions[header] = natural_loop(facts, header)
    return facts.regions[header]


def natural_loop(facts: CodeFacts, header: int) -> frozenset[int]:
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
