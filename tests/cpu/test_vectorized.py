"""What the compiler makes vectors of: loops of programs that it did not, or may not without what the backend tells it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.prelude import PRELUDE
from tests.cpu.test_vector_loops import without_vectors
from tests.native_loops.agreement import native_sources


def chain_of_extremes(x, y):
    return np.minimum(np.maximum(x, -1.0), y)


def nested_choices(x, y):
    return np.where(x < -1, -1.0, np.where(np.isnan(x), y, x))


def distances(x, y):
    x, y = x.reshape(-1, 8), y.reshape(-1, 8)
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


def chain_of_functions(x, y):
    return np.log1p(np.exp(np.sin(x) / (1 + y * y)))


PROGRAMS = (lambda x, y: np.clip(x, -1, 1), chain_of_extremes, nested_choices, distances)


def sources_of(function: Callable, *args: np.ndarray) -> list[str]:
    """The C of all graphs of a call, with all loops left to the compiler."""
    sources = []

    def backend(graph, example_inputs):
        made = compile_cpu(graph, example_inputs)
        sources.append(made.source)
        return made

    with without_vectors():
        npc.compile(function, backend=backend)(*args)
    return sources


def vectorized_lines(text: str) -> dict[int, int]:
    """Of a C unit: the lines of loops that were vectorised, and how often with the widest vectors there."""
    compiler = loader().compiler
    if not compiler.calls_vector_forms:
        pytest.skip("GCC's report is read, and what it makes vectors of is what the text is written for")
    report = [*compiler.command, *compiler.flags, "-fopt-info-vec-optimized", "-o", "/dev/null", "-", *compiler.libraries]
    done = subprocess.run(report, input=text, capture_output=True, text=True, check=True)
    found = re.findall(r"^[^:]*:(\d+):.*loop vectorized using (\d+) byte", done.stderr, re.M)
    counts = Counter((int(line), int(width)) for line, width in found)
    return {line: counts[line, width] for line, width in sorted(counts)}


def lines_behind_pragmas(lines: list[str]) -> set[int]:
    return {k for k, line in enumerate(lines, 1) if k > 1 and lines[k - 2].strip().startswith("#pragma")}


@pytest.mark.parametrize("function", PROGRAMS)
def test_parallel_loops_become_vectors(function) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 64, 80))
    (source,) = sources_of(function, x, y)
    text = PRELUDE + source
    lines = text.splitlines()
    wanted = lines_behind_pragmas(lines)
    assert wanted, source
    made = vectorized_lines(text).keys()
    assert wanted <= made, [lines[k - 1] for k in wanted - made]


def test_stages_become_vectors_without_a_rest() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 64, 80))
    (source,) = sources_of(chain_of_functions, x, y)
    text = PRELUDE + source
    lines = text.splitlines()
    (begin,) = [k for k, line in enumerate(lines, 1) if "omp simd safelen" in line]
    (end,) = [k for k, line in enumerate(lines, 1) if "from += 8 * vectors" in line]
    assert [times for line, times in vectorized_lines(text).items() if begin < line < end] == [1]


def test_statements_behind_others_become_vectors() -> None:
    """The compiler is not left to think that they seldom run: for a worker, and for the calling thread alone."""

    def steps(X, y, w, count):
        for _ in range(count):
            q = X @ w
            p = np.exp(y)
            w = w + q[:20] * 1e-9 + p[:20] * 1e-9
            y = y * 0.99 - 0.01
        return w

    rng = np.random.default_rng(0)
    X, y, w = rng.random((200, 20)), rng.random(200), rng.random(20)
    compiled = npc.compile(steps)
    compiled(X, y, w, 30)
    # The C is read: by GCC, whose report names its lines.
    (source,) = native_sources(compiled)
    text = PRELUDE + source
    lines = text.splitlines()
    found = vectorized_lines(text)
    wanted = [k for k in lines_behind_pragmas(lines) if any("exp" in line for line in lines[k : k + 4])]
    assert wanted and all(found.get(k, 0) > 1 for k in wanted), found


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
            np.testing.assert_array_max_ulp(got, expected, maxulp=1)
            np.testing.assert_array_equal(np.signbit(got[:4]), np.signbit(expected[:4]))
