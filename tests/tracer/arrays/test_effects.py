"""Objects from outside are changed once, in order, when the graph has run, and under every name that they have."""

import ctypes
import functools
import signal
import types
import weakref

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check


class Box:
    def __init__(self, value=0.0):
        self.value = value
        self.items = []


def boxes(count, same=False):
    return lambda: [Box()] * count if same else [Box() for _ in range(count)]


def one_graph(function, *makers, rounds=3, breaks=0):
    """The results and the arguments of each call are those of the plain function. Returns what was compiled."""
    compiled = npc.compile(function, backend="eager")
    for k in range(rounds):
        x = np.arange(3.0) + k
        ours, theirs = ([make() for make in makers] for _ in range(2))
        assert repr(compiled(*ours, x.copy())) == repr(function(*theirs, x.copy()))
        assert repr([*map(shown, ours)]) == repr([*map(shown, theirs)])
    known = compiled_function(compiled)
    assert len(known.breaks) == breaks, known.breaks
    return known


def shown(value):
    if isinstance(value, Box):
        return {k: shown(v) for k, v in vars(value).items()}
    return [*map(shown, value)] if isinstance(value, list) else value


def test_a_list_under_two_names_is_one():
    def f(a, b, x):
        a.append(x * 2)
        b.append(1)
        return len(a), len(b)

    shared = []
    compiled = npc.compile(f, backend="eager")
    x = np.ones(2)
    for a, b in ((shared, shared), ([], []), (shared, shared), ([1], [1])):
        plain = [[*a], [*b]] if a is not b else [c := [*a], c]
        assert compiled(a, b, x) == f(*plain, x)
        assert repr([a, b]) == repr(plain)


def test_an_object_under_two_names_is_one():
    def f(a, b, x):
        a.value = x * 2
        return b.value, a is b

    compiled = npc.compile(f, backend="eager")
    for same in (True, False, True):
        for _ in range(2):
            ours, theirs = Box(), Box()
            x = np.arange(3.0)
            assert repr(compiled(ours, ours if same else Box(), x)) == repr(f(theirs, theirs if same else Box(), x))


def test_what_was_read_before_keeps_its_value():
    def f(box, x):
        before, items = box.value, box.items
        box.value, box.items = x * 2, [before]
        items.append(3)
        return before, items, box.value, box.items

    one_graph(f, Box)


def test_numbers_counted_up_are_those_of_the_call():
    def f(box, x):
        box.value += 1
        box.twice = box.value * 2
        box.value += box.twice
        return x * box.value

    known = one_graph(f, lambda: Box(2.5))
    assert len(known.graphs) == 1


def test_a_list_grows_without_another_compile():
    def f(items, x):
        items.append(x * 2)

    compiled = npc.compile(f, backend="eager")
    items = []
    for _ in range(20):
        compiled(items, np.ones(2))
    assert len(items) == 20
    assert len(compiled_function(compiled).graphs) == 1


def test_nothing_is_changed_twice_when_the_graph_fails():
    def f(log, x, index):
        log.append("before")
        y = x[index] * 2
        log.append("after")
        return y

    compiled = npc.compile(f, backend="eager")
    for index in (np.array([0, 1]), np.array([0, 9])):
        ours, theirs = [], []
        for function, log in ((compiled, ours), (f, theirs)):
            try:
                function(log, np.arange(3.0), index)
            except IndexError:
                log.append("IndexError")
        assert ours == theirs


def test_a_warning_is_reported_and_nothing_is_done_twice():
    def f(log, x):
        log.append(1)
        return x / 0.0

    compiled = npc.compile(f, backend="eager")
    log = []
    with pytest.warns(RuntimeWarning):
        compiled(log, np.ones(2))
    assert log == [1]


def test_effects_before_a_break_are_done_before_it():
    seen = []

    def f(log, x):
        log.append(1)
        seen.append(len(log))
        npc.graph_break()
        seen.append(len(log))
        log.append(2)
        return x * len(log)

    compiled = npc.compile(f, backend="eager")
    for _ in range(2):
        log = []
        compiled(log, np.ones(2))
        assert log == [1, 2]
    assert seen == [1, 1, 1, 1]


def test_globals_are_set():
    namespace = types.SimpleNamespace()
    source = """
def f(x):
    global COUNT, LAST, GONE
    COUNT += 1
    LAST = x * COUNT
    del GONE
    return LAST + COUNT
"""
    scope = {"COUNT": 0, "GONE": 1}
    exec(source, scope)
    compiled = npc.compile(scope["f"], backend="eager")
    for k in range(1, 4):
        scope["GONE"] = namespace
        result = compiled(np.ones(2))
        assert scope["COUNT"] == k
        assert "GONE" not in scope
        np.testing.assert_array_equal(scope["LAST"], np.full(2, k))
        np.testing.assert_array_equal(result, np.full(2, 2 * k))
    assert not compiled_function(compiled).breaks


@check([1.0], {"a": 1}, {3})
def test_effects_in_a_loop(items, table, members, x):
    for k in range(20):
        items.append(k)
        table["a"] += k
        members.add(4)
        x = x + k
    return x


@check([1.0, 2.0])
def test_effects_in_the_arms_of_a_branch(items, x):
    if x.sum() > 3:
        items.append(x)
    else:
        items.clear()
    return x * 2


@check([3, 1, 2], {"b": 1, "a": 2}, graphs=1, breaks=0)
def test_everything_that_changes_a_container(items, table, x):
    items.sort()
    items.insert(1, 9)
    items.remove(2)
    items.reverse()
    items[0:1] = [7, x]
    items *= 2
    del items[-1], items[:1]
    items.extend(k for k in range(2))
    last = items.pop(), items.pop(0)
    table["c"] = table.pop("b") + 1
    table |= {"d": 4}
    table.update(e=5)
    table.setdefault("f", [])
    gone = table.popitem()
    del table["a"]
    return x * 2, last, gone


def posting(number):
    """An object at whose end the process gets a signal. No code of Python's runs then, so the handler comes later."""
    post = ctypes.PyDLL(None)["raise"]
    post.argtypes = (ctypes.c_int, ctypes.py_object)
    made = Box()
    POSTS[:] = [weakref.ref(made, functools.partial(post, number))]
    return made


POSTS = []
CHANGES = {
    "append": (list, lambda c: c.append(5)),
    "extend": (list, lambda c: c.extend([5, 6])),
    "insert": (list, lambda c: c.insert(-1, 5)),
    "pop": (list, lambda c: c.pop(1)),
    "remove": (list, lambda c: c.remove(2)),
    "reverse": (list, lambda c: c.reverse()),
    "sort": (list, lambda c: c.sort(reverse=True)),
    "list.clear": (list, lambda c: c.clear()),
    "dict.update": (dict.fromkeys, lambda c: c.update({1: 4, 7: 8})),
    "setdefault": (dict.fromkeys, lambda c: c.setdefault(7, 8)),
    "dict.pop": (dict.fromkeys, lambda c: c.pop(2)),
    "popitem": (dict.fromkeys, lambda c: c.popitem()),
    "dict.clear": (dict.fromkeys, lambda c: c.clear()),
    "add": (set, lambda c: c.add(7)),
    "discard": (set, lambda c: c.discard(2)),
    "set.remove": (set, lambda c: c.remove(2)),
    "set.update": (set, lambda c: c.update({7, 8}, {9})),
    "intersection": (set, lambda c: c.intersection_update({1, 2}, {2})),
    "difference": (set, lambda c: c.difference_update({1}, {2})),
    "symmetric difference": (set, lambda c: c.symmetric_difference_update({1, 9})),
    "set.clear": (set, lambda c: c.clear()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_handler_of_a_signal_sees_what_whole_statements_left(name):
    """The signal comes while the effects are done. An attribute that is set twice is set once, to the last value."""
    make, change = CHANGES[name]

    def statements(box, held, c):
        box.value = 1
        yield
        held.pop(0)
        yield
        change(c)
        yield
        box.items = 2
        yield
        box.value = 3
        yield

    def program(x, box, held, c):
        y = x + 1
        box.value = 1
        held.pop(0)
        change(c)
        box.items = 2
        box.value = 3
        return y

    box, held, c = Box(), [4], make([1, 2, 3])
    seen = [repr((shown(box), held, c))] + [repr((shown(box), held, c)) for _ in statements(box, held, c)]
    compiled = npc.compile(program, backend="eager")
    for _ in range(2):
        given = Box(), [4], make([1, 2, 3])
        compiled(np.ones(3), *given)
        assert repr((shown(given[0]), *given[1:])) == seen[-1]
    known = compiled_function(compiled)
    assert len(known.graphs) == 1 and not known.breaks
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        given = Box(), [4], make([1, 2, 3])
        given[1][0] = posting(signal.SIGUSR1)
        with pytest.raises(KeyboardInterrupt):
            compiled(np.ones(3), *given)
            shown(given)  # where a function begins, each Python looks for signals
        assert repr((shown(given[0]), *given[1:])) in seen
    finally:
        signal.signal(signal.SIGUSR1, before)
