"""accuracy="bitwise": everything has NumPy's bits, whatever the dtype, the layout, the size, and the number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import npcompile as npc
from npcompile.tensor_core.op import OPS
from tests.covering import pairs
from tests.ops.bits import different, numbers

Layout = Callable[[np.ndarray], np.ndarray]


def unaligned(x: np.ndarray) -> np.ndarray:
    made = np.ndarray(x.shape, x.dtype, np.zeros(x.nbytes + 1, np.uint8), offset=1)
    made[...] = x
    return made


LAYOUTS: dict[str, Layout] = {
    "contiguous": lambda x: x,
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 3, axis=-1)[..., ::3],
    "reversed": lambda x: x[::-1, ::-1],
    "reversed rows": lambda x: x[:, ::-1],
    "vector": lambda x: x.ravel(),
    "reversed vector": lambda x: x.ravel()[::-1],
    "one": lambda x: x[:1, :1],
    "0-D": lambda x: x[3, 4].reshape(()),
    "scalar": lambda x: x[3, 4],
    "unaligned": unaligned,
    "empty": lambda x: x[:0],
}


def agree(function: Callable[..., Any], *arguments: Any, compiled: Any = None) -> None:
    compiled = compiled or npc.compile(function, accuracy="bitwise")
    with npc.config.patch(recompile_limit=1000, internal_errors="raise"), np.errstate(all="ignore"):
        for _ in range(2):
            ours, theirs = compiled(*arguments), function(*arguments)
            assert not different(ours, theirs), [(np.shape(x), getattr(x, "strides", None)) for x in arguments]


UNARY = [op.numpy for op in OPS.values() if op.inexact and isinstance(op.numpy, np.ufunc) and op.numpy.nin == 1]
BINARY = [op.numpy for op in OPS.values() if op.inexact and isinstance(op.numpy, np.ufunc) and op.numpy.nin == 2]


def functions(every: list[np.ufunc], letter: str) -> list[np.ufunc]:
    return [f for f in every if any(types.startswith(letter * f.nin + "->") for types in f.types)]


LETTERS_AND_LAYOUTS = [
    *(("d", each) for each in LAYOUTS),
    *((letter, each) for k, letter in enumerate("efFD") for each in [*LAYOUTS][k % 3 :: 3]),
]


@pytest.mark.parametrize("letter, layout", LETTERS_AND_LAYOUTS)
def test_functions_of_one_number(letter: str, layout: str) -> None:
    rng = np.random.default_rng(1)
    chosen = functions(UNARY, letter)
    x = LAYOUTS[layout](numbers(np.dtype(letter), 40 * 31, rng).reshape(40, 31))
    agree(lambda x: [f(x) for f in chosen], x)


@pytest.mark.parametrize("letter, layout", LETTERS_AND_LAYOUTS)
def test_functions_of_two_numbers(letter: str, layout: str) -> None:
    rng = np.random.default_rng(2)
    chosen = functions(BINARY, letter)
    x, y = (LAYOUTS[layout](numbers(np.dtype(letter), 40 * 31, rng).reshape(40, 31)) for _ in range(2))
    agree(lambda x, y: [f(x, y) for f in chosen], x, y)


@pytest.mark.parametrize("letter", "fdD")
def test_functions_of_numbers_that_repeat(letter: str) -> None:
    rng = np.random.default_rng(3)
    chosen = functions(BINARY, letter)
    x, row, column = (numbers(np.dtype(letter), n, rng) for n in (40 * 31, 31, 40))
    x, column = x.reshape(40, 31), column.reshape(40, 1)
    agree(
        lambda x, row, column: [part for f in chosen for part in (f(x, row), f(column, x), f(column, row), f(x, row[3]))],
        x,
        row,
        column,
    )


@pytest.mark.parametrize("letter", "efdFD")
def test_powers(letter: str) -> None:
    """NumPy has ways of its own for some exponents, by their type and by where they come from."""
    rng = np.random.default_rng(4)
    x = numbers(np.dtype(letter), 900, rng)
    exponents = [2, 3, 4, -1, -2, 0, 1, 0.5, 2.0, -1.0, 3.0, 1.0, 0.0, 1.5, 2j]
    if letter not in "FD":
        exponents.pop()
    agree(lambda x: [x**n for n in exponents], x)
    agree(lambda x: [np.power(x, n) for n in exponents], x)
    arrays = [np.full(900, n, letter) for n in (2.0, 0.5, -1.0)] + [np.full(shape, 2.0, letter) for shape in ((), (1,))]
    for y in arrays:
        agree(lambda x, y: (x**y, y**x, np.power(x, y)), x, y)
        agree(lambda x, y: (x**y, y**x, np.power(x, y)), x[:1], y[:1] if y.shape == (900,) else y)
    agree(lambda x: x[3] ** x[4], abs(x[:5]) + 1)


def chain(x: np.ndarray, y: np.ndarray) -> Any:
    z = np.exp(-x * x) * np.sin(y) + np.log1p(np.abs(x * y))
    return z, np.tanh(z) * z + np.cos(x) ** 3, np.hypot(z, y) - np.arctan2(x, y)


def softmax(x: np.ndarray, y: np.ndarray) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True), np.log(np.exp(y).sum(axis=0)), np.exp(x).mean(), np.log(np.abs(y)).var(axis=1)


def products(x: np.ndarray, y: np.ndarray) -> Any:
    a = np.tanh(x)
    return (
        a @ y.T,
        np.dot(x.T, y),
        np.inner(x, y),
        np.tensordot(a, y, 2),
        np.einsum("ij,kj->ik", x, y),
        x @ x.T,
        x[0] @ y[0],
        a.T @ a,
    )


def reductions(x: np.ndarray, y: np.ndarray) -> Any:
    return [
        [np.prod(np.cos(x), axis=axis), x.max(axis=axis), np.cumsum(np.exp(y), axis=axis), np.cumprod(np.cos(x), axis=axis)]
        for axis in (0, 1)
    ]


def views(x: np.ndarray, y: np.ndarray) -> Any:
    z = np.exp(x)
    return (
        z[1:, ::2] * np.sin(y)[:-1, ::2],
        np.cos(z[::-1]),
        np.cos(z.T).sum(axis=0),
        np.exp(y[:, ::-1]).sum(),
        z[2],
        z[:, 3].sum(),
    )


def chosen(x: np.ndarray, y: np.ndarray) -> Any:
    return np.where(x > 0, np.sqrt(np.abs(x)) * np.exp(y), np.sin(x)), np.exp(x[y > 0]).sum(), np.log(np.abs(x[[1, 3, 3]]))


def written(x: np.ndarray, y: np.ndarray) -> Any:
    out = np.empty_like(x)
    np.exp(x, out=out)
    out[1:] += np.sin(y[:-1])
    z = y.copy()
    z[...] = np.cos(z) * z
    np.tanh(z[:, ::2], out=z[:, ::2])
    return out, z


def joined(x: np.ndarray, y: np.ndarray) -> Any:
    return np.concatenate([np.exp(x), y, np.sin(y)]), np.stack([np.cos(x), x]), np.vstack([np.exp(x), np.exp(y)]).sum(axis=1)


def matrices(x: np.ndarray, y: np.ndarray) -> Any:
    a = np.exp(-x[:8, :8]) + 4 * np.eye(8, dtype=x.dtype)
    small = a[:3, :3]
    return (
        np.linalg.inv(small),
        np.linalg.det(small),
        np.linalg.solve(a, y[:8, :3]),
        np.linalg.norm(np.sin(x)),
        np.linalg.eigvalsh(a + a.T),
    )


PROGRAMS = [chain, softmax, products, reductions, views, chosen, written, joined, matrices]


@pytest.mark.parametrize("letter, layout, program", pairs("df", ["contiguous", "fortran", "strided", "reversed rows"], PROGRAMS))
def test_programs(letter: str, layout: str, program: Callable[..., Any]) -> None:
    rng = np.random.default_rng(5)
    compiled = npc.compile(program, accuracy="bitwise")
    for shape in ((20, 13), (65, 700)) if letter == "d" else ((65, 700),):
        x, y = (
            LAYOUTS[layout](numbers(np.dtype(letter), int(np.prod(shape)), rng, is_ordinary=True).reshape(shape))
            for _ in range(2)
        )
        agree(program, x, y, compiled=compiled)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_answer_in_every_way(program: Callable[..., Any]) -> None:
    """By kernels, by NumPy op by op, interpreted, with sizes that vary, of arrays that lie at odd addresses."""
    rng = np.random.default_rng(9)
    x, y = (numbers(np.dtype("d"), 65 * 70, rng, is_ordinary=True).reshape(65, 70) for _ in range(2))
    for options in ({}, {"backend": "eager"}, {"dynamic": True}, {"dynamic": False}):
        compiled = npc.compile(program, accuracy="bitwise", **options)
        agree(program, x, y, compiled=compiled)
        agree(program, unaligned(x), unaligned(y), compiled=compiled)
        offset = np.empty(65 * 70 + 3)[3:].reshape(65, 70)
        offset[...] = x
        agree(program, offset, y, compiled=compiled)
    with npc.disabled():
        agree(program, x, y, compiled=compiled)


@pytest.mark.parametrize("program", [chain, softmax, products, reductions])
def test_threads_and_sizes_change_nothing(program: Callable[..., Any]) -> None:
    rng = np.random.default_rng(6)
    x, y = (rng.standard_normal((700, 900)) for _ in range(2))
    compiled = npc.compile(program, accuracy="bitwise", dynamic=True)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="openmp"):
            agree(program, x, y, compiled=compiled)
    agree(program, x[:3, :5].copy(), y[:3, :5].copy(), compiled=compiled)


def test_errors_are_reported_as_numpy_does() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return np.exp(x * 2) + np.log(x)

    compiled = npc.compile(function, accuracy="bitwise")
    for x in (np.full(3000, 400.0), np.full(3000, -1.0), np.zeros(3000)):
        with pytest.warns(RuntimeWarning) as theirs:
            expected = function(x)
        with pytest.warns(RuntimeWarning) as ours:
            assert not different(compiled(x), expected)
        assert [str(w.message) for w in ours] == [str(w.message) for w in theirs]


def test_it_is_a_setting_too() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return np.tanh(np.exp(x) @ x)

    x = np.random.default_rng(7).standard_normal((30, 30)) / 4
    compiled = npc.compile(function)
    compiled(x)
    with npc.config.patch(accuracy="bitwise"):
        assert not different(compiled(x), function(x))
        assert npc.explain(compiled)(x).inexact == ()
    assert npc.explain(compiled)(x).inexact
    with pytest.raises(ValueError, match="unknown accuracy 'exact'"):
        npc.config.accuracy = "exact"
    with pytest.raises(ValueError, match="on the CPU alone, and the backend is"):
        npc.compile(function, backend="cuda", accuracy="bitwise")


@pytest.mark.parametrize("layout", ["contiguous", "fortran", "strided", "reversed", "vector", "reversed vector", "unaligned"])
@pytest.mark.parametrize("letter", "fdFD")
def test_products_of_operands_as_they_lie(letter: str, layout: str) -> None:
    """NumPy gives BLAS vectors with their strides, and copies what BLAS does not take."""
    rng = np.random.default_rng(10)
    x = LAYOUTS[layout](numbers(np.dtype(letter), 36, rng, is_ordinary=True).reshape(6, 6))
    v = x if x.ndim == 1 else x[1]
    agree(lambda x, v: (np.vdot(x, x), np.vdot(v, v), np.dot(v, v), np.inner(v, v), v @ v, np.tensordot(x, x, x.ndim)), x, v)
    if x.ndim == 2:
        agree(lambda x, v: (x @ x, x @ v, v @ x, x.T @ x, x @ x.T, np.inner(x, v), np.einsum("ij,j", x, v), np.dot(x, x.T)), x, v)


def test_derivatives_go_through_products() -> None:
    def loss(x: np.ndarray, y: np.ndarray) -> Any:
        return (np.dot(x, y) * np.einsum("ij,jk", x, y)).sum() + np.tensordot(x, y, 2) + np.inner(x, y).mean()

    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((2, 6, 6))
    with npc.config.patch(accuracy="bitwise"):
        exact = npc.grad(loss)(x, y)
    np.testing.assert_allclose(exact, npc.grad(loss)(x, y), rtol=1e-12)
