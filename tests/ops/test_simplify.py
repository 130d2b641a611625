"""Simplified graphs give the same answers to the bit, and the rules fire where they should and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Builder, Graph, ShapeEnv, TensorMeta
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.simplify import simplify
from tests.ops.table import numbers

F8, F4, F2, I8, I4, I2, U1, BOOL, C16 = map(np.dtype, ("f8", "f4", "f2", "i8", "i4", "i2", "u1", "?", "c16"))


def run(graph: Graph, inputs: list[np.ndarray], symbols: tuple[int, ...] = ()) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in compile_eager(graph, inputs)(*inputs, *symbols)]


def assert_same_bits(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Equal, also in the sign of zero; any NaN equals any NaN."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    parts = [(ours.real, theirs.real), (ours.imag, theirs.imag)] if ours.dtype.kind == "c" else [(ours, theirs)]
    for a, b in parts:
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            number = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))


def simplified(make: Callable[..., Node], *arrays: np.ndarray) -> list[str]:
    """The ops that remain of make(builder, *inputs); the answers are checked to be unchanged."""
    builder = Builder()
    inputs = [builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in arrays]
    graph = builder.finish([make(builder, *inputs)])
    small = simplify(graph)
    assert_same_bits(*run(small, list(arrays)), *run(graph, list(arrays)))
    return [n.op for n in small.nodes if n.op != "input"]


def full(builder: Builder, value: Any, like: Node) -> Node:
    return builder.apply("broadcast_to", builder.constant(value, like.dtype), shape=like.shape)


def sample(dtype: np.dtype, shape: tuple[int, ...] = (2, 3, 4)) -> np.ndarray:
    return numbers(dtype, np.random.default_rng(0), shape)


GONE: list[str] = []


@pytest.mark.parametrize(
    ("op", "value", "dtype", "remain"),
    [
        ("multiply", 1, F8, GONE),
        ("multiply", 1, I4, GONE),
        ("multiply", 1, C16, ["constant", "broadcast_to", "multiply"]),
        ("add", 0.0, F8, ["constant", "broadcast_to", "add"]),
        ("add", -0.0, F8, GONE),
        ("add", 0, I8, GONE),
        ("add", complex(-0.0, -0.0), C16, GONE),
        ("add", complex(-0.0, 0.0), C16, ["constant", "broadcast_to", "add"]),
        ("subtract", 0.0, F8, GONE),
        ("subtract", -0.0, F8, ["constant", "broadcast_to", "subtract"]),
        ("subtract", 0.0, C16, GONE),
        ("divide", 1.0, F4, GONE),
        ("divide", 2.0, F4, ["constant", "broadcast_to", "divide"]),
        ("power", 1, F8, GONE),
        ("bitwise_or", 0, U1, GONE),
        ("left_shift", 0, I4, GONE),
    ],
)
def test_neutral_operands(op: str, value: Any, dtype: np.dtype, remain: list[str]) -> None:
    assert simplified(lambda b, x: b.apply(op, x, full(b, value, x)), sample(dtype)) == remain


@pytest.mark.parametrize(
    ("source", "middle", "target", "casts"),
    [
        (I4, F8, I8, 1),
        (I4, F8, I2, 2),
        (I4, F8, F4, 1),
        (I4, I8, F4, 1),
        (I8, F8, F4, 2),
        (U1, I8, I4, 1),
        (I4, U1, I8, 2),
        (F4, F8, F4, 0),
        (F8, F4, F8, 2),
        (F4, C16, F8, 1),
        (I4, F8, F2, 2),
        (BOOL, F8, U1, 1),
        (BOOL, F4, BOOL, 0),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_cast_of_cast(source: np.dtype, middle: np.dtype, target: np.dtype, casts: int) -> None:
    make = lambda b, x: b.apply("cast", b.apply("cast", x, dtype=middle), dtype=target)  # noqa: E731
    assert len(simplified(make, numbers(source, np.random.default_rng(0), ordinary=source.kind == "f"))) == casts


MOVES = {
    "reshape to its own shape": (lambda b, x: b.apply("reshape", x, shape=x.shape), GONE),
    "reshape of reshape": (lambda b, x: b.apply("reshape", b.apply("reshape", x, shape=(24,)), shape=(4, 6)), ["reshape"]),
    "permute in order": (lambda b, x: b.apply("permute", x, axes=(0, 1, 2)), GONE),
    "permute and back": (lambda b, x: b.apply("permute", b.apply("permute", x, axes=(1, 2, 0)), axes=(2, 0, 1)), GONE),
    "permute of permute": (lambda b, x: b.apply("permute", b.apply("permute", x, axes=(1, 2, 0)), axes=(1, 2, 0)), ["permute"]),
    "broadcast to its own shape": (lambda b, x: b.apply("broadcast_to", x, shape=x.shape), GONE),
    "slice of everything": (lambda b, x: cut(b, x, (0, 0, 0), (1, 1, 1), (2, 3, 4)), GONE),
    "slice of slice": (
        lambda b, x: cut(b, cut(b, x, (1, 2, 3), (-1, -1, -1), (2, 3, 4)), (0, 1, 1), (1, 1, 2), (2, 2, 2)),
        ["slice"],
    ),
    "concatenate one": (lambda b, x: b.apply("concatenate", x, axis=1), GONE),
    "concatenate empty": (lambda b, x: b.apply("concatenate", cut(b, x, (0, 0, 0), (1, 1, 1), (2, 0, 4)), x, axis=1), GONE),
    "negative of negative": (lambda b, x: b.apply("negative", b.apply("negative", x)), GONE),
    "where with equal arms": (lambda b, x: b.apply("where", b.apply("isnan", x), x, x), GONE),
    "where true": (
        lambda b, x: b.apply("where", b.apply("broadcast_to", b.constant(True, BOOL), shape=x.shape), x, full(b, 2, x)),
        GONE,
    ),
    "where not": (
        lambda b, x: b.apply("where", b.apply("logical_not", b.apply("isnan", x)), x, full(b, 2, x)),
        ["isnan", "constant", "broadcast_to", "where"],
    ),
    "maximum over no axes": (lambda b, x: b.apply("reduce", x, reducer="maximum", axes=()), GONE),
    "sum over no axes": (lambda b, x: b.apply("reduce", x, reducer="add", axes=()), ["constant", "broadcast_to", "add"]),
    "parts joined": (lambda b, x: b.apply("real", b.apply("complex", x, b.apply("negative", x))), GONE),
    "constants": (
        lambda b, x: b.apply("multiply", x, b.apply("add", full(b, 2, x), full(b, 3, x))),
        ["constant", "broadcast_to", "multiply"],
    ),
    "a constant that sets a flag": (
        lambda b, x: b.apply("add", x, b.apply("divide", full(b, 1, x), full(b, 0, x))),
        ["constant", "constant", "divide", "broadcast_to", "add"],
    ),
}


def cut(builder: Builder, x: Node, start: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    return builder.apply("slice", x, start=start, step=step, shape=shape)


@pytest.mark.parametrize("name", MOVES)
def test_rule(name: str) -> None:
    make, remain = MOVES[name]
    assert simplified(make, sample(F8)) == remain


def update(builder: Builder, x: Node, value: Node, start: int, step: int = 1) -> Node:
    return builder.apply("slice_update", x, value, start=(start,), step=(step,))


UPDATES = {
    "read what was written": (lambda b, x, v: cut(b, update(b, x, v, 2), (2,), (1,), (3,)), GONE),
    "read a part of it": (lambda b, x, v: cut(b, update(b, x, v, 2), (4,), (-2,), (2,)), ["slice"]),
    "read a part of a reversed one": (lambda b, x, v: cut(b, update(b, x, v, 8, -2), (6,), (1,), (1,)), ["slice"]),
    "read beside it": (lambda b, x, v: cut(b, update(b, x, v, 2), (5,), (1,), (4,)), ["slice"]),
    "read between it": (lambda b, x, v: cut(b, update(b, x, v, 2, 2), (3,), (2,), (3,)), ["slice"]),
    "read across it": (lambda b, x, v: cut(b, update(b, x, v, 2), (4,), (1,), (3,)), ["slice_update", "slice"]),
    "write twice": (lambda b, x, v: update(b, update(b, x, v, 2), b.apply("negative", v), 2), ["negative", "slice_update"]),
    "write what is there": (lambda b, x, v: update(b, x, cut(b, x, (2,), (2,), (3,)), 2, 2), GONE),
    "write nothing": (lambda b, x, v: update(b, x, cut(b, v, (0,), (1,), (0,)), 2), GONE),
    "write everything": (lambda b, x, v: update(b, v, cut(b, x, (3,), (1,), (3,)), 0), ["slice"]),
    "write everything reversed": (lambda b, x, v: update(b, v, cut(b, x, (3,), (1,), (3,)), 2, -1), ["slice", "slice_update"]),
}


@pytest.mark.parametrize("name", UPDATES)
def test_update_rule(name: str) -> None:
    make, remain = UPDATES[name]
    assert simplified(make, sample(F8, (10,)), sample(F8, (3,))) == remain


def test_writes_outputs_and_names_stay() -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((3,), F8)) for _ in range(2))
    twice = builder.apply("multiply", builder.apply("add", x, x), full(builder, 1, x))
    same = builder.apply("positive", y)
    order = TensorMeta((3,), F8, boxed=True)
    graph = simplify(builder.finish([twice, same], [order, order], [(0, twice), (1, same)], "step"))
    assert [graph.name, len(graph.inputs), graph.metas] == ["step", 2, (order, order)]
    assert [index for index, _ in graph.writes] == [0]  # input 1 would be written with itself
    a, b = np.arange(3.0), np.ones(3)
    outputs = run(graph, [a, b])
    np.testing.assert_array_equal(outputs[0], [0, 2, 4])
    np.testing.assert_array_equal(a, [0, 2, 4])
    assert not np.shares_memory(outputs[1], b)


def test_errors_are_reported_for_what_remains() -> None:
    builder = Builder()
    x, y = builder.input(TensorMeta((3,), F8)), builder.input(TensorMeta((3,), I8))
    assert simplify(builder.finish([builder.apply("square", x)])).checks == {"divide", "over", "under", "invalid"}
    assert not simplify(builder.finish([builder.apply("negative", builder.apply("negative", x)), y])).checks


def test_symbolic_sizes_ask_nothing() -> None:
    env = ShapeEnv()
    n, m = env.symbol("n", 4, at_least=2), env.symbol("m", 3, at_least=2)
    builder = Builder(env=env)
    x = builder.input(TensorMeta((n, m), F8))
    flat = builder.apply("reshape", builder.apply("reshape", x, shape=(n * m,)), shape=(m, n))
    edge = builder.apply(
        "slice",
        builder.apply("slice", x, start=(1, 0), step=(1, 1), shape=(n - 1, m)),
        start=(0, 1),
        step=(1, 1),
        shape=(n - 1, m - 1),
    )
    back = builder.apply("reshape", edge, shape=(n - 1, m - 1))
    count = builder.apply("cast", builder.apply("size", value=n), dtype=F8)
    graph = builder.finish([flat, back, count])
    guards = dict(env.guards)
    small = simplify(graph)
    assert env.guards == guards
    assert set(small.symbols) == {"n", "m"}
    assert sorted(node.op for node in small.nodes) == ["cast", "input", "reshape", "size", "slice"]
    array = np.arange(12.0).reshape(4, 3)
    values = {"n": 4, "m": 3}
    ours = run(small, [array], tuple(values[s] for s in small.symbols))
    theirs = run(graph, [array], tuple(values[s] for s in graph.symbols))
    for a, b in zip(ours, theirs):
        assert_same_bits(a, b)


# --- random programs

NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0)
UNARY = ("negative", "positive", "absolute", "square", "conjugate", "logical_not", "isnan", "floor", "invert")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "bitwise_or", "power", "left_shift", "logical_and", "less")
CASTS = (F8, F4, I8, I4, U1, BOOL, F2)


def random_step(builder: Builder, pool: list[Node], draw: random.Random) -> Node:
    x = draw.choice(pool)
    ndim = x.meta.ndim
    match draw.randrange(11):
        case 0:
            return builder.apply(draw.choice(UNARY), x)
        case 1 | 2:
            others = [y for y in pool if y.shape == x.shape and y.dtype == x.dtype]
            y = (
                full(builder, draw.choice(NUMBERS if x.dtype.kind in "fc" else (0, 1)), x)
                if draw.random() < 0.5
                else draw.choice(others)
            )
            return builder.apply(draw.choice(BINARY), *draw.sample((x, y), 2))
        case 3:
            return builder.apply("cast", x, dtype=draw.choice(CASTS))
        case 4:
            y = draw.choice([y for y in pool if y.shape == x.shape and y.dtype == x.dtype])
            truth = draw.choice([y for y in pool if y.shape == x.shape])
            truth = builder.apply("cast", truth, dtype=BOOL)
            if draw.random() < 0.3:
                truth = full(builder, draw.random() < 0.5, truth)
            return builder.apply("where", truth, x, y)
        case 5:
            return builder.apply("permute", x, axes=tuple(draw.sample(range(ndim), ndim)))
        case 6:
            return builder.apply("reshape", x, shape=tuple(draw.sample(x.shape, ndim)) if draw.random() < 0.7 else (x.meta.size,))
        case 7:
            return cut(builder, x, *random_region(x.shape, draw))
        case 8:
            start, step, shape = random_region(x.shape, draw)
            values = [y for y in pool if y.shape == shape and y.dtype == x.dtype]
            value = draw.choice(values) if values else cut(builder, x, *same_size_region(x.shape, shape, draw))
            return builder.apply("slice_update", x, value, start=start, step=step)
        case 9:
            axes = tuple(sorted(draw.sample(range(ndim), draw.randint(0, ndim))))
            reducer = draw.choice(["add", "multiply", "maximum"])
            if x.meta.size == 0 or x.dtype == BOOL and reducer != "maximum":
                return x
            return builder.apply("reduce", x, reducer=reducer, axes=axes)
        case _:
            others = [y for y in pool if y.shape == x.shape and y.dtype == x.dtype]
            return builder.apply("concatenate", x, draw.choice(others), axis=draw.randrange(ndim)) if ndim else x


def random_region(shape: tuple[int, ...], draw: random.Random) -> tuple[tuple[int, ...], ...]:
    start, step, length = [], [], []
    for n in shape:
        stride = draw.choice((1, 1, 1, 2, -1, -2))
        most = (n + abs(stride) - 1) // abs(stride)
        count = most if draw.random() < 0.4 else draw.randint(0, most)
        room = n - (count - 1) * abs(stride) - 1 if count else 0
        first = draw.randint(0, max(room, 0))
        start.append(first if stride > 0 else first + (count - 1) * abs(stride) if count else 0)
        step.append(stride)
        length.append(count)
    return tuple(start), tuple(step), tuple(length)


def same_size_region(shape: tuple[int, ...], wanted: tuple[int, ...], draw: random.Random) -> tuple[tuple[int, ...], ...]:
    return tuple(draw.randint(0, n - m) for n, m in zip(shape, wanted)), (1,) * len(shape), wanted


def random_graph(seed: int, steps: int) -> tuple[Graph, list[np.ndarray]]:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    builder = Builder()
    arrays = [
        numbers(d, rng, shape)
        for d, shape in ((F8, (2, 3)), (F8, (2, 3)), (I4, (2, 3)), (F4, (3, 1)), (C16, (2, 2)), (BOOL, (4,)))
    ]
    pool = [builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in arrays]
    while len(pool) < len(arrays) + steps:
        # A type that the ufunc has no loop for, or that its loop would cast, is not a node that the shim makes.
        try:
            node = random_step(builder, pool, draw)
        except (TypeError, AssertionError):
            continue
        if node.op == "power" and node.dtype.kind == "i":
            continue
        if node.meta.size <= 64:
            pool.append(node)
    return builder.finish(pool[len(arrays) :]), arrays


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10**9))
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_random_graphs_keep_their_answers(seed: int) -> None:
    graph, arrays = random_graph(seed, steps=25)
    small = simplify(graph)
    assert len(small.nodes) <= len(graph.nodes) + 2 * sum(n.op == "reduce" for n in graph.nodes)
    for node, a, b in zip(graph.outputs, run(small, arrays), run(graph, arrays)):
        try:
            assert_same_bits(a, b)
        except AssertionError as error:
            raise AssertionError(f"{node}\n{graph}\n{small}\n{error}") from None


def test_what_nothing_simplifies_is_the_same_nodes() -> None:
    """None is made again, nor its meta found again; and the order of the nodes is found once."""
    builder = Builder()
    x, y = (builder.input(TensorMeta((3, 4), np.dtype("f8"))) for _ in range(2))
    graph = builder.finish([builder.apply("sin", builder.apply("multiply", x, y))])
    simpler = simplify(graph)
    assert simpler.nodes == graph.nodes
    assert simpler.with_(name="another").nodes is simpler.nodes
