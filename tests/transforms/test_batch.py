"""Batched programs against a loop over the examples: every op of the table, and random programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core import OPS, Builder, Decline, TensorMeta
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.op import Op
from npcompile.tensor_core.ops.special import FORMS
from npcompile.tensor_core.transforms.batch import batch
from tests.backends import BACKENDS
from tests.cpu.random_graphs import RandomGraph, arrays_for
from tests.ops.table import thin
from tests.transforms.cases import CASES, Case, apply_numpy, close, execute, meta_of, results_of, stacked, unique

# How the examples lie in memory: from an array with the batch axis outermost to the same numbers in another order.
LAYOUTS = {
    "outermost": lambda x: x,
    "innermost": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0),
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
}
# Of elementwise ops one stands for all.
SYMBOLIC = sorted({name for name in CASES if OPS[name].kind != "elementwise"} | {"add"})
Call = tuple[Case, tuple[int, ...]]  # which operands are batched


def calls_of(backend: str, name: str, count: int = 8) -> list[Call]:
    return thin(backend, [(case, subset) for case in CASES[name] for subset in case.subsets()], count)


def check_calls(
    backend: str, calls: Sequence[Call], counts: Sequence[int] = (3,), layout: str = "outermost", *, symbolic: bool = False
) -> None:
    """All calls as outputs of one graph, which runs for each number of examples in `counts`."""
    builder = Builder()
    size: Size = builder.env.symbol("size", counts[0], at_least=2) if symbolic else counts[0]
    outputs: list[Node] = []
    values: list[list[np.ndarray]] = [[] for _ in counts]
    wanted: list[list[tuple[str, list[np.ndarray]]]] = [[] for _ in counts]
    for case, subset in calls:
        rng = np.random.default_rng(5)
        examples = [case.make(rng) for _ in range(max(*counts, 1))]
        plain = [builder.input(meta_of(x)) for x in examples[0]]
        batched = {}
        for each in values:
            each += examples[0]
        for k in subset:
            stacks = [LAYOUTS[layout](stacked([x[k] for x in examples[:n]], plain[k].meta)) for n in counts]
            meta = TensorMeta((size, *plain[k].shape), plain[k].dtype) if symbolic else meta_of(stacks[0])
            batched[plain[k]] = builder.input(meta)
            for each, stack in zip(values, stacks):
                each.append(stack)
        results = results_of(builder, builder.apply(case.op, *plain, **case.params))
        for result, (new, is_batched) in zip(results, batch(builder, results, batched, size)):
            assert is_batched and new.dtype == result.dtype and new.shape == (size, *result.shape)
            outputs.append(new)
        loop = [apply_numpy(case, [x[k] if k in subset else examples[0][k] for k in range(len(x))]) for x in examples]
        for each, n in zip(wanted, counts):
            each.append((case.op, [stacked([x[k] for x in loop[:n]], result.meta) for k, result in enumerate(results)]))
    graph = builder.finish(outputs)
    for count, given, expected in zip(counts, values, wanted):
        found = iter(execute(backend, graph, [*given, *(count for _ in graph.symbols)]))
        for op, ones in expected:
            ours = list(islice(found, len(ones)))
            pair = (unique(op, ours), unique(op, ones)) if backend == "cuda" else (ours, ones)
            for result, one in zip(*pair, strict=True):
                close(result, one)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("backend", BACKENDS)
def test_op_of_a_batch_is_the_op_of_each_example(backend: str, name: str) -> None:
    check_calls(backend, calls_of(backend, name))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_size_and_memory_order_of_the_batch(count: int, layout: str) -> None:
    for name in CASES:
        check_calls("eager", calls_of("eager", name), (count,), layout)


@pytest.mark.parametrize("name", SYMBOLIC)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_size_of_the_batch_may_be_symbolic(backend: str, name: str) -> None:
    check_calls(backend, calls_of(backend, name, 4), (3, 5), symbolic=True)


@pytest.mark.parametrize("name", ["permute", "slice", "reduce", "gather", "scatter", "einsum", "where"])
def test_cpu_runs_batches_in_any_memory_order(name: str) -> None:
    for layout in ("innermost", "reversed"):
        check_calls("cpu", calls_of("cpu", name, 4), (3,), layout)


def test_every_op_is_tested() -> None:
    leaves = {name for name, op in OPS.items() if op.kind == "leaf"}  # nothing batched enters them
    elsewhere = {name for name, op in OPS.items() if op.kind == "control"}  # test_control.py
    without = {"item", "call"}  # what picks the results of svd, say, apart; functions of the user's, which have no rule
    without |= {
        "whole",
        "whole_sized",
        "argwhere",
        "selected",
        "bins",
    }  # nor have those that run as NumPy's, or have sizes that data decides
    without |= {"by_numpy", "as_numpy", *FORMS}  # made after batches
    without |= {"numpy_product"}  # each example is NumPy's own call
    assert set(OPS) - leaves - elsewhere - without == set(CASES)


def test_what_depends_on_nothing_batched_stays_the_same_node() -> None:
    builder = Builder()
    x, y, xs = (builder.input(TensorMeta(shape, np.dtype(float))) for shape in ((3,), (3,), (5, 3)))
    only_y = builder.apply("sin", y)
    leaf = builder.apply("index", shape=(3,), axis=0)
    mixed = builder.apply("multiply", x, only_y)
    (a, a_batched), (b, b_batched), (c, c_batched), (d, d_batched) = batch(builder, [only_y, leaf, mixed, x], {x: xs}, 5)
    assert a is only_y and b is leaf and d is xs
    assert (a_batched, b_batched, c_batched, d_batched) == (False, False, True, True)
    assert only_y in c.inputs[1].inputs  # computed once, not once for each example


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_out_of_bounds_in_one_example_raises(backend: str) -> None:
    builder = Builder()
    x, i, indices = (builder.input(TensorMeta(s, np.dtype(d))) for s, d in (((4,), "d"), ((2,), "l"), ((3, 2), "l")))
    ((node, _),) = batch(builder, [builder.apply("gather", x, i)], {i: indices}, 3)
    places = np.array([[0, 1], [2, 3], [-4, 3]])
    (result,) = execute(backend, builder.finish([node]), [np.arange(4.0), places[0], places])
    np.testing.assert_array_equal(result, np.arange(4.0)[places])
    places[1, 1] = 4
    with pytest.raises(IndexError):
        execute(backend, builder.finish([node]), [np.arange(4.0), places[0], places])


def test_an_op_without_a_rule_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS._rows, "unknown", Op("unknown", "unknown kind", lambda x: x, lambda x: x))
    builder = Builder()
    x, xs = (builder.input(TensorMeta(shape, np.dtype(float))) for shape in ((3,), (5, 3)))
    with pytest.raises(Decline, match="unknown cannot be batched"):
        batch(builder, [builder.apply("unknown", x)], {x: xs}, 5)
    monkeypatch.setitem(OPS._rows, "fft", replace(OPS["fft"], stacks=False))
    with pytest.raises(Decline, match="fft cannot be batched"):
        batch(builder, [builder.apply("fft", x, n=3, axis=0, norm="backward")], {x: xs}, 5)


# --- random programs, once and twice batched


def batched_inputs(graph: Graph, rng: random.Random, size: Size, builder: Builder) -> dict[Node, Node]:
    """Some of the inputs, with an axis of `size`."""
    chosen = rng.sample(graph.inputs, rng.randint(1, len(graph.inputs)))
    return {x: builder.input(TensorMeta((size, *x.shape), x.dtype)) for x in chosen}


def examples_of(graph: Graph, sizes: dict[str, int], count: int, seed: int) -> list[list[np.ndarray]]:
    return [arrays_for(graph, sizes, seed + k)[: len(graph.inputs)] for k in range(count)]


def run_each(graph: Graph, sizes: dict[str, int], examples: Sequence[Sequence[Any]]) -> list[np.ndarray]:
    """Every result of every example: one array for each result."""
    symbols = [sizes[name] for name in graph.symbols]
    each = [execute("eager", graph, [*arrays, *symbols]) for arrays in examples]
    return [np.array(results) for results in zip(*each)]


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(
    ("backend", "seed"),
    [pytest.param(*b.values, seed, marks=b.marks) for b in BACKENDS for seed in range(40 if b is BACKENDS[0] else 10)],
)
def test_random_program(backend: str, seed: int, is_dynamic: bool) -> None:
    program = RandomGraph(seed, 12, is_dynamic)
    program.build()
    builder, rng, sizes = program.builder, random.Random(seed), {"n": 4, "m": 3, "size": 3}
    plain = builder.finish(program.nodes[-3:])
    size: Size = builder.env.symbol("size", 3, at_least=2) if is_dynamic else 3
    batched = batched_inputs(plain, rng, size, builder)
    made = batch(builder, plain.outputs, batched, size)
    graph = builder.finish([node for node, _ in made])
    if is_dynamic:
        sizes |= {"n": 6, "size": 5}
    examples = examples_of(plain, sizes, sizes["size"], 100 * seed)
    examples = [[x[k] if node in batched else examples[0][k] for k, node in enumerate(plain.inputs)] for x in examples]
    stacks = [np.array([x[k] for x in examples]) for k, node in enumerate(plain.inputs) if node in batched]
    order = {node: k for k, node in enumerate(node for node in plain.inputs if node in batched)}
    given = [*examples[0], *(stacks[order[node]] for node in batched)]
    results = execute(backend, graph, [*given, *(sizes[name] for name in graph.symbols)])
    for result, wanted, (_, is_batched) in zip(results, run_each(plain, sizes, examples), made):
        close(result, wanted if is_batched else wanted[0], 1e4)


@pytest.mark.parametrize("seed", range(40))
def test_batch_of_a_batch(seed: int) -> None:
    program = RandomGraph(seed, 10, False)
    program.build()
    builder, rng = program.builder, random.Random(seed)
    plain = builder.finish(program.nodes[-3:])
    inner = batched_inputs(plain, rng, 2, builder)
    once = builder.finish([node for node, _ in batch(builder, plain.outputs, inner, 2)])
    outer = batched_inputs(once, rng, 3, builder)
    made = batch(builder, once.outputs, outer, 3)
    graph = builder.finish([node for node, _ in made])
    examples = examples_of(once, {}, 3, 100 * seed)
    examples = [[x[k] if node in outer else examples[0][k] for k, node in enumerate(once.inputs)] for x in examples]
    given = [*examples[0], *(np.array([x[once.inputs.index(node)] for x in examples]) for node in outer)]
    results = execute("eager", graph, given)
    for result, wanted, (_, is_batched) in zip(results, run_each(once, {}, examples), made):
        close(result, wanted if is_batched else wanted[0], 1e4)
