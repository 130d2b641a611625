"""Captured once with symbolic sizes, right for every other size that the guards let through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from npcompile.backends.eager import compile_eager
from npcompile.numpy_shim.indexing import getitem, setitem
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS
from npcompile.tensor_core import Array, Builder, Storage, TensorMeta
from npcompile.tensor_core.array import view_text
from npcompile.tensor_core.graph import bind
from npcompile.tracer.guard_text import text_of
from tests.shim.harness import compare

Program = Callable[[Any, Any, Any, Any], Any]  # (namespace, x, y, v) -> arrays: matrices x and y, vector v


class Captured:
    """NumPy's names, whose functions build the graph."""

    def __init__(self, builder: Builder):
        self.builder = builder

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        return lambda *args, **keywords: FUNCTIONS[function](self.builder, *args, **keywords)

    def method(self, x: Array, name: str, *args: Any, **keywords: Any) -> Any:
        return METHODS[name](self.builder, x, *args, **keywords)

    def get(self, x: Array, key: Any) -> Array:
        return getitem(self.builder, x, key)

    def set(self, x: Array, key: Any, value: Any) -> Array:
        setitem(self.builder, x, key, value)
        return x

    def other(self, name: str, *args: Any) -> Any:
        return FUNCTIONS[OTHERS[name]](self.builder, *args)

    def shape(self, x: Array) -> Any:
        return x.shape


OTHERS = {
    "correlate2": np._core.multiarray.correlate2,
    "sliding_window_view": np.lib.stride_tricks.sliding_window_view,
}


class Real:
    """The same program on real arrays."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def method(self, x: Any, name: str, *args: Any, **keywords: Any) -> Any:
        return getattr(x, name)(*args, **keywords)

    def get(self, x: Any, key: Any) -> Any:
        return x[key]

    def set(self, x: Any, key: Any, value: Any) -> Any:
        x[key] = value
        return x

    def other(self, name: str, *args: Any) -> Any:
        return OTHERS[name](*args)

    def shape(self, x: Any) -> Any:
        return x.shape


def inputs(n: int, m: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n * 100 + m)
    return [rng.integers(-9, 9, (n, m)).astype(float), rng.integers(-9, 9, (m, n)).astype(float), rng.integers(-9, 9, n) / 4]


def capture(program: Program, n: int, m: int) -> tuple[Builder, list[Storage], list[Array]]:
    builder = Builder()
    rows, columns = builder.env.symbol("n", n, 2), builder.env.symbol("m", m, 2)
    arrays = []
    for name, shape in (("x", (rows, columns)), ("y", (columns, rows)), ("v", (rows,))):
        meta = TensorMeta(shape, np.dtype(float))
        storage = Storage(builder, builder.input(meta, name), meta, source=name)
        arrays.append(Array(storage, (), meta))
    result = program(Captured(builder), *arrays)
    return builder, [a.storage for a in arrays], list(result) if isinstance(result, (tuple, list)) else [result]


def check(program: Program, sizes: Sequence[tuple[int, int]], at: tuple[int, int] = (6, 4)) -> int:
    """How many of `sizes` the program captured at other sizes ran for, as NumPy does."""
    builder, storages, results = capture(program, *at)
    fresh = list(dict.fromkeys(r.storage for r in results if r.storage.source is None))
    writes = [(i, s.node) for i, s in enumerate(storages) if s.is_written]
    graph = builder.finish([s.node for s in fresh], [s.meta for s in fresh], writes)
    run = compile_eager(graph, [])
    done = 0
    for n, m in (at, *sizes):
        values = {"n": n, "m": m}
        if not all(eval(text_of(guard), {}, values) for guard in builder.env.guards):
            continue
        done += 1
        ours, theirs = inputs(n, m), inputs(n, m)
        outputs = run(*ours, *(values[s] for s in graph.symbols))
        expected = program(Real(), *theirs)
        for result, value in zip(results, expected if isinstance(expected, (tuple, list)) else [expected]):
            base = (
                outputs[fresh.index(result.storage)]
                if result.storage.source is None
                else ours["xyv".index(result.storage.source)]
            )
            got = eval(view_text("base", result.steps), {"base": base, "np": np, **values}) if result.steps else base
            compare(got, value)
            assert bind(result.shape, values) == np.shape(value)
            if np.size(value):
                kept = [axis for axis, length in enumerate(np.shape(value)) if length > 1]
                strides = bind(result.meta.strides, values)
                assert [strides[a] for a in kept] == [value.strides[a] for a in kept]
        for mine, theirs_input in zip(ours, theirs):
            compare(mine, theirs_input)
    return done - 1


LAST = slice(-1, None)
PROGRAMS: list[tuple[Program, int]] = [
    (lambda np, x, y, v: np.get(x, (slice(1, -1), slice(None, None, 2))), 3),
    (lambda np, x, y, v: np.get(x, (slice(None, None, -1), slice(-2, None))), 3),
    (lambda np, x, y, v: np.get(x, (slice(None, None, -2), 0)), 3),
    (lambda np, x, y, v: np.get(x, (0, -1)), 3),
    (lambda np, x, y, v: np.get(x, (slice(2, None), None)), 2),
    (lambda np, x, y, v: np.get(v, (slice(np.shape(x)[1], None),)), 1),
    (lambda np, x, y, v: np.get(x, slice(None, np.shape(x)[0] // 2)), 3),
    (lambda np, x, y, v: np.get(x, [0, 1, -1]), 3),
    (lambda np, x, y, v: np.get(x, (slice(None), [1, 0])), 3),
    (lambda np, x, y, v: np.get(x, ([0, 1], [1, 1])), 3),
    (lambda np, x, y, v: np.get(x, np.arange(np.shape(x)[0])), 3),
    (lambda np, x, y, v: np.set(x, (slice(1, -1), slice(1, -1)), 0), 3),
    (lambda np, x, y, v: np.set(x, slice(1, None), np.get(x, slice(None, -1))), 3),
    (lambda np, x, y, v: np.set(x, (slice(None), 0), v), 3),
    (lambda np, x, y, v: np.set(v, slice(None, None, -1), v), 3),
    (lambda np, x, y, v: np.set(x, (slice(None), [0, 1]), 5), 3),
    (lambda np, x, y, v: np.transpose(x), 3),
    (lambda np, x, y, v: np.reshape(x, (-1,)), 3),
    (lambda np, x, y, v: np.reshape(x, (-1, 1, np.shape(x)[1])), 3),
    (lambda np, x, y, v: np.reshape(np.transpose(x), (-1,)), 3),
    (lambda np, x, y, v: np.ravel(np.transpose(x), "K"), 3),
    (lambda np, x, y, v: np.ravel(np.get(x, slice(None, None, -1)), "F"), 3),
    (lambda np, x, y, v: np.method(x, "flatten", "F"), 3),
    (lambda np, x, y, v: np.method(np.transpose(x), "astype", "f4"), 3),
    (lambda np, x, y, v: np.method(np.transpose(x), "copy"), 3),
    (lambda np, x, y, v: np.zeros_like(np.transpose(x)), 3),
    (lambda np, x, y, v: np.full(np.shape(x), 7.5, order="F"), 3),
    (lambda np, x, y, v: np.eye(np.shape(x)[0], k=1), 3),
    (lambda np, x, y, v: np.tril(x), 3),
    (lambda np, x, y, v: np.triu(x, 1), 3),
    (lambda np, x, y, v: np.diag(v), 3),
    (lambda np, x, y, v: np.diag(v, -2), 3),
    (lambda np, x, y, v: np.diagonal(x), 2),
    (lambda np, x, y, v: np.diagonal(x, 1), 2),
    (lambda np, x, y, v: np.roll(v, 1), 3),
    (lambda np, x, y, v: np.roll(v, -2), 2),
    (lambda np, x, y, v: np.roll(x, (1, -1), (0, 1)), 3),
    (lambda np, x, y, v: np.repeat(x, 2, 0), 3),
    (lambda np, x, y, v: np.tile(v, 3), 3),
    (lambda np, x, y, v: np.tile(x, (2, 1)), 3),
    (lambda np, x, y, v: np.flip(x), 3),
    (lambda np, x, y, v: np.rot90(x), 3),
    (lambda np, x, y, v: np.split(np.concatenate((v, v)), 2), 3),
    (lambda np, x, y, v: np.array_split(v, 2), 1),
    (lambda np, x, y, v: np.array_split(v, [1, 3]), 2),
    (lambda np, x, y, v: np.concatenate((x, np.transpose(y))), 3),
    (lambda np, x, y, v: np.concatenate((v, v, [1.0])), 3),
    (lambda np, x, y, v: np.stack((v, v), 1), 3),
    (lambda np, x, y, v: np.column_stack((v, x)), 3),
    (lambda np, x, y, v: np.dstack((x, x)), 3),
    (lambda np, x, y, v: np.meshgrid(v, np.arange(np.shape(x)[1])), 3),
    (lambda np, x, y, v: np.broadcast_to(v, (3, np.shape(x)[0])), 3),
    (lambda np, x, y, v: np.broadcast_arrays(x, np.get(v, (slice(None), None))), 3),
    (lambda np, x, y, v: np.dot(x, y), 3),
    (lambda np, x, y, v: np.matmul(np.transpose(x), v), 3),
    (lambda np, x, y, v: np.inner(x, x), 3),
    (lambda np, x, y, v: np.outer(v, v), 3),
    (lambda np, x, y, v: np.tensordot(x, y, ([0, 1], [1, 0])), 3),
    (lambda np, x, y, v: np.einsum("ij,jk->ki", x, y), 3),
    (lambda np, x, y, v: np.einsum("ij,i->j", x, v), 3),
    (lambda np, x, y, v: np.trace(np.dot(x, y)), 3),
    (lambda np, x, y, v: np.take(x, [0, -1], 1), 3),
    (lambda np, x, y, v: np.take(x, [0, 7], 0, mode="clip"), 3),
    (lambda np, x, y, v: np.linspace(0, 1, np.shape(x)[0]), 3),
    (lambda np, x, y, v: np.arange(np.shape(x)[0], 0, -1), 3),
    (lambda np, x, y, v: np.squeeze(np.expand_dims(x, 1)), 3),
    (lambda np, x, y, v: np.atleast_3d(v), 3),
    (lambda np, x, y, v: np.round(x, 1), 3),
    (lambda np, x, y, v: np.pad(x, ((1, 2), (0, 3))), 3),
    (lambda np, x, y, v: np.pad(x, 1, "edge"), 3),
    (lambda np, x, y, v: np.pad(x, ((1, 2), (0, 1)), "reflect"), 3),
    (lambda np, x, y, v: np.pad(v, (2, 1), "wrap"), 3),
    (lambda np, x, y, v: np.other("correlate2", v, [1.0, 2.0], 2), 3),
    (lambda np, x, y, v: np.other("sliding_window_view", x, (2, 2)), 3),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_other_sizes(number: int) -> None:
    program, least = PROGRAMS[number]
    assert check(program, [(8, 4), (5, 3), (7, 9)]) >= least
    check(program, [(2, 2), (3, 2), (2, 5), (3, 3)])
    check(program, [(6, 4), (8, 3), (9, 9)], at=(3, 5))


KNOWN: list[Program] = [
    lambda np, x, y, v: np.reshape(x, np.multiply(np.shape(x), [1, 1])),
    lambda np, x, y, v: np.reshape(x, (np.multiply(np.asarray(np.shape(x)[0]), np.asarray(np.shape(x)[1])),)),
    lambda np, x, y, v: np.full(np.floor_divide(np.asarray(np.shape(x)), 2), 1.5),
    lambda np, x, y, v: np.get(v, np.subtract(np.shape(x)[0], 2)),
    lambda np, x, y, v: np.get(v, slice(np.floor_divide(np.int64(np.shape(x)[0]), 2), None)),
    lambda np, x, y, v: np.transpose(x, np.asarray([1, 0])),
    lambda np, x, y, v: np.repeat(x, np.asarray([2]), 0),
    lambda np, x, y, v: np.array_split(v, np.asarray([1, 2])),
    lambda np, x, y, v: np.get(v, np.add(np.asarray([0, 1]), 0)),
]


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_arrays_of_sizes(number: int) -> None:
    """Shapes, positions and axes that NumPy's own Python code computes as arrays."""
    assert check(KNOWN[number], [(8, 4), (5, 3), (7, 9)]) >= 2
