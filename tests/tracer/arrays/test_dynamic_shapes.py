"""Sizes that change: at most two programs for any stream of sizes of one dimension, 0 and 1 apart."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import compare_any


def for_each(x):
    total = np.zeros(2)
    for k in range(len(x)):
        total = total + x[k] * k
    return total


def moving_average(x):
    out = np.empty_like(x)
    mean = 0 * x[0]
    for k in range(len(x)):
        mean = 0.9 * mean + 0.1 * x[k]
        out[k] = mean
    return out


PROGRAMS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: np.sin(x) * 2 + x,
    "sum": lambda x: x.sum() + x.max() - x.mean(),
    "axis": lambda x: np.outer(x, x).sum(axis=0),
    "len": lambda x: x * len(x) + 1 / len(x),
    "shape": lambda x: x / x.shape[0] + x.shape[-1] // 2,
    "size": lambda x: x.reshape(-1) * x.size,
    "unpacked shape": lambda x: (lambda n: x * n)(*x.shape),
    "slices": lambda x: x[1:] - x[:-1],
    "half": lambda x: (x[: len(x) // 2], x[len(x) // 2 :]),
    "strided": lambda x: x[::2].sum() + x[::-1],
    "steps": lambda x: x[1::3] * 2,
    "last": lambda x: x[-1] + x[len(x) - 1] + x[0],
    "from the end": lambda x: x[-2:] * x[:2],
    "padded": lambda x: np.pad(x, 1),
    "joined": lambda x: np.concatenate([x, x[:2], x * 2]),
    "stacked": lambda x: np.stack([x, x + 1], axis=-1),
    "reshaped": lambda x: np.repeat(x, 4).reshape(-1, 4).sum(axis=1),
    "transposed": lambda x: (np.outer(x, np.arange(3.0)).T + 1).copy(),
    "new axes": lambda x: x[:, None] * x[None],
    "made": lambda x: np.zeros(len(x)) + np.ones(x.shape) * np.arange(len(x)),
    "range": lambda x: np.arange(0, len(x), 1) + x,
    "range of floats": lambda x: (np.arange(0, 1, 1 / len(x)), np.arange(len(x) * 1.0) + x, np.arange(0.1, 0.3 * len(x), 0.3)),
    "linspace": lambda x: np.linspace(0, 1, len(x)) * x,
    "full": lambda x: np.full((len(x), 2), 7.0).sum(),
    "eye": lambda x: np.eye(len(x)) @ x,
    "where": lambda x: np.where(x > 2, x, -x),
    "masked sum": lambda x: (x * (x > 1)).sum(),
    "cumulative": lambda x: np.cumsum(x)[::2],
    "diff": lambda x: np.diff(x, n=2),
    "rolled": lambda x: np.roll(x, 2) + np.flip(x),
    "sorted": lambda x: np.sort(x)[::-1],
    "argmax": lambda x: (x.argmax(), np.argsort(-x)),
    "dot": lambda x: x @ x,
    "einsum": lambda x: np.einsum("i,j->ij", x, x),
    "mean and variance": lambda x: (x - x.mean()) / (x.std() + 1),
    "softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "convolution": lambda x: np.convolve(x, [1.0, 2.0, 1.0]),
    "gradient": lambda x: np.gradient(x),
    "interp": lambda x: np.interp(x, np.arange(3.0), np.arange(3.0)),
    "clipped": lambda x: np.clip(x, 0, len(x) - 1),
    "tile": lambda x: np.tile(x, 3)[: len(x) + 1],
    "split": lambda x: np.add(*np.split(np.concatenate([x, x]), 2)),
    "broadcast": lambda x: np.broadcast_to(x, (3, len(x))).sum(axis=0),
    "meshgrid": lambda x: np.add(*np.meshgrid(x, x)),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).mean(axis=-1),
    "norm": lambda x: np.linalg.norm(x),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "take": lambda x: np.take(x, [0, 1, -1]),
    "min of sizes": lambda x: x[: min(len(x), 4)],
    "ceiling": lambda x: x[: -(-len(x) // 2)],
    "modulo": lambda x: x[: len(x) - len(x) % 4].sum(),
    "half open": lambda x: x[len(x) // 3 : 2 * len(x) // 3],
    "triangle": lambda x: np.tril(np.outer(x, x)),
    "moved": lambda x: np.moveaxis(np.multiply.outer(x, np.ones((2, 3))), 0, -1),
    "squares": lambda x: np.sqrt(len(x)) * x + len(x) ** 2,
    "text of a size": lambda x: (f"{len(x)} {x.shape}", x * 2),
    "sizes returned": lambda x: (len(x), x.shape, x.size, x.nbytes, x.ndim, x * 2),
    "truth": lambda x: x * 2 if x.size else x,
    "cast": lambda x: x.astype(np.float32).sum(dtype=np.float64) * np.ones(len(x), np.int8),
    "written": lambda x: written(x.copy()),
    "branch": lambda x: x + 1 if x.sum() > 9 else x - 1,
    "loop": lambda x: looped(x),
    "long loop": lambda x: long_loop(x),
    "broken": lambda x: broken(x),
    "inner function": lambda x: (lambda y, n=len(x): y * n)(x),  # noqa: B008
    "list of rows": lambda x: [row * 2 for row in np.outer(np.arange(3.0), x)],
    "zip of sizes": lambda x: sum(a * b for a, b in zip(x.shape, (2, 3))) + x,
    "dict of sizes": lambda x: {"n": len(x), "x": x * len(x)},
    "remainder": lambda x: (x * (len(x) % 4), np.zeros(len(x) % 5), x[len(x) % 3 :]),
    "divmod": lambda x: (divmod(len(x), 7), divmod(-len(x), 7), x * divmod(len(x), -3)[1]),
    "least and most": lambda x: x * min(len(x), 10) + max(3, len(x), x.ndim) + min([len(x), 20, 2 + len(x) // 2]),
    "least of floats": lambda x: x * min(len(x) / 2, 8.0) - max(1.5, 1 / len(x)),
    "made of the most": lambda x: np.arange(max(len(x), 20)).sum() * np.ones(min(len(x), 9)),
    "absolute": lambda x: (np.zeros(abs(len(x) - 20)), x * abs(9 - len(x))),
    "comparisons as values": lambda x: (x * (len(x) > 10), (len(x) >= 9) + (len(x) != 12) + 1, len(x) % 2 == 0, 5 < len(x)),
    "comparisons as numbers": lambda x: x * int(len(x) > 10) + float(len(x) < 7.5) - bool(len(x) == 12),
    "negated": lambda x: (x * (not len(x) > 10), not len(x) == 7),
    "comparison of floats": lambda x: (x * (1 / len(x) < 0.1), len(x) > 9.5),
    "comparison of integers and arrays": lambda x: np.arange(len(x)) * (len(x) > 10) - (len(x) < 20),
    "comparison and booleans": lambda x: ((x > 1) * True, (len(x) > 1) * 2.0),
    "bits": lambda x: x * (len(x) & 3) + (len(x) >> 1) + (len(x) | 1) + (len(x) ^ 5),
    "rounded": lambda x: (x[: round(0.7 * len(x))], x[: int(0.3 * len(x))], round(len(x) / 3, 2)),
    "math": lambda x: x * math.isqrt(len(x)) + math.gcd(len(x), 12) + math.ceil(len(x) / 2) + math.sqrt(len(x)),
    "first ten": lambda x: x[:10] * 2,
    "last ten": lambda x: x[-10:] * 2,
    "without ten": lambda x: x[10:] - x[:-10],
    "middle": lambda x: x[2:-2] * 2 + x[4:],
    "part backwards": lambda x: x[9:2:-1] * 3,
    "part of a part": lambda x: x[3:][:4].sum() + x[: min(len(x), 6)][1:],
    "written in parts": lambda x: in_parts(x.copy()),
    "halves as columns": lambda x: x[: len(x) // 2 * 2].reshape(len(x) // 2, 2).sum(axis=1),
    "halves as rows": lambda x: x[: len(x) // 2 * 2].reshape(2, -1) @ np.ones(len(x) // 2),
    "windows of a size": lambda x: np.lib.stride_tricks.sliding_window_view(x, len(x) // 2).sum(axis=-1),
    "another of the size": lambda x: x + np.linspace(1, 2, len(x)) * np.arange(x.size)[::-1],
    "matrix of sizes": lambda x: np.arange(2 * len(x)).reshape(2, len(x)) @ x,
    "sorted and cut": lambda x: np.sort(-x)[:5],
    "inverse transform": lambda x: np.fft.irfft(np.fft.rfft(x), len(x)),
    "padded to more": lambda x: np.pad(x, (2, len(x) % 3)),
    "padded by modes": lambda x: np.pad(x, 1, mode="edge") + np.pad(x, 1, mode="reflect"),
    "text of a shape": lambda x: (f"{x.shape}", str(x.shape) + "!", repr([len(x), None, (1.5, "s")]), x * 2),
    "text by format": lambda x: (f"{len(x)} {{}} {len(x) + 1:5d} {len(x) // 2!r}", "%d of %s" % (len(x), "{}"), x),  # noqa: UP031
    "text of a comparison": lambda x: (f"{len(x) > 10}", hex(len(x)), bin(len(x)), format(len(x), "05d"), x * 2),
    "text of a quotient": lambda x: ("%5.2f" % (1 / len(x)), f"{1 / len(x):.3e}", x * 2),
    "for each": for_each,
    "items in turn": lambda x: sum(x[i] * i for i in range(len(x))),
    "moving average": moving_average,
    "median": lambda x: (np.median(x), np.median(np.outer(x, x), axis=0)),
    "list of a range": lambda x: x[list(range(2))] * len(range(len(x))) + len(range(1, len(x))),
}


def in_parts(x):
    x[:10] += 1
    x[-3:] *= 2
    x[len(x) // 2 :] = x[: len(x) - len(x) // 2]
    return x


# A branch of the program, or of NumPy's Python code, by the size is a program for each way that is met.
BRANCHES: dict[str, Callable[..., Any]] = {
    "comparison": lambda x: x * 2 if len(x) > 9 else x,
    "even or odd": lambda x: x[::2] if len(x) % 2 == 0 else x[1::2],
    "chained": lambda x: x * (5 < len(x) < 10),
    "one of a tuple": lambda x: (x + 1, x + 2)[len(x) > 9],
    "asked twice": lambda x: x * 2 if len(x) > 9 and not len(x) <= 9 else x,
}


def written(x):
    x[1:] += x[:-1]
    x[: len(x) // 2] = 0
    x[-1] *= 2
    return x


def looped(x):
    for k in range(3):
        x = x * 2 + k
    return x


def long_loop(x):
    for k in range(40):
        x = x * 0.5 + k
    return x


def broken(x):
    y = x * 2
    n = float(y[0])
    return (y + n)[1:]


SIZES = (7, 12, 5, 30, 100, 2, 3, 4, 8, 9, 64, 33, 6, 10, 1000)

SMALL = {  # what is another program for the size 2, and why
    "windows": "a window is longer than the array, which raises",
}


def run(function: Callable[..., Any], sizes: Any, **options: Any) -> int:
    """The most programs of one Point for arrays of these sizes."""
    compiled = npc.compile(function, backend="eager", **options)
    for n in sizes:
        x = np.linspace(0.5, 3, math.prod(n) if isinstance(n, tuple) else n).reshape(n)
        compare_any(outcome(compiled, x), outcome(function, x), 16)
    known = compiled_function(compiled)
    callees = [compiled_function(c) for c in known.callees.values()]
    return max(len(p.variants) for f in (known, *callees) for p in f.points.values())


def outcome(function: Callable[..., Any], x: np.ndarray) -> Any:
    try:
        return function(x)
    except (ArithmeticError, IndexError, ValueError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_programs_serve_all_sizes(name: str) -> None:
    assert run(PROGRAMS[name], SIZES) <= 2 + (name in SMALL)
    assert run(PROGRAMS[name], (3, 2, 5, 4)) <= 2
    if name in SMALL:
        assert run(PROGRAMS[name], [n for n in SIZES if n >= 5]) <= 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_zero_and_one_are_right(name: str) -> None:
    with np.errstate(all="ignore"):
        run(PROGRAMS[name], (7, 1, 0, 12, 1, 0, 5))
        run(PROGRAMS[name], (0, 7, 1, 9, 5))


@pytest.mark.parametrize("name", PROGRAMS)
def test_dynamic_from_the_start(name: str) -> None:
    assert run(PROGRAMS[name], SIZES, dynamic=True) <= 1 + (name in SMALL)


@pytest.mark.parametrize("name", BRANCHES)
def test_one_program_for_each_way_that_is_met(name: str) -> None:
    assert run(BRANCHES[name], [n for n in SIZES if n > 9], dynamic=True) <= 1 + (name == "even or odd")
    assert run(BRANCHES[name], [n for n in SIZES if n >= 5], dynamic=True) == 2
    assert run(BRANCHES[name], [n for n in SIZES if n >= 5]) <= 3


def test_fixed_sizes() -> None:
    assert run(PROGRAMS["slices"], (7, 12, 7, 5), dynamic=False) == 3


# Matrices whose sizes change together, one after the other, and with which other arrays must agree.

MATRICES: dict[str, Callable[..., Any]] = {
    "centred": lambda x: (x - x.mean(axis=0)) / (x.std(axis=0) + 1) - x.mean(axis=1, keepdims=True),
    "products": lambda x: (x @ x.T, x.T @ x, np.einsum("ij,kj->ik", x, x), x @ np.ones(x.shape[1])),
    "reshaped": lambda x: (x.reshape(x.shape[1], x.shape[0]) * 2, x.reshape(-1)[::2], x.T.copy(), x.T + 1),
    "joined": lambda x: (np.hstack([x, np.ones((x.shape[0], 1))]), np.concatenate([x, x[:1]]), np.tile(x, (2, 1))),
    "stencil": lambda x: x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:],
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)).mean(axis=(2, 3)),
    "softmax": lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
    "distances": lambda x: np.sqrt(((x[:, None, :] - x[None]) ** 2).sum(-1)),
    "sorted": lambda x: (np.sort(x, axis=0), x.argmax(axis=1), np.take_along_axis(x, np.argsort(x, axis=1), axis=1)),
    "transformed": lambda x: (np.abs(np.fft.rfft(x, axis=0)), np.abs(np.fft.fft2(x))),
    "quantiles": lambda x: (np.percentile(x, 30, axis=0), np.quantile(x, [0.25, 0.5])),
    "padded": lambda x: np.pad(x, ((1, 2), (0, 3))),
    "least of sizes": lambda x: (x[: min(x.shape), : min(x.shape)], np.zeros((max(x.shape), max(x.shape)))),
    "made of sizes": lambda x: np.arange(x.size).reshape(x.shape) + x + np.arange(x.shape[0])[:, None] + np.eye(*x.shape),
    "diagonal": lambda x: (np.diagonal(x), np.diagonal(x, 1) * 2, np.tril(x)),
    "blocks": lambda x: x[: len(x) // 2 * 2].reshape(len(x) // 2, 2, -1).mean(axis=1),
    "branch": lambda x: (x if x.sum() > 30 else x * 2) + 1,
}

STREAMS = {  # of shapes, and how many programs serve them
    "together": (((7, 5), (12, 9), (5, 30), (30, 6), (9, 8), (64, 33)), 2),
    "rows": (((7, 5), (12, 5), (5, 5), (30, 5), (6, 5)), 2),
    "columns": (((7, 5), (7, 12), (7, 30), (7, 7), (7, 8)), 2),
    "one after the other": (((7, 5), (12, 5), (12, 9), (30, 9), (30, 33), (8, 6)), 3),
    "squares": (((7, 7), (12, 12), (5, 5), (30, 30)), 2),
}


@pytest.mark.parametrize("name", MATRICES)
def test_streams_of_matrices(name: str) -> None:
    for shapes, most in STREAMS.values():
        assert run(MATRICES[name], shapes) <= most
        assert run(MATRICES[name], shapes, dynamic=True) == 1
    small = ((7, 5), (4, 3), (2, 2), (3, 4), (5, 2), (2, 6), (3, 3))
    run(MATRICES[name], small)
    assert run(MATRICES[name], small, dynamic=True) == 1


def test_ranges_of_numbers_from_outside() -> None:
    """One program for all ends and steps, where there are two elements at least; each element is NumPy's to the bit."""

    def f(start, stop, step):
        return np.arange(start, stop, step)

    compiled = npc.compile(f, backend="eager")
    for start, step, count in ((0.1, 0.3, 9), (-0.0, 0.1, 30), (1e10, -1e-3, 4), (2.5, 1e-9, 1000), (-3.7, 0.7, 2)):
        ours, theirs = (g(start, start + step * (count - 0.5), step) for g in (compiled, f))
        assert len(theirs) == count and ours.tobytes() == theirs.tobytes()
    assert len(compiled_function(compiled).graphs) == 1


def test_arrays_of_one_size() -> None:
    """That sizes are equal is a guard: others are another program, and NumPy's error."""

    def f(x, y):
        return x + y * 2

    compiled = npc.compile(f, backend="eager")
    for n, m in ((7, 7), (12, 12), (5, 5), (9, 9), (9, 1), (1, 9), (30, 30)):
        compare_any(compiled(np.ones(n), np.arange(float(m))), f(np.ones(n), np.arange(float(m))), 0)
    assert len(compiled_function(compiled).graphs) == 4
    with pytest.raises(ValueError, match=r"shapes \(9,\) \(8,\)"):
        compiled(np.ones(9), np.ones(8))


def test_lists_and_strings_that_change_from_call_to_call() -> None:
    """What is made for single values is made for a few; then the graph ends where they are needed, for all others."""

    def f(x, items, name):
        return np.array(items).sum() + x * 2, {name: x + 1}

    compiled = npc.compile(f, backend="eager")
    for n in range(1, 12):
        given = np.arange(3.0), list(range(n)), f"name {n}"
        compare_any(compiled(*given), f(*given), 0)
    assert max(len(p.variants) for p in compiled_function(compiled).points.values()) <= npc.config.recompile_limit


@pytest.mark.parametrize("make", [np.zeros, np.arange, lambda n: np.full((n, 2), 1.5)[1:], lambda n: np.repeat(np.ones(3), n)])
def test_integers_that_are_no_sizes(make):
    """NumPy refuses them before anything is written."""

    def program(x, n):
        made = make(n)
        x[0] = 5
        return made

    compiled = npc.compile(program)
    for n in (2, 3, 4, 2**64, 2**61, -(2**70)):
        ours, theirs = np.zeros(3), np.zeros(3)
        try:
            expected = program(theirs, n)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                compiled(ours, n)
            assert str(raised.value) == str(error)
        else:
            compare_any(compiled(ours, n), expected, 0)
        np.testing.assert_array_equal(ours, theirs)
