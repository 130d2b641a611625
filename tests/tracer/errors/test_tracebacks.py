"""Tracebacks, trace functions, profilers, debuggers and warnings see the user's frames, at the user's lines.

PYTEST_DONT_REWRITE: the programs have `assert` as Python compiles it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import pdb  # noqa: T100
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tensor_core.user_warnings import is_ours
from tests.backends import HOST_BACKENDS

LOGGER = logging.getLogger(__name__)
LOGGER.propagate = False


class Refused(Exception):
    pass


def shapes(x):
    y = np.sin(x)
    return (y * 2 + y @ np.ones(7)).sum()


def index_of_data(x):
    y = x * 2
    k = np.argmax(x) + np.array([1, 9])
    return y[k]


def singular(x):
    y = np.ones((3, 3)) * x[0]
    return np.linalg.inv(y) + 1


def division(x):
    n = len(x.shape)
    return x + (n // (n - 1))


def broken(x):
    y = x + 1
    text = str(y)
    return y * int(text)


def helper(x, n):
    y = x * n
    return np.concatenate([y, y[:, None]])


def in_callee(x):
    y = np.cos(x)
    return helper(y, 2) + helper(y, 3)


def of_callee_of_callee(x):
    return 1 + in_callee(x + 1)


def native_helper(x, n):
    name = f"{x.sum():.3f}"
    if n == 2:
        raise Refused(name, n)
    return x + len(name)


def in_native_callee(x):
    for k in range(4):
        x = native_helper(x, k)
    return x


def recursion(x, n=5):
    if n == 0:
        raise Refused(str(x.shape))
    return recursion(x + 1, n - 1) * 2


def user_raise(x):
    y = x + 1
    if y.ndim == 1:
        raise Refused("here")
    return y


def data_raise(x):
    y = x + 1
    if (y > 0).all():
        raise Refused("here")
    return y


def asserts(x):
    y = x * 2
    assert y.sum() < 0, "positive"
    return y


def in_handler(x):
    try:
        y = x + np.ones(7)
    except ValueError:
        y = x["name"]
    return y


def from_cause(x):
    try:
        y = x + np.ones(7)
    except ValueError as error:
        raise Refused("other") from error
    return y


def raised_again(x):
    try:
        return helper(x, 1)
    except ValueError:
        x = x + 1
        raise
    finally:
        x = x - 1


def group(x):
    errors = []
    for n in (7, 8):
        try:
            x = x + np.ones(n)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("several", errors)


def in_comprehension(x):
    return [x + np.ones(n) for n in (1, 3, 7)]


def in_lambda(x):
    add = lambda n: x + np.ones(n)  # noqa: E731
    return add(3) + add(7)


def in_inner(x):
    def inner(n):
        return x + np.ones(n)

    return inner(3) + inner(7)


def in_generator(x):
    def items():
        yield x
        yield x + np.ones(7)

    return sum(items())


@contextlib.contextmanager
def scope():
    try:
        yield 2
    finally:
        len("closed")


def in_with(x):
    with scope() as n:
        y = x * n
        return y + np.ones(7)


def in_errstate(x):
    with np.errstate(all="ignore"):
        y = np.log(x)
        return y + np.ones(7)


def floating(x):
    with np.errstate(divide="raise"):
        y = x - x
        return np.log(y * 2)


def long_loop(x):
    for k in range(60):
        x = x + 1
        if k == 50:
            x = x + np.ones(7)
    return x


def over_lines(x):
    return np.add(
        x * 2,
        np.multiply(
            x,
            np.ones(7),
        ),
    )


def key_function(x):
    def key(k):
        return x[k] + np.ones(7)

    return sorted([2, 1], key=key)


class Model:
    def __init__(self):
        self.weights = np.ones(7)

    @property
    def doubled(self):
        return self.weights * 2 + np.ones(3)

    def __call__(self, x):
        return x + self.doubled


def in_object(x):
    return Model()(x)


@functools.wraps(helper)
def wrapped(*args):
    return helper(*args)


def in_wrapper(x):
    return wrapped(x * 2, 3)


@npc.compile(backend="eager")
def compiled_helper(x):
    y = np.sin(x)
    return y + np.ones(7)


def in_compiled_callee(x):
    y = x + 1
    return compiled_helper(y) * 2


def through_numpy(x):
    return np.apply_along_axis(lambda row: row + np.ones(7), 0, x)


def missing(x):
    y = x + 1
    return y + absent  # noqa: F821


def unbound(x):
    y = x + 1
    if y.ndim == 2:
        z = 1
    return y + z


def wrong_call(x):
    y = x + 1
    return helper(y)


PROGRAMS = (
    *(shapes, index_of_data, singular, division, broken, in_callee, of_callee_of_callee, in_native_callee, recursion, user_raise),
    *(data_raise, asserts, in_handler, from_cause, raised_again, group, in_comprehension, in_lambda, in_inner, in_generator),
    *(in_with, in_errstate, floating, long_loop, over_lines, key_function, in_object, in_wrapper, in_compiled_callee),
    *(through_numpy, missing, unbound, wrong_call),
)


def report(function: Callable[..., Any], *arguments: Any) -> str:
    """The whole traceback as Python prints it, of a call that raises."""
    try:
        function(*arguments)
    except Exception:
        return traceback.format_exc()
    raise AssertionError("nothing is raised")


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_traceback(function, backend):
    """To the letter, with the marks below the columns."""
    x = np.array([1.5, 2.0, 3.0])
    expected = report(function, x.copy())
    compiled = npc.compile(function, backend=backend)
    for _ in range(3):
        assert report(compiled, x.copy()) == expected


def names(function: Callable[..., Any], *arguments: Any) -> list[set[str]]:
    """The variables of each frame under this one that an exception was raised through, as debuggers show them."""
    try:
        function(*arguments)
    except Exception as error:
        return [set(frame.f_locals) for frame, _ in traceback.walk_tb(error.__traceback__.tb_next)]
    raise AssertionError("nothing is raised")


class Checked:
    def __init__(self, limit):
        self.limit = limit

    def check(self, x):
        if str(x) != "":
            return super().__eq__(self.limit(x.sum()))
        return x

    def checked_later(self, x):
        compute = lambda: self.limit + x  # noqa: E731
        x = x.sum()
        self.kept = str(x)
        return compute() + super().missing


METHODS = (lambda x: Checked(lambda total: x[9]).check(x), lambda x: Checked(2).checked_later(x))


@pytest.mark.parametrize("function", [*PROGRAMS, *METHODS], ids=lambda f: f.__name__)
def test_variables_of_frames(function, monkeypatch):
    for method in (Checked.check, Checked.checked_later):
        monkeypatch.setattr(Checked, method.__name__, method)
    x = np.array([1.5, 2.0, 3.0])
    expected = names(function, x.copy())
    for method in (Checked.check, Checked.checked_later):
        monkeypatch.setattr(Checked, method.__name__, npc.compile(method))
    compiled = npc.compile(function, backend="eager")
    for _ in range(2):
        found = names(compiled, x.copy())  # CPython 3.12 has let go of a comprehension's variable
        assert len(found) == len(expected)
        assert all(name in theirs or name.isidentifier() for ours, theirs in zip(found, expected, strict=True) for name in ours)


def outer(function, x):
    y = function(x)
    return y + 1


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_traceback_through_compiled_callers(function):
    x = np.array([1.5, 2.0, 3.0])
    expected = report(outer, function, x.copy())
    compiled = npc.compile(outer, backend="eager")
    callee = npc.compile(function, backend="eager")
    for _ in range(2):
        assert report(compiled, function, x.copy()) == expected
        assert report(compiled, callee, x.copy()) == expected
        assert report(outer, callee, x.copy()) == expected


def test_wrong_arguments_of_a_compiled_function():
    compiled = npc.compile(helper, backend="eager")
    for arguments in ((), (1, 2, 3)):
        assert report(compiled, *arguments) == report(helper, *arguments)


def test_errors_of_this_package_keep_their_frames_for_those_who_ask():
    compiled = npc.compile(broken, fullgraph=True, backend="eager")
    for setting, has_frames in (("raise", True), ("warn", False)):
        with npc.config.patch(internal_errors=setting), pytest.raises(npc.GraphBreakError) as caught:
            compiled(np.ones(3))
        assert any("point.py" in frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)) == has_frames


# --- what exceptions are linked to


def linked(error: BaseException | None, seen: dict[int, BaseException] | None = None) -> list[BaseException]:
    """The exception, and all that its causes, contexts and groups have."""
    seen = {} if seen is None else seen
    if error is not None and id(error) not in seen:
        seen[id(error)] = error
        for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
            linked(other, seen)
    return [*seen.values()]


def chain_of(function: Callable[..., Any], *arguments: Any) -> list[tuple[type, str, bool]]:
    """What a call raises, and what that is linked to, none of it with frames of ours."""
    try:
        function(*arguments)
    except BaseException as error:
        chain = linked(error)
    else:
        raise AssertionError("nothing is raised")
    for each in chain:
        frames = [frame for frame, _ in traceback.walk_tb(each.__traceback__) if is_ours(frame.f_code)]
        assert not frames, frames
    return [(type(each), str(each), each.__suppress_context__) for each in chain]


def of_sum(program: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(program)
    def summed(x):
        return np.sum(program(x))

    return summed


def other_in_handler(x):
    try:
        return x + np.ones(7)
    except ValueError:
        raise Refused("another")  # noqa: B904


def suppressed(x):
    try:
        return x + np.ones(7)
    except ValueError:
        raise Refused("another") from None


def absent_attribute(x):
    return np.sin(x).missing


def prints_first(x):
    print(end="")
    return shapes(x)


RAISING = (shapes, index_of_data, singular, user_raise, data_raise, from_cause, other_in_handler, suppressed, absent_attribute,
    missing, prints_first, in_errstate, group)  # fmt: skip
WAYS: dict[str, Callable[..., Any]] = {
    "compile": npc.compile,
    "grad": lambda f: npc.grad(of_sum(f)),
    "value_and_grad": lambda f: npc.value_and_grad(of_sum(f)),
    "jacobian": npc.jacobian,
    "compiled grad": lambda f: npc.compile(npc.grad(of_sum(f))),
    "jvp": lambda f: lambda x: npc.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: npc.vjp(f, x),
    "vmap": lambda f: lambda x: npc.vmap(f)(x[None]),
    "checkpoint": npc.checkpoint,
    "wrap_numpy": lambda f: lambda x: npc.wrap_numpy(f)(npc.tensor(x)),
    "explain": npc.explain,
    "called by NumPy": lambda f: lambda x: np.apply_along_axis(npc.compile(f), 0, x),
}


@pytest.mark.parametrize("setting", ["warn", "raise"])
@pytest.mark.parametrize("way", WAYS)
def test_what_exceptions_are_linked_to(way, setting):
    x = np.array([1.5, 2.0, 3.0])
    with npc.config.patch(internal_errors=setting), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for program in RAISING:
            call = WAYS[way](program)
            for _ in range(2):
                assert chain_of(call, x.copy()) == chain_of(program, x.copy()), program
    assert not said, said[0].message


@pytest.mark.parametrize("way", ["compile", "grad", "vmap", "wrap_numpy"])
def test_context_of_the_caller_is_kept(way):
    def within(call):
        def run(x):
            try:
                raise KeyError("outer")
            except KeyError:
                call(x)

        return run

    x = np.array([1.5, 2.0, 3.0])
    for program in RAISING:
        assert chain_of(within(WAYS[way](program)), x) == chain_of(within(program), x), program


def test_what_a_function_sees_of_exceptions_under_way():
    """A function that a transform runs as it is does not run in a handler of ours."""
    seen = []

    class Looks:
        def __str__(self):
            seen.append(sys.exception())
            return ""

    def f(x):
        print(Looks(), end="")
        if (x > 0).all():
            return x.sum()
        raise Refused("negative")

    npc.grad(f)(np.ones(3))
    with pytest.raises(Refused):
        npc.grad(f)(-np.ones(3))
    assert seen
    assert set(seen) == {None}


@pytest.mark.parametrize("program", [shapes, index_of_data, other_in_handler, from_cause], ids=lambda f: f.__name__)
def test_errors_of_tensors_are_linked_to_none_of_ours(program):
    try:
        program(npc.tensor([1.5, 2.0, 3.0], requires_grad=True))
    except Exception as error:
        found = linked(error)
    try:
        program(np.array([1.5, 2.0, 3.0]))
    except Exception as error:
        expected = linked(error)
    assert [*map(repr, found)] == [*map(repr, expected)]


def test_traceback_in_a_handler_of_the_program():
    """What the program itself sees of an exception."""

    def f(x):
        y = np.sin(x)
        try:
            helper(y, 3)
        except ValueError as error:
            text = traceback.format_exc()
            line = error.__traceback__.tb_lineno
        return text, line, sys.exc_info()

    x = np.ones(3)
    assert npc.compile(f, backend="eager")(x) == f(x)


def test_context_of_the_caller():
    """An exception raised while another is handled, by the caller of the compiled function, has that as its context."""

    def call(f):
        try:
            raise KeyError("outer")
        except KeyError:
            f(np.array([1.5, 2.0]))

    assert report(call, npc.compile(shapes, backend="eager")) == report(call, shapes)
    assert report(call, npc.compile(singular, backend="eager")) == report(call, singular)


# --- who looks at frames while the program runs


def old_name(x):
    warnings.warn("old_name is old", DeprecationWarning, stacklevel=2)
    return x + 1


def far_away(x, level):
    y = x + 1
    warnings.warn("far away", UserWarning, stacklevel=level)
    return y * 2


def middle(x, level):
    y = x * 2
    return far_away(y, level) + 1


def warned_where(function, *arguments):
    """The lines that warnings name, and their text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    return str(result), [(str(w.message), w.filename, w.lineno) for w in caught]


def log_line(x):
    y = x + 1
    LOGGER.error("sum %s", y.sum())
    LOGGER.error("caller", stacklevel=2)
    return y


def logged_where(function, x):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    LOGGER.addHandler(handler)
    try:
        function(x)
    finally:
        LOGGER.removeHandler(handler)
    return [(r.getMessage(), r.filename, r.lineno, r.funcName) for r in records]


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_stacklevel(level):
    x = np.ones(3)
    compiled = npc.compile(far_away, backend="eager"), npc.compile(middle, backend="eager")
    for _ in range(3):
        assert warned_where(compiled[0], x, level) == warned_where(far_away, x, level)
        assert warned_where(compiled[1], x, level) == warned_where(middle, x, level)


def calls_old_name(x):
    y = x * 2
    return old_name(y) * 2


def test_deprecated_function():
    x = np.ones(3)
    compiled = npc.compile(old_name, backend="eager"), npc.compile(calls_old_name, backend="eager")
    for _ in range(3):
        assert warned_where(compiled[0], x) == warned_where(old_name, x)
        assert warned_where(compiled[1], x) == warned_where(calls_old_name, x)


def test_lines_of_log_records():
    compiled = npc.compile(log_line, backend="eager")
    for _ in range(2):
        assert logged_where(compiled, np.ones(3)) == logged_where(log_line, np.ones(3))


def printed(x):
    y = x * 2
    for k in range(2):
        print(k, float(y[k]))
    z = y + 1
    return z


def events_of(install, function, x):
    """(event, function, line) of the frames of this file that a trace function or profiler is told of."""
    seen = []

    def note(frame, event, argument):
        if frame.f_code.co_filename == __file__ and event != "return" and not event.startswith("c_"):
            seen.append((event, frame.f_code.co_name, frame.f_lineno))
        return note

    install(note)
    try:
        function(x)
    finally:
        install(None)
    return seen


def test_trace_functions_see_the_lines_of_broken_parts():
    compiled, x = npc.compile(printed, backend="eager"), np.ones(3)
    compiled(x)
    theirs, ours = events_of(sys.settrace, printed, x), events_of(sys.settrace, compiled, x)
    first = printed.__code__.co_firstlineno
    assert ("line", "printed", first + 3) in ours
    assert {e for e in ours if e[0] == "line"} <= set(theirs)


def test_profilers_see_the_function_of_broken_parts():
    compiled, x = npc.compile(in_native_callee, backend="eager"), np.ones(3)
    with contextlib.suppress(Refused):
        compiled(x)
    theirs = events_of(sys.setprofile, lambda x: report(in_native_callee, x), x)
    ours = events_of(sys.setprofile, lambda x: report(compiled, x), x)
    assert {event[:2] for event in ours} == {event[:2] for event in theirs}


def frames_of_the_stack(x):
    y = x + 1
    names = [frame.name for frame in traceback.extract_stack() if frame.filename == __file__]
    return y * len(names)


def test_stack_of_broken_parts():
    compiled = npc.compile(frames_of_the_stack, backend="eager")
    assert compiled(np.ones(3))[0] == frames_of_the_stack(np.ones(3))[0]


def debugged(x):
    y = x * 2
    z = y + 1
    breakpoint()  # noqa: T100
    w = z * 3
    return w


def talk(function, x, commands, monkeypatch, capsys):
    """What pdb says when it is given these commands."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*commands, "continue", ""])))
    monkeypatch.setattr(sys, "breakpointhook", lambda: pdb.Pdb(nosigint=True, readrc=False).set_trace(sys._getframe(1)))
    result = function(x)
    return result, capsys.readouterr().out


def test_debugger(monkeypatch, capsys):
    compiled, x = npc.compile(debugged, backend="eager"), np.arange(3.0)
    commands = ["p x", "p y", "p z", "next", "next", "p w", "list"]
    theirs = talk(debugged, x, commands, monkeypatch, capsys)
    for _ in range(2):
        ours = talk(compiled, x, commands, monkeypatch, capsys)
        assert ours[1] == theirs[1]
        np.testing.assert_array_equal(ours[0], theirs[0])


def too_large(x, n):
    y = x + 1
    z = np.empty((n, 2))
    return y, z


def written_before(x, n):
    x[1:] += 1.0
    return np.ones(n) + x[0]


def written_behind(x, n):
    y = np.cumsum(np.ones(n) * x[0])[::2]
    x += 1.0
    return y


def test_too_little_memory():
    """NumPy's error, on the user's line, with no frames of ours."""
    compiled = npc.compile(too_large)
    for function in (too_large, compiled, compiled):
        with pytest.raises(MemoryError, match="Unable to allocate") as caught:
            function(np.ones(3), 1 << 45)
        frames = traceback.extract_tb(caught.value.__traceback__)[1:]
        assert [(f.name, f.line) for f in frames] == [("too_large", "z = np.empty((n, 2))")]
        assert caught.value.__context__ is None


@pytest.mark.parametrize("program", [written_before, written_behind])
def test_what_is_written_when_memory_is_lacking(program):
    compiled = npc.compile(program)
    compiled(np.arange(3.0), 5)
    found = []
    for function in (program, compiled, compiled):
        x = np.arange(3.0)
        with pytest.raises(MemoryError) as caught:
            function(x, 1 << 45)
        frames = traceback.extract_tb(caught.value.__traceback__)[1:]
        found.append((x.tolist(), str(caught.value), [(f.name, f.line) for f in frames]))
    assert found[0] == found[1] == found[2]
