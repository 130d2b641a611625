"""argmin and argmax along short rows: the first of equal numbers, and NaN before any number."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

COUNTS = (1, 4, 5, 7, 8, 9, 16, 17, 33, 255, 256, 257)


def rows(dtype: str, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """With many equal numbers, and with what is special in the dtype."""
    few, many = (rng.integers(0, high, (70, count)).astype(dtype) for high in (3, 1000))
    if np.dtype(dtype).kind != "f":
        kinds = np.iinfo(dtype)
        return [few, many, np.full_like(few, kinds.max), np.full_like(few, kinds.min)]
    special = many.copy()
    for number in (np.nan, -np.inf, np.inf, -0.0):
        special[rng.random(special.shape) < 0.05] = number
    zeros = few * 0
    zeros[rng.random(zeros.shape) < 0.5] = -0.0
    return [few, many, special, zeros, np.full_like(few, np.inf), np.full_like(few, -np.inf), np.full_like(few, np.nan)]


def of_rows(find: Callable[..., Any]) -> list[Callable[[np.ndarray], Any]]:
    return [lambda x: find(x, axis=1), lambda x: find(x * x - x, axis=-1), lambda x: find(x[:, ::-1], axis=1, keepdims=True)]


@pytest.mark.parametrize("find", [np.argmin, np.argmax])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4", "u8", "i2", "f2"])
def test_first_places(dtype: str, find: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    for plain in of_rows(find):
        for count in COUNTS if dtype in ("f4", "f8") else COUNTS[2:7]:
            compiled = npc.compile(plain, fullgraph=True, dynamic=False)
            for x in rows(dtype, count, rng):
                with np.errstate(all="ignore"):
                    ours, numpys = compiled(x), plain(x)
                np.testing.assert_array_equal(ours, numpys)
                assert ours.dtype == numpys.dtype


def test_places_of_rows_that_are_not_aligned() -> None:
    memory = np.zeros(16 * 70 * 8 + 1, np.uint8)
    x = memory[1:].view("f8").reshape(70, 16)
    x[:] = np.random.default_rng(4).standard_normal((70, 16))
    np.testing.assert_array_equal(npc.compile(lambda x: x.argmin(axis=1))(x), x.argmin(axis=1))
