"""x.view(dtype) with items of another size: read, written through, refused as NumPy refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import check


def written_parts(x: Any) -> Any:
    v = x.view(complex)
    v.real[...] = 7
    return x, v.sum()


def written_bytes(x: Any) -> Any:
    v = x.view(np.uint8)
    v[..., 0] = 0
    v[..., 7] ^= 128
    return x, v.base is x or x.base is not None


def written_halves(x: Any) -> Any:
    v = x.view(np.float32)
    v *= 2
    return v, x, v.view(np.int64)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "bytes": lambda x: (x.view(np.uint8), (x.view("u1") & 15).sum(axis=-1)),
    "halves": lambda x: x.view(np.float32).view(np.int16),
    "complex": lambda x: (x.view(complex), np.abs(x.view(complex)).sum(axis=0)),
    "there and back": lambda x: (x + 0).view(complex).view(np.float64),
    "of columns": lambda x: x[:, :2].view(np.complex128),
    "transposed": lambda x: x.T.view(np.int32),
    **{f.__name__: f for f in (written_parts, written_bytes, written_halves)},
}

ARRAYS: dict[str, Callable[[int], np.ndarray]] = {
    "matrix": lambda round: np.arange(12.0 + 4 * round).reshape(-1, 4) + round,
    "odd": lambda round: np.arange(15.0).reshape(5, 3),
    "vector": lambda round: np.arange(6.0 + 2 * round),
    "strided": lambda round: np.arange(16.0).reshape(2, 8)[:, ::2],
    "rows": lambda round: np.arange(24.0).reshape(6, 4)[::2],
    "one column": lambda round: np.arange(4.0).reshape(4, 1),
    "nothing": lambda round: np.zeros((0, 4)),
    "of nothing": lambda round: np.zeros((4, 0)),
    "no dimensions": lambda round: np.array(3.0),
    "read-only": lambda round: np.broadcast_to(np.arange(4.0), (3, 4)),
}


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_view(name: str, array: str) -> None:
    check(ARRAYS[array])(PROGRAMS[name])("cpu" if array == "matrix" else "eager")


def complex_matrix(round: int) -> np.ndarray:
    return np.arange(12 + 4 * round).reshape(-1, 4) * (1 + 2j)


@check(complex_matrix, graphs=2, breaks=0)
def test_parts_in_the_graph(z):
    pairs = z.view(np.float64)
    pairs[:, ::2] += 1
    return pairs.sum(axis=0), z.ravel().view("f8").reshape(-1, 2), z


def test_gradients() -> None:
    z, x = np.array([1 + 2j, 3j]), np.array([3.0, 4.0])
    np.testing.assert_array_equal(npc.grad(lambda z: (z.view(float) ** 2).sum())(z), [2 - 4j, -6j])
    np.testing.assert_allclose(npc.grad(lambda x: np.abs(x.view(complex)).sum())(x), [0.6, 0.8])
