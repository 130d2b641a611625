"""A joint graph cut in two computes what it computed whole, and saves what it must."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dim import ShapeEnv, evaluate
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder, Graph, Node, topological
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.transforms.partition import Cut, Network, Split, split
from npcompile.tensor_core.transforms.reverse import gradients, is_differentiable
from npcompile.tensor_core.transforms.value import Value
from tests.cpu.random_graphs import RandomGraph, arrays_for

F8 = np.dtype(np.float64)
N = 1000  # large enough that a vector costs more than being one more array


def joint(build: Callable[..., tuple[Sequence[Any], Sequence[Any]]], *shapes: Any, env: ShapeEnv | None = None) -> Graph:
    """The graph of `build(g, *arguments) -> (results, gradients)`, with g the cotangent, of the first result's shape.

    The cotangent is an input after the arguments; as its shape is known after the program, `build` calls it.
    """
    builder = Builder() if env is None else Builder(env=env)
    arguments = [Value(builder, builder.input(TensorMeta(shape, F8))) for shape in shapes]
    results, gradients = build(lambda y: Value(builder, builder.input(TensorMeta(y.shape, y.dtype))), *arguments)
    graph = builder.finish([v.node for v in (*results, *gradients)])
    return replace(graph, checks=frozenset())


def differentiated(program: Callable[..., Value], *shapes: Any, env: ShapeEnv | None = None) -> Graph:
    """The joint graph of `program(*arguments) -> result` by the op table's rules."""

    def build(cotangent: Any, *arguments: Value) -> tuple[Sequence[Value], Sequence[Value]]:
        y = program(*arguments)
        wrt = [x.node for x in arguments]
        found = gradients(y.builder, [y.node], [cotangent(y).node], wrt)
        return [y], [Value(y.builder, g) for g in found if g is not None]

    return joint(build, *shapes, env=env)


def item(x: Value, index: int) -> Value:
    return x.op("item", index=index)


def arrays(graph: Graph, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = [tuple(n if isinstance(n, int) else evaluate(n, sizes) for n in x.shape) for x in graph.inputs]
    orders = ["F" if x.meta.ndim == 2 and x.meta.strides[0] == x.dtype.itemsize else "C" for x in graph.inputs]
    return [np.array(rng.uniform(0.5, 2, shape), order=order) for shape, order in zip(shapes, orders)]


def run_split(parts: Split, graph: Graph, primals: int, arguments: list[Any], sizes: dict[str, int], compile_graph: Any) -> list:
    """Forward, then backward, as a caller runs them: results and gradients. Arguments may be written."""
    results = len(parts.forward.outputs) - len(parts.saved)
    outputs = compile_graph(parts.forward, [])(*arguments[:primals], *(sizes[s] for s in parts.forward.symbols))
    kept = [arguments[k] for k in parts.kept_inputs]
    given = [*kept, *outputs[results:], *arguments[primals:]]
    gradients = compile_graph(parts.backward, [])(*given, *(sizes[s] for s in parts.backward.symbols))
    return [*outputs[:results], *gradients]


def check(graph: Graph, primals: int, results: int = 1, sizes: dict[str, int] | None = None) -> Split:
    """The split of `graph`, run against the whole by both backends."""
    parts, sizes = split(graph, primals, results), sizes or {}
    whole_arguments = arrays(graph, sizes)
    whole = compile_eager(graph, [])(*whole_arguments, *(sizes[s] for s in graph.symbols))
    for compile_graph in (compile_eager, compile_cpu):
        arguments = arrays(graph, sizes)
        found = run_split(parts, graph, primals, arguments, sizes, compile_graph)
        for a, b in zip([*found, *arguments], [*whole, *whole_arguments], strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    return parts


def check_random(parts: Split, graph: Graph, primals: int, seed: int) -> None:
    sizes = {"n": 4, "m": 3}
    ours, theirs = (arrays_for(graph, sizes, seed)[: len(graph.inputs)] for _ in range(2))
    silent = replace(parts, forward=replace(parts.forward, checks=frozenset()))
    got = run_split(silent, graph, primals, ours, sizes, compile_eager)
    whole = compile_eager(replace(graph, checks=frozenset()), [])
    expected = whole(*theirs, *(sizes[s] for s in graph.symbols))
    for a, b in zip([*got, *ours], [*expected, *theirs], strict=True):
        assert a.dtype == b.dtype and a.strides == b.strides
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def saved_ops(parts: Split) -> list[str]:
    return sorted(n.op for n in parts.saved)


# --- what is saved


def matmul(x: Value, y: Value) -> Value:
    return Value(x.builder, x.builder.apply("einsum", x.node, y.node, inputs=((0, 1), (1, 2)), output=(0, 2)))


def softmax(x: Value) -> Value:
    e = (x - x.reduce("maximum", [1], keepdims=True).broadcast_to(x.shape)).exp()
    return e / e.sum([1], keepdims=True).broadcast_to(x.shape)


def layer_norm(x: Value, scale: Value) -> Value:
    centered = x - (x.sum([1], keepdims=True) / x.shape[1]).broadcast_to(x.shape)
    deviation = ((centered * centered).sum([1], keepdims=True) / x.shape[1] + 1e-5).sqrt()
    return centered / deviation.broadcast_to(x.shape) * scale.broadcast_to(x.shape)


def tanh_of_product(x: Value, w: Value) -> Value:
    return matmul(x, w).tanh() * 2


def sines(count: int) -> Callable[[Value], Value]:
    def program(x: Value) -> Value:
        for _ in range(count):
            x = x.sin()
        return x

    return program


def relu_of_product(x: Value, w: Value) -> Value:
    h = matmul(x, w)
    return (h > 0).where(h, 0).sum()


def square_of_part(x: Value, w: Value) -> Value:
    h = matmul(x, w).op("slice", start=(0, 0), step=(1, 1), shape=(2, 30))
    return h * h * 2


def broadcast(x: Value) -> Value:
    m = x.reduce("add", [0]).exp()
    return m.broadcast_to(x.shape).tanh().sum()


# (program, shapes of its arguments, arguments kept, ops of the values saved, their bytes)
KNOWN: dict[str, tuple[Callable, list[tuple], tuple, list[str], int]] = {
    "total": (lambda x: x.sum(), [(N,)], (), [], 0),
    "mean": (lambda x: x.sum() / N, [(N,)], (), [], 0),
    "x sin x": (lambda x: x * x.sin(), [(N,)], (0,), [], 0),
    "tanh": (lambda x: x.tanh(), [(N,)], (0,), [], 0),  # the result belongs to the caller
    "50 sines": (sines(50), [(N,)], (0,), [], 0),
    "product": (matmul, [(30, 40), (40, 30)], (0, 1), [], 0),
    "tanh of product": (tanh_of_product, [(30, 40), (40, 30)], (0, 1), ["tanh"], 900 * 8),
    "exp of product": (lambda x, w: matmul(x, w).exp().sum(), [(30, 40), (40, 30)], (0, 1), ["exp"], 900 * 8),
    "relu of product": (relu_of_product, [(30, 40), (40, 30)], (0, 1), ["greater"], 900),  # a byte for each element
    "square of part": (square_of_part, [(30, 40), (40, 30)], (0, 1), ["slice"], 60 * 8),
    "two layers": (
        lambda x, v, w: matmul(matmul(x, v).tanh(), w).tanh().sum(),
        [(30, 40), (40, 30), (30, 20)],
        (0, 1, 2),
        ["tanh", "tanh"],
        (900 + 600) * 8,
    ),
    "softmax": (softmax, [(30, 40)], (0,), ["reduce", "reduce"], 60 * 8),
    "layer norm": (layer_norm, [(30, 40), (40,)], (0, 1), ["divide", "sqrt"], 60 * 8),  # mean, deviation of each row
    "largest": (lambda x: x.reduce("maximum", [1]), [(30, 40)], (0,), ["reduce"], 30 * 8),
    "broadcast": (broadcast, [(N, 30)], (), ["exp"], 30 * 8),  # before it is repeated
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_saved(name):
    program, shapes, kept, ops, size = KNOWN[name]
    parts = check(differentiated(program, *shapes), len(shapes))
    assert (parts.kept_inputs, saved_ops(parts), parts.bytes_saved) == (kept, ops, size)


def test_bytes_computed_again():
    assert split(differentiated(lambda x: x * x.sin(), (N,)), 1, 1).bytes_recomputed == 8 * N  # sin(x); cos(x) is new
    assert split(differentiated(sines(50), (N,)), 1, 1).bytes_recomputed == 49 * 8 * N
    assert split(differentiated(matmul, (30, 40), (40, 30)), 2, 1).bytes_recomputed == 0


@pytest.mark.parametrize(("length", "expected"), [(5, []), (40, []), (150, ["multiply"])])
def test_long_chains_are_not_computed_again_for_their_end(length, expected):
    def program(cotangent, x):
        y = x
        for k in range(length):
            y = y * (1 + 0.001 * k)
        result = (y * y).sum()
        return [result], [cotangent(result).broadcast_to(y.shape) * 2 * y]

    assert saved_ops(check(joint(program, (N,)), 1)) == expected


def test_chains_that_are_computed_again_are_bounded():
    parts = check(differentiated(sines(150), (N,)), 1)
    assert saved_ops(parts) == ["sin"] * 2 and parts.bytes_recomputed == 147 * 8 * N


def test_a_chain_through_the_whole_program_is_not_computed_again():
    """Every x could be made of the first and all values of tanh before it: the backward graph needs the last x first."""

    def program(x, *weights):
        for w in weights:
            x = x + matmul(x, w).tanh()
        return x

    parts = check(differentiated(program, (30, 30), *[(30, 30)] * 4), 5)
    assert saved_ops(parts) == ["add"] * 3 + ["tanh"] * 4 and parts.bytes_recomputed == 0


def test_a_result_that_is_needed_is_saved_apart():
    """It belongs to the caller, who may write to it."""

    def program(cotangent, x, w):
        y = matmul(x, w)
        return [y], [cotangent(y) * 2 * y]

    parts = check(joint(program, (30, 40), (40, 30)), 2)
    assert parts.saved == (parts.forward.outputs[0],) and len(parts.forward.outputs) == 2
    a, b = compile_cpu(parts.forward, [])(np.ones((30, 40)), np.ones((40, 30)))
    assert not np.shares_memory(a, b)


# --- positions, sizes, writes


def test_positions():
    """Kept arguments, saved values, all cotangents; an argument that no gradient needs is still one of the program's."""
    parts = split(differentiated(tanh_of_product, (30, 40), (40, 20)), 2, 1)
    assert [n.shape for n in parts.forward.inputs] == [(30, 40), (40, 20)]
    assert [n.shape for n in parts.forward.outputs] == [(30, 20), (30, 20)]
    assert [n.shape for n in parts.backward.inputs] == [(30, 40), (40, 20), (30, 20), (30, 20)]
    assert [n.shape for n in parts.backward.outputs] == [(30, 40), (40, 20)]
    parts = split(differentiated(lambda x: x.sum(), (N,)), 1, 1)
    assert [n.shape for n in parts.forward.inputs] == [(N,)] and [n.shape for n in parts.backward.inputs] == [()]


def test_metas():
    """Saved arrays are C-contiguous whatever the order of their operands; gradients are as the joint graph says."""
    builder = Builder()
    x = Value(builder, builder.input(TensorMeta((30, 40), F8, (8, 240))))
    h = matmul(x, x.permute((1, 0)))
    t = (h.permute((1, 0)) * 2).sin()
    g = Value(builder, builder.input(TensorMeta((30, 30), F8)))
    metas = [TensorMeta((30, 30), F8, (8, 240)), TensorMeta((30, 30), F8, (8, 240))]
    graph = replace(builder.finish([(t * t).node, (g * t * t.cos()).node], metas), checks=frozenset())
    parts = check(graph, 1)
    assert parts.forward.metas[1].strides == parts.backward.inputs[0].meta.strides == (240, 8)
    assert parts.forward.metas[0].strides == parts.backward.metas[0].strides == (8, 240)


@pytest.mark.parametrize("name", ["softmax", "layer norm", "tanh of product"])
def test_symbolic_sizes(name):
    env = ShapeEnv()
    n, m = (env.symbol(name, hint, at_least=2) for name, hint in (("n", 30), ("m", 40)))
    program, shapes, _, ops, size = KNOWN[name]
    graph = differentiated(program, *(tuple({30: n, 40: m}[k] for k in shape) for shape in shapes), env=env)
    guards = dict(env.guards)
    for sizes in ({"n": 30, "m": 40}, {"n": 3, "m": 70}):
        parts = check(graph, len(shapes), sizes=sizes)
        assert saved_ops(parts) == ops and parts.bytes_saved == size
    assert env.guards == guards


def test_each_graph_has_the_symbols_that_it_uses():
    env = ShapeEnv()
    n, m = (env.symbol(name, hint, at_least=2) for name, hint in (("n", 30), ("m", 40)))

    def program(cotangent, x, y):
        result = x.sum([1])
        return [result, y * 2], [cotangent(result).reshape((n, 1)).broadcast_to((n, 7))]

    parts = check(joint(program, (n, 7), (m,), env=env), 2, 2, {"n": 5, "m": 4})
    assert set(parts.forward.symbols) == {"n", "m"} and parts.backward.symbols == ("n",)


def test_a_written_argument_is_saved_as_it_was():
    def program(x, y, g):
        return x * x * y, (g * 2 * x * y), g * x * x

    builder = Builder()
    x, y, g = (Value(builder, builder.input(TensorMeta((N,), F8))) for _ in range(3))
    result, *gradients = program(x, y, g)
    graph = builder.finish([result.node, *(v.node for v in gradients)], writes=[(0, (x + 1).node)])
    graph = replace(graph, checks=frozenset(), restored=frozenset([0]))
    parts = check(graph, 2)
    assert parts.saved == (x.node,) and parts.kept_inputs == (1,) and parts.bytes_saved == 8 * N
    assert parts.forward.writes and parts.forward.restored == {0} and not parts.backward.writes
    arguments = [np.full(N, 2.0), np.full(N, 3.0), np.ones(N)]
    found = run_split(parts, graph, 2, arguments, {}, compile_cpu)
    assert (arguments[0] == 3).all() and [a[0] for a in found] == [12, 12, 4]


def test_what_is_written_can_be_what_is_saved():
    builder = Builder()
    x, g = (Value(builder, builder.input(TensorMeta((N,), F8))) for _ in range(2))
    y = x.exp()
    graph = builder.finish([(g * y).node], writes=[(0, y.node)])
    parts = check(replace(graph, checks=frozenset()), 1, 0)
    assert saved_ops(parts) == ["exp"] and parts.kept_inputs == ()


# --- what may be computed where


def test_what_raises_or_is_costly_runs_once():
    """A gather, a scan and an ordering of reductions are saved though each could be computed from the argument."""

    def program(cotangent, x, places):
        indices = places.cast(np.int64).node
        gathered = Value(x.builder, x.builder.apply("gather", x.node, indices))
        running = gathered.op("scan", reducer="add", axis=0)
        y = gathered * gathered * running
        g = cotangent(y)
        return [y], [g * 2 * gathered * running, g * gathered * gathered]

    graph = joint(program, (N,), (N,))
    for which in ("forward", "backward"):
        ops = [n.op for n in getattr(split(graph, 2, 1), which).nodes]
        assert [ops.count(op) for op in ("gather", "scan")] == [which == "forward"] * 2
    assert saved_ops(check(graph, 2)) == ["gather", "scan"]


@pytest.mark.parametrize("checks", [frozenset(), FLOAT_ERRORS], ids=["silent", "reporting"])
def test_results_of_an_op_with_several(checks):
    """The one that the program uses is saved, and so is the one that only the gradient uses: the op runs once."""
    graph = differentiated(lambda a: item(a.op("eigh", uplo="L"), 0) * 2, (30, 30))
    parts = check(replace(graph, checks=checks), 1)
    assert saved_ops(parts) == ["item"] and parts.bytes_saved == 30 * 30 * 8  # the vectors
    assert "eigh" not in [n.op for n in parts.backward.nodes]


def test_new_values_report_no_errors_in_the_forward_graph():
    """What only the gradient needs would warn there of what the program does not compute."""

    def program(cotangent, x, w):
        h = matmul(x, w)
        y = h * 2
        logarithms = h.op("log").sum([1])
        g = cotangent(y)
        return [y], [g * logarithms.reshape((30, 1)).broadcast_to(y.shape)]

    graph = joint(program, (30, 40), (40, 30))
    assert "log" in [n.op for n in split(graph, 2, 1).forward.nodes]  # the sums are fewer than what they are of
    reporting = split(replace(graph, checks=FLOAT_ERRORS), 2, 1)
    assert "log" not in [n.op for n in reporting.forward.nodes]
    assert reporting.forward.checks == FLOAT_ERRORS and reporting.backward.checks == frozenset()
    check(graph, 2)


def test_a_result_that_uses_a_cotangent_is_refused():
    with pytest.raises(AssertionError, match="uses a cotangent"):
        split(differentiated(lambda x: x.tanh(), (N,)), 1, 2)


# --- random graphs: inputs after the first are the cotangents, whatever uses them a gradient


def random_joint(seed: int, is_dynamic: bool, count: int = 24) -> tuple[Graph, int] | None:
    whole = RandomGraph(seed, count, is_dynamic)
    writes = whole.build().writes
    inputs = whole.builder.inputs
    if len(inputs) < 2:
        return None
    late = set(inputs[1:])
    for node in whole.builder.made:
        if any(i in late for i in node.inputs):
            late.add(node)
    early = [n for n in whole.nodes if n not in late]
    gradients = [n for n in whole.nodes if n in late and n.op != "input"]
    if not gradients:
        return None
    rng = random.Random(seed)
    results = rng.sample(early, min(len(early), 2))
    outputs = [*results, *rng.sample(gradients, min(len(gradients), 4)), rng.choice(early)]
    metas = [n.meta.with_(strides=()) for n in outputs]
    graph = whole.builder.finish(outputs, metas, [(k, n) for k, n in writes if k == 0 and n not in late])
    return graph, len(results)


@pytest.mark.parametrize("checks", [frozenset(), FLOAT_ERRORS], ids=["silent", "reporting"])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["fixed", "symbolic"])
def test_random_graphs(is_dynamic, checks):
    split_with_saved = 0
    for seed in range(60):
        made = random_joint(seed, is_dynamic)
        if made is None:
            continue
        graph, results = made
        parts = split(replace(graph, checks=checks), 1, results)
        split_with_saved += bool(parts.saved)
        assert set(parts.forward.symbols) | set(parts.backward.symbols) <= set(graph.symbols)
        check_random(parts, graph, 1, seed)
    assert split_with_saved > 10


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["fixed", "symbolic"])
def test_random_programs_differentiated(is_dynamic):
    differentiated = saved = 0
    for seed in range(40):
        whole = RandomGraph(seed, 14, is_dynamic)
        whole.build()
        primals = len(whole.builder.inputs)
        wrt = [x for x in whole.builder.inputs if is_differentiable(x.meta)]
        outputs = [n for n in whole.nodes[primals:][-3:] if is_differentiable(n.meta)]
        cotangents = [whole.builder.input(TensorMeta(n.shape, n.dtype)) for n in outputs]
        try:
            found = [g for g in gradients(whole.builder, outputs, cotangents, wrt) if g is not None]
        except Decline:
            continue
        results = [*outputs, *found]
        metas = [n.meta.with_(strides=()) for n in results]
        graph = replace(whole.builder.finish(results, metas), checks=frozenset())
        parts = split(graph, primals, len(outputs))
        differentiated, saved = differentiated + bool(found), saved + bool(parts.saved)
        check_random(parts, graph, primals, seed)
    assert differentiated > 15 and saved > 5


def cheapest(cut: Cut) -> float:
    """The least cost of all choices of what to save, tried one by one."""
    demanded = [n for n in cut.demanded() if n.op == "input" or OPS[n.op].kind != "leaf"]
    candidates = [n for n in topological(demanded) if cut.save_cost(n) is not None and (n.op == "input" or n.inputs)]

    def cost(saved: tuple[Node, ...]) -> float:
        total = sum(cut.save_cost(n) or 0 for n in saved)
        for node in topological(demanded, saved)[len(saved) :]:
            again = 0 if OPS[node.op].kind == "leaf" and node.op != "input" else cut.again_cost(node)
            if again is None:
                return math.inf
            total += again
        return total

    assert len(candidates) <= 12
    return min(cost(saved) for size in range(len(candidates) + 1) for saved in combinations(candidates, size))


def test_no_other_choice_costs_less():
    compared = 0
    for seed in range(120):
        made = random_joint(seed, is_dynamic=False, count=14)
        if made is None:
            continue
        graph, results = made
        program = topological([*graph.outputs[:results], *(n for _, n in graph.writes)])
        cut = Cut(graph, frozenset(graph.inputs[1:]), frozenset(program), graph.outputs[results:])
        early = [n for n in topological(cut.demanded()) if n.op == "input" or OPS[n.op].kind != "leaf"]
        if len(early) > 12:
            continue
        crossing = cut.crossing()
        computed = topological(cut.demanded(), crossing)[len(crossing) :]
        again = sum(cut.again_cost(n) or 0 for n in computed if OPS[n.op].kind != "leaf")
        assert sum(cut.save_cost(n) or 0 for n in crossing) + again == cheapest(cut)
        compared += bool(crossing)
    assert compared > 20


# --- the minimum cut


def random_network(seed: int, count: int) -> dict[tuple[int, int], int]:
    rng = random.Random(seed)
    edges: dict[tuple[int, int], int] = {}
    for i in range(count - 1):
        for _ in range(3):
            edges[i, rng.randint(i + 1, count - 1)] = rng.randint(1, 100)
    return edges


@pytest.mark.parametrize("count", [2, 5, 20, 300])
def test_minimum_cut_is_that_of_scipy(count):
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    for seed in range(10):
        edges = random_network(seed, count)
        network = Network()
        for _ in range(count):
            network.vertex()
        for (i, j), capacity in edges.items():
            network.join(i, j, capacity)
        side = network.source_side(0, count - 1)
        cut = sum(c for (i, j), c in edges.items() if i in side and j not in side)
        matrix = np.zeros((count, count), np.int32)
        for (i, j), capacity in edges.items():
            matrix[i, j] = capacity
        assert 0 in side and count - 1 not in side
        assert cut == maximum_flow(csr_array(matrix), 0, count - 1).flow_value


def test_edges_without_capacity_are_not_cut():
    network = Network()
    a, b, c = (network.vertex() for _ in range(3))
    network.join(a, b, None)
    network.join(b, c, 10**30)  # more than 64 bits hold
    assert network.source_side(a, c) == {a, b}
    endless = Network()
    a, b = endless.vertex(), endless.vertex()
    endless.join(a, b, None)
    with pytest.raises(AssertionError, match="without capacity"):
        endless.source_side(a, b)
