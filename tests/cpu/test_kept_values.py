"""Floating-point errors in what a program computes and what it returns does not need: NumPy reports them all the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.backend import compile_cpu
from npcompile.tensor_core import Builder, ShapeEnv, TensorMeta

Program = Callable[[np.ndarray], np.ndarray]


def integers(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64)


PROGRAMS: list[Program] = [
    lambda x: integers(x) * 0,
    lambda x: integers(x) & 0,
    lambda x: integers(x) | -1,
    lambda x: integers(x) - integers(x),
    lambda x: integers(x) ^ integers(x),
    lambda x: integers(x) == integers(x),
    lambda x: integers(x) * 4 & 3,
    lambda x: (integers(x) * 0).sum(),
    lambda x: x.astype(np.uint64) >= 0,
    lambda x: x.astype(np.int32) * 0,
    lambda x: np.minimum(x.astype(np.uint8), 0),
    lambda x: np.where(integers(x) == 0, 1, 1),
    lambda x: np.where(x > 1, x.astype(np.int8), 0),
    lambda x: (x.astype("f4") > 0) & False,
    lambda x: (x.astype("f2") > 0) | True,
    lambda x: (x.astype("f4").astype("f8") == x) * 0,
    lambda x: 1 >= (x * x == 0),
    lambda x: (x * x == 0) <= True,
    lambda x: ((x * x >= 0) & False).any(),
    lambda x: (1 / x > 0) & False,
    lambda x: np.abs(x * x) < 0,
    lambda x: np.signbit(x * x) & False,
    lambda x: np.copysign(1.0, x * x * x) ** 2,
    lambda x: np.where(x * x > 1, x, x),
    lambda x: np.where(x > 1, np.where(x > 2, 1 / x, 0), 0),
    lambda x: (x * x < 0.5) | (x * x > 0.7),
    lambda x: np.clip(integers(x), 3, 3),
]

INPUTS = [
    np.array(numbers * 7)
    for numbers in ([1.0, np.nan, 2.0], [1e300, 0.5, 2.0], [0.0, 1.0, 2.0], [np.inf, -1.0, 1e-300], [-5.0, 300.0, 7.0])
]


@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_errors_of_what_is_not_needed(k: int) -> None:
    program, run = PROGRAMS[k], npc.compile(PROGRAMS[k])
    for x in INPUTS:
        assert outcome(run, x) == outcome(program, x), x[:3]


def outcome(f: Program, x: np.ndarray) -> tuple[object, ...]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = f(x.copy())
    return type(found), found.dtype, found.tobytes(), [str(w.message) for w in caught]


def test_what_is_stored_is_not_kept_again() -> None:
    def program(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z = x * y + 1
        return np.where(z > 2, z, y) + np.sqrt(np.abs(z))

    def unstored(x: np.ndarray) -> np.ndarray:
        return np.where(x > 1, np.where(x > 2, 1 / x, 0), 0)

    kept = [[p.name for p in npc.explain(f)(*a).passes] for f, a in ((program, [np.ones(9)] * 2), (unstored, [np.ones(9)]))]
    assert ["values kept for their errors" in names for names in kept] == [False, True]


@pytest.mark.parametrize("n", [20, 40_000])
def test_what_is_combined_at_places_keeps_values_beside_it(n: int) -> None:
    """In slices of many writes too, which read the target apart from all else."""

    def integers_added(x: np.ndarray) -> np.ndarray:
        out = np.zeros(7, int)
        np.add.at(out, np.arange(len(x)) % 7, integers(x) * 0)
        return out

    def chosen(x: np.ndarray) -> np.ndarray:
        out = np.zeros(7)
        np.maximum.at(out, np.arange(len(x)) % 7, np.where(x > 1, np.where(x > 2, 1 / x, 0), 0))
        return out

    for program in (integers_added, chosen):
        run = npc.compile(program)
        for x in INPUTS:
            x = np.resize(x, n)
            assert outcome(run, x) == outcome(program, x), x[:3]


def test_numbers_of_an_array_whose_strides_change():
    """np.any(np.imag(np.diag(x))) of a checked matrix: strides are symbolic, and are not asked for."""
    env = ShapeEnv()
    n = env.symbol("n", 4, at_least=2)
    env.changing.add("n")
    builder = Builder(env=env)
    x = builder.input(TensorMeta((3, n), np.dtype("c16")))
    numbers = builder.apply("laid_out", builder.apply("imag", builder.apply("reshape", x, shape=(3 * n,))), strides=(16 * n,))
    some = builder.apply("reduce", builder.apply("cast", numbers, dtype=np.dtype(bool)), reducer="logical_or", axes=(0,))
    finite = builder.apply("reduce", builder.apply("isfinite", x), reducer="logical_and", axes=(0, 1))
    compiled = compile_cpu(builder.finish([some, builder.apply("require_none", builder.apply("logical_not", finite))]), ())
    for size in (2, 5):
        assert compiled(np.ones((3, size)) * 1j, size)[0]
        assert not compiled(np.ones((3, size)) + 0j, size)[0]
