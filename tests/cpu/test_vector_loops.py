"""Loops of float64 and float32 that are written in vectors: to the bit what the compiler's own vectors give."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import known_values, planning
from npcompile.backends.cpu.kernel_plan import KernelPlan
from npcompile.backends.cpu.vector_loops import FUNCTIONS, TEMPLATES, VectorForm
from tests.cpu.test_pipelines import as_tuple, compiled, operands, random_chain

SIZES = (1, 2, 7, 8, 9, 15, 16, 23, 33, 64, 100, 1001)
DTYPES = ("f8", "f4")
ERRORS = {"f8": (1e-13, 1e-14), "f4": (2e-5, 1e-5)}  # relative and absolute


@contextmanager
def without_vectors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_values, "vectors_of", lambda *_: None)
        patch.setattr(known_values, "column_vectors_of", lambda *_: None)
        yield


def vectors_of(plans: list[KernelPlan]) -> list[VectorForm]:
    return [form for plan in plans for form in plan.values.vectors.values()]


class Both:
    """A function compiled with loops that are written in vectors, and without: the results, and the arguments afterwards, are
    the same."""

    def __init__(self, function: Callable):
        self.written, self.plans = compiled(function)
        copy = FunctionType(function.__code__, function.__globals__, None, None, function.__closure__)
        self.plain, self.plain_plans = compiled(copy)

    def __call__(self, *args: np.ndarray) -> tuple:
        mine, others = [x.copy() for x in args], [x.copy() for x in args]
        results = as_tuple(self.written(*mine))
        with without_vectors():
            expected = as_tuple(self.plain(*others))
        assert self.plain_plans and not vectors_of(self.plain_plans)
        for x, y in zip([*results, *mine], [*expected, *others], strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_array_equal(x, y)
            assert np.all((np.signbit(x) == np.signbit(y)) | np.isnan(x))
        return results


def special(count: int, dtype: str) -> np.ndarray:
    """Numbers of all kinds, the special ones too."""
    x = np.random.default_rng(1).standard_normal(count) * 3
    most = np.finfo(dtype).max / 10
    kinds = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5, -2.5, most, -most, 1e-40, 1e10, 2.0**22 + 0.5]
    x[: len(kinds)] = kinds[:count]
    return x.astype(dtype)


OPERATIONS = sorted(op for op in TEMPLATES if hasattr(np, op))  # not copies, nor products of derivatives


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ops", [OPERATIONS[k : k + 3] for k in range(0, len(OPERATIONS), 3)], ids=" ".join)
def test_operations(ops, dtype) -> None:
    functions = [getattr(np, op) for op in ops]

    def program(x, y):
        made = [function(*(x, y)[: function.nin]) for function in functions]
        return *(np.where(m, np.exp(x), y) if m.dtype == bool else m + 0 * np.cos(y) for m in made), np.exp(x)

    both = Both(program)
    with np.errstate(all="ignore"):
        for n in SIZES:
            x = special(n, dtype)
            for y in (x[::-1].copy(), np.roll(x, 1), x):
                results = both(x, y)
                for mine, numpys, op in zip(results, program(x, y), [*ops, "exp"], strict=True):
                    np.testing.assert_allclose(mine, numpys, *ERRORS[dtype], err_msg=op)
    assert vectors_of(both.plans)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_that_stay_zero(dtype) -> None:
    def loss(x):
        return np.where(x > 0, x * np.log(x), 0).sum()

    both = Both(lambda x: npc.grad(loss)(x))
    with np.errstate(all="ignore"):
        for n in SIZES:
            x = np.abs(np.random.default_rng(0).standard_normal(n)).astype(dtype) * (np.arange(n) % 3 > 0)
            (found,) = both(x.astype(dtype))
            np.testing.assert_allclose(found, np.where(x > 0, np.log(x) + 1, 0), *ERRORS[dtype])
    assert vectors_of(both.plans)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_functions(op, dtype) -> None:
    function = getattr(np, op)

    def program(x, y):
        return function(*(x, y)[: function.nin]) + x.dtype.type(1.5)

    both = Both(program)
    with np.errstate(all="ignore"):
        for n in SIZES:
            x = special(n, dtype)
            (mine,) = both(x, np.roll(x, 1))
            np.testing.assert_allclose(mine, program(x, np.roll(x, 1)), *ERRORS[dtype])
    assert vectors_of(both.plans) or (op == "float_power" and dtype == "f4")  # whose results are float64


def logic(x, y):
    near, far = np.abs(x) < 1, y > 2
    either = np.where(near, far, ~far) ^ (near | far) & ~near
    return np.where(either, np.sin(x), np.exp(y)) + either


def with_positions(x, y):
    i = np.arange(x.size)
    return np.log(i + 1.0) * x + np.cos((2 * i - 3) * 0.25), np.exp(-1.0 / (1 + i))


def with_scalars(x, y):
    return np.exp(x * y[0]) + 0.5 * y[-1], np.sin(x) ** 3 + np.tanh(x) ** 0.5


def in_place(x, y):
    x[:] = np.exp(x) - y
    y *= np.sin(y)
    return x + y


PROGRAMS = (logic, with_positions, with_scalars, in_place)
OF_FLOAT64 = (with_positions,)  # as integers and float32 make it


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", PROGRAMS)
def test_programs(function, dtype) -> None:
    both = Both(function)
    with np.errstate(all="ignore"):
        for n in SIZES:
            args = operands((n,), dtype)[:2] * 4 - 3
            results = both(*args)
            for mine, numpys in zip(results, as_tuple(function(*(x.copy() for x in args))), strict=True):
                np.testing.assert_allclose(mine, numpys, *ERRORS[dtype])
    assert vectors_of(both.plans) or function in OF_FLOAT64 and dtype == "f4"


def means_of_groups(points, labels):
    return tuple(points[labels == k].mean(axis=0) for k in range(4))


def signed_sums(points, labels):
    return (np.where((labels > 1)[:, None], points, -points).sum(axis=0),)


def sums_of_positives(points, labels):
    return (np.where(points < 0, 0, points).sum(axis=0),)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [means_of_groups, signed_sums, sums_of_positives])
def test_columns_that_are_one_vector(function, dtype) -> None:
    """Sums of columns under conditions, also of NaN, infinities and zeros: NumPy's bits."""
    width = 64 // np.dtype(dtype).itemsize
    for columns in (2, 3, width - 1, width, width + 1):
        both = Both(function)
        for rows in (5, 300):
            points, labels = np.resize(special(rows * columns, dtype), (rows, columns)), np.arange(rows) * 7 % 5
            with np.errstate(all="ignore"):
                for mine, numpys in zip(both(points, labels), function(points, labels), strict=True):
                    np.testing.assert_array_equal(mine, numpys)
                    assert np.all((np.signbit(mine) == np.signbit(numpys)) | np.isnan(mine))
        are_of_one_size = dtype == "f8" or function is sums_of_positives  # labels have 64 bits
        assert bool(vectors_of(both.plans)) is (columns <= width and are_of_one_size)


def test_nothing_else_is_written_or_read() -> None:
    """The last elements of a row lie before others, and the last of all before a page that may not be read."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + page), page, 0) == 0
    try:
        all_numbers = np.frombuffer(memory, np.float64, page // 8)
        for n in (1, 3, 7, 8, 9, 13):
            compiled_function = npc.compile(lambda x, out: np.exp(x, out=out))
            all_numbers[:] = 1.0
            compiled_function(all_numbers[-n:], all_numbers[-n:])
            assert np.all(all_numbers[:-n] == 1.0) and np.all(np.abs(all_numbers[-n:] - np.e) < 1e-15)
            rows = np.ones((5, n + 3))
            compiled_function(rows[:, :n], rows[:, :n])
            assert np.all(rows[:, n:] == 1.0) and np.all(rows[:, :n] != 1.0)
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), page, 3)


def test_other_lanes_note_no_errors() -> None:
    """Neither those behind the last element, nor positions behind it."""
    log, positions = npc.compile(lambda x: np.log(x)), npc.compile(lambda x: np.log(5.0 - np.arange(x.size)) * x)
    with np.errstate(all="raise"):
        for n in range(1, 20):
            beyond = np.zeros(32)
            beyond[:n] = 2.0
            np.testing.assert_allclose(log(beyond[:n]), np.log(2.0))
        for n in range(1, 6):
            np.testing.assert_allclose(positions(np.ones(n)), np.log(5.0 - np.arange(n)), rtol=1e-15)
        for n in range(6, 18):
            with pytest.raises(FloatingPointError):
                positions(np.ones(n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0, 1])
def test_far_results_are_written_past_the_caches(shift, dtype, monkeypatch) -> None:
    """Where all of them begin on a boundary of vectors, and none is what is read."""
    monkeypatch.setattr(planning, "FAR", 1)
    x = np.random.default_rng(0).random((3, 4001 + shift)).astype(dtype)[:, shift:]
    for function in (lambda x: x + 1, lambda x: np.exp(x), long_chain, lambda x: (x + 1, x * 2)):
        far, plans = compiled(function)
        for mine, numpys in zip(as_tuple(far(x)), as_tuple(function(x)), strict=True):
            np.testing.assert_allclose(mine, numpys, *ERRORS[dtype])
        assert any(form.is_past_caches for form in vectors_of(plans))

    def in_place(x):
        x += 1
        return x

    np.testing.assert_array_equal(npc.compile(in_place)(x.copy()), in_place(x.copy()))


def long_chain(x):
    return np.log(np.exp(np.sin(x)) + np.sqrt(x)) / (1 + np.exp(-x))


@pytest.mark.parametrize("seed", range(8))
def test_random_chains(seed) -> None:
    chain: Any = random_chain(1000 + seed)
    both = Both(chain)
    with np.errstate(all="ignore"):
        for n in (random.Random(seed).choice(SIZES), 700):
            both(*(operands((n,), random.Random(seed).choice(DTYPES)) * 4 - 4))


def test_what_has_no_form_is_left_to_the_compiler() -> None:
    for function in (
        lambda x: np.exp(x[::2]),
        lambda x: np.exp(x) > 1,
        lambda x: np.cbrt(x),
        lambda x: x.astype("f4"),
        lambda x: x.astype("f4") + x,
    ):
        written, plans = compiled(function)
        np.testing.assert_allclose(written(np.linspace(0, 1, 30)), function(np.linspace(0, 1, 30)))
        assert plans and not vectors_of(plans)
