"""How the statements of a kernel run: the lanes of a reduction, the rows of columns, the stages of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npcompile.backends.cpu.kernel_plan import ColumnsForm, LoopForm, Order, ReduceForm, RowSums, StripForm, Terms
from npcompile.backends.cpu.pairwise import LANES
from npcompile.backends.cpu.primitives import kind
from npcompile.backends.cpu.reducers import WIDTHS, is_pairwise, is_position
from npcompile.backends.cpu.software_pipelining import pipeline_of
from npcompile.backends.kernels.index import axis_variable, symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Call,
    CheckIndex,
    Columns,
    Let,
    Load,
    Loop,
    Product,
    Reduce,
    Scan,
    Statement,
    Store,
    Strips,
    Value,
    children,
    walk,
)
from npcompile.backends.kernels.operations import is_costly
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.value_ranges import interval_of_size

MOST_CHOICES = 8  # one after another that are no loop: compilers take very long over more
SHORT_COLUMN = 32  # items: of so few, with many results, each vector holds one of each of several rows
MOST_STATEMENTS = 1024  # of a column whose elements are not in a loop
COLUMN_ROWS = 4  # of a reduction over leading axes that are read for each time that the running results are
MOST_LIGHT = 12  # statements
LANE_BYTES = 512  # of all lanes of an accumulator
MOST_APART = 512  # elements of rows that have nothing in common: longer ones come faster from memory one by one
MOST_IN_PLACES = 256  # elements of a row in which a place is looked for; in lanes, longer ones are read once
MOST_SUMS, MOST_IN_ROW = 2, 12  # sums and statements of a row, of several at a time: more would not stay in registers


# --- reductions


def reduce_form(s: Reduce, *, goes_on: bool) -> ReduceForm:
    """`goes_on`: is it combined with others of its kind, of chunks or tiles? Then its lanes are memory."""
    fused = is_fused(s)
    if not goes_on and fits_simd(s):
        widths = [x.target.dtype.itemsize for x in walk(s.body) if isinstance(x, Load)]
        return ReduceForm(Order.SIMD, lanes_for(s), fused, max((w for w in widths if w in WIDTHS), default=1))
    if any(map(is_pairwise, s.accumulators)):
        if fused and not goes_on and is_added_in_order(s):
            return ReduceForm(Order.SERIAL, 1, fused)
        return ReduceForm(Order.PAIRS, lanes_of(s.accumulators), fused)
    if has_places(s):
        return ReduceForm(Order.PLACES)
    lanes = lanes_for(s)
    if all(a.keeps_order for a in s.accumulators):
        return ReduceForm(Order.TERMS, lanes, fused)
    return ReduceForm(Order.LANES if lanes > 1 else Order.SERIAL, lanes, fused)


def has_places(s: Reduce) -> bool:
    """Is it asked for one place in rows whose lanes would take long to combine?"""
    match s:
        case Reduce([accumulator], _, [Loop(_, int(size)) as loop]) if is_position(accumulator) and size <= MOST_IN_PLACES:
            is_plain = not any(isinstance(x, (Loop, CheckIndex, Product, Reduce, Columns, Scan)) for x in loop.body)
            return is_plain and accumulator.dtype.itemsize in (4, 8) and accumulator.dtype.kind in "fiu"
    return False


def is_added_in_order(s: Reduce) -> bool:
    """Are all elements one run, of so few that NumPy adds one after another?"""
    is_few = isinstance(s.count, int) and s.count < lanes_of(s.accumulators)
    return is_few and (s.run is None or (s.run.size is not None and same(s.run.size, s.count)))


def is_blocked(s: Reduce) -> bool:
    """Is nothing in the loop that would keep the compiler from making vectors of it, and so lanes in registers?"""
    if isinstance(s.count, int) and s.count < 2:
        return False
    plain = all(kind(a.dtype) in "fiubc" and not is_position(a) and not a.is_ordered for a in s.accumulators)
    return plain and not any(isinstance(x, (CheckIndex, Product, Reduce, Columns, Scan)) for x in walk(s.body))


def is_fused(s: Reduce) -> bool:
    """Is what is added up so quickly computed that lanes can be added to meanwhile?"""
    return is_blocked(s) and not any(isinstance(x, Let) and is_costly(x.op) for x in walk(s.body))


def fits_simd(s: Reduce) -> bool:
    """May the order of combination be the compiler's? Then OpenMP's simd makes the lanes."""
    return is_blocked(s) and not any(a.reducer in ("add", "multiply") and a.dtype.kind in "fc" for a in s.accumulators)


def lanes_of(accumulators: Sequence[Accumulator]) -> int:
    """Of numbers that are added up in pairs: a complex one is two."""
    return LANES // 2 if any(a.dtype.kind == "c" and is_pairwise(a) for a in accumulators) else LANES


def lanes_for(s: Reduce) -> int:
    """Of other accumulators: no more than there are elements."""
    widest = max(8 if is_position(a) else a.dtype.itemsize for a in s.accumulators)
    lanes = 1 if any(a.is_ordered for a in s.accumulators) else LANE_BYTES // widest
    few = 8 if any(map(is_position, s.accumulators)) else 1  # lanes that are costly to combine
    while isinstance(s.count, int) and lanes > few and lanes * few // 2 >= s.count:
        lanes //= 2
    return lanes


def row_sums_of(axis: str, body: Sequence[Statement]) -> RowSums | None:
    """The sums that the statements for a row, an index of the axis, begin with."""
    first = body[0] if body else None
    if not isinstance(first, Reduce) or len(first.body) != 1 or len(first.accumulators) > MOST_SUMS:
        return None
    (loop,) = first.body
    if not isinstance(loop, Loop) or len(loop.body) > MOST_IN_ROW or not is_fused(first) or any(map(children, loop.body)):
        return None
    is_one_run = first.run is None or (first.run.size is not None and same(first.run.size, loop.size))
    if not is_one_run or not all(map(is_pairwise, first.accumulators)):
        return None
    is_shared = any(isinstance(s, Load) and axis not in symbols_in(s.offset) for s in loop.body)
    if isinstance(loop.size, int) and loop.size > MOST_APART and not is_shared:
        return None
    return RowSums(first, loop, list(body[1:]), is_shared)


# --- columns


def columns_form(s: Columns) -> ColumnsForm:
    return ColumnsForm(is_unrolled(s), COLUMN_ROWS if is_light(s) else 1)


def is_unrolled(s: Columns) -> bool:
    """Are so few elements combined in a column that no loop is needed?"""
    count = product([n for _, n in s.loops])
    most = SHORT_COLUMN if all(a.reducer in ("add", "multiply") for a in s.accumulators) else MOST_CHOICES
    is_few = isinstance(count, int) and 0 < count <= most and count * len(s.body) <= MOST_STATEMENTS
    return is_few and not s.is_running


def is_light(s: Columns) -> bool:
    """Is what is accumulated so quick to compute that reading and storing the running results counts?"""
    if s.is_running or any(is_position(a) for a in s.accumulators) or len(s.body) > MOST_LIGHT:
        return False
    return not any(children(x) or isinstance(x, CheckIndex) or (isinstance(x, Let) and is_costly(x.op)) for x in s.body)


# --- loops


def loop_form(s: Loop) -> LoopForm:
    """Of a loop outside of every Reduce."""
    if strips := strips_of(s):
        return LoopForm(StripForm(strips, tuple(strip_part(s, part) for part in strips.parts)))
    if not is_innermost(s) or not s.is_parallel:
        return LoopForm(is_innermost=is_innermost(s))
    if can_note(s.body):
        return LoopForm(is_innermost=True, notes_outside=True)
    return LoopForm(is_innermost=True, is_independent=True, pipeline=pipeline_of(s))


def strips_of(s: Loop) -> Strips | None:
    match s.body:
        case [Strips() as strips]:
            return strips
    return None


def strip_part(s: Loop, part: list[Statement]) -> Loop | list[Call]:
    calls = [x for x in part if isinstance(x, Call)]
    return calls or Loop(s.axis, s.size, part, is_parallel=True)


def loop_of_reduce(s: Loop, reduce: Reduce, form: ReduceForm) -> LoopForm:
    """Of one inside: the order is that of the Reduce."""
    is_block = form.order in (Order.PAIRS, Order.PLACES) and is_innermost(s)
    needs_terms = not form.is_fused or not any(s is x for x in reduce.body)  # of a fused nest, where a block ends in another row
    return LoopForm(is_innermost=is_innermost(s), terms=terms_of(s, reduce.accumulators) if is_block and needs_terms else None)


def is_innermost(s: Loop) -> bool:
    return not any(isinstance(x, (Loop, Reduce, Columns, Scan)) for x in walk(s.body))


def can_note(body: Sequence[Statement]) -> bool:
    """Are there indices to check, and has every axis that they are of an element 0?"""
    checks = [s for s in body if isinstance(s, CheckIndex)]
    return bool(checks) and all(interval_of_size(s.size)[0] > 0 for s in checks)


def room_of_terms(a: Accumulator) -> str:
    """Where they are stored, in C. After the last one there is room for a vector."""
    return f"{a.name}_to"


def terms_of(loop: Loop, accumulators: Iterable[Accumulator]) -> Terms:
    """The loop with its terms stored, side by side from `k_to` on for an accumulator `k`."""
    accumulators = list(accumulators)
    stored = {a.name: a for a in accumulators if not is_position(a) or len(accumulators) == 1}
    body: list[Statement] = []
    for s in loop.body:
        if isinstance(s, Accumulate) and (a := stored.get(s.accumulator)):
            body.append(Store(room_of_terms(a), a.dtype.itemsize * axis_variable(loop.axis), Value(s.value.name, a.dtype)))
        else:
            body.append(s)
    made = Loop(loop.axis, loop.size, body)
    is_independent = not any(isinstance(s, (Accumulate, CheckIndex)) for s in body)
    return Terms(made, is_independent, pipeline_of(made) if is_independent else None)
