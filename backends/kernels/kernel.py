"""Kernels: the second and last form of a program, loops over axes around scalar instructions.

Nothing here knows of C: a printer for another language walks the same trees. An index is a `Size`, a polynomial over
the graph's symbols, the axes of the loops around it and the names of integer values (an index that is data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.dtypes import short
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.ops.reduction import shows_order


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar in a register, assigned once."""

    name: str
    dtype: np.dtype

    def __repr__(self) -> str:
        return f"{self.name}: {short(self.dtype)}"


@dataclass(frozen=True, slots=True)
class Let:
    """target = op(*args), a scalar primitive; `params` as the graph's op has them."""

    target: Value
    op: str
    args: tuple[Value, ...] = ()
    params: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        shown = [*(a.name for a in self.args), *(f"{k}={v}" for k, v in self.params)]
        return f"{self.target.name} = {self.op}({', '.join(shown)})  # {short(self.target.dtype)}"


@dataclass(frozen=True, slots=True)
class Position:
    """target = an index, as an int64 value."""

    target: Value
    index: Size

    def __str__(self) -> str:
        return f"{self.target.name} = {self.index}"


@dataclass(frozen=True, slots=True)
class Load:
    """target = the element `offset` bytes into a buffer; only read where `mask` holds, else 0."""

    target: Value
    buffer: str
    offset: Size
    mask: Value | None = None

    def __str__(self) -> str:
        where = f" if {self.mask.name}" if self.mask else ""
        return f"{self.target.name} = {self.buffer}[{self.offset}]{where}  # {short(self.target.dtype)}"


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    offset: Size
    value: Value

    def __str__(self) -> str:
        return f"{self.buffer}[{self.offset}] = {self.value.name}"


@dataclass(frozen=True, slots=True)
class CheckIndex:
    """target = value counted from the start of an axis of `size`; an IndexError, and the end of the kernel, when outside."""

    target: Value
    value: Value
    axis: int
    size: Size
    mask: Value | None = None
    is_sure: bool = False  # is every value known to be inside, and none counted from the end?

    def __str__(self) -> str:
        return f"{self.target.name} = check_index({self.value.name}, axis={self.axis}, size={self.size})"


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Combine a value into an accumulator of the Reduce around it."""

    accumulator: str
    value: Value
    position: Size = 0  # where the value is, for arg_max and arg_min

    def __str__(self) -> str:
        return f"{self.accumulator} <- {self.value.name}"


BUFFER = 8192  # elements of NumPy's buffers
DOUBTED = ("NaN", "not finite")


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The combination of all values that the body accumulates, in any order if not `is_ordered`; then a value, `result`."""

    name: str
    reducer: str  # of ops.reduction.REDUCERS, or arg_max, arg_min
    dtype: np.dtype  # of what is accumulated
    result: Value
    doubted: str = ""  # of DOUBTED: of such results NumPy, in its own order, may note an invalid operation that is none here
    keeps_order: bool = False  # are values combined one after another, so that they are rounded as in a Columns?
    is_numpys: bool = False  # a sum whose additions are NumPy's, in its order: nothing may be added up apart

    @property
    def is_ordered(self) -> bool:
        """Is only one order, from the first to the last, right?"""
        return self.keeps_order or shows_order(self.reducer, self.dtype)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows and columns in a buffer: a byte offset, and two strides."""

    buffer: str
    offset: Size
    row: Size
    column: Size

    def __str__(self) -> str:
        return f"{self.buffer}[{self.offset} + {self.row} * row + {self.column} * column]"


@dataclass(frozen=True, slots=True)
class Product:
    """result = left @ right, of `sizes` (m, n, k), by BLAS. `block` as in the graph's op. Among Blocks: some rows of it."""

    dtype: np.dtype
    result: Matrix
    left: Matrix
    right: Matrix
    sizes: tuple[Size, Size, Size]
    block: int | None = None

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        return self.result, self.left, self.right

    def __str__(self) -> str:
        return f"{self.result} = {self.left} @ {self.right}  # {' x '.join(map(str, self.sizes))}"


@dataclass(slots=True, eq=False)
class Loop:
    axis: str
    size: Size
    body: list[Statement]
    is_parallel: bool = False  # iterations may run in any order, so in vector registers too

    def __str__(self) -> str:
        return f"for {self.axis} in range({self.size})"


@dataclass(frozen=True, slots=True)
class Run:
    """How NumPy takes a sum that is made pairwise apart: (size, stride, is it summed over) of axes, innermost first.

    Axes up to the first that is not summed over and has more elements than one; those that are sure to be one are so here.
    """

    axes: tuple[tuple[Size, Size, bool], ...] = ()
    is_cast: bool = False  # in a buffer, so that a run is no longer than that

    @property
    def size(self) -> Size | None:
        """Of all elements, where they are summed at once; the loops may go over several such runs, one after another."""
        size = self.axes[0][0] if self.axes else 1
        is_long = self.is_cast and not (isinstance(size, int) and size <= BUFFER)
        return None if len(self.axes) > 1 or is_long else size


@dataclass(slots=True, eq=False)
class Reduce:
    """Run the body with fresh accumulators. `count` elements are accumulated in all."""

    accumulators: list[Accumulator]
    count: Size
    body: list[Statement]
    run: Run | None = None  # of sums in NumPy's order; else the innermost loop is one

    def __str__(self) -> str:
        return "reduce " + ", ".join(f"{a.result.name} = {a.reducer}({a.name})" for a in self.accumulators)


@dataclass(slots=True, eq=False)
class Columns:
    """Accumulators that are arrays over the innermost axis: `axis` is cut in blocks, each keeps a row of running results.

    for each block: clear; for the reduced loops: for axis in block: body; then for axis in block: finish. With `is_running`
    the body reads the results of each step, so that the loops keep their order.
    """

    axis: str
    size: Size
    accumulators: list[Accumulator]
    loops: list[tuple[str, Size]]
    body: list[Statement]
    finish: list[Statement]
    is_running: bool = False
    run: int = 1  # elements that sums add up pairwise, before these are added to the results

    def __str__(self) -> str:
        return f"columns {self.axis} in range({self.size}), over {', '.join(f'{a} < {n}' for a, n in self.loops)}"


@dataclass(slots=True)
class Scan:
    """A running combination along the loops inside: the accumulator keeps its order. `first` is where it starts."""

    accumulator: Accumulator
    body: list[Statement]

    def __str__(self) -> str:
        return f"scan {self.accumulator.reducer}({self.accumulator.name})"


@dataclass(slots=True)
class ScratchRow:
    """Memory for one row, of this thread alone, during the body."""

    buffer: str
    bytes: Size
    body: list[Statement]

    def __str__(self) -> str:
        return f"with {self.buffer} = scratch({self.bytes})"


@dataclass(slots=True)
class Tiles:
    """An axis cut in tiles. Each tile goes through all parts in turn, in whose statements the axis has a name of its own.

    A Reduce or Columns of a part goes on from tile to tile where it is over the axis; what follows it comes after the last tile.
    """

    size: Size
    parts: list[tuple[str, list[Statement]]]  # (axis, statements), of which the last loop is over the axis
    elements: Size  # of the largest loops, for one index of the axis
    bytes: Size  # of what they read and write, for one index of the axis

    def __str__(self) -> str:
        return f"tiles of {self.size}, each by {', '.join(axis for axis, _ in self.parts)}"


@dataclass(slots=True)
class Blocks:
    """An axis cut in blocks, tasks in any order. Each goes through all parts in turn, for one index of the axes of the stack.

    A part is one loop over the axis, and what comes before it; or a Product, whose rows it is.
    """

    axis: str
    size: Size
    stack: list[tuple[str, Size]]
    parts: list[list[Statement]]
    own: dict[str, Size]  # buffers that a task has for its block alone, to the bytes for one index of the axis
    bytes: Size  # that the parts read and write, for one index

    def __str__(self) -> str:
        around = "".join(f"{axis} < {n}, " for axis, n in self.stack)
        return f"blocks of {around}{self.axis} < {self.size}, each with {', '.join(self.own) or 'nothing of its own'}"


@dataclass(frozen=True, slots=True)
class Operand:
    """Elements of a loop in memory: those of one index are `offset` bytes into a buffer, with `step` bytes to the next ones."""

    buffer: str
    offset: Size
    step: int
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Call:
    """target = operation(*args) of all elements of a strip at once; a Value is one number for all."""

    operation: str
    args: tuple[Operand | Value, ...]
    target: Operand

    def __str__(self) -> str:
        given = ", ".join(a.name if isinstance(a, Value) else a.buffer for a in self.args)
        return f"{self.target.buffer} = {self.operation}({given})"


@dataclass(slots=True)
class Strips:
    """The body of an innermost parallel loop over `axis`, which runs strip by strip: each goes through all parts in turn.

    A part is what a loop over the strip does to an element, or Calls. `rows` are buffers that hold a strip.
    """

    axis: str
    rows: dict[str, np.dtype]
    parts: list[list[Statement]]

    def __str__(self) -> str:
        return f"strips of {self.axis}, with {', '.join(self.rows) or 'nothing between them'}"


Statement = (
    Let
    | Position
    | Load
    | Store
    | CheckIndex
    | Accumulate
    | Product
    | Loop
    | Reduce
    | Columns
    | Scan
    | ScratchRow
    | Tiles
    | Blocks
    | Call
    | Strips
)


@dataclass(frozen=True, slots=True)
class Scattered:
    """The target of a kernel that combines values with what is at places that are data: dense, of `size` elements."""

    buffer: str
    reducer: str
    dtype: np.dtype
    size: Size


@dataclass(slots=True)
class Kernel:
    """Independent tasks: the product of `axes`, in any order, on any thread."""

    name: str
    axes: list[tuple[str, Size]]
    body: list[Statement]
    buffers: dict[str, bool] = field(default_factory=dict)  # name -> is it written
    scalars: dict[str, np.dtype] = field(default_factory=dict)  # 0-D inputs
    cost: float = 1.0  # nanoseconds for one element, roughly
    can_fail: bool = False  # has a CheckIndex
    is_whole: bool = False  # one Reduce over everything: cut in chunks, whose partial results are combined
    is_serial: bool = False  # one task, in order
    scattered: Scattered | None = None  # what a serial kernel writes to, where it does nothing else
    is_small: bool = False  # beside another one that does nearly all of the work
    literals: list[Any] = field(default_factory=list)  # constant arrays
    places: Mapping[str, Location] = field(default_factory=dict, compare=False)  # of values: the user's line

    def __str__(self) -> str:
        axes = ", ".join(f"{a} < {n}" for a, n in self.axes)
        return "\n".join([f"kernel {self.name}({axes}):", *(f"    {line}" for line in show(self.body))])


def body_of(statement: Loop | Reduce | Scan | ScratchRow) -> list[list[Statement]]:
    return [statement.body]


CHILDREN: dict[type, Callable[[Any], list[list[Statement]]]] = {
    **dict.fromkeys((Loop, Reduce, Scan, ScratchRow), body_of),
    Columns: lambda statement: [statement.body, statement.finish],
    Tiles: lambda statement: [body for _, body in statement.parts],
    **dict.fromkeys((Blocks, Strips), lambda statement: statement.parts),
}


def children(statement: Statement) -> list[list[Statement]]:
    """The lists of statements that are inside of it."""
    of = CHILDREN.get(type(statement))
    return of(statement) if of else []


def show(body: list[Statement]) -> Iterator[str]:
    for statement in body:
        inner = children(statement)
        yield f"{statement}{':' if inner else ''}"
        for part in inner:
            for line in show(part):
                yield f"    {line}"


def walk(body: list[Statement]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        for part in children(statement):
            yield from walk(part)


def indices(statement: Statement) -> list[Size]:
    """Every index written in a statement itself."""
    match statement:
        case Load() | Store():
            return [statement.offset]
        case Position():
            return [statement.index]
        case Accumulate():
            return [statement.position]
        case Product():
            return [x.offset for x in statement.matrices]
        case _:
            return []


def map_indices(body: list[Statement], change: Callable[[Size], Size]) -> list[Statement]:
    """The same statements with every index changed."""
    result: list[Statement] = []
    for statement in body:
        match statement:
            case Load() | Store():
                result.append(replace(statement, offset=change(statement.offset)))
            case Position():
                result.append(replace(statement, index=change(statement.index)))
            case Accumulate():
                result.append(replace(statement, position=change(statement.position)))
            case Product():
                target, left, right = (replace(x, offset=change(x.offset)) for x in statement.matrices)
                result.append(replace(statement, result=target, left=left, right=right))
            case Loop() | Reduce() | Scan() | ScratchRow():
                result.append(replace(statement, body=map_indices(statement.body, change)))
            case Columns():
                made, finish = map_indices(statement.body, change), map_indices(statement.finish, change)
                result.append(replace(statement, body=made, finish=finish))
            case Tiles():
                result.append(replace(statement, parts=[(axis, map_indices(body, change)) for axis, body in statement.parts]))
            case Blocks():
                result.append(replace(statement, parts=[map_indices(body, change) for body in statement.parts]))
            case _:
                result.append(statement)
    return result
