"""The native answer to whether arrays share memory is NumPy's."""

from __future__ import annotations

import itertools

import numpy as np

import npcompile as npc
from npcompile.backends.overlap import OVERLAP, are_disjoint


def test_native_equals_numpy() -> None:
    npc.compile(lambda x: x + 1)(np.ones(3))  # starts the runtime
    assert OVERLAP.are_disjoint is not are_disjoint
    base, other = np.arange(24.0), np.arange(6.0)
    views = [base, base[:4], base[4:8], base[3::-1], base[20:3:-5], base[:0], base.reshape(4, 6)[:, 2:4], base[5:6], other]
    views += [other.reshape(2, 3).T, other[3], np.float32(1) * other, np.empty((0, 3)), base.view("i4")[10:12]]
    arrays = [np.asarray(v) for v in views]
    for k in (1, 2):
        for some in itertools.permutations(arrays, 3):
            assert OVERLAP.are_disjoint(k, *some) == are_disjoint(k, *some), some
    many = [base[i : i + 1] for i in range(24)] * 4
    assert OVERLAP.are_disjoint(1, *many[:24]) and not OVERLAP.are_disjoint(96, *many)
