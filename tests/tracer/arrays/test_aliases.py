"""Arguments that share memory, in every way: what is written through one is read through the other, results alias arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import run, same_outcome


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


# Two arguments of six elements, seen in one memory of 24.
PAIRS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "one array twice": lambda b: (x := b[:6], x),
    "apart": lambda b: (b[:6], b[6:12]),
    "overlapping": lambda b: (b[:6], b[3:9]),
    "reversed": lambda b: (b[:6], b[5::-1]),
    "two views of the same": lambda b: (b[:6], b[:6]),
    "interleaved": lambda b: (b[:12:2], b[1:13:2]),
    "copies": lambda b: (b[:6].copy(), b[6:12].copy()),
    "one read-only": lambda b: (b[:6].copy(), read_only(b[6:12])),
    "one broadcast": lambda b: (b[:6].copy(), np.broadcast_to(b[:1], (6,))),
}
FIRST = list(PAIRS)[:6]  # after these as the first call, all are given to the same compiled function


def writes_to_a_view(x, y):
    a, b = x[1:], y[1:]
    a[:] = b * 2
    return a, x, y


def swaps(x, y):
    x[:], y[:] = y, x
    return x, y


def reads_after_a_write(x, y):
    before = x * 2
    x[0] = 100
    return before + y, x


def writes_to_a_reshaped_one(x, y):
    z = x.reshape(2, 3)
    z[0] = y[:3]
    return z, x, y


def sorts(x, y):
    x.sort()
    return x, y


def fills(x, y):
    x.fill(7)
    return y + 1


def writes_through_a_list(x, y):
    kept = [x, y, x[1:]]
    kept[2][0] = 50
    kept[0] += kept[1]
    return kept


def writes_in_a_branch(x, y):
    if x.sum() > y.sum():
        x[0] = 9
    else:
        y[0] = 9
    return x, y


def writes_around_a_break(x, y):
    x += 1
    n = float(y[0])
    y *= n
    return x, y, x + y


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: (x, y, x is y),
    lambda x, y: x + y,
    lambda x, y: (x.__iadd__(y), y),
    lambda x, y: (np.add(x, y, out=x), y + 0),
    lambda x, y: (np.multiply(x, 2, out=y), x + y),
    lambda x, y: (x[::2], y[1:], x[:3], np.shares_memory(x, y), np.may_share_memory(x, y)),
    lambda x, y: (np.cumsum(x, out=x), y * 1),
    lambda x, y: (np.copyto(x, y), x, y),
    lambda x, y: (np.asarray(x) is x, np.asarray(y), np.array(x, copy=None)),
    lambda x, y: (x.real, y.T, x.ravel(), y.reshape(2, 3), x.view(), y[...]),
    lambda x, y: {"x": x, "both": [x, (y,)], "again": x},
    writes_to_a_view, swaps, reads_after_a_write, writes_to_a_reshaped_one, sorts, fills, writes_through_a_list,
    writes_in_a_branch, writes_around_a_break,
]  # fmt: skip


@pytest.mark.parametrize("first", PAIRS)
@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_arguments_that_share_memory(program: int, first: str) -> None:
    function = PROGRAMS[program]
    compiled = npc.compile(function, backend="eager")
    for name in (first, *FIRST, first):
        ours, theirs = (list(PAIRS[name](np.arange(1.0, 25.0))) for _ in range(2))
        same_outcome(run(compiled, function, ours), run(function, function, theirs), 4)
