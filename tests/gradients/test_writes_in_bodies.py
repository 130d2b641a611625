"""Functions of loops and branches that write to what they are given: the same by itself and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc


def raised(k: Any, c: Any) -> Any:
    c[0] += k + 1
    return c * 2


def branch(x: Any) -> Any:
    x *= 3
    return np.sum(x)


def over_rows(c: Any, row: Any) -> Any:
    c += row
    return c, c * 2


# function of (x, rows), and whether x is written.
PROGRAMS = {
    "fori_loop": (lambda x, rows: npc.fori_loop(0, 3, raised, x), False),
    "while_loop": (lambda x, rows: npc.while_loop(lambda c: np.sum(c) < 50, lambda c: raised(0, c), x), False),
    "while_loop that does not run": (lambda x, rows: npc.while_loop(lambda c: np.sum(c) < -50, lambda c: raised(0, c), x), False),
    "scan": (lambda x, rows: npc.scan(over_rows, x, rows), False),
    "cond that writes": (lambda x, rows: npc.cond(np.sum(rows) > 0, branch, np.sum, x), True),
    "cond that does not": (lambda x, rows: npc.cond(np.sum(rows) < 0, branch, np.sum, x), False),
}


@pytest.mark.parametrize("kind", [np.array, npc.tensor], ids=["arrays", "Tensors"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_writes(name: str, kind: Callable[..., Any]) -> None:
    function, is_written = PROGRAMS[name]
    results = []
    for f in (function, npc.compile(function, fullgraph=True)):
        x, rows = kind([1.0, 2.0]), kind([[1.0, 2.0], [3.0, 4.0]])
        found = f(x, rows)
        results.append([np.asarray(part) for part in (found if isinstance(found, tuple) else [found])])
        assert np.asarray(x).tolist() == ([3.0, 6.0] if is_written else [1.0, 2.0])
        assert np.asarray(rows).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def loss_of_loop(x: Any) -> Any:
    return np.sum(npc.fori_loop(0, 3, raised, x)) + np.sum(x)


def test_gradient_through_a_body_that_writes_to_its_carry() -> None:
    np.testing.assert_array_equal(npc.grad(loss_of_loop)(np.ones(2)), [9.0, 9.0])
    x = npc.tensor([1.0, 1.0], requires_grad=True)
    loss_of_loop(x).backward()
    assert x.grad.tolist() == [9.0, 9.0]


def test_gradient_through_a_branch_that_writes() -> None:
    def loss(x: Any) -> Any:
        y = x * 1
        return npc.cond(np.sum(y) > 0, branch, np.sum, y) + np.sum(y)

    np.testing.assert_array_equal(npc.grad(loss)(np.ones(2)), [6.0, 6.0])


def test_a_scan_that_writes_to_the_elements_ends_the_graph() -> None:
    def step(c: Any, row: Any) -> Any:
        row *= 2
        return c + row, None

    compiled = npc.compile(lambda x, rows: npc.scan(step, x, rows)[0])
    rows = np.ones((3, 2))
    assert compiled(np.zeros(2), rows).tolist() == [6.0, 6.0] and rows.tolist() == [[2.0, 2.0]] * 3
    refused = pytest.raises(npc.GraphBreakError, match="f of scan writes to what it is given")
    with refused, npc.config.patch(native_loops=False):
        npc.compile(lambda x, rows: npc.scan(step, x, rows)[0], fullgraph=True)(np.zeros(2), np.ones((3, 2)))
