"""The pass that runs several rows of a table at once, each some columns behind the one before (loop skewing, Wolfe 1986).

In a row each number waits for the one before: `d[i, j]` needs `d[i, j - 1]` and `d[i - 1, j]`. Rows that are a few columns apart
wait for nothing of each other, so a processor computes a number of each while it waits for the others. What they need of each
other is handed on, instead of through memory. Rows run as a block: what they store over is kept aside, and where a flag is set or
a Guard gives up they run again one by one, as Python would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.blocks import prefix_of
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.dependence import Fresh, fresh_of, places_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import all_regions, inner, regions, results, substitute_all, walk
from npcompile.tensor_core.loop_ir.fp_status import strip
from npcompile.tensor_core.loop_ir.ops import (
    NOWHERE,
    Check,
    Constant,
    For,
    FpCheck,
    FrameState,
    Guard,
    If,
    Let,
    Load,
    LoopKind,
    Policy,
    Poll,
    Program,
    Region,
    Room,
    Size,
    Speculate,
    Store,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.slices import definers_of, outside_loops, slice_of
from npcompile.tensor_core.loop_ir.speculation import errors_of, not_of_places
from npcompile.tensor_core.loop_ir.types import INT, Memref, Scalar

ROWS: Final = 6  # at once
MOST_LAG, MOST_COLUMNS = 8, 1 << 26
SIMPLE = (FrameState, FpCheck, Poll, Check, Constant, Let, Size, Load, Store, If, Yield)


def skew_rows(program: Program) -> Report:
    """Let rows that wait for each other run side by side, in place."""
    if program.policy is Policy.ABORT:  # nothing that it does is undone here
        return Report()
    pass_ = Skewing(program, places_of(program), fresh_of(program))
    pass_.region(program.body)
    return pass_.report


@dataclass(slots=True)
class Skewing:
    program: Program
    places: Ranges
    fresh: Fresh
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            found = self.nest(op) if type(op) is For and op.kind is LoopKind.SERIAL else None
            if found is None:
                for part in regions(op):
                    self.region(part)
            made += [op] if found is None else found
        region[:] = made

    def nest(self, op: For) -> Region | None:
        loops = [each for each in op.body if type(each) is For]
        if len(loops) != 1 or op.args or loops[0].args or not any(type(each) is Store for each in loops[0].body):
            return None
        try:
            table = self.table(op, loops[0])
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return None
        self.report.fire(op.at)
        return Rows(self.program, table).run()

    def table(self, op: For, columns: For) -> Table:
        """Raises Declined."""
        inside = walk(op.body)
        own = {value for each in inside for value in (*results(each), *inner(each))}
        if any(not isinstance(each, SIMPLE) and each is not columns for each in inside) or op.body[-2] is not columns:
            raise Declined("more than a loop over columns in the loop")
        if columns.start in own or columns.stop in own:
            raise Declined("rows of different lengths")
        stores = [each for each in inside if type(each) is Store]
        if len(stores) != 1 or not any(each is stores[0] for each in columns.body) or stores[0].array in own:
            raise Declined("several stores, or one that not all iterations do")
        known = not_of_places(inside)
        if any(type(each) is Check and each.condition not in known for each in inside):
            raise Declined("a check of the index of a store")
        loads = [each for each in inside if type(each) is Load]
        if any(each.array in own for each in loads):
            raise Declined("an array that is another one from iteration to iteration")
        lag, near = self.lag(op, columns, stores[0], [each for each in loads if each.array == stores[0].array], own)
        others = dict.fromkeys(each.array for each in loads if each.array != stores[0].array)
        apart = [each for each in others if not self.fresh.are_apart(stores[0].array, each)]
        return Table(op, columns, stores[0], prefix_of(op), lag, self.handed(lag, near, stores[0]), apart, errors_of(inside))

    def lag(self, op: For, columns: For, store: Store, loads: list[Load], own: set[int]) -> tuple[int, list[Near]]:
        """How many columns a row is behind the one before, so that it needs nothing of the column that this is at; and what is
        loaded of the table."""
        own = own - {op.index, columns.index}
        there = [self.places.form(value) for value in store.index]
        steps = [(form.factors.get(op.index, 0), form.factors.get(columns.index, 0)) for form in there]
        if sorted(step for step in steps if step != (0, 0)) != [(0, 1), (1, 0)] or any(
            not own.isdisjoint(f.factors) for f in there
        ):
            raise Declined("a store that goes along rows and columns in another way")
        lag, near = 1, list[Near]()
        for load in loads:
            offsets = [self.places.form(value) - form for value, form in zip(load.index, there)]
            if any(offset.factors for offset in offsets):
                raise Declined("elements that are not side by side in the table")
            if any(offset.constant for offset, step in zip(offsets, steps) if step == (0, 0)):
                continue  # of another plane
            down, right = offsets[steps.index((1, 0))].constant, offsets[steps.index((0, 1))].constant
            near.append(Near(load, down, right))
            if down:
                lag = max(lag, right // -down + 1 if down < 0 else -(right // down))
        if not any(each.down for each in near) or not any(each.down == 0 and each.right < 0 for each in near):
            raise Declined("rows that do not wait for each other, or numbers of a row that do not")
        if lag > MOST_LAG:
            raise Declined("rows that need one far before them")
        return lag, near

    def handed(self, lag: int, near: list[Near], store: Store) -> list[Handed]:
        """The loads that get what a row has stored some columns ago."""
        found = [Handed(each.load.result, -each.down, lag * -each.down - each.right) for each in near if each.down in (0, -1)]
        types = self.program.types
        alike = [each for each in found if types[each.value] == types[store.value]]
        return [each for each in alike if 0 < each.ago <= MOST_LAG // 2]


class Near(NamedTuple):
    """A load of the table, so many rows and columns from where the store goes."""

    load: Load
    down: int
    right: int


class Handed(NamedTuple):
    """A loaded value: what the row so many rows above has stored so many iterations ago."""

    value: int
    above: int
    ago: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and columns in each."""

    rows: For
    columns: For
    store: Store
    prefix: Region
    lag: int
    handed: list[Handed]
    apart: list[int]  # arrays that must share no memory with what is stored
    errors: int


@dataclass(slots=True)
class Rows:
    """Makes the ops."""

    program: Program
    table: Table

    def run(self) -> Region:
        rows, columns, lag = self.table.rows, self.table.columns, self.table.lag
        made = Emitter(self.program, rows.at)
        one, many, lead = made.constant(1), made.constant(ROWS), made.constant(lag * (ROWS - 1))
        strips = made.let("floor_divide", made.let("span", rows.start, rows.stop), many)
        count = made.let("span", columns.start, columns.stop)
        conditions = [made.let("less_equal", one, strips), made.let("less_equal", lead, count)]
        conditions.append(made.let("less_equal", count, made.constant(MOST_COLUMNS)))
        conditions += [made.disjoint(self.table.store.array, each) for each in self.table.apart]
        arm = Emitter(self.program, rows.at)
        size = arm.let("multiply", count, many)
        kind = self.program.types[self.table.store.array]
        assert isinstance(kind, Memref), kind
        room = self.program.new(Memref(kind.element, 1, True, True, True), "kept")
        arm.emit(Room(room, size, rows.at))
        found = self.program.new(INT)
        arm.emit(Size(found, room, 0, rows.at))
        first, all_done = self.program.new(INT), self.program.new(INT)
        strip = Emitter(self.program, rows.at)
        number = self.program.new(INT)
        self.strip(strip, strip.let("add", rows.start, strip.let("multiply", number, many)), room, count)
        zero = arm.constant(0)
        loop = For(LoopKind.SERIAL, number, zero, strips, [], [], strip.ops, [], rows.at)
        behind = Emitter(self.program, rows.at)
        end = behind.let("add", rows.start, behind.let("multiply", strips, many))
        fits = arm.let("less_equal", size, found)
        arm.emit(If(fits, [loop, *behind.ops, Yield([end], rows.at)], [Yield([rows.start], rows.at)], [all_done], rows.at))
        condition = made.all_of(conditions)
        made.emit(If(condition, [*arm.ops, Yield([all_done], rows.at)], [Yield([rows.start], rows.at)], [first], rows.at))
        return [*made.ops, replace(rows, start=first)]

    def strip(self, made: Emitter, low: int, room: int, count: int) -> None:
        """Some rows, as a block."""
        rows = self.table.rows
        made.ops += Cloner(self.program, self.program, {rows.index: low}).region(self.table.prefix)
        poll = made.ops[-1]
        assert isinstance(poll, Poll), poll
        high = made.let("add", low, made.constant(ROWS))
        made.emit(self.moving(made, low, high, room, count, keeps=True))
        body = self.side_by_side(low, poll.state)
        undo = self.moving(made, low, high, room, count, keeps=False)
        slow = Cloner(self.program, self.program).op(replace(rows, start=low, stop=high))
        parts: list[Region] = [[*part, Yield([], rows.at)] for part in (body, [undo], [slow])]
        made.emit(Speculate(self.table.errors, parts[0], parts[1], parts[2], [], rows.at))
        made.emit(Yield([], rows.at))

    def side_by_side(self, low: int, state: int) -> Region:
        """Each row up to where all may run at once, all at once, and the rest of each."""
        columns, lag = self.table.columns, self.table.lag
        made = Emitter(self.program, self.table.rows.at)
        last = made.let("add", low, made.constant(ROWS - 1))
        lead, step = made.constant(lag * (ROWS - 1)), made.constant(lag)
        steady = made.let("add", columns.start, lead)

        def behind(body: Emitter, row: int) -> int:
            return body.let("multiply", body.let("subtract", row, low), step)

        def before(body: Emitter, row: int) -> tuple[int, int]:
            return columns.start, body.let("subtract", steady, behind(body, row))

        def after(body: Emitter, row: int) -> tuple[int, int]:
            return body.let("subtract", columns.stop, behind(body, row)), columns.stop

        self.one_by_one(made, low, last, before)
        values = []
        for k in range(ROWS):
            cloner = Cloner(self.program, self.program, {self.table.rows.index: made.let("add", low, made.constant(k))})
            made.ops += cloner.region(self.of_row())
            values.append(dict(cloner.values))
        made.emit(self.at_once(made, values, steady))
        self.one_by_one(made, made.let("add", low, made.constant(1)), made.let("add", low, made.constant(ROWS)), after)
        strip(made.ops, state)
        for region in all_regions(made.ops):
            region[:] = [Guard(x.condition, x.at) if type(x) is Check else x for x in region if type(x) is not Poll]
        drop_unused(self.program, made.ops)
        return made.ops

    def at_once(self, made: Emitter, rows: list[dict[int, int]], steady: int) -> For:
        """The loop in which all rows run, each behind the one before."""
        columns, lag, handed, store = self.table.columns, self.table.lag, self.table.handed, self.table.store
        # The last row hands nothing on to one below it.
        depths = [max((x.ago for x in handed if x.above < len(rows) - k), default=0) for k in range(len(rows))]
        ago = [[self.program.new(self.program.types[store.value], "stored") for _ in range(depth)] for depth in depths]
        first = [
            [self.stored(made, known, made.let("subtract", steady, made.constant(lag * k + d))) for d in range(1, depth + 1)]
            for k, (known, depth) in enumerate(zip(rows, depths))
        ]
        number, cells, now = self.program.new(INT), Emitter(self.program, columns.at), list[int]()
        for k, known in enumerate(rows):
            column = number if k == 0 else cells.let("subtract", number, cells.constant(lag * k))
            cloner = Cloner(self.program, self.program, {**known, columns.index: column})
            ops = cloner.region(columns.body[:-1])
            of = [each for each in handed if each.above <= k]
            substitute_all(ops, {cloner.values[each.value]: ago[k - each.above][each.ago - 1] for each in of})
            cells.ops += ops
            now.append(next(each.value for each in ops if isinstance(each, Store)))
        cells.emit(Yield([each for new, kept in zip(now, ago) if kept for each in (new, *kept[:-1])], columns.at))
        args, initial = ([each for row in part for each in row] for part in (ago, first))
        results_ = [self.program.copy(each) for each in args]
        return For(LoopKind.SERIAL, number, steady, columns.stop, args, initial, cells.ops, results_, columns.at)

    def stored(self, made: Emitter, known: dict[int, int], column: int) -> int:
        """What stands in a row's column."""
        columns, store = self.table.columns, self.table.store
        cloner = Cloner(self.program, self.program, {**known, columns.index: column})
        made.ops += cloner.region(slice_of(definers_of(outside_loops(columns.body)), store.index, []))
        result = self.program.new(self.program.types[store.value])
        made.emit(Load(result, store.array, [cloner.values.get(value, value) for value in store.index], columns.at))
        return result

    def of_row(self) -> Region:
        """What is computed once for a row."""
        return [each for each in self.table.rows.body if not isinstance(each, For | Yield)]

    def cell(self, known: dict[int, int], column: int) -> Region:
        return Cloner(self.program, self.program, {**known, self.table.columns.index: column}).region(
            self.table.columns.body[:-1]
        )

    def one_by_one(self, made: Emitter, start: int, stop: int, bounds: Callable[[Emitter, int], tuple[int, int]]) -> None:
        """Rows in their order, each between two columns."""
        columns, rows = self.table.columns, self.table.rows
        row, body, column = self.program.new(INT), Emitter(self.program, rows.at), self.program.new(INT)
        cloner = Cloner(self.program, self.program, {rows.index: row})
        body.ops += cloner.region(self.of_row())
        low, high = bounds(body, row)
        cells = [*self.cell(dict(cloner.values), column), Yield([], columns.at)]
        body.emit(For(LoopKind.SERIAL, column, low, high, [], [], cells, [], columns.at))
        body.emit(Yield([], rows.at))
        made.emit(For(LoopKind.SERIAL, row, start, stop, [], [], body.ops, [], rows.at))

    def moving(self, outer: Emitter, low: int, high: int, room: int, count: int, *, keeps: bool) -> For:
        """Keep what stands in the rows aside, or put it back."""
        rows, columns, store = self.table.rows, self.table.columns, self.table.store
        needs = slice_of(definers_of([*outside_loops(rows.body), *outside_loops(columns.body)]), store.index, [])
        row, column = self.program.new(INT), self.program.new(INT)
        body, cells = Emitter(self.program, NOWHERE), Emitter(self.program, NOWHERE)
        begin = body.let("multiply", body.let("subtract", row, low), count)
        cloner = Cloner(self.program, self.program, {rows.index: row, columns.index: column})
        cells.ops += cloner.region(needs)
        there = [cloner.values.get(value, value) for value in store.index]
        place = cells.let("add", begin, cells.let("subtract", column, columns.start))
        kind = self.program.types[store.value]
        assert isinstance(kind, Scalar), kind
        number = self.program.new(kind)
        if keeps:
            cells.ops += [Load(number, store.array, there, NOWHERE), Store(room, [place], number, NOWHERE)]
        else:
            cells.ops += [Load(number, room, [place], NOWHERE), Store(store.array, there, number, NOWHERE)]
        cells.emit(Yield([], NOWHERE))
        body.emit(For(LoopKind.SERIAL, column, columns.start, columns.stop, [], [], cells.ops, [], NOWHERE))
        body.emit(Yield([], NOWHERE))
        return For(LoopKind.SERIAL, row, low, high, [], [], body.ops, [], NOWHERE)
