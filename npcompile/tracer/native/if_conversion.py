"""Branches in strips whose arms only compute numbers: both are computed, and one result is taken.

What an arm must not do is only noted in a strip, so an arm that the program would not come to does no harm: at worst the strip is
undone. A strip without jumps may be a chain whose tests stand beside it, and rows of such strips may run side by side. An arm
that ends in a store, where the other does nothing, stores what was there.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from npcompile.backends.cpu.loops.scalar_loops import NoForm
from npcompile.backends.cpu.loops.speculation import WORD
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import meanings, outside
from npcompile.tracer.native.blocks import Blocks, Left, NotChosen
from npcompile.tracer.native.select import ALIKE
from npcompile.tracer.native.states import NoProgram, State, names_read, names_set, objects_in, shared_tuples
from npcompile.tracer.native.types import Elements, Items, Known, Scalar

MOST = 40  # instructions of an arm
CHEAP = frozenset({"+", "-", "*", "&", "|", "^", "+=", "-=", "*=", "&=", "|=", "^="})
CALLED = (min, max, abs)


@dataclass(frozen=True, slots=True)
class Arm:
    """Instructions, and the one where it meets the other arm."""

    instructions: tuple[Instruction, ...]
    end: int

    @property
    def stores(self) -> bool:
        """Into an array, with its last instruction."""
        return bool(self.instructions) and self.instructions[-1].traits.writes("element")

    @property
    def values(self) -> tuple[Instruction, ...]:
        return self.instructions[: -1 if self.stores else None]


def choose(b: Blocks, i: Instruction, truth: str, taken_if: bool) -> int | None:
    """Write both arms of a branch. The instruction where they meet, from which this block goes on; None: it is left a branch."""
    inside = b.inside
    if inside is None or b.calls or b.apart is not None or i.index in inside.branches or inside.chooses >= 0:
        return None
    arms = arms_of(b, i)
    if (
        arms is None
        or asks_for_infinity(b, truth)
        and any(j.traits.operator == "binary" for arm in arms for j in arm.instructions)
    ):
        return None
    if usual_branch(b, i, truth) is not None:
        return None
    inside.chooses = i.index
    scattered = dict(inside.strip.some)
    try:
        before = b.state
        first, second = (written(b, before.copy(), arm) for arm in arms)
        stored = next((arm.instructions[-1] for arm in arms if arm.stores), None)
        for arm, state, other in ((arms[0], first, second), (arms[1], second, first)):
            if stored is not None and not arm.stores:
                keep_element(b, state, other)
        if stored is not None:
            first, second = of_one_type(first), of_one_type(second)
        # The second is where the program jumps to.
        texts = (second, first) if taken_if else (first, second)
        b.state = merged(b, truth, *texts, arms[0].end)
        if inside.strip.some != scattered:
            raise NoForm("an index that is data, which may be why there is a branch")
        inside.chooses = -1
        inside.chosen.add(i.index)
        if stored is not None:
            b.step(stored)
    except NoProgram:
        raise
    except NoForm:
        raise NotChosen(i.index) from None
    if arms[0].end in b.facts.loop_headers or arms[0].end not in inside.region:
        b.go(arms[0].end)
        raise Left
    return arms[0].end


def asks_for_infinity(b: Blocks, truth: str) -> bool:
    """Is the branch there to keep numbers that are not finite out of arithmetic? Strips end at their results."""
    return any(f" {truth} = " in line and "__builtin_inf" in line for line in b.code.lines)


def usual_branch(b: Blocks, i: Instruction, truth: str) -> bool | None:
    """Whether the branch jumps, if it is about an element whose place its only arm changes: that of the least or largest so far.

    It changes seldom, and as a choice it would make each iteration wait for the element of the one before it.
    """
    arms = arms_of(b, i)
    if arms is None or b.calls or bool(arms[0].instructions) == bool(arms[1].instructions):
        return None
    arm = arms[0] if arms[0].instructions else arms[1]
    loop = min((each for each in b.loops.values() if i.index in each), key=len, default=frozenset[int]())
    others = [b.program.instructions[k] for k in loop - {j.index for j in arm.instructions}]
    kept = {n for j in arm.instructions for n in names_set(j)} - {n for j in others for n in names_set(j)}
    kept -= {n for j in arm.instructions for n in names_read(j)}
    asked = {word for line in b.code.lines if f" {truth} = " in line for word in WORD.findall(line)}
    places = {place for word in asked for place in b.code.read_at.get(word, ())}
    values = [b.state.locals.get(name) for name in kept] if loop else []
    is_moved = any(isinstance(value, Scalar) and value.text in places for value in values)
    return arm is arms[0] if is_moved else None


def arms_of(b: Blocks, i: Instruction) -> tuple[Arm, Arm] | None:
    """The arm after the branch, and the one that it jumps to. None if they are more than a few numbers."""
    first, second = arm_at(b, i.index + 1), arm_at(b, i.target)
    if first is None:
        return None
    if first.end == last(b, i.target):
        second = Arm((), first.end)
    if second is None or second.end != first.end or not (first.instructions or second.instructions):
        return None
    return first, second


def arm_at(b: Blocks, index: int) -> Arm | None:
    found: list[Instruction] = []
    for k in range(index, index + MOST):
        i = b.program.instructions[k]
        is_behind_store = bool(found) and found[-1].traits.writes("element")
        if i.traits.flow == "goto" or k != index and k in b.leaders or is_behind_store:
            return Arm(tuple(found), last(b, k))
        if not is_number(b, i):
            return None
        found.append(i)
    return None


def last(b: Blocks, index: int) -> int:
    """Where jumps lead."""
    while (i := b.program.instructions[index]).traits.flow == "goto":
        index = i.target
    return index


def is_number(b: Blocks, i: Instruction) -> bool:
    """Does the instruction only compute numbers, in little time?"""
    traits = i.traits
    if traits.operator == "binary":
        return i.argval in CHEAP
    if traits.reads("global"):
        value = outside.global_value(b, str(i.argval))
        return isinstance(value, Known) and value.value in CALLED
    is_moved = traits.place in ("local", "element") and traits.access in ("read", "write")
    is_given = traits.is_constant or traits.stack in ("null", "nothing") or traits.builds is tuple
    return is_moved or is_given or traits.call == "positional" or traits.operator == "compare"


def written(b: Blocks, state: State, arm: Arm) -> State:
    """What there is after the arm, or in front of what it stores."""
    b.state = state
    for i in arm.values:
        if b.step(i) is not None:
            raise NoForm("a jump in an arm")
    return b.state


def keep_element(b: Blocks, state: State, other: State) -> None:
    """Let an arm that stores nothing store the element that is there."""
    container, key = other.stack[-2:]
    value = meanings.element(b.code, container, key, b.fail())
    if not isinstance(value, Scalar):
        raise NoForm("an arm that stores a part of an array")
    state.stack += [value, container, key]


def of_one_type(state: State) -> State:
    """The number that an arm is about to store has the type of the array's elements, where that is the same number."""
    value, container = state.stack[-3:-1]
    if isinstance(value, Scalar) and isinstance(container, Elements) and ALIKE.get(value.kind) == container.input.kind:
        state.stack[-3] = Scalar(container.input.kind, value.text)
    return state


def merged(b: Blocks, truth: str, taken: State, other: State, end: int) -> State:
    """What there is where arms meet."""
    if len(taken.stack) != len(other.stack):
        raise NoForm("arms that leave different stacks")
    live, variables = b.facts.live[end] | b.own_cells, {}
    shared = {id(value) for state in (taken, other) for value in shared_tuples(state)}
    for name in taken.locals.keys() | other.locals.keys():
        values = [state.locals.get(name) for state in (taken, other)]
        require_own_tuples(values, shared)
        if values[0] == values[1]:
            variables[name] = values[0]
        elif name in live:
            variables[name] = chosen(b, truth, *values)
    # In the order in which the variables were, as names of C variables follow it.
    ordered = {n: variables[n] for n in (*other.locals, *taken.locals) if n in variables}
    for pair in zip(taken.stack, other.stack):
        require_own_tuples(pair, shared)
    return State([chosen(b, truth, *values) for values in zip(taken.stack, other.stack)], ordered)


def require_own_tuples(values: Sequence[Any], shared: Set[int]) -> None:
    """NoForm where one of two values has a tuple that others have too: a tuple of chosen items would be none of theirs."""
    if values[0] is not values[1] and any(id(x) in shared for value in values for x in objects_in(value)):
        raise NoForm("arms that leave tuples of several variables")


def are_same(b: Blocks, one: Any, other: Any) -> bool:
    if isinstance(one, Scalar) and isinstance(other, Scalar) and one.kind == other.kind == "int":
        first, second = b.code.integer(one.text), b.code.integer(other.text)
        if first.terms is not None and (first.terms, first.constant) == (second.terms, second.constant):
            return True
    return bool(one == other)


def chosen(b: Blocks, truth: str, taken: Any, other: Any) -> Any:
    taken, other = b.realize(taken), b.realize(other)
    if are_same(b, taken, other):
        return taken
    if isinstance(taken, Items) and isinstance(other, Items) and len(taken.items) == len(other.items):
        return Items(tuple(chosen(b, truth, *values) for values in zip(taken.items, other.items)))
    if not isinstance(taken, Scalar) or not isinstance(other, Scalar):
        raise NoForm("arms that leave other than numbers")
    kinds = {taken.kind, other.kind}
    if len(kinds) > 1:
        raise NoForm("arms that leave numbers of several types")
    texts = [b.code.new(x.kind, x.text) if x.text in b.code.variables else x.text for x in (taken, other)]
    return Scalar(taken.kind, b.code.choose(taken.kind, truth, *texts))
