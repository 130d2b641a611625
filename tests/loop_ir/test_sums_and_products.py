"""Sums in NumPy's order and products of matrices in loops: routines of the target, wherever execution is left."""

from __future__ import annotations

from types import FunctionType

import numpy as np
import pytest

from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Call, Routine
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments
from tests.loop_ir.programs import numbers, with_
from tests.loop_ir.test_front_end import agrees
from tests.loop_ir.test_parallel import whole


def totals(x, n):
    s = 0.0
    for k in range(n):
        s = s + x.sum() + (x * k).mean()
    return s


def rows_and_columns(x, n):
    for _ in range(n):
        x[:, 0] = x.sum(axis=1)
        x[0] += x.sum(axis=0)
    return x


def normalised(x, n):
    for _ in range(n):
        x = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    return x


def powers(a, x, n):
    for _ in range(n):
        x = a @ x
        x = x / 8.0
    return x


def products(a, b, x, n):
    for _ in range(n):
        x = x @ a + a.T @ x
        b = a @ b
        b = b.T @ a
        x = x / 16.0
        b = b / 16.0
    return x, b


CASES: list[tuple[FunctionType, list[Arguments]]] = [
    (totals, [(numbers(n), 3) for n in (300, 0, 1, 5, 8, 127, 1000)]),
    (totals, [(numbers(1000)[::3], 3), (numbers(7)[::-1], 1)]),
    (totals, [(numbers(*shape), 2) for shape in ((30, 40), (3, 1), (1, 9), (0, 4))]),
    (totals, [(with_(numbers(300), 200, np.inf), 2), (with_(numbers(300), 299, 1e308) * 2, 2)]),
    (rows_and_columns, [(numbers(*shape), 2) for shape in ((5, 300), (7, 1), (1, 1), (3, 0), (200, 4))]),
    (normalised, [(numbers(5, 300), 2), (np.zeros((3, 10)), 2)]),
    (powers, [(whole(n, n), whole(n), 2) for n in (8, 30, 1, 0)]),
    (powers, [(with_(whole(9, 9), 3, np.inf), whole(9), 2), (with_(whole(9, 9), 3, 1e308), 100 * whole(9), 2)]),
    (products, [(whole(8, 8), whole(8, 8), whole(8), 2), (np.full((3, 3), np.inf), whole(3, 3), whole(3), 1)]),
    (products, [(whole(2, 2), whole(2, 2), whole(2), 1), (whole(2, 3), whole(2, 2), whole(2), 1)]),  # NumPy raises
]


@pytest.mark.parametrize(("function", "cases"), CASES, ids=[f"{k}-{f.__name__}" for k, (f, _) in enumerate(CASES)])
def test_they_agree_wherever_they_are_left(function: FunctionType, cases: list[Arguments]) -> None:
    agrees(function, *cases)


@pytest.mark.parametrize(
    ("function", "arguments", "kind", "names"),
    [
        (totals, (numbers(30), 2), Call, {"sum"}),
        (powers, (whole(8, 8), whole(8), 2), Routine, {"matvec"}),
        (products, (whole(8, 8), whole(8, 8), whole(8), 2), Routine, {"matvec_of_turned", "matmul", "matmul_of_turned"}),
    ],
)
def test_routines_compute_them(function: FunctionType, arguments: Arguments, kind: type[Call | Routine], names: set[str]) -> None:
    program = trace(function, arguments).program
    assert {op.op for op in walk(program.body) if isinstance(op, kind)} == names


@pytest.mark.parametrize("x", [np.asfortranarray(numbers(9, 9)), numbers(9, 18)[:, ::2]], ids=["turned", "columns"])
def test_arrays_in_another_order_are_left_to_others(x: np.ndarray) -> None:
    with pytest.raises(Unsupported, match="order in memory"):
        trace(rows_and_columns, (x, 2))
