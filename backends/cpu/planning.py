"""From a kernel to its plan: the one place where it is decided how kernels run. Needs no compiler, and prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from npcompile.backends.cpu.cost_model import FAR, PIECES, SERIAL_NANOSECONDS, moved_bytes, pieces_of
from npcompile.backends.cpu.kernel_plan import (
    COLUMN_BLOCK,
    Axis,
    ColumnBlocks,
    ElementBlocks,
    IndexTasks,
    InOrder,
    KernelPlan,
    LoopForm,
    ReduceChunks,
    ReduceForm,
    ReduceHalves,
    RowBlocks,
    ScanSlices,
    ScatterBlocks,
    ScatterSlices,
    TilePart,
    TileSlices,
    Way,
    WrittenRow,
)
from npcompile.backends.cpu.known_values import Following
from npcompile.backends.cpu.reducers import is_pairwise, is_position
from npcompile.backends.cpu.statement_forms import (
    can_note,
    columns_form,
    is_unrolled,
    loop_form,
    loop_of_reduce,
    reduce_form,
    row_sums_of,
    strips_of,
)
from npcompile.backends.cpu.transpose_tiling import LINE, squares_of
from npcompile.backends.kernels.finish import cost_of
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulator,
    Blocks,
    Call,
    Columns,
    Kernel,
    Let,
    Load,
    Loop,
    Product,
    Reduce,
    Run,
    Scan,
    ScratchRow,
    Statement,
    Store,
    Tiles,
    children,
    walk,
)
from npcompile.backends.kernels.operations import is_costly, short
from npcompile.tensor_core.dim import Size, hint_of, minimum
from npcompile.tensor_core.meta import product

BLOCK, LEAST_BLOCK = 4096, 512  # elements of the innermost loop in one task
CHUNK, LEAST_CHUNK = 32768, 2048  # elements of a whole reduction in one task, at most; rounded down to 1024
MOST_BEFORE = 8  # statements outside of the innermost loop, which squares compute again
LEAST_WIDTH = 16  # columns of a block
LEAST_FAR_WIDTH = (
    64  # the same of rows that come from memory: two threads read halves of shorter ones no sooner than one all of it
)
FEW_COLUMNS = 4096  # with so few, a reduction over leading axes is cut along these too
LEAST_FAR_ROW = 1024  # bytes of a row that is written past the caches: what waits to be written does not wait for the next one
LEAST_SLICE = 32768  # elements of such a part
EXTREMES = ("maximum", "minimum", "fmax", "fmin")
EXACT = ("add", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or")
ANY_ORDER = ("logical_or", "logical_and", "bitwise_or", "bitwise_xor")  # of what is scattered, beside extremes


def plan_kernel(kernel: Kernel) -> KernelPlan:
    """How the kernel runs, as it is now: what is changed in it later has no place in the plan."""
    way = way_of(kernel)
    statements = list(walk(kernel.body))
    goes_on = list(going_on(way))
    reduces = {s: reduce_form(s, goes_on=any(s is x for x in goes_on)) for s in statements if isinstance(s, Reduce)}
    columns = {s: columns_form(s) for s in statements if isinstance(s, Columns)}
    loops, sizes = dict(loop_forms(statements, reduces)), sizes_of(kernel, statements)
    loaded = {s.buffer for s in statements if isinstance(s, Load)}
    values, combined = (Following(reduces, loops, sizes, frozenset(kernel.buffers.keys() - loaded)) for _ in range(2))
    values.function(way)
    combined.combining(way)
    return KernelPlan(
        kernel,
        way,
        reduces,
        columns,
        loops,
        values.forms(),
        combined.forms(),
        rechecked=tuple(a for s in statements if isinstance(s, Reduce | Columns) for a in s.accumulators if a.doubted),
        grain=int(SERIAL_NANOSECONDS / kernel.cost),
        pieces=pieces_of(kernel),
        scanned=frozenset(s.accumulator.name for s in statements if isinstance(s, Scan)),
        scratch=tuple((s.buffer, s.bytes) for s in statements if isinstance(s, ScratchRow)),
        multiplies=any(isinstance(s, Product) for s in statements),
        operations=sum(isinstance(s, Call) or isinstance(s, Let) and s.op != "constant" for s in statements),
    )


def way_of(kernel: Kernel) -> Way:
    """The first that fits."""
    for s in kernel.body:
        match s:
            case Tiles():
                return TileSlices(s, tuple(tile_parts(s, kernel)))
            case Blocks():
                return row_blocks(s)
    if kernel.is_whole:
        return whole_reduction(kernel)
    return scatter_slices(kernel) or scan_slices(kernel) or (InOrder(kernel.body) if kernel.is_serial else tasks_of(kernel))


def going_on(way: Way) -> Iterator[Reduce]:
    """Reductions whose results are combined with those of other tasks."""
    match way:
        case ReduceChunks() | ReduceHalves():
            yield way.reduce
        case TileSlices():
            yield from (part.main for part in way.parts if isinstance(part.main, Reduce))


def loop_forms(statements: Sequence[Statement], reduces: dict[Reduce, ReduceForm]) -> Iterator[tuple[Loop, LoopForm]]:
    for s in loops_in(statements):
        found = loop_form(s)
        yield s, found
        if found.strips:
            yield from ((part, loop_form(part)) for part in found.strips.parts if isinstance(part, Loop))
    for reduce, form in reduces.items():
        for s in loops_in(walk(reduce.body)):
            yield s, loop_of_reduce(s, reduce, form)


def loops_in(statements: Iterable[Statement]) -> list[Loop]:
    return [s for s in statements if isinstance(s, Loop)]


def sizes_of(kernel: Kernel, statements: Sequence[Statement]) -> dict[str, Size]:
    sizes = dict(kernel.axes)
    for s in statements:
        sizes |= {s.axis: s.size} if isinstance(s, (Loop, Columns)) else {}
        sizes |= dict(s.loops) if isinstance(s, Columns) else {}
    return sizes


# --- tasks over loops


def tasks_of(kernel: Kernel) -> Way:
    """Loops that are cut in tasks, outermost first, as far as nothing but plain statements is between them."""
    axes: list[Axis] = []
    before: list[Statement] = []
    body = kernel.body
    is_elementwise = is_map(kernel)
    while body and isinstance(loop := body[-1], Loop):
        if any(children(s) for s in body[:-1]) or loop.is_parallel != is_elementwise:
            break
        before += body[:-1]
        body = loop.body
        if loop.is_parallel and not any(isinstance(s, Loop) for s in body):
            far, inner, every = FAR // moved_bytes(kernel), (loop.axis, loop.size), [*before, loop]
            squares = None if len(before) > MOST_BEFORE or strips_of(loop) else squares_of(axes, inner, every, far)
            return squares or ElementBlocks(tuple(axes), inner, every, block_of(kernel), far)
        axes.append((loop.axis, loop.size))
    body = [*before, *body]
    if columns := next((s for s in body if isinstance(s, Columns)), None):
        far = FAR // 2 // moved_bytes(kernel)  # half, as hardly anything is written
        return ColumnBlocks(tuple(axes), columns, body, elements_in(body), far, is_sliced(kernel), is_narrowed(columns))
    return IndexTasks(
        tuple(axes),
        body,
        elements_in(body),
        row_sums_of(axes[-1][0], body) if axes and not kernel.can_fail else None,
        multiplies=any(isinstance(s, Product) for s in body),
        written=written_row({axis for axis, _ in axes}, body),
    )


def written_row(axes: Set[str], body: Sequence[Statement]) -> WrittenRow | None:
    """Of the last parallel loop that stores to a place of each task's own."""
    row: Size | None = None
    moved: dict[str, int] = {}  # bytes of an element
    written: set[int] = set()
    for s in walk(list(body)):
        if isinstance(s, Loop) and s.is_parallel and any(isinstance(x, Store) and symbols_in(x.offset) & axes for x in s.body):
            row = s.size
        match s:
            case Load(value, buffer, offset) | Store(buffer, offset, value) if symbols_in(offset) & axes:
                moved[buffer] = value.dtype.itemsize
                written |= {value.dtype.itemsize} if isinstance(s, Store) else set()
    if row is None or not written:
        return None
    return WrittenRow(row, LEAST_FAR_ROW // max(written), LINE // min(written), FAR // sum(moved.values()))


def is_map(kernel: Kernel) -> bool:
    """Nothing but parallel loops."""
    return all(s.is_parallel for s in walk(kernel.body) if isinstance(s, Loop)) and not any(
        isinstance(s, (Reduce, Columns, Scan, Product)) for s in walk(kernel.body)
    )


def block_of(kernel: Kernel) -> int:
    """Elements of the innermost loop in one task. Threads that share a few long tasks would not end together."""
    return min(BLOCK, max(LEAST_BLOCK, int(SERIAL_NANOSECONDS / PIECES / kernel.cost) // LEAST_BLOCK * LEAST_BLOCK))


def elements_in(body: Sequence[Statement]) -> Size:
    """How many elements the loops of one task visit."""
    total: Size = 0
    for s in walk(list(body)):
        match s:
            case Reduce():
                total = total + s.count
            case Product():
                total = total + product(s.sizes)
            case Columns():
                total = total + product([*(n for _, n in s.loops), minimum(s.size, COLUMN_BLOCK)])
            case Loop() if not s.is_parallel or not any(isinstance(x, Loop) for x in walk(s.body)):
                total = total + s.size
    return total


def is_narrowed(s: Columns) -> bool:
    """Are there fewer columns in a block where that keeps more threads busy? Sums in NumPy's order cannot be cut along rows."""
    if is_unrolled(s) or hint_of(s.size) < 2 * LEAST_WIDTH:
        return False
    return any(a.is_numpys for a in s.accumulators)


def is_sliced(kernel: Kernel) -> bool:
    """Has a kernel too few columns to keep the threads busy with? Then tasks are slices of the outermost loop they sum over."""
    made = kernel.body[-1] if kernel.body else None
    if not isinstance(made, Columns) or not made.loops or made.is_running or is_unrolled(made) or kernel.can_fail:
        return False
    if any(is_position(a) or a.is_ordered or a.is_numpys for a in made.accumulators):
        return False
    elements = hint_of(product([made.size, *(n for _, n in made.loops)]))
    return hint_of(made.size) <= FEW_COLUMNS and elements >= 4 * LEAST_SLICE


# --- one reduction over everything


def whole_reduction(kernel: Kernel) -> ReduceChunks | ReduceHalves:
    at, reduce = next((k, s) for k, s in enumerate(kernel.body) if isinstance(s, Reduce))
    before, after = kernel.body[:at], kernel.body[at + 1 :]
    loop = next((s for s in reduce.body if isinstance(s, Loop)), None)
    chunk = min(CHUNK, max(LEAST_CHUNK, int(SERIAL_NANOSECONDS / kernel.cost) // 1024 * 1024))
    if loop is not None and any(map(is_pairwise, reduce.accumulators)):
        return ReduceHalves(before, reduce, after, chunk, reduce.run or Run(((reduce.count, 1, True),)))
    return ReduceChunks(before, reduce, after, chunk, loop)


# --- tiles and blocks of rows


def tile_parts(tiles: Tiles, kernel: Kernel) -> Iterator[TilePart]:
    for axis, body in tiles.parts:
        at = next(k for k, s in enumerate(body) if children(s))
        main = body[at]
        rows = row_sums_of(axis, main.body) if isinstance(main, Loop) and not kernel.can_fail else None
        yield TilePart(axis, body[:at], main, body[at + 1 :], rows)


def row_blocks(blocks: Blocks) -> RowBlocks:
    products = [s for part in blocks.parts for s in part if isinstance(s, Product)]
    others = [part for part in blocks.parts if not any(isinstance(s, Product) for s in part)]
    return RowBlocks(blocks, tuple(products), tuple(tenths_of_nanoseconds(part, blocks.axis) for part in others))


def tenths_of_nanoseconds(part: Sequence[Statement], axis: str) -> Size:
    """Of one index of the axis, about."""
    elements: list[Size] = [innermost_elements(s.body) for s in part if isinstance(s, Loop) and s.axis == axis]
    return sum(elements, start=0) * max(1, int(10 * cost_of(part)))


def innermost_elements(body: Sequence[Statement]) -> Size:
    """How many the innermost loops visit."""
    total: Size = 0
    for s in body:
        if isinstance(s, Loop):
            total = total + s.size * innermost_elements(s.body)
        elif found := [x for x in walk([s]) if x is not s and isinstance(x, Loop)]:
            total = total + sum((x.size for x in found), start=0)
    return 1 if isinstance(total, int) and not total else total


# --- slices whose results are combined exactly


def scatter_slices(kernel: Kernel) -> ScatterSlices | None:
    """How a kernel scatters, if that may be done in slices."""
    s = kernel.scattered
    if s is None or not kernel.body or not isinstance(loop := kernel.body[-1], Loop) or any(map(children, kernel.body[:-1])):
        return None
    exact = s.dtype.kind in "iub"
    is_sum = s.reducer == "add" and (exact or short(s.dtype) in ("f4", "f8", "c8", "c16"))
    is_free = s.reducer in (*EXTREMES, *ANY_ORDER) and s.dtype.kind in "iubf"
    if not is_sum and not is_free and not (s.reducer == "multiply" and exact):
        return None
    if s.reducer in ("logical_or", "logical_and") and s.dtype.kind != "b":
        return None
    uses = [x for x in walk(kernel.body) if isinstance(x, (Load, Store)) and x.buffer == s.buffer]
    if len(uses) != 2:  # what is there is read, and written
        return None
    each = product([x.size for x in walk(loop.body) if isinstance(x, Loop)])
    if any(isinstance(x, Loop) for x in walk(loop.body)) or not (can_note(loop.body) or not kernel.can_fail):
        return ScatterSlices(s, kernel.body[:-1], loop, each)
    *given, combined, store = loop.body
    assert isinstance(combined, Let) and isinstance(store, Store) and combined.target == store.value
    computed = [x for x in given if isinstance(x, Let) and x.op not in ("constant", "cast")]
    is_moved = len(computed) <= 1 and not any(is_costly(x.op) for x in computed)
    given = [x for x in given if not (isinstance(x, Load) and x.buffer == s.buffer)]
    value = combined.args[1]
    is_made = any(getattr(x, "target", None) == value for x in given)
    return ScatterSlices(s, kernel.body[:-1], loop, each, ScatterBlocks(given, value, is_made, store), is_moved)


def scan_slices(kernel: Kernel) -> ScanSlices | None:
    """The scan that is all of a kernel, if it may be done in slices."""
    match kernel.body:
        case [*before, Scan(acc, [*pre, Loop(body=steps) as loop]) as scan] if (
            not kernel.can_fail and not any(children(s) for s in (*before, *pre, *steps)) and is_exact(acc)
        ):
            return ScanSlices(before, scan, pre, loop)
    return None


def is_exact(a: Accumulator) -> bool:
    """Does the order in which neighbours are combined make no difference?"""
    exact = a.dtype.kind in "biuf" if a.reducer in EXTREMES else a.reducer in EXACT and a.dtype.kind in "biu"
    return exact and a.dtype == a.result.dtype and a.dtype.itemsize in (1, 2, 4, 8)
