"""Programs of one output give it itself; a tuple would take as long as a small kernel."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import npcompile
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.registry import CompiledGraph, FloatingPointSignal
from npcompile.tensor_core.graph import Graph


def compiled_graphs(function: Callable, *arguments: object) -> list[CompiledGraph]:
    """What a call compiles; its result is NumPy's."""
    made: list[CompiledGraph] = []

    def backend(graph: Graph, example_inputs):
        made.append(compile_cpu(graph, example_inputs))
        return made[-1]

    compiled = npcompile.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        expected, found = function(*arguments), compiled(*arguments)
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)
    return made


X = np.arange(1.0, 13.0).reshape(3, 4)


@pytest.mark.parametrize("function", [lambda x: x * 2 + 1, lambda x: x.sum(), lambda x: x[:1] @ x.T, lambda x: x.any()])
def test_one_output_is_given_itself_and_in_a_tuple(function: Callable) -> None:
    (made,) = compiled_graphs(function, X)
    assert made.item is made.quickest
    np.testing.assert_array_equal(made.item(X), function(X))
    (one,) = made(X)
    np.testing.assert_array_equal(one, function(X))
    assert made.targets(["t0"]) == "t0 = "


def test_several_outputs_are_a_tuple() -> None:
    (made,) = compiled_graphs(lambda x: (x + 1, x * 2), X)
    assert made.item is None and len(made.quickest(X)) == 2
    assert made.targets(["t0", "t1"]) == "t0, t1, = " and made.targets([]) == ""


def test_pieces_around_a_call_of_numpy() -> None:
    square = X[:, :3] + 9 * np.eye(3)
    compiled_graphs(lambda x: np.linalg.inv(x * 2) + 1, np.kron(np.eye(3), square))


def test_an_error_is_signalled_by_both() -> None:
    (made,) = compiled_graphs(lambda x: 1 / x, X)
    for call in (made.call, made.item):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointSignal):
            call(X - 1)


def test_what_an_error_undoes_is_no_output() -> None:
    """The old contents of an argument are kept beside the output."""

    def divided(x):
        x /= x - 1
        return x.sum()

    compiled = npcompile.compile(divided)
    for first in (2.0, 1.0, 3.0):
        mine, theirs = np.arange(first, first + 40), np.arange(first, first + 40)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(compiled(mine), divided(theirs))
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kept", ["call", "item"])
def test_either_keeps_the_library(kept: str) -> None:
    (made,) = compiled_graphs(lambda x: x * 2 + 1234.5, X)
    function = getattr(made, kept)
    del made
    gc.collect()
    np.testing.assert_array_equal(np.squeeze(function(X)), X * 2 + 1234.5)
