"""A program whose gradient is tested: a plain NumPy function, and how to make its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """A function that returns one real number, and its arguments, which differ by the generator's seed."""

    function: Callable[..., Any]
    make: Callable[[np.random.Generator], tuple[Any, ...]]
    argnums: int | tuple[int, ...] = 0
    written: Callable[..., Any] | None = None  # for JAX, which has no writes in place: the same with `.at[...]`
    has_differences: bool = True  # False: differences do not give the gradient that docs/gradients.md says for ties
    is_batched: bool = True  # False: all its arguments together cannot have one more axis (lists of places, trees)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)


def spread(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of both signs, none of which is near to zero or to another."""
    size = int(np.prod(shape))
    numbers = (rng.permutation(size) + rng.uniform(0.3, 0.7, size)) / size * 4 - 2
    return np.where(np.abs(numbers) < 0.05, 0.05, numbers).reshape(shape)


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(0.5, 2.0, shape)


def positive_definite(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)
