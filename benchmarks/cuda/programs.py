"""What is measured: NumPy functions, the same with torch's functions, and what they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Inputs = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Bound:
    """A target: at most `most` times the time of a copy of the first input, or of the quickest of the peers."""

    side: str  # "copy" or "peers"
    most: float


@dataclass(frozen=True)
class Program:
    name: str
    title: str  # with the sizes
    function: Callable[..., Any]  # in NumPy
    torch: Callable[..., Any]  # (torch, *tensors)
    inputs: Callable[[np.random.Generator], Inputs]
    bounds: tuple[Bound, ...]
    relative_error: float = 1e-12  # allowed between sides, of the largest number
    is_fusible: bool = False  # does cupy.fuse take it?


def normal(*shapes: tuple[int, ...], dtype: type = np.float32) -> Callable[[np.random.Generator], Inputs]:
    return lambda rng: tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def relu(x):
    return np.maximum(x + 1, 0) * 2


def chain(a, b):
    return np.sin(a) * np.exp(-b * b) + np.tanh(a * b)


def product_sum(x, y):
    return np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x):
    centered = x - x.mean(axis=1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(axis=1, keepdims=True) + np.float32(1e-5))


def torch_layer_norm(torch: Any, x: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5)


def variance(x):
    return x.var(axis=1)


def transposed(x, y):
    return x.T + y


def total(x):
    return x.sum()


BIG = (4096, 4096)
AS_A_COPY = (Bound("copy", 1 / 0.85),)
READ_ONLY = (Bound("copy", 0.5 / 0.85),)  # a copy writes as many bytes as it reads

PROGRAMS = (
    Program(
        "relu",
        "relu(x + 1) * 2, 4096x4096 float32",
        relu,
        lambda torch, x: torch.relu(x + 1) * 2,
        normal(BIG),
        (Bound("copy", 1.1), Bound("peers", 1)),
        is_fusible=True,
    ),
    Program(
        "product_sum",
        "sum(x[:, :, None] * y[:, None, :], (-2, -1)), 1024x64 float64",
        product_sum,
        lambda torch, x, y: torch.sum(x[:, :, None] * y[:, None, :], (-2, -1)),
        normal((1024, 64), (1024, 64), dtype=np.float64),
        (Bound("peers", 1),),
    ),
    Program(
        "chain",
        "sin(a) * exp(-b * b) + tanh(a * b), 67 million float64",
        chain,
        lambda torch, a, b: torch.sin(a) * torch.exp(-b * b) + torch.tanh(a * b),
        normal((8192, 8192), (8192, 8192), dtype=np.float64),
        (Bound("peers", 1),),
        is_fusible=True,
    ),
    Program(
        "softmax",
        "softmax of rows, 4096x4096 float32",
        softmax,
        lambda torch, x: torch.softmax(x, 1),
        normal(BIG),
        AS_A_COPY,
        2e-5,
    ),
    Program("layer_norm", "layer norm of rows, 4096x4096 float32", layer_norm, torch_layer_norm, normal(BIG), AS_A_COPY, 2e-5),
    Program(
        "variance",
        "variance of rows, 4096x4096 float32",
        variance,
        lambda torch, x: torch.var(x, 1, correction=0),
        normal(BIG),
        READ_ONLY,
        2e-5,
    ),
    Program(
        "transposed",
        "x.T + y, 4096x4096 float32",
        transposed,
        lambda torch, x, y: x.T + y,
        normal(BIG, BIG),
        (Bound("copy", 1.5 / 0.85),),  # two read, one written
        is_fusible=True,
    ),
    Program("sum", "sum of all, 4096x4096 float32", total, lambda torch, x: x.sum(), normal(BIG), READ_ONLY, 1e-4),
)
