"""`self.w -= step` and `parameters["w"] -= step`: Python sets the attribute or item to the object that it was already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc

X = np.arange(6.0).reshape(2, 3)


class Model:
    def __init__(self) -> None:
        self.w = npc.tensor(np.ones(3), requires_grad=True)
        self.parameters = {"w": npc.tensor(np.ones(3), requires_grad=True)}
        self.total, self.parts = np.zeros(3), [np.ones(3)]
        self.calls = 0

    def attribute(self, x: Any) -> Any:
        loss = np.sum((x @ self.w) ** 2)
        loss.backward()
        with npc.no_grad():
            self.w -= 0.01 * self.w.grad
        self.w.grad = None
        return loss

    def item(self, x: Any) -> Any:
        loss = np.sum((x @ self.parameters["w"]) ** 2)
        loss.backward()
        with npc.no_grad():
            self.parameters["w"] -= 0.01 * self.parameters["w"].grad
        self.parameters["w"].grad = None
        return loss

    def arrays(self, x: Any) -> Any:
        self.total += x[0]
        self.parts[0] *= 2
        return np.sum(self.total * self.parts[0])

    def state(self) -> list[Any]:
        return [self.w.detach().numpy(), self.parameters["w"].detach().numpy(), self.total, self.parts[0]]


@pytest.mark.parametrize("name", ["attribute", "item", "arrays"])
def test_one_program_for_the_whole_step(name: str) -> None:
    ours, theirs = Model(), Model()
    before = [*map(id, (ours.w, ours.parameters["w"], ours.total, ours.parts[0]))]
    compiled = npc.compile(getattr(ours, name), fullgraph=True)
    for _ in range(3):
        np.testing.assert_allclose(float(compiled(X)), float(getattr(theirs, name)(X)), rtol=1e-12)
    for a, b in zip(ours.state(), theirs.state(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert before == [*map(id, (ours.w, ours.parameters["w"], ours.total, ours.parts[0]))]


def test_what_is_set_to_another_object_is_set() -> None:
    def sets(model: Any, x: Any) -> Any:
        model.total = model.total + x
        model.parts[0] = x
        model.calls += 1
        return x * 2

    model = Model()
    compiled = npc.compile(sets)
    for _ in range(2):
        compiled(model, X)
    assert model.total.shape == (2, 3) and model.parts[0] is X and model.calls == 2
