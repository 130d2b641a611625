"""Kernels in, plans out: how a kernel runs is data, made without a compiler and without any C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.kernel_plan import (
    ColumnBlocks,
    ElementBlocks,
    IndexTasks,
    InOrder,
    LoopForm,
    Opaque,
    Order,
    ReduceChunks,
    ReduceHalves,
    RowBlocks,
    ScanSlices,
    ScatterSlices,
    Squares,
    TileSlices,
)
from npcompile.backends.cpu.planning import plan_kernel
from npcompile.backends.kernels.index import axis_variable
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Blocks,
    CheckIndex,
    Columns,
    Kernel,
    Let,
    Load,
    Loop,
    Matrix,
    Product,
    Reduce,
    Run,
    Scan,
    Scattered,
    ScratchRow,
    Statement,
    Store,
    Tiles,
    Value,
)
from npcompile.tensor_core.dim import Size
from tests.cpu.plans import plans_of

F8, I8 = np.dtype("f8"), np.dtype("i8")
X, Y = Value("t0", F8), Value("t1", F8)
V0, V1 = axis_variable("v0"), axis_variable("v1")


def load(offset: Size = V0, value: Value = X) -> Load:
    return Load(value, "x0", value.dtype.itemsize * offset)


def store(offset: Size = V0, value: Value = X) -> Store:
    return Store("out0", value.dtype.itemsize * offset, value)


def parallel(axis: str, size: Size, *body: Statement) -> Loop:
    return Loop(axis, size, list(body), is_parallel=True)


def accumulator(reducer: str = "add", dtype: np.dtype = F8, **more: Any) -> Accumulator:
    return Accumulator("k0", reducer, dtype, Value("t9", dtype), **more)


def reduction(a: Accumulator, size: Size = 1000, **more: Any) -> Reduce:
    x = Value("t0", a.dtype)
    return Reduce([a], size, [Loop("v1", size, [load(V1, x), Accumulate("k0", x)])], **more)


def columns(size: Size, rows: Size, a: Accumulator, *body: Statement, **more: Any) -> Columns:
    return Columns("v1", size, [a], [("v0", rows)], [load(), *body, Accumulate("k0", X)], [store(V1, a.result)], **more)


def kernel(*body: Statement, **more: Any) -> Kernel:
    return Kernel("npc_k", [], list(body), {"x0": False, "out0": True}, **more)


# --- elementwise


def test_one_parallel_loop_is_a_flat_range() -> None:
    plan = plan_kernel(kernel(parallel("v0", 10_000, load(), store())))
    assert isinstance(way := plan.way, ElementBlocks)
    assert (way.axes, way.inner) == ((), ("v0", 10_000))
    assert [form.is_independent for form in plan.loops.values()] == [True]
    assert plan.operations == 0 and not plan.rechecked and not plan.allocates


def test_blocks_of_the_innermost_loop_are_smaller_where_an_element_costs_more() -> None:
    inner = parallel("v1", 300, load(300 * V0 + V1), store(300 * V0 + V1))
    cheap, dear = (plan_kernel(kernel(parallel("v0", 200, inner), cost=cost)).way for cost in (0.3, 5.0))
    assert isinstance(cheap, ElementBlocks) and isinstance(dear, ElementBlocks)
    assert cheap.axes == dear.axes == (("v0", 200),) and cheap.inner == ("v1", 300)
    assert (cheap.block, dear.block) == (4096, 512)


def test_what_is_read_across_memory_goes_in_squares() -> None:
    plan = plan_kernel(kernel(parallel("v0", 300, parallel("v1", 200, load(300 * V1 + V0), store(200 * V0 + V1)))))
    assert isinstance(way := plan.way, Squares)
    assert (way.outer, way.inner, way.axes, way.width) == (("v0", 300), ("v1", 200), (), 8)
    assert way.copied is not None and way.copied.is_line and not way.computes


def test_squares_with_something_to_compute_are_turned_over_and_not_copied() -> None:
    double = Let(Y, "add", (X, X))
    loops = parallel("v0", 300, parallel("v1", 200, load(300 * V1 + V0), double, store(200 * V0 + V1, Y)))
    assert isinstance(way := plan_kernel(kernel(loops)).way, Squares)
    assert [s.target for s, _ in way.turned] == [X] and way.copied is None and way.computes
    slow = replace(double, op="exp", args=(X,))
    loops = parallel("v0", 300, slow, parallel("v1", 200, load(300 * V1 + V0), store(200 * V0 + V1)))
    assert isinstance(plan_kernel(kernel(loops)).way, ElementBlocks), "a function would be computed again in each square"


def test_a_long_chain_of_slow_operations_has_stages() -> None:
    names = [Value(f"t{k}", F8) for k in range(6)]
    chain = [Let(y, "exp", (x,)) for x, y in pairwise(names)]
    (form,) = plan_kernel(kernel(parallel("v0", 10_000, load(), *chain, store(V0, names[-1])))).loops.values()
    assert form.pipeline is not None and len(form.pipeline.stages) == 5
    (form,) = plan_kernel(kernel(parallel("v0", 10_000, load(), *chain[:1], store(V0, names[1])))).loops.values()
    assert form == LoopForm(is_innermost=True, is_independent=True)


def test_loops_that_are_written_in_vectors() -> None:
    for body, is_written in (([load(), store()], True), ([load(2 * V0), store()], False), ([load(0), store()], True)):
        loop = parallel("v0", 10_000, *body)
        assert (loop in plan_kernel(kernel(loop)).values.vectors) == is_written
    far, in_place = (plan_kernel(kernel(parallel("v0", 10, load(), Store(name, 8 * V0, X)))) for name in ("out0", "x0"))
    assert [form.is_past_caches for plan in (far, in_place) for form in plan.values.vectors.values()] == [True, False]


def test_an_operand_that_the_compiler_must_not_know_is_opaque() -> None:
    zero, below, result = Value("t1", F8), Value("t2", F8), Value("t3", F8)
    division = Let(result, "divide", (X, below))
    chosen = [load(), Let(zero, "constant", (), (("value", 0.0),)), Let(Value("t4", np.dtype(bool)), "less", (X, zero))]
    chosen += [Let(below, "cast", (Value("t4", np.dtype(bool)),), (("dtype", F8),)), division]
    plan = plan_kernel(kernel(parallel("v0", 100, *chosen, store(V0, result))))
    assert plan.values.opaque == {"t3": Opaque(operand=1, is_one=False)} and not plan.values.vectors
    assert plan.values.constants == {"t1": 0.0} and not plan.combined.opaque


def test_an_index_outside_is_noted_where_every_axis_has_an_element() -> None:
    k, at = Value("t0", I8), Value("t1", I8)
    for size, notes in ((5, True), (0, False)):
        body = load(V0, k), CheckIndex(at, k, 0, size), load(axis_variable("t1"), Y), store(V0, Y)
        (form,) = plan_kernel(kernel(parallel("v0", 100, *body), can_fail=True)).loops.values()
        assert (form.notes_outside, form.is_independent) == (notes, not notes)


# --- reductions


def test_a_sum_of_everything_is_halved_as_numpy_halves_it() -> None:
    reduce = reduction(accumulator(doubted="not finite"))
    plan = plan_kernel(kernel(reduce, store(0, Value("t9", F8)), is_whole=True))
    assert isinstance(way := plan.way, ReduceHalves) and way.reduce is reduce
    assert plan.reduces[reduce].order is Order.PAIRS and plan.reduces[reduce].lanes == 8 and plan.reduces[reduce].is_fused
    assert [a.name for a in plan.rechecked] == ["k0"]


def test_other_whole_reductions_are_cut_in_chunks_with_lanes_in_memory() -> None:
    reduce = reduction(accumulator("maximum"))
    plan = plan_kernel(kernel(reduce, is_whole=True))
    assert isinstance(way := plan.way, ReduceChunks) and way.loop is reduce.body[0]
    assert plan.reduces[reduce].order is Order.LANES and plan.reduces[reduce].lanes == 64


@pytest.mark.parametrize(
    ("a", "order"),
    [
        (accumulator(), Order.PAIRS),
        (accumulator("maximum"), Order.SIMD),
        (accumulator("add", I8), Order.SIMD),
        (accumulator(keeps_order=True), Order.TERMS),
        (accumulator("arg_max"), Order.LANES),
        (accumulator("multiply"), Order.LANES),
    ],
)
def test_rows_are_reduced_in_the_order_that_is_right(a: Accumulator, order: Order) -> None:
    reduce = reduction(a)
    plan = plan_kernel(kernel(Loop("v0", 50, [reduce, store(V0, a.result)])))
    assert isinstance(way := plan.way, IndexTasks) and way.axes == (("v0", 50),)
    assert plan.reduces[reduce].order is order
    assert (way.row_sums is not None) == (order is Order.PAIRS)


@pytest.mark.parametrize(("dtype", "few"), [("f8", 7), ("f4", 7), ("c16", 3)])
def test_so_few_that_numpy_adds_them_one_after_another_need_no_lanes(dtype: str, few: int) -> None:
    def order(size: Size, op: str = "negative", **more: Any) -> Order:
        reduce, made = reduction(accumulator("add", np.dtype(dtype)), size, **more), Value("t1", np.dtype(dtype))
        (loop,) = reduce.body
        assert isinstance(loop, Loop)
        loop.body[1:] = [Let(made, op, (X,)), Accumulate("k0", made)]
        plan = plan_kernel(kernel(Loop("v0", 50, [reduce, store(V0, reduce.accumulators[0].result)])))
        return plan.reduces[reduce].order

    assert order(few) is Order.SERIAL and order(few + 1) is Order.PAIRS
    assert order(few, run=Run(((few, 8, True),))) is Order.SERIAL
    assert order(few, run=Run(((1, 8, True), (few, 80, True)))) is Order.PAIRS, "maybe several runs"
    assert order(few, "exp") is Order.PAIRS, "terms are computed in vectors"


def test_slow_terms_of_sums_are_stored_first() -> None:
    reduce = reduction(accumulator())
    (loop,) = reduce.body
    assert isinstance(loop, Loop)
    assert plan_kernel(kernel(Loop("v0", 50, [reduce]))).loops[loop].terms is None
    loop.body[1:] = [Let(Y, "exp", (X,)), Accumulate("k0", Y)]
    plan = plan_kernel(kernel(Loop("v0", 50, [reduce])))
    assert not plan.reduces[reduce].is_fused and isinstance(plan.way, IndexTasks) and plan.way.row_sums is None
    terms = plan.loops[loop].terms
    assert terms is not None and terms.is_independent and isinstance(terms.loop.body[-1], Store)


def test_columns() -> None:
    few, many = columns(500, 4, accumulator()), columns(500, 900, accumulator())
    plan = plan_kernel(kernel(few))
    assert plan.columns[few].is_unrolled and isinstance(plan.way, ColumnBlocks) and not plan.way.is_sliced
    plan = plan_kernel(kernel(many))
    assert isinstance(way := plan.way, ColumnBlocks) and way.is_sliced and way.axes == ()
    assert not plan.columns[many].is_unrolled and plan.columns[many].rows == 4
    slow = columns(500, 900, accumulator(), Let(Y, "exp", (X,)))
    assert plan_kernel(kernel(slow)).columns[slow].rows == 1


def test_sums_of_columns_in_numpys_order_have_narrower_blocks_instead_of_slices() -> None:
    made = columns(500, 900, accumulator(is_numpys=True))
    assert isinstance(way := plan_kernel(kernel(Loop("v2", 3, [made]))).way, ColumnBlocks)
    assert way.is_narrowed and not way.is_sliced and way.axes == (("v2", 3),) and way.elements == 900 * 500
    assert isinstance(way := plan_kernel(kernel(columns(20, 9000, accumulator(is_numpys=True)))).way, ColumnBlocks)
    assert not way.is_narrowed


# --- slices


@pytest.mark.parametrize(
    ("reducer", "dtype", "is_sliced"), [("maximum", F8, True), ("add", I8, True), ("add", F8, False), ("multiply", F8, False)]
)
def test_scans_are_sliced_where_that_is_exact(reducer: str, dtype: np.dtype, is_sliced: bool) -> None:
    a, x = accumulator(reducer, dtype), Value("t0", dtype)
    loop = Loop("v0", 10**6, [load(V0, x), Accumulate("k0", x), store(V0, a.result)])
    plan = plan_kernel(kernel(Scan(a, [loop])))
    assert isinstance(plan.way, ScanSlices if is_sliced else IndexTasks)
    assert plan.scanned == {"k0"}


def scatter(reducer: str, *computed: Let, value: Value = X, dtype: np.dtype = F8) -> Kernel:
    k, at, old, new = Value("t5", I8), Value("t6", I8), Value("t7", dtype), Value("t8", dtype)
    place = 8 * axis_variable("t6")
    found = [Load(k, "x1", 8 * V0), CheckIndex(at, k, 0, 10), load(), *computed, Load(old, "out0", place)]
    body = [*found, Let(new, reducer, (old, value)), Store("out0", place, new)]
    made = kernel(Loop("v0", 10**6, body), can_fail=True, is_serial=True)
    made.scattered = Scattered("out0", reducer, dtype, 10)
    return made


def test_scatters() -> None:
    assert isinstance(way := plan_kernel(scatter("add")).way, ScatterSlices) and way.is_moved
    assert way.blocks is not None and way.blocks.is_made and way.blocks.value == X
    assert isinstance(way := plan_kernel(scatter("add", Let(Y, "exp", (X,)), value=Y)).way, ScatterSlices)
    assert way.blocks is not None and not way.is_moved
    assert isinstance(plan_kernel(scatter("multiply")).way, InOrder), "products of floats are rounded in their order"


# --- parts that pass over the same rows


def test_tiles_and_blocks() -> None:
    sums = [parallel("v0", 5000, reduction(accumulator()), store(V0, Value("t9", F8)))]
    made = columns(100, 5000, replace(accumulator(), name="k1"))
    plan = plan_kernel(kernel(Tiles(5000, [("v0", sums), ("v0", [made])], 100, 800)))
    assert isinstance(way := plan.way, TileSlices)
    assert [(part.axis, part.row_sums is not None, part.is_combined) for part in way.parts] == [
        ("v0", True, False),
        ("v0", False, True),
    ]
    matrices = [Matrix(name, 0, 80, 8) for name in ("out0", "x0", "x1")]
    rows = [Product(F8, *matrices, (70, 10, 10))], [parallel("v0", 70, load(), Let(Y, "exp", (X,)), store(V0, Y))]
    plan = plan_kernel(kernel(Blocks("v0", 70, [], [*rows], {"b0": 80}, 160)))
    assert isinstance(blocks := plan.way, RowBlocks) and plan.multiplies and plan.allocates
    assert len(blocks.products) == 1 and blocks.tenths == (25,)  # 2.6 nanoseconds for a row


def test_products_and_rows_of_memory() -> None:
    matrices = [Matrix(name, 800 * V0, 80, 8) for name in ("out0", "x0", "x1")]
    plan = plan_kernel(kernel(Loop("v0", 16, [Product(F8, *matrices, (10, 10, 10))])))
    assert isinstance(way := plan.way, IndexTasks) and way.multiplies and way.elements == 1000
    plan = plan_kernel(kernel(Loop("v0", 16, [ScratchRow("row0", 800, [reduction(accumulator())])])))
    assert plan.scratch == (("row0", 800),) and not plan.allocates and not plan.multiplies, "800 bytes are on the stack"
    plan = plan_kernel(kernel(Loop("v0", 16, [ScratchRow("row0", 80000, [reduction(accumulator())])])))
    assert plan.allocates


# --- of functions, and for people


def test_every_kernel_has_its_plan_in_explain() -> None:
    def normal(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)

    explained = npc.explain(normal)(np.random.default_rng(0).random((400, 300)))
    plans = [p for p in explained.passes if p.name == "plan"]
    assert len(plans) == len(explained.kernels) and all(p.fired for p in plans)
    assert "a task for each v0 < 400" in plans[0].place and "in pairs, as NumPy adds" in plans[0].place
    assert f"pass: {plans[0]}" in str(explained)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: np.exp(x), ElementBlocks),
        (lambda x: x.sum(), ReduceHalves),
        (lambda x: x.max(), ReduceChunks),
        (lambda x: x.sum(axis=0), ColumnBlocks),
        (lambda x: x.sum(axis=1), IndexTasks),
        (lambda x: x.T + x, Squares),
        (lambda x: np.maximum.accumulate(x.ravel()), ScanSlices),
        (lambda x: np.tanh(np.concatenate([x] * 20) @ x), RowBlocks),
        (lambda x: np.bincount(x.ravel().astype(np.int64) % 7, minlength=7), ScatterSlices),
    ],
)
def test_functions_have_the_kernels_that_they_need(function: Callable[[np.ndarray], Any], kind: type) -> None:
    assert any(isinstance(plan.way, kind) for plan in plans_of(function, np.random.default_rng(0).random((400, 400))))
