"""What graphs hold of control flow: cut in two, pruned, simplified, printed; sizes, errors at run time, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.registry import FloatingPointSignal, find_backend
from npcompile.tensor_core import Builder, Node, ShapeEnv, TensorMeta, fresh
from npcompile.tensor_core.control import make_cond, make_for_loop, make_fori_loop, make_while_loop
from npcompile.tensor_core.graph import Graph, print_graph, subgraphs
from npcompile.tensor_core.simplify import simplify
from npcompile.tensor_core.transforms.partition import split
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tensor_core.transforms.value import Value
from tests.transforms.test_control import (
    F8,
    FLAGS,
    I8,
    PROGRAMS,
    SIGNS,
    arguments,
    batch_of,
    branch_in_loop,
    branches,
    built,
    gradient_of,
    lanes,
    loss_of,
    nodes,
    on,
    recurrence,
    run_all,
    wrapped,
)

BOOL = np.dtype(bool)


def joint_graph(name: str, arrays: Sequence[np.ndarray]) -> tuple[Graph, int]:
    """A program with the gradients of all of its floating-point results together; how many results it has."""
    builder, xs, results = built(PROGRAMS[name][0], arrays)
    real = [r for r in results if r.dtype.kind == "f"]
    cotangents = [builder.input(TensorMeta(r.shape, r.dtype)) for r in real]
    found = gradients(builder, nodes(*real), cotangents, nodes(*xs))
    graph = builder.finish([*nodes(*results), *(g for g in found if g is not None)])
    return replace(graph, checks=frozenset()), len(results)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_and_backward_apart(name: str) -> None:
    arrays = arguments()
    if name.endswith("recurrence"):
        arrays[1] = arrays[1][:, 0].copy()
    graph, count = joint_graph(name, arrays)
    rng = np.random.default_rng(4)
    cotangents = [rng.normal(size=n.shape) for n in graph.inputs[2:]]
    whole = run_all(graph, [*arrays, *cotangents])
    parts = split(graph, 2, count)
    forward = run_all(parts.forward, arrays)
    kept = [arrays[k] for k in parts.kept_inputs]
    backward = run_all(parts.backward, [*kept, *forward[count:], *cotangents])
    for a, b in zip([*forward[:count], *backward], whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def ops_of(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def test_a_loop_runs_once_forward_and_once_back() -> None:
    arrays = arguments()
    graph, count = joint_graph("counted", arrays)
    parts = split(graph, 2, count)
    assert ops_of(parts.forward).count("for_loop") == 1
    assert ops_of(parts.backward).count("for_loop") == 1
    assert ops_of(simplify(graph)).count("for_loop") == 2
    assert [n.shape for n in parts.saved] == [(4,), (4, 2, 3)]  # of each iteration the carry that cos reads, and the index


def test_results_that_nobody_reads_go() -> None:
    builder, (x,), results = built(lambda x: [recurrence(False)(x, x.sum((1,)))[3]], arguments()[:1])
    (loop,) = (n for n in simplify(builder.finish(nodes(*results))).nodes if n.op == "for_loop")
    assert loop.params["carried"] == 1 and len(loop.params["body_graph"].outputs) == 2
    builder, _, results = built(lambda x, y: branches(x, y)[1:], arguments())
    (branch,) = (n for n in simplify(builder.finish(nodes(*results))).nodes if n.op == "cond")
    assert len(branch.params["true_graph"].inputs) == 2  # x and y, but not exp(y)
    builder, (x,), _ = built(lambda x: [], arguments()[:1])
    one = builder.constant(1.0, F8)
    found = make_while_loop(
        builder,
        on(lambda xs: xs[0] < 5.0),
        on(lambda xs: [xs[0] + 1.0, xs[1].exp(), xs[2] + xs[0]]),
        [one, x.node, one],
    )
    graph = simplify(builder.finish([found[2]]))
    (loop,) = (n for n in graph.nodes if n.op == "while_loop")
    assert loop.params["carried"] == 2
    assert run_all(graph, arguments()[:1])[0] == 1 + 1 + 2 + 3 + 4


def test_graphs_inside_are_simplified() -> None:
    builder, (x,), _ = built(lambda x: [], arguments()[:1])
    (found,) = make_fori_loop(builder, 0, 2, on(lambda i, xs: [(xs[0] * 1.0).op("negative").op("negative").sin()]), nodes(x))
    (loop,) = (n for n in simplify(builder.finish([found])).nodes if n.op == "for_loop")
    assert ops_of(loop.params["body_graph"]) == ["input", "sin"]


def test_a_graph_prints_what_is_inside() -> None:
    builder, _, results = built(branch_in_loop, arguments())
    text = print_graph(builder.finish(nodes(*results)))
    names = [line.strip() for line in text.splitlines() if "def " in line]
    assert [line.split("(")[0] for line in names] == ["def graph", "def t1_body", "def t5_true", "def t5_false"]
    assert "        def t5_true(x0, x1" in text and "body_graph=t1_body" in text
    compile(text.replace("; ", "\n"), "graph", "exec")  # it is Python


def test_sizes_inside_are_symbolic() -> None:
    env = ShapeEnv()
    n = env.symbol("n", 4, at_least=2)
    builder = Builder(env=env)
    x = Value(builder, builder.input(TensorMeta((n, 2), F8)))
    carries, stacks = make_for_loop(
        builder, on(lambda c, e: ([c[0] + e[0] * x.sum((0,))], [c[0].like(n)])), nodes(x.sum((0,))), nodes(x)
    )
    found = make_fori_loop(builder, 0, n, on(lambda i, c: [c[0] + x]), nodes(x))
    loss = loss_of(builder, wrapped(builder, [*carries, *found]), [np.ones(2), np.ones(())])
    gradient = gradients(builder, [loss.node], [builder.constant(1.0, F8)], nodes(x))
    graph = builder.finish([*carries, *stacks, *found, *(g for g in gradient if g is not None)])
    assert graph.symbols == ("n",)
    for size in (4, 7):
        array = np.random.default_rng(size).normal(size=(size, 2))
        total, sizes, grown, slope = run_all(graph, [array], size)
        np.testing.assert_allclose(total, array.sum(0) + array.sum(0) ** 2, rtol=1e-12)
        np.testing.assert_array_equal(sizes, np.full((size, 2), size))
        np.testing.assert_allclose(grown, array * (1 + size), rtol=1e-12)
        np.testing.assert_allclose(slope, np.broadcast_to(1 + 2 * array.sum(0) + 1 + size, array.shape), rtol=1e-12)


def test_no_iterations() -> None:
    builder, (x, y), _ = built(lambda x, y: [], [np.ones((0, 3)), np.full(3, 2.0)])
    carries, stacks = make_for_loop(builder, on(lambda c, e: ([c[0] * e[0]], [c[0].sum()])), nodes(y), nodes(x))
    (slope,) = gradients(builder, carries, nodes(y), nodes(y))
    assert slope is not None
    found = run_all(builder.finish([*carries, *stacks, slope]), [np.ones((0, 3)), np.full(3, 2.0)])
    assert found[0].tolist() == [2, 2, 2] and found[1].shape == (0,) and found[2].tolist() == [2, 2, 2]


def test_a_known_condition_takes_its_branch() -> None:
    builder, (x,), _ = built(lambda x: [], arguments()[:1])
    for value in (True, False):
        (found,) = make_cond(
            builder, builder.constant(value, BOOL), on(lambda xs: [xs[0].sin()]), on(lambda xs: [xs[0].cos()]), nodes(x)
        )
        assert found.op == ("sin" if value else "cos")


def test_bounds_that_are_data() -> None:
    builder = Builder()
    low, high, x = (builder.input(TensorMeta((), d)) for d in (np.dtype(np.int8), I8, F8))
    (found,) = make_fori_loop(builder, low, high, on(lambda i, c: [c[0] * 2.0 + i.cast(F8)]), [x])
    (slope,) = gradients(builder, [found], [builder.constant(1.0, F8)], [x])
    assert slope is not None
    graph = builder.finish([found, slope])
    for bounds in ((1, 4), (2, 2), (5, 1)):
        expected = 1.0
        for i in range(*bounds):
            expected = expected * 2 + i
        given = [np.int8(bounds[0]), np.int64(bounds[1]), np.float64(1)]
        assert run_all(graph, given) == [expected, 2.0 ** max(bounds[1] - bounds[0], 0)]


# --- errors at run time, and carries


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_floating_point_errors_inside_are_signalled(backend: str) -> None:
    def program(x: Value) -> list[Value]:
        return wrapped(x.builder, make_fori_loop(x.builder, 0, 3, on(lambda i, xs: [xs[0] / xs[0]]), nodes(x)))

    builder, _, results = built(program, [np.zeros(2)])
    graph = builder.finish(nodes(*results))
    assert graph.checks
    compiled = find_backend(backend)(graph, [])
    with pytest.raises(FloatingPointSignal):
        compiled(np.zeros(2))
    assert compiled(np.ones(2))[0].tolist() == [1, 1]
    silent = find_backend(backend)(replace(graph, checks=frozenset()), [])
    assert np.isnan(silent(np.zeros(2))[0]).all()


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_indices_out_of_bounds_inside_raise(backend: str) -> None:
    builder = Builder()
    x = builder.input(TensorMeta((3,), F8))
    (found,) = make_fori_loop(
        builder,
        0,
        5,
        on(lambda i, xs: [xs[0] + Value(i.builder, i.builder.apply("gather", x, i.node))]),
        [builder.constant(0.0, F8)],
    )
    with pytest.raises(IndexError):
        find_backend(backend)(builder.finish([found]), [])(np.ones(3))


def scalar(builder: Builder, node: Node) -> Any:
    return fresh(builder, node, boxed=False)


def test_a_python_number_takes_the_dtype_of_the_body() -> None:
    builder = Builder()
    single = np.dtype(np.float32)
    x = builder.input(TensorMeta((), single))
    number = builder.input(TensorMeta((), F8, boxed=False, weak=True))
    seen = []

    def step(inner: Builder, index: Node, carry: list[Node]) -> list[Any]:
        (c,) = carry
        seen.append((c.dtype, c.meta.weak))
        return [scalar(inner, inner.apply("add", c if c.dtype == single else inner.apply("cast", c, dtype=single), x))]

    (found,) = make_fori_loop(builder, 0, 3, step, [number])
    assert seen == [(F8, True), (single, False)] and found.dtype == single and not found.meta.boxed
    assert run_all(builder.finish([found]), [np.float32(0.5), 1.0]) == [2.5]


def test_a_0d_array_becomes_a_scalar() -> None:
    builder = Builder()
    x = builder.input(TensorMeta((), F8))
    (found,) = make_while_loop(
        builder, on(lambda xs: xs[0] < 9.0), lambda inner, c: [scalar(inner, inner.apply("square", c[0]))], [x]
    )
    assert not found.meta.boxed


WRONG: list[tuple[Callable[[Builder, Node], Any], str]] = [
    (
        lambda b, x: make_while_loop(b, on(lambda xs: xs[0].sum() > 0.0), on(lambda xs: [xs[0].sum((0,))]), [x], ["['w']"]),
        r"while_loop: carry\['w'\] is a float64 array of shape \(2, 3\) before an iteration and a float64 array of shape \(3,\) "
        "after it; it must keep its shape and dtype: convert .* with astype or broadcast_to",
    ),
    (
        lambda b, x: make_fori_loop(b, 0, 3, on(lambda i, xs: [xs[0].cast(np.float32)]), [x]),
        r"carry\[1\] is a float64 array .* a float32 array",
    ),
    (
        lambda b, x: make_cond(
            b,
            b.apply("less", *2 * [b.apply("reduce", x, reducer="add", axes=(0, 1))]),
            on(lambda xs: [xs[0]]),
            on(lambda xs: [xs[0].sum()]),
            [x],
        ),
        r"cond: result\[0\] is a float64 array of shape \(2, 3\) in the true branch and a float64 array of shape \(\)",
    ),
    (lambda b, x: make_cond(b, x, on(lambda xs: xs), on(lambda xs: xs), [x]), r"condition is a float64 array of shape \(2, 3\)"),
    (lambda b, x: make_for_loop(b, lambda i, c, e: (c, e), [x], [b.constant(1, I8)]), "no axis 0 to go along"),
    (
        lambda b, x: make_for_loop(b, lambda i, c, e: (c, e), [x], [x], 3),
        r"a float64 array of shape \(2, 3\) among arrays of length 3",
    ),
    (lambda b, x: make_for_loop(b, lambda i, c, e: (c, e), [x], []), "give length="),
    (lambda b, x: make_fori_loop(b, 0, x, lambda i, k, c: c, [x]), "a bound is .* must be an integer"),
    (lambda b, x: make_fori_loop(b, 0, 3, lambda i, k, c: [], [x]), "the body gives 1 carries for 2"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_refused(make: Callable[[Builder, Node], Any], message: str) -> None:
    builder = Builder()
    with pytest.raises(TypeError, match=message):
        make(builder, builder.input(TensorMeta((2, 3), F8)))


def count_inside(graph: Graph, op: str) -> int:
    return sum((n.op == op) + sum(count_inside(g, op) for g in subgraphs(n).values()) for n in graph.nodes)


def test_products_and_loops_inside_are_not_computed_again() -> None:
    arrays = arguments()
    graph, count = joint_graph("matrix_products", arrays)
    parts = split(graph, 2, count)
    assert count_inside(parts.forward, "einsum") == 2
    assert count_inside(parts.backward, "einsum") == 4  # for each, one by each of its operands
    graph, count = joint_graph("loop_in_loop", arrays)
    parts = split(graph, 2, count)
    assert count_inside(parts.forward, "for_loop") == count_inside(parts.backward, "for_loop") == 2
    assert count_inside(parts.backward, "sin") == 0  # only of cos(z) is there need


def test_a_batch_of_a_loop_and_its_gradient_runs_the_loop_once() -> None:
    def both(builder: Builder, xs: Sequence[Value], results: Sequence[Value]) -> list[Value]:
        return [*results, *gradient_of(builder, xs, results)]

    for flags in FLAGS:
        arrays = lanes(SIGNS, flags, "recurrence")
        graph = batch_of(recurrence(False), arrays, flags, both)
        assert ops_of(graph).count("for_loop") == 3
        assert ops_of(simplify(graph)).count("for_loop") == 2
        run_all(graph, arrays)
