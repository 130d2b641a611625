"""Python loops of programs on a device: nodes of the graph where a loop fits into one, the same answers where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)

random = np.random.default_rng(0)


def in_place(u: Any, steps: int) -> Any:
    for _ in range(steps):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u.sum()


def updated_name(u: Any) -> Any:
    for k in range(18):
        u += k
    return u * 2


def swapped_copies(x: Any) -> Any:
    a, b = x.copy(), x * 2
    for _ in range(18):
        b[1:-1] = 0.25 * (a[2:] + a[:-2])
        a, b = b, a
    return a, b


def escape(c: Any) -> Any:
    z, count = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(18):
        inside = np.abs(z) < 2
        z = np.where(inside, z * z + c, z)
        count += inside
    return z, count


def power_iteration(A: Any, v: Any) -> Any:
    for _ in range(18):
        w = A @ v
        v = w / np.sqrt(w @ w)
    return v


def rows_by_number(x: Any, w: Any) -> Any:
    for k in range(x.shape[0]):
        x[k] = w @ x[k] + k
    return x


def views_anew(x: Any) -> Any:
    a = x * 1
    for k in range(18):
        v = a[:2]
        a[0] += k
    return v, a


def nested(x: Any) -> Any:
    for _ in range(20):
        for _ in range(3):
            x = np.sin(x) + 1
        x = x * 0.5
    return x


NODES: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = [
    (in_place, lambda r: (random.random(50 + r), 18)),
    (updated_name, lambda r: (random.random(5 + r),)),
    (swapped_copies, lambda r: (random.random(9 + r),)),
    (escape, lambda r: (random.random((5, 6 + r)) * 3 - 2 + 1j * random.random((5, 6 + r)),)),
    (power_iteration, lambda r: (random.random((6 + r, 6 + r)), random.random(6 + r))),
    (rows_by_number, lambda r: (random.random((17 + r, 3)) / 9, random.random((3, 3)) / 9)),
    (nested, lambda r: (random.random(4 + r),)),
]


def swapped_arguments(a: Any, b: Any) -> Any:
    for _ in range(18):
        b[1:-1] = 0.25 * (a[2:] + a[:-2])
        a, b = b, a
    return a


def also_held(x: Any) -> Any:
    a, b = x * 1, x * 2
    held = a
    for _ in range(19):
        b[1:] = a[:-1] * 0.5
        a, b = b, a
    return held, a


def view_that_is_read(x: Any) -> Any:
    a = x * 1
    v = a[1:]
    for k in range(18):
        a[0] += v[0]
        v = a[1:] if k % 2 else a[:-1]
    return v, a


def collected(x: Any) -> Any:
    every = []
    for k in range(20):
        x = np.sin(x) + k
        every.append(x)
    return every


def until(x: Any) -> Any:
    for k in range(100):
        x = x * 0.5
        if x.max() < 1e-3:
            break
    return x, k


def triangle(A: Any) -> Any:
    n = A.shape[0]
    L = np.zeros((n, n))
    for j in range(n):
        s = A[j:, j] - L[j:, :j] @ L[j, :j]
        L[j:, j] = s / np.sqrt(s[0])
    return L


OTHERS: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = [
    (views_anew, lambda r: (random.random(4 + r),)),  # a loop over elements: one program of the device
    (swapped_arguments, lambda r: (random.random(9 + r), random.random(9 + r))),
    (also_held, lambda r: (random.random(9 + r),)),
    (view_that_is_read, lambda r: (random.random(9 + r),)),
    (collected, lambda r: (random.random(4 + r),)),
    (until, lambda r: (random.random(4 + r),)),
    (triangle, lambda r: (np.eye(18 + r) * 30 + 1,)),
]
EACH = [(*case, True) for case in NODES] + [(*case, False) for case in OTHERS]


@pytest.mark.parametrize(("function", "arguments", "is_node"), EACH, ids=[f.__name__ for f, _, _ in EACH])
def test_answers(
    function: Callable[..., Any],
    arguments: Callable[[int], tuple[Any, ...]],
    is_node: bool,
    there: There,  # noqa: F811
) -> None:
    compiled = npc.compile(function)
    for round in range(3):
        given = arguments(round)
        ours = there.put([x.copy() if isinstance(x, np.ndarray) else x for x in given])
        found, expected = compiled(*ours), function(*given)
        same(there.get(found), expected, rtol=1e-9)
        same(there.get(ours), list(given), rtol=1e-9)
    graphs = [graph for graph, _ in compiled_function(compiled).graphs]
    assert any(node.op == "for_loop" for graph in graphs for node in graph.nodes) is is_node
    assert not is_node or len(graphs) <= 2, "a new size is a program more, once"
