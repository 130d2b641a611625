"""Calls that are one graph, or one loop, are one native call; all others take the long way, with the same answers."""

import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.entering import ENTERING, MOST_PARAMETERS, Step, is_native, native_call
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.entry import Handle, compiled_function, entry_text
from npcompile.tracer.fast_paths import Steps


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


def runs_on_it(compiled, *arguments):
    """Is a call, which is made here, one of a fast path?"""
    handle = next(each for each in compiled.__code__.co_consts if type(each) is Handle)
    return ENTERING.npc_fast_path(handle, *arguments) is not handle


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


def test_results_come_in_the_order_in_which_they_are_returned():
    def several(x):
        return x + 1, x * x, x.sum(), -x

    f, x = npc.compile(several), np.arange(5.0)
    for _ in range(2):
        for ours, theirs in zip(f(x), several(x), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert takes_fast_path(f)
    (path,) = f.__npcompile__.fast_paths.paths
    assert path.words[-2] == Step.GIVE and path.words[-1] == 2, "the tuple that the graph made, after the handle and x"


def test_sizes_that_data_decides():
    def means_of_positive(x):
        return x[x[:, 0] > 0].mean(axis=0), x + 1

    f = npc.compile(means_of_positive)
    with npc.config.patch(native_loops=False):
        f(np.ones((9, 2)))
    for count in (5, 3, 0, 1, 7):
        x = np.where(np.arange(9)[:, None] < count, [2.0, 3.0], -2.0)
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for ours, theirs in zip(f(x), means_of_positive(x), strict=True):
                    np.testing.assert_array_equal(ours, theirs)
    assert takes_fast_path(f)
    assert runs_on_it(f, np.ones((9, 2)))
    assert not runs_on_it(f, np.diag([1.0, 0])), "one row"


@pytest.mark.parametrize("is_inside", [False, True])
def test_python_does_not_warn_of_what_enters(is_inside):
    parameters = Parameters.of(scaled.__code__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, code = entry_text.__wrapped__(parameters, True, True, free=0, is_fast=True, is_inside=is_inside)
    assert {"handle", "fast_path"} <= set(code.co_consts)


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
    names = [f"a{k}" for k in range(MOST_PARAMETERS + 1)]
    scope = {}
    exec(f"def total({', '.join(names)}):\n    return {' + '.join(names)}\n", scope)
    f, values = npc.compile(scope["total"]), [np.full(2, float(k)) for k in range(MOST_PARAMETERS + 1)]
    for _ in range(2):
        np.testing.assert_array_equal(f(*values), scope["total"](*values))
    assert not takes_fast_path(f)


def test_only_functions_that_take_an_array_of_arguments():
    assert not any(is_native(each) for each in (len, np.add, print, lambda: 0, np.dot))
    f = npc.compile(scaled)
    f(np.ones(2), np.ones(2), 2.0)
    (path,), ((_, compiled),) = f.__npcompile__.fast_paths.paths, compiled_function(f).graphs
    address = native_call(compiled.item)[0]  # which is 0 for what Python calls
    assert address and address in path.words


def test_a_loop_of_other_arguments_is_another_program():
    f = npc.compile(smoothed)
    for x in (np.arange(4.0), np.arange(4), np.arange(4, dtype="f4"), np.arange(4.0) + 1j, [1.0, 2.0], np.arange(4.0)):
        for alpha in (0.5, np.float64(0.5), 1):
            if not isinstance(x, list):
                ours, theirs = f(x, alpha), smoothed(x, alpha)
                assert type(ours) is type(theirs)
                assert ours == theirs


FACTOR = 3
TABLE = np.arange(8.0)


def several(x, y):
    return x + y, x.sum(), x - y


def several_otherwise(x, y):
    low, high = x - y, x + y
    return high, [low, high], low


def named(x):
    mean = x.mean()
    return {"mean": mean, "rest": x - mean, "shape": x.shape}


def flipped(x):
    made = x * 2
    return made[::-1].T, made


def of_size(x, n):
    return np.zeros(n) + x[0] / n


def beside_rows(x, y):
    return np.concatenate([x, y]) * x.shape[0]


def of_globals(x):
    return x * FACTOR + TABLE[0]


def moved(x, y, step):
    x += step * y
    y *= 0.9**step


def noted(x, found):
    found.append(x.sum())
    found[0] = x.shape
    return x * 2


def first_of_pairs(x, y):
    total = 0.0
    for a, b in zip(x, y):
        total += a * TABLE[int(b)]
    return total, len(x)


def stepped(u, steps):
    for _ in range(steps):
        u = u.copy()
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def same(a, b):
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray):
        is_view = (a.base is None) == (b.base is None)
        return (
            type(a) is type(b) and (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides) and is_view and same_bits(a, b)
        )
    return type(a) is type(b) and (a == b or a is b)


def same_bits(a, b):
    return a.tobytes() == b.tobytes()


def vectors():
    return [np.arange(n, dtype=float) for n in (4, 4, 5, 6, 7, 2)]


CALLS = {
    several: [lambda x: (x, x + 1)],
    several_otherwise: [lambda x: (x, x + 1)],
    named: [lambda x: (x,)],
    flipped: [lambda x: (x.reshape(-1, 1),)],
    of_size: [lambda x: (x, 3), lambda x: (x, 4), lambda x: (x, 1)],
    beside_rows: [lambda x: (x, x), lambda x: (x, x[1:])],
    of_globals: [lambda x: (x,)],
    moved: [lambda x: (x, x + 1, 2), lambda x: (x, x[::-1], 3)],
    noted: [lambda x: (x, [1])],
    first_of_pairs: [lambda x: (x, x), lambda x: (x[:1], x)],
    stepped: [lambda x: (x, 2), lambda x: (x, 0)],
}


@pytest.mark.parametrize("function", CALLS, ids=lambda f: f.__name__)
def test_what_a_program_does_beside_its_graph_is_on_it(function):
    f = npc.compile(function)
    for _ in range(2):
        for x in vectors():
            for arguments in CALLS[function]:
                ours, theirs = arguments(x.copy()), arguments(x.copy())
                assert same(f(*ours), function(*theirs))
                assert same([*ours], [*theirs])
    for x in vectors():
        assert runs_on_it(f, *CALLS[function][0](x))


def test_globals_that_change_or_are_gone(monkeypatch):
    f, x = npc.compile(of_globals), np.ones(3)
    for factor in (3, 4, 2.5, 3):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(2):
            assert same(f(x), of_globals(x))
        assert runs_on_it(f, x)
    monkeypatch.delitem(globals(), "FACTOR")
    with pytest.raises(NameError) as raised:
        f(x)
    assert raised.value.__context__ is None
    assert [frame.name for frame in raised.traceback][1:] == ["of_globals"]


def test_arguments_that_are_written_are_as_numpy_leaves_them():
    f = npc.compile(moved)
    for step in (1, 2, 3):
        f(np.ones(3), np.ones(3), step)
    assert runs_on_it(f, np.ones(3), np.ones(3), 4)
    for arguments in (
        lambda x: (x, x, 2),
        lambda x: (x[1:], x[:-1], 2),
        lambda x: (x[1:], x[:-1], -400),
        lambda x: (x, x[:2], 2),
    ):
        ours, theirs = (arguments(np.arange(4.0)) for _ in range(2))
        with np.errstate(all="raise"):
            for function, given in ((f, ours), (moved, theirs)):
                try:
                    function(*given)
                except (FloatingPointError, OverflowError, ValueError) as error:
                    assert error.__context__ is None
        assert same([*ours], [*theirs])


def test_an_error_of_what_asks_is_raised_where_a_handler_of_signals_raised_it():
    """Not taken for the answer of a question, after which the call would go on."""

    class Stopped(Exception):
        pass

    def stop(*_):
        signal.signal(signal.SIGINT, lambda *_: None)
        raise Stopped

    class Key(str):
        __slots__ = ()

        def __eq__(self, other):
            signal.raise_signal(signal.SIGINT)
            return str(self) == other

        __hash__ = str.__hash__

    scope = {"np": np, "__name__": __name__}
    exec("def scaled_globally(x):\n    return x * SCALE\n", scope)
    scope[Key("SCALE")] = 2
    f, x = npc.compile(scope["scaled_globally"]), np.ones(2)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        for _ in range(3):
            assert same(f(x), x * 2)
        assert runs_on_it(f, x)
        signal.signal(signal.SIGINT, stop)
        with pytest.raises(Stopped):
            f(x)
    finally:
        signal.signal(signal.SIGINT, before)


def test_references_are_given_back():
    functions = [(several, 1), (named, 1), (of_size, 1), (noted, 1), (of_globals, 1)]
    for function, _ in functions:
        f, x = npc.compile(function), np.arange(1000.0)
        arguments = CALLS[function][0](x)
        for _ in range(4):
            f(*arguments)
        counts = [sys.getrefcount(each) for each in (*arguments, None, FACTOR, "mean", TABLE)]
        for _ in range(100):
            f(*arguments)
        now = [sys.getrefcount(each) for each in (*arguments, None, FACTOR, "mean", TABLE)]
        assert all(abs(a - b) < 50 for a, b in zip(counts, now)), function


def settled(x, steps):
    for _ in range(steps):
        x = np.where(x > 1, x * 0.5, x + 1)
    return x


def test_a_loop_of_statements_about_arrays_asks_nothing_of_python():
    f, x, called = npc.compile(settled), np.arange(5.0), []
    for state in ("ignore", "warn"):
        with np.errstate(divide=state, over=state, invalid=state):
            for _ in range(3):
                np.testing.assert_array_equal(f(x, 40), settled(x, 40))
            sys.setprofile(lambda frame, event, argument: event == "call" and called.append(frame.f_code.co_qualname))
            try:
                f(x, 40)
            finally:
                sys.setprofile(None)
    assert called == [f.__code__.co_qualname] * 2


def test_a_question_about_errors_that_raises():
    """What says whether errors are ignored raises, as where a signal comes meanwhile: no call may go on without an answer."""
    f, x = npc.compile(settled), np.arange(5.0)
    np.testing.assert_array_equal(f(x, 40), settled(x, 40))

    class Interrupt(BaseException):
        pass

    def geterr():
        raise Interrupt

    with np.errstate(all="ignore", under="warn"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "geterr", geterr)
        with pytest.raises(Interrupt):
            f(x, 40)
    np.testing.assert_array_equal(f(x, 40), settled(x, 40))


def test_names_are_looked_up_without_comparing_their_letters():
    steps = Steps(("x",), {"k_dict": {}})
    steps.ask(["k_dict['a_name'] is x.of_that", "'range' not in k_dict"])
    names = [each for each in steps.held if type(each) is str]
    assert len(names) == 3
    assert all(each is sys.intern(each) for each in names)


FIRST_LOOP = """
import numpy as np, npcompile as npc
from npcompile.backends.entering import Step
from tests.tracer.calls.test_fast_paths import smoothed
npc.config.tiers = "always"
f = npc.compile(smoothed)
f(np.arange(500.0), 0.5)
[path] = f.__npcompile__.fast_paths.paths
print(Step(path.words[0]).name)
"""


def test_the_first_loop_of_a_process_asks_its_names_natively():
    """Its program is written before the runtime is loaded."""
    ran = subprocess.run([sys.executable, "-c", FIRST_LOOP], capture_output=True, text=True, check=True)
    assert ran.stdout == "RUN\n"
