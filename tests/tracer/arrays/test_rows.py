"""Functions of the user that NumPy calls for each row, and np.ndindex: the rows' calls are inlined in one graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tracer.harness import check

CUBE = (lambda round: np.random.default_rng(round).normal(size=(2, 3, 4)),)


def first(row: np.ndarray, n: int, /, *, scale: float = 1.0) -> np.ndarray:
    return row[:n] * scale


@check(graphs=1, breaks=0)
def test_rows_of_other_lengths(x: Any) -> Any:
    return np.apply_along_axis(lambda r: r - r[0], 1, x), np.apply_along_axis(np.diff, 0, x), np.apply_along_axis(np.sort, 0, x)


@check(*CUBE, graphs=1, breaks=0)
def test_arguments_are_passed_on(x: Any) -> Any:
    return np.apply_along_axis(first, 0, x, 1, scale=3), np.apply_along_axis(first, -1, x, 2)


@check(*CUBE, graphs=1, breaks=0)
def test_scalars_and_results_of_more_dimensions(x: Any) -> Any:
    squares = np.apply_along_axis(np.diag, 1, x)
    return squares, np.apply_along_axis(np.sum, 0, x), np.apply_along_axis(len, 2, x), np.apply_along_axis(lambda r: 2.5, 1, x)


@check(*CUBE, graphs=1, breaks=0)
def test_tuples_become_an_axis(x: Any) -> Any:
    return np.apply_along_axis(lambda r: (r.mean(), r.max()), 1, x)


@check(graphs=1, breaks=0)
def test_vectors(x: Any) -> Any:
    return np.apply_along_axis(np.sum, 0, x[0]), np.apply_along_axis(np.cumsum, 0, x[:, 1])


@check(graphs=1, breaks=0)
def test_rows_may_be_changed(x: Any) -> Any:
    def centered(row: Any) -> Any:
        row -= row.mean()
        return row

    return np.apply_along_axis(centered, 1, x), x


@check(graphs=1, breaks=0)
def test_branches_on_rows(x: Any) -> Any:
    return np.apply_along_axis(lambda r: r / r[0] if r[0] > 1 else r, 1, x)


@check()
def test_no_rows(x: Any) -> Any:
    return np.apply_along_axis(np.sum, 0, x[:, :0])


@check()
def test_rows_that_differ_in_length(x: Any) -> Any:
    lengths = [1]

    def longer(row: Any) -> Any:
        lengths[0] += 1
        return row[: lengths[0]]

    return np.apply_along_axis(longer, 1, x)


@check(graphs=1, breaks=0)
def test_over_axes(x: Any) -> Any:
    return np.apply_over_axes(np.sum, x, [0, 1]), np.apply_over_axes(np.max, x, -1)


@check(graphs=1, breaks=0)
def test_places(x: Any) -> Any:
    total = np.zeros(x.shape[1])
    for row, column in np.ndindex(x.shape):
        total[column] += x[row, column] * row
    return total, list(np.ndindex(2, 2)), list(np.ndindex()), list(np.ndindex(0, 3))


@check(lambda round: np.arange(4.0) + round)
def test_places_go_on_after_a_break(x: Any) -> Any:
    places = np.ndindex(2, 2)
    one = x[next(places)[0]] + 1
    x = np.asarray(memoryview(x)) * 2  # type: ignore[arg-type]
    return one, x[next(places)[1]], list(places)


@check()
def test_no_place_is_negative(x: Any) -> Any:
    return x + 1, list(np.ndindex(-1))


@check()
def test_lengths_are_integers(x: Any) -> Any:
    return x + 1, list(np.ndindex([2, 3]))
