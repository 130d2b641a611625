"""Scatters without indices: nothing is written, and nothing is checked."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.backends.cpu.backend import compile_cpu
from npcompile.tensor_core import Builder, TensorMeta


@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_scatter_without_indices(shape: tuple[int, ...], mode: str) -> None:
    """NumPy gives empty arrays strides of 0, so that no loop moves the place of the index."""
    arrays = [np.arange(12.0).reshape(3, 4), np.ones((*shape, 4)), np.zeros(shape, np.int64)]
    builder = Builder()
    nodes = [builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in arrays]
    graph = builder.finish([builder.apply("scatter", *nodes, mode=mode)])
    (found,) = compile_cpu(graph)(*arrays)
    np.testing.assert_array_equal(found, arrays[0])


def test_a_bad_index_into_rows_without_elements_raises() -> None:
    x, value, index = np.zeros((3, 0)), np.zeros((1, 0)), np.array([3])
    builder = Builder()
    nodes = [builder.input(TensorMeta(a.shape, a.dtype, a.strides)) for a in (x, value, index)]
    graph = builder.finish([builder.apply("scatter", *nodes, mode="set")])
    with pytest.raises(IndexError):
        compile_cpu(graph)(x, value, index)
