"""np.interp captured: every keyword, unsorted points, NaN and infinity, bit for bit; and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc

RNG = np.random.default_rng(0)
AT = np.concatenate([RNG.uniform(-2, 9, 20), [0.0, 3.0, 6.0, np.nan, np.inf, -np.inf]])
POINTS = np.array([0.0, 1.0, 1.5, 3.0, 3.0, 6.0])
VALUES = np.array([1.0, -2.0, np.inf, 4.0, 0.5, 2.0])

CASES: dict[str, tuple[Any, ...]] = {
    "vector": (AT, POINTS, VALUES),
    "matrix": (AT.reshape(2, 13)[:, ::-1], POINTS, VALUES),
    "few": (AT[:2], POINTS, VALUES),
    "number": (2.0, POINTS, VALUES),
    "scalar": (np.float64(7.0), POINTS, VALUES),
    "0-D": (np.array(0.25), POINTS, VALUES),
    "integers": (np.arange(-1, 8), np.arange(6), np.arange(6)[::-1]),
    "float32": (AT.astype("f4"), POINTS.astype("f4"), VALUES.astype("f4")),
    "one point": (AT, POINTS[2:3], VALUES[:1]),
    "unsorted": (AT, POINTS[::-1], VALUES),
    "lists": (AT, [0.0, 2.0], [1.0, 5.0]),
    "left": (AT, POINTS, VALUES, -7.0),
    "both": (AT, POINTS, VALUES, -7, np.float32(0.1)),
    "right of one point": (AT, POINTS[:1], VALUES[:1], None, 3.0),
    "period": (AT[:-2], POINTS, VALUES, None, None, 5.0),
}


@pytest.mark.parametrize("name", CASES)
def test_interpolation_is_numpys(name: str) -> None:
    compiled = npc.compile(lambda *a: np.interp(*a), fullgraph=True)
    with np.errstate(all="ignore"):
        for _ in range(2):
            found, expected = compiled(*CASES[name]), np.interp(*CASES[name])
            assert type(found) is type(expected) and found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_array_equal(found.view("i8"), expected.view("i8"))


def test_sizes_become_symbols() -> None:
    compiled = npc.compile(lambda x, xp: np.interp(x, xp, xp * xp), fullgraph=True)
    for n, m in ((3, 4), (5, 9), (8, 1), (2, 30)):
        x, points = RNG.normal(size=n), np.sort(RNG.normal(size=m))
        np.testing.assert_array_equal(compiled(x, points), np.interp(x, points, points * points))


WRONG = [(AT, POINTS, VALUES[1:]), (AT, [], []), (AT, POINTS[None], VALUES), (AT, POINTS * 1j, VALUES)]


@pytest.mark.parametrize("arguments", WRONG)
def test_errors_are_numpys(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Exception) as expected:
        np.interp(*arguments)
    with pytest.raises(expected.type, match=str(expected.value)[:20]):
        npc.compile(lambda *a: np.interp(*a))(*arguments)


def test_gradient_on_points_and_beyond() -> None:
    """On a point that of the segment to its right, on the last to its left; NaN gives none to values."""
    points, values = np.array([0.0, 1.0, 3.0]), np.array([2.0, 5.0, 4.0])
    at = np.array([-1.0, 0.0, 0.5, 1.0, 3.0, 4.0, np.nan])
    to_x, to_points, to_values = npc.grad(lambda x, xp, fp: np.sum(np.interp(x, xp, fp)), (0, 1, 2))(at, points, values)
    np.testing.assert_allclose(to_x, [0, 3, 3, -0.5, -0.5, 0, 0])
    np.testing.assert_allclose(to_points, [-4.5, -1.0, 0.5], atol=1e-14)
    np.testing.assert_allclose(to_values, [2.5, 1.5, 2.0])


def test_gradient_of_one_point() -> None:
    found = npc.grad(lambda x, xp, fp: np.sum(np.interp(x, xp, fp)), (0, 1, 2))(AT[:3], POINTS[:1], VALUES[:1])
    for gradient, expected in zip(found, ([0, 0, 0], [0], [3])):
        np.testing.assert_array_equal(gradient, expected)
