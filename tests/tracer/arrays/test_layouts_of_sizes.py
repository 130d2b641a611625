"""Memory order where sizes become 1 or 0 only later: drawn views of arrays of a size that changes, and what is made of them.

`python -m tests.tracer.arrays.test_layouts_of_sizes 500` draws as many programs, and counts how often each number
of programs is needed.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import compare_any, run, same_outcome

PARTS = [":", ":", ":len(x) // 2", "len(x) // 2:", "1:", "2:", ":-1", ":-2", "::2", "::-1", "1::2", ":3", "-2:", "len(x) - 1:"]
ARRAYS = [
    "np.arange(n**3).reshape(n, n, n)",
    "np.arange(n**3).reshape(n, n, n, order='F')",
    "np.arange(n * n).reshape(n, 1, n)",
    "np.arange(n * n).reshape(n, n)[:, None]",
    "np.arange(n * n * 2).reshape(n, 2, n)",
    "np.broadcast_to(np.arange(n), (n, n, n))",
    "np.zeros((n, n, n)) + np.arange(n) + np.arange(n)[:, None, None] * 3",
]
RESULTS = """
a + 1 ; a + b ; a * b + a ; np.where(a > 3, a, b) ; np.sqrt(a, order='{o}') ; a.astype(np.float32) ; np.copy(a)
a.copy(order='{o}') ; np.zeros_like(a) ; np.ascontiguousarray(a) ; np.asfortranarray(a) ; np.moveaxis(a, 0, 2) * 2
np.einsum('ijk->ikj', a) ; a.sum(axis={k}) ; (a + b).sum(axis={k}) ; np.add.reduce(a, axis=({k}, {j}))
np.max(a, axis={k}, initial=0) ; a.mean(axis={k}, keepdims=True) + b ; np.cumsum(a, axis={k}) ; np.sort(a, axis={k})
np.roll(a, 1, axis={k}) ; np.stack([a, a]) ; np.concatenate([a, a], axis={k}) ; np.concatenate([a, a + 1], axis={k})
a.ravel(order='{o}') ; a.reshape(-1) ; a.flatten('{o}') ; a.flags.c_contiguous ; a.T.flags.c_contiguous
"""


def drawn(seed: int) -> tuple[str, list[int]]:
    """A program of one array x, and sizes to call it with."""
    rng = random.Random(seed)
    views = []
    for name in "uw":
        view = f"{name}[{', '.join(rng.choice(PARTS) for _ in range(3))}]"
        views.append(f"{view}.transpose({tuple(rng.sample(range(3), 3))})" if rng.random() < 0.7 else view)
    if rng.random() < 0.6:
        views[1] = views[0].replace("u[", "w[")
    k, j = rng.sample(range(3), 2)
    result = rng.choice(RESULTS.strip().replace("\n", " ; ").split(" ; ")).format(k=k, j=j, o=rng.choice("CFAK"))
    lines = ["n = len(x)", *(f"{name} = {rng.choice(ARRAYS)}" for name in "uw"), f"a = {views[0]}", f"b = {views[1]}"]
    return "\n    ".join(["def f(x):", *lines, f"return {result}, a\n"]), rng.sample(range(2, 10), 8)


def needed(seed: int, backend: str = "eager") -> int:
    """How many programs the drawn one needs; AssertionError where one of them does something else than NumPy."""
    text, sizes = drawn(seed)
    filename = f"<drawn {seed}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, filename, "exec"), scope)
    user: Callable[..., Any] = scope["f"]
    compiled = npc.compile(user, backend=backend)
    for n in sizes:
        ours, theirs = (run(f, user, [np.arange(float(n))]) for f in (compiled, user))
        try:
            same_outcome(ours, theirs, 16)
        except AssertionError as error:
            raise AssertionError(f"{seed}: size {n} of {sizes}\n{text}{error}") from None
    return max(len(point.variants) for point in compiled_function(compiled).points.values())


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("first", (0, 20, 40))
def test_drawn_layouts(first: int) -> None:
    for seed in range(first, first + 20):
        assert needed(seed) <= 4


@pytest.mark.parametrize("seed", (1269, 1289, 1398, *range(60, 66)))
def test_compiled_layouts(seed: int) -> None:
    """The CPU's backend lays results out as NumPy, also where sizes at capture did not tell how."""
    needed(seed, "cpu")


FOUND: dict[str, Callable[..., Any]] = {
    "reshaped where an axis is 1": lambda x: np.broadcast_to(x, (len(x), len(x), len(x)))[:-1, ::2, : len(x) // 2].T.reshape(-1),
    "sums of no elements": lambda x: (np.zeros((*x.shape, *x.shape, 9))[:, ::-1, : len(x) - 2].transpose(2, 1, 0) + x).sum(0),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_layouts(name: str) -> None:
    for sizes in ((9, 7, 3, 2, 4), (2, 3, 5), (3, 4, 2)):
        compiled = npc.compile(FOUND[name], backend="eager")
        for n in sizes:
            compare_any(compiled(np.arange(float(n))), FOUND[name](np.arange(float(n))), 0)


if __name__ == "__main__":
    print(dict(sorted(Counter(map(needed, range(int(sys.argv[1])))).items())))
