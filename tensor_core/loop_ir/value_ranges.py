"""The pass that removes Checks which always hold: an affine form and symbolic bounds for each integer.

In a loop, the index lies between the loop's bounds, so `x[i]` of a loop over `x.size` needs no Check, and no index counts from
the end. What the pass would have to assume of values from outside, it may be told to assume: check_hoisting.py tests it before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from npcompile.tensor_core.loop_ir.affine import GREATEST, LEAST, WORD, Affine, Ranges
from npcompile.tensor_core.loop_ir.counting import Step, steps_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.exactness import has_effect
from npcompile.tensor_core.loop_ir.forms import inner, regions, results, substitute, substitute_all
from npcompile.tensor_core.loop_ir.ops import (
    Append,
    Check,
    Constant,
    For,
    FpCheck,
    FpClear,
    FrameState,
    Let,
    Load,
    Op,
    Poll,
    Program,
    Region,
    Size,
    Store,
    View,
    Yield,
)
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.types import B1, BOOL, INT, MOST_ELEMENTS, Memref


def value_ranges(program: Program) -> int:
    """Remove Checks that always hold, in place. How many."""
    pass_ = ValueRanges(program)
    pass_.region(program.body)
    if pass_.removed:
        substitute_all(program.body, pass_.new)
        drop_unused(program, program.body)
    return pass_.removed


TELLING_NOTHING = frozenset((Append, FpCheck, FpClear, FrameState, Load, Poll, Store, Yield))


class Counting(NamedTuple):
    """A number lies between `low` and `high`, and in each iteration at least and at most so much is added to these."""

    low: Affine
    least: int
    high: Affine
    most: int


@dataclass(slots=True)
class ValueRanges:
    program: Program
    ranges: Ranges = field(default_factory=Ranges)
    true: set[int] = field(default_factory=set)  # truth values that are known
    false: set[int] = field(default_factory=set)
    new: dict[int, int] = field(default_factory=dict)
    sizes: dict[tuple[int, int], Affine] = field(default_factory=dict)  # of views, by axis
    spans: dict[int, Affine] = field(default_factory=dict)  # what they are, unless they are 0
    removed: int = 0
    kept: Region = field(default_factory=list)  # of the region that is walked through, what was seen
    outside: int = -1  # atoms before this one may be assumed things of, where it is not negative
    assumed: list[Affine] = field(default_factory=list)  # sums of these that are not negative

    # --- proofs

    def is_positive(self, form: Affine) -> bool:
        """Is it 0 or greater?"""
        if (least := self.ranges.least(form)).constant >= 0 and not least.factors:
            return True
        return self.outside >= 0 and self.assume(form)

    def assume(self, form: Affine) -> bool:
        needed = self.ranges.least(form, self.outside)
        if not needed.factors or not self.may_be_computed(needed):
            return False
        if needed not in self.assumed:
            self.assumed.append(needed)
        return True

    def may_be_computed(self, form: Affine) -> bool:
        """Can no step of its computation leave a 64-bit word?"""
        known = all(self.is_size(atom) for atom in form.factors)
        return known and len(form.factors) <= 4 and all(abs(f) == 1 for f in form.factors.values()) and abs(form.constant) < 2**60

    def is_size(self, atom: int) -> bool:
        bounds = self.ranges.bounds[atom]
        return bounds.low == Affine(0) and bounds.high == Affine(MOST_ELEMENTS)

    def is_below(self, one: Affine, other: Affine) -> bool:
        return self.is_positive((other - one).plus(-1))

    def is_index(self, index: Affine, size: Affine) -> bool:
        return self.is_positive(index) and self.is_below(index, size)

    # --- the walk

    def region(self, region: Region) -> None:
        around, self.kept = self.kept, []
        kept = self.kept
        for op in region:
            if self.new:
                substitute(op, self.new)
            if type(op) is Check and op.condition in self.true:
                self.removed += 1
                continue
            kept.append(op)
            self.op(op)
        region[:], self.kept = kept, around

    def op(self, op: Op) -> None:
        if type(op) in TELLING_NOTHING:
            return
        match op:
            case Let(result):
                kind = self.program.types[result]
                if kind == INT:
                    self.integer(op)
                elif kind in (BOOL, B1):
                    self.truth(op)
            case Constant(result, value):
                if type(value) is int:
                    self.ranges.forms[result] = Affine(value)
            case Size(result, array, axis):
                self.size(result, array, axis)
            case View(result, _, _, _, sizes):
                self.sizes |= {(result, axis): self.ranges.form(size) for axis, size in enumerate(sizes)}
            case Check(condition):
                self.true.add(condition)
            case For():
                self.loop(op)
            case _:
                for value in inner(op):
                    self.opaque(value)
                for part in regions(op):
                    self.inside(part)
                for value in results(op):
                    self.opaque(value)

    def opaque(self, value: int) -> None:
        if self.program.types[value] == INT:
            self.ranges.atom(value, *WORD)

    def inside(self, region: Region) -> None:
        """A region: what Checks in it have shown is known in it alone, and its sizes are values there."""
        known, sizes = set(self.true), dict(self.sizes)
        self.region(region)
        self.true, self.sizes = known, sizes

    def loop(self, op: For) -> None:
        # A span is stop - start where its loop's body runs: an empty loop's does not.
        start, stop = self.ranges.form(op.start), self.spans.get(op.stop) or self.ranges.form(op.stop)
        index = self.ranges.atom(op.index, start, stop.plus(-1))
        steps = steps_of(op, self.ranges) if any(self.program.types[arg] == INT for arg in op.args) else {}
        given = dict(zip(op.args, op.initial))
        bounds = {arg: self.counting(op, given[arg], step, stop - start) for arg, step in steps.items()}
        for arg in op.args:
            self.bounded(arg, bounds.get(arg), index - start)
        self.inside(op.body)
        for arg, value in zip(op.args, op.results):
            self.bounded(value, bounds.get(arg) if self.is_surely_positive(stop - start) else None, stop - start)

    def counting(self, op: For, initial: int, step: Step, times: Affine) -> Counting | None:
        """Between what lies a number that a loop counts with, where it is tested for leaving a word."""
        first = self.ranges.form(initial)
        low, high = first + times * min(step.least, 0), first + times * max(step.most, 0)
        fits = self.is_surely_positive(low.plus(-LEAST)) and self.is_surely_positive(Affine(GREATEST) - high)
        if not fits and not self.asked(op, initial, step):
            return None
        if fits:
            return Counting(first, step.least, first, step.most)
        # What was asked: the first number and all that is added to it are a word.
        low, high = Affine(LEAST) - times * min(step.least, 0), Affine(GREATEST) - times * max(step.most, 0)
        return Counting(low, step.least, high, step.most)

    def asked(self, op: For, initial: int, step: Step) -> bool:
        """Ask before the loop what would be asked in each iteration, where Python can go on before it. False where it cannot."""
        where = next((k for k in range(len(self.kept) - 1, -1, -1) if type(self.kept[k]) is FrameState), -1)
        if where < 0 or not step.is_tested or not -1 <= step.least <= step.most <= 1 or has_effect(self.kept[where:], set()):
            return False
        state, made = self.kept[where], Emitter(self.program, op.at)
        assert isinstance(state, FrameState), state
        times = made.let("span", op.start, op.stop)
        for name, is_asked in (("add_overflows", step.most > 0), ("subtract_overflows", step.least < 0)):
            if is_asked:
                made.emit(Check(made.let("logical_not", made.let(name, initial, times)), state.name, op.at))
        self.kept[-1:-1] = made.ops
        return True

    def is_surely_positive(self, form: Affine) -> bool:
        """Without any assumption."""
        return not (least := self.ranges.least(form)).factors and least.constant >= 0

    def bounded(self, value: int, counting: Counting | None, times: Affine) -> None:
        """A number after so many iterations."""
        if counting is None:
            self.opaque(value)
        else:
            low, high = counting.low + times * counting.least, counting.high + times * counting.most
            self.ranges.atom(value, low, high)

    # --- values

    def size(self, result: int, array: int, axis: int) -> None:
        kind = self.program.types[array]
        if (array, axis) in self.sizes:
            self.ranges.forms[result] = self.sizes[array, axis]
        else:
            form = self.ranges.atom(result, Affine(0), Affine(MOST_ELEMENTS if isinstance(kind, Memref) else GREATEST))
            if isinstance(kind, Memref):
                self.sizes[array, axis] = form  # an array keeps its sizes: the next time that one is asked for, it is this

    def integer(self, op: Let) -> None:
        a, *rest = (self.ranges.form(arg) for arg in op.args)
        found: Affine | None = None
        match op.op, rest:
            case "add", [b]:
                found = a + b
            case "subtract", [b]:
                found = a - b
            case "multiply", [b] if not b.factors or not a.factors:
                found = a * b.constant if not b.factors else b * a.constant
            case "wrap_index", _ if self.is_positive(a):
                found = self.same(op, a)
            case "clip_bound", [size] if self.is_positive(a) and self.is_positive(size - a):
                found = self.same(op, a)
            case "clip_bound", [size]:
                found = self.ranges.atom(op.result, Affine(0), size)
            case "span", [stop] if a == Affine(0) and self.is_positive(stop):
                self.new[op.result] = op.args[1]
                found = stop
            case "span", [stop]:
                self.spans[op.result] = stop - a
                found = self.ranges.atom(op.result, Affine(0), Affine(GREATEST))
        self.ranges.forms[op.result] = found if found is not None else self.ranges.form(op.result)

    def same(self, op: Let, form: Affine) -> Affine:
        self.new[op.result] = op.args[0]
        return form

    def truth(self, op: Let) -> None:
        known: bool | None = None
        match op.op, op.args:
            case "logical_not", [a]:
                known = False if a in self.true else True if a in self.false else None
            case name, [a, b] if self.program.types[a] == self.program.types[b] == INT:
                known = self.comparison(name, self.ranges.form(a), self.ranges.form(b))
        if known is not None:
            (self.true if known else self.false).add(op.result)

    def comparison(self, name: str, a: Affine, b: Affine) -> bool | None:
        match name:
            case "is_index":
                return True if self.is_index(a, b) else None
            case "less" | "greater":
                low, high = (a, b) if name == "less" else (b, a)
                return True if self.is_below(low, high) else None
            case "less_equal" | "greater_equal":
                low, high = (a, b) if name == "less_equal" else (b, a)
                return True if self.is_positive(high - low) else None
            case "equal":
                return True if a == b else None
            case "add_overflows" | "subtract_overflows":
                exact = a + b if name == "add_overflows" else a - b
                fits = self.is_positive(exact.plus(-LEAST)) and self.is_positive(Affine(GREATEST) - exact)
                return False if fits else None
        return None
