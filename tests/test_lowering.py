"""`lower`: what there is to compute, counted by hand; nothing runs before `compile`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

A, B, X = np.ones((20, 30)), np.ones((30, 40)), np.arange(1.0, 11.0)


def squares(x: np.ndarray, n: int = 4) -> float:
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
    return total


def triangle(x: np.ndarray) -> np.ndarray:
    out = np.zeros(x.size)
    for i in range(x.size):
        for j in range(i):
            out[i] += x[j]
    return out


def exponentials(x: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0.5:
                out[i, j] = np.exp(x[i, j])
            else:
                out[i, j] = x[i, j]
    return out


def root_of_roots(x: float) -> float:
    while x > 1.01:
        x = np.sqrt(x)
    return x


def product_and_more(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = a @ b
    for i in range(a.shape[0]):
        out[i, 0] += a[i, 0]
    return out


@pytest.mark.parametrize(
    ("f", "args", "flops", "transcendentals", "accessed", "arguments", "outputs"),
    [
        (lambda a, b: a @ b, (A, B), 2 * 20 * 30 * 40, 0, 8 * (600 + 1200 + 800), 8 * 1800, 8 * 800),
        (lambda a: a.sum(), (A,), 599, 0, 8 * 601, 4800, 8),
        (lambda a: a.sum(axis=0), (A,), 30 * 19, 0, 8 * 630, 4800, 240),
        (lambda a: a.max(axis=1), (A,), 20 * 29, 0, 8 * 620, 4800, 160),
        (lambda a: np.exp(a) * 2 + a, (A,), 1200, 600, 8 * 1200, 4800, 4800),  # one kernel
        (lambda a: np.cumsum(a, axis=1), (A,), 600, 0, 8 * 1200, 4800, 4800),
        (lambda a: a.astype("f4") + np.float32(1), (A,), 1200, 0, 12 * 600, 4800, 2400),  # a conversion is one, too
        (squares, (X, 6), 12, 0, 6 * 16, 80, 0),
        (squares, (X,), 8, 0, 4 * 16, 80, 0),
        (triangle, (X,), 45, 0, 45 * 24, 80, 80),  # what the outer index says is counted
        (exponentials, (A,), 600, 600, 600 * 24, 4800, 4800),  # the longer arm
        (product_and_more, (A, B), 48000 + 20, 0, 8 * 2600 + 20 * 24, 8 * 1800, 8 * 800),
    ],
)
def test_counted_by_hand(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    flops: int,
    transcendentals: int,
    accessed: int,
    arguments: int,
    outputs: int,
) -> None:
    lowered = npc.compile(f).lower(*args)  # type: ignore[attr-defined]
    costs, memory = lowered.cost_analysis(), lowered.memory_analysis()
    assert (costs["flops"], costs["transcendentals"]) == (flops, transcendentals)
    assert costs["bytes accessed"] == accessed
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (arguments, outputs)
    assert memory.peak_memory_in_bytes >= memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert lowered.uncounted == ()


def test_memory_in_between() -> None:
    """A product needs its operand in memory; what a kernel computes on the way does not."""
    one = npc.lower(lambda a, b: np.exp(a) @ b, A, B).memory_analysis()
    assert one.temp_size_in_bytes == pytest.approx(A.nbytes, abs=128)  # rounded up
    assert npc.lower(lambda a: np.exp(a) * 2 + a, A).memory_analysis().temp_size_in_bytes == 0
    loop = npc.lower(lambda x: [x := x + 1.0 for _ in range(3)][-1], X).memory_analysis()
    assert loop.output_size_in_bytes == X.nbytes


def test_what_nobody_can_count() -> None:
    lines = [root_of_roots.__code__.co_firstlineno + k for k in (1, 2)]
    (said,) = npc.lower(root_of_roots, 30.0).uncounted
    assert said in [f"the loop at line {line}" for line in lines]
    (said,) = npc.lower(lambda a: np.linalg.inv(a @ a.T) + 1.0, A).uncounted
    assert said.startswith("inv at test_lowering.py:")


def test_text_and_compiled() -> None:
    graph, loop = npc.lower(lambda a, b: a @ b + 1.0, A, B), npc.lower(squares, X, 6)
    assert "einsum(" in graph.as_text()
    assert "for " in loop.as_text()
    for lowered, args in ((graph, (A, B)), (loop, (X, 6))):
        compiled = lowered.compile()
        assert np.array_equal(compiled(*args), lowered.function(*args))
        assert "npc_run" in compiled.as_text()
        assert compiled.cost_analysis() == lowered.cost_analysis()
        assert compiled.memory_analysis() == lowered.memory_analysis()


def test_nothing_runs() -> None:
    def f(x: np.ndarray) -> None:
        x += 1.0

    x = X.copy()
    assert npc.lower(f, x).cost_analysis()["flops"] == 10
    assert np.array_equal(x, X)


@pytest.mark.parametrize("f", [lambda x: print(x + 1), lambda x: None])
def test_what_is_not_captured_as_a_whole(f: Callable[..., Any]) -> None:
    with pytest.raises(npc.GraphBreakError):
        npc.lower(f, X)
    with pytest.raises(TypeError, match="takes a Python function"):
        npc.lower(len, X)


def test_the_method_keeps_its_function_as_long_as_it_is_kept() -> None:
    f = npc.compile(lambda x: x + 1.0)
    known, lower = weakref.ref(f), f.lower  # type: ignore[attr-defined]
    del f
    gc.collect()
    assert lower(X).cost_analysis()["flops"] == 10
    del lower
    gc.collect()
    assert known() is None
