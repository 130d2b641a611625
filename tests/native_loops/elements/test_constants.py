"""What native loops ask of None, strings and dicts, and loops over what reversed() gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import outcome, same
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(11)
N = 100
VECTOR = rng.standard_normal(N)
NAME = "sum"
SETTINGS: dict[str, Any] = {"scale": 1.5, "shift": 2, "inner": {"weights": np.arange(5.0)}}


def by_mode(x, mode):
    found = x[0]
    for i in range(1, len(x)):
        if mode == "max":
            if x[i] > found:
                found = x[i]
        elif mode in ("min", "least"):
            if x[i] < found:
                found = x[i]
        elif mode != "none":
            found += x[i]
        elif not mode:
            found = 0.0
    return found, mode


def test_strings_that_are_compared():
    compiled = npc.compile(by_mode)
    for mode in ("max", "min", "least", "sum", "none", "max", "min"):
        ours = compiled(VECTOR, mode)
        assert same(ours, by_mode(VECTOR, mode)) and ours[1] is mode
    assert native_loops(compiled) == 5


@pytest.mark.parametrize("mode", ["", 3, None, np.str_("max"), ["max"], 2.5])
def test_modes_of_other_types(mode):
    agrees(by_mode, VECTOR, mode, loops=0)
    compiled = npc.compile(by_mode)
    compiled(VECTOR, "max")
    assert same(outcome(compiled, by_mode, [VECTOR, mode]), outcome(by_mode, by_mode, [VECTOR, mode]))


def named(x, name):
    total = 0.0
    for i in range(len(x)):
        total = total / 2 + x[i]
    return f"{name}: {total:.3f}"


def test_a_string_that_is_not_compared_may_be_any():
    compiled = npc.compile(named)
    for k in range(12):
        assert compiled(VECTOR, f"{k}") == named(VECTOR, f"{k}")
    assert native_loops(compiled) == 1


def weighted(x, weights=None):
    total, best = 0.0, None
    for i in range(len(x)):
        total = total / 2 + (x[i] if weights is None else x[i] * weights[i])
        if best is None or x[i] > best:
            best = x[i]
    if best is not None:
        total += best
    return total, best


@pytest.mark.parametrize("weights", [(), (None,), (rng.standard_normal(N),)])
def test_none(weights):
    agrees(weighted, VECTOR, *weights)


def with_a_mode(x, mode):
    total = 0.0
    for i in range(len(x)):
        if mode is None:
            total += x[i]
        else:
            total -= x[i]
    return total


@pytest.mark.parametrize("mode", ["max", {"scale": 1.0}])
def test_none_where_a_string_or_a_dict_was(mode):
    compiled = npc.compile(with_a_mode)
    for each in (mode, None, mode, "min", {}, None):
        assert same(compiled(VECTOR, each), with_a_mode(VECTOR, each))


def scaled(x, settings):
    total = 0.0
    for i in range(len(x)):
        total = total / SETTINGS["shift"] + settings["scale"] * x[i] * settings["inner"]["weights"][i % 5]
    return total


def test_dicts():
    compiled = agrees(scaled, VECTOR, SETTINGS)
    known = native_loops(compiled)
    for settings in ({**SETTINGS, "scale": -0.5}, {**SETTINGS, "scale": 7.25, "more": None}):
        assert same(compiled(VECTOR, settings), scaled(VECTOR, settings))
    assert native_loops(compiled) == known


class Loud(dict[str, Any]):
    def __getitem__(self, key):
        return 2 * super().__getitem__(key) if key == "scale" else super().__getitem__(key)


@pytest.mark.parametrize("change", [{"scale": 2}, {"scale": np.float32(3)}, {"inner": None}, {"scale": "text"}, {"scale": None}])
def test_dicts_with_other_items(change):
    compiled = npc.compile(scaled)
    for settings in (SETTINGS, {**SETTINGS, **change}, {"scale": 1.0}, Loud(SETTINGS)):
        ours = outcome(compiled, scaled, [VECTOR, settings])
        theirs = outcome(scaled, scaled, [VECTOR, settings])
        assert same(ours[0], theirs[0])


def chosen(x, settings):
    total = 0.0
    for i in range(len(x)):
        total += x[i] if settings["limit"] is None else 1.0
    return total, settings["name"]


@pytest.mark.parametrize("missing", ["limit", "name"])
def test_an_item_that_is_none_is_not_one_that_is_missing(missing):
    settings = {"limit": None, "name": "sum"}
    compiled = agrees(chosen, VECTOR, settings)
    del settings[missing]
    ours, theirs = (outcome(function, chosen, [VECTOR, settings]) for function in (compiled, chosen))
    assert same(ours[0], theirs[0])


def with_a_global_name(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total, NAME


def test_a_global_that_is_only_handed_on_may_be_gone(monkeypatch):
    compiled = agrees(with_a_global_name, VECTOR)
    monkeypatch.delitem(globals(), "NAME")
    ours, theirs = (outcome(function, with_a_global_name, [VECTOR]) for function in (compiled, with_a_global_name))
    assert same(ours[0], theirs[0])


def updated(x, state):
    for i in range(len(x)):
        state["sum"] = state["sum"] * 0.5 + x[i]
    return state["sum"]


def test_a_dict_that_the_loop_changes():
    agrees(updated, VECTOR, {"sum": 1.0}, loops=0)


def of_three(counts, wanted):
    found = 0
    for i in range(len(counts)):
        if counts[i] in (1, 3, wanted):
            found += 1
        if i not in (2, wanted):
            found += 10
    return found


@pytest.mark.parametrize("wanted", [5, True, np.int32(7), 2.0])
def test_integers_in_a_tuple(wanted):
    agrees(of_three, rng.integers(0, 9, N), wanted, loops=type(wanted) is int)


def ends_early(x, limit):
    k = 0
    while True:
        for i in range(len(x)):
            if x[i] * k > limit:
                break
        else:
            k += 1
            continue
        break
    return k, i


def test_while_true_and_else_of_a_loop():
    agrees(ends_early, np.abs(VECTOR), 60.0)


def backwards(x, a, b, step):
    total, seen = 0.0, 0
    for i in reversed(range(len(x))):
        total = total / 2 + x[i]
    for i in reversed(range(a, b, step)):
        seen = seen * 3 % 1000 + i
    for k, v in enumerate(reversed(x)):
        total += k * v
        x[k] = total
    for i, v in zip(reversed(range(3, 2 * len(x), 2)), reversed(x[::2])):
        total = total / 3 - i * v
    return total, seen, x


@pytest.mark.parametrize("a, b, step", [(0, 90, 1), (0, 91, 4), (91, 2, -3), (5, 5, 2), (3, 80, -1)])
def test_reversed(a, b, step):
    agrees(backwards, VECTOR, a, b, step)


def twice(x):
    again = reversed(range(len(x)))
    total = 0.0
    for i in again:
        total = total / 2 + x[i]
    for i in again:
        total += i
    return total, type(again)


def left_behind(x, seen):
    again = reversed(range(len(x)))
    seen.append(type(again))
    total = 0.0
    for i in again:
        total = total / 2 + x[i]
        if i == 50:
            seen.append(next(again))
    return total


def test_an_iterator_that_is_used_twice():
    agrees(twice, VECTOR, loops=0)
    agrees(lambda x: (seen := [], left_behind(x, seen), seen)[1:], VECTOR, loops=0)


def rows(matrix):
    total = 0.0
    for k, row in enumerate(reversed(matrix)):
        for j in range(len(row)):
            total = total / 2 + k * row[j]
    return total


def test_rows_reversed():
    agrees(rows, rng.standard_normal((20, 20)))
