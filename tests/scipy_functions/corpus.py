"""Functions of SciPy that are NumPy in Python, and calls of each: tables that the tests and docs/coverage.md are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Call:
    """Arguments of one call; each run gets copies."""

    positional: tuple[Any, ...]
    keywords: dict[str, Any]

    def __str__(self) -> str:
        parts = [*map(shown, self.positional), *(f"{k}={shown(v)}" for k, v in self.keywords.items())]
        return f"({', '.join(parts)})"


@dataclass(frozen=True)
class Sample:
    """A function by its full name, the calls made of it in turn, and how far sums of products may be from SciPy's."""

    name: str
    calls: tuple[Call, ...]
    ulp: int

    @property
    def function(self) -> Callable[..., Any]:
        module, _, name = self.name.rpartition(".")
        return getattr(import_module(module), name)


SAMPLES: dict[str, Sample] = {}


def call(*positional: Any, **keywords: Any) -> Call:
    return Call(positional, keywords)


def sample(name: str, *calls: Call, ulp: int = 64) -> None:
    """Add `name`, called in turn as `calls` say."""
    assert name not in SAMPLES and calls, name
    SAMPLES[name] = Sample(name, calls, ulp)


def shown(value: Any) -> str:
    """Arrays by dtype and shape, everything else as it is written."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return getattr(value, "__name__", None) or repr(value)


# --- arguments


def data(*shape: int, seed: int = 0, dtype: Any = float) -> np.ndarray:
    """Positive numbers of no particular order."""
    numbers = np.random.default_rng([seed, *shape]).uniform(0.5, 9.5, shape)
    return numbers.astype(dtype)


def signal(*shape: int, seed: int = 0, dtype: Any = float) -> np.ndarray:
    """Numbers of both signs."""
    return np.random.default_rng([seed, 1, *shape]).standard_normal(shape).astype(dtype)


def mask(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 2, *shape]).random(shape) < 0.5


def nan_at(x: np.ndarray, *places: int) -> np.ndarray:
    x = x.copy()
    x.flat[list(places)] = np.nan
    return x
