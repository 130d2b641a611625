"""NumPy reports the errors of operations on numbers that a C compiler knows, and would compute before the program runs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.fp_barriers import FEW, few_of
from npcompile.backends.cpu.kept_values import samples

# Of integers v, bytes u, truth values b: what takes one value, or two, whatever they are.
SAME = [
    "v - v",
    "v * 0",
    "v ^ v",
    "v & 0",
    "u >> 8",
    "v % 1",
    "v.astype('i1') - v.astype('i1')",
    "np.sign(u - u)",
    "v * v - v * v",
]
SAME += [
    "np.minimum(u, 0)",
    "b & ~b",
    "np.bitwise_count(u & 0)",
    "v & 1",
    "1 - (v == v)",
    "np.arange(len(v)) * 0",
    "(v * 0).sum()",
]
SAME += ["(v - v) * 1.5 - (v - v) * 1.5"]
ERRORS = ["({0}) / ({0})", "1 / ({0})", "np.log({0})", "(({0}) + 1e300) * 1e300", "1j / ({0})", "(({0}) + 1e300).astype(int)"]
ERRORS += ["np.float32(2) / ({0})", "np.arcsin(({0}) + 2.0)", "np.where(x > 2, 1 / ({0}), 0)", "(1 / ({0}) > 0) & False"]


def outcome(f: Callable[..., Any], n: int) -> tuple[Any, ...]:
    v = np.arange(1, n + 1)
    arguments = v, v.astype(np.uint8), v % 2 == 0, v * 0.5, np.zeros(n)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        made = f(*arguments)
    return str(made), Counter((str(w.message), w.lineno) for w in met)


def agrees(lines: list[str], n: int) -> None:
    space: dict[str, Any] = {"np": np}
    exec(compile("\n".join(["def program(v, u, b, x, out):", *lines]), "<program>", "exec"), space)
    run = npc.compile(space["program"])
    for _ in range(2):
        assert outcome(run, n) == outcome(space["program"], n), lines


@pytest.mark.parametrize("k", range(len(SAME)))
def test_errors_of_values_that_no_element_decides(k: int) -> None:
    for j in (k, k + 3):
        agrees([f"    return {ERRORS[j % len(ERRORS)].format(SAME[k])}"], 30)


@pytest.mark.parametrize("k", range(0, len(SAME), 2))
def test_the_same_in_statements_of_a_loop(k: int) -> None:
    body = [f"        out[:] = {ERRORS[(k + j) % 4].format(SAME[(k + j) % len(SAME)])}" for j in range(2)]
    agrees(["    for i in range(3):", *body, "    return out"], 30)


WITH_NAN = [
    "np.logaddexp(x, np.nan)",
    "np.logaddexp2(np.nan, np.float32(x))",
    "x < complex(np.nan)",
    "(x - 1) >= complex(0, np.nan)",
]
WITH_NAN += [
    "x / complex(1, np.nan)",
    "(x + 0j) ** complex(np.nan)",
    "np.logaddexp(x * 0 + np.nan, x)",
    "np.logaddexp(np.nan, v)",
]


@pytest.mark.parametrize("text", WITH_NAN)
def test_errors_of_nan_with_whatever_it_meets(text: str) -> None:
    agrees([f"    return {text}"], 30)
    agrees(["    for i in range(3):", f"        out = {text}", "    return out"], 30)


def test_numbers_of_a_loop_that_is_written_out() -> None:
    """One of a few elements, constant arrays too."""
    agrees(["    return 1 / np.arange(3), 2 / np.array([0.0, 1.0, 4.0]), np.log(np.array([0, 1]))[v[:2] - 1]"], 5)


DROPPED = ["u[:1] // z[:1]", "len(x / z)", "(x / z).size", "(x / z).ndim", "(1 / z).dtype", "1 / z is None", "np.log(z).shape"]


@pytest.mark.parametrize("text", DROPPED)
def test_arrays_that_nobody_reads_are_computed_in_loops(text: str) -> None:
    """Each statement warns, before the loop and in it, in each iteration."""
    lines = [
        "    z = u * 0",
        "    s = 0",
        f"    {text}",
        "    for i in range(len(x)):",
        "        s += int(v[i])",
        f"        {text}",
    ]
    agrees([*lines, "    return s"], 30)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "f8", "c16"])
def test_values_of_few_numbers_are_told(dtype: str) -> None:
    """However many NaNs are among them, and wherever the others are."""
    for seed in range(20):
        drawn = samples(np.dtype(dtype), seed)
        some = [
            drawn,
            np.sign(drawn) if dtype != "?" else drawn,
            np.where(np.arange(64) < 60, drawn[:1], drawn),
            drawn[:1].repeat(64),
        ]
        for numbers in some:
            expected, found = np.unique(numbers), few_of(numbers)
            if len(expected) <= FEW:
                np.testing.assert_array_equal(found, expected)
            else:
                assert found is None
