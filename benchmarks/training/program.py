"""What is measured: a loss in NumPy, the same in torch, and what they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Parameters = dict[str, np.ndarray]
Data = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Program:
    name: str
    title: str  # with the sizes
    loss: Callable[..., Any]  # of (parameters, *data), in NumPy: JAX takes it with `np` meaning jax.numpy
    torch_loss: Callable[..., Any]  # the same with the functions that torch has for it
    parameters: Callable[[np.random.Generator], Parameters]
    data: Callable[[np.random.Generator], Data]
    rate: float | None = None  # of the update by gradient descent; None: the gradients are the results
    forward_bound: float | None = None  # at most so many times the loss alone
    torch_bound: float = 1.0  # at most so many times torch.compile
    relative_error: float = 1e-9  # allowed between sides
