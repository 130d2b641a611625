"""What the compiler makes vectors of: loops of programs that it did not, or may not without what the backend tells it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.prelude import PRELUDE


def chain_of_extremes(x, y):
    return np.minimum(np.maximum(x, -1.0), y)


def nested_choices(x, y):
    return np.where(x < -1, -1.0, np.where(np.isnan(x), y, x))


def distances(x, y):
    x, y = x.reshape(-1, 8), y.reshape(-1, 8)
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


PROGRAMS = (lambda x, y: np.clip(x, -1, 1), chain_of_extremes, nested_choices, distances)


def sources_of(function: Callable, *args: np.ndarray) -> list[str]:
    """The C of all graphs of a call."""
    sources = []

    def backend(graph, example_inputs):
        made = compile_cpu(graph, example_inputs)
        sources.append(made.source)
        return made

    npc.compile(function, backend=backend)(*args)
    return sources


@pytest.mark.parametrize("function", PROGRAMS)
def test_parallel_loops_become_vectors(function) -> None:
    compiler = loader().compiler
    if "gcc" not in subprocess.run([*compiler.command, "-v"], capture_output=True, text=True, check=True).stderr:
        pytest.skip("only GCC tells which loops it vectorised")
    x, y = np.random.default_rng(0).standard_normal((2, 64, 80))
    (source,) = sources_of(function, x, y)
    text = PRELUDE + source
    lines = text.splitlines()
    wanted = {k for k, line in enumerate(lines, 1) if k > 1 and lines[k - 2].strip().startswith("#pragma")}
    assert wanted, source
    report = [*compiler.command, *compiler.flags, "-fopt-info-vec-optimized", "-o", "/dev/null", "-", *compiler.libraries]
    done = subprocess.run(report, input=text, capture_output=True, text=True, check=True)
    made = {int(line.split(":")[1]) for line in done.stderr.splitlines() if "loop vectorized" in line}
    assert wanted <= made, [lines[k - 1] for k in wanted - made]


def cubes(x):
    return x**3, x**4, np.power(x, 3.0) if x.dtype.kind == "f" else x**2


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_small_powers_are_products(dtype) -> None:
    x = np.random.default_rng(1).standard_normal(20000) * np.logspace(-12, 4, 20000)
    x[:5] = 0.0, -0.0, np.inf, -np.inf, np.nan
    x = np.arange(20000).astype(dtype) if dtype == "i2" else x.astype(dtype)
    (source,) = sources_of(cubes, x)
    assert "pow(" not in source.split("\nstatic void npc_", 1)[1]
    for expected, got in zip(cubes(x), npc.compile(cubes)(x)):
        assert got.dtype == expected.dtype
        if dtype == "i2":
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_array_max_ulp(got, expected, maxulp=3)
            np.testing.assert_array_equal(np.signbit(got[:4]), np.signbit(expected[:4]))
