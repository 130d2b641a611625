"""`npc.reset()` at any time: what runs goes on with the programs that it has, and the next call compiles anew."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.entry import Current
from tests.backends import HOST_BACKENDS

X = np.linspace(0.5, 2.0, 7)


def resets(x, often):
    y = x * 2
    if often:
        npc.reset()
    z = np.sin(y) + x
    print(end="")
    return z - y


def resets_in_loops(x, often):
    total = 0.0
    for k in range(6):
        x = x + np.cos(x) * k
        if often:
            npc.reset()
        for value in x:
            total = total * 0.5 + value
        total += len(str(k))
    return x, total


def resets_in_callee(x, often):
    return resets(x, often) + resets(x + 1, often)


def resets_below(x, often, n=5):
    if n == 0:
        if often:
            npc.reset()
        return x
    y = x * n
    print(end="")
    return resets_below(y + 1, often, n - 1) - x


def names_of_ours(t0, G, drive):
    y = t0 * 2
    if G:
        npc.reset()
    print(end="")
    return np.sin(y) + drive


def with_closure(x, often):
    def inner(k):
        return x * k

    y = inner(2)
    if often:
        npc.reset()
    return y + inner(3)


def in_handler_of_errors(x, often):
    try:
        y = x * 2
        if often:
            npc.reset()
        raise LookupError(y.sum())
    except LookupError as error:
        return error.args[0] + x


PROGRAMS = (resets, resets_in_loops, resets_in_callee, resets_below, with_closure, in_handler_of_errors)


def assert_equal(a, b):
    if isinstance(a, tuple):
        for left, right in zip(a, b, strict=True):
            assert_equal(left, right)
    else:
        np.testing.assert_allclose(a, b, 1e-12)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_reset_by_the_function_itself(function, backend):
    compiled = npc.compile(function, backend=backend)
    for often in (False, True, True, False, True):
        assert_equal(compiled(X, often), function(X, False))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_reset_where_parameters_have_names_of_generated_programs(backend):
    compiled = npc.compile(names_of_ours, backend=backend)
    for k in range(4):
        assert_equal(compiled(X, k % 2, 1.0), names_of_ours(X, 0, 1.0))


def test_the_next_call_compiles_anew():
    compiled = npc.compile(resets, backend="eager")
    compiled(X, False)
    before = compiled_function(compiled)
    assert before.graphs
    npc.reset()
    after = compiled_function(compiled)
    assert after is not before
    assert not after.graphs
    assert_equal(compiled(X, True), resets(X, False))
    assert_equal(compiled(X, False), resets(X, False))
    assert compiled_function(compiled).graphs


def test_nothing_of_what_was_forgotten_stays():
    compiled = npc.compile(resets, backend="eager")

    def used() -> tuple[int, weakref.ref]:
        compiled(X, False)
        compiled(X.astype(np.float32), False)
        seen = weakref.ref(compiled_function(compiled))
        npc.reset()
        gc.collect()
        assert seen() is None
        return len(compiled.__globals__)

    sizes = {used() for _ in range(5)}
    assert len(sizes) == 1


def test_a_running_call_keeps_its_names():
    """The entry's own frame goes on after the reset, and its programs are collected when it ends."""

    def f(x, act):
        y = x * 2
        act()
        z = y + 1
        act()
        return z * y

    old = []

    def act():
        old.append(weakref.ref(compiled_function(compiled)))
        npc.reset()
        gc.collect()
        compiled(X, len)  # with another variant, in the middle
        assert old[0]() is not None

    compiled = npc.compile(f, backend="eager")
    f_of_x = (X * 2 + 1) * (X * 2)
    with pytest.raises(TypeError):
        compiled(X, len)
    compiled = npc.compile(lambda x, act: f(x, act), backend="eager")
    compiled = npc.compile(f, backend="eager")

    def quiet():
        return None

    def acts():
        old.append(weakref.ref(compiled_function(compiled)))
        npc.reset()
        gc.collect()
        np.testing.assert_array_equal(compiled(X, quiet), f_of_x)

    compiled(X, quiet)
    np.testing.assert_array_equal(compiled(X, acts), f_of_x)
    gc.collect()
    assert old[0]() is None


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_reset_by_another_thread(backend):
    functions = [npc.compile(function, backend=backend) for function in PROGRAMS]
    expected = [function(X, False) for function in PROGRAMS]
    stop, errors = threading.Event(), []

    def call(seed: int) -> None:
        chosen = random.Random(seed)
        try:
            while not stop.is_set():
                k = chosen.randrange(len(functions))
                assert_equal(functions[k](X, False), expected[k])
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for k in range(30):
        if stop.wait(0.005):
            break
        npc.reset()
        if k % 8 == 0:
            gc.collect()
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors, errors


def at_each_line(function, code, act):
    """Call `function`; before each line of this code, and when it returns, `act()`."""

    def trace(frame, event, argument):
        if frame.f_code is not code:
            return None
        if event in ("line", "return"):
            act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_calls_in_the_middle_of_a_reset(function, backend):
    """Wherever the thread that resets is stopped, calls of others end with their answer: at once, or when it goes on."""
    compiled = npc.compile(function, backend=backend)
    expected, calls = compiled(X, False), []

    def call():
        calls.append(pool.submit(compiled, X, False))
        wait(calls[-1:], 0.02)

    with ThreadPoolExecutor(32) as pool:
        at_each_line(npc.reset, Current.be.__code__, call)
        assert len(calls) > 5
        for each in calls:
            assert_equal(each.result(), expected)


@pytest.mark.parametrize("act", (npc.reset, lambda: None), ids=("reset", "nothing"))
def test_a_reset_in_the_middle_of_another(act):
    """As a handler of signals may: what is entered and what is asked of it belong together afterwards."""
    compiled = npc.compile(resets, backend="eager")
    expected = compiled(X, False)
    known, done = compiled_function(compiled), []

    def once():
        if len(done) == stop:
            act()
        done.append(None)

    for stop in range(20):
        done.clear()
        at_each_line(npc.reset, Current.be.__code__, once)
        assert compiled_function(compiled) is not known
        known = compiled_function(compiled)
        assert not known.points
        assert_equal(compiled(X, False), expected)
        assert known.graphs
        assert known.current.enter == known.entered


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_reset_by_a_handler_of_signals(backend):
    functions = [npc.compile(function, backend=backend) for function in PROGRAMS]
    expected = [function(X, False) for function in PROGRAMS]
    handled = []

    def handler(number, frame):
        handled.append(number)
        npc.reset()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end or len(handled) < 5:
            for compiled, answer in zip(functions, expected, strict=True):
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-3))
                assert_equal(compiled(X, False), answer)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled


def test_run_only_ends_with_a_reset():
    compiled = npc.run_only(npc.compile(resets, backend="eager"))
    compiled(X, False)
    assert not compiled_function(compiled).graphs
    npc.reset()
    compiled(X, False)
    assert compiled_function(compiled).graphs
