"""Functions that run compiled for some types of arguments and as they are for others: their own code asks, and nobody sees it."""

import cProfile
import gc
import itertools
import pickle
import sys
import threading
import traceback
import types
import warnings
import weakref

import cloudpickle
import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.entering import ENTERING
from npcompile.compiler import compiled_function
from npcompile.tensor_core.user_warnings import is_ours
from npcompile.tracer.bytecode.aside import Others, taking_an_item
from npcompile.tracer.profitability import FEWEST, FORGOTTEN
from tests.tracer.calls.made_up_times import CALLS, Clock, is_aside

ARRAY = np.arange(5.0)


@pytest.fixture(autouse=True)
def arrays_pay(monkeypatch):
    """Functions of a first array are quicker compiled, others as they are."""
    Clock(monkeypatch, lambda state, is_plain: 1e-6 * (10 if is_plain == (type(state[0]) is np.ndarray) else 1))
    with npc.config.patch(tiers="measured"):
        yield


def settled(function, *calls, **named):
    """The function compiled, after calls with these arguments, of which the last are those of an array."""
    compiled = npc.compile(function)
    for state in calls:
        for _ in range(CALLS):
            compiled(*state, **named)
    for _ in range(FEWEST + CALLS + FORGOTTEN):
        compiled(*calls[-1], **named)
    assert asks_types(compiled)
    return compiled


def asks_types(compiled):
    current = compiled_function(compiled).current
    return is_aside(compiled) and current.aside_for is not None and current.enter == current.compiled.dispatch


def test_types_tell_the_way():
    doubled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    code = doubled.__code__
    assert (doubled(2.5), doubled(ARRAY).tolist()) == (5.0, [0, 2, 4, 6, 8])
    assert doubled.__code__ is code


def test_types_tell_the_way_whatever_parameters_are_called():
    """Of several parameters each is asked; what runs as it is gets keywords as such."""

    def added(type, _, *, counts=0, kinds=None):
        return type + _ + counts

    calls = [(2.5, 1), (2, 1.5), (ARRAY, 1)]
    compiled = settled(added, *calls, counts=3)
    for state in [*calls, (np.float64(2), 1), (True, np.ones(2))]:
        assert np.array_equal(compiled(*state, counts=4), added(*state, counts=4))


def caller():
    """What has called the function that calls this."""
    return sys._getframe(2).f_code


def test_nothing_of_ours_is_between_a_call_and_the_code_that_runs_as_it_is():
    def asking(x, ask):
        return caller() if ask else x + x

    compiled = settled(asking, (2.5, False), (2.5, True), (ARRAY, False))
    here = sys._getframe().f_code
    assert (compiled(2.5, True), asking(2.5, True)) == (here, here)
    assert is_ours(compiled("text", True))


def test_fast_paths_lead_around_what_others_enter():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    (inside,) = [c for c in compiled.__code__.co_consts if isinstance(c, types.FunctionType)]
    assert ENTERING.npc_fast_path in inside.__code__.co_consts
    assert inside(ARRAY).tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("first", "is_counted"), [(2.5, False), ([2.5, 3.5], True)], ids=["no size", "size"])
def test_calls_that_run_as_they_are_are_counted_where_they_may_grow(first, is_counted):
    """New types are met where calls run compiled; other sizes of a type are not."""
    compiled = settled(lambda x: [2 * v for v in x] if isinstance(x, list) else x + x, (first,), (ARRAY,))
    trial = compiled_function(compiled).trial
    before = trial.calls
    for _ in range(3 * FEWEST):
        compiled(first)
    assert (trial.calls > before) is is_counted
    before = trial.calls
    for _ in range(3 * FEWEST):
        compiled(ARRAY)
    assert trial.calls > before
    assert asks_types(compiled)


def test_types_that_come_later_get_their_way_too():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    code = compiled.__code__
    for _ in range(4 * FEWEST + CALLS + FORGOTTEN):
        assert compiled(3) == 6
    for _ in range(FEWEST + FORGOTTEN):
        compiled(ARRAY)
    assert asks_types(compiled)
    assert compiled.__code__ is not code
    assert {*compiled_function(compiled).current.aside_for[0]} == {(float,), (int,)}


def test_what_is_compiled_for_other_values_later_is_entered():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    assert compiled(np.arange(3)).tolist() == [0, 2, 4]
    assert not asks_types(compiled)
    for _ in range(FEWEST + CALLS + FORGOTTEN):
        compiled(np.arange(3))
    assert asks_types(compiled)


def test_code_that_another_thread_has_put_there_is_replaced():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    known = compiled_function(compiled)
    for kinds in (None, ((int,),), ((int,), (float,)), None):
        known.current.step_aside(known, 5, kinds)
        assert is_aside(compiled)
        assert (compiled(2), compiled(2.5), compiled(ARRAY).tolist()) == (4, 5.0, [0, 2, 4, 6, 8])
    known.current.come_back()
    assert not is_aside(compiled)


# --- nobody sees it


def stack():
    """The functions that are running, without those of ours."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        if not is_ours(frame.f_code):
            found.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def telling(x, what):
    y = x * 2
    if what == "stack":
        return stack()
    if what == "warning":
        warnings.warn(f"{y}", UserWarning, stacklevel=2)
    if what == "error":
        raise ValueError(f"{y}")
    return y


def told(function, x):
    """What is seen of the calls."""
    functions = function(x, "stack")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(x, "warning")
    with pytest.raises(ValueError, match=r"\d") as raised:
        function(x, "error")
    lines = [(entry.name, entry.lineno) for entry in traceback.extract_tb(raised.tb)]
    return functions, [(str(w.message), w.filename, w.lineno) for w in caught], str(raised.value), lines


@pytest.mark.parametrize("x", [2.5, ARRAY], ids=["as it is", "compiled"])
def test_frames_warnings_and_tracebacks(x):
    compiled = settled(telling, (2.5, "nothing"), (2.5, "stack"), (ARRAY, "nothing"), (ARRAY, "stack"))
    assert told(compiled, x) == told(telling, x)


def test_profilers_see_the_beginning_and_the_end_of_each_call():
    compiled = settled(telling, (2.5, ""), (ARRAY, ""))
    depths, names = [0], []

    def note(frame, event, argument):
        if event in ("call", "return"):
            depths.append(depths[-1] + (1 if event == "call" else -1))
            if event == "call":
                names.append(frame.f_code.co_name)

    def calls():
        for x in (2.5, ARRAY):
            compiled(x, "")
            try:
                compiled(x, "error")
            except ValueError:
                pass

    sys.setprofile(note)
    try:
        calls()
    finally:
        sys.setprofile(None)
    assert min(depths[1:]) == 0
    assert names.count("telling") >= 4
    profile = cProfile.Profile()
    profile.runcall(calls)
    profile.create_stats()
    counts = {place[2]: stats[0] for place, stats in profile.stats.items()}
    assert counts["calls"] == 1


def test_trace_functions_see_the_lines():
    compiled = settled(telling, (2.5, ""), (ARRAY, ""))

    def lines(function, x):
        seen = []

        def note(frame, event, argument):
            if frame.f_code.co_filename == __file__ and event == "line":
                seen.append(frame.f_lineno)
            return note

        before = sys.gettrace()
        sys.settrace(note)
        try:
            function(x, "")
        finally:
            sys.settrace(before)
        return seen

    for x in (2.5, ARRAY):
        assert lines(compiled, x) == lines(telling, x)


def test_switched_off():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    graphs = len(compiled_function(compiled).graphs)
    with npc.disabled():
        assert compiled(2.5) == 5.0
        assert compiled(np.ones(3, np.float32)).dtype == np.float32
        assert compiled(3) == 6
    assert len(compiled_function(compiled).graphs) == graphs
    assert asks_types(compiled)


def test_reset_and_other_tiers():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    with npc.config.patch(tiers="always"):
        assert not is_aside(compiled)
        assert compiled(2.5) == 5.0
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    npc.reset()
    assert not is_aside(compiled)
    assert compiled(ARRAY).tolist() == [0, 2, 4, 6, 8]


def test_without_the_native_question_each_call_is_looked_up(monkeypatch):
    compiled = npc.compile(lambda x: x + x)
    monkeypatch.setattr(ENTERING, "npc_is_of_kind", None)
    for x in (2.5, ARRAY):
        for _ in range(FEWEST + CALLS + FORGOTTEN):
            assert np.array_equal(compiled(x), x + x)
    known = compiled_function(compiled)
    assert not is_aside(compiled)
    assert known.current.enter is known.trial


# --- it keeps nothing, and goes along


def test_classes_and_functions_are_let_go():
    kind = type("Number", (float,), {})
    kind.own = settled(lambda x: x + x, (kind(2),), (ARRAY,))  # the class leads to the function, whose code asks for the class
    gone = [weakref.ref(each) for each in (kind, kind.own, compiled_function(kind.own))]
    del kind
    gc.collect()
    assert [each() for each in gone] == [None] * 3


def test_pickled():
    def make(k):
        def plus(x, *rest, by=1, **named):
            return x + k * by

        return plus

    plus = settled(make(3), (2.5,), (ARRAY,))
    again = pickle.loads(cloudpickle.dumps(plus))
    assert again(2.5, by=2) == 8.5
    assert again(ARRAY, 1, a=2).tolist() == [3, 4, 5, 6, 7]
    assert asks_types(plus)
    code = types.FunctionType(plus.__code__, plus.__globals__, "other", None, plus.__closure__)
    code.__kwdefaults__ = plus.__kwdefaults__
    assert compiled_function(code) is compiled_function(plus)
    assert (code(2.5), code(ARRAY).tolist()) == (5.5, [3, 4, 5, 6, 7])


def test_many_threads():
    compiled = settled(lambda x: x + x, (2.5,), (ARRAY,))
    failed, values = [], (2.5, ARRAY, 3, np.arange(3), np.float32(2))

    def work(k):
        for n in range(400):
            x = values[(n + k) % len(values)]
            if not np.array_equal(compiled(x), x + x):
                failed.append(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# --- the code alone


def shapes_of_code():
    """Functions that begin in each way that code can."""
    cell = 3

    def nothing():
        pass

    def cells(a):
        b = a + cell

        def inside():
            return a + b

        return inside()

    def handlers(a):
        try:
            return 1 // a
        except ZeroDivisionError:
            return [k for k in range(300) if k % 2][-1]

    def loop(a):
        total = 0
        for k in range(a + 3):
            total += k
        while total > 2:
            total -= 2
        return total

    def parameters(a, /, b, *rest, c=2, **named):
        return a, b, rest, c, named, (lambda: (a, rest, named))()

    def many(*values):
        return [2 * v for v in values]

    def long(a):
        return LONG[a]

    return [
        *((nothing, ()), (cells, (2,)), (handlers, (0,)), (handlers, (2,)), (loop, (4,)), (many, (1, 2))),
        *((parameters, (1, 2)), (parameters, (1, 2, 3)), (long, (3,))),
    ]


LONG = {k: k for k in range(9)}
SHAPES = pytest.mark.parametrize(("function", "arguments"), shapes_of_code(), ids=lambda v: getattr(v, "__name__", None))


@pytest.fixture
def put(request):
    """Gives a function other code for a while, made of its own."""
    before = []

    def put_into(function, *how):
        code = function.__code__
        before.append((function, code))
        function.__code__ = taking_an_item(code, *how)
        lines = [[*dict.fromkeys(line for *_, line in each.co_lines())] for each in (function.__code__, code)]
        assert lines[0] == lines[1]

    yield put_into
    for function, code in before:
        function.__code__ = code


@SHAPES
@pytest.mark.parametrize("items", [5, 1], ids=["endless", "ends"])
def test_code_that_takes_an_item_in_each_call(function, arguments, items, put):
    expected, taken = function(*arguments), iter(range(items))
    put(function, taken, None)
    assert [function(*arguments) for _ in range(4)] == [expected] * 4
    assert next(taken, None) == (4 if items == 5 else None)


@SHAPES
@pytest.mark.parametrize("are_counted_alone", [True, False])
def test_code_that_hands_on_some_calls(function, arguments, are_counted_alone, put):
    expected, taken, given, here = function(*arguments), itertools.count(), [], []

    def is_here(words, *values):
        assert words == b"words"
        return bool(here)

    def enter(*values):
        given.append(values)
        if len(given) > 2:
            raise KeyError(len(given))
        return "entered", [entry for entry in stack() if entry[0] == function.__name__]

    put(function, taken, None, Others(is_here, b"words", enter, are_counted_alone))
    assert [function(*arguments) for _ in range(2)] == [("entered", [])] * 2
    with pytest.raises(KeyError) as raised:
        function(*arguments)
    assert [entry.name for entry in raised.traceback[1:]] == ["enter"]
    here.append(True)
    assert [function(*arguments) for _ in range(4)] == [expected] * 4
    assert next(taken) == (3 if are_counted_alone else 7)
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    assert {len(values) for values in given} == {count}


def test_interrupted_before_it_begins(put):
    def function(x):
        return x

    def interrupts():
        raise KeyboardInterrupt
        yield

    put(function, interrupts(), None)
    with pytest.raises(KeyboardInterrupt) as raised:
        function(1)
    assert [entry.name for entry in raised.traceback[1:]] == ["interrupts"]
    assert function(1) == 1
