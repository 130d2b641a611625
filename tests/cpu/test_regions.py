"""Maps over concatenations, cut where their parts meet."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.kernels import regions
from npcompile.backends.kernels.kernel import Let, walk
from tests.cpu.plans import plans_of


def five_point(u, v):
    return 0.25 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)) - v


def life(u, v):
    cells = u > 0
    around = sum(np.roll(cells, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return (around == 3) | (cells & (around == 2))


def parts_at_other_places(u, v):
    return np.concatenate([u[:5], v[2:], u[::3]]) + np.concatenate([v, u[1::3], u[:3]]), np.concatenate([u, v], axis=1) * 2


def reversed_parts(u, v):
    x = np.concatenate([u[:7], v[7:]])
    return x[::-1] - v, x[:, ::-1].T + np.roll(v, 3, 1).T, np.roll(x, 2)[1:-1, ::2] * 3


def parts_of_parts(u, v):
    x = np.concatenate([np.roll(u, 1, 0), np.concatenate([v, u[:2]])])
    return np.roll(x, -3, 0) * 2, x[3:9] + v[3:9]


def of_one_dimension(u, v):
    x, y = u[0], v[:, 0]
    return np.roll(x, 2) * 2 - np.roll(x, -2), np.stack([x, v[1]], axis=1) + 1, np.outer(np.roll(y, 1), x)


def in_place(u, v):
    u[:] = np.roll(v, 1, 1) + u
    return u


PROGRAMS = (five_point, life, parts_at_other_places, reversed_parts, parts_of_parts, of_one_dimension, in_place)


@pytest.mark.parametrize("function", PROGRAMS)
def test_every_region_has_its_part(function, monkeypatch) -> None:
    monkeypatch.setattr(regions, "WORTH", 0)
    rng = np.random.default_rng(4)
    u, v = rng.standard_normal((2, 15, 23))
    expected, got = function(u.copy(), v), npc.compile(function)(u.copy(), v)
    for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
        assert e.dtype == g.dtype and e.strides == g.strides
        np.testing.assert_array_equal(g, e)


def test_most_elements_choose_nothing() -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 200, 300))
    statements = [list(walk(plan.kernel.body)) for plan in plans_of(five_point, u, v)]
    assert len(statements) == 9 and not any(isinstance(s, Let) and s.op == "where" for body in statements for s in body)


@pytest.mark.parametrize("shape", [(300, 260), (129, 400), (1, 300), (300, 1), (20, 150, 140)])
def test_across_memory_in_short_pieces(shape) -> None:
    x = np.random.default_rng(5).standard_normal(shape)

    def transposed(x):
        y = x.swapaxes(0, -1)
        return np.ascontiguousarray(x.T) * 2, x.reshape(y.shape) + y, np.add(y, 1, order="C")

    for dynamic in (False, True):
        for expected, got in zip(transposed(x), npc.compile(transposed, dynamic=dynamic)(x)):
            assert expected.strides == got.strides
            np.testing.assert_allclose(got, expected, rtol=1e-15)
