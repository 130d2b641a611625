"""On a real device, arrays of the sizes that devices are for: answers, and offsets that 32 bits do not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.backends import gpu

pytestmark = gpu

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 300, 400))
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda a, b: np.sin(a) * np.exp(-b * b) + np.tanh(a * b), (X, Y)),
    "transposed": (lambda a, b: a.T + b.reshape(400, 300), (X, Y)),
    "reductions": (lambda a: (a.sum(), a.sum(0), a.mean(1), a.max(), a.argmin(1)), (X,)),
    "float32 sum": (lambda a: a.sum(), (RNG.standard_normal(5_000_001).astype(np.float32),)),
    "product": (lambda a, b: a @ b.T + 1, (X, Y)),
    "scan": (lambda a: np.cumsum(a, axis=1), (X,)),
    "integers": (lambda a: (a // 3, a % -7, a**3), (np.arange(-500, 500),)),
    "gather": (lambda a, i: a[i] * 2, (X, np.array([3, -1, 299]))),
    "long rows": (lambda a: a / a.sum(1, keepdims=True), (RNG.uniform(1, 2, (5, 40_000)),)),
    "strided": (lambda a: a[::-2, 1::3] * 2, (X,)),
    "scatter": (lambda a, i: np.add.at(a, i, 1.0), (X.copy(), RNG.integers(-300, 300, 5000))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, arguments = PROGRAMS[name]
    compiled = npc.compile(function)
    for _ in range(2):
        ours, theirs = ([a.copy() for a in arguments] for _ in range(2))
        with npc.device("cuda"):
            got = compiled(*ours)
        expected = function(*theirs)
        pairs = list(zip(got, expected)) if isinstance(expected, tuple) else [(got, expected)]
        for a, b in [*pairs, *zip(ours, theirs)]:
            assert type(a) is type(b)
            if b is not None:
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=2e-5 if b.dtype == np.float32 else 1e-11, atol=1e-11)


def test_an_index_out_of_bounds() -> None:
    with npc.device("cuda"), pytest.raises(IndexError, match="index 300 is out of bounds for axis 0 with size 300"):
        npc.compile(lambda a, i: a[i])(X, np.array([1, 300]))


MANY = 2**31 + 12345


def test_more_elements_than_32_bits_count() -> None:
    cp = pytest.importorskip("cupy")
    free, _ = cp.cuda.runtime.memGetInfo()
    if free < 5 * MANY:
        pytest.skip(f"needs {5 * MANY >> 30} GiB of free device memory")
    x = cp.zeros(MANY, np.int8)
    x[-1], x[2**31 + 1], x[7] = 3, 5, 7
    got = npc.compile(lambda x: x * 2 + 1)(x)
    assert got.dtype == np.int8 and [int(got[k]) for k in (-1, 2**31 + 1, 2**31, 7, 8)] == [7, 11, 1, 15, 1]
    assert int(npc.compile(lambda x: x.sum(dtype=np.int64))(x)) == 15
    assert int(npc.compile(lambda x: x.argmax())(x)) == 7
    del got
    picked = npc.compile(lambda x, i: x[i])(x, cp.asarray([MANY - 1, -1, 2**31 + 1, 0]))
    assert picked.tolist() == [3, 3, 5, 0]
    rows = npc.compile(lambda x: x.reshape(5, -1)[:, ::-1].max(axis=1))(x[: MANY // 5 * 5])
    assert rows.tolist() == [7, 0, 0, 0, 5]


def test_a_stride_beyond_32_bits() -> None:
    cp = pytest.importorskip("cupy")
    free, _ = cp.cuda.runtime.memGetInfo()
    if free < 3 * MANY:
        pytest.skip(f"needs {3 * MANY >> 30} GiB of free device memory")
    x = cp.zeros((2, MANY), np.int8)
    x[1, 5] = 9
    assert npc.compile(lambda x: x[:, :10] + x[::-1, :10])(x)[:, 5].tolist() == [9, 9]
