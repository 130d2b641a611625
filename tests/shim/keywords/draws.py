"""Drawn values: arrays of every dtype and layout, NumPy scalars, Python numbers, sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

DTYPES = [np.dtype(c) for c in "ddddfflliibBhHILe?DDFg"]
SHAPES = ((3,), (2, 3), (2, 3), (3, 2), (4,), (), (1,), (2, 1), (1, 3), (2, 3, 2), (3, 3), (0,), (0, 3), (2, 0))
EDGES = {"f": (np.nan, np.inf, -np.inf, -0.0), "c": (np.nan, 1j * np.inf, -0.0)}
NUMBERS = (0, 1, 2, -1, 3, 7, 300, -129, 2**40, 2**70, True, False, 0.0, 1.0, 2.5, -0.5, -0.0, 1e40, float("nan"), 1j, 2 - 0.5j)
JUNK = (None, "text", 1.5, -9, True, (), [], ..., slice(None), np.dtype("f4"), float, (0, 0), [1.5], 1j, np.float64(1.0))
SMALL = np.arange(-12, 13) / 4  # sums of them are exact, whatever their order


class Drawing:
    """One call being drawn: where its choices come from, its first array, and its arguments so far."""

    def __init__(self, integer: Callable[[int, int], int]):
        self.integer = integer  # one of low..high
        self.main: Any = None
        self.arguments: dict[str, Any] = {}

    def choice(self, values: Sequence[Any]) -> Any:
        return values[self.integer(0, len(values) - 1)]

    def chance(self, percent: int) -> bool:
        """The simplest draw is False."""
        return self.integer(0, 99) >= 100 - percent

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.integer(0, 30))

    def array(self, dtypes: Sequence[Any] = DTYPES, shapes: Sequence[Any] = SHAPES) -> np.ndarray:
        x = self.contents(self.choice(shapes), np.dtype(self.choice(dtypes)))
        x = self.laid_out(x)
        self.main = x if self.main is None else self.main
        return x

    def contents(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        rng = self.rng()
        if dtype.kind in "biu":
            low, high = (0, 1) if dtype.kind == "b" else (max(int(np.iinfo(dtype).min), -9), 9)
            x = np.asarray(rng.integers(low, high, shape, endpoint=True)).astype(dtype)
            if dtype.kind != "b" and x.size and self.chance(15):
                x.flat[rng.integers(x.size)] = self.choice([np.iinfo(dtype).min, np.iinfo(dtype).max])
            return x
        x = np.asarray(rng.choice(SMALL, shape)).astype(dtype)
        if dtype.kind == "c":
            x = np.asarray(x + 1j * rng.choice(SMALL, shape)).astype(dtype)
        if x.size and self.chance(25):
            x.flat[rng.integers(x.size)] = self.choice(EDGES[dtype.kind])
        return x

    def laid_out(self, x: np.ndarray) -> np.ndarray:
        """The same values, lying in memory in another way."""
        if not self.chance(50):
            return x
        match self.choice(["F", "T", "reversed", "strided", "wide", "read-only", "broadcast"]):
            case "F":
                return np.asfortranarray(x) if x.ndim else x
            case "T":
                return x.T
            case "reversed":
                return x[::-1] if x.ndim else x
            case "strided":
                return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x
            case "wide":
                return np.stack([x, x])[1]
            case "broadcast":
                return np.broadcast_to(x[:1], x.shape) if x.ndim and len(x) else x
            case _:
                x = x.copy()
                x.flags.writeable = False
                return x

    def other(self, dtypes: Sequence[Any] = DTYPES) -> np.ndarray:
        """An array that mostly broadcasts with the first one."""
        if self.main is None or self.chance(10):
            return self.array(dtypes)
        shape = np.shape(self.main)
        return self.array(
            [*dtypes, *[self.main.dtype] * 6], [shape, shape, shape, shape[-1:], (), (1,) * len(shape), (2, *shape)]
        )

    def scalar(self) -> np.generic:
        return self.contents((1,), self.choice(DTYPES))[0]

    def operand(self, array: Callable[[], Any] | None = None) -> Any:
        """An array mostly, or something else that NumPy makes one of."""
        kind = self.integer(0, 11)
        if kind == 11:
            return self.choice(NUMBERS)
        if kind == 10:
            return self.scalar()
        x = (array or self.array)()
        if kind == 9 and x.size and x.dtype.kind in "biufc":
            values = x.tolist()
            return [*values[:-1], self.scalar()] if x.ndim == 1 and self.chance(30) else values
        return x
