"""`with` of every kind of manager: captured where its methods are, and right where not."""

# The shapes are the point: what a linter would write shorter stays.

import contextlib
import io
import threading

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check


class Refused(Exception):
    pass


class Scope:
    """Notes what happens, and swallows exceptions of some types."""

    def __init__(self, log, swallowed=()):
        self.log = log
        self.swallowed = swallowed

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append("exit" if kind is None else ("exit", kind.__name__))
        return kind is not None and issubclass(kind, self.swallowed)

    def scaled(self, x):
        return x * len(self.log)


class Keeping(Scope):
    def __exit__(self, kind, error, trace):
        self.log.append((type(error).__name__, trace is None))
        return True


class Failing(Scope):
    def __exit__(self, kind, error, trace):
        raise Refused("on the way out")


@contextlib.contextmanager
def doubled(x):
    yield x * 2


@contextlib.contextmanager
def guarded(log):
    log.append("begin")
    try:
        yield len(log)
    except Refused:
        log.append("refused")
    finally:
        log.append("end")


def refuse(x):
    if x.ndim == 2:
        raise Refused("a matrix")
    return x


@npc.disable
def breaks():
    pass


OUTSIDE = Scope([])
LOCK = threading.Lock()


@check([], graphs=1, breaks=0)
def test_manager_of_the_user(log, x):
    with Scope(log):
        y = np.sin(x)
        log.append("body")
    return y + 1


@check([], graphs=1, breaks=0)
def test_manager_is_used(log, x):
    with Scope(log) as scope:
        y = scope.scaled(x) + 1
    return scope.scaled(y)


@check([], graphs=1, breaks=0)
def test_nested_managers(log, x):
    with Scope(log) as outer, Scope([]) as inner, np.errstate(all="ignore"):
        y = np.log(x - 1) + len(inner.log)
        with Scope(log):
            y = outer.scaled(y)
    return y


@check([], graphs=1, breaks=0)
def test_swallowed(log, x):
    with Scope(log, Refused):
        x = x + 1
        refuse(x)
        x = x * 100
    return x


@check([], graphs=1, breaks=0)
def test_raised_through_a_manager(log, x):
    try:
        with Scope(log, ValueError):
            x = x + 1
            refuse(x)
    except Refused:
        log.append("caught")
    return x * 2


@check([])
def test_raised_out_of_the_function(log, x):
    with Scope(log, ValueError):
        x += 1
        refuse(x)
    return x * 2


@check([])
def test_exit_looks_at_the_exception(log, x):
    with Keeping(log):
        refuse(x)
    return x * 2


@check([], graphs=1, breaks=0)
def test_exit_raises(log, x):
    try:
        with Failing(log):
            y = x * 3
    except Refused:
        return y + 1


@check([], graphs=1, breaks=0)
def test_return_out_of_it(log, x):
    for k in range(3):
        with Scope(log):
            x = x + 1
            if k == 1:
                return x


@check([], graphs=1, breaks=0)
def test_continue_and_break(log, x):
    for k in range(5):
        with Scope(log):
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
    return x


@check([])
def test_break_in_the_body(log, x):
    with Scope(log) as scope:
        y = np.sin(x)
        text = str(y.shape[0] + float(y[0, 0]))
        y = y + len(text)
    return scope.scaled(y)


@check(graphs=3)
def test_captured_before_and_behind_a_break_in_the_body(x):
    with np.errstate(all="ignore"):
        y = np.log(x - 1)
        breaks()
        y = np.log(y)
    return y * 2


@check(graphs=2)
def test_captured_behind_a_break_in_a_try_block(x):
    try:
        y = np.sin(x)
        breaks()
        y = y * 2 + 1
    except ValueError:
        y = x
    finally:
        x = x + 1
    return y + x


@check(graphs=1)
def test_rounds_of_a_long_loop_under_errstate(x):
    with np.errstate(all="ignore"):
        for k in range(40):
            x = np.sqrt(np.rot90(x, 2)) - k  # no native loop has rot90
    return x


@check(graphs=1)
def test_rounds_of_a_long_loop_in_a_try_block(x):
    try:
        for k in range(40):
            x = np.sqrt(np.abs(np.rot90(x, 2))) - k
    except ValueError:
        x = x * 0
    return x


@check([])
def test_exception_in_a_late_round(log, x):
    try:
        with Scope(log), np.errstate(invalid="raise"):
            for k in range(40):
                x = x - 0.1
                log.append(k)
                x = np.sqrt(x)
    except FloatingPointError:
        log.append("caught")
    finally:
        log.append("finally")
    return x


@check([])
def test_data_decides_in_the_body(log, x):
    with Scope(log):
        y = np.sin(x)
        if y.sum() > 0:
            log.append("positive")
            y = y * 2
    return y


@check([])
def test_numpy_raises_in_the_body(log, x):
    with Scope(log, ValueError):
        y = x * 2
        log.append("before")
        y = y + np.ones(7)
        log.append("after")
    return x + 1


@check([])
def test_numpy_raises_for_data_in_the_body(log, x):
    with Scope(log, IndexError):
        y = x * 2
        log.append("before")
        y = y[np.argmax(x) * 0 + np.array([1, 9])]
        log.append("after")
    return x + 1


@check([])
def test_long_loop_in_the_body(log, x):
    with Scope(log):
        for k in range(40):
            x = x * 0.5 + k
            log.append(k)
    return x


@check()
def test_manager_from_outside(x):
    before = len(OUTSIDE.log)
    with OUTSIDE:
        y = x + 1
    return y, len(OUTSIDE.log) - before


@check(graphs=1, breaks=0)
def test_generator_as_manager(x):
    with doubled(x) as y:
        z = y + 1
    return z * 2


@check([])
def test_generator_with_blocks_as_manager(log, x):
    with guarded(log) as n:
        x = x * n
    return x


@check([])
def test_generator_with_blocks_swallows(log, x):
    with guarded(log) as n:
        x = x * n
        refuse(x)
        x = x * 100
    return x


@check([])
def test_generator_with_blocks_and_numpy_raises(log, x):
    with guarded(log) as n:
        x = x * n
        log.append(x + np.ones(7))
    return x


@check()
def test_generator_without_blocks_and_an_exception(x):
    with doubled(x) as y:
        refuse(y)
    return y


@check(graphs=1, breaks=0)
def test_suppress(x):
    y = x
    with contextlib.suppress(Refused, KeyError):
        y = y + 1
        refuse(y)
        y = y * 100
    return y * 2


@check(graphs=1, breaks=0)
def test_suppress_nothing(x):
    with contextlib.suppress(Refused):
        y = np.sin(x)
    return y


@check()
def test_suppress_what_numpy_raises(x):
    with contextlib.suppress(ValueError):
        x = x + 1
        x = x + np.ones(7)
    return x * 2


@check(None, graphs=1, breaks=0)
def test_nullcontext(manager, x):
    with manager or contextlib.nullcontext(3) as n:
        y = x * n
    return y


@check([])
def test_exit_stack(log, x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Scope(log))
        stack.callback(log.append, "callback")
        stack.push(Scope(log, Refused))
        y = x * 2
        refuse(y)
    return y


@check([])
def test_closing_and_redirect(log, x):
    with contextlib.closing(io.StringIO()) as file, contextlib.redirect_stdout(file):
        y = x + 1
        print(y.shape)
        log.append(file.getvalue())
    return y


@check()
def test_lock(x):
    with LOCK:
        y = np.sin(x)
    return y, LOCK.locked()


@check()
def test_manager_without_methods(x):
    y = x + 1
    with x:
        return y


@check([])
def test_decorated_by_a_manager(log, x):
    @guarded(log)
    def inner(y):
        return y * 2

    return inner(x)


def test_methods_of_the_class_are_guarded():
    log = []

    def f(x):
        with Scope(log):
            y = x + 1
        return y

    compiled = npc.compile(f, backend="eager")
    compiled(np.ones(2))
    compiled(np.ones(2))
    assert log == ["enter", "exit"] * 2
    original = Scope.__exit__
    Scope.__exit__ = lambda self, *arguments: log.append("other")
    try:
        compiled(np.ones(2))
    finally:
        Scope.__exit__ = original
    assert log[-2:] == ["enter", "other"]
    assert len(compiled_function(compiled).points) == 1


def interrupted(log, x, rounds):
    try:
        log.append("try")
        with Scope(log):
            breaks()
            y = np.sin(x) + 1
            log.append(y)
            breaks()
            for _ in range(rounds):
                y = np.cos(y)
    except KeyboardInterrupt:
        log.append("interrupted")
        raise
    finally:
        log.append("finally")
    return y


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_what_interrupts_captured_parts_comes_to_the_handlers(kind, monkeypatch):
    """The exception is raised in the code that goes from Point to Point, as that of a signal may be, at each of them in turn."""
    x = np.ones(3)
    compiled = npc.compile(interrupted, backend="eager")
    for _ in range(2):
        compiled([], x, 20)
    raised = []
    for point in list(compiled_function(compiled).points.values()):
        enter = point.enter

        def interrupt(*state, enter=enter, point=point):
            point.enter = enter
            raised.append(point)
            raise kind

        if point.is_start:
            continue
        point.enter, count, log = interrupt, len(raised), []
        with contextlib.suppress(kind):
            compiled(log, x, 20)
        point.enter = enter
        names = [entry for entry in log if not isinstance(entry, np.ndarray)]
        if len(raised) == count:  # control did not come to this Point
            assert names == ["try", "enter", "exit", "finally"]
        elif point.is_protected:
            noted = ["interrupted"] * (kind is KeyboardInterrupt)
            assert [n for n in names if isinstance(n, str)][-len(noted) - 1 :] == [*noted, "finally"]
            assert names.count("finally") == 1
            assert names.count("enter") == sum(n == "exit" or n == ("exit", kind.__name__) for n in names)
    assert sum(point.is_protected for point in raised) >= 3
