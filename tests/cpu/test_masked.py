"""Reductions of what a mask selects run over all elements, without a copy of those that are selected."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends import measured


def of_one_axis(x, y):
    return x[0][y[0] > 0].sum(), x[0][y[0] > 0].max(), (x[0][y[0] > 0] * 2 - 1).min()


def of_two_axes(x, y):
    chosen = x[x > y]
    return chosen.sum(), chosen.mean(), chosen.var(), np.abs(chosen).max()


def several_masks(x, y):
    low, high = x < 0, x > 0.5
    return x[low].sum() + x[high].sum(), y[low].mean() - y[high].mean(), (x[low] ** 2).sum()


def one_after_another(x, y):
    return x[x > x[y > 0].mean()].sum()


def counted(x, y):
    chosen = (x * 10).astype(int)[y > 0]
    return chosen.sum(), (chosen > 3).sum(), len(chosen), (chosen > -100).all()


def kept_as_well(x, y):
    chosen = x[y > 0]
    return chosen.sum(), chosen


def rows(x, y):
    return x[y[:, 0] > 0].sum(axis=0), x[y[:, 0] > 0].sum()


def where_the_others_would_fail(x, y):
    return np.sqrt(x[x > 0]).sum(), np.log(y[y > 0]).mean()


PROGRAMS = (of_one_axis, of_two_axes, several_masks, one_after_another, counted, kept_as_well, rows, where_the_others_would_fail)


@pytest.mark.parametrize("function", PROGRAMS)
def test_as_numpy_has_it(function) -> None:
    rng = np.random.default_rng(6)
    compiled = npc.compile(function)
    for _ in range(3):
        x, y = rng.standard_normal((2, 20, 30))
        x[y < -1.5] = np.nan if function is of_one_axis else -1e5
        expected, got = function(x, y), compiled(x, y)
        for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
            assert type(e) is type(g) and np.asarray(e).dtype == np.asarray(g).dtype
            np.testing.assert_allclose(g, e, rtol=1e-13)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_are_selected(count) -> None:
    x = -np.ones(50)
    x[:count] = 3.0
    compiled = npc.compile(lambda x: (x[x >= 0].sum(), np.sum(x[x > -0.5] * 0)))
    np.testing.assert_array_equal(compiled(x), (x[x >= 0].sum(), np.sum(x[x > -0.5] * 0)))
    if count == 0:
        with pytest.raises(ValueError, match="zero-size array"):
            npc.compile(lambda x: x[x > 5].max())(x)


@pytest.mark.parametrize("function", [of_one_axis, of_two_axes, several_masks, one_after_another, counted])
def test_nothing_is_looked_up(function, monkeypatch) -> None:
    graphs, rewrite = [], measured.without_compaction

    def noted(graph):
        graphs.append(rewrite(graph))
        return graphs[-1]

    monkeypatch.setattr(measured, "without_compaction", noted)
    npc.compile(function)(*np.random.default_rng(0).standard_normal((2, 20, 30)))
    assert graphs and not any(node.op in ("gather", "argwhere") for graph in graphs for node in graph.nodes)
