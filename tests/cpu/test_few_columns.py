"""Sums of a few columns go along the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.kernel_plan import ColumnBlocks, KernelPlan, Order
from npcompile.backends.kernels.kernel import Let, walk
from tests.cpu.plans import plans_of


def forces(x: np.ndarray, m: np.ndarray) -> np.ndarray:
    d = x[None, :, :] - x[:, None, :]
    r2 = (d * d).sum(axis=2) + 0.01
    return (d * (m / (r2 * np.sqrt(r2)))[:, :, None]).max(axis=1) * 0.5 - x


FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "sum": lambda x, w: x.sum(axis=1),
    "weighted": lambda x, w: (x * w[:, None]).sum(axis=1) + 1,
    "mean and variance": lambda x, w: (x.mean(axis=1), x.var(axis=1)),
    "extremes": lambda x, w: (x.max(axis=1), x.min(axis=1)),
    "shared function": lambda x, w: (x * np.sqrt(np.abs(w))[:, None]).sum(axis=1),
    "product": lambda x, w: (x * 0.01 + 1).prod(axis=1),
    "two axes": lambda x, w: x.reshape(x.shape[0], -1, 2, x.shape[2]).sum(axis=(1, 2)),
    "place of the largest": lambda x, w: x.argmax(axis=1),
    "any": lambda x, w: (x > 1).any(axis=1),
}


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 3).astype(dtype)


def agree(made: Any, expected: Any) -> None:
    for a, b in zip(made, expected, strict=True) if isinstance(expected, tuple) else [(made, expected)]:
        assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
        if b.dtype.kind in "fc":
            tolerance = {"e": 2e-2, "f": 1e-4}.get(b.dtype.char, 1e-11)
            largest = np.max(np.abs(b), where=np.isfinite(b), initial=1)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(largest))
        else:
            np.testing.assert_array_equal(a, b)


OF_NUMBERS = ("mean and variance", "extremes")  # of truth values these are other operations
OTHERS = [pair for k, n in enumerate(FUNCTIONS) for pair in zip((n, n), ("f4", "f2", "c16", "i8", "u1", "?")[k % 3 :: 3])]
CASES = [*((n, "f8") for n in FUNCTIONS), *((n, d) for n, d in OTHERS if d != "?" or n not in OF_NUMBERS)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_sums_of_a_few_columns(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    for columns in (3, (2, 4, 5)[len(name) % 3]) if dtype == "f8" else (3,):
        compiled = npc.compile(function)
        for rows in (2, 4, 18, 150, 600):
            x, w = numbers((7, rows, columns), dtype), numbers((rows,), dtype)
            agree(compiled(x, w), function(x, w))


def are_in_rows(plan: KernelPlan) -> bool:
    """Has each of the three columns a running sum, and do they share what takes long?"""
    roots = sum(isinstance(s, Let) and s.op == "sqrt" for s in walk(plan.kernel.body))
    return roots == 1 and not plan.columns and [len(reduce.accumulators) for reduce in plan.reduces] == [3]


@pytest.mark.parametrize("bodies", [4, 150])
def test_what_the_columns_share_is_computed_once(bodies: int) -> None:
    x, m = numbers((bodies, 3), "f8"), np.arange(1.0, bodies + 1)
    _, plan = plans_of(forces, x, m)
    assert are_in_rows(plan)
    agree(npc.compile(forces)(x, m), forces(x, m))


def weights(x: np.ndarray, w: np.ndarray, a: float) -> np.ndarray:
    """Much to compute for each row, of which compilers make no vectors where the columns are the inner loop."""
    f = a / np.sqrt(w * w)
    return ((x * a + 0.5 - (x - a) * (x + 1) * 0.25) * f[..., None] + x * 0.125).sum(axis=1)


def test_terms_that_take_long_are_computed_for_some_rows_and_added_in_their_order() -> None:
    compiled, unknown = npc.compile(weights), npc.compile(weights, dynamic=True)
    for rows in (2, 4, 31, 32, 33, 150, 600):
        x, w = numbers((7, rows, 3), "f8"), numbers((7, rows), "f8")
        assert np.array_equal(compiled(x, w, 0.5), unknown(x, w, 0.5)), rows
        agree(compiled(x, w, 0.5), weights(x, w, 0.5))
    (plan,) = plans_of(weights, numbers((7, 150, 3), "f8"), numbers((7, 150), "f8"), 0.5)
    assert are_in_rows(plan) and [form.order for form in plan.reduces.values()] == [Order.TERMS]


def test_columns_without_loops_stay_so() -> None:
    """Of a few rows of cheap terms the unrolled columns are quicker than the lanes of rows."""
    (plan,) = plans_of(FUNCTIONS["weighted"], numbers((7, 5, 3), "f8"), numbers((5,), "f8"))
    assert [form.is_unrolled for form in plan.columns.values()] == [True]


def test_many_columns_stay_columns() -> None:
    (plan,) = plans_of(FUNCTIONS["weighted"], numbers((7, 500, 8), "f8"), numbers((500,), "f8"))
    assert [form.is_unrolled for form in plan.columns.values()] == [False]


def test_nan_and_infinities_in_some_columns() -> None:
    compiled = npc.compile(FUNCTIONS["weighted"])
    x, w = numbers((7, 100, 3), "f8"), numbers((100,), "f8")
    x[2, 50, 1], x[3, 4, 2], x[4, 5, 0] = np.nan, np.inf, -0.0
    agree(compiled(x, w), FUNCTIONS["weighted"](x, w))
    x[3, 7, 2], w[4], w[7] = -np.inf, 1, 1
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        agree(compiled(x, w), FUNCTIONS["weighted"](x, w))
    assert len(noted) == 2 and {str(n.message) for n in noted} == {"invalid value encountered in reduce"}


def test_few_columns_are_not_counted_as_a_whole_block() -> None:
    """How much work a task is decides whether a second thread is woken."""

    def centered(x: np.ndarray) -> np.ndarray:
        return x - x.mean(axis=1, keepdims=True)

    ways = [plan.way for plan in plans_of(centered, numbers((6, 5, 4), "f4"))]
    assert [way.elements for way in ways if isinstance(way, ColumnBlocks)] == [5 * 4]


def test_no_columns() -> None:
    compiled = npc.compile(lambda x: (x.sum(axis=-2), (x * 2).sum(axis=-1)), dynamic=True)
    for shape in ((3, 0), (2, 3, 0), (0, 0)):
        for made, expected in zip(compiled(np.zeros(shape)), (np.zeros((*shape[:-2], 0)), np.zeros(shape[:-1]))):
            agree(made, expected)
