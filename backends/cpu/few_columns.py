"""Sums of a few columns that lie beside each other: vectors along the rows that are summed, a running sum for each column.

The points of space, colors and complex parts make an axis of two to four elements, and a vector of these is mostly empty. What
does not depend on the column, such as a distance, is computed once, and for many rows at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from npcompile.backends.cpu.planning import is_sliced
from npcompile.backends.cpu.reducers import notes_nan
from npcompile.backends.cpu.statement_forms import is_blocked, is_light, is_unrolled
from npcompile.backends.kernels.finish import cost_of, operands
from npcompile.backends.kernels.index import substitute, symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Columns,
    Kernel,
    Let,
    Load,
    Loop,
    Position,
    Reduce,
    Statement,
    Store,
    Value,
    indices,
    map_indices,
)
from npcompile.backends.kernels.operations import op_cost
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.op import Cost

VECTOR = 64  # bytes
MANY = 128  # rows: extremes of fewer are quicker than what notes NaN beside them
MOST_SUMS = 4  # at once: their vectors stay in registers


def sum_few_columns(kernel: Kernel) -> None:
    """Columns of the kernel become one Reduce where that fills the vectors."""
    if not kernel.can_fail and not is_sliced(kernel):
        kernel.body = in_rows(kernel.body)
        kernel.cost = cost_of(kernel.body)


def in_rows(body: list[Statement]) -> list[Statement]:
    match body:
        case [*before, Columns() as made] if is_few(made):
            return [*before, *summed_together(made)]
        case [*before, Loop() as loop]:
            loop.body = in_rows(loop.body)
    return body


def is_few(s: Columns) -> bool:
    """Would a vector of columns be half empty, and does nothing hinder vectors of rows?"""
    if s.is_running or not s.loops or not isinstance(s.size, int) or not 0 < s.size * len(s.accumulators) <= MOST_SUMS:
        return False
    inside = [*s.body, *s.finish]
    if not all(isinstance(x, (Let, Load, Position, Accumulate, Store)) and not (isinstance(x, Load) and x.mask) for x in inside):
        return False
    targets = {x.target.name for x in inside if isinstance(x, (Let, Load, Position))}
    if any(targets & symbols_in(index) for x in inside for index in indices(x)):  # an index that is data
        return False
    if any(a.dtype != a.result.dtype or (rounds(a) and not is_slow(s)) for a in s.accumulators):
        return False
    is_empty = all(2 * s.size * a.dtype.itemsize <= VECTOR for a in s.accumulators)
    return is_empty and is_long(s) and is_blocked(reduce_of(s, s.accumulators, s.body))


def rounds(a: Accumulator) -> bool:
    """Does the order show? It is that of the rows, as where it is not known how many columns there are."""
    return a.reducer in ("add", "multiply") and a.dtype.kind not in "biu"


def is_slow(s: Columns) -> bool:
    """Is there so much to compute that it is worth waiting for all terms of some rows? Of little, compilers make vectors of rows.

    Not where the order is that of elements along memory, which are added in pairs.
    """
    return has_slow(s) and s.run == 1 and (is_unrolled(s) or not is_light(s))


def has_slow(s: Columns) -> bool:
    return any(isinstance(x, Let) and op_cost(x.op) >= Cost.DIVISION for x in s.body)


def is_long(s: Columns) -> bool:
    """Are vectors of rows worth combining their lanes? For a few rows only where these have much to compute together."""
    count = product([n for _, n in s.loops])
    if is_unrolled(s):
        return has_slow(s)
    return not isinstance(count, int) or count >= MANY or not any(map(notes_nan, s.accumulators))


def reduce_of(s: Columns, accumulators: Sequence[Accumulator], body: list[Statement]) -> Reduce:
    for axis, size in reversed(s.loops):
        body = [Loop(axis, size, body)]
    return Reduce(list(accumulators), product([n for _, n in s.loops]), body)


def summed_together(s: Columns) -> list[Statement]:
    assert isinstance(s.size, int)
    columns = [Column(s.axis, k) for k in range(s.size)]
    sums = [column.accumulator(a) for column in columns for a in s.accumulators]
    if any(map(rounds, sums)):
        sums = [replace(a, keeps_order=True) for a in sums]
    return [reduce_of(s, sums, of_each(columns, s.body)), *of_each(columns, s.finish)]


@dataclass(slots=True)
class Column:
    """One of the columns, whose sums and values have names of their own."""

    axis: str
    number: int
    names: dict[str, str] = field(default_factory=dict)  # of what is another value in each column

    def named(self, name: str) -> str:
        return self.names.setdefault(name, f"{name}_{self.number}")

    def accumulator(self, a: Accumulator) -> Accumulator:
        return replace(a, name=self.named(a.name), result=self.made(a.result))

    def made(self, value: Value) -> Value:
        return Value(self.named(value.name), value.dtype)

    def read(self, value: Value) -> Value:
        return replace(value, name=self.names.get(value.name, value.name))

    def differs(self, s: Statement) -> bool:
        is_of_axis = any(self.axis in symbols_in(index) for index in indices(s))
        return is_of_axis or isinstance(s, Accumulate) or any(v.name in self.names for v in operands(s))

    def statement(self, s: Statement) -> Statement:
        """What it is in this column, in which it differs."""
        (s,) = map_indices([s], lambda index: substitute(index, {self.axis: self.number}))
        match s:
            case Let():
                return replace(s, target=self.made(s.target), args=tuple(map(self.read, s.args)))
            case Load() | Position():
                return replace(s, target=self.made(s.target))
            case Accumulate():
                return replace(s, accumulator=self.named(s.accumulator), value=self.read(s.value))
            case Store():
                return replace(s, value=self.read(s.value))
        raise AssertionError(s)


def of_each(columns: Sequence[Column], body: Sequence[Statement]) -> list[Statement]:
    """The statements of all columns, those that are the same in each only once."""
    made: list[Statement] = []
    for s in body:
        made += [column.statement(s) for column in columns] if columns[0].differs(s) else [s]
    return made
