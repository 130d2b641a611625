"""Sums of products by matrix products are what einsum says."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.tensor_core.tensors.products import product

CASES = [
    ((0, 1), (1, 2), (0, 2)),
    ((0, 1), (1, 2), (2, 0)),
    ((1, 0), (2, 1), (2, 0)),
    ((3, 0, 1), (3, 1, 2), (3, 0, 2)),
    ((0, 3, 1), (1, 2, 3), (2, 3, 0)),
    ((0, 1, 2), (1, 2, 3), (0, 3)),
    ((0, 1, 2), (2, 1, 3), (3, 0)),
    ((0,), (0,), ()),
    ((0, 1), (1,), (0,)),
    ((0, 1), (0, 1), ()),
    ((0, 1), (0, 1), (0,)),
    ((0,), (1,), (1, 0)),
    ((0, 1), (0, 1), (1, 0)),
    ((0, 1, 4), (1, 2), (0, 2)),  # an axis of one operand alone is summed
]


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.float16, np.int64])
@pytest.mark.parametrize(("left", "right", "output"), CASES)
@pytest.mark.parametrize("empty", [None, 0, 1])
def test_products(left: tuple, right: tuple, output: tuple, dtype: type, empty: int | None) -> None:
    rng = np.random.default_rng(4)
    sizes = {a: 0 if a == empty else a + 2 for a in range(5)}
    x, y = (rng.integers(-3, 4, [sizes[a] for a in axes]).astype(dtype) for axes in (left, right))
    expected = np.einsum(x, list(left), y, list(right), list(output))
    for a, b in ((x, y), (np.asfortranarray(x), y[..., ::-1].copy()[..., ::-1])):
        np.testing.assert_array_equal(product(a, b, (left, right), output), expected, strict=True)
