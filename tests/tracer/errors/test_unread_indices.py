"""An index out of bounds raises IndexError although nothing reads the element: NumPy looks at every index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc
from tests.backends import BACKENDS

PROGRAMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray | None]] = {
    "a slice": lambda x, k: x[k][:1] * 2,
    "a slice backward": lambda x, k: x[k][::-1][:1] + 1,
    "no element": lambda x, k: x[k][..., :0].sum(),
    "one row": lambda x, k: x[k][0] + 1,
    "a column of a transpose": lambda x, k: x[k].T[:, :1] * 2,
    "after an operation": lambda x, k: (x.astype(int)[k] // 2)[:1] + 1,
    "np.take": lambda x, k: np.take(x, k)[:1] * 2,
    "np.take_along_axis": lambda x, k: np.take_along_axis(x[:, :1], k[:, None], 0)[:1] * 2,
    "indices of indices": lambda x, k: x[k[k]][:1] * 2,
    "a part of a concatenation": lambda x, k: np.concatenate([x[k], x])[:1] * 2,
    "a product": lambda x, k: x[k][:1] @ x.T,
    "a sum over nothing": lambda x, k: np.einsum("ij,kj->k", x[k], x[:0]),
    "one number, for no element": lambda x, k: x[0, k[1]] * x[0, :0],
    "one number, broadcast to no element": lambda x, k: np.full(0, x[0, k[1]]),
    "one row, broadcast to no element": lambda x, k: np.broadcast_to(x[0][k], (0, 2)) * 2,
}


def write_nothing(x: np.ndarray, k: np.ndarray) -> None:
    x[0, :0] = x[0][k[1]]


def write_a_part(x: np.ndarray, k: np.ndarray) -> None:
    x[:1] = x[k][:1]


PROGRAMS |= {"an assignment to no element": write_nothing, "an assignment of a part": write_a_part}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_indices_of_elements_that_nothing_reads(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = npc.compile(program, backend=backend)
    for k in ([0, 0], [0, 6], [0, -7]):
        x, y = np.arange(4.0)[None], np.arange(4.0)[None]
        if k[1] == 0:
            np.testing.assert_array_equal(compiled(x, np.array(k)), program(y, np.array(k)))
        else:
            with pytest.raises(IndexError, match=f"index {k[1]} is out of bounds"):
                compiled(x, np.array(k))
        np.testing.assert_array_equal(x, y)
