"""Sums, means and products of arrays in loops have NumPy's bits, of all lengths and layouts: they are added in NumPy's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import program_of, same
from tests.native_loops.test_native_loops import native_loops

LENGTHS = [*range(1, 21), 63, 64, 65, 100, *range(127, 131), *range(247, 261), 500, 1000, *range(8191, 8201), 20000, 70000]
ROWS = {
    "memory": ("x[i].sum()", "np.sum(x[i])", "x[i, ::2].sum()", "x[i, ::-1].sum()", "x[:, 0].sum()"),
    "made": ("(x[i] * y).sum()", "np.sum(x[i] - y)", "(x[i] + x[i, ::-1]).sum()", "(-x[i]).sum()", "(y[0] * x[i]).sum()"),
    "means": ("x[i].mean()", "np.mean(x[i] * y)", "x[i, ::2].mean()", "np.average(x[i])", "np.average(x[i], weights=w)"),
    "spread": ("x[i].var()", "x[i].std()", "np.var(x[i] * y)", "x[i, ::-1].std()"),
    "products": ("x[i].prod()", "np.prod(x[i] * y)", "np.prod(x[i, ::-1])", "np.fmod(x[i], 0.7).prod()"),
    "others": ("np.nansum(x[i])", "np.nanmean(x[i])", "np.linalg.norm(x[i], 1)", "np.trace(x[:, i:])"),
}
MATRICES = {
    "all": ("x.sum()", "x[i:].sum()", "x[:, i:].sum()", "x[:, ::2].sum()", "x[::-1].sum()", "x.T.sum()"),
    "all made": (
        "(x * x).sum()",
        "(x[:, 1:] - x[:, :-1]).sum()",
        "(x[0][:, None] * x[0]).sum()",
        "(x.T * 2).sum()",
        "np.sqrt(x.T * x.T).mean()",
    ),
    "all means": ("x.mean()", "x[:, i:].mean()", "x.T.mean()", "(x * 2).mean()", "(x * x[0]).mean()", "x[1:, ::2].mean()"),
    "all products": ("x.prod()", "x.T.prod()", "x[:, i:].prod()"),
    "last": (
        "x.sum(axis=1).sum()",
        "x[:, i:].sum(axis=-1)[0]",
        "(x * x[0]).sum(axis=1)[i]",
        "x.mean(axis=1)[i]",
        "x.prod(axis=1)[0]",
    ),
    "first": (
        "x.sum(axis=0)[0]",
        "x[:, i:].sum(axis=0)[-1]",
        "(x * 2).sum(axis=0)[0]",
        "x.mean(axis=0)[0]",
        "x[:, :1].sum(axis=0)[0]",
    ),
    "turned": ("x.T.sum(axis=0)[i]", "x.T.sum(axis=1)[0]", "(x.T * 2).sum(axis=0)[i]", "x.T.mean(axis=1)[0]"),
    "spread": ("x.var(axis=1)[i]", "x.std(axis=0)[0]", "x.var()", "np.linalg.norm(x, axis=1)[i]", "np.linalg.norm(x, axis=0)[0]"),
}
CUBES = {
    "cubes": ("x.sum(axis=(1, 2))[0]", "x.sum(axis=(0, 1))[-1]", "x.sum(axis=(0, 2))[0]", "x.sum(axis=1).sum()"),
    "parts of cubes": ("x[:, :, i:].sum(axis=(1, 2))[0]", "x[:, 1:, 1:].sum()", "x[:, 1:].sum()", "x[i].sum()", "x[:, i].sum()"),
    "made of cubes": ("(x * x[0]).sum(axis=(1, 2))[0]", "(x * 2).sum(axis=(0, 2))[0]", "x.mean(axis=(0, 2))[0]", "x.mean()"),
}
SHAPES = [(3, 5), (5, 3), (9, 9), (20, 13), (17, 300), (300, 17), (4, 5000), (5000, 3), (70, 128)]
CUBE_SHAPES = [(2, 3, 4), (9, 9, 9), (3, 40, 7), (40, 2, 300), (5, 70, 60), (3, 2, 4500)]
SOURCE = """\
def program(x, y, w, k):
    t = np.zeros((24, {n}), {dtype!r})
    for j in range(24):
        i = j % k
{lines}
    return t
"""


def program(expressions: Sequence[str], dtype: str) -> Callable[..., Any]:
    lines = "\n".join(f"        t[j, {k}] = {e}" for k, e in enumerate(expressions))
    return program_of(SOURCE.format(n=len(expressions), dtype=dtype, lines=lines).splitlines(), "sums", {"np": np})


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    if dtype == "?":
        return rng.random(shape) < 0.5
    if dtype[0] == "i":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def agree(expressions: Sequence[str], dtype: str, given: Sequence[tuple[Any, ...]]) -> None:
    user = program(expressions, "c16" if dtype[0] == "c" else "f8")
    compiled = npc.compile(user)
    with np.errstate(all="ignore"):
        for arguments in given:
            ours, theirs = compiled(*arguments), user(*arguments)
            wrong = [e for e, a, b in zip(expressions, ours.T, theirs.T) if not same(a.copy(), b.copy())]
            assert not wrong, f"{wrong} of {dtype}{arguments[0].shape}"
    assert native_loops(compiled) >= 1


def forms(table: dict[str, tuple[str, ...]], **others: str) -> list[Any]:
    """Of floating-point numbers, and of those names also with other dtypes."""
    cases = [(name, dtype) for name in table for dtype in ("f8", "f4", *others.get(name.replace(" ", "_"), "").split())]
    return [pytest.param(table[name], dtype, id=f"{name}, {dtype}") for name, dtype in cases]


@pytest.mark.parametrize("expressions, dtype", forms(ROWS, made="c8", means="? i4", spread="i8"))
def test_rows(expressions, dtype):
    rng = np.random.default_rng(1)
    given = []
    for n in LENGTHS:
        x, y = (numbers(rng, shape, dtype) for shape in ((3, n + 2), n))
        given.append((x[:, 1:-1], y, rng.random(n) + 0.5, 3))
    agree(expressions, dtype, given)


def layouts() -> list[Any]:
    """Of the forms that loops have: complex numbers, and matrices in the order of Fortran, are in graphs too."""
    cases = []
    for k, name in enumerate(MATRICES):
        dtypes = ("f8", "f4", "f8") if k % 2 else ("f4", "f8", "f4")
        cases += [(layout, name, dtype) for layout, dtype in zip(("C", "F", ("part", "backwards")[k // 2 % 2]), dtypes)]
    cases.remove(("F", "spread", "f4"))
    cases += [
        ("C", "all", "c16"),
        ("C", "last", "c8"),
        ("F", "all means", "i8"),
        ("C", "all means", "?"),
        ("part", "turned", "i8"),
    ]
    return [pytest.param(layout, MATRICES[name], dtype, id=f"{layout}, {name}, {dtype}") for layout, name, dtype in cases]


@pytest.mark.parametrize("layout, expressions, dtype", layouts())
def test_matrices(layout, expressions, dtype):
    rng = np.random.default_rng(2)
    given = []
    for rows, columns in SHAPES:
        x = numbers(rng, (rows + 1, columns + 2), dtype)
        x = {"C": x[1:, 2:].copy(), "F": x[1:, 2:].copy("F"), "part": x[1:, 2:], "backwards": x[1:, :1:-1]}[layout]
        given.append((x, x[0], x[0], min(rows, 2)))
    if dtype[0] == "c":
        expressions = [e for e in expressions if "mean" not in e and "prod" not in e]
    agree(expressions, dtype, given)


@pytest.mark.parametrize("name, dtype", [*zip(CUBES, ("f8", "f4", "f8"), strict=True)])
def test_cubes(name, dtype):
    rng = np.random.default_rng(3)
    cubes = [numbers(rng, shape, dtype) for shape in CUBE_SHAPES]
    agree(CUBES[name], dtype, [(x, x[0, 0], x[0], 2) for x in cubes])


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8"])
def test_of_single_columns_numbers_are_added_as_of_vectors(dtype):
    """NumPy's iterator drops axes of one element."""
    expressions = [e for e in MATRICES["first"] if dtype != "c16" or "mean" not in e]
    rng = np.random.default_rng(4)
    agree(expressions, dtype, [(x, x[0], x[0], 1) for x in (numbers(rng, (n, 1), dtype) for n in (20, 9, 150, 300, 9000))])
