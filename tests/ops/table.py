"""Arrays of every layout with awkward numbers in them, and one op of the table run by a backend."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from npcompile.backends.registry import find_backend
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Node

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [*(np.dtype(c) for c in "?bBhHiIlLefdFD"), BFLOAT16]
SHAPE = (2, 3, 4)

# How an array lies in memory: a function from a C-contiguous array of SHAPE to one with another layout.
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
    "strided": lambda x: spaced(x)[:, :, ::3],
    "reversed": lambda x: np.ascontiguousarray(x[:, ::-1, ::-1])[:, ::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "empty": lambda x: x[:, :0],
    "0-D": lambda x: x[1, 2, 3].reshape(()),
}


def spaced(x: np.ndarray) -> np.ndarray:
    wide = np.zeros((*x.shape[:-1], 3 * x.shape[-1]), x.dtype)
    wide[..., ::3] = x
    return wide


def numbers(dtype: np.dtype, rng: np.random.Generator, shape: tuple[int, ...] = SHAPE, *, ordinary: bool = False) -> np.ndarray:
    """Ordinary numbers, and those at the edges of the dtype unless `ordinary`."""
    size = int(np.prod(shape))
    pool = rng.uniform(-9, 9, 4 * size)
    if dtype.kind == "c":
        parts = [numbers(np.empty(0, dtype).real.dtype, rng, shape, ordinary=ordinary) for _ in range(2)]
        out = np.empty(shape, dtype)
        out.real, out.imag = parts
        return out
    if kind_of(dtype) == "f":
        limits = ml_dtypes.finfo(dtype)
        edges = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            limits.max,
            -limits.max,
            limits.tiny,
            limits.smallest_subnormal,
            1.0,
            -1.0,
            0.5,
        ]
    else:
        low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        edges = [low, high, low + 1, high - 1, 0, 1, 2]
        pool = rng.integers(max(low, -9), min(high, 9), 4 * size, endpoint=True)
    values = pool.astype(dtype)
    if not ordinary:
        values = np.concatenate([np.asarray(edges, dtype), values[: 2 * len(edges)]])
    return rng.choice(values, shape)


def apply_all(
    backend: str, calls: Sequence[tuple[str, Sequence[np.ndarray], dict[str, Any]]]
) -> tuple[list[Node], list[np.ndarray]]:
    """Each (op, arrays, params) as one output of one graph: the nodes, and what the backend computes."""
    builder = Builder()
    inputs: list[np.ndarray] = []
    nodes = []
    for op, arrays, params in calls:
        operands = [builder.input(TensorMeta(x.shape, x.dtype, x.strides, writeable=False)) for x in arrays]
        nodes.append(builder.apply(op, *operands, **params))
        inputs += arrays
    graph = builder.finish(nodes)
    with np.errstate(all="ignore"):  # values are compared here, errors are reported elsewhere
        return nodes, list(find_backend(backend)(graph, inputs)(*inputs))


def thin(backend: str, calls: list[Any], count: int) -> list[Any]:
    """All calls for NumPy, some of them for a backend that compiles each: always the same, of every kind."""
    return calls if backend == "eager" else random.Random(0).sample(calls, min(count, len(calls)))


def some_layouts(backend: str, turn: int) -> list[Callable[[np.ndarray], np.ndarray]]:
    """All for NumPy; where each is a kernel that is compiled, contiguous arrays and one other layout in turn."""
    first, *others = LAYOUTS.values()
    return [first, *others] if backend == "eager" else [first, others[turn % len(others)]]


def check_meta(node: Node, expected: np.ndarray, *, strides: bool = False) -> None:
    """The table's meta rule says what NumPy gives."""
    assert node.meta.dtype == expected.dtype, (node, expected.dtype)
    assert node.meta.shape == expected.shape, (node, expected.shape)
    if strides and expected.size:
        kept = [a for a, n in enumerate(expected.shape) if n > 1]
        assert [node.meta.strides[a] for a in kept] == [expected.strides[a] for a in kept], (
            node,
            node.meta.strides,
            expected.strides,
        )
