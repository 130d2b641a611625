"""Matrix products: made in tiles by the runtime's threads, read and written where the program's other parts want them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.covering import pairs


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


def agree(made: Any, expected: Any) -> None:
    made, expected = np.asarray(made), np.asarray(expected)
    assert made.dtype == expected.dtype and made.shape == expected.shape
    eps = np.finfo(expected.dtype).eps
    np.testing.assert_allclose(made, expected, rtol=0, atol=200 * eps * max(1, np.abs(expected).max()))


LAYOUTS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "C": lambda a, b: (a, b),
    "the left of columns": lambda a, b: (np.asfortranarray(a), b),
    "the right of columns": lambda a, b: (a, np.asfortranarray(b)),
    "reversed": lambda a, b: (a[::-1], b[:, ::-1]),
}
SIZES = [(256, 512, 784), (97, 83, 61), (3, 900, 401), (700, 2, 1300)]


@pytest.mark.parametrize("sizes, dtype, layout", pairs(SIZES, ["f4", "f8", "c16"], [*LAYOUTS]))
def test_products_in_tiles(sizes: tuple[int, int, int], dtype: str, layout: str) -> None:
    m, n, k = sizes
    a, b = numbers((m, k), dtype, 1), numbers((k, n), dtype, 2)
    compiled = npc.compile(lambda a, b: (a @ b, (a @ b).T, b.T @ a.T))
    x, y = LAYOUTS[layout](a, b)
    for made, expected in zip(compiled(x, y), (x @ y, (x @ y).T, y.T @ x.T)):
        agree(made, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [96, 100, 48, 700])
def test_panels_of_a_right_matrix_are_read_where_they_are_or_copied(columns: int, dtype: str) -> None:
    """For few rows they are not copied, unless they end between two vectors."""
    b = numbers((500, columns), dtype, 2)
    compiled = npc.compile(lambda a, b: a @ b, dynamic=True)
    for rows in (9, 16, 33, 64, 65, 300):
        a = numbers((rows, 500), dtype, 1)
        for right in (b, b[::-1], np.concatenate([b, b], axis=1)[:, :columns]):
            agree(compiled(a, right), a @ right)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_matrix_with_itself_transposed_is_symmetric(dtype: str) -> None:
    compiled = npc.compile(lambda a: a @ a.T)
    for x in (numbers((130, 70), dtype, 1), numbers((61, 900), dtype, 2).T[:, :61], numbers((49, 900), dtype, 3)):
        made = compiled(x)
        agree(made, x @ x.T)
        np.testing.assert_array_equal(made, made.T)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e38])
def test_products_that_are_not_finite_are_numpys(dtype: str, bad: float) -> None:
    """In the last row and column, which no whole tile has."""
    a, b = numbers((97, 83), dtype, 1), numbers((83, 75), dtype, 2)
    a[-1, 3], b[2, -1] = bad, bad
    compiled = npc.compile(lambda a, b: a @ b)
    with warnings.catch_warnings(record=True) as own:
        warnings.simplefilter("always")
        made = compiled(a, b)
    with warnings.catch_warnings(record=True) as numpys:
        warnings.simplefilter("always")
        expected = a @ b
    np.testing.assert_array_equal(np.isfinite(made), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(made), np.isnan(expected))
    assert {str(w.message) for w in own} == {str(w.message) for w in numpys}


@pytest.mark.parametrize("stack", [2, 16, 40])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_large_stacks(stack: int, dtype: str) -> None:
    a, b = numbers((stack, 130, 70), dtype, 1), numbers((stack, 70, 90), dtype, 2)
    agree(npc.compile(lambda a, b: a @ b)(a, b), a @ b)


def heads(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """As attention has it: axes split, exchanged, multiplied, exchanged back and joined."""
    batch, tokens, width = x.shape
    q = (x @ w).reshape(batch, tokens, 4, width // 4).transpose(0, 2, 1, 3)
    mixed = (q @ q.transpose(0, 1, 3, 2)) @ q
    return mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, width) @ w


def test_products_are_read_where_they_are() -> None:
    x, w = numbers((3, 20, 32), "f8", 1), numbers((32, 32), "f8", 2)
    compiled = npc.compile(heads)
    agree(compiled(x, w), heads(x, w))
    made = npc.explain(heads)(x, w)
    assert len(made.kernels) == 4, "a copy between products"
    for shape in ((5, 24, 32), (2, 28, 16), (7, 9, 48)):  # other sizes, then any
        x, w = numbers(shape, "f8", 3), numbers((shape[-1], shape[-1]), "f8", 4)
        agree(compiled(x, w), heads(x, w))
        agree(compiled(np.asfortranarray(x), w.T), heads(np.asfortranarray(x), w.T))
        agree(compiled(x[::-1, ::-1], w[::-1]), heads(x[::-1, ::-1], w[::-1]))


def test_a_product_that_is_moved_and_used_otherwise() -> None:
    def function(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        product = x @ y
        moved = product.transpose(1, 0, 2)
        return product + 1, moved.reshape(moved.shape[0], -1) @ np.ones((moved.shape[0] * moved.shape[2], 3)), moved

    x, y = numbers((12, 12, 10), "f8", 1), numbers((12, 10, 11), "f8", 2)
    for made, expected in zip(npc.compile(function)(x, y), function(x, y)):
        agree(made, expected)
        assert made.strides == expected.strides


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_gradients_of_weights_have_their_memory_order(dtype: str) -> None:
    x, w = numbers((30, 20), dtype, 1), numbers((20, 40), dtype, 2)
    gradient = npc.grad(lambda w, x: np.sum(np.tanh(x @ w)))
    made = gradient(w, x)
    agree(made, x.T @ (1 - np.tanh(x @ w) ** 2))
    assert made.flags.c_contiguous


def test_updates_by_gradients_that_are_products() -> None:
    @npc.compile
    def step(w: np.ndarray, x: np.ndarray) -> Any:
        value, gradient = npc.value_and_grad(lambda w: np.sum(np.tanh(x @ w)))(w)
        w -= 0.1 * gradient
        return value

    x, w = numbers((30, 20), "f8", 1), numbers((20, 40), "f8", 2)
    for given in (w.copy(), np.asfortranarray(w)):
        agree(step(given, x), np.sum(np.tanh(x @ w)))
        agree(given, w - 0.1 * (x.T @ (1 - np.tanh(x @ w) ** 2)))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("sizes", [(20, 20, 9001), (15, 31, 20_000), (50, 7, 20_011)])
def test_long_sums_are_made_in_slices(sizes: tuple[int, int, int], dtype: str) -> None:
    """They err no more than NumPy's do, however the operands lie; a product with its own transpose is symmetric."""
    m, n, k = sizes
    a, b = numbers((k, m), dtype, 3), numbers((k, n), dtype, 4)
    wide = "c32" if dtype[0] == "c" else "f16"

    def products(a, b):
        return a.T @ b, b.T @ a, (a.T @ b).T, a.T @ a

    exact = products(a[:, :4].astype(wide), b[:, :4].astype(wide))
    for x, y in ((a, b), (np.asfortranarray(a), b), (a[::-1], np.asfortranarray(b)[::-1])):
        made, plain = npc.compile(products)(x, y), products(x, y)
        for found, numpy, value in zip(made, plain, exact):
            agree(found, numpy)
            errors = [np.sqrt((np.abs(part[:4, :4] - value) ** 2).mean()) for part in (found, numpy)]
            assert errors[0] <= 1.5 * errors[1] + np.finfo(dtype).eps * np.abs(value).max()
        assert dtype[0] == "c" or (made[3] == made[3].T).all()


def convolve(images: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """A network's convolution, as products of shifted windows with matrices."""
    k, width = kernels.shape[0], images.shape[2] - kernels.shape[0] + 1
    out = np.zeros((*images.shape[:1], images.shape[1] - k + 1, width, kernels.shape[3]), images.dtype)
    for i in range(k):
        for j in range(k):
            out += images[:, i : i + out.shape[1], j : j + width] @ kernels[i, j]
    return np.maximum(out, 0)


@pytest.mark.parametrize(("channels", "dtype"), [((8, 8), "f8"), ((20, 24), "f4")])
def test_windows_are_multiplied_where_they_are(channels: tuple[int, int], dtype: str) -> None:
    images, kernels = numbers((2, 33, 30, channels[0]), dtype, 1), numbers((2, 2, *channels), dtype, 2)
    compiled = npc.compile(convolve)
    for x in (images, images.transpose(0, 2, 1, 3)[:1, ::-1]):
        agree(compiled(x, kernels), convolve(x, kernels))
    assert not any("copy" in name for name in npc.explain(convolve)(images, kernels).kernels), "a window was copied"


def with_warnings(function: Any, *args: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        result = function(*args)
    return result, [str(w.message) for w in noted]


SHAPES = (
    [(3,), (3,)],
    [(40,), (40,)],
    [(3, 5), (5,)],
    [(5,), (5, 3)],
    [(2, 3), (3, 4)],
    [(6, 3, 2), (6, 2, 3)],
    [(10, 10), (10, 10)],
)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_infinities_are_left_to_numpy(dtype, shapes) -> None:
    """Its BLAS notes invalid operations beyond the ends of rows too, and NaN are where its kernels make them.

    What is beyond them need not be the same in two calls: NumPy is asked before and after.
    """
    compiled = npc.compile(lambda x, y: x @ y)
    for place in range(0, 100, 7):
        x, y = np.ones(shapes[0], dtype), np.full(shapes[1], 2, dtype)
        x.flat[place % x.size], y.flat[(99 - place) % y.size] = np.inf, np.nan if place % 2 else 0
        expected, before = with_warnings(lambda x, y: x @ y, x, y)
        result, ours = with_warnings(compiled, x, y)
        _, after = with_warnings(lambda x, y: x @ y, x, y)
        assert ours in (before, after)
        for part in (np.real, np.imag):
            np.testing.assert_array_equal(part(result), part(expected))


@pytest.mark.parametrize("shape", [(40,), (40, 3), (3, 40), (5, 5), (9, 4000)], ids=str)
def test_infinities_that_meet_nan_are_left_to_numpy(shape) -> None:
    """Which of them meet first, and so what is reported, depends on the order of adding. NaN alone are summed once."""
    rng = np.random.default_rng(len(shape))
    functions = [
        lambda x: x.sum(),
        lambda x: x.sum(axis=0),
        lambda x: (x * x).sum(axis=-1),
        lambda x: x.mean(),
        lambda x: x.prod(),
    ]
    for function in functions:
        compiled = npc.compile(function)
        for _ in range(8):
            x = rng.standard_normal(shape)
            x.flat[rng.choice(x.size, 5)] = [np.nan, np.inf, -np.inf, 0, np.inf]
            assert with_warnings(compiled, x)[1] == with_warnings(function, x)[1]
        x[np.isinf(x)] = 1
        with np.errstate(invalid="raise"):
            np.testing.assert_allclose(compiled(x), function(x), equal_nan=True)


@pytest.mark.parametrize("product", [np.dot, np.inner, np.matmul, np.vdot], ids=lambda p: p.__name__)
@pytest.mark.parametrize("dtype", ["f", "d", "D"])
def test_signs_of_zeros(dtype, product) -> None:
    """A product of two single numbers is one multiplication to some of NumPy's functions, and a sum to others."""
    compiled = npc.compile(lambda x, y: product(x, y))
    for size in (1, 2, 5):
        x, y = np.full(size, -0.0, dtype), np.ones(size, dtype)
        for part in (np.real, np.imag):
            assert np.signbit(part(compiled(x, y))) == np.signbit(part(product(x, y)))


def test_einsum_adds_to_zero() -> None:
    """As NumPy's own loops do; BLAS makes -0.0 of complex numbers."""
    rng = np.random.default_rng(1)
    compiled = npc.compile(lambda x, y: np.einsum("ik,kj->ij", x, y))
    for columns in range(1, 12):
        x, y = (rng.integers(-2, 3, s) + 1j * rng.integers(-2, 3, s) for s in ((9, 2), (2, columns)))
        made = compiled(x, y)
        assert not np.signbit(made.real[made.real == 0]).any() and not np.signbit(made.imag[made.imag == 0]).any()
        np.testing.assert_array_equal(made, np.einsum("ik,kj->ij", x, y))
