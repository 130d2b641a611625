"""Gathers and scatters without indices: nothing is read or written, so there is nothing to check.

NumPy gives empty arrays strides of 0: no loop moves the place of an index, and its check may stand before the empty loop.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.backend import compile_cpu
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.graph import Node


def compiled(make: Callable[..., Node], *arrays: np.ndarray) -> np.ndarray:
    builder = Builder()
    nodes = [builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in arrays]
    (found,) = compile_cpu(builder.finish([make(builder, *nodes)]))(*arrays)
    return found


@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_scatter(shape: tuple[int, ...], mode: str) -> None:
    x = np.arange(12.0).reshape(3, 4)
    found = compiled(lambda b, *xs: b.apply("scatter", *xs, mode=mode), x, np.ones((*shape, 4)), np.zeros(shape, np.int64))
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(("shape", "axes"), [((0,), (0,)), ((2, 0), (1,)), ((0, 2), (0,)), ((2, 0), (0, 1))])
def test_sum_of_gathered_elements(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    def make(builder: Builder, x: Node, places: Node) -> Node:
        return builder.apply("reduce", builder.apply("gather", x, places), reducer="add", axes=axes)

    x, places = np.arange(3.0), np.zeros(shape, np.int64)
    np.testing.assert_array_equal(compiled(make, x, places), x[places].sum(axes))


@pytest.mark.parametrize("rows", [2, 4])
def test_sum_over_a_symbolic_size_that_may_be_0(rows: int) -> None:
    """The index is the same for all elements of a part that has rows - 2 of them."""
    builder = Builder()
    n = builder.env.symbol("n", 4, at_least=2)
    x, place = (builder.input(TensorMeta(shape, np.dtype(dtype))) for shape, dtype in (((n,), float), ((), np.int64)))
    places = builder.apply("broadcast_to", place, shape=(n - 2,))
    total = builder.apply("reduce", builder.apply("gather", x, places), reducer="add", axes=(0,))
    run = compile_cpu(builder.finish([total]))
    if rows == 2:
        assert run(np.ones(rows), np.array(9), rows)[0] == 0
        return
    assert run(np.ones(rows), np.array(3), rows)[0] == 2
    with pytest.raises(IndexError):
        run(np.ones(rows), np.array(9), rows)


def test_a_bad_index_of_rows_without_elements_raises() -> None:
    with pytest.raises(IndexError):
        compiled(lambda b, *xs: b.apply("scatter", *xs, mode="set"), np.zeros((3, 0)), np.zeros((1, 0)), np.array([3]))


SHAPES = [(5, 3), (6, 3), (2, 0), (2, 3), (0, 3), (6, 4), (2, 2)]  # len(x) - 2 is a size of its own, and may be 0


def rows(x: np.ndarray) -> np.ndarray:
    return x[: len(x) - 2]


def constant_rows(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return x[-3:-3, :1][:, a]


def symbolic_rows(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return rows(x)[:, a]


def summed_columns(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return rows(x).T[a].sum()


def one_column(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return rows(x)[:, a[0]]


def index_that_repeats(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return x[np.arange(len(x) - 2), a[:1]]


def taken_columns(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.take(rows(x), a, axis=1)  # NumPy looks at no position where the axes before it are empty


def written_columns(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    rows(x)[:, a] = 1
    return x


def added_rows(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    np.add.at(rows(x).T, a, 1)
    return x


@pytest.mark.parametrize(
    "program",
    [
        constant_rows,
        symbolic_rows,
        summed_columns,
        one_column,
        index_that_repeats,
        taken_columns,
        written_columns,
        added_rows,
    ],
)
def test_positions_beside_an_empty_axis(program: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    run = npc.compile(program)
    for shape in SHAPES:
        for places in ([-1, 0, 1], [-1, -1, -1], [7, 0, 1]):
            x = np.arange(float(np.prod(shape))).reshape(shape)
            ours, theirs = (outcome(f, x.copy(), np.array(places)) for f in (run, program))
            assert ours == theirs, (shape, places)


def outcome(f: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, places: np.ndarray) -> tuple[object, ...]:
    try:
        found = f(x, places)
    except IndexError as error:
        return IndexError, str(error)
    return found.shape, found.tolist()
