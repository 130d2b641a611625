"""Branches on data an arm of which has effects: the arm that the first call takes is assumed, and the other one is Python's."""

import gc
import itertools
import weakref

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer import assumed_branches
from npcompile.tracer.restarts import MOST_FAILURES
from tests.tracer.harness import run

LOW, HIGH = np.linspace(0.0, 1.0, 6), np.linspace(5.0, 9.0, 6)
GLOBAL: dict[str, int] = {}


class Box:
    def __init__(self):
        self.large, self.total, self.items, self.count = False, 0.0, [], 0

    def note(self, x):
        if x.max() > 2:
            self.large = True
        return x + 1


def sets_an_attribute(box, x):
    if x.max() > 2:
        box.large = True
    box.total = x.sum()
    return x * 2


def sets_another_in_each_arm(box, x):
    if not x.max() > 2:
        box.count += 1
    else:
        box.total += x.sum()
    return x * 2, box.count


def appends_and_returns(box, x):
    if x.max() > 2:
        box.items.append(x * 3)
        return x
    return x * 2


def effects_before_it(box, x):
    box.items.append(1)
    box.total += 1
    x[0] += 0.25
    y = x * 2
    if x.max() > 2:
        box.large = y[1]
    box.items.append(len(box.items))
    return y


def writes_to_the_argument(box, x):
    x *= 2
    if x.max() > 2:
        x[0] = 7
    return x + 1


def sets_a_global(box, x):
    if x.max() > 2:
        GLOBAL["found"] = 1
    return x * 2


def sets_a_cell(box, x):
    y = x

    def g():
        nonlocal y
        y = x * 2

    if x.sum() > 9:
        g()
    return y


def nested(box, x):
    if x.max() > 2:
        if x.max() > 8:
            box.large = True
        y = x * 2
    else:
        y = x * 3
        if x.min() < 0.5:
            box.count += 1
    return y - 1


def in_a_short_loop(box, x):
    for k in range(4):
        if x[k] > 2:
            box.count += 1
        x = x + 0.25
    return x


def in_a_long_loop(box, x):
    for k in range(40):
        if x[k % 6] > 2:
            box.count += 1
        x = x + 0.01
    return x


def goes_on_with_the_next_iteration(box, x):
    for k in range(6):
        if x[k] > 2:
            continue
        box.items.append(k)
    return box.items[:3], x * 2


def in_an_inlined_method(box, x):
    return box.note(x) * box.note(x * 3)


def in_a_handler(box, x):
    try:
        if x.max() > 2:
            box.count += 1
        return x[:3] * box.count
    finally:
        box.large = not box.large


def divides(box, x):
    if x.min() == 0:
        box.large = True
        return x
    return 1 / x


def indexes(box, x):
    if x.max() > 2:
        box.large = True
        return x
    return x[x.astype(int)]


def draws(box, x):
    rng = np.random.default_rng(7)
    y = rng.normal(size=6)
    if x.max() > 2:
        box.large = y[0]
    return y + rng.random()


def prints(box, x):
    y = x + 1
    if y.max() > 2:
        print("large")
    return y * 2


FUNCTIONS = [
    sets_an_attribute, sets_another_in_each_arm, appends_and_returns, effects_before_it, writes_to_the_argument, sets_a_global,
    sets_a_cell, nested, in_a_short_loop, in_a_long_loop, goes_on_with_the_next_iteration, in_an_inlined_method, in_a_handler,
    divides, indexes, draws, prints,
]  # fmt: skip
ORDERS = [(LOW,) * 3 + (HIGH,) * 6 + (LOW,) * 2, (HIGH,) * 3 + (LOW,) * 6 + (HIGH,), (LOW, HIGH) * 5]


def outcome(function, box, x, capsys):
    GLOBAL.clear()
    with np.errstate(all="ignore"):
        result = function(box, x)
    return repr([result, vars(box), GLOBAL, x, capsys.readouterr().out])


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_call_does_what_python_does(function, backend, capsys):
    for order in ORDERS if backend == "eager" else [ORDERS[FUNCTIONS.index(function) % len(ORDERS)]]:
        compiled = npc.compile(function, backend=backend)
        ours, theirs = Box(), Box()
        for x in order:
            assert outcome(compiled, ours, x.copy(), capsys) == outcome(function, theirs, x.copy(), capsys)


ONE_GRAPH = [sets_an_attribute, appends_and_returns, effects_before_it, writes_to_the_argument, nested, in_a_short_loop,
             in_an_inlined_method]  # fmt: skip


@pytest.mark.parametrize("x", [LOW, HIGH], ids=["low", "high"])
@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda f: f.__name__)
def test_one_arm_alone_is_one_graph(function, x):
    if function is in_an_inlined_method:  # which multiplies by 3
        x = x / 3 if x is LOW else x
    compiled = npc.compile(function, backend="eager")
    for _ in range(3):
        compiled(Box(), x.copy())
    known = compiled_function(compiled)
    assert (len(known.graphs), known.breaks) == (1, [])


def test_where_it_often_fails_the_graph_ends_there():
    compiled = npc.compile(sets_an_attribute, backend="eager")
    known = compiled_function(compiled)
    compiled(Box(), LOW)
    for k in range(MOST_FAILURES):
        assert not known.breaks
        compiled(box := Box(), HIGH + k)
        assert box.large and box.total == (HIGH + k).sum()
    for x in itertools.islice(itertools.cycle([LOW, HIGH]), 6):
        compiled(box := Box(), x)
        assert box.large is (x is HIGH)
    assert len(known.breaks) == 1 and "branch on array data" in known.breaks[0].reason


def test_a_branch_that_is_taken_both_ways_in_a_call_is_not_assumed():
    def f(box, x):
        for k in range(6):
            if x[k] > 0.5:
                box.count += 1
        return x * 2

    compiled, box = npc.compile(f, backend="eager"), Box()
    compiled(box, LOW)
    assert box.count == 3 and compiled_function(compiled).breaks


def test_one_graph_that_is_asked_for_assumes_nothing():
    compiled = npc.compile(sets_an_attribute, fullgraph=True)
    with pytest.raises(RuntimeError, match="branch on array data"):
        compiled(Box(), LOW)


def test_gradients_are_left_alone():
    def f(x):
        found = []
        if x.max() > 2:
            found.append(x)
        return (x * x).sum() + len(found)

    gradient = npc.grad(f)
    for x in (LOW, HIGH, LOW):
        assert np.array_equal(gradient(x), 2 * x)
    t = npc.tensor(LOW, requires_grad=True)
    npc.compile(f)(t).backward()
    assert np.array_equal(t.grad.numpy(), 2 * LOW)


def test_nothing_of_large_arrays_is_computed_twice(monkeypatch):
    monkeypatch.setattr(assumed_branches, "MOST_ELEMENTS", 8)
    compiled = npc.compile(sets_an_attribute, backend="eager")
    compiled(box := Box(), np.ones(100))
    assert box.total == 100 and len(compiled_function(compiled).breaks) == 1


def test_a_long_expression_of_numbers_decides():
    def f(box, x, a):
        for _ in range(40):
            a = a * 1.5 - 0.25
        if (x * a).max() > 2:
            box.large = True
        return x * a

    compiled = npc.compile(f, backend="eager")
    for a in (1.0, 2.0, 0.5, 0.25):
        box, other = Box(), Box()
        assert repr((compiled(box, LOW, a), vars(box))) == repr((f(other, LOW, a), vars(other)))


def test_sizes_that_are_symbols_decide():
    def f(box, x):
        if x.sum() > 2 * len(x):
            box.large = True
        return x * len(x)

    compiled = npc.compile(f, backend="eager")
    for n in (3, 5, 6, 9, 12):
        for factor in (1, 3):
            box, other, x = Box(), Box(), np.full(n, factor * 1.0)
            assert repr((compiled(box, x), vars(box))) == repr((f(other, x), vars(other)))


def test_the_arguments_of_a_call_are_not_kept():
    compiled = npc.compile(sets_an_attribute, backend="cpu")
    for k in range(2):
        x = LOW + k
        dead = weakref.ref(x)
        compiled(Box(), x)
        del x
        gc.collect()
        assert dead() is None


def test_errors_of_the_other_arm_are_pythons():
    def f(box, x):
        box.count += 1
        if x.max() > 2:
            box.large = x.nothing
        return x * 2

    compiled, box, other = npc.compile(f, backend="cpu"), Box(), Box()
    for x in (LOW, HIGH, HIGH, LOW):
        ours, theirs = run(compiled, f, [box, x]), run(f, f, [other, x])
        assert (repr(ours.value), repr(ours.error), ours.line) == (repr(theirs.value), repr(theirs.error), theirs.line)
    assert box.count == other.count == 4
