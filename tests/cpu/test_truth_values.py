"""any and all along rows, of truth values in memory too that are other bytes than 0 and 1."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

ASKED: list[Callable[[np.ndarray, np.ndarray], Any]] = [
    lambda x, y: x.any(axis=1),
    lambda x, y: (x == 0).all(axis=1),
    lambda x, y: y.any(axis=1),
    lambda x, y: y.all(axis=1),
    lambda x, y: ((x != 0) | y).all(axis=-1),
    lambda x, y: (x.any(axis=1), x.max(axis=1), y.all(axis=1)),
]


@pytest.mark.parametrize("count", [2, 15, 16, 17, 64, 1000])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i2", "u1", "?"])
def test_truth_values_of_rows(dtype: str, count: int) -> None:
    rng = np.random.default_rng(6)
    x = (rng.random((70, count)) < 1 / count).astype(dtype)
    y = rng.integers(0, 3, (70, count), dtype=np.uint8).view(bool)
    for plain in ASKED:
        compiled = npc.compile(plain, fullgraph=True)
        for arguments in ((x, y), (x[:, ::-1], y[:, ::-1]), (np.asfortranarray(x), y)):
            ours, numpys = compiled(*arguments), plain(*arguments)
            for one, other in zip(ours, numpys) if isinstance(ours, tuple) else [(ours, numpys)]:
                assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
