"""Functions run compiled where that is quicker than plain Python, and as they are elsewhere. Times are made up here."""

import gc
import inspect
import pickle
import threading
import types
import weakref

import cloudpickle
import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.settings import tiers_in_environment
from npcompile.tracer import profitability
from npcompile.tracer.profitability import COMPILED, FEWEST, FORGOTTEN, MANY, PLAIN
from tests.tracer.calls.made_up_times import CALLS, Clock, is_aside


@pytest.fixture(autouse=True)
def tiers():
    with npc.config.patch(tiers="measured"):
        yield


@pytest.fixture
def plain_is_quick(monkeypatch):
    return Clock(monkeypatch, lambda state, is_plain: 1e-6 if is_plain else 2e-6)


@pytest.fixture
def compiled_is_quick(monkeypatch):
    return Clock(monkeypatch, lambda state, is_plain: 2e-6 if is_plain else 1e-6)


def test_steps_aside_where_plain_python_is_quicker(plain_is_quick):
    @npc.compile
    def scaled(x, by=2.0):
        return x * by + 1

    answers = [scaled(np.arange(3.0)) for _ in range(CALLS)]
    assert is_aside(scaled)
    assert all(np.array_equal(a, [1, 3, 5]) for a in answers)
    assert scaled(np.arange(2), by=3).tolist() == [1, 4]
    assert inspect.signature(scaled) == inspect.signature(compiled_function(scaled).user)
    assert {COMPILED, PLAIN} == set(plain_is_quick.ways)


def test_stays_compiled_where_that_is_quicker(compiled_is_quick):
    @npc.compile
    def root(x):
        return np.sqrt(x) + 1

    for _ in range(CALLS):
        root(np.arange(3.0))
    known = compiled_function(root)
    assert not is_aside(root)
    assert known.current.enter == known.dispatch


def test_each_call_is_run_once(plain_is_quick):
    done = []

    @npc.compile
    def noted(x):
        done.append(float(x[0]))
        return x + 1

    for k in range(CALLS + 3):
        noted(np.full(2, float(k)))
    assert done == [float(k) for k in range(CALLS + 3)]


def test_a_loop_that_python_would_take_long_for_is_not_tried(monkeypatch):
    clock = Clock(monkeypatch, lambda state, is_plain: 0.05)

    class Watch(profitability.Stopwatch):
        def __exit__(self, *error):
            super().__exit__(*error)
            assert self.timed
            self.seconds = 0.05

    monkeypatch.setattr(profitability, "Stopwatch", Watch)

    @npc.compile
    def summed(n):
        total = 0
        for k in range(n):
            total += k
        return total

    for _ in range(CALLS):
        assert summed(100) == 4950
    assert PLAIN not in clock.ways
    assert "loops" in str(compiled_function(summed).trial)


def test_the_time_of_compiled_loops_is_told():
    @npc.compile
    def summed(n):
        total = 0
        for k in range(n):
            total += k * k % 7
        return total

    summed(10)
    summed(11)
    known = compiled_function(summed)
    with profitability.Stopwatch(known) as watch:
        known.dispatch(3_000_000)
        with profitability.Stopwatch(known) as inner:
            known.dispatch(1000)
    assert 0 < inner.seconds < watch.seconds < np.inf
    before = watch.seconds
    known.dispatch(10)
    assert watch.seconds == before


def test_longer_calls_are_measured_anew(monkeypatch):
    clock = Clock(monkeypatch, lambda state, is_plain: 1e-6 * (state[0] if is_plain else 20))

    @npc.compile
    def power(n):
        return 3 * n + 1

    for _ in range(CALLS):
        power(2)
    assert is_aside(power)
    clock.ways.clear()
    for _ in range(2 * FEWEST):
        power(2)
    assert clock.ways == [PLAIN] * len(clock.ways)
    for _ in range(4 * FEWEST + CALLS):
        power(1000)
    assert not is_aside(power)
    assert COMPILED in clock.ways


@pytest.mark.parametrize(
    ("plain", "compiled"),
    (
        (np.arange(5.0), np.arange(5000.0)),
        *((np.arange(5000).astype(dtype), np.arange(5000.0)) for dtype in ("object", "float16", "complex128")),
    ),
    ids=("size", "object", "float16", "complex128"),
)
def test_kinds_of_arguments_have_verdicts_of_their_own(monkeypatch, plain, compiled):
    Clock(monkeypatch, lambda state, is_plain: 1e-6 * (1 if is_plain == (state[0] is plain) else 10))

    @npc.compile
    def doubled(x):
        return x + x

    for _ in range(CALLS):
        doubled(plain)
    for _ in range(FEWEST + CALLS + FORGOTTEN):
        doubled(compiled)
    trial = compiled_function(doubled).trial
    assert {times.verdict for times in trial.kinds.values()} == {COMPILED, PLAIN}
    for x in (plain, compiled):
        assert np.array_equal(doubled(x), x + x)


@pytest.mark.parametrize("lucky", [COMPILED, PLAIN])
def test_one_short_call_among_long_ones_tells_nothing(monkeypatch, lucky):
    """As of a function that calls itself: of calls of one kind a few are much shorter than others."""
    clock = Clock(
        monkeypatch, lambda state, is_plain: 1e-6 if clock.ways.count(clock.ways[-1]) == 4 and clock.ways[-1] is lucky else 1e-4
    )

    @npc.compile
    def again(x):
        return x + 1

    for _ in range(CALLS):
        again(np.arange(3.0))
    (times,) = compiled_function(again).trial.kinds.values()
    assert min(times.compiled) != min(times.plain)
    assert times.verdict is PLAIN


def test_answers_are_of_one_way_once_the_verdict_fell(plain_is_quick):
    @npc.compile
    def total(x):
        return np.exp(np.sin(x)).sum()

    x = np.linspace(0, 9, 1001)
    for _ in range(CALLS):
        total(x)
    later = {float(total(x)) for _ in range(3 * FEWEST)}
    assert later == {float(np.exp(np.sin(x)).sum())}


def test_recursion_and_exceptions_while_it_is_measured(plain_is_quick):
    @npc.compile
    def fib(n):
        if n < 0:
            raise ValueError(f"{n} is negative")
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    for _ in range(CALLS):
        assert fib(9) == 34
        with pytest.raises(ValueError, match="-1 is negative"):
            fib(-1)


def test_cells_defaults_keywords(plain_is_quick):
    def adder(by):
        def inner(x, *rest, scale=2, **named):
            nonlocal by
            by += 1
            return [x * scale + by, rest, named, [k * by for k in range(2)]]

        return inner

    ours, theirs = npc.compile(adder(1)), adder(1)
    for k in range(CALLS):
        assert ours(k, 4, scale=3, a=5) == theirs(k, 4, scale=3, a=5)
    assert is_aside(ours)
    assert ours(1) == theirs(1)


def test_calls_of_another_kind_within_the_calls_of_one_that_has_its_verdict(plain_is_quick):
    """As of a function that calls itself through a library: once with a number, then with arrays."""

    @npc.compile
    def nested(x, again):
        return again(np.full(3, float(x))) if again else x + 1

    def inside(x):
        return nested(x, None)

    for _ in range(CALLS):
        nested(1, None)
    for _ in range(4 * CALLS):
        nested(2, inside)
    trial = compiled_function(nested).trial
    assert all(times.verdict for times in trial.kinds.values())


def test_tracebacks_and_handlers_of_code_that_stepped_aside(plain_is_quick):
    @npc.compile
    def careful(x, n):
        try:
            for k in range(n):
                if k == 3:
                    raise KeyError(k)
            with np.errstate(all="ignore"):
                y = x / 0
        except KeyError as error:
            return str(error)
        finally:
            n += 1
        return float(y[0])

    for _ in range(CALLS):
        careful(np.ones(2), 2)
    assert is_aside(careful)
    assert careful(np.ones(2), 5) == "3"
    assert careful(np.ones(2), 1) == np.inf
    places = []
    for function in (careful, compiled_function(careful).user):
        with pytest.raises(TypeError) as raised:
            function(np.ones(2), "no")
        places.append([(entry.name, entry.lineno) for entry in raised.traceback[1:]])
    assert places[0] == places[1]


def test_the_program_of_a_caller_holds_whatever_its_callee_does(plain_is_quick):
    """The caller's guards ask which function is entered, and not how it runs."""

    @npc.compile
    def inner(x):
        return x + 1

    @npc.compile
    def outer(x):
        return inner(x) * 2

    with npc.config.patch(tiers="always"):
        outer(np.arange(3.0))
    (start,) = compiled_function(outer).points.values()
    for _ in range(CALLS):
        inner(np.arange(3.0))
    assert is_aside(inner)
    assert compiled_function(outer).dispatch(np.arange(3.0)).tolist() == [2, 4, 6]
    assert len(start.variants) == 1


def test_reset_forgets_verdicts(plain_is_quick):
    @npc.compile
    def plus(x):
        return x + 1

    for _ in range(CALLS):
        plus(np.arange(3.0))
    assert is_aside(plus)
    npc.reset()
    assert not compiled_function(plus).trial.kinds
    plain_is_quick.ways.clear()
    assert plus(np.arange(3.0)).tolist() == [1, 2, 3]
    assert plain_is_quick.ways == [COMPILED]


def test_pickled_and_dropped_after_it_stepped_aside(plain_is_quick):
    def make(k):
        @npc.compile
        def plus(x):
            return x + k

        return plus

    plus = make(3)
    for _ in range(CALLS):
        plus(np.arange(3.0))
    assert is_aside(plus)
    again = pickle.loads(cloudpickle.dumps(plus))
    assert again(np.arange(3.0)).tolist() == [3, 4, 5]
    for _ in range(CALLS):
        again(np.arange(3.0))
    assert is_aside(again)
    there = weakref.ref(compiled_function(plus))
    del plus
    gc.collect()
    assert there() is None


def test_many_threads(plain_is_quick):
    @npc.compile
    def mean(x):
        return x.sum() / x.size

    found = []

    def work():
        for k in range(300):
            found.append(float(mean(np.full(4, float(k)))) == k)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1200
    assert all(found)


def test_what_the_user_asks_for_is_compiled(plain_is_quick):
    def plus(x):
        return x + 1

    whole = npc.compile(plus, fullgraph=True)
    eager = npc.compile(plus, backend="eager")
    with npc.config.patch(tiers="always"):
        always = npc.compile(plus)
        always(np.arange(3.0))
    for _ in range(CALLS):
        for each in (whole, eager):
            each(np.arange(3.0))
    assert not any(map(is_aside, (whole, eager, always)))
    assert not plain_is_quick.ways
    with pytest.raises(ValueError, match="unknown tiers 'never': choose one of measured, always"):
        npc.config.tiers = "never"


def test_tensors_stay_compiled(plain_is_quick):
    @npc.compile
    def double(x):
        return x * 2

    for _ in range(CALLS):
        double(npc.tensor([1.0, 2.0]))
    assert not is_aside(double)


def test_explain_tells_the_verdict(plain_is_quick):
    @npc.compile
    def plus(x):
        return x + 1

    assert npc.explain(plus)(np.arange(3.0)).verdicts == "not called"
    for _ in range(CALLS):
        plus(np.arange(3.0))
    told = npc.explain(plus)(np.arange(3.0))
    assert told.verdicts == "as it is (compiled 2.0 us, as it is 1.0 us)"
    assert "verdict: as it is" in str(told)


def test_calls_within_which_others_are_measured_tell_nothing(monkeypatch):
    """The inner function has its verdict first: until then the outer one's times are not those that will be."""
    monkeypatch.setattr(profitability, "overheads", lambda: (0.0, 0.0))

    @npc.compile
    def inner(x):
        return x + 1

    @npc.compile
    def outer(x):
        print(end="")
        return inner(x)

    verdicts = []
    for _ in range(6 * MANY):
        outer(np.arange(3.0))
        trials = [compiled_function(f).trial for f in (inner, outer)]
        verdicts.append(tuple(any(times.verdict for times in t.kinds.values()) for t in trials))
    assert verdicts[-1] == (True, True)
    assert (False, True) not in verdicts


@pytest.mark.parametrize("ask", [
    lambda f: setattr(npc.config, "tiers", "always"),
    lambda f: setattr(npc.config, "fallback_random", False),
    npc.run_only,
], ids=["tiers", "fallback_random", "run_only"])  # fmt: skip
def test_comes_back_when_the_user_asks_for_what_is_compiled(plain_is_quick, ask):
    @npc.compile
    def plus(x):
        return x + 1

    for _ in range(CALLS):
        plus(np.arange(3.0))
    assert is_aside(plus)
    with npc.config.patch(tiers="measured", fallback_random=True):
        ask(plus)
        known = compiled_function(plus)
        assert not is_aside(plus)
        assert known.current.enter == known.dispatch
        assert plus(np.arange(3.0)).tolist() == [1, 2, 3]


def test_the_environment_says_when(monkeypatch):
    for value, expected in (("", "measured"), ("measured", "measured"), ("always", "always")):
        monkeypatch.setenv("NPCOMPILE_TIERS", value)
        assert tiers_in_environment() == expected
    monkeypatch.setenv("NPCOMPILE_TIERS", "yes")
    with pytest.raises(ValueError, match="NPCOMPILE_TIERS is 'yes': set it to one of measured, always"):
        tiers_in_environment()


@pytest.mark.parametrize(("gain", "most"), [(0.9, 3 * MANY), (0.8, MANY), (1.1, MANY)])
def test_a_small_gain_is_asked_for_longer(monkeypatch, gain, most):
    Clock(monkeypatch, lambda state, is_plain: 1e-3 if is_plain else gain * 1e-3)

    @npc.compile
    def scaled(x):
        return x * 2 + 1

    (times,) = [called(scaled, 2 * most + 2)]
    assert times.verdict is (COMPILED if gain < 1 else PLAIN)
    assert max(len(times.compiled), len(times.plain)) in (most, most + 1)


def called(function, count):
    """The times of the only kind of arguments, after some calls."""
    for _ in range(count):
        function(np.ones(3))
    (times,) = compiled_function(function).trial.kinds.values()
    return times


class Load:
    """What the system says of this thread: it has given the processor to others in every call, or in none."""

    def __init__(self, monkeypatch, seconds=1e-4):
        self.is_loaded, self.switches, self.seconds = True, 0, seconds
        monkeypatch.setattr(profitability, "OF_THREAD", 1)
        monkeypatch.setattr(profitability, "getrusage", self.of)

    def of(self, who):
        self.switches += self.is_loaded
        return types.SimpleNamespace(ru_nivcsw=self.switches, ru_utime=self.seconds * self.switches, ru_stime=0.0)


def test_calls_whose_processor_others_got_do_not_count(monkeypatch):
    load = Load(monkeypatch)
    count = profitability.PATIENCE

    @npc.compile
    def scaled(x):
        return x * 2 + 1

    times = called(scaled, count)
    assert not times.compiled
    assert not times.plain
    assert times.verdict is None
    load.is_loaded = False
    times = called(scaled, 8)
    assert times.compiled


def test_where_others_get_the_processor_in_each_call_these_count_at_last(monkeypatch):
    Load(monkeypatch)

    @npc.compile
    def scaled(x):
        return x * 2 + 1

    assert called(scaled, profitability.PATIENCE + 2 * profitability.MOST_CALLS + 4).verdict is not None


def test_long_calls_count_whoever_gets_the_processor_meanwhile(monkeypatch):
    """Else all calls would go the slower way until one is not interrupted, and long ones always are."""
    Load(monkeypatch, seconds=0.02)

    @npc.compile
    def scaled(x):
        return x * 2 + 1

    times = called(scaled, 8)
    assert times.compiled
    assert times.plain


def test_plain_calls_that_do_not_count_alternate_with_compiled_ones(monkeypatch):
    clock = Clock(monkeypatch, lambda state, is_plain: np.inf if is_plain else 1e-3)

    @npc.compile
    def scaled(x):
        return x * 2 + 1

    called(scaled, 12)
    assert PLAIN in clock.ways
    assert all((a, b) != (PLAIN, PLAIN) for a, b in zip(clock.ways, clock.ways[1:]))


def test_a_disturbed_call_is_not_taken_for_a_longer_one(monkeypatch, plain_is_quick):
    @npc.compile
    def scaled(x):
        return x * 2 + 1

    called(scaled, CALLS)
    assert is_aside(scaled)
    plain_is_quick.seconds = lambda state, is_plain: np.inf
    times = called(scaled, 20 * FEWEST)
    assert is_aside(scaled)
    assert times.verdict is PLAIN
