"""The native answers to whether arrays, or the elements of one, share memory are those of NumPy and of Python."""

from __future__ import annotations

import itertools

import numpy as np

import npcompile as npc
from npcompile.backends.overlap import OVERLAP, are_disjoint, overlaps_itself


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


def elements_meet(x: np.ndarray) -> bool:
    """By the address of each."""
    starts = np.zeros(x.shape, np.int64)
    for axis, (n, stride) in enumerate(zip(x.shape, x.strides)):
        starts += (np.arange(n) * stride).reshape(-1, *[1] * (x.ndim - axis - 1))
    return bool((np.diff(np.sort(starts, axis=None)) < x.itemsize).any())


def test_elements_that_share_memory() -> None:
    npc.compile(lambda x: x + 1)(np.ones(3))
    base = np.zeros(4000, np.int8)
    for dtype in ("i1", "i4", "f8", "c16"):
        size = np.dtype(dtype).itemsize
        memory = base[2000 * size % 2000 :][:2000].view(dtype)[60:]
        steps = (-7, -4, -3, -1, 0, 1, 2, 3, 4, 12)
        for strides in itertools.product([s * size for s in steps] + [size // 2] * (size > 1), repeat=2):
            for shape in [(4, 3), (3, 4), (1, 3), (3, 1), (2, 2), (0, 3)]:
                x = np.lib.stride_tricks.as_strided(memory[100 // size * 2 :], shape, strides)
                assert OVERLAP.are_disjoint(1, x) is not overlaps_itself(x), (dtype, shape, strides)
                assert overlaps_itself(x) or not elements_meet(x), (dtype, shape, strides)


def test_no_view_by_indices_shares_memory_with_itself() -> None:
    x = np.zeros((4, 5, 6, 2))
    views = [
        x,
        x.T,
        x[::-1, ::2, 1:4:2],
        x[:, None, :, ::3],
        x.diagonal(0, 0, 2),
        x.diagonal(1, 1, 2),
        x[1:1],
        x[..., 0],
        x[2, 2, 2, 1:],
    ]
    views += [
        x.view(complex)[..., 0].real,
        x.reshape(20, 12)[3::-1, ::5],
        np.einsum("iijk->ijk", x[:, :4]),
        x.swapaxes(0, 3)[::-1],
    ]
    for view in views:
        assert not overlaps_itself(view) and OVERLAP.are_disjoint(1, view), (view.shape, view.strides)
