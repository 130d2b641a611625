"""Gathers and scatters without indices: nothing is read or written, so there is nothing to check.

NumPy gives empty arrays strides of 0: no loop moves the place of an index, and its check may stand before the empty loop.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

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
