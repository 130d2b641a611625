"""A floating-point error leaves the arguments of a compiled graph as they were."""

from dataclasses import replace

import numpy as np
import pytest

from npcompile.backends.cpu.backend import compile_cpu
from npcompile.backends.eager import compile_eager
from npcompile.backends.registry import FloatingPointSignal
from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder
from npcompile.tensor_core.meta import TensorMeta
from tests.cpu.plans import keeps_what_it_overwrites
from tests.cpu.random_graphs import RandomGraph, arrays_for

F8 = np.dtype(np.float64)
LAYOUTS = {
    "contiguous": lambda: np.arange(12.0).reshape(3, 4),
    "transposed": lambda: np.arange(12.0).reshape(4, 3).T,
    "reversed": lambda: np.arange(12.0).reshape(3, 4)[::-1, ::-1],
    "strided": lambda: np.arange(48.0).reshape(6, 8)[::2, 1::2],
}


def whole(builder, x, y):
    return builder.apply("add", x, builder.apply("divide", x, y))


def part(builder, x, y):
    region = {"start": (0, 1), "step": (1, 2)}
    quotient = builder.apply("divide", *(builder.apply("slice", n, **region, shape=(3, 2)) for n in (x, y)))
    return builder.apply("slice_update", x, quotient, **region)


def parts_that_overlap(builder, x, y):
    for start in ((0, 0), (1, 1), (0, 2)):
        region = {"start": start, "step": (1, 1)}
        quotient = builder.apply("divide", *(builder.apply("slice", n, **region, shape=(2, 2)) for n in (x, y)))
        x = builder.apply("slice_update", x, quotient, **region)
    return x


def part_then_whole(builder, x, y):
    return whole(builder, part(builder, x, y), y)


def read_elsewhere(builder, x, y):
    turned = builder.apply("slice", x, start=(2, 3), step=(-1, -1), shape=(3, 4))
    return builder.apply("divide", turned, y)


def part_backwards(builder, x, y):
    region = {"start": (2, 3), "step": (-2, -1)}
    quotient = builder.apply("divide", *(builder.apply("slice", n, start=(0, 0), step=(1, 1), shape=(2, 4)) for n in (y, y)))
    return builder.apply(
        "slice_update", x, builder.apply("divide", quotient, builder.apply("slice", y, **region, shape=(2, 4))), **region
    )


WRITES = (whole, part, part_backwards, parts_that_overlap, part_then_whole, read_elsewhere)


def written_graph(new_contents, x, y):
    """x is replaced by what `new_contents` makes of both."""
    builder = Builder()
    nodes = [builder.input(TensorMeta(a.shape, a.dtype, a.strides)) for a in (x, y)]
    return replace(builder.finish([nodes[1]], writes=[(0, new_contents(builder, *nodes))]), restored=frozenset([0]))


@pytest.mark.parametrize("compile_graph", [compile_cpu, compile_eager])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("new_contents", WRITES, ids=lambda f: f.__name__)
def test_signal_leaves_the_argument(new_contents, layout, compile_graph):
    x, y, harmless = LAYOUTS[layout](), np.ones((3, 4)), np.full((3, 4), 2.0)
    y[1, 1] = 0
    run = compile_graph(written_graph(new_contents, x, y), ())
    memory = x.base.copy()
    with pytest.raises(FloatingPointSignal):
        run(x, y)
    np.testing.assert_array_equal(x.base, memory)
    want = x.copy()
    compile_eager(written_graph(new_contents, want, harmless), ())(want, harmless)
    run(x, harmless)
    np.testing.assert_array_equal(x, want)
    assert not np.array_equal(x.base, memory)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (1, 1)])
def test_few_elements(shape):
    x, y = np.full(shape, 3.0), np.zeros(shape)
    run = compile_cpu(written_graph(whole, x, y))
    if x.size:
        with pytest.raises(FloatingPointSignal):
            run(x, y)
        assert (x == 3).all()
    run(x, y + 1)
    assert (x == 6).all()


def test_sizes_that_are_not_fixed():
    env = ShapeEnv()
    n = env.symbol("n", 5, at_least=2)
    builder = Builder(env=env)
    x, y = (builder.input(TensorMeta((n,), F8)) for _ in range(2))
    region = {"start": (1,), "step": (1,)}
    quotient = builder.apply("divide", *(builder.apply("slice", a, **region, shape=(n - 1,)) for a in (x, y)))
    graph = builder.finish([], writes=[(0, builder.apply("slice_update", x, quotient, **region))])
    run = compile_cpu(replace(graph, restored=frozenset([0])))
    for size in (5, 1000, 300_000):
        data = np.arange(1.0, size + 1)
        with pytest.raises(FloatingPointSignal):
            run(data, np.where(np.arange(size) == size - 1, 0, 2.0), size)
        np.testing.assert_array_equal(data, np.arange(1.0, size + 1))
        run(data, np.full(size, 2.0), size)
        assert data[0] == 1 and (data[1:] == np.arange(2.0, size + 1) / 2).all()


def test_nothing_is_kept_of_what_is_not_read():
    builder = Builder()
    _, y = (builder.input(TensorMeta((5,), F8)) for _ in range(2))
    graph = builder.finish([], writes=[(0, builder.apply("divide", y, y))])
    assert not keeps_what_it_overwrites(graph)
    assert keeps_what_it_overwrites(replace(graph, restored=frozenset([0])))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_random_graphs(is_dynamic):
    signals = 0
    for seed in range(10):
        graph = RandomGraph(seed, 12, is_dynamic=is_dynamic).build()
        graph = replace(graph, checks=FLOAT_ERRORS, restored=frozenset(k for k, _ in graph.writes))
        inputs = arrays_for(graph, {"n": 4, "m": 3}, seed)[: len(graph.inputs)]
        for x in inputs:
            if x.dtype == F8:
                x.flat[1] = np.inf
        before = [x.copy() for x in inputs]
        run = compile_cpu(graph) if graph.writes else None
        try:
            if run is not None:
                run(*inputs, *({"n": 4, "m": 3}[s] for s in graph.symbols))
        except FloatingPointSignal:
            signals += 1
            for x, old in zip(inputs, before):
                np.testing.assert_array_equal(x, old)
    assert signals > 2
