"""Places of elements that are not 0, found by native code: NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc

SIZES = (0, 1, 7, 63, 64, 65, 1000, 4096, 4097, 300_000)
LAYOUTS = (lambda x: x, lambda x: np.repeat(x, 3)[::3], lambda x: x[::-1])


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4", "f8"])
def test_nonzero(dtype: str) -> None:
    rng = np.random.default_rng(2)
    compiled = npc.compile(lambda x: np.nonzero(x)[0], backend="cpu", dynamic=True)
    with npc.config.patch(recompile_limit=100):
        for n in SIZES:
            for share in (0.0, 0.02, 0.5, 1.0):
                x = (rng.random(n) < share).astype(dtype)
                if dtype == "?":
                    x.view("u1")[x] = rng.integers(1, 256, x.sum())  # any byte may stand for True
                elif dtype[0] == "f":
                    x[: n // 2 : 2] = rng.choice([-0.0, np.nan, np.inf, 5e-324], x[: n // 2 : 2].size)
                for layout in LAYOUTS:
                    found, expected = compiled(layout(x)), np.nonzero(layout(x))[0]
                    np.testing.assert_array_equal(found, expected, strict=True)
                    assert found.strides == expected.strides and found.base.shape == expected.base.shape
