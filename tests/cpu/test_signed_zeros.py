"""Zeros that extremes give: of reductions, in graphs and in loops, -0.0 is less than 0.0; of two arrays they are NumPy's."""

import platform
from collections.abc import Callable

import numpy as np
import pytest

import npcompile as npc

Program = Callable[..., tuple[np.ndarray, ...]]


def of_rows(x: np.ndarray, most: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, ...]:
    for i in range(x.shape[0]):
        most[i] = np.max(x[i])
        least[i] = x[i].min()
    return most, least


def of_columns(x: np.ndarray, most: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, ...]:
    for i in range(x.shape[1]):
        most[i] = x[:, i].max()
        least[i] = np.nanmin(x[:, i])
    return most, least


def of_row_after_row(x: np.ndarray, most: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, ...]:
    for _ in range(3):
        most[:] = x.max(axis=0)
        least[:] = x.min(axis=0)
    return most, least


GRAPHS: list[tuple[int | None, Program]] = [  # the axis; and what gives the greatest and the least along it
    (None, lambda x: (x.max(), np.minimum.reduce(x, axis=None))),
    (None, lambda x: (np.nanmax(x), np.fmin.reduce(x, axis=None))),
    (None, lambda x: ((x + x).max(), (x * 2).min())),
    (0, lambda x: (np.maximum.reduce(x), np.min(x, axis=0))),
    (0, lambda x: (np.fmax.reduce(x), np.nanmin(x, axis=0))),
    (1, lambda x: (np.max(x, 1), x.min(1))),
    (1, lambda x: (np.nanmax(x, 1), np.minimum.reduce(x * 3, -1))),
    (1, lambda x: (x.max(axis=1, keepdims=True)[:, 0], np.amin(x, axis=1, keepdims=True)[:, 0])),
]
LOOPS: list[tuple[int, Program]] = [(1, of_rows), (0, of_columns), (0, of_row_after_row)]
PROGRAMS = [*GRAPHS, *LOOPS]
AS_NUMPY: list[Program] = [
    lambda x: (np.minimum(x, -x), np.maximum(x, -x), np.clip(x, -0.0, 0.0), np.maximum(x, 0)),
    lambda x: (np.minimum.accumulate(x, axis=0), np.maximum.accumulate(x, axis=1), np.minimum.reduceat(x, [0, 2, 1])),
    lambda x: (x.argmin(), x.argmax(1)),
]
SHAPES = [(1, 1), (3, 1), (3, 5), (17, 4), (4, 17), (40, 33), (5, 5000), (3000, 5)]
rng = np.random.default_rng(2)


def zeros(shape: tuple[int, int], dtype: str, share: float) -> np.ndarray:
    """Of both signs, that share of them 0.0."""
    return np.where(rng.random(shape) < share, 0.0, -0.0).astype(dtype)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    return [x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1, ::-1]]


def outcomes(run: Program, k: int, x: np.ndarray) -> tuple[np.ndarray, ...]:
    axis = PROGRAMS[k][0]
    return run(x, *(np.empty(x.shape[1 - axis], x.dtype) for _ in range(2) if axis is not None and k >= len(GRAPHS)))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_extremes_of_zeros(k: int, dtype: str) -> None:
    axis, program = PROGRAMS[k]
    compiled = npc.compile(program)
    for shape in SHAPES:
        for share in (0.0, 0.1, 0.9, 1.0):
            for x in layouts(zeros(shape, dtype, share)):
                most, least = outcomes(compiled, k, x)
                assert np.array_equal(np.signbit(most), np.signbit(x).all(axis)), (shape, share)
                assert np.array_equal(np.signbit(least), np.signbit(x).any(axis)), (shape, share)
                if share in (0, 1) or platform.machine() == "aarch64":  # elsewhere NumPy's depends on its vectors
                    for ours, theirs in zip((most, least), outcomes(program, k, x), strict=True):
                        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("k", range(len(AS_NUMPY)))
def test_others_are_numpys(k: int, dtype: str) -> None:
    compiled = npc.compile(AS_NUMPY[k])
    for shape in SHAPES[2:6]:
        for x in layouts(zeros(shape, dtype, 0.5)):
            for ours, theirs in zip(compiled(x), AS_NUMPY[k](x), strict=True):
                np.testing.assert_array_equal(ours, theirs)
                assert dtype != "f2" and platform.machine() != "x86_64" or ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("k", range(len(GRAPHS)))
def test_extremes_of_float16_are_numpys(k: int) -> None:
    compiled, program = npc.compile(GRAPHS[k][1]), GRAPHS[k][1]
    for shape in SHAPES[2:6]:
        for x in layouts(zeros(shape, "f2", 0.5)):
            for ours, theirs in zip(compiled(x), program(x), strict=True):
                assert ours.tobytes() == theirs.tobytes()


def test_nan_beside_zeros() -> None:
    x = np.array([[0.0, np.nan, -0.0] * 9, [np.nan] * 27, [-0.0] * 27])
    with np.errstate(all="raise"):
        most, least, total = npc.compile(lambda x: (np.fmax.reduce(x, 1), np.fmin.reduce(x), x.max(1)))(x)
    np.testing.assert_array_equal(most, [0, np.nan, 0])
    assert np.signbit(most).tolist()[::2] == [False, True] and np.signbit(least).all() and np.isnan(total[:2]).all()
