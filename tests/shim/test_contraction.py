"""Matrix and tensor products: shapes, dtypes, scalars, memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npcompile.numpy_shim.registry import FUNCTIONS
from tests.shim.harness import Capture, check, compare
from tests.shim.layouts import CUBE, LAYOUTS, MATRIX, VECTOR

layouts = st.sampled_from(sorted(LAYOUTS))
many = settings(max_examples=400, deadline=None, derandomize=True)


def agrees(function: Any, *args: Any, **keywords: Any) -> None:
    """What NumPy accepts is captured, and exact (small integers: every sum is)."""
    with np.errstate(all="ignore"):
        check(function, *args, signs=False, **keywords)


@many
@given(layouts, layouts)
def test_products(first: str, second: str) -> None:
    a, b = LAYOUTS[first], LAYOUTS[second]
    for function in (np.dot, np.inner, np.vdot, np.outer, np.matmul):
        agrees(function, a, b)
    if np.ndim(a):
        agrees("dot", a, b)


@pytest.mark.parametrize("name", [n for n in ("vecdot", "matvec", "vecmat") if hasattr(np, n)])
@pytest.mark.parametrize("first", sorted(LAYOUTS))
def test_gufuncs(name: str, first: str) -> None:
    for second in LAYOUTS.values():
        agrees(getattr(np, name), LAYOUTS[first], second)


@many
@given(layouts, layouts, st.one_of(st.integers(-1, 3), st.tuples(*[st.lists(st.integers(-3, 2), max_size=3)] * 2)))
def test_tensordot(first: str, second: str, axes: Any) -> None:
    agrees(np.tensordot, LAYOUTS[first], LAYOUTS[second], axes)


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("other", ["?", "i1", "i8", "f4", "c16"])
def test_dtypes(dtype: str, other: str) -> None:
    a, b = np.arange(6).reshape(2, 3).astype(dtype), np.arange(12).reshape(3, 4).astype(other)
    for function, *axes in ((np.dot,), (np.matmul,), (np.tensordot, 1)):
        agrees(function, a, b, *axes)
    agrees(np.inner, a, a)
    agrees(np.vdot, a, a)
    agrees(np.einsum, "ij,jk", a, b)
    agrees(np.dot, a, 2.5)
    agrees(np.dot, 3, b)


def test_stacks_broadcast() -> None:
    stack = np.arange(48.0).reshape(2, 1, 4, 6)
    for b in (np.ones((3, 6, 2)), np.ones((6, 2)), np.ones(6), np.ones((2, 3, 6, 1)), np.ones((1, 6, 2)), np.ones((3, 5, 2))):
        agrees(np.matmul, stack, b)
        agrees(np.matmul, stack.swapaxes(0, 1), b)
        agrees(np.matmul, b, stack)
    agrees(np.matmul, np.zeros((2, 0)), np.zeros((0, 3)))
    agrees(np.dot, np.zeros((2, 0)), np.zeros((0, 3)))
    agrees(np.matmul, np.zeros((0, 2)), np.zeros((2, 3)))


@pytest.mark.parametrize(
    "out", [np.zeros((3, 3)), np.zeros((3, 3)).T[::-1], np.zeros((3, 3), "f4"), np.zeros((3, 3), "i8"), np.zeros((2, 3))]
)
def test_out(out: np.ndarray) -> None:
    agrees(np.dot, MATRIX, MATRIX.T, out)
    agrees(np.matmul, MATRIX, MATRIX.T, out)
    agrees(np.outer, VECTOR[:3], VECTOR[:3], out)
    agrees(np.einsum, "ij,kj->ik", MATRIX, MATRIX, out=out)
    agrees("trace", MATRIX, out=np.zeros(()))


def test_dot_of_negative_zeros() -> None:
    for a in (np.array([-0.0, 1.0]), np.array([[-0.0], [2.0]]), np.array([[-0.0]]), np.array(-0.0), np.zeros((2, 1, 1))):
        agrees(np.dot, a, 1.0)
        agrees(np.dot, -0.0, a)


ONE = ["ij", "ji", "ij->ij", "ij->ji", "ij->i", "ij->j", "ij->", "...->...", "...j->...", "i...->...", "...ij->...ji"]
TWO = [
    "ij,jk",
    "ij,jk->ik",
    "ij,jk->ki",
    "ij,kj->ik",
    "ij,ij",
    "ij,ij->ij",
    "ij,ij->i",
    "ij,ij->ji",
    "ij,kl->ikjl",
    "ij,kl->lkji",
    "ij,ik->kij",
    "ij,j->i",
    "i,ij->j",
    "i,j->ij",
    "i,j->ji",
    "i,i",
    "i,i->i",
    "...ij,...jk->...ik",
    "...i,...i->...",
    "ij...,jk...->ik...",
    "...,...",
    "ijk,ikl->ijl",
    "ijk,ilk->ijl",
    "ijk,ijl->ikl",
    "ij , jk -> ik",
]


@pytest.mark.parametrize("text", ONE)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_einsum_of_one(text: str, layout: str) -> None:
    agrees(np.einsum, text, LAYOUTS[layout])


@many
@given(st.sampled_from(TWO), layouts, layouts, st.sampled_from("KCFA"))
def test_einsum_of_two(text: str, first: str, second: str, order: str) -> None:
    agrees(np.einsum, text, LAYOUTS[first], LAYOUTS[second], order=order)


@pytest.mark.parametrize("text", TWO)
def test_einsum_sizes(text: str) -> None:
    """Operands that fit the subscripts, in C and F order."""
    sizes = dict(zip("ijkl", (2, 3, 4, 5)))
    left = text.replace(" ", "").partition("->")[0].split(",")
    shapes = [[*((2,) if "..." in term else ()), *(sizes[c] for c in term.replace("...", ""))] for term in left]
    shapes = [s if "...," not in text or t.startswith("...") else s[1:] + s[:1] for s, t in zip(shapes, left)]
    arrays = [np.random.default_rng(0).integers(-5, 5, shape).astype(float) for shape in shapes]
    for a in (arrays[0], np.asfortranarray(arrays[0]), arrays[0][..., ::-1]):
        for b in (arrays[1], np.asfortranarray(arrays[1]), arrays[1].astype("f4")):
            agrees(np.einsum, text, a, b)


def test_einsum_forms() -> None:
    agrees(np.einsum, MATRIX, [0, 1], MATRIX, [2, 1], [0, 2])
    agrees(np.einsum, MATRIX, [1, 0])
    agrees(np.einsum, CUBE, [Ellipsis, 0], VECTOR[:4], [0], [Ellipsis])
    agrees(np.einsum, "ij,jk,kl->il", MATRIX, MATRIX.T, MATRIX)
    agrees(np.einsum, "ij,ij->ij", MATRIX, np.ones((1, 4)))
    agrees(np.einsum, "...ij,...jk->...ik", np.ones((2, 1, 3, 4)), np.ones((5, 4, 2)))
    agrees(np.einsum, "ij,jk->ik", MATRIX.astype("f4"), MATRIX.T, dtype="f8")
    agrees(np.einsum, "i,->i", VECTOR, 2.0)


@pytest.mark.parametrize(
    "text", ["ij,jk->iz", "ij->ijj", "i", "ijk", "i1", "ij,jk", "..i", "ij->...", "i...j...", "ij->i->j", ""]
)
def test_einsum_refused(text: str) -> None:
    check(np.einsum, text, MATRIX, must_capture=False)


def test_einsum_repeated_label() -> None:
    square = np.arange(9.0).reshape(3, 3)
    for text in ("ii", "ii->", "ij,jj->i", "ii,ii->i", "jj,ij", "ii,jj"):
        agrees(np.einsum, text, *[square, square.T][: text.partition("->")[0].count(",") + 1])
    agrees(np.einsum, "iij,iij->ij", np.ones((2, 2, 3)), np.ones((2, 2, 3)))
    assert not check(np.einsum, "ii->i", square, must_capture=False)  # a writeable view
    assert not check(np.einsum, "ii", MATRIX, must_capture=False)


@pytest.mark.parametrize("mode", [0, 1, 2, "valid", "same", "full"])
@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "f8", "c16"])
def test_correlation(mode: Any, dtype: str) -> None:
    for n, m in ((7, 3), (7, 4), (4, 4), (5, 1), (3, 5), (50, 40)):
        a, v = (np.arange(-2, k - 2).astype(dtype) * (1 + 2j if dtype == "c16" else 1) for k in (n, m))
        for function in (np._core.multiarray.correlate, np._core.multiarray.correlate2):
            check(function, a.astype(dtype), v.astype(dtype)[::-1], mode, must_capture=n >= m)


@pytest.mark.parametrize("optimize", [True, "greedy", "optimal", ["einsum_path", (0, 2), (0, 1)]])
def test_einsum_path(optimize: Any) -> None:
    a, b, c = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)
    for text in ("ij,jk,kl->il", "ij,jk,kl->", "ij,jk,kl->jl", "ij,jk,kl"):
        capture = Capture()
        operands = capture.wrap([a, b, c])
        result = capture.run(FUNCTIONS[np.einsum](capture.builder, text, *operands, optimize=optimize))
        compare(np.array(result, order="C"), np.array(np.einsum(text, a, b, c, optimize=optimize), order="C"))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vecdot_axis(axis: int) -> None:
    if hasattr(np, "vecdot"):
        agrees(np.vecdot, MATRIX, MATRIX, axis=axis)
