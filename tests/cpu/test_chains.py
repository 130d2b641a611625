"""Products of products, in the order of least work: as near the exact result as NumPy's order, and alike where it overflows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from tests.cpu.plans import plans_of

Chain = Callable[..., np.ndarray]
# Functions of three arrays, and the shapes of these.
CHAINS: dict[str, tuple[Chain, tuple[tuple[int, ...], ...]]] = {
    "vector last": (lambda a, b, v: a @ b @ v, ((90, 80), (80, 70), (70,))),
    "vector first": (lambda v, a, b: v @ (a @ b), ((90,), (90, 80), (80, 70))),
    "narrow": (lambda a, b, c: a @ b @ c + 1, ((150, 10), (10, 150), (150, 5))),
    "transposed": (lambda a, v, b: (a.T @ a @ v) * b, ((160, 60), (60,), (60,))),
    "stack": (lambda a, b, c: a @ b @ c, ((3, 60, 50), (3, 50, 60), (3, 60, 1))),
    "four": (lambda a, b, c: (a @ b).T @ (c @ a[0]), ((80, 140), (140, 100), (80, 140))),
}


def numbers(shapes: tuple[tuple[int, ...], ...], dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [(rng.standard_normal(shape) if dtype[0] == "f" else rng.integers(-90, 90, shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(("name", "dtype"), [*((name, "f8") for name in CHAINS), ("vector last", "f4"), ("four", "i4")])
def test_chains(name: str, dtype: str) -> None:
    function, shapes = CHAINS[name]
    compiled = npc.compile(function)
    for given in (shapes, tuple(tuple(n + 3 if n > 9 else n for n in shape) for shape in shapes)):
        arrays = numbers(given, dtype)
        made, plain = compiled(*arrays), function(*arrays)
        assert made.dtype == plain.dtype and made.shape == plain.shape
        if dtype[0] == "i":
            np.testing.assert_array_equal(made, plain)
            continue
        exact = function(*(x.astype(np.longdouble) for x in arrays))
        errors = [np.sqrt(np.mean((found - exact) ** 2)) for found in (made, plain)]
        assert errors[0] <= 2 * errors[1] + np.finfo(dtype).eps * np.abs(exact).max()


def test_what_is_not_finite_is_computed_as_written() -> None:
    function, shapes = CHAINS["vector last"]
    compiled = npc.compile(function)
    plain = numbers(shapes, "f8")
    compiled(*plain)
    for value in (np.inf, np.nan, 1e300):
        a, b, v = (x.copy() for x in plain)
        a[3, 4], b[4, 5], v[5] = value, value, 1e-300
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(a, b, v), function(a, b, v), rtol=1e-9)
    a[3, 4], b[4, 5] = 1e200, 1e200
    with pytest.warns(RuntimeWarning, match="overflow"):
        compiled(a, b, v)


def test_a_product_that_is_given_out_is_made() -> None:
    compiled = npc.compile(lambda a, b, v: (a @ b, a @ b @ v))
    arrays = numbers(CHAINS["vector last"][1], "f8")
    for made, expected in zip(compiled(*arrays), (arrays[0] @ arrays[1], arrays[0] @ arrays[1] @ arrays[2])):
        np.testing.assert_allclose(made, expected, rtol=0, atol=1e-11)
    assert not any(plan.multiplies for plan in plans_of(CHAINS["vector last"][0], *arrays)), "two matrices were multiplied"
