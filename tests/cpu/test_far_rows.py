"""Rows and columns of more memory than caches keep, which are read and written otherwise, with the same bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.cost_model import FAR


def far(columns: int, dtype: str) -> np.ndarray:
    """A matrix of so many columns, of which each kernel moves more than caches keep."""
    rows = FAR // (columns * np.dtype(dtype).itemsize) + 5
    return np.random.default_rng(columns).standard_normal((rows, columns)).astype(dtype)


def centred(x: np.ndarray) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) * np.float32(2)


def of_columns(x: np.ndarray) -> Any:
    return x.sum(axis=0), (x * 2).max(axis=0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [64, 128, 504, 1000, 1001, 2048])
@pytest.mark.parametrize("plain", [centred, of_columns])
def test_far_rows_have_numpys_bits(plain: Callable[[np.ndarray], Any], columns: int, dtype: str) -> None:
    x = far(columns, dtype)
    ours, numpys = npc.compile(plain, fullgraph=True)(x), plain(x)
    for one, other in zip(ours, numpys) if isinstance(ours, tuple) else [(ours, numpys)]:
        np.testing.assert_array_equal(one, other, strict=True)
