"""`explain` says which optimisations a program has, where, and why not where it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.passes import Pass, PassLog
from tests.native_loops.agreement import without_loop_ir


def passes(function: Callable[..., Any], *arguments: Any) -> dict[tuple[str, int], Pass]:
    """By name and line, counted from the line of `def`; of graphs by name and 0."""
    explained = npc.explain(function)(*arguments)
    first = function.__code__.co_firstlineno
    found = {}
    for each in explained.passes:
        line = each.place.rpartition("line ")[2]
        found[each.name, int(line) - first if line.isdigit() else 0] = each
    assert f"pass: {explained.passes[0]}" in str(explained)
    return found


def recurrence(x: np.ndarray, rate: float) -> np.ndarray:
    result = np.empty_like(x)
    last = 0.0
    for i in range(len(x)):
        last = rate * x[i] + (1 - rate) * last
        result[i] = last
    return result


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = np.zeros((len(a), b.shape[1]))
    for i in range(len(a)):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(len(b)):
                total += a[i, k] * b[k, j]
            result[i, j] = total
    return result


def sweep(u: np.ndarray) -> np.ndarray:
    for i in range(1, len(u) - 1):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def steps(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    for _ in range(50):
        v = v - 0.01 * x
        x = x + 0.01 * v
    return x


def neighbours(u: np.ndarray) -> np.ndarray:
    for _ in range(20):
        u[1:-1] = (u[:-2] + u[2:]) / 2
    return u


def test_a_recurrence_runs_in_order() -> None:
    found = passes(recurrence, np.linspace(0, 1, 100), 0.3)
    assert found["parallelize", 3].why_not == "iterations that need what others computed"
    assert found["speculate", 3].fired
    assert not found["vectorize", 3].fired


def test_rows_of_a_product_are_independent() -> None:
    arguments = np.ones((20, 20)), np.ones((20, 20))
    assert passes(product, *arguments)["parallelize", 2].fired
    with without_loop_ir():
        found = passes(product, *arguments)
    assert found["parallelize", 2].fired
    assert found["vectorize the outer loop", 3].fired


def test_rows_that_need_the_row_before_them_are_a_wavefront() -> None:
    assert passes(sweep, np.random.default_rng(1).random((30, 30)))["wavefront", 1].fired
    with without_loop_ir():
        found = passes(sweep, np.random.default_rng(1).random((30, 30)))
    assert found["wavefront", 2].fired
    assert not found["parallelize", 1].fired


@pytest.mark.parametrize(("function", "count", "name"), [(steps, 2, "row tiling"), (neighbours, 1, "stencil tiling")])
def test_statements_about_arrays_are_tiled_over_iterations(function: Callable[..., Any], count: int, name: str) -> None:
    found = passes(function, *[np.linspace(0, 1, 1000)] * count)
    assert found[name, 1].fired


def test_operations_of_a_graph_are_fused() -> None:
    def chain(x: np.ndarray) -> Any:
        return np.exp(-x * x) + 1

    found = passes(chain, np.linspace(0, 1, 100))
    assert found["fusion", 0].fired
    assert "4 operations" in found["fusion", 0].place


def test_what_fired_once_has_fired() -> None:
    log = PassLog()
    log.note("unroll", "the loop at line 3", "its trip count is not known")
    log.note("unroll", "the loop at line 3")
    log.note("unroll", "the loop at line 3", "too long")
    log.note("unroll", "the loop at line 5", "too long")
    assert [str(p) for p in log.all()] == ["unroll: the loop at line 3", "unroll: not the loop at line 5: too long"]
