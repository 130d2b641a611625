"""Every two values of different parameters meet, in a small part of the product."""

from itertools import combinations

import pytest

from tests.covering import pairs


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1, 4), (5, 4, 3, 2), (12, 4, 5), (2,) * 7])
def test_every_two_values_meet(sizes):
    parameters = [[f"{name}{i}" for i in range(size)] for name, size in zip("abcdefg", sizes, strict=False)]
    rows = pairs(*parameters)
    assert rows[0] == tuple(values[0] for values in parameters)
    for i, j in combinations(range(len(sizes)), 2):
        assert {(row[i], row[j]) for row in rows} == {(a, b) for a in parameters[i] for b in parameters[j]}
    largest = sorted(sizes)[-2:]
    assert largest[0] * largest[1] <= len(rows) <= 2 * largest[0] * largest[1]


def test_one_parameter_and_none():
    assert pairs([1, 2]) == [(1,), (2,)]
    assert pairs() == [()]
