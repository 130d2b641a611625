"""Programs of several pieces give what they would have given step by step, whatever changes between calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.runtime import listing
from npcompile.backends.cuda.runtime.listing import ListedProgram
from tests.cuda.there import There, there  # noqa: F401  (a fixture)

RNG = np.random.default_rng(0)
X, W, V = RNG.standard_normal((40, 48)), RNG.standard_normal((48, 64)), RNG.standard_normal((24, 64))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[ListedProgram]:
    """Every program that may be listed."""
    made: list[ListedProgram] = []

    def make(*given: Any) -> ListedProgram:
        made.append(ListedProgram(*given))
        return made[-1]

    monkeypatch.setattr(listing, "ListedProgram", make)
    return made


def lists(programs: list[ListedProgram]) -> int:
    return sum(recipe is not None for p in programs for recipe in p.recipes.values())


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


def layers(x: Any, w: Any, v: Any) -> Any:
    return np.tanh(x @ w) @ v.T + 1


def test_inputs_that_move_and_results_that_stay(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    f = npc.compile(layers)
    w, v, inputs, results = there.put(W), there.put(V), [], []
    for k in range(5):
        inputs.append(there.put(X + k))
        results.append(f(inputs[-1], w, v))
    for k, y in enumerate(results):
        close(there.get(y), layers(X + k, W, V))
    assert lists(programs) == 1


def test_sizes_and_layouts(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    f = npc.compile(layers)
    w, v = there.put(W), there.put(V)
    for rows in (40, 33, 40, 33, 40):
        for x in (X[:rows], np.asfortranarray(X[:rows]), np.repeat(X[:rows], 2, axis=0)[::2]):
            close(there.get(f(there.put(x), w, v)), layers(x, W, V))
    assert lists(programs) >= 2


def test_the_same_array_twice(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    f = npc.compile(lambda x, y: np.exp(-((x @ y) ** 2)) @ x + y)
    square = RNG.standard_normal((32, 32))
    x, y = there.put(square), there.put(square + 1)
    for given, host in [((x, y), (square, square + 1)), ((x, x), (square, square))] * 3:
        close(there.get(f(*given)), np.exp(-((host[0] @ host[1]) ** 2)) @ host[0] + host[1])


def test_numbers_that_change(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    f = npc.compile(lambda x, w, scale: (np.sin(x * scale) @ w).sum(axis=0) * scale)
    x, w = there.put(X), there.put(W)
    for scale in (0.5, 1.25, -0.0, 3.0, 0.5):
        close(there.get(f(x, w, scale)), (np.sin(X * scale) @ W).sum(axis=0) * scale)
    assert lists(programs) == 1


def test_writes(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    def step(w: Any, x: Any, rate: float) -> Any:
        error = x @ w
        w -= rate * (x.T @ error)
        return (error**2).sum()

    f = npc.compile(step)
    x, w = there.put(X), there.put(W)
    expected = W.copy()
    for k in range(5):
        rate = 1e-3 * (k + 1)
        close(there.get(f(w, x, rate)), step(expected, X, rate))
        close(there.get(w), expected)
    assert lists(programs) == 1


def test_heads_of_attention(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    def attention(x: Any, q: Any, k: Any, v: Any) -> Any:
        heads = [(x @ m).reshape(2, 40, 2, 48).transpose(0, 2, 1, 3) for m in (q, k, v)]
        scores = heads[0] @ heads[1].swapaxes(-1, -2) / np.sqrt(48)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ heads[2]
        return mixed.transpose(0, 2, 1, 3).reshape(2, 40, 96) @ q

    f = npc.compile(attention)
    x, *matrices = (RNG.standard_normal(s) for s in ((2, 40, 96), (96, 96), (96, 96), (96, 96)))
    given = [there.put(m) for m in matrices]
    for k in range(4):
        close(there.get(f(there.put(x + k), *given)), attention(x + k, *matrices))
    assert lists(programs) == 1


def test_training_of_tensors(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    @npc.compile
    def update(leaves: dict[str, Any], x: Any, y: Any) -> Any:
        loss = ((np.tanh(x @ leaves["w"]) @ leaves["v"] - y) ** 2).mean()
        loss.backward()
        with npc.no_grad():
            for p in leaves.values():
                p -= 0.1 * p.grad
                p.grad = None
        return loss

    start = {"w": RNG.standard_normal((48, 64)), "v": RNG.standard_normal((64, 40))}
    target = RNG.standard_normal((40, 40))
    runs = []
    for put in (lambda a: npc.tensor(a, requires_grad=True), lambda a: there.tensor(a.copy(), True)):
        leaves = {k: put(a) for k, a in start.items()}
        x, y = (npc.from_numpy(a) for a in (X, target)) if not runs else (there.tensor(a, False) for a in (X, target))
        losses = [float(update(leaves, x, y).detach().to("cpu").numpy()) for _ in range(6)]
        runs.append((losses, {k: p.detach().to("cpu").numpy() for k, p in leaves.items()}))
    (losses, ends), (device_losses, device_ends) = runs
    close(device_losses, losses)
    for k in ends:
        close(device_ends[k], ends[k])
    assert losses[-1] < losses[0] and lists(programs) >= 1


def test_indices_are_checked_before_anything_is_written(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    def step(x: Any, w: Any, i: Any, j: Any) -> Any:
        y = np.tanh((x @ w)[i])
        z = (y @ w.T)[j]
        x += z.sum()
        return z + 1

    f = npc.compile(step)
    w, expected = there.put(W), X.copy()
    x, i, j = there.put(X), np.arange(39) % 7, np.arange(5)
    for _ in range(4):
        close(there.get(f(x, w, there.put(i), there.put(j))), step(expected, W, i, j))
        close(there.get(x), expected)
    for bad in ((i + 1000, j), (i, j - 1000)):
        with pytest.raises(IndexError, match="out of bounds"):
            f(x, w, *map(there.put, bad))
        close(there.get(x), expected)
    close(there.get(f(x, w, there.put(i), there.put(j))), step(expected, W, i, j))
    close(there.get(x), expected)
    assert lists(programs) == 1


def test_what_is_no_list_runs_as_before(there: There, programs: list[ListedProgram]) -> None:  # noqa: F811
    f = npc.compile(lambda x, w: np.sort(x @ w, axis=0) @ w.T)  # CuPy sorts
    x, w = there.put(X), there.put(W)
    for _ in range(4):
        close(there.get(f(x, w)), np.sort(X @ W, axis=0) @ W.T)
    assert lists(programs) == 0
