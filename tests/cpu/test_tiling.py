"""Groups that go over rows together, tile by tile: against NumPy, and against the graph run op by op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import npcompile as npc
from npcompile.backends.cpu import c_tiles, compile_cpu
from npcompile.backends.cpu.kernel_plan import TileSlices
from npcompile.backends.kernels import tiling
from npcompile.backends.kernels.memory import build_schedule
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.graph import Graph
from tests.cpu.plans import noted_plans
from tests.cpu.random_graphs import RandomGraph
from tests.cpu.test_random_graphs import check
from tests.cpu.test_row_programs import agree

DTYPES = ("f8", "f4", "i8", "c16", "f2")


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a few elements are tiled, in many tiles and slices."""
    for module, name, value in (
        (tiling, "WORTH", 1),
        (tiling, "FEWEST_ROWS", 2),
        (c_tiles, "NEAR_TILE", 64),
        (c_tiles, "TILE", 64),
        (c_tiles, "LEAST_SLICE", 8),
        (c_tiles, "MOST_SLICES", 5),
    ):
        monkeypatch.setattr(module, name, value)


def softmax_loss(z: np.ndarray) -> Any:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p, p.sum(axis=0), (p * p).sum()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rows, then columns": lambda a, x: a.T @ (a @ x),
    "rows, a function of them, columns": lambda a, x: (a * np.tanh(a @ x)[:, None]).sum(axis=0),
    "and the sum of it": lambda a, x: (np.sum(r := np.tanh(a @ x)), r @ a, r),
    "columns of centred rows": lambda a, x: ((b := a - a.mean(axis=1, keepdims=True)) * b).mean(axis=0),
    "both sums": lambda a, x: (a.sum(axis=0), a.sum(axis=1), a.sum()),
    "extremes": lambda a, x: (a.max(axis=0), a.min(axis=1), (a * a.max(axis=1, keepdims=True)).max(axis=0)),
    "rows of a function": lambda a, x: ((b := np.sin(a)), b.sum(axis=1), b.sum(axis=0)),
    "of columns first": lambda a, x: ((a - a.mean(axis=0)).sum(axis=1), a.mean(axis=0)),
    "softmax": lambda a, x: softmax_loss(a * x),
    "twice": lambda a, x: a.T @ (a @ (a.T @ (a @ x))),
}
REAL_ONLY = ("extremes", "softmax")
SHAPES = ((60, 7), (7, 60), (300, 33), (2, 2), (65, 2), (2, 65))


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "c16" else 0)
    return (x * (3 if dtype == "i8" else 0.1)).astype(dtype)


OTHERS = zip(FUNCTIONS, cycle(DTYPES[1:]), cycle([True, True, False]))


@pytest.mark.parametrize("name, dtype, dynamic", [*product(FUNCTIONS, ["f8"], [True, False]), *OTHERS])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_against_numpy(name: str, dtype: str, dynamic: bool, small_tiles: None) -> None:
    function = FUNCTIONS[name]
    tolerance = {"f2": 3e-2, "f4": 1e-5}.get(dtype, 1e-12)
    compiled = npc.compile(function, dynamic=dynamic)
    for shape in SHAPES if dynamic else SHAPES[:1]:
        x = numbers(shape[1:], dtype)
        for a in (
            numbers(shape, dtype),
            np.asfortranarray(numbers(shape, dtype)),
            numbers((2 * shape[0], shape[1]), dtype)[::-2],
        ):
            agree(compiled(a, x), function(a, x), tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("error", "ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_few_rows_after_many(name: str) -> None:
    """Kernels made for many rows take few, one and none, and a single column."""
    function = FUNCTIONS[name]
    compiled = npc.compile(function, dynamic=True)
    for shape in ((3000, 60), (2, 3), (5, 1), (1, 5), (1, 1), (0, 4), (17, 60), (3001, 61)):
        a, x = numbers(shape, "f8"), numbers(shape[1:], "f8")
        if a.size or name not in REAL_ONLY:  # no extremes of nothing
            agree(compiled(a, x), function(a, x), 1e-12)


class Program:
    """Random NumPy statements on a matrix: values of its shape, of its rows, of its columns, and numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines = ["def program(a):"]
        self.kinds = {"full": ["a"], "row": [], "column": [], "number": []}
        for _ in range(12):
            self.statement()
        made = [v for kind in self.kinds.values() for v in kind if v != "a"]
        given_out = self.rng.permutation(made)[:4]
        self.lines.append(f"    return {', '.join(given_out)},")

    def pick(self, *kinds: str) -> str:
        """A value of one of these kinds, in a form that broadcasts against the matrix."""
        kind = self.rng.choice([k for k in kinds if self.kinds[k]])
        name = self.rng.choice(self.kinds[kind])
        return f"{name}[:, None]" if kind == "row" else name

    def statement(self) -> None:
        full, reducer = self.pick("full"), self.rng.choice(["sum", "max", "min", "mean"])
        forms = {
            "full": [f"np.tanh({full})", f"{full} * {self.pick('full', 'row', 'column', 'number')}", f"{full} + {full}"],
            "row": [f"{full}.{reducer}(axis=1)", f"({full} * a).sum(axis=1)"],
            "column": [f"{full}.{reducer}(axis=0)", f"a.T @ {self.pick('full')}[:, 0]"],
            "number": [f"{full}.{reducer}()"],
        }
        if self.kinds["row"]:
            row = self.rng.choice(self.kinds["row"])
            forms["row"] += [f"np.tanh({row})", f"{row} * {self.rng.choice(self.kinds['row'])}"]
            forms["column"].append(f"{row} @ a")
            forms["number"].append(f"{row}.{reducer}()")
        kind = self.rng.choice(["full", "full", "row", "row", "column", "column", "number"])
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {self.rng.choice(forms[kind])}")
        self.kinds[kind].append(name)

    def function(self) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"np": np}
        exec("\n".join(self.lines), namespace)
        return namespace["program"]


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.filterwarnings("error")
def test_random_programs(seed: int, small_tiles: None) -> None:
    program = Program(seed)
    function = program.function()
    compiled = npc.compile(function, dynamic=seed % 2 == 1)
    for shape in ((50, 6), (6, 50), (131, 20)) if seed % 2 else ((131, 20),):
        a = numbers(shape, "f8")
        agree(compiled(a), function(a), 1e-11)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("error")
def test_random_graphs(seed: int, small_tiles: None) -> None:
    graph = replace(RandomGraph(seed, 16, is_dynamic=False).build(), checks=frozenset())
    check(graph, {}, compile_cpu(graph, []), seed)


def rows_and_columns(n: int) -> Graph:
    """a.T @ tanh(a @ x)"""
    builder = Builder()
    a, x = (builder.input(TensorMeta(shape, np.dtype(np.float64))) for shape in ((n, 100), (100,)))
    rows = builder.apply("einsum", a, x, inputs=((0, 1), (1,)), output=(0,))
    return builder.finish([builder.apply("einsum", a, builder.apply("tanh", rows), inputs=((0, 1), (0,)), output=(1,))])


def test_large_arrays_are_tiled_where_the_backend_asks_for_it() -> None:
    assert not any(g.tiling for g in build_schedule(rows_and_columns(10_000)).groups)
    assert not any(g.tiling for g in build_schedule(rows_and_columns(100), tiled=True).groups)
    groups = build_schedule(rows_and_columns(10_000), tiled=True).groups
    assert [g.mode for g in groups if g.tiling] == ["rows", "map", "columns"]
    graph = rows_and_columns(10_000)
    assert len(compile_cpu(graph).kernels) == 1


def test_rows_of_a_tile_are_summed_several_at_a_time() -> None:
    """Each as it is alone: sums are the same where no four rows are left."""
    with noted_plans() as plans:
        compile_cpu(rows_and_columns(10_000))
    (way,) = [plan.way for plan in plans]
    assert isinstance(way, TileSlices) and [part.row_sums is not None for part in way.parts] == [True, False, False]
    compiled = npc.compile(lambda a, x: (a.T @ (r := a @ x), r), dynamic=True)
    a, x = numbers((3000, 61), "f8"), numbers((61,), "f8")
    rows = compiled(a, x)[1]
    for first, end in ((1, 3000), (2, 2999), (3, 5)):
        assert np.array_equal(compiled(a[first:end], x)[1], rows[first:end])


def test_sums_are_as_accurate_as_those_of_slices() -> None:
    a, x = np.full((200_000, 10), 0.1), np.ones(10)
    exact = 200_000 * float(np.float64(0.1)) * (a[0] @ x)
    made = npc.compile(lambda a, x: a.T @ (a @ x))(a, x)
    assert np.all(np.abs(made - exact) <= 4e-14 * exact)


def test_what_one_thread_gives_every_number_of_threads_gives() -> None:
    compiled = npc.compile(lambda a, x: (np.sum(r := np.tanh(a @ x)), a.T @ r))
    a, x = numbers((20_000, 100), "f8"), numbers((100,), "f8")
    with threadpool_limits(1):
        total, columns = compiled(a, x)
    for _ in range(5):
        again = compiled(a, x)
        assert again[0] == total and np.array_equal(again[1], columns)
