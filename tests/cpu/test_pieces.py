"""Programs that call NumPy between compiled pieces: what they give out is fresh, and lies in memory as promised."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import host
from npcompile.backends.registry import FloatingPointSignal, find_backend
from npcompile.tensor_core import Builder, ShapeEnv, TensorMeta
from npcompile.tensor_core.graph import Graph

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(2, 3, 5, 5))  # smaller ones are inverted by generated code


def run(graph: Graph, *arguments: object) -> tuple[np.ndarray, ...]:
    return find_backend("cpu")(graph, arguments)(*arguments)


def test_new_arrays_are_given_out_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "give_out", lambda value, meta, symbols: pytest.fail("it is asked how to give it out"))
    builder = Builder()
    x = builder.input(TensorMeta(MATRIX.shape, MATRIX.dtype))
    graph = builder.finish([builder.apply("inv", x)])
    compiled = find_backend("cpu")(graph, [MATRIX])
    assert not compiled.kernels
    (found,) = compiled(MATRIX)
    np.testing.assert_array_equal(found, np.linalg.inv(MATRIX))


def test_promised_memory_order() -> None:
    builder = Builder()
    x = builder.input(TensorMeta(MATRIX.shape, MATRIX.dtype))
    node = builder.apply("sort", x, axis=3, kind="quicksort")
    for axes in ((0, 1, 2, 3), (3, 1, 0, 2), (1, 0, 2, 3)):
        like = np.empty([MATRIX.shape[a] for a in axes]).transpose(np.argsort(axes))
        graph = builder.finish([node], [TensorMeta(like.shape, like.dtype, like.strides)])
        (found,) = run(graph, MATRIX)
        assert found.strides == like.strides and found.base is None
        np.testing.assert_array_equal(found, np.sort(MATRIX))


def test_outputs_share_no_memory() -> None:
    """One value twice, views of it, views of an argument, a constant, and parts of a pair."""
    builder = Builder()
    x = builder.input(TensorMeta((5, 5), MATRIX.dtype))
    inverse, pair = builder.apply("inv", x), builder.apply("eigh", x, uplo="L")
    flat = builder.apply("reshape", inverse, shape=(25,))
    items = [builder.apply("item", pair, index=k) for k in (0, 1)]
    turned = builder.apply("permute", x, axes=(1, 0))
    graph = builder.finish([inverse, inverse, flat, turned, x, *items, items[1], builder.constant(2.0, MATRIX.dtype)])
    argument = MATRIX[0, 0]
    outputs = run(graph, argument)
    expected = np.linalg.inv(argument), np.linalg.eigh(argument)
    wanted = [expected[0], expected[0], expected[0].ravel(), argument.T, argument, *expected[1], expected[1][1], 2.0]
    for k, (ours, theirs) in enumerate(zip(outputs, wanted, strict=True)):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.base is None and ours.flags.writeable
        assert not any(np.shares_memory(ours, other) for other in (*outputs[:k], argument))


def test_writes_come_last() -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((5, 5), MATRIX.dtype)) for _ in range(2))
    inverse = builder.apply("inv", x)
    graph = builder.finish(
        [inverse, builder.apply("add", x, y)], writes=[(0, inverse), (1, builder.apply("permute", x, axes=(1, 0)))]
    )
    a, b = MATRIX[0, 0].copy(), MATRIX[0, 1].copy()
    first, second = run(graph, a, b)
    np.testing.assert_array_equal(a, np.linalg.inv(MATRIX[0, 0]))
    np.testing.assert_array_equal(b, MATRIX[0, 0].T)
    np.testing.assert_array_equal(second, MATRIX[0, 0] + MATRIX[0, 1])
    assert not np.shares_memory(first, a)
    singular = np.zeros((4, 4))
    with pytest.raises(np.linalg.LinAlgError):
        run(graph, singular, b)
    np.testing.assert_array_equal(singular, 0)


def test_symbolic_sizes() -> None:
    env = ShapeEnv()
    builder = Builder(env)
    n = env.symbol("s0", 5, 1)
    x = builder.input(TensorMeta((n, 3), np.dtype(float)))
    spectrum = builder.apply("fft", x, n=n * 2, axis=0, norm="backward")
    doubled = builder.apply("reshape", builder.apply("add", spectrum, spectrum), shape=(n * 6,))
    graph = builder.finish([spectrum, doubled])
    compiled = find_backend("cpu")(graph, [np.ones((5, 3))])
    for size in (5, 8, 1):
        data = RNG.normal(size=(size, 3))
        ours = compiled(data, size)
        np.testing.assert_array_equal(ours[0], np.fft.fft(data, 2 * size, axis=0))
        np.testing.assert_array_equal(ours[1], 2 * ours[0].ravel())


@pytest.mark.parametrize(("state", "signals"), [("warn", True), ("raise", True), ("ignore", False)])
def test_floating_point_errors(state: str, signals: bool) -> None:
    builder = Builder()
    x = builder.input(TensorMeta((2, 2), np.dtype(float)))
    graph = builder.finish([builder.apply("det", x)])
    assert "invalid" in graph.checks
    compiled = find_backend("cpu")(graph, [np.eye(2)])
    before = np.geterr()
    with np.errstate(all=state):
        assert compiled(np.eye(2))[0] == 1
        if signals:
            with pytest.raises(FloatingPointSignal):
                compiled(np.full((2, 2), np.inf))
        else:
            assert np.isnan(compiled(np.full((2, 2), np.inf))[0])
    assert np.geterr() == before


def test_functions_of_numpy_with_numbers_that_are_known() -> None:
    """What they are given may be made in the program alone."""

    def sums(x):
        return np.add.reduceat(x * 2, [0, 3, 5]), np.polymul([1.0, 2.0], x[:3])

    compiled, x = npc.compile(sums, fullgraph=True), np.arange(9.0)
    for _ in range(2):
        for ours, theirs in zip(compiled(x), sums(x), strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)
