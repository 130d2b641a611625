"""The pass that computes several iterations of a loop at once, each in a lane of vectors.

It takes loops whose iterations do not see each other, also those around inner loops: the columns of a matrix product are lanes,
and each sum is added up in its own order. An iteration's numbers are the same in all lanes, or count with the loop's index, or
are vectors; where there is an inner loop, so many vectors that one waits while others are added.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace

from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.cost import ARITHMETIC, own_cost
from npcompile.tensor_core.loop_ir.dependence import Fresh, along, fresh_of, pairs_apart, places_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import regions, uses, walk
from npcompile.tensor_core.loop_ir.ops import (
    Constant,
    For,
    Gather,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Poll,
    Program,
    Region,
    Size,
    Splat,
    Store,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import CARRIED, Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.types import B1, BOOL, F32, F64, FLOAT, INT, Kind, Memref, Scalar

ROWS = {"add", "subtract", "multiply", "divide", "negative", "absolute", "sqrt"}  # what is computed lane by lane as one by one
COMPARED = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
TRUTHS = {"logical_not", "logical_and", "bitwise_and", "bitwise_or", "truth", "to_b1"}  # of truth values
ANY = frozenset(Kind)
WIDTHS, GATHERED = (8, 2), (2,)  # vectors side by side, where an iteration is a loop that adds up; of elements that are apart


def vectorize(program: Program, lanes: int) -> Report:
    """Make vectors of `lanes` numbers, in place."""
    pass_ = Vectorizing(program, lanes, places_of(program), fresh_of(program))
    pass_.region(program.body)
    return pass_.report


@dataclass(slots=True)
class Vectorizing:
    program: Program
    lanes: int
    places: Ranges
    fresh: Fresh
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> bool:
        """Did a loop in the region become one of vectors?"""
        made: Region = []
        fired = False
        for op in region:
            inside = [self.region(part) for part in regions(op)]
            is_serial = type(op) is For and op.kind is LoopKind.SERIAL
            found = self.loop(op) if is_serial and not any(inside) else None  # type: ignore[arg-type]
            fired |= found is not None or any(inside)
            made += [op] if found is None else found
        region[:] = made
        return fired

    def loop(self, op: For) -> Region | None:
        try:
            if op.args:
                raise Declined(CARRIED)
            strips = self.strips(op)
            apart = pairs_apart(op, self.program, self.places, self.fresh)
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return None
        self.report.fire(op.at)
        if not apart:
            return strips()
        made = Emitter(self.program, op.at)
        condition = made.all_of([made.disjoint(*pair) for pair in apart])
        return [*made.ops, If(condition, [*strips(), Yield([], op.at)], [op, Yield([], op.at)], [], op.at)]

    def strips(self, op: For) -> Callable[[], Region]:
        """What makes vectors of a loop. Raises Declined."""
        analysis = Lanes(self.program, op, self.places)
        try:
            analysis.run()
        except Declined:
            if not self.is_for_target(op, analysis):
                raise
            return lambda: self.left_to_target(op)
        return lambda: self.in_lanes(op, analysis)

    def is_for_target(self, op: For, analysis: Lanes) -> bool:
        """Is it a straight line of cheap ops that the target's compiler makes vectors of: choices, or numbers of other kinds?

        Each result is read, so a store waits for it, and no flag is set after the loop.
        """
        read = {value for each in op.body for value in uses(each)}
        for each in op.body:
            if not isinstance(each, Let | Constant | Size | Load | Store | Yield):
                return False
            if type(each) is Let and (own_cost(each) > ARITHMETIC or each.result not in read):
                return False
        try:
            return all(analysis.element(x.array, x.index, ANY) for x in op.body if isinstance(x, Load | Store))
        except Declined:
            return False

    def left_to_target(self, op: For) -> Region:
        made = Cloner(self.program, self.program).op(op)
        assert isinstance(made, For), made
        return [replace(made, kind=LoopKind.SIMD)]

    def in_lanes(self, op: For, analysis: Lanes) -> Region:
        """Loops over wide strips, over strips of one vector, and over what is left."""
        made = Emitter(self.program, op.at)
        strips = Strips(self.program, self.lanes, analysis, made, made.constant(0))
        start = op.start
        for count in (GATHERED if analysis.gathers else WIDTHS) if analysis.has_loops else ():
            start = strips.whole(start, op.stop, count)
        if may_run_twice(op):
            strips.overlapping(start)
        else:
            strips.rest(strips.whole(start, op.stop, 1))
        drop_unused(self.program, made.ops)
        return made.ops


def may_run_twice(op: For) -> bool:
    """Does an iteration do the same again where it runs again? No array is stored to and read."""
    inside = walk(op.body)
    stored = {each.array for each in inside if type(each) is Store}
    return not any(type(each) is Load and each.array in stored for each in inside)


@dataclass(slots=True)
class Strips:
    """Emits loops over strips of a loop's iterations."""

    program: Program
    lanes: int
    analysis: Lanes
    made: Emitter
    zero: int

    def loop(self, count: int, strips: int, place: Callable[[Emitter, int], int]) -> None:
        """So many strips of `count` vectors. `place` emits where one begins, by its number."""
        op = self.analysis.op
        number, body = self.program.new(INT), Emitter(self.program, op.at)
        Vectors(self.program, self.lanes, count, self.analysis, {op.index: place(body, number)}).region(op.body, body)
        self.made.emit(For(LoopKind.SIMD, number, self.zero, strips, [], [], body.ops, [], op.at))

    def whole(self, start: int, stop: int, count: int) -> int:
        """As many strips as there are whole ones. Where they end."""
        made = self.made
        width = made.constant(count * self.lanes)
        strips = made.let("floor_divide", made.let("span", start, stop), width)
        self.loop(count, strips, lambda body, number: body.let("add", start, body.let("multiply", number, width)))
        return made.let("add", start, made.let("multiply", strips, width))

    def overlapping(self, start: int) -> None:
        """Strips of one vector, the last of which does some iterations again. One by one where there are fewer than lanes."""
        op, outer = self.analysis.op, self.made
        lanes = outer.constant(self.lanes)
        enough = outer.let("less_equal", lanes, outer.let("span", op.start, op.stop))
        self.made = made = Emitter(self.program, op.at)
        most = made.constant(self.lanes - 1)
        strips = made.let("floor_divide", made.let("add", made.let("span", start, op.stop), most), lanes)
        last = made.let("subtract", op.stop, lanes)

        def place(body: Emitter, number: int) -> int:
            first = body.let("add", start, body.let("multiply", number, lanes))
            return body.let("subtract", last, body.let("span", first, last))  # the lesser

        self.loop(1, strips, place)
        self.made = few = Emitter(self.program, op.at)
        self.rest(op.start)
        self.made = outer
        outer.emit(If(enough, [*made.ops, Yield([], op.at)], [*few.ops, Yield([], op.at)], [], op.at))

    def rest(self, start: int) -> None:
        """Iterations one by one."""
        rest = Cloner(self.program, self.program).op(self.analysis.op)
        assert isinstance(rest, For), rest
        self.made.emit(replace(rest, start=start))


@dataclass(slots=True)
class Lanes:
    """Which values of a loop's body differ from lane to lane."""

    program: Program
    op: For
    places: Ranges
    vectors: set[int] = field(default_factory=set)
    has_loops: bool = False
    gathers: bool = False

    def run(self) -> None:
        """Raises Declined."""
        self.has_loops = any(type(each) is For for each in self.op.body)
        count = -1
        while count != len(self.vectors):  # what an inner loop carries is known when its body is
            count = len(self.vectors)
            self.region(self.op.body, [])

    def region(self, region: Region, taking: list[int]) -> None:
        for op in region:
            if type(op) is Yield:
                self.vectors |= {taker for value, taker in zip(op.values, taking) if self.is_vector(value)}
                for value in op.values:
                    self.uniform_or_vector(value)
            else:
                self.of(op)

    def is_vector(self, value: int) -> bool:
        return value in self.vectors

    def counts(self, value: int) -> bool:
        return along(self.places, value, self.op.index) != 0

    def uniform(self, values: list[int]) -> None:
        if any(self.is_vector(value) or self.counts(value) for value in values):
            raise Declined("a condition, a bound or an index that differs from iteration to iteration")

    def uniform_or_vector(self, value: int) -> None:
        if self.counts(value):
            raise Declined("the loop's index as a number")

    def of(self, op: Op) -> None:
        match op:
            case Load(result, array, index):
                is_apart = self.is_apart(array, index)
                self.gathers |= is_apart
                if is_apart or self.element(array, index):
                    self.vectors.add(result)
            case Store(array, index, value):
                self.uniform_or_vector(value)
                if not self.element(array, index):
                    raise Declined("a store to one element in all iterations")
            case Let(result, name, args):
                self.let(result, name, args)
            case If(condition, then, orelse, made):
                self.uniform([condition])
                self.region(then, made)
                self.region(orelse, made)
            case For(_, _, start, stop, args, initial, body, made):
                self.uniform([start, stop])
                self.vectors |= {arg for arg, value in zip(args, initial) if self.is_vector(value)}
                self.region(body, args)
                self.vectors |= {value for arg, value in zip(args, made) if self.is_vector(arg)}
            case Constant() | Size() | Poll():
                pass
            case _:
                raise Declined.for_op(op)

    def let(self, result: int, name: str, args: list[int]) -> None:
        if any(map(self.is_vector, args)):
            kind, kinds = self.program.types[result], {self.program.types[arg] for arg in args}
            is_number = name in ROWS and kind in (F32, F64)
            is_compared = name in COMPARED and kinds <= {F32, F64, FLOAT} and len(kinds - {FLOAT}) == 1
            is_chosen = name == "choose" and kind in (F32, F64)
            if not is_number and not (self.has_loops and (is_compared or is_chosen or name in TRUTHS and kinds <= {B1, BOOL})):
                raise Declined(f"{name} of vectors")
            for arg in args:
                self.uniform_or_vector(arg)
            self.vectors.add(result)
        elif any(map(self.counts, args)) and not (self.program.types[result] == INT and self.is_sum(result)):
            raise Declined("the loop's index as a number")

    def is_sum(self, value: int) -> bool:
        return self.places.form(value).factors.get(value) is None

    def steps(self, index: list[int]) -> list[int | None]:
        """How much more each index is in the next lane."""
        return [along(self.places, each, self.op.index) for each in index]

    def is_apart(self, array: int, index: list[int]) -> bool:
        """May a nest gather elements that are not side by side in memory?"""
        kind, steps = self.program.types[array], self.steps(index)
        is_known = not any(map(self.is_vector, index)) and None not in steps
        is_floating = isinstance(kind, Memref) and kind.element in (Kind.F32, Kind.F64)
        is_beside = isinstance(kind, Memref) and kind.contiguous and steps == [0] * (len(index) - 1) + [1]
        return self.has_loops and is_known and is_floating and any(steps) and not is_beside

    def element(self, array: int, index: list[int], kinds: Container[Kind] = (Kind.F32, Kind.F64)) -> bool:
        """Is it another element in each lane?"""
        if any(map(self.is_vector, index)):
            raise Declined("an index that is read from memory")
        *rest, last = index
        step, kind = along(self.places, last, self.op.index), self.program.types[array]
        if step == 0 and not any(map(self.counts, rest)):
            return False
        if (
            step != 1
            or any(map(self.counts, rest))
            or not isinstance(kind, Memref)
            or not kind.contiguous
            or kind.element not in kinds
        ):
            raise Declined("elements that are not side by side in memory")
        return True


@dataclass(slots=True)
class Vectors:
    """A body with vectors: each value that differs from lane to lane is `count` vectors, others are what they are in lane 0."""

    program: Program
    lanes: int
    count: int
    analysis: Lanes
    scalars: dict[int, int]
    vectors: dict[int, list[int]] = field(default_factory=dict)

    def scalar(self, value: int) -> int:
        return self.scalars.get(value, value)

    def define(self, value: int) -> int:
        made = self.scalars[value] = self.program.copy(value)
        return made

    def define_vectors(self, value: int) -> list[int]:
        kind = self.program.types[value]
        assert isinstance(kind, Scalar), kind
        name = self.program.names.get(value, "")
        made = self.vectors[value] = [self.program.new(Scalar(kind.kind, self.lanes), name) for _ in range(self.count)]
        return made

    def defined(self, value: int) -> list[int]:
        return self.define_vectors(value) if value in self.analysis.vectors else [self.define(value)]

    def spread(self, value: int, made: Emitter) -> list[int]:
        """The vectors of a value, also of one that is the same in all lanes."""
        if value in self.vectors:
            return self.vectors[value]
        kind = self.program.types[value]
        assert isinstance(kind, Scalar), kind
        result = self.program.new(Scalar(kind.kind, self.lanes))
        made.emit(Splat(result, self.scalar(value), made.at))
        return [result] * self.count

    def given(self, values: list[int], takers: list[int], made: Emitter) -> list[int]:
        """What is handed to these, which are vectors or not."""
        found: list[int] = []
        for value, taker in zip(values, takers, strict=True):
            found += self.spread(value, made) if taker in self.analysis.vectors else [self.scalar(value)]
        return found

    def region(self, region: Region, made: Emitter, takers: list[int] | None = None) -> None:
        for op in region:
            made.at = op.at  # type: ignore[attr-defined]
            if type(op) is Yield:
                made.emit(Yield(self.given(op.values, takers or [], made), op.at))
            else:
                self.op(op, made)

    def inside(self, region: Region, made: Emitter, takers: list[int]) -> Region:
        part = Emitter(self.program, made.at)
        self.region(region, part, takers)
        return part.ops

    def op(self, op: Op, made: Emitter) -> None:
        match op:
            case Load(result, array, index) if result in self.analysis.vectors and self.analysis.is_apart(array, index):
                steps = [int(step or 0) for step in self.analysis.steps(index)]
                for k, vector in enumerate(self.define_vectors(result)):
                    made.emit(Gather(vector, array, self.moved(index, steps, k, made), steps, op.at))
            case Load(result, array, index) if result in self.analysis.vectors:
                for k, vector in enumerate(self.define_vectors(result)):
                    made.emit(Load(vector, array, self.place(index, k, made), op.at))
            case Store(array, index, value):
                for k, vector in enumerate(self.spread(value, made)):
                    made.emit(Store(array, self.place(index, k, made), vector, op.at))
            case Let(result, name, args) if result in self.analysis.vectors:
                operands = [self.spread(arg, made) for arg in args]
                for vector, each in zip(self.define_vectors(result), zip(*operands)):
                    made.emit(Let(vector, name, list(each), op.at))
            case If(condition, then, orelse, found):
                arms = (self.inside(then, made, found), self.inside(orelse, made, found))
                out = [each for value in found for each in self.defined(value)]
                made.emit(If(self.scalar(condition), *arms, out, op.at))
            case For(kind, index, start, stop, args, initial, body, found):
                first = self.given(initial, args, made)
                number = self.define(index)
                carried = [each for arg in args for each in self.defined(arg)]
                ops = self.inside(body, made, args)
                out = [each for value in found for each in self.defined(value)]
                made.emit(For(kind, number, self.scalar(start), self.scalar(stop), carried, first, ops, out, op.at))
            case _:
                copied = Cloner(self.program, self.program, self.scalars).op(op)
                made.emit(copied)

    def place(self, index: list[int], k: int, made: Emitter) -> list[int]:
        return self.moved(index, [0] * (len(index) - 1) + [1], k, made)

    def moved(self, index: list[int], steps: list[int], k: int, made: Emitter) -> list[int]:
        """Where the first lane of the k-th vector is."""
        by = [step * k * self.lanes for step in steps]
        return [made.let("add", i, made.constant(more)) if more else i for i, more in zip(map(self.scalar, index), by)]
