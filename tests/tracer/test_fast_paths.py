"""Calls that are one graph, or one loop, are one native call; all others take the long way, with the same answers."""

import sys
import threading
import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.entering import MOST_TAKEN, is_native


def scaled(x, y, factor):
    return x * factor + y


def smoothed(x, alpha):
    level = 0.0
    for i in range(x.size):
        level = level + alpha * (x[i] - level)
    return level


def found_at(x, value):
    for i in range(x.size):
        if x[i] == value:
            return i


def divided(x, y):
    return x / y


def taken_from(x, k):
    return x[k] + 1


def takes_fast_path(compiled):
    current = compiled.__npcompile__
    return compiled.__code__ is current.fast_stub and current.fast_paths.enter is current.enter


def test_a_graph_and_a_loop_take_it():
    f, g = npc.compile(scaled), npc.compile(smoothed)
    x, y = np.arange(5.0), np.ones(5)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, y, 2.5), scaled(x, y, 2.5))
        assert type(g(x, 0.5)) is type(smoothed(x, 0.5))
        assert g(x, 0.5) == smoothed(x, 0.5)
    assert takes_fast_path(f)
    assert takes_fast_path(g)
    assert f(y=x, factor=2, x=y).tobytes() == scaled(y, x, 2).tobytes()


def test_a_loop_that_returns_none():
    f = npc.compile(found_at)
    for x in (np.arange(5.0), np.array([2.0]), np.arange(0.0)):
        for value in (2.0, 7.0):
            for _ in range(2):
                assert f(x, value) == found_at(x, value)


def test_several_kinds_of_arguments():
    f = npc.compile(scaled)
    for _ in range(3):
        for dtype in ("f8", "f4", "i8", "c16"):
            for shape in ((3,), (2, 3), ()):
                x = np.ones(shape, dtype)
                ours, theirs = f(x, x, 3), scaled(x, x, 3)
                assert type(ours) is type(theirs)
                assert ours.dtype == theirs.dtype
                assert ours.tobytes() == theirs.tobytes()
        assert f([1], [2], 3) == scaled([1], [2], 3)
        with pytest.raises(TypeError):
            f(None, x, 2)


def test_errors_are_numpys_once_and_on_the_users_line():
    f, g = npc.compile(divided), npc.compile(taken_from)
    x, y = np.ones(3), np.ones(3)
    f(x, y)
    g(x, 1)
    assert takes_fast_path(f)
    y[1] = 0
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(f(x, y), [1, np.inf, 1])
    assert [(w.category, str(w.message), w.filename) for w in met] == [
        (RuntimeWarning, "divide by zero encountered in divide", __file__)
    ]
    for _ in range(2):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError) as raised:
            f(x, y)
        assert raised.value.__context__ is None
        assert [frame.name for frame in raised.traceback][1:] == ["divided"]
        with pytest.raises(IndexError) as raised:
            g(x, 7)
        assert raised.value.__context__ is None
        assert [frame.name for frame in raised.traceback][1:] == ["taken_from"]


def test_a_tracer_sees_the_users_lines():
    f = npc.compile(scaled)
    x = np.ones(3)
    f(x, x, 2.0)
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_name == "scaled" and event == "line":
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        f(x, x, 2.0)
    finally:
        sys.settrace(before)
    assert scaled.__code__.co_firstlineno + 1 in lines
    with npc.disabled():
        np.testing.assert_array_equal(f(x, x, 2.0), 3)


def test_reset_and_new_variants_while_others_call():
    f = npc.compile(scaled)
    wrong, done = [], threading.Event()

    def calls():
        x = np.arange(4.0)
        while not done.is_set():
            if f(x, x, 2.0).tobytes() != (x * 3).tobytes():
                wrong.append(1)

    threads = [threading.Thread(target=calls) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for k in range(20):
            f(np.ones((k % 3 + 1,) * (k % 4), "f4"), 1, 2)
            npc.reset()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong


def test_more_parameters_than_it_takes():
    names = [f"a{k}" for k in range(MOST_TAKEN + 1)]
    scope = {}
    exec(f"def total({', '.join(names)}):\n    return {' + '.join(names)}\n", scope)
    f, values = npc.compile(scope["total"]), [np.full(2, float(k)) for k in range(MOST_TAKEN + 1)]
    for _ in range(2):
        np.testing.assert_array_equal(f(*values), scope["total"](*values))
    assert not takes_fast_path(f)


def test_only_functions_that_take_an_array_of_arguments():
    assert not any(is_native(each) for each in (len, np.add, print, lambda: 0, np.dot))
    f = npc.compile(scaled)
    f(np.ones(2), np.ones(2), 2.0)
    assert all(is_native(path.run) for path in f.__npcompile__.fast_paths.paths)


def test_a_loop_of_other_arguments_is_another_program():
    f = npc.compile(smoothed)
    for x in (np.arange(4.0), np.arange(4), np.arange(4, dtype="f4"), np.arange(4.0) + 1j, [1.0, 2.0], np.arange(4.0)):
        for alpha in (0.5, np.float64(0.5), 1):
            if not isinstance(x, list):
                ours, theirs = f(x, alpha), smoothed(x, alpha)
                assert type(ours) is type(theirs)
                assert ours == theirs
