"""How a kernel runs on the CPU, as data: decided once, in planning.py, and read by everything that prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from npcompile.backends.cpu.software_pipelining import Pipeline
from npcompile.backends.cpu.vector_loops import VectorForm
from npcompile.backends.kernels.kernel import (
    Accumulator,
    Blocks,
    Call,
    Columns,
    Kernel,
    Load,
    Loop,
    Product,
    Reduce,
    Run,
    Scan,
    Scattered,
    Statement,
    Store,
    Strips,
    Tiles,
    Value,
)
from npcompile.tensor_core.dim import Size

COLUMN_BLOCK = 512  # running results kept at once by a reduction over leading axes
SMALL = 4096  # bytes of scratch memory that are on the stack: to allocate them would take longer than to fill them

Axis = tuple[str, Size]


# --- how statements run


class Order(Enum):
    """In what order a Reduce combines the elements of its innermost loop."""

    LANES = "element i with lane i % lanes, then the lanes in pairs"
    SIMD = "in lanes that the C compiler makes: any order is right"
    PAIRS = "sums in pairs, as NumPy adds"
    PLACES = "the best of all, and then where it is"
    TERMS = "one after another, with terms that are computed in vectors"
    SERIAL = "one after another"


@dataclass(frozen=True, slots=True)
class ReduceForm:
    order: Order
    lanes: int = 1
    is_fused: bool = False  # are terms so quickly computed that they are added to the lanes as they are?
    truth_bytes: int = 1  # of a lane of booleans, where the compiler makes lanes: as wide as the numbers that are compared


@dataclass(frozen=True, slots=True)
class ColumnsForm:
    is_unrolled: bool = False  # all elements of a column at once, in registers
    rows: int = 1  # that are combined for each time that a running result is read and stored


@dataclass(frozen=True, slots=True)
class Terms:
    """The innermost loop of pairwise sums whose terms are stored first, a block of them."""

    loop: Loop  # stores what is accumulated
    is_independent: bool
    pipeline: Pipeline | None = None


@dataclass(frozen=True, slots=True)
class StripForm:
    """A loop strip by strip: each goes through all parts in turn, loops over the strip and calls."""

    strips: Strips
    parts: tuple[Loop | list[Call], ...]


@dataclass(frozen=True, slots=True)
class LoopForm:
    strips: StripForm | None = None
    is_innermost: bool = False
    notes_outside: bool = False  # does it go on after an index outside, and look for the first one afterwards?
    is_independent: bool = False  # innermost iterations in vectors
    pipeline: Pipeline | None = None  # the stages of an independent loop
    terms: Terms | None = None  # the same loop of a Reduce in pairs


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operand of an operation that the C compiler must not know, for the errors of the operation to happen."""

    operand: int
    is_one: bool  # one number wherever the compiler knows it


@dataclass(frozen=True, slots=True)
class ValueForms:
    """How the values of one function of a kernel are made."""

    opaque: Mapping[str, Opaque] = field(default_factory=dict)  # by the names of results
    totals: frozenset[str] = frozenset()  # accumulators whose results the compiler must not know
    constants: Mapping[str, object] = field(default_factory=dict)  # values that are numbers
    vectors: Mapping[Loop | Columns, VectorForm] = field(default_factory=dict)  # loops, those of terms too, that are written so


# --- how kernels run: one of these


@dataclass(frozen=True, slots=True)
class InOrder:
    body: list[Statement]

    def __str__(self) -> str:
        return "one task, in order"


@dataclass(frozen=True, slots=True)
class ElementBlocks:
    """A task for each block of the innermost loop, which is parallel, and each index of `axes`, outermost first.

    Without axes, neighbouring blocks are one loop: elements of a flat range. `body` is that of a task: what is between the loops
    comes first, then the innermost loop.
    """

    axes: tuple[Axis, ...]
    inner: Axis
    body: list[Statement]
    block: int  # elements
    far: int  # so many elements of the kernel move more than caches keep

    def __str__(self) -> str:
        return f"blocks of {self.block} of {shown(self.inner)}{for_each(self.axes)}"


@dataclass(frozen=True, slots=True)
class CopiedSquare:
    """All that is done to a square: it is copied to where its rows are side by side."""

    load: Load
    step: Size  # of `load` along the inner loop
    store: Store
    row: Size  # of `store` along the outer loop
    is_line: bool  # does a row fill a line of the caches?


@dataclass(frozen=True, slots=True)
class Squares:
    """The same in blocks of the innermost loop and of one more, of which `width` by `width` elements are taken at a time."""

    axes: tuple[Axis, ...]
    outer: Axis
    inner: Axis
    body: list[Statement]
    block: int  # elements along each side of a task
    width: int
    far: int
    turned: tuple[tuple[Load, Size], ...]  # loads of what is side by side along the outer loop, and their steps along the inner
    copied: CopiedSquare | None = None
    computes: bool = True  # is there more to do than to copy?

    def __str__(self) -> str:
        does = "copied" if self.copied else "read"
        axes = f"{shown(self.outer)} and {shown(self.inner)}"
        return f"squares of {self.block} by {self.block} of {axes}, {does} {self.width} by {self.width}{for_each(self.axes)}"


@dataclass(frozen=True, slots=True)
class ColumnBlocks:
    """A task for each block of columns, each index of `axes` and each slice of the outermost loop that is summed over."""

    axes: tuple[Axis, ...]
    columns: Columns
    body: list[Statement]
    elements: Size  # of a task
    far: int  # so many elements of the kernel are more than caches keep
    is_sliced: bool = False  # then partial results are combined
    is_narrowed: bool = False  # are there fewer columns in a block where that keeps more threads busy?

    def __str__(self) -> str:
        if self.is_sliced:
            return f"slices of {shown(self.columns.loops[0])} that keep a row of results each"
        return f"blocks of columns {shown((self.columns.axis, self.columns.size))}{for_each(self.axes)}"


@dataclass(frozen=True, slots=True)
class RowSums:
    """What is done to a row begins with sums along it, quickly computed: several rows are summed at a time."""

    reduce: Reduce
    loop: Loop  # of the sums
    after: list[Statement]
    is_shared: bool  # do rows have something in common?


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """The row that one loop of a task writes: when it is written past the caches."""

    size: Size  # elements
    least: int  # elements of a row that is worth it
    line: int  # elements of a line of the caches, of which a row has whole ones
    far: int  # elements of all rows that move more than caches keep


@dataclass(frozen=True, slots=True)
class IndexTasks:
    """A task for each index of `axes`; one, without."""

    axes: tuple[Axis, ...]
    body: list[Statement]
    elements: Size  # of a task
    row_sums: RowSums | None = None  # over the last of `axes`
    multiplies: bool = False  # is a task a product? A few large ones are made one after another, each on all threads
    written: WrittenRow | None = None

    def __str__(self) -> str:
        rows = ", sums of several rows at a time" if self.row_sums else ""
        return f"a task{for_each(self.axes) or ' alone'}{rows}"


@dataclass(frozen=True, slots=True)
class ReduceChunks:
    """One Reduce over everything: chunks of its outermost loop, whose results are combined in order."""

    before: list[Statement]
    reduce: Reduce
    after: list[Statement]
    chunk: int  # elements, at most
    loop: Loop | None

    def __str__(self) -> str:
        return f"chunks of {self.chunk} elements, whose results are combined"


@dataclass(frozen=True, slots=True)
class ReduceHalves:
    """The same where sums are NumPy's: halves of halves of each run, combined in pairs."""

    before: list[Statement]
    reduce: Reduce
    after: list[Statement]
    chunk: int
    run: Run

    def __str__(self) -> str:
        return f"halves of halves of runs, of at most {self.chunk} elements, whose results are combined in pairs"


@dataclass(frozen=True, slots=True)
class TilePart:
    """The statements of a part. What is in `before` has no axis; `after` needs the results of `main`."""

    axis: str
    before: list[Statement]
    main: Statement
    after: list[Statement]
    row_sums: RowSums | None = None

    @property
    def is_combined(self) -> bool:
        return isinstance(self.main, (Reduce, Columns))


@dataclass(frozen=True, slots=True)
class TileSlices:
    """Slices of the axis, each of which goes tile by tile through all parts; their results are combined in order."""

    tiles: Tiles
    parts: tuple[TilePart, ...]

    def __str__(self) -> str:
        return f"slices of {self.tiles.size} rows, tile by tile through {len(self.parts)} parts"


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """A task takes a block of rows through all parts; too few of them go through the parts together, on all threads."""

    blocks: Blocks
    products: tuple[Product, ...]
    tenths: tuple[Size, ...]  # of nanoseconds, that each of the other parts takes for one row, about

    def __str__(self) -> str:
        parts, axis = len(self.blocks.parts), (self.blocks.axis, self.blocks.size)
        return f"blocks of rows {shown(axis)} through {parts} parts, {len(self.products)} of them products"


@dataclass(frozen=True, slots=True)
class ScatterBlocks:
    """Places and values of a block of writes, computed in vectors before any is written."""

    given: list[Statement]
    value: Value
    is_made: bool  # for each element, by `given`
    store: Store


@dataclass(frozen=True, slots=True)
class ScatterSlices:
    """Slices of the writes, each on a copy of the target of its own, combined in order."""

    target: Scattered
    before: list[Statement]
    loop: Loop
    each: Size  # writes of one iteration
    blocks: ScatterBlocks | None = None  # else one after another
    is_moved: bool = False  # is there little to compute, so that blocks are only worth their way where copies are small?

    def __str__(self) -> str:
        return f"slices of {shown((self.loop.axis, self.loop.size))}, each on a copy of what is written to"


@dataclass(frozen=True, slots=True)
class ScanSlices:
    """Slices of one long scan: each is combined, then goes again from what those before it came to."""

    before: list[Statement]
    scan: Scan
    inside: list[Statement]  # of the scan, before its loop
    loop: Loop

    def __str__(self) -> str:
        return f"slices of {shown((self.loop.axis, self.loop.size))}, twice: what each comes to, then from what is before it"


Tasks = ElementBlocks | Squares | ColumnBlocks | IndexTasks
Way = Tasks | InOrder | ReduceChunks | ReduceHalves | TileSlices | RowBlocks | ScatterSlices | ScanSlices


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Printers ask it, and never the kernel, which way to go; tables have each statement of the kernel of their kind."""

    kernel: Kernel
    way: Way
    reduces: Mapping[Reduce, ReduceForm] = field(default_factory=dict)
    columns: Mapping[Columns, ColumnsForm] = field(default_factory=dict)
    loops: Mapping[Loop, LoopForm] = field(default_factory=dict)
    values: ValueForms = field(default_factory=ValueForms)  # of the function over its tasks
    combined: ValueForms = field(default_factory=ValueForms)  # of the function that combines what these leave
    rechecked: tuple[Accumulator, ...] = ()  # if a result is NaN, or not finite, NumPy is asked for floating-point errors
    grain: int = 1  # elements that are worth a thread
    pieces: int = 1  # of so much work, for threads that are awake
    scanned: frozenset[str] = frozenset()  # accumulators of scans
    scratch: tuple[tuple[str, Size], ...] = ()  # rows of a thread's own, and their bytes
    multiplies: bool = False
    operations: int = 0  # that one element needs, constants left out

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def allocates(self) -> bool:
        """May memory be lacking while it runs?"""
        return self.multiplies or not all(map(is_small, dict(self.scratch).values()))

    def words(self) -> str:
        """For people."""
        parts = [str(self.way)]
        parts += dict.fromkeys(form.order.value for form in self.reduces.values())
        parts += ["loops in vectors of 64 bytes where the processor has these"] * bool(self.values.vectors)
        parts += ["slow operations in stages"] * any(form.pipeline for form in self.loops.values())
        parts += ["calls of NumPy's loops in strips"] * any(form.strips for form in self.loops.values())
        parts += ["NumPy is asked where a result is NaN or not finite"] * bool(self.rechecked)
        return "; ".join(parts)


def is_small(size: Size) -> bool:
    """Are so many bytes of scratch memory on the stack?"""
    return isinstance(size, int) and size <= SMALL


def shown(axis: Axis) -> str:
    return f"{axis[0]} < {axis[1]}"


def for_each(axes: tuple[Axis, ...]) -> str:
    return f" for each {', '.join(map(shown, axes))}" if axes else ""
