"""A program that goes on at its own Point runs the next iterations of a loop by itself, while its guards hold."""

import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function


@pytest.fixture(autouse=True)
def as_graphs():
    with npc.config.patch(native_loops=False):
        yield


def whole(x, n):
    for _ in range(n):
        x = x - 0.1 * np.roll(x, 1)
    return x


def exchanged(x, n):
    a, b = x.copy(), x * 0
    for _ in range(n):
        b[1:] = np.roll(a, 1)[1:] * 0.5
        a, b = b, a
    return a, b


def of_another_type(x, n):
    y = (x * 10).astype(int)
    for k in range(n):
        y = np.roll(y, 1) + 1 if k < 20 else np.roll(y, 1) / 2
    return y


def of_another_size(x, n):
    for k in range(n):
        x = np.roll(x, 1)[: x.size - (k > 20)]
    return x


def one_object(x, n):
    a, b = np.roll(x, 1), np.roll(x, 2)
    for k in range(n):
        a = np.roll(a, 1)
        if k == 20:
            b = a
        b[0] += 1
    return a, b


def until_data_says(x, n):
    steps = 0
    while np.abs(x).max() > 1e-3:
        x = np.roll(x, 1) * 0.7
        steps += 1
    return x, steps


def with_errors(x, n):
    y = x
    for k in range(n):
        x = np.roll(x, 1) - 1
        y = 1 / x
    return x, y


def kept_in_a_cell(x, n):
    total = 0

    def add(y):
        nonlocal total
        total = total + y.sum()

    for _ in range(n):
        x = np.roll(x, 1) * 0.9
        add(x)
    return x, total


def in_place(x, n):
    for k in range(n):
        x[x > 0.5] *= 0.9
        x[...] = np.roll(x, k)
    return x


def nested(x, n):
    for i in range(n):
        for _ in range(20):
            x = np.roll(x, i) * 0.99
        x[0] = i
    return x


def listed(x, n):
    seen = []
    for _ in range(n):
        x = np.roll(x, 1) * 0.9
        seen.append(x)
    return seen


def drawn(x, n):
    rng = np.random.default_rng(3)
    for _ in range(n):
        x = np.roll(x, 1) + rng.random(x.shape)
    return x


LOOPS = (whole, exchanged, of_another_type, of_another_size, one_object, until_data_says, with_errors, kept_in_a_cell)
LOOPS += (in_place, nested, listed, drawn)


def outcome(function, n):
    x = np.arange(40.0) / 7
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = function(x, n)
    return [*(result if isinstance(result, (tuple, list)) else [result]), x], [(str(w.message), w.lineno) for w in told]


@pytest.mark.parametrize("n", [0, 1, 17, 30, 150])
@pytest.mark.parametrize("function", LOOPS)
def test_as_numpy_has_it(function, n) -> None:
    n = min(n, 30) if function in (of_another_size, nested) else n
    compiled = npc.compile(function)
    for _ in range(2):
        (expected, warned), (got, told) = outcome(function, n), outcome(compiled, n)
        assert told == warned and len(got) == len(expected)
        for e, g in zip(expected, got):
            assert type(e) is type(g) and np.asarray(e).dtype == np.asarray(g).dtype
            np.testing.assert_allclose(g, e, rtol=1e-13)
        assert [a is b for a in expected for b in expected] == [a is b for a in got for b in got]


def test_one_entry_for_many_iterations() -> None:
    compiled = npc.compile(whole)
    x = np.arange(40.0)
    compiled(x, 100)
    (point,) = [p for p in compiled_function(compiled).points.values() if any(v.graph is not None for v in p.variants)]
    entered, enter = [], point.enter
    point.enter = lambda *state: (entered.append(len(state)), enter(*state))[1]
    np.testing.assert_allclose(compiled(x, 100), whole(x, 100), rtol=1e-13)
    assert len(entered) == 2  # all guards are asked again after 64
