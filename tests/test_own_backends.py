"""Backends of the user: what they are shown, and what a graph does for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

X = np.arange(12.0).reshape(4, 3)


def recording(shown: list[Any]) -> Callable[..., Any]:
    def backend(graph: Any, example_inputs: Any) -> Any:
        shown.append((graph, example_inputs))
        return graph.run

    return backend


def function(x: Any, s: Any, k: Any, t: Any) -> Any:
    y = np.sin(x) * s + k + t
    x += 1
    return y.sum(axis=1), y.T[::2], y[0, 0]


def test_examples_are_what_the_call_gives() -> None:
    shown: list[Any] = []
    compiled = npc.compile(function, backend=recording(shown))
    x = X.copy()
    compiled(x, 2.0, 3, np.float32(2))
    graph, examples = shown[0]
    assert len(examples) == len(graph.inputs) + len(graph.symbols)
    assert [type(each) for each in examples] == [np.ndarray, float, np.float32, int]
    assert examples[0] is x and examples[1:] == [2.0, 2.0, 3]


def test_graphs_run() -> None:
    shown: list[Any] = []
    compiled = npc.compile(function, backend=recording(shown), fullgraph=True)
    for n in (4, 5, 6):
        x, y = np.ones((n, 3)), np.ones((n, 3))
        for got, wanted in zip(compiled(x, 2.0, n, np.float32(2)), function(y, 2.0, n, np.float32(2)), strict=True):
            np.testing.assert_array_equal(got, wanted)
            assert type(got) is type(wanted) and got.dtype == wanted.dtype and got.strides == wanted.strides
        np.testing.assert_array_equal(x, y)
    assert len(shown) == 2


def test_run_finds_sizes_in_shapes() -> None:
    shown: list[Any] = []
    npc.compile(lambda x: x.sum(axis=0) / len(x), backend=recording(shown), dynamic=True)(X)
    graph, examples = shown[0]
    for x in (X, np.ones((7, 5))):
        np.testing.assert_array_equal(graph.run(x)[0], x.mean(axis=0))
    np.testing.assert_array_equal(graph.run(*examples)[0], X.mean(axis=0))
    for given in ((), (X, 1)):
        with pytest.raises(TypeError, match=r"takes 1 inputs and the integers s0, s1, and \d values were given"):
            graph.run(*given)


def test_what_the_program_finds_on_its_way() -> None:
    shown: list[Any] = []
    compiled = npc.compile(lambda x: x[x > 3] * 2, backend=recording(shown))
    np.testing.assert_array_equal(compiled(X), X[X > 3] * 2)
    for graph, examples in shown:
        assert len(examples) == len(graph.inputs) + len(graph.symbols)
        assert all(isinstance(each, (np.ndarray, np.generic, int)) for each in examples)
        graph.run(*examples)


def test_gradients_get_examples() -> None:
    shown: list[Any] = []
    x = npc.tensor(X, requires_grad=True)
    npc.compile(npc.wrap_numpy(lambda x: np.sum(x * x)), backend=recording(shown))(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)
    (_, first), (_, second) = shown
    np.testing.assert_array_equal(first[0], X)
    assert any(type(each) is np.ndarray and each.shape == X.shape for each in second)


def test_the_table(capsys: Any) -> None:
    shown: list[Any] = []

    def changed(x: Any) -> Any:
        y = np.log(x + 1)
        x[...] = y
        return npc.cond(y.sum() > 3, lambda y: y * 2, lambda y: y, y)

    npc.compile(changed, backend=recording(shown))(X.copy())
    shown[0][0].print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["name", "op", "inputs", "shape", "dtype", "line"] and set(lines[2]) == {"-", " "}
    (logged,) = (line.split() for line in lines if " log " in line)
    assert logged[1] == "log" and logged[3:6] == ["(4,", "3)", "float64"] and logged[6].startswith("test_own_backends.py:")
    assert any(line.startswith("write") and "x0[...] = " in line for line in lines)
    assert any(line.startswith("return") for line in lines) and any("true_graph" in line or ".true" in line for line in lines)


def test_a_graph_of_nothing() -> None:
    shown: list[Any] = []
    compiled = npc.compile(lambda: np.zeros(3) + 1, backend=recording(shown))
    np.testing.assert_array_equal(compiled(), np.ones(3))
