"""Sums of products: matrix products in BLAS, sums taken apart, against NumPy and against wider floats."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.kernels.contraction import factor
from npcompile.backends.registry import find_backend
from npcompile.compiler import compiled_function
from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Graph
from npcompile.tensor_core.meta import TensorMeta
from tests import covering

WIDE = {"f": np.longdouble, "c": np.clongdouble}
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "rows": lambda x: np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    "copies": lambda x: np.broadcast_to(x[..., :1], x.shape),
}


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape) + (1j * rng.uniform(-1, 1, shape) if dtype[0] == "c" else 0)
    return (x if dtype[0] in "fc" else 9 * x.real).astype(dtype)


def einsum_graph(operands: list[np.ndarray], inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...]) -> Graph:
    builder = Builder(env=ShapeEnv())
    nodes = [builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in operands]
    return builder.finish([builder.apply("einsum", *nodes, inputs=inputs, output=output)])


def check_einsum(operands: list[np.ndarray], inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...]) -> None:
    (made,) = find_backend("cpu")(einsum_graph(operands, inputs, output), ())(*operands)
    flat = [part for x, axes in zip(operands, inputs) for part in (x, list(axes))]
    expected = np.asarray(np.einsum(*flat, list(output)))
    assert made.shape == expected.shape and made.dtype == expected.dtype and made.flags.c_contiguous
    if expected.dtype.kind not in "fc":
        return np.testing.assert_array_equal(made, expected)
    wide = [part for x, axes in zip(operands, inputs) for part in (x.astype(WIDE[x.dtype.kind]), list(axes))]
    exact = np.einsum(*wide, list(output))
    products = np.einsum(*[abs(p) if isinstance(p, np.ndarray) else p for p in wide], list(output))
    tolerance = 8 * np.finfo(expected.dtype).eps * products + np.finfo(expected.dtype).tiny
    assert (abs(made - exact) <= tolerance).all()


@pytest.mark.parametrize("seed", range(24))
def test_random_einsums(seed: int) -> None:
    pick = random.Random(seed)
    sizes = [pick.choice((0, 1, 2, 3, 9, 17)) if seed % 3 else pick.choice((2, 9, 12)) for _ in range(6)]
    dtype = pick.choice(("f4", "f8", "c8", "c16", "i8", "i2", "u1"))
    inputs = tuple(tuple(pick.sample(range(6), pick.randint(1, 4))) for _ in range(2))
    used = sorted(set(inputs[0] + inputs[1]))
    output = tuple(pick.sample([a for a in used if pick.random() < 0.6], k=0) or [a for a in used if pick.random() < 0.6])
    layouts = [pick.choice(sorted(LAYOUTS)) for _ in inputs]
    shapes = [tuple(sizes[a] for a in axes) for axes in inputs]
    operands = [LAYOUTS[name](numbers(shape, dtype, seed + k)) for k, (shape, name) in enumerate(zip(shapes, layouts))]
    check_einsum(operands, inputs, output)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "i4", "g", "G", "?"])
@pytest.mark.parametrize("output", [(0, 2), (2, 0)])
def test_dtypes(dtype: str, output: tuple[int, int]) -> None:
    dtype = np.dtype(dtype).str[1:] if dtype != "?" else dtype
    a, b = numbers((11, 13), dtype, 0), numbers((13, 10), dtype, 1)
    if dtype == "f2":
        made = npc.compile(lambda a, b: a @ b)(a, b)
        np.testing.assert_allclose(made.astype("f8"), a.astype("f8") @ b.astype("f8"), rtol=2e-3, atol=2e-3)
    else:
        check_einsum([a, b], ((0, 1), (1, 2)), output)


@pytest.mark.parametrize("first, second, form", covering.pairs(sorted(LAYOUTS), sorted(LAYOUTS), range(4)))
def test_layouts(first: str, second: str, form: int) -> None:
    a, b = LAYOUTS[first](numbers((3, 14, 20), "f8", 0)), LAYOUTS[second](numbers((3, 20, 12), "f8", 1))
    if form == 3:
        check_einsum([a.transpose(2, 0, 1), b.transpose(2, 1, 0)], ((2, 0, 1), (3, 2, 0)), (0, 3, 1))
    else:
        check_einsum([a, b], ((0, 1, 2), (0, 2, 3)), [(0, 1, 3), (1, 3, 0), (1, 3)][form])


def products(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return (
        x @ y,
        np.dot(y.swapaxes(-1, -2), x.swapaxes(-1, -2)),
        np.tanh(x @ y + 1) * 2,
        np.matmul(x * 2, (y + 1)[..., ::-1, :]),
        x @ x.swapaxes(-1, -2),
        np.inner(x, x),
        np.tensordot(x, y, ((-1,), (-2,))),
    )


def agree(made: Any, expected: Any, rtol: float = 1e-12) -> None:
    for a, b in zip(made, expected, strict=True):
        largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * (1 + largest))
        assert a.dtype == b.dtype and (a.strides == b.strides or not a.size)


@pytest.mark.parametrize(
    ("left", "right"), [((6, 30), (30, 7)), ((5, 4, 30), (30, 6)), ((5, 1, 4, 9), (3, 9, 8)), ((4, 9), (5, 9, 4))]
)
def test_products_of_stacks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = numbers(left, "f8", 0), numbers(right, "f8", 1)
    agree(npc.compile(products)(x, y), products(x, y))


def test_sizes_that_change() -> None:
    """One program for sizes of any number, also those that BLAS is not asked about."""
    compiled = npc.compile(products)
    for m, k, n in ((6, 30, 7), (8, 31, 9), (50, 40, 30), (3, 2, 2), (2, 3, 64), (100, 2, 3), (5, 0, 4), (1, 5, 1), (1, 100, 4)):
        x, y = numbers((m, k), "f8", m), numbers((k, n), "f8", n)
        agree(compiled(x, y), products(x, y))


def overwritten(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, ...]:
    x[:] = x @ y
    out[1:, ::2] = x.T @ x
    product = x @ x.T
    return product, product.T, product[::2], product + 1


def test_products_are_written_and_given_out() -> None:
    x, y, out = numbers((30, 30), "f8", 0), numbers((30, 30), "f8", 1), np.zeros((31, 60))
    mine = [x.copy(), y.copy(), out.copy()]
    agree(npc.compile(overwritten)(*mine), overwritten(x, y, out))
    for a, b in zip(mine, (x, y, out)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_what_is_not_finite() -> None:
    compiled = npc.compile(products)
    x, y = numbers((20, 30), "f8", 0), numbers((30, 10), "f8", 1)
    x[3, 4], y[7, 2] = np.inf, np.nan
    with np.errstate(all="ignore"):
        agree(compiled(x, y), products(x, y))


CHAINS = ("ij,jk,kl->il", "ij,jk,kl,lm->", "ab,bc,ca->b", "abc,bd,ce,af->def", "i,ij,j->", "ij,kj,k->i")


@pytest.mark.parametrize("text", CHAINS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c16"])
def test_einsum_of_many(text: str, dtype: str) -> None:
    shapes = [tuple(5 + ord(a) % 7 for a in term) for term in text.split("->")[0].split(",")]
    operands = [numbers(shape, dtype, k) for k, shape in enumerate(shapes)]
    compiled = npc.compile(lambda *xs: np.einsum(text, *xs))
    for last in (1, np.inf, 0):
        if dtype[0] in "fc":
            operands[0][..., 0], operands[1][0] = last, 0 if last else np.nan
        with np.errstate(all="ignore"):
            made, expected = compiled(*operands), np.einsum(text, *operands)
        rtol = 1e-4 if dtype == "f4" else 1e-11
        np.testing.assert_allclose(made, expected, rtol=rtol, atol=rtol)
        assert made.dtype == expected.dtype and np.shape(made) == np.shape(expected)


# --- sums of products


def outer_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))


def three(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x[:, :, None] * y[:, None, :] * np.abs(x)[:, :, None]).sum(axis=(1, 2))


def pairs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x[:, None, :] * y[None, :, :]).sum(-1)


def first_axis(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x[:, :, None] * y[:, None, :]).sum(0)


def everything(x: np.ndarray, y: np.ndarray) -> Any:
    return np.sum(x[:, None, :, None] * y[None, :, None, :])


SUMS = (outer_sum, three, pairs, first_axis, everything)


@pytest.mark.parametrize("function, dtype", [*product(SUMS, ["f8", "i4"]), *zip(SUMS, cycle(["f4", "c16", "u1"]))])
def test_sums_of_products(function: Callable[..., Any], dtype: str) -> None:
    compiled = npc.compile(function)
    for rows, length in ((24, 20), (17, 33)):
        x, y = numbers((rows, length), dtype, 0), numbers((rows, length), dtype, 1)
        made, expected = compiled(x, y), function(x, y)
        assert made.dtype == expected.dtype and np.shape(made) == np.shape(expected)
        if dtype[0] in "iu":
            np.testing.assert_array_equal(made, expected)
            continue
        exact = function(x.astype(WIDE[dtype[0]]), y.astype(WIDE[dtype[0]]))
        size = function(*(abs(v).astype(np.longdouble) for v in (x, y)))
        numpys = np.sqrt(np.mean((abs(expected - exact) / size) ** 2))
        assert np.sqrt(np.mean((abs(made - exact) / size) ** 2)) <= 2 * numpys + np.finfo(dtype).eps


@pytest.mark.parametrize("function", SUMS)
def test_products_that_overflow_are_made_as_written(function: Callable[..., Any]) -> None:
    compiled = npc.compile(function)
    x, y = numbers((24, 20), "f8", 0), numbers((24, 20), "f8", 1)
    for first, second in ((np.inf, 0.0), (np.inf, 1.0), (np.nan, 0.0), (1e300, 1e300), (-np.inf, np.inf)):
        a, b = x.copy(), y.copy()
        a[3, 4], b[3, 5] = first, second
        a[5, 1] = -a[3, 4]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(a, b), function(a, b), rtol=1e-9)


def test_overflow_warns_as_numpy_does() -> None:
    compiled = npc.compile(outer_sum)
    x, y = np.full((8, 16), 1e200), np.full((8, 16), 1e200)
    x[:, 1::2] *= -1
    compiled(x / 1e200, y)
    with pytest.warns(RuntimeWarning, match="overflow"):
        made = compiled(x, y)
    assert np.isnan(made).all()


def test_what_is_taken_apart() -> None:
    """The sums of a sum of products, and no product of full size, are left."""
    builder = Builder(env=ShapeEnv())
    x, y = (builder.input(TensorMeta((32, 16), np.dtype("f8"))) for _ in range(2))
    wide = (32, 16, 16)
    left = builder.apply("broadcast_to", builder.apply("reshape", x, shape=(32, 16, 1)), shape=wide)
    right = builder.apply("broadcast_to", builder.apply("reshape", y, shape=(32, 1, 16)), shape=wide)
    total = builder.apply("reduce", builder.apply("multiply", left, right), reducer="add", axes=(1, 2))
    factored = factor(builder.finish([total]))
    assert factored.is_guarded
    assert max(n.meta.size for n in factored.graph.nodes) == 32 * 16


def test_products_are_calls_of_blas() -> None:
    compiled = npc.compile(pairs)
    compiled(numbers((40, 30), "f8", 0), numbers((40, 30), "f8", 1))
    assert any("product" in name for _, made in compiled_function(compiled).graphs for name in made.kernels)


def test_products_along_and_across_a_square_matrix_are_apart() -> None:
    """In one loop, one of them would jump from row to row at each element."""

    def along_and_across(a: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return a @ x, y @ a

    def along_twice(a: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return a @ x, a @ y

    for function, kernels in ((along_and_across, 2), (along_twice, 1)):
        compiled, arguments = npc.compile(function), [numbers(shape, "f8", k) for k, shape in enumerate(((30, 30), (30,), (30,)))]
        for made, wanted in zip(compiled(*arguments), function(*arguments)):
            np.testing.assert_allclose(made, wanted, rtol=1e-13)
        assert [len(made.kernels) for _, made in compiled_function(compiled).graphs] == [kernels]


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: -(x * y),
        lambda x, y: -np.square(x),
        lambda x, y: np.conj(x * y),
        lambda x, y: -(x * y).real,
        lambda x, y: (x * y).imag * -1,
        lambda x, y: -(x * y + x),
    ],
)
def test_products_of_complex_numbers_with_the_other_sign(function, dtype):
    """GCC would join a fused operation and the negation after it, whose zeros then are positive."""
    parts = (0.0, -0.0, 1.0, -1.0, 0.5)
    x, y = (each.ravel().astype(dtype) for each in np.meshgrid(*[[complex(re, im) for re in parts for im in parts]] * 2))
    ours, numpys = npc.compile(function)(x, y), function(x, y)
    assert ours.dtype == numpys.dtype
    np.testing.assert_array_equal(ours, numpys)
    for part in ("real", "imag"):
        np.testing.assert_array_equal(np.signbit(getattr(ours, part)), np.signbit(getattr(numpys, part)))
