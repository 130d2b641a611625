"""What a mask selects is reduced, or written where it was, over all elements, without a copy of those that are selected."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends import data_dependent_sizes
from npcompile.compiler import compiled_function
from npcompile.settings import config


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


def rows_of_a_few(x, y):
    x, mask = x[:, :4], y[:, 0] > 0
    centred = (x[mask] - 1) ** 2
    return x[mask].mean(axis=0), x[mask].max(), centred.sum(axis=1).sum(), centred.sum(axis=(0, 1)), x[mask].any(axis=0)


def means_of_clusters(x, y):
    labels = np.abs(x[:, :1] - np.arange(3)).argmin(axis=1)
    means = np.empty((3, 5))
    for k in range(3):
        means[k] = np.abs(y[:, :5])[labels == k].mean(axis=0)
    return means, labels


def where_the_others_would_fail(x, y):
    return np.sqrt(x[x > 0]).sum(), np.log(y[y > 0]).mean()


PROGRAMS = (of_one_axis, of_two_axes, several_masks, one_after_another, counted, kept_as_well, rows, rows_of_a_few)
PROGRAMS += (means_of_clusters, where_the_others_would_fail)


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


def written_too(x, y):
    y[0] = x[x > 0].mean()
    return y[1] * 2


def sized_too(x, y):
    chosen = x[0][y[0] > 0]
    return np.zeros(len(chosen)), chosen.mean(), len(chosen), x[1][y[1] > 0].mean()


@pytest.mark.parametrize("function", [of_two_axes, several_masks, one_after_another, means_of_clusters, written_too, sized_too])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_means_of_any_number(function) -> None:
    compiled = npc.compile(function)
    x, y = np.random.default_rng(0).standard_normal((2, 20, 30))
    for k in range(8):
        some_x, some_y = (-np.abs(x), -np.abs(y)) if k > 3 else (x, y)
        if k > 4:
            some_x[0, : k - 5] = some_y[0, : k - 5] = 2.0
        mine, theirs = some_y.copy(), some_y.copy()
        made = [f(some_x, own) for f, own in ((compiled, mine), (function, theirs))]
        for g, e in zip(*(m if isinstance(m, tuple) else (m,) for m in made), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-12)
            assert type(g) is type(e)
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture
def as_graphs():
    """Functions of small arrays may be native programs, which have no graphs to look at."""
    with config.patch(native_loops=False):
        yield


@pytest.mark.usefixtures("as_graphs")
def test_counts_of_means_are_made_by_the_kernels() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 20, 30))
    inside, between = ([p.name for p in npc.explain(f)(x, y).passes] for f in (several_masks, sized_too))
    assert "sizes from data" in between and "sizes from data" not in inside


@pytest.mark.usefixtures("as_graphs")
@pytest.mark.parametrize("function", [of_one_axis, of_two_axes, several_masks, one_after_another, counted])
def test_nothing_is_looked_up(function, monkeypatch) -> None:
    graphs, rewrite = [], data_dependent_sizes.without_compaction

    def noted(graph):
        graphs.append(rewrite(graph))
        return graphs[-1]

    monkeypatch.setattr(data_dependent_sizes, "without_compaction", noted)
    npc.compile(function)(*np.random.default_rng(0).standard_normal((2, 20, 30)))
    assert graphs and not any(node.op in ("gather", "argwhere") for graph in graphs for node in graph.nodes)


def reflected(x, y):
    low, high = x < 0, x > 1
    x[low] = -x[low]
    x[high] = 2 - x[high]
    y[low | high] *= -0.9


def of_both(x, y):
    inside = x * x + y * y < 1
    a, b = x[inside], y[inside]
    x[inside] = a * a - b * b + 0.3
    y[inside] = 2 * a * b + x[inside]
    return x + y, inside


def only_where_it_may_be(x, y):
    x[x > 0] = np.log(x[x > 0]) + 1 / np.sqrt(x[x > 0])
    y[y != 0] = x[y != 0] / y[y != 0]
    whole = (y * 10).astype(np.int64)
    y[np.abs(y) < 100] = y[np.abs(y) < 100].astype(np.int32)
    whole[whole > 2] //= whole[whole > 2] - 1
    whole[whole < -2] %= 7
    return x, whole


def where_all_may_fail(x, y):
    x[y > 0] = np.sqrt(x[y > 0])
    return 1 / x[0]


def from_a_row(x, y):
    x[0][y[0] > 0] += 5
    x[1:, ::2][y[1:, ::2] > 0] = 3 * y[1:, ::2][y[1:, ::2] > 0]


def counted_too(x, y):
    found = x > 1
    x[found] = np.exp(-x[found])
    return len(x[found]), np.zeros(x[found].size + 1)


def collected_too(x, y):
    large = x[x > 1] * 2
    x[x > 1] = large
    return large


def decided_by_the_number(x, y):
    found, others = x[x > 1], y[y > 1]
    if len(found) > 0:
        x[x > 1] = found * 2
    else:
        x += 1
    if others.size:
        y[y > 1] = others + (2 if np.shape(others)[0] > 1 else 1)
        return others.sum() if others.shape != (1,) else 7.0
    return -1.0


WRITES = (
    decided_by_the_number,
    reflected,
    of_both,
    only_where_it_may_be,
    where_all_may_fail,
    from_a_row,
    counted_too,
    collected_too,
)


@pytest.mark.parametrize("values", ["many", "one", "none", "special"])
@pytest.mark.parametrize("function", WRITES)
def test_written_as_numpy_writes(function, values) -> None:
    rng = np.random.default_rng(8)
    compiled = npc.compile(function)
    for _ in range(3):
        x, y = {"many": 1.0, "special": 1.0}.get(values, 1e-3) * rng.standard_normal((2, 20, 30))
        if values == "one":
            x[0, 1] = x[0, 2] = y[0, 1] = 1.5
        if values == "special":
            x[2, :6] = y[2:8, 2] = 0, -0.0, np.inf, -np.inf, np.nan, -np.nan
        told, results = [], []
        for run in (function, compiled):
            given = x.copy(), y.copy()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = run(*given)
            told.append([(w.category, str(w.message), w.lineno) for w in caught])
            results.append([*given, *(found if isinstance(found, tuple) else [found])])
        assert told[0] == told[1]
        for e, g in zip(*results):
            assert type(e) is type(g) and np.asarray(e).dtype == np.asarray(g).dtype
            np.testing.assert_allclose(g, e, rtol=1e-14) if e is not None else None


@pytest.mark.usefixtures("as_graphs")
@pytest.mark.parametrize("function", [reflected, of_both, only_where_it_may_be, from_a_row])
def test_nothing_is_collected(function) -> None:
    compiled = npc.compile(function)
    x, y = np.random.default_rng(0).standard_normal((2, 20, 30))
    x[:2] = 0
    with np.errstate(all="raise"):
        compiled(x, y)
    assert compiled_function(compiled).graphs and not compiled_function(compiled).breaks
    assert not any(
        n.op in ("gather", "scatter", "argwhere") for graph, _ in compiled_function(compiled).graphs for n in graph.nodes
    )
