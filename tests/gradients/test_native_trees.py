"""Arguments that are trees, in native programs of functions with loops: a param for each leaf, known items unrolled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import trees
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.eager_transforms import EAGER
from npcompile.loop_gradients import MOST_LEAVES, LoopGradients
from npcompile.loop_questions import Question

X = np.linspace(0.1, 1, 20)


@dataclass
class Filter:
    gains: np.ndarray
    decay: float


def of_dict(p, x):
    state, total = 0.0, 0.0
    for i in range(x.size):
        state = np.tanh(p["w"][0] * state + p["u"] * x[i])
        total = total + state * p["w"][1]
    return total


def of_dataclass(p, x):
    state = 0.0
    for i in range(x.size):
        state = state * p.decay + p.gains[i % 3] * x[i]
    return state * state


def of_layers(layers, x):
    total = 0.0
    for i in range(x.size):
        y = x[i]
        for w, b in layers:
            y = np.sin(w * y + b)
        for k, (w, _) in enumerate(layers):
            y = y + w * k
        for (w, _), (_, b) in zip(layers, layers):
            y = y + w * b
        total = total + y * y
    return total + len(layers)


def of_matrices(p, x):
    h = np.zeros(3)
    for i in range(x.size):
        h = np.tanh(p["w"] @ h + p["b"] * x[i])
    return np.sum(h * h)


def with_none(p, x):
    total = 0.0
    for i in range(x.size):
        total = total + p[0] * x[i]
    return total


MATRICES = {"w": np.random.default_rng(0).random((3, 3)), "b": np.array([0.5, 1.0, -1.0])}
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int | tuple[int, ...]]] = {
    "dict": (of_dict, ({"w": [0.5, 2.0], "u": 1.5}, X), 0),
    "order of keys": (of_dict, ({"u": 1.5, "w": (0.5, 2.0)}, X), 0),
    "dataclass": (of_dataclass, (Filter(np.array([1.0, 2.0, 3.0]), 0.9), X), (0, 1)),
    "list of layers": (of_layers, ([(0.3, 0.1), (1.2, -0.4), (0.7, 0.2)], X), 0),
    "tuple of layers": (of_layers, (((0.3, 0.1),), X), (1, 0)),
    "matrices": (of_matrices, (MATRICES, X), (0,)),
}


def answers(function: Callable[..., Any], arguments: tuple[Any, ...], argnums: int | tuple[int, ...]) -> tuple[Any, list[str]]:
    loops = LoopGradients(Question(argnums), compile_native)
    found = loops(function, arguments)  # type: ignore[arg-type]
    return found, list(loops.reasons.values())


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_trees(name: str) -> None:
    function, arguments, argnums = CASES[name]
    found, reasons = answers(function, arguments, argnums)
    assert not reasons
    options = {"argnums": argnums, "has_aux": False}
    wanted = EAGER["grad"](function, options, arguments, {})
    for result in (found[1] if isinstance(argnums, int) else found[1:], npc.grad(function, argnums)(*arguments)):
        mine, form = trees.flatten(result)
        theirs, their_form = trees.flatten(wanted)
        assert form == their_form
        for a, b in zip(mine, theirs, strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_another_tree_is_another_program() -> None:
    loops = LoopGradients(Question(0), compile_native)
    shallow, deep = [(0.3, 0.1)], [(0.3, 0.1), (1.2, -0.4)]
    for layers in (shallow, deep, shallow, [(0.5, 0.25)]):
        found = loops(of_layers, (layers, X))  # type: ignore[arg-type]
        assert found is not None and len(found[1]) == len(layers)
    assert len(loops.versions) == 2


def test_names_and_defaults() -> None:
    def scaled(p, x=X, *, power=2.0):
        return of_dict(p, x) * power

    p = {"w": [0.5, 2.0], "u": 1.5}
    plain = npc.grad(of_dict)(p, X)
    for found in (npc.grad(of_dict)(p=p, x=X), npc.grad(of_dict)(p, x=X)):
        assert found == plain
    assert npc.grad(scaled)(p)["u"] == pytest.approx(2 * plain["u"])


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (of_layers, ([(0.1, 0.2)] * MOST_LEAVES, X), "many arguments"),
        (of_dict, ({"w": [0.5, 2], "u": 1.5}, X), "not floating-point"),
        (lambda p, x: sum_of(p), ([0.5, 2.0], X), "loops over lists alone"),
    ],
)
def test_what_has_no_native_program_says_why(function: Callable[..., Any], arguments: tuple[Any, ...], reason: str) -> None:
    found, reasons = answers(function, arguments, 0)
    assert found is None and reason in reasons[0]


def sum_of(p):
    total = 0.0
    for each in p:
        total = total + each
    return total


def test_a_part_that_is_none() -> None:
    (found, *_), reasons = answers(with_none, ([1.5, None], X), 0)
    assert found == pytest.approx(1.5 * X.sum()) and not reasons


def test_trees_of_what_has_no_loops_are_not_taken_apart_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(p, x):
        return np.sum((x * p["w"] + p["b"]) ** 2)

    p, x = {"w": np.full(3, 0.5), "b": np.zeros(3)}, np.arange(3.0)
    gradient = npc.grad(loss)
    gradient(p, x)
    monkeypatch.setattr("npcompile.loop_gradients.trees.flatten", None)
    assert gradient._made.loops(loss, (p, x)) is None
