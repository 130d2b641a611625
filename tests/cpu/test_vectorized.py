"""What the compiler makes vectors of: loops of programs that it did not, or may not without what the backend tells it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.prelude import PRELUDE
from npcompile.backends.cpu.primitives import power_text
from npcompile.backends.kernels.kernel import Let, walk
from tests.cpu.plans import plans_of
from tests.cpu.test_vector_loops import without_vectors


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


def vectors_of(function: Callable, *args: Any) -> tuple[list[str], dict[int, int]]:
    """The lines of the one unit of a function, with all loops left to the compiler, and what `vectorized_lines` finds in it."""
    # The C is read: by GCC, whose report names its lines.
    (source,) = npc.explain(function)(*args).sources
    text = PRELUDE + source
    return text.splitlines(), vectorized_lines(text)


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
    with without_vectors():
        lines, found = vectors_of(function, x, y)
    wanted = lines_behind_pragmas(lines)
    assert wanted, lines
    assert wanted <= found.keys(), [lines[k - 1] for k in wanted - found.keys()]


def test_stages_become_vectors_without_a_rest() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 64, 80))
    with without_vectors():
        lines, found = vectors_of(chain_of_functions, x, y)
    (begin,) = [k for k, line in enumerate(lines, 1) if "omp simd safelen" in line]
    (end,) = [k for k, line in enumerate(lines, 1) if "from += 8 * vectors" in line]
    assert [times for line, times in found.items() if begin < line < end] == [1]


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
    lines, found = vectors_of(steps, X, y, w, 30)
    wanted = [k for k in lines_behind_pragmas(lines) if any("exp" in line for line in lines[k : k + 4])]
    assert wanted and all(found.get(k, 0) > 1 for k in wanted), found


def cubes(x):
    return x**3, x**4, np.power(x, 3.0) if x.dtype.kind == "f" else x**2


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_small_powers_are_products(dtype) -> None:
    x = np.random.default_rng(1).standard_normal(20000) * np.logspace(-12, 4, 20000)
    x[:5] = 0.0, -0.0, np.inf, -np.inf, np.nan
    x = np.arange(20000).astype(dtype) if dtype == "i2" else x.astype(dtype)
    (plan,) = plans_of(cubes, x)
    powers = [s for s in walk(plan.kernel.body) if isinstance(s, Let) and s.op == "power"]
    assert len(powers) == 2  # x**3 once
    assert all(power_text("x", x.dtype, plan.values.constants[s.args[1].name]) is not None for s in powers)
    for expected, got in zip(cubes(x), npc.compile(cubes)(x)):
        assert got.dtype == expected.dtype
        if dtype == "i2":
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_array_max_ulp(got, expected, maxulp=1)
            np.testing.assert_array_equal(np.signbit(got[:4]), np.signbit(expected[:4]))
