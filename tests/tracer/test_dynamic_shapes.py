"""Sizes that change: at most two programs for any stream of sizes of one dimension, 0 and 1 apart."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import compare_any

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
    "comparison": lambda x: x * 2 if len(x) > 2 else x,
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

MORE = {  # one program more, and why
    "modulo": "a remainder is 0 or not",
    "min of sizes": "the size or the other number",
    "comparison": "two answers",
    "text of a size": "a size that has to be known may be one or another, before it is not fixed any more",
}


def run(function: Callable[..., Any], sizes: Any, **options: Any) -> int:
    """The most programs of one Point for arrays of these sizes."""
    compiled = npc.compile(function, backend="eager", **options)
    for n in sizes:
        x = np.linspace(0.5, 3, n)
        compare_any(outcome(compiled, x), outcome(function, x), 4)
    points = compiled_function(compiled).points.values()
    return max(len(p.variants) for p in points)


def outcome(function: Callable[..., Any], x: np.ndarray) -> Any:
    try:
        return function(x)
    except (ArithmeticError, IndexError, ValueError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_programs_serve_all_sizes(name: str) -> None:
    large = [n for n in SIZES if n >= 5]
    assert run(PROGRAMS[name], large) <= 2 + (name in MORE)
    assert run(PROGRAMS[name], SIZES) <= 3 + (name in MORE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_zero_and_one_are_right(name: str) -> None:
    with np.errstate(all="ignore"):
        run(PROGRAMS[name], (7, 1, 0, 12, 1, 0, 5))
        run(PROGRAMS[name], (0, 7, 1, 9, 5))


@pytest.mark.parametrize("name", PROGRAMS)
def test_dynamic_from_the_start(name: str) -> None:
    assert run(PROGRAMS[name], [n for n in SIZES if n >= 5], dynamic=True) <= 1 + (name in MORE)
