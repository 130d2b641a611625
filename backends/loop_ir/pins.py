"""Which results a compiler has to compute before the next look at floating-point flags, though nobody forces it to.

An op that may set a flag counts although its result is unused, and compilers drop what is unused. `NPC_PIN` makes one be
computed, but no vectors of the loop around it. So it is left out where the result is surely needed before the look: it is stored
at a place that no other store goes to, it decides what is stored or handed on, or it is part of what a loop hands on to its end,
where that is pinned instead. In an arm all are pinned: else compilers would compute an arm that is not taken.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.forms import REGIONS, RESULTS, defined, regions, uses, walk
from npcompile.tensor_core.loop_ir.ops import (
    Call,
    Cfg,
    Check,
    Constant,
    For,
    FpCheck,
    FpClear,
    Gather,
    Guard,
    If,
    Let,
    Load,
    Op,
    Program,
    Region,
    Scope,
    Scratch,
    Speculate,
    Store,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.rows import sets_flags
from npcompile.tensor_core.loop_ir.types import FLOATING, Scalar

Key: TypeAlias = tuple[str | int, ...]
# Arithmetic, and with which constants it may be what it is computed of.
NEUTRAL = {"add": (0,), "subtract": (0,), "multiply": (0, 1, -1), "divide": (0, 1, -1)}
LOOKS = frozenset((FpCheck, FpClear, Speculate, Cfg))


def needed_results(program: Program) -> Needed:
    """What needs no pin, and what is pinned after loops."""
    ops = walk(program.body)
    scratch = {op.result for op in ops if isinstance(op, Scratch)}
    found = Needed(program, scratch, {value: op for op in ops for value in RESULTS[type(op)](op)})
    with_looks(program.body, found.looking)
    if not any(isinstance(op, Cfg) for op in ops):
        found.region(program.body, [], Stores(program.body, None), False)
    return found


class Stores:
    """The stores of a loop's body, or of the program outside loops: which are surely not overwritten before a look."""

    __slots__ = ("counts", "inside")

    def __init__(self, body: Region, loop: For | None):
        ops = walk(body)
        self.counts = Counter(op.array for op in ops if type(op) is Store)
        self.inside = None if loop is None else defined(ops) | {loop.index}

    def stays(self, op: Store) -> bool:
        return self.counts[op.array] == 1 and (self.inside is None or not self.inside.isdisjoint(op.index))


@dataclass(slots=True)
class Needed:
    program: Program
    scratch: set[int]
    definers: dict[int, Op]
    values: set[int] = field(default_factory=set)  # of ops that may set flags: computed without a pin
    texts: dict[int, int] = field(default_factory=dict)  # by value
    numbers: dict[Key, int] = field(default_factory=dict)
    looking: set[int] = field(default_factory=set)  # ids of ops with looks at flags
    in_some_arm: set[int] = field(default_factory=set)  # what is needed where it is taken
    behind: dict[int, list[int]] = field(default_factory=dict)  # by id of a For: its results that are pinned

    def region(self, region: Region, yielded: list[bool], stores: Stores, is_arm: bool) -> set[int]:
        """The values that are needed where the region runs. `yielded`: which of those that it yields are."""
        needed: set[int] = set()
        for op in reversed(region):
            match op:
                case Yield(values):
                    needed.update(value for value, is_needed in zip(values, yielded) if is_needed)
                case Store() if self.stores(op, stores):
                    needed.update(uses(op))
                case Check(condition) | Guard(condition):
                    needed.add(condition)
                case Let(result, name) if sets_flags(name, self.program.types[result]):
                    if result in needed and not is_arm:
                        self.values.add(result)
                    needed.update(op.args)
                case Call():
                    needed.update(uses(op))
                case Let(result, "choose", [condition, one, other]) if result in needed:
                    needed.update((one, other))  # what an iteration chooses of: passes leave alone what one arm alone reads
                    if self.differ(one, other):
                        needed.add(condition)
                case Let() | Load() | Gather() if op.result in needed:
                    needed.update(uses(op))
                case If():
                    self.choice(op, needed, stores)
                case For():
                    self.loop(op, needed)
                case While() | Scope() | Speculate():
                    for part in regions(op):
                        self.region(part, [], Stores(part, None) if stores.inside is None else stores, is_arm)
            if id(op) in self.looking:
                needed.clear()  # what is needed after a look may be computed there
        return needed

    def choice(self, op: If, needed: set[int], stores: Stores) -> None:
        yielded = [value in needed for value in op.results]
        one, other = (self.region(arm, yielded, stores, True) for arm in (op.then, op.orelse))
        needed |= one & other
        self.in_some_arm |= one | other
        match op.then[-1], op.orelse[-1]:
            case Yield(ones), Yield(others):
                decides = any(is_needed and self.differ(a, b) for is_needed, a, b in zip(yielded, ones, others))
            case _:
                decides = False
        if decides or any(self.stores(each, stores) for arm in (op.then, op.orelse) for each in arm):
            needed.add(op.condition)

    def stores(self, op: Op, stores: Stores) -> bool:
        return type(op) is Store and op.array not in self.scratch and stores.stays(op)

    def differ(self, one: int, other: int) -> bool:
        """May no compiler find out that two values are the same? `y * 1` is `y`, and sums of integers have many forms."""
        ops = [op for value in (one, other) if (op := self.definers.get(value)) is not None]
        lets = [op for op in ops if isinstance(op, Let)]
        if not ops or not all(isinstance(op, Let | Load | Gather | Constant) for op in ops) or self.text(one) == self.text(other):
            return False
        kinds = [self.program.types[op.result] for op in lets]
        if len(lets) == 2 and not all(isinstance(kind, Scalar) and kind.kind in FLOATING for kind in kinds):
            return False
        return all(op.op in NEUTRAL and not any(self.is_one_of(arg, NEUTRAL[op.op]) for arg in op.args) for op in lets)

    def is_one_of(self, value: int, numbers: tuple[int, ...]) -> bool:
        op = self.definers.get(value)
        return isinstance(op, Constant) and op.value in numbers

    def text(self, value: int) -> int:
        """The number of what a value is computed of: equal ones are equal numbers."""
        found = self.texts.get(value)
        if found is None:
            key = self.key(value, self.definers.get(value))
            found = self.texts[value] = self.numbers.setdefault(key, len(self.numbers))
        return found

    def key(self, value: int, op: Op | None) -> Key:
        match op:
            case Let(_, name, args):
                texts = [self.text(arg) for arg in args]
                return (name, *(sorted(texts) if name in ("add", "multiply") else texts))
            case Load(_, array, index):
                return ("load", array, *map(self.text, index))
            case Gather(_, array, index, steps):
                return ("gather", array, *map(self.text, index), *steps)
            case Constant(_, number):
                return ("constant", repr(number))
        return ("value", value)

    def loop(self, op: For, needed: set[int]) -> None:
        """What is handed on counts as needed where the end of the loop, and each iteration from its beginning, needs it."""
        stores, looks = Stores(op.body, op), id(op) in self.looking
        kinds = [self.program.types[arg] for arg in op.args]
        handed = [not looks and isinstance(kind, Scalar) for kind in kinds]
        before = set(self.values)
        while True:
            inside = self.region(op.body, handed, stores, False)
            # No compiler delays it to an arm of the next iteration.
            still = [is_handed and (arg in inside or arg in self.in_some_arm) for is_handed, arg in zip(handed, op.args)]
            if still == handed:
                break
            handed, self.values = still, set(before)
        if self.values - before:
            self.behind[id(op)] = [value for value, is_handed in zip(op.results, handed) if is_handed]
            needed.update(value for value, is_handed in zip(op.initial, handed) if is_handed)


def with_looks(region: Region, found: set[int]) -> bool:
    """Is there a look at flags in a region? `found` gets the ids of ops that are one, or hold one."""
    any_here = False
    for op in region:
        parts = REGIONS.get(type(op))
        inside = [with_looks(part, found) for part in parts(op)] if parts is not None else ()
        if any(inside) or type(op) in LOOKS:
            found.add(id(op))
            any_here = True
    return any_here
