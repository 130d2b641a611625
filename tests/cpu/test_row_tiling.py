"""Products and what is made of their rows, a block of rows at a time: against NumPy."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import npcompile as npc
from npcompile.backends.cpu import c_blocks
from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.kernels import row_tiling
from tests.cpu.test_row_programs import agree

pytestmark = pytest.mark.skipif(not is_openblas(), reason="products of other libraries are their own")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a few rows are made in many blocks, on all threads."""
    monkeypatch.setattr(row_tiling, "FEWEST_ROWS", 2)
    monkeypatch.setattr(row_tiling, "LONG", 1000)
    monkeypatch.setattr(c_blocks, "SERIAL_NANOSECONDS", 20)
    monkeypatch.setattr(c_blocks, "MOST_ROWS", 8)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are never enough blocks for the threads."""
    monkeypatch.setattr(c_blocks, "ENOUGH", 0)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normal(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def distances(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (x * x).sum(axis=-1)[..., None] + (w * w).sum(axis=-2)[..., None, :] - 2 * (x @ w)


FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "bias and activation": lambda x, w: np.maximum(x @ w + w.sum(axis=-2, keepdims=True), 0),
    "layers": lambda x, w: np.tanh(np.tanh(x @ w) @ w) @ w,
    "kernel": lambda x, w: np.exp(-0.1 * np.maximum(distances(x, w), 0)),
    "softmax": lambda x, w: softmax(x @ w),
    "attention": lambda x, w: softmax(x @ w) @ np.swapaxes(w, -1, -2),
    "results on the way": lambda x, w: ((h := x @ w), (g := np.tanh(h)), g @ w, h.sum(axis=-1)),
    "rows and columns": lambda x, w: ((h := np.sin(x @ w)).sum(axis=-1), h.sum(axis=-2)),
    "read both ways": lambda x, w: ((h := x @ w) * 2, np.swapaxes(h, -1, -2) @ h),
    "a part of it": lambda x, w: np.sqrt(np.abs((x @ w)[..., 1:])),
    "turned": lambda x, w: np.swapaxes(np.tanh(x @ w), -1, -2),
    "of itself": lambda x, w: np.exp(-np.abs(x @ np.swapaxes(x, -1, -2))),
    "of normal rows": lambda x, w: np.tanh(normal(x) @ w),
    "several of one": lambda x, w: ((h := np.cos(x)) @ w, h @ w[::-1], h @ (w + 1), h),
    "scaled on the way": lambda x, w: (h := x * 0.5) @ w + (h.sum(axis=-2, keepdims=True) * np.tanh(h)) @ w,
    "two products": lambda x, w: x @ w + np.cos(x) @ w,
}
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "reversed": lambda x: np.concatenate([x, x])[::-2],
}
SHAPES = (((70, 9), (9, 9)), ((9, 40), (40, 40)), ((130, 3), (3, 3)), ((3, 20, 7), (3, 7, 7)), ((2, 33, 5), (5, 5)))


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (x / np.sqrt(shape[-1]) * (0.5 + 0.5j if dtype[0] == "c" else 1)).astype(dtype)


def kernels(function: Callable[..., Any], *args: Any) -> int:
    return len(npc.explain(function)(*args).kernels)


@pytest.mark.parametrize(("name", "dtype"), [*((f, d) for f in FUNCTIONS for d in ("f8", "f4")), ("layers", "c16")])
def test_against_numpy(name: str, dtype: str, small_blocks: None) -> None:
    function, tolerance = FUNCTIONS[name], {"f4": 2e-5}.get(dtype, 1e-12)
    for shapes in SHAPES[3:] if dtype == "f4" else (SHAPES[0], SHAPES[1 + len(name) % 2]):
        x, w = (numbers(s, dtype, k) for k, s in enumerate(shapes))
        agree(npc.compile(function, dynamic=False)(x, w), function(x, w), tolerance)


@pytest.mark.parametrize("name, layout", [*zip(FUNCTIONS, itertools.cycle(LAYOUTS))])
def test_sizes_that_change(name: str, layout: str, small_blocks: None) -> None:
    function, compiled = FUNCTIONS[name], npc.compile(FUNCTIONS[name], dynamic=True)
    for n, k in ((70, 9), (200, 65), (3, 4), (0, 4), (3, 0)):
        if k or name not in ("softmax", "attention", "of normal rows"):  # no extremes or means of nothing
            x, w = LAYOUTS[layout](numbers((n, k), "f8")), LAYOUTS[layout](numbers((k, k), "f8", 1))
            agree(compiled(x, w), function(x, w), 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_blocks_are_made_together(name: str, small_blocks: None, together: None) -> None:
    function, compiled = FUNCTIONS[name], npc.compile(FUNCTIONS[name], dynamic=True)
    for shapes in SHAPES:
        x, w = (numbers(s, "f8", k) for k, s in enumerate(shapes))
        agree(compiled(x, w), function(x, w), 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_rows_after_many(name: str) -> None:
    """Kernels made for many rows take few, one and none."""
    function = FUNCTIONS[name]
    compiled = npc.compile(function, dynamic=True)
    for n, k in ((700, 60), (2, 3), (5, 1), (1, 5), (1, 1), (300, 500), (701, 61)):
        x, w = numbers((n, k), "f8"), numbers((k, k), "f8", 1)
        agree(compiled(x, w), function(x, w), 1e-12)


def test_what_is_before_and_behind_a_product_by_rows_is_in_its_kernel() -> None:
    x, w = numbers((256, 64), "f4"), numbers((64, 64), "f4", 1)
    for name in ("layers", "softmax", "attention", "of normal rows"):
        assert kernels(FUNCTIONS[name], x, w) == 1, name
    q, k = numbers((4, 128, 40), "f4"), numbers((4, 40, 40), "f4", 1)
    assert kernels(FUNCTIONS["attention"], q, k) == 1
    assert kernels(FUNCTIONS["kernel"], x, w) == 3  # norms of both
    assert kernels(FUNCTIONS["of itself"], x, w) == 2  # half of a symmetric product is enough
    assert kernels(FUNCTIONS["bias and activation"], x, w) == 2  # the bias, and the rest
    assert kernels(FUNCTIONS["bias and activation"], x[:16], w) == 3


def test_an_argument_that_is_written_is_read_before() -> None:
    def update(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        h = np.tanh(x @ w)
        x[...] = h @ w
        x += 1
        return h

    compiled = npc.compile(update)
    for n in (100, 200):
        x, w = numbers((n, 30), "f8"), numbers((30, 30), "f8", 1)
        expected = x.copy()
        results = update(expected, w)
        agree(compiled(x, w), results, 1e-12)
        agree(x, expected, 1e-12)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e200])
def test_errors_are_numpys(bad: float) -> None:
    def function(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.exp(x @ w * 3) @ w

    compiled = npc.compile(function)
    for row in (0, 77, 199):
        x, w = np.ones((200, 70)), np.full((70, 40 + 30), 0.01)
        x[row, 5] = bad
        with warnings.catch_warnings(record=True) as own:
            warnings.simplefilter("always")
            made = compiled(x, w)
        with warnings.catch_warnings(record=True) as numpys:
            warnings.simplefilter("always")
            expected = function(x, w)
        assert [str(w.message) for w in own] == [str(w.message) for w in numpys]
        np.testing.assert_array_equal(np.isfinite(made), np.isfinite(expected))


def test_what_one_thread_gives_every_number_of_threads_gives() -> None:
    compiled = npc.compile(FUNCTIONS["attention"])
    x, w = numbers((900, 70), "f4"), numbers((70, 70), "f4", 1)
    with threadpool_limits(1):
        made = compiled(x, w)
    for _ in range(5):
        np.testing.assert_array_equal(compiled(x, w), made)


class Program:
    """Random NumPy statements on matrices: products with one of two others, functions, reductions of rows and columns."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines = ["def program(a, v, w):"]
        self.matrices = ["a"]
        made = [self.statement() for _ in range(9)]
        self.lines.append(f"    return {', '.join(self.rng.permutation(made)[:4])},")

    def statement(self) -> str:
        x, y = self.rng.choice(self.matrices, 2)
        reducer, axis = self.rng.choice(["sum", "max", "mean"]), self.rng.choice([0, 1, 1, 1])
        forms = [
            *[f"{x} @ {self.rng.choice(['v', 'w', 'v.T'])}"] * 4,
            f"np.tanh({x})",
            f"np.maximum({x}, 0.1) - w[0]",
            f"{x} * {y}",
            f"{x} - {y}.{reducer}(axis={axis}, keepdims=True)",
            f"np.sin({x} - {y}.{reducer}(axis=1, keepdims=True)) @ {self.rng.choice(['v', 'w'])}",
            f"{x} / (1 + np.abs({y}).{reducer}(axis={axis}, keepdims=True))",
            f"({x} @ {y}.T) @ {x} * 0.01",
        ]
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {self.rng.choice(forms)}")
        self.matrices.append(name)
        return name

    def function(self) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"np": np}
        exec("\n".join(self.lines), namespace)
        return namespace["program"]


@pytest.mark.parametrize("seed", range(14))
def test_random_programs(seed: int, small_blocks: None) -> None:
    function = Program(seed).function()
    compiled = npc.compile(function, dynamic=seed % 2 == 1)
    for n, k in ((50, 6), (131, 20), (7, 30)) if seed % 2 else ((131, 20),):
        args = (numbers((n, k), "f8"), numbers((k, k), "f8", 1), numbers((k, k), "f8", 2))
        agree(compiled(*args), function(*args), 1e-10)
