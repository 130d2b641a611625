"""Compiled functions that call themselves across breaks reach the depth that Python lets plain ones reach."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.device_arrays import array_types
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core.graph import Graph

X = np.arange(3.0)


@pytest.fixture(autouse=True)
def without_a_device() -> None:
    if array_types():
        pytest.skip("where another test has used a device, functions stay compiled at any depth, and are less deep")


def breaks(*_: object) -> None:
    npc.graph_break()


def down(n: int, x: np.ndarray) -> Any:
    if n == 0:
        return x
    npc.graph_break()
    return down_compiled(n - 1, x + 1) * 1


def down_plain(n: int, x: np.ndarray) -> Any:
    if n == 0:
        return x
    breaks()
    return down_plain(n - 1, x + 1) * 1


def captured(n: int, x: np.ndarray) -> Any:
    return captured_compiled(n - 1, x + 1) * 1 if n else x


def even(n: int, x: np.ndarray) -> Any:
    return odd_compiled(n - 1, x + 1) if n else x


def odd(n: int, x: np.ndarray) -> Any:
    npc.graph_break()
    return even_compiled(n - 1, x) if n else -x


def signature(n: int, /, x: np.ndarray, *rest: int, k: int = 2, holds: int = 3, **others: int) -> Any:
    """Parameters of every kind, one with the name of a variable of generated programs."""
    npc.graph_break()
    if n == 0:
        return x * k + holds, rest, others
    return signature_compiled(n - 1, x, *rest, k=k, holds=holds, **others)


def forever(x: np.ndarray) -> Any:
    npc.graph_break()
    return forever_compiled(x + 1)


def fails(n: int, x: np.ndarray) -> Any:
    npc.graph_break()
    if n == 0:
        raise ValueError("at the end")
    return fails_compiled(n - 1, x + 1)


down_compiled = npc.compile(down, backend="eager")
captured_compiled = npc.compile(captured, backend="eager")
even_compiled = npc.compile(even, backend="eager")
odd_compiled = npc.compile(odd, backend="eager")
signature_compiled = npc.compile(signature, backend="eager")
forever_compiled = npc.compile(forever, backend="eager")
fails_compiled = npc.compile(fails, backend="eager")


def room() -> int:
    """How many calls are left."""
    return sys.getrecursionlimit() - len(traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False))


@pytest.fixture(autouse=True)
def limit() -> Iterator[int]:
    before = sys.getrecursionlimit()
    yield before
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(("function", "each"), [(down_compiled, 1), (captured_compiled, 1), (even_compiled, 0.5)])
def test_as_deep_as_plain_functions(function: Callable[..., Any], each: float) -> None:
    depth = room() * 9 // 20 * 2
    down_plain(depth - 10, X)
    for _ in range(2):
        assert np.array_equal(function(depth, X), X + depth * each)


def test_every_kind_of_parameter() -> None:
    result, rest, others = signature_compiled(100, X, 7, k=3, holds=5, other=1)
    assert np.array_equal(result, X * 3 + 5) and rest == (7,) and others == {"other": 1}


def test_without_end() -> None:
    for _ in range(2):
        with pytest.raises(RecursionError):
            forever_compiled(X)


def test_no_stack_of_c_is_used() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        assert down_compiled(30_000, X)[0] == captured_compiled(30_000, X)[0] == 30_000
    finally:
        sys.setrecursionlimit(before)


def test_a_limit_that_the_user_sets_on_the_way_stays() -> None:
    def deep(n: int) -> int:
        npc.graph_break()
        if n == 0:
            sys.setrecursionlimit(4321)
            return 0
        return compiled(n - 1) + 1

    compiled = npc.compile(deep, backend="eager")
    before = sys.getrecursionlimit()
    try:
        assert compiled(100) == 100
        assert sys.getrecursionlimit() == 4321
    finally:
        sys.setrecursionlimit(before)


def test_traceback_of_what_is_raised_at_the_end() -> None:
    with pytest.raises(ValueError, match="at the end") as caught:
        fails_compiled(50, X)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["fails"] * 51


def test_threads() -> None:
    results: list[float] = []
    threads = [threading.Thread(target=lambda: results.append(down_compiled(700, X)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [700.0] * 4


def merged(x: np.ndarray) -> np.ndarray:
    """As often inside itself as the size says."""
    if x.size <= 4:
        return np.cumsum(x)
    low, high = merged(x[::2]), merged(x[1::2])
    return np.concatenate((low + high, low - high))


def test_a_size_that_says_how_often_needs_few_programs() -> None:
    graphs = []

    def backend(graph: Graph, example_inputs: Any) -> Any:
        graphs.append(graph)
        return compile_eager(graph, example_inputs)

    compiled = npc.compile(merged, backend=backend)
    counts = []
    for size in (64, 256, 1024, 2048, 4096, 8192):
        x = np.arange(float(size))
        np.testing.assert_array_equal(compiled(x), merged(x))
        counts.append(len(graphs))
    assert counts[-2] == counts[-1] <= 16, counts


def test_levels_that_a_small_size_asks_for_are_one_graph() -> None:
    """Whichever size came first: where few levels are left, these are one program, and no calls."""
    calls = []

    def backend(graph: Graph, example_inputs: Any) -> Any:
        run = compile_eager(graph, example_inputs)
        return lambda *inputs: calls.append(graph) or run(*inputs)

    for sizes in ((4096, 1024), (64, 1024)):
        compiled = npc.compile(merged, backend=backend)
        for size in (*sizes, *sizes, sizes[-1]):
            calls.clear()
            x = np.arange(float(size))
            np.testing.assert_array_equal(compiled(x), merged(x))
        assert len(calls) <= 2 * 1024 / 32, (sizes, len(calls))


def test_levels_are_one_graph_only_where_the_function_begins() -> None:
    """What follows a call of itself calls itself too: the program of few levels is there already."""
    graphs = []

    def backend(graph: Graph, example_inputs: Any) -> Any:
        graphs.append(graph)
        return compile_eager(graph, example_inputs)

    x = np.arange(4096.0)
    np.testing.assert_array_equal(npc.compile(merged, backend=backend)(x), merged(x))
    assert sum(2 <= str(graph).count("concatenate(") <= 15 for graph in graphs) == 1  # 32 elements: 7


def test_one_graph_where_it_is_asked_for() -> None:
    compiled = npc.compile(merged, fullgraph=True, dynamic=True, backend="eager")
    x = np.arange(64.0)
    np.testing.assert_array_equal(compiled(x), merged(x))
