"""Parts of a function that do not pay are left to Python, and others stay compiled. Times are made up here."""

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer import profitability
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.parts import FEW, Stretches
from npcompile.tracer.profitability import COMPILED, MANY, PLAIN, Trial

CALLS = 2 * MANY + 2 * FEW + 4  # after which each kind has its verdict
X = np.linspace(0, 1, 7)


@pytest.fixture(autouse=True)
def tiers():
    with npc.config.patch(tiers="measured"):
        yield


class Times:
    """What calls and stretches from Points take."""

    def whole(self, is_plain):
        return 2.0 if is_plain else 1.0

    def part(self, point, is_plain):
        return 1.0

    def lose(self, *points):
        """These parts are quicker as they are, and others are not."""
        self.part = lambda point, is_plain: 2.0 if is_plain == (point not in points) else 1.0


@pytest.fixture
def times(monkeypatch):
    made = Times()

    def timed(trial, run, state):
        trial.is_running = True
        try:
            return run(*state), made.whole(run is trial.function.plain)
        finally:
            trial.is_running = False

    monkeypatch.setattr(Trial, "timed", timed)
    monkeypatch.setattr(Stretches, "took", lambda self, point, seconds: made.part(point, self.is_plain))
    monkeypatch.setattr(profitability, "overheads", lambda: (0.0, 0.0))
    monkeypatch.setattr(profitability, "PER_NATIVE", 0.0)  # loops are asked about too
    monkeypatch.setattr(profitability, "SURE", 10.0)
    monkeypatch.setattr(profitability, "MOST_TO_ASK", 10.0)
    return made


def parts(function):
    """The Points that run something compiled."""
    return [p for p in compiled_function(function).points.values() if any(v.computes for v in p.variants)]


def computed_at(function, call):
    """The Points whose programs run in a call, in order."""
    found, known = [], compiled_function(function)
    names = {known.objects[id(v.compiled.quickest)].name: p for p in parts(function) for v in p.variants if v.computes}
    before = {name: known.namespace[name] for name in names}

    def noted(name):
        return lambda *args: (found.append(names[name]), before[name](*args))[1]

    known.namespace.update({name: noted(name) for name in names})
    try:
        call()
    finally:
        known.namespace.update(before)
    return found


def three(x, note):
    y = np.sqrt(x) + 1
    print(end="")
    note(y)
    z = np.sqrt(y) * 2
    print(end="")
    note(z)
    return np.sqrt(z) - y


def make():
    """The function compiled, what it may call, and what was told to that."""
    noted = []

    def note(value):
        noted.append(value.sum())

    compiled = npc.compile(three)
    compiled(X, note)
    noted.clear()
    return compiled, note, noted


@pytest.mark.parametrize("loser", [0, 1, 2])
def test_a_part_that_loses_is_left_to_python(times, loser):
    compiled, note, noted = make()
    points = parts(compiled)
    assert len(points) == 3
    times.lose(points[loser])
    expected = three(X, [].append)
    for _ in range(CALLS):
        np.testing.assert_array_equal(compiled(X, note), expected)
    assert len(noted) == 2 * CALLS
    assert [point.left is not None for point in points] == [k == loser for k in range(3)]
    kept = [point for k, point in enumerate(points) if k != loser]
    assert computed_at(compiled, lambda: compiled(X, note)) == kept
    assert {found.verdict for found in compiled_function(compiled).trial.kinds.values()} == {COMPILED}


@pytest.mark.parametrize("wins", [True, False])
def test_parts_that_all_pay_or_all_lose_stay(times, wins):
    compiled, note, _ = make()
    times.lose(*([] if wins else parts(compiled)))
    times.whole = lambda is_plain: 2.0 if is_plain == wins else 1.0
    for _ in range(CALLS):
        compiled(X, note)
    assert all(point.left is None for point in parts(compiled))
    (found,) = compiled_function(compiled).trial.kinds.values()
    assert found.verdict is (COMPILED if wins else PLAIN)


def test_kinds_of_values_have_verdicts_of_their_own(times):
    compiled, note, _ = make()
    points, large = parts(compiled), np.linspace(0, 1, 7000)
    times.lose(points[1])
    for _ in range(CALLS):
        compiled(X, note)
    times.lose()
    for _ in range(CALLS):
        compiled(large, note)
    assert computed_at(compiled, lambda: compiled(X, note)) == [points[0], points[2]]
    assert computed_at(compiled, lambda: compiled(large, note)) == points
    times.lose(*points)
    for _ in range(CALLS):
        compiled(X, note)
    assert computed_at(compiled, lambda: compiled(X, note)) == [points[0], points[2]]
    numbers = X.astype(np.float32)
    np.testing.assert_array_equal(compiled(numbers, note), three(numbers, note))


def test_a_part_in_a_loop(times):
    """Its stretches in all iterations count together."""

    def steps(x, note, n):
        total = np.sqrt(x) * 2
        for k in range(n):
            print(end="")
            note(k)
            total = total + np.sqrt(x) * k
        print(end="")
        note(n)
        return np.sqrt(total) + total

    compiled, noted = npc.compile(steps), []
    compiled(X, noted.append, 4)
    facts, points = compiled_function(compiled).facts, parts(compiled)
    region = frozenset().union(*(loop_region(facts, header) for header in facts.loop_headers))
    inside = [p for p in points if p.layout.index in region]
    assert 0 < len(inside) < len(points)
    times.lose(*inside)
    expected = steps(X, [].append, 4)
    for _ in range(CALLS):
        noted.clear()
        np.testing.assert_array_equal(compiled(X, noted.append, 4), expected)
        assert noted == [0, 1, 2, 3, 4]
    found = computed_at(compiled, lambda: compiled(X, noted.append, 4))
    assert found and not set(map(id, found)) & set(map(id, inside))


def test_variables_of_inner_functions(times):
    """The first part makes the cells that others need, and stays."""

    def cells(x, note):
        y = np.sqrt(x) + 1
        print(end="")
        note(y)
        z = np.sqrt(y) * 2
        print(end="")
        note(z)
        return (lambda: np.sqrt(z) - y)()

    compiled, noted = npc.compile(cells), []
    compiled(X, noted.append)
    times.lose(parts(compiled)[0])
    for _ in range(CALLS):
        np.testing.assert_array_equal(compiled(X, noted.append), cells(X, [].append))
    assert len(noted) == 2 * (CALLS + 1)


def test_exceptions_while_parts_are_compared(times):
    compiled, note, _ = make()
    times.lose(parts(compiled)[1])

    def fails(value):
        raise KeyError(len(value))

    for _ in range(CALLS):
        compiled(X, note)
        with pytest.raises(KeyError, match="7") as raised:
            compiled(X, fails)
        names = [entry.name for entry in raised.traceback if entry.name != "timed"]  # which is of this file
        assert names[1:] == ["three", "fails"]
    assert computed_at(compiled, lambda: compiled(X, note)) == [parts(compiled)[k] for k in (0, 2)]


def test_what_is_found_is_told_and_forgotten(times):
    compiled, note, _ = make()
    point = parts(compiled)[1]
    times.lose(point)
    for _ in range(CALLS):
        compiled(X, note)
    assert f"as it is from {point.location}" in str(compiled_function(compiled).trial)
    with npc.config.patch(tiers="always"):
        assert len(computed_at(compiled, lambda: compiled(X, note))) == 3
    npc.reset()
    assert not parts(compiled)
