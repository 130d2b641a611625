"""The rules that make leaving a program exact, as a flow of facts through regions and blocks.

Facts hold at a place: the frame states that Python may still go on at, since nothing has happened after them that it must not
do twice; and whether floating-point flags may be set that nobody has looked at. A store into an array that was made after a state
is no such thing: Python makes another array.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from npcompile.tensor_core.loop_ir.flow import edges_of, flow_of
from npcompile.tensor_core.loop_ir.forms import uses, walk
from npcompile.tensor_core.loop_ir.invalid import Invalid, Rule
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Append,
    Break,
    Call,
    Cfg,
    Check,
    Constant,
    Disjoint,
    For,
    FpCheck,
    FpClear,
    FrameState,
    Gather,
    Guard,
    If,
    Let,
    Load,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Return,
    Room,
    Routine,
    Scope,
    Scratch,
    SideExit,
    Size,
    Speculate,
    Splat,
    Store,
    Threads,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.origins import Origins
from npcompile.tensor_core.loop_ir.rows import sets_flags


def verify_exactness(program: Program) -> None:
    """Raises Invalid where a Check could not be left exactly, or where a floating-point error could be lost."""
    if program.policy is Policy.RESUME:  # else all that was done is undone
        Exactness(program, write_only(program)).region(program.body, Facts(frozenset(), False))


@dataclass(frozen=True, slots=True)
class Facts:
    states: frozenset[int]  # that may be gone on at
    flagged: bool
    made: frozenset[tuple[int, int]] = frozenset()  # an array, and a state before it was made


def met(one: Facts | None, other: Facts | None) -> Facts | None:
    """What holds where two ways meet."""
    if one is None or other is None:
        return one or other
    return Facts(one.states & other.states, one.flagged or other.flagged, one.made & other.made)


def write_only(program: Program) -> set[int]:
    """Arrays of the program to which a store is no effect: Python, which does the same again, stores the same again."""
    ops = walk(program.body)
    made = {op.result for op in ops if isinstance(op, Alloc)}
    for op in ops if made else ():
        match op:
            case Store(_, index, value):
                made.difference_update((*index, value))
            case Size() | FrameState() | Return():
                pass
            case _:
                made.difference_update(uses(op))
    return made | {op.result for op in ops if isinstance(op, Scratch | Room)}  # these are gone where Python goes on


def has_effect(region: Region, only_written: set[int]) -> bool:
    """Does it do what Python must not do twice?"""
    ops = (op for op in walk(region) if isinstance(op, Store | Append | Routine))
    return any(isinstance(op, Append) or stored_by(op) not in only_written for op in ops)


def stored_by(op: Store | Routine) -> int:
    """The array that it stores to."""
    return op.array if isinstance(op, Store) else op.out


COMPUTES = (Constant, Let, Size, Load, Gather, Store, Splat, Call, Disjoint, View, Room, If, For, Poll, Yield)  # undo may hold
SPECULATED = (*COMPUTES, Routine, Threads, Guard, While, Scope, Break, Again)  # and what is undone


@dataclass(slots=True)
class Exactness:
    program: Program
    only_written: set[int]
    breaks: dict[int, Facts | None] = field(default_factory=dict)  # by label: what holds where a Scope is left
    agains: dict[int, Facts | None] = field(default_factory=dict)

    def region(self, region: Region, facts: Facts) -> Facts | None:
        """What holds where the region yields. None where it does not."""
        now: Facts | None = facts
        for op in region:
            assert now is not None, op
            if isinstance(op, Yield):
                return now
            now = self.op(op, now)
        return None

    def op(self, op: Op, now: Facts) -> Facts | None:
        """What holds after an op. None where execution does not go on there."""
        match op:
            case FrameState(name):
                self.looked(op, now)
                return Facts(now.states | {name}, False, now.made)
            case Check(_, state) | Poll(state) | SideExit(state):
                self.may_leave(op, state, now)
                return None if isinstance(op, SideExit) else now
            case FpCheck(state):
                self.may_leave(op, state, now)
                return Facts(now.states, False, now.made)
            case FpClear():
                return Facts(now.states, False, now.made)
            case Alloc(result):
                return replace(now, made=now.made | {(result, state) for state in now.states})
            case Store(array) if array in self.only_written:
                return now
            case Store() | Append():
                return self.effect(op, now)
            case Routine():
                self.may_leave(op, op.state, now)
                return replace(self.effect(op, now), flagged=True)
            case Return():
                self.looked(op, now)
                return None
            case Let(result, name):
                return replace(now, flagged=now.flagged or sets_flags(name, self.program.types[result]))
            case Call():
                return replace(now, flagged=True)
            case Cfg():
                self.cfg(op, now)
                return None
        return self.control(op, now)

    def control(self, op: Op, now: Facts) -> Facts | None:
        match op:
            case If():
                return met(self.region(op.then, now), self.region(op.orelse, now))
            case For():
                return self.loop(op, op.body, now)
            case Speculate():
                return self.speculated(op, now)
            case While():
                self.loop(op, op.body, now)
                return None
            case Scope(label):
                self.breaks[label] = None
                self.region(op.body, now)
                return self.breaks[label]
            case Break(label):
                self.breaks[label] = met(self.breaks[label], now)
                return None
            case Again(label):
                self.agains[label] = met(self.agains.get(label), now)
                return None
        return now

    def speculated(self, op: Speculate, now: Facts) -> Facts | None:
        """What is done before the flags are looked at can be undone, and may leave only at a state from before it."""
        self.looked(op, now)
        own = {each.label for each in walk(op.body) if isinstance(each, Scope | While)}
        undone = {each.array for each in walk(op.undo) if isinstance(each, Store)} | self.only_written
        origins = Origins.of(op.body)
        for each in walk(op.body):
            if not isinstance(each, SPECULATED):
                raise Invalid(Rule.UNDO, str(each))
            if isinstance(each, Store | Routine) and not undone.issuperset(origins.origins(stored_by(each))):
                raise Invalid(Rule.UNDO, str(each))
            if isinstance(each, Break | Again) and each.target not in own:
                raise Invalid(Rule.UNDO, str(each))
            if isinstance(each, Poll | Routine):
                self.may_leave(each, each.state, now)
        for each in walk(op.undo):
            if not isinstance(each, COMPUTES) or isinstance(each, Let) and sets_flags(each.op, self.program.types[each.result]):
                raise Invalid(Rule.UNDO, str(each))
        effect = has_effect(op.body, self.only_written)
        return met(Facts(frozenset() if effect else now.states, False, now.made), self.region(op.slow, now))

    def loop(self, op: For | While, body: Region, now: Facts) -> Facts:
        """Every iteration begins with what holds at its first and after any other."""
        start = now
        label = op.label if isinstance(op, While) else -1
        while True:
            self.agains[label] = None
            end = met(self.region(body, start), self.agains[label])
            whole = met(start, end)
            assert whole is not None
            if whole == start:
                return start
            start = whole

    def effect(self, op: Store | Append | Routine, now: Facts) -> Facts:
        """What holds after something that Python must not do twice: if it goes on before the array was made, it does not."""
        found = -1 if isinstance(op, Append) else stored_by(op)
        states = frozenset(state for array, state in now.made if array == found) & now.states
        if not states:
            self.looked(op, now)
        return replace(now, states=states)

    def looked(self, op: Op, now: Facts) -> None:
        if now.flagged:
            raise Invalid(Rule.FLAGS, str(op))

    def may_leave(self, op: Op, state: int, now: Facts) -> None:
        if state not in now.states:
            raise Invalid(Rule.EFFECT, str(op))

    def cfg(self, op: Cfg, now: Facts) -> None:
        flow = flow_of(op)
        entering: dict[int, Facts | None] = {flow.entry: now}
        pending = [flow.entry]
        while pending:
            label = pending.pop()
            facts = entering[label]
            assert facts is not None
            after: Facts | None = facts
            for each in flow.blocks[label].ops:
                assert after is not None, each
                after = self.op(each, after)
            for edge in edges_of(flow.blocks[label]):
                new = met(entering.get(edge.target), after)
                if new != entering.get(edge.target):
                    entering[edge.target] = new
                    pending.append(edge.target)
