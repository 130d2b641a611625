"""The pass that computes both arms of a choice in an iteration, and then chooses (if-conversion).

A branch that goes now here, now there costs more than a few additions, and lanes have no branches. Arms that compute cheap
numbers, without a division or a function, run both. Of what they store, the chosen number is stored, or what stood there. Where
one arm adds to a number that the other leaves alone, -0.0 is added instead: it changes no number and no flag, and the sum does
not wait for the choice. The loop may look at flags after its iterations, not in them: an arm that is not taken may set some. What
is computed before the choice and read in an arm alone must set them, though, so such arms stay.

What stands in an arm without a Check is inside its array whether the arm is taken or not: value_ranges learns nothing of choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from npcompile.tensor_core.loop_ir.cost import ARITHMETIC, own_cost
from npcompile.tensor_core.loop_ir.forms import all_regions, inner, regions, results, substitute, uses, walk
from npcompile.tensor_core.loop_ir.licm import TRAPS, Hoisting
from npcompile.tensor_core.loop_ir.ops import (
    Append,
    Check,
    Constant,
    For,
    FpCheck,
    FrameState,
    If,
    Let,
    Load,
    Op,
    Place,
    Poll,
    Program,
    Region,
    Routine,
    Scope,
    SideExit,
    Size,
    Speculate,
    Store,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Report
from npcompile.tensor_core.loop_ir.rows import sets_flags
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.types import FLOATING, INTEGERS, TRUTHS, Kind, Memref, Scalar, Type

MOST_ARITHMETIC: Final = 12  # ops of both arms
MOST_STORES: Final = 2  # where not both arms store at the same places
COMPUTED = (Constant, Let, Load, Size)
NUMBERS = FLOATING | INTEGERS | TRUTHS
Key: TypeAlias = tuple[str | int | Type, ...]


def convert_ifs(program: Program) -> Report:
    """Make straight lines of choices in innermost loops, in place."""
    drop_unused_states(program.body)
    pass_ = Converting(program)
    pass_.region(program.body)
    return pass_.report


def drop_unused_states(region: Region) -> None:
    """Frame states that were for Checks which earlier passes have removed."""
    used = {op.state for op in walk(region) if isinstance(op, Check | Poll | FpCheck | SideExit | Routine)}
    for part in all_regions(region):
        part[:] = [op for op in part if type(op) is not FrameState or op.name in used]


@dataclass(slots=True)
class Converting:
    program: Program
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            parts = [op.body, op.undo] if type(op) is Speculate else regions(op)  # the slow form takes what Python would
            for part in parts:
                self.region(part)
            if type(op) is For and self.is_simple(op):
                made += self.loop(op)
            made.append(op)
        region[:] = made

    def is_simple(self, op: For) -> bool:
        inside = walk(op.body)
        has_choice = any(type(each) is If for each in inside)
        return has_choice and not any(isinstance(each, For | While | Scope | FpCheck | Append) for each in inside)

    def loop(self, op: For) -> Region:
        """Convert what can be. Ops that are the same in each iteration now, to stand before it."""
        body = Body(self.program, op, places_of(op), waiting(op), read_in_arms(self.program, op.body))
        made = body.region(op.body, {})
        if not body.converted:
            return []
        op.body[:] = made
        drop_unused(self.program, [op])
        self.report.fire(op.at)
        return Hoisting(self.program).taken_out(op)


def places_of(loop: For) -> set[int]:
    """Integers of the body that are known without what stands in memory, or goes from one iteration to the next."""
    inside = walk(loop.body)
    own = {value for op in inside for value in (*results(op), *inner(op))} | {*loop.args}
    for op in inside:
        if isinstance(op, Let | Constant | Size) and own.isdisjoint(uses(op)):
            own.discard(op.result)
    return own


def waiting(loop: For) -> set[int]:
    """Values that wait for the iteration before: computed of what it hands on."""
    found, count = {*loop.args}, -1
    while len(found) != count:  # an arm's end is after the results of its If
        count = len(found)
        for op in walk(loop.body):
            parts = [part[-1] for part in regions(op)]
            if not found.isdisjoint([*uses(op), *(value for end in parts for value in uses(end))]):
                found.update(results(op))
    return found


def read_in_arms(program: Program, body: Region) -> set[int]:
    """What is computed outside arms, may set a flag, and is read in arms alone."""
    found: set[int] = set()
    for region in all_regions(body):
        read: set[int] = set()
        for op in region:
            read.update([op.condition] if isinstance(op, If) else uses(op))
        flagged = {op.result for op in region if isinstance(op, Let) and sets_flags(op.op, program.types[op.result])}
        found |= flagged - read
    return found


@dataclass(slots=True)
class Body:
    """One iteration, whose choices become straight lines from the innermost outward. Equal ops in a line are one."""

    program: Program
    loop: For
    unknown: set[int]  # what may be anything in an iteration
    waiting: set[int]
    in_arms: set[int]  # what an arm alone reads, and sets flags where none does
    new: dict[int, int] = field(default_factory=dict)
    converted: int = 0

    def region(self, region: Region, known: dict[Key, int]) -> Region:
        made: Region = []
        for op in region:
            substitute(op, self.new)
            if type(op) is not If:
                self.add(op, made, known)
                continue
            op.then, op.orelse = self.region(op.then, dict(known)), self.region(op.orelse, dict(known))
            if (choice := self.choice(op)) is not None:
                self.straighten(choice, made, known)
                self.converted += 1
            else:
                made.append(op)
                if any(type(each) is Store for each in walk([op])):
                    forget_loads(known)
        return made

    def add(self, op: Op, made: Region, known: dict[Key, int]) -> None:
        """Append an op, unless one before it has computed the same."""
        if type(op) is Store:
            forget_loads(known)
        elif (key := self.key(op)) is not None:
            (result,) = results(op)
            found = known.setdefault(key, result)
            if found != result:
                self.new[result] = found
                return
        made.append(op)

    def key(self, op: Op) -> Key | None:
        match op:
            case Let(_, name, args):
                return ("let", name, *args)
            case Constant(result, value):
                return ("constant", self.program.types[result], repr(value))
            case Load(_, array, index) if isinstance(self.program.types[array], Memref):
                return ("load", array, *index)
            case Size(_, array, axis) if isinstance(self.program.types[array], Memref):
                return ("size", array, axis)
        return None

    # --- which

    def choice(self, op: If) -> Choice | None:
        """What an If chooses. None where an arm must not run, or costs more than a branch."""
        if not all(isinstance(arm[-1], Yield) for arm in (op.then, op.orelse)):
            return None
        arms = [Arm.of(arm) for arm in (op.then, op.orelse)]
        if any(not isinstance(self.program.types[value], Scalar) for value in op.results):
            return None
        if not all(self.may_run(each) for arm in arms for each in arm.computed) or any(arm.is_mixed for arm in arms):
            return None
        if sum(own_cost(each) for arm in arms for each in arm.computed if type(each) is Let) > MOST_ARITHMETIC * ARITHMETIC:
            return None
        if op.condition in self.waiting and any(arm.stores for arm in arms):
            return None  # the next iteration would wait for the choice: a processor guesses it
        if any(
            not self.in_arms.isdisjoint((*arm.values, *(v for x in (*arm.computed, *arm.stores) for v in uses(x))))
            for arm in arms
        ):
            return None  # a compiler might compute it only where it is chosen
        choice = Choice(op, *arms)
        if not choice.stores_alike and not self.may_store_again([*arms[0].stores, *arms[1].stores]):
            return None
        return choice

    def may_run(self, op: Op) -> bool:
        """May it be computed where Python would not, and is it cheap?"""
        match op:
            case Let(result, name, args):
                kinds = [self.program.types[value] for value in (result, *args)]
                is_simple = own_cost(op) <= ARITHMETIC and name not in TRAPS and all(map(is_number, kinds))
                return is_simple and (not name.startswith("to_") or is_quiet(*kinds))
            case Load(_, array):
                return isinstance(self.program.types[array], Memref)
        return isinstance(op, COMPUTED)

    def may_store_again(self, stores: list[Store]) -> bool:
        """Are they at places that are known before the iteration, so that what stands there may be stored anew?"""
        return len(stores) <= MOST_STORES and all(self.unknown.isdisjoint(each.index) for each in stores)

    # --- the straight line

    def straighten(self, choice: Choice, made: Region, known: dict[Key, int]) -> None:
        """Both arms, and what is chosen of them."""
        pairs = list(zip(choice.then.values, choice.orelse.values, strict=True))
        sums = [self.sum_of(choice, *pair) for pair in pairs]
        behind = {value for found in sums if found is not None for value in found.instead_of}
        for each in (*choice.then.computed, *choice.orelse.computed):
            substitute(each, self.new)
            if results(each)[0] not in behind:
                self.add(each, made, known)
        line = Line(self, choice.op.condition, choice.op.at, made, known)
        line.store(*(self.finals(arm.stores) for arm in (choice.then, choice.orelse)))
        for result, (one, other), found in zip(choice.op.results, pairs, sums):
            self.new[result] = line.chosen(self.final(one), self.final(other)) if found is None else line.added(found)

    def finals(self, stores: list[Store]) -> list[Store]:
        for each in stores:
            substitute(each, {value: self.final(value) for value in uses(each)})
        return stores

    def final(self, value: int) -> int:
        while value in self.new:
            value = self.new[value]
        return value

    def sum_of(self, choice: Choice, one: int, other: int) -> Sum | None:
        """A sum, or a difference, that both arms hand on, or one arm where the other hands on its first number."""
        first, second = choice.then.last_step(one), choice.orelse.last_step(other)
        if first is not None and second is not None and self.form_of(first) == self.form_of(second):
            return Sum(first.op, first.args[0], False, first.args[1], second.args[1], (one, other))
        if choice.op.condition in self.waiting:
            return None  # the sum would wait for the choice; so it is computed beside it
        for op, base, is_first in ((first, other, True), (second, one, False)):
            if op is not None and base in op.args and (op.args[0] == base or op.op == "add"):
                is_last = op.args[0] != base
                added = op.args[0 if is_last else 1]
                if self.neutral(op.op, added, base) is not None:
                    one_arm, other_arm = (added, None) if is_first else (None, added)
                    return Sum(op.op, base, is_last, one_arm, other_arm, (op.result,))
        return None

    def form_of(self, op: Let) -> tuple[str, int, Type]:
        return op.op, op.args[0], self.program.types[op.args[1]]

    def neutral(self, name: str, added: int, base: int) -> Literal | None:
        """What of the kind of one number changes no bit of another."""
        kinds = [self.program.types[value] for value in (added, base)]
        if not all(isinstance(kind, Scalar) for kind in kinds):
            return None
        if kinds[0].kind in FLOATING:  # type: ignore[union-attr]
            return -0.0 if name == "add" else 0.0
        return 0 if kinds[1].kind in INTEGERS else None  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class Sum:
    """`base` and what one arm adds, or takes away. None where an arm does not."""

    op: str
    base: int
    is_last: bool  # is the base the second operand?
    then: int | None
    orelse: int | None
    instead_of: tuple[int, ...]  # what arms computed


@dataclass(frozen=True, slots=True)
class Arm:
    computed: list[Op]
    stores: list[Store]
    values: list[int]  # that it hands on
    is_mixed: bool  # does it load after a store?

    @classmethod
    def of(cls, region: Region) -> Arm:
        *ops, end = region
        assert isinstance(end, Yield), end
        stores = [op for op in ops if isinstance(op, Store)]
        behind = ops[ops.index(stores[0]) :] if stores else []
        is_mixed = any(type(op) is Load for op in behind)
        return cls([op for op in ops if not isinstance(op, Store)], stores, end.values, is_mixed)

    def last_step(self, value: int) -> Let | None:
        """The sum or the difference that it hands on as this, and reads nowhere."""
        found = next((op for op in self.computed if isinstance(op, Let) and op.result == value), None)
        if found is None or found.op not in ("add", "subtract"):
            return None
        read = [*self.values, *(each for op in (*self.computed, *self.stores) for each in uses(op))]
        return found if read.count(value) == 1 else None


@dataclass(frozen=True, slots=True)
class Choice:
    op: If
    then: Arm
    orelse: Arm

    @property
    def stores_alike(self) -> bool:
        return places(self.then.stores) == places(self.orelse.stores)


def places(stores: list[Store]) -> list[tuple[int, ...]]:
    return [(each.array, *each.index) for each in stores]


@dataclass(frozen=True, slots=True)
class Line:
    """Appends what a choice of numbers is."""

    body: Body
    condition: int
    at: Place
    made: Region
    known: dict[Key, int]

    def emit(self, kind: Type, make: Callable[[int], Op]) -> int:
        result = self.body.program.new(kind)
        self.body.add(make(result), self.made, self.known)
        return self.body.final(result)

    def let(self, name: str, kind: Type, *args: int) -> int:
        return self.emit(kind, lambda result: Let(result, name, list(args), self.at))

    def type_of(self, value: int) -> Type:
        return self.body.program.types[value]

    def chosen(self, one: int, other: int) -> int:
        return one if one == other else self.let("choose", self.type_of(one), self.condition, one, other)

    def added(self, found: Sum) -> int:
        one, other = (None if value is None else self.body.final(value) for value in (found.then, found.orelse))
        base, some = self.body.final(found.base), next(value for value in (one, other) if value is not None)
        if one is None or other is None:
            neutral = self.body.neutral(found.op, some, base)
            assert neutral is not None, found
            nothing = self.emit(self.type_of(some), lambda result: Constant(result, neutral, self.at))
            one, other = nothing if one is None else one, nothing if other is None else other
        added = self.chosen(one, other)
        return self.let(found.op, self.type_of(found.instead_of[0]), *((added, base) if found.is_last else (base, added)))

    def store(self, one: list[Store], other: list[Store]) -> None:
        if places(one) == places(other):
            for each, instead in zip(one, other):
                self.body.add(replace(each, value=self.chosen(each.value, instead.value)), self.made, self.known)
            return
        for stores, is_first in ((one, True), (other, False)):
            for each in stores:
                there = self.loaded(each)
                value = self.chosen(each.value, there) if is_first else self.chosen(there, each.value)
                self.body.add(replace(each, value=value), self.made, self.known)

    def loaded(self, store: Store) -> int:
        """What stands where it stores to."""
        return self.emit(self.type_of(store.value), lambda result: Load(result, store.array, store.index, store.at))


def forget_loads(known: dict[Key, int]) -> None:
    for key in [key for key in known if key[0] == "load"]:
        del known[key]


def is_number(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.lanes == 1 and kind.kind in NUMBERS


def is_quiet(result: Type, operand: Type) -> bool:
    """Does a conversion set no flag?"""
    doubles = (Kind.FLOAT, Kind.F64)
    to, of = (kind.kind for kind in (result, operand) if isinstance(kind, Scalar))
    return of in INTEGERS | TRUTHS or to in doubles and of in (*doubles, Kind.F32)
