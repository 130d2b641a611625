"""What becomes one kernel, what is done in place, and what needs no new compile."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cpu.backend import held_during, lowered
from npcompile.backends.cpu.partition import is_native_graph
from npcompile.backends.cpu.shared_kernels import batches, shared
from npcompile.backends.kernels.kernel import Loop, walk
from npcompile.backends.kernels.memory import build_schedule
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.graph import Node
from tests.cpu.plans import noted_plans

F8 = np.dtype(np.float64)


def array(builder: Builder, *shape: int) -> Node:
    return builder.input(TensorMeta(shape, F8))


def keep(builder: Builder, x: Node, like: Node) -> Node:
    """A row value as a column, repeated along the rows of `like`."""
    column = builder.apply("reshape", x, shape=(*like.shape[:-1], 1))
    return builder.apply("broadcast_to", column, shape=like.shape)


def softmax(builder: Builder, x: Node) -> Node:
    last = (x.meta.ndim - 1,)
    largest = builder.apply("reduce", x, reducer="maximum", axes=last)
    e = builder.apply("exp", builder.apply("subtract", x, keep(builder, largest, x)))
    return builder.apply("divide", e, keep(builder, builder.apply("reduce", e, reducer="add", axes=last), x))


def test_softmax_is_one_kernel() -> None:
    builder = Builder()
    run = compile_cpu(builder.finish([softmax(builder, array(builder, 30, 50))]))
    assert len(run.kernels) == 1
    x = np.random.default_rng(0).standard_normal((30, 50))
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(run(x)[0], e / e.sum(-1, keepdims=True), rtol=1e-14)


@pytest.mark.parametrize(("rows", "kernels"), [(100, 2), (4, 1)])
def test_what_many_rows_read_is_computed_before_them(rows: int, kernels: int) -> None:
    """Each row of all differences reads all elements, whose expression would be computed as often."""
    builder = Builder()
    x, v, a = (array(builder, rows, 3) for _ in range(3))
    moved = builder.apply("add", x, builder.apply("multiply", v, builder.apply("subtract", v, builder.apply("multiply", a, a))))
    both = [builder.apply("reshape", moved, shape=shape) for shape in ((1, rows, 3), (rows, 1, 3))]
    one, other = (builder.apply("broadcast_to", y, shape=(rows, rows, 3)) for y in both)
    difference = builder.apply("subtract", one, other)
    run = compile_cpu(builder.finish([builder.apply("reduce", difference, reducer="maximum", axes=(2,))]))
    assert len(run.kernels) == kernels, "of four rows it is not worth a kernel of its own"
    x0, v0, a0 = np.random.default_rng(0).standard_normal((3, rows, 3))
    y = x0 + v0 * (v0 - a0 * a0)
    np.testing.assert_array_equal(run(x0, v0, a0)[0], (y[None] - y[:, None]).max(2))


@pytest.mark.parametrize("stages", [3, 9])
def test_what_is_read_through_a_view_by_several_is_computed_once(stages: int) -> None:
    """Each stage of a transform reads both halves of the one before twice: expressions may not double with every stage."""
    builder = Builder()
    x = array(builder, 4096)
    y = x
    for k in range(stages):
        rows = builder.apply("reshape", y, shape=(4096 >> (k + 1), 2 << k))
        halves = [builder.apply("slice", rows, start=(0, h << k), step=(1, 1), shape=(4096 >> (k + 1), 1 << k)) for h in (0, 1)]
        both = [builder.apply(op, *halves) for op in ("add", "subtract")]
        y = builder.apply("reshape", builder.apply("concatenate", *both, axis=1), shape=(4096,))
    with noted_plans() as plans:
        run = compile_cpu(builder.finish([y]))
    assert sum(plan.operations for plan in plans) <= 12 * stages
    values = np.random.default_rng(0).standard_normal(4096)
    expected = values
    for k in range(stages):
        a, b = np.split(expected.reshape(-1, 2 << k), 2, axis=1)
        expected = np.concatenate([a + b, a - b], axis=1).ravel()
    np.testing.assert_array_equal(run(values)[0], expected)


def test_reductions_of_one_array_are_one_pass() -> None:
    builder = Builder()
    x = array(builder, 300, 400)
    squares = builder.apply("multiply", x, x)
    reduced = [builder.apply("reduce", v, reducer=r, axes=(0, 1)) for v, r in ((x, "add"), (x, "maximum"), (squares, "add"))]
    run = compile_cpu(builder.finish(reduced))
    assert len(run.kernels) == 1
    data = np.random.default_rng(0).standard_normal((300, 400))
    np.testing.assert_allclose(run(data), [data.sum(), data.max(), (data * data).sum()], rtol=1e-13)


def test_what_a_product_repeats_is_computed_once() -> None:
    builder = Builder()
    x, y = array(builder, 300, 7), array(builder, 300)
    made = builder.apply("einsum", x, builder.apply("exp", y), inputs=((0, 1), (0,)), output=(1,))
    run = compile_cpu(builder.finish([made]))
    assert len(run.kernels) == 2
    a, b = np.random.default_rng(0).standard_normal((300, 7)), np.random.default_rng(1).standard_normal(300)
    np.testing.assert_allclose(run(a, b)[0], a.T @ np.exp(b), rtol=1e-13)


def test_a_chain_with_two_outputs_is_one_kernel() -> None:
    builder = Builder()
    x = array(builder, 40, 50)
    y = builder.apply("sin", x)
    run = compile_cpu(builder.finish([y, builder.apply("multiply", y, x), builder.apply("permute", y, axes=(1, 0))]))
    assert len(run.kernels) == 1
    data = np.random.default_rng(0).standard_normal((40, 50))
    first, second, third = run(data)
    assert (second == first * data).all() and (third == first.T).all()


def test_updates_of_a_fresh_array_are_made_in_place() -> None:
    builder = Builder()
    x = array(builder, 100)
    made = builder.apply("broadcast_to", builder.constant(0.0, F8), shape=(100,))
    for start in (0, 25, 50):
        part = builder.apply("slice", x, start=(start,), step=(1,), shape=(25,))
        made = builder.apply("slice_update", made, part, start=(start,), step=(1,))
    graph = builder.finish([made])
    schedule = build_schedule(graph)
    assert len(schedule.in_place) == 3 and not [b for b in schedule.buffers if b.kind == "temporary"]
    data = np.arange(100.0)
    np.testing.assert_array_equal(compile_cpu(graph)(data)[0], np.where(data < 75, data, 0))


def test_an_elementwise_write_goes_straight_to_the_argument() -> None:
    builder = Builder()
    x = array(builder, 64)
    graph = builder.finish([], writes=[(0, builder.apply("multiply", x, x))])
    schedule = build_schedule(graph)
    assert not schedule.copies and [b.kind for b in schedule.buffers] == ["input"]
    data = np.arange(64.0)
    compile_cpu(graph)(data)
    np.testing.assert_array_equal(data, np.arange(64.0) ** 2)


def test_a_reversed_write_goes_through_a_temporary() -> None:
    builder = Builder()
    x = array(builder, 9)
    turned = builder.apply("slice", x, start=(8,), step=(-1,), shape=(9,))
    data = np.arange(9.0)
    compile_cpu(builder.finish([], writes=[(0, turned)]))(data)
    np.testing.assert_array_equal(data, np.arange(9.0)[::-1])


def test_nothing_is_written_when_an_index_is_out_of_bounds() -> None:
    builder = Builder()
    x, index = array(builder, 5), builder.input(TensorMeta((3,), np.dtype(np.int64)))
    doubled = builder.apply("add", x, x)
    run = compile_cpu(builder.finish([builder.apply("gather", x, index)], writes=[(0, doubled)]))
    data = np.arange(5.0)
    with pytest.raises(IndexError, match=r"^index -6 is out of bounds for axis 0 with size 5$"):
        run(data, np.array([0, -6, 9]))
    np.testing.assert_array_equal(data, np.arange(5.0))
    np.testing.assert_array_equal(run(data, np.array([4, -5, -1]))[0], [4, 0, 4])
    np.testing.assert_array_equal(data, 2 * np.arange(5.0))


def test_symbols_may_have_any_name() -> None:
    builder = Builder()
    names = ("n", "int", "begin", "rt", "c", "double")
    sizes = [builder.env.symbol(name, 2, at_least=2) for name in names]
    x = builder.input(TensorMeta(tuple(sizes), F8))
    graph = builder.finish([builder.apply("reduce", builder.apply("sin", x), reducer="add", axes=tuple(range(6)))])
    run = compile_cpu(graph)
    for shape in ((2, 3, 2, 4, 2, 3), (5, 1, 2, 2, 3, 2)):
        values = dict(zip(names, shape))
        data = np.random.default_rng(0).standard_normal(shape)
        np.testing.assert_allclose(run(data, *(values[s] for s in graph.symbols))[0], np.sin(data).sum(), rtol=1e-12)


def test_what_has_no_c_form_runs_between_compiled_pieces() -> None:
    builder = Builder()
    x = builder.input(TensorMeta((7,), np.dtype(np.complex128)))
    sign = builder.apply("sign", builder.apply("multiply", x, x))
    graph = builder.finish([builder.apply("add", sign, x)])
    run = compile_cpu(graph)
    data = np.exp(1j * np.arange(7))
    np.testing.assert_allclose(run(data)[0], np.sign(data * data) + data, rtol=1e-14)
    assert not is_native_graph(graph) and run.kernels


def test_sums_do_not_depend_on_the_number_of_tasks() -> None:
    builder = Builder()
    n = builder.env.symbol("n", 10, at_least=2)
    x = builder.input(TensorMeta((n,), F8))
    run = compile_cpu(builder.finish([builder.apply("reduce", x, reducer="add", axes=(0,))]))
    data = np.random.default_rng(0).standard_normal(1_000_003)
    results = {float(run(data, len(data))[0]) for _ in range(5)}
    assert len(results) == 1
    exact = float(np.sum(data, dtype=np.longdouble))
    assert abs(results.pop() - exact) <= abs(float(data.sum()) - exact) + 1e-12


def test_what_is_overwritten_is_not_copied_before() -> None:
    builder = Builder()
    x = array(builder, 40, 50)
    inner = builder.apply("slice", x, start=(2, 1), step=(1, 1), shape=(37, 48))
    with noted_plans() as plans:
        run = compile_cpu(
            builder.finish([builder.apply("slice_update", x, builder.apply("sin", inner), start=(2, 1), step=(1, 1))])
        )
    print([str(plan.kernel) for plan in plans])
    assert 2000 not in {s.size for plan in plans for s in walk(plan.kernel.body) if isinstance(s, Loop)}  # all of x
    data = np.random.default_rng(0).standard_normal((40, 50))
    expected = data.copy()
    expected[2:39, 1:49] = np.sin(data[2:39, 1:49])
    np.testing.assert_allclose(run(data)[0], expected, rtol=1e-15)


def test_temporaries_that_nobody_reads_any_more_are_given_back() -> None:
    builder = Builder()
    x = builder.apply("multiply", x0 := array(builder, 100_000), x0)
    for k in (1, 2, 4, 8, 16):  # each step reads what it overwrites, at other places
        a, b = (builder.apply("slice", x, start=(at,), step=(1,), shape=(100_000 - k,)) for at in (k, 0))
        x = builder.apply("slice_update", x, builder.apply("add", a, b), start=(k,), step=(1,))
    run = compile_cpu(graph := builder.finish([x]))
    schedule = build_schedule(graph, tiled=True)
    temporaries = [b.name for b in schedule.buffers if b.kind == "temporary"]
    held = list(held_during(batches(shared(lowered(schedule))), temporaries, set()).values())
    assert len(held) == len(temporaries) >= 5
    assert all(last < first for (_, last), (first, _) in zip(held, held[2:]))  # two at a time
    expected = np.arange(100_000.0) ** 2
    given = np.arange(100_000.0)
    for k in (1, 2, 4, 8, 16):
        expected[k:] = expected[k:] + expected[:-k]
    np.testing.assert_array_equal(run(given)[0], expected)
