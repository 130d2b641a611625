"""Loops that call functions with star arguments, and with functions, tuples and dicts that are arguments."""

from __future__ import annotations

import copy
import functools
import math
import threading
import traceback
import types
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.loop_ir.aborting import MOST_ABORTS
from tests.loop_ir.agreement import Arguments, same_bits
from tests.loop_ir.programs import numbers

Line = namedtuple("Line", "slope height")


class Spring(NamedTuple):
    stiffness: float
    rest: float = 1.0

    def force(self, x):
        return -self.stiffness * (x - self.rest)


class Doubled(NamedTuple):
    a: float

    def __getitem__(self, k):
        return 2.0 * tuple.__getitem__(self, k)


@pytest.fixture(autouse=True)
def compiled_always() -> Iterator[None]:
    with npc.config.patch(tiers="always"):
        yield


def line(x, a, b):
    return x * a + b


def weighted(x, *, weight=2.0, offset=0.0):
    return x * weight + offset


def forwarded(*args):
    return line(*args)


def forwarded_by_name(*args, **names):
    return line(*args, **names)


def summed(f, x, args):
    s = 0.0
    for k in range(x.size):
        s += f(x[k], *args) * 0.5
    return s


def joined(x, args):
    s = 0.0
    for k in range(x.size):
        s += line(*((x[k],) + args)) * 0.5
    return s


def with_no_names(x, args):
    s = 0.0
    for k in range(x.size):
        s += line(x[k], *args, **{})  # noqa: PIE804
    return s


def through(x, a, b):
    s = 0.0
    for k in range(x.size):
        s += forwarded(x[k], a, b)
    return s


def by_name(x, a, b):
    s = 0.0
    for k in range(x.size):
        s += forwarded_by_name(x[k], b=b, a=a) + forwarded_by_name(x[k], a, **{"b": b})  # noqa: PIE804
    return s


def keywords_alone(x):
    s = 0.0
    for k in range(x.size):
        s += weighted(x[k]) + weighted(x[k], offset=1.0) + weighted(x[k], **{"weight": 0.5, "offset": s})  # noqa: PIE804
    return s


def of_any(x, *args, scale=2.0, **names):
    s = 0.0
    for k in range(x.size):
        s += line(x[k], *args, **names) * scale
    return s, args


def integral(f, a, b, args=(), n=50):
    h = (b - a) / n
    s = 0.0
    for i in range(n):
        s += f(a + i * h, *args)
    return s * h


def root(f, slope, x, args=(), tol=1e-12, most=50):
    if not isinstance(args, tuple):
        args = (args,)
    for i in range(most):
        y = f(x, *args)
        step = y / slope(x, *args)
        x = x - step
        if x != x:
            raise ValueError(f"not a number after {i} steps")
        if abs(step) < tol:
            return x, i
    raise RuntimeError(f"no root after {most} steps, at {x}")


def triple(a, c, x, b=1.0, **names):
    return a * x + b * c - len(names)


def cubic(x, a, b):
    return x * x * x - a * x - b


def slope_of_cubic(x, a, b):
    return 3.0 * x * x - a


def fixed_point(f, x, args=(), n=30):
    before = x
    for _ in range(n):
        before, x = x, f(x, *args)
    return x, before, args


def halved(x, a):
    return 0.5 * (x + a / x)


def handed_on(x, args):
    s = 0.0
    for k in range(x.size):
        s += line(x[k], *args)
    return s, args, args[:], args + (), () + args, args[:1]


def rebound(x, args):
    for k in range(x.size):
        args = (args[0] + x[k], args[1])
    return args


def of_nothing(x, args=()):
    s = 0.0
    for k in range(x.size):
        s += x[k] if args == () else line(x[k], *args)
    if args:
        s += len(args)
    return s, not args, args != ()


def nested(x, args):
    s = 0.0
    for k in range(x.size):
        (a, (b, out)), c = args
        s += x[k] * a + b * c
        out[k] = s
    return s, out


def steps(f, y, h, args):
    for k in range(20):
        k1 = f(h * k, y, *args)
        k2 = f(h * k, y + 0.5 * h * k1, *args)
        y = y + h * k2
    return y


def swings(t, y, stiffness, damping):
    return np.array([y[1], -stiffness * y[0] - damping * y[1]])


def of_names(x, p):
    s = 0.0
    for k in range(x.size):
        s += x[k] * p.slope + p.height + p[0] - p[-1]
    a, b = p
    return s + a + b + line(s, *p), p, p[:]


def of_spring(x, p):
    s = 0.0
    for k in range(x.size):
        s += x[k] * p.stiffness + p.rest
    return s


def of_doubled(x, p):
    s = 0.0
    for k in range(x.size):
        s += x[k] * p[0]
    return s


def of_dict(x, p):
    s = 0.0
    for k in range(x.size):
        s += line(x[k], **p) + p["a"]
    return s


def of_own_dict(x, a):
    p = {"a": a, "b": 1.0}
    s = 0.0
    for k in range(x.size):
        s += line(x[k], **p) + p["b"]
    return s


def of_method(f, x, method):
    s = 0.0
    for k in range(x.size):
        s += f(x[k], s) if method == "sum" else f(s, x[k])
    return s


def counted(f, x, args, n=60):
    calls = 0

    def wrapped(x):
        nonlocal calls
        calls += 1
        return f(x, *args)

    for _ in range(n):
        x = x - 0.01 * wrapped(x)
    return x, calls


@npc.compile
def compiled_line(x, a, b=2.0):
    return x * a + b


def of_compiled(x, a):
    s = 0.0
    for k in range(x.size):
        s += compiled_line(x[k], a) + compiled_line(x[k], a, b=s)
    return s


Found = namedtuple("Found", "x steps text")


def found_root(f, slope, x, args=(), most=50, said=None):
    for i in range(most):
        step = f(x, *args) / slope(x, *args)
        x = x - step
        if abs(step) < 1e-12:
            break
    else:
        raise RuntimeError(f"{x!r} after {most} steps")
    if said is not None:
        said.append(("steps", i))
        x = x * 2.0
    return Found(x, i, f"{x:.3f} of {args}")


def stored_and_found(f, x, out, args):
    last = None
    for k in range(x.size):
        last = out[k] = f(x[k], *args)
    out = [out, args]
    with np.errstate(all="ignore"):
        return list({"all": out, "last": last, "k": k, "f": f(last, *args) if k else f}.values())


def comprehended(f, x, args):
    v = 3.0
    found = [f(v, *args) for v in x]
    return found, v


def of_module(x, args):
    s = 0.0
    for k in range(x.size):
        s += MODULE.line(x[k], *args)
    return s


def one_argument(f, x):
    s = 0.0
    for k in range(x.size):
        s += f(x[k]) + f(x[k], b=s)
    return s


MODULE = types.ModuleType("one of the user's")
MODULE.line = line  # type: ignore[attr-defined]


def of_any_sequence(f, x, args, start=None):
    if not callable(f) or callable(x):
        raise TypeError("f")
    given, args = tuple(args), [*list(args), 1.0]
    s = 0.0 if start is None else start
    for k in range(x.size):
        s += f(x[k], *args[:-1]) - args[-1]
    return s, given


def after_what_has_no_program(f, x, n, args, said):
    said.append("begins")
    rest = n
    for k in range(1, n, 2):
        x = f(x, *args)
        if x > 1e6:
            break
    else:
        rest = 0
    said.append(k)
    y = x
    while abs(y) > 0.1 and rest < 90:
        y = 0.5 * f(y, *args) - y
        rest += 1
    return x, y, rest, args, said


def between_loops(f, x, out, args):
    total, said = 0.0, []
    for i in range(3):
        said.append((i, "text"))
        for k in range(x.size):
            out[k] += f(float(x[k]), *args)
        total += out[0]
    return total, out, said


def divided(x, a, b):
    y = x * a
    return y / b


def stored(f, x, out, args):
    for k in range(x.size):
        out[k] = f(float(x[k]), *args)
    return out


def scaled(a):
    return lambda x, b: x * a + b


def with_default(a):
    return lambda x, b, c=a: x * c + b


X = numbers(40)
Program = tuple[Callable[..., Any], Callable[[], Arguments]]
PROGRAMS: dict[str, Program] = {
    "a function that is an argument": (summed, lambda: (line, X, (2.0, 1.0))),
    "NumPy's numbers": (summed, lambda: (line, X, (np.float64(2.0), np.float32(0.1)))),
    "integers": (summed, lambda: (line, np.arange(40), (2, 3))),
    "a list after the star": (summed, lambda: (line, X, [2.0, 1.0])),
    "a closure": (summed, lambda: (scaled(3.0), X, (1.0,))),
    "a default": (summed, lambda: (with_default(3.0), X, (1.0,))),
    "a function of NumPy's": (summed, lambda: (np.multiply, X, (0.5,))),
    "a function of math's": (summed, lambda: (math.sin, X, ())),
    "joined": (joined, lambda: (X, (2.0, 1.0))),
    "no names": (with_no_names, lambda: (X, (2.0, 1.0))),
    "through a function": (through, lambda: (X, 2.0, 1.0)),
    "by name": (by_name, lambda: (X, 2.0, 1.0)),
    "keywords alone": (keywords_alone, lambda: (X,)),
    "a compiled function": (of_compiled, lambda: (X, 2.0)),
    "a compiled function that is an argument": (summed, lambda: (compiled_line, X, (2.0, 1.0))),
    "an integral": (integral, lambda: (line, 0.0, 1.0, (2.0, 1.0))),
    "an integral of a function made anew": (integral, lambda: (lambda x: x * X[0], 0.0, 1.0)),
    "a root": (root, lambda: (cubic, slope_of_cubic, 2.0, (1.0, 3.0))),
    "a root that is none": (root, lambda: (cubic, slope_of_cubic, 2.0, (1.0, np.nan))),
    "too few steps": (root, lambda: (cubic, slope_of_cubic, 2.0, (1.0, 3.0), 0.0, 4)),
    "division by zero": (root, lambda: (cubic, slope_of_cubic, 0.0, (0.0, 3.0))),
    "one argument that is no tuple": (fixed_point, lambda: (halved, 2.0, (5.0,))),
    "as it was": (handed_on, lambda: (X, (2.0, 1.0))),
    "rebound": (rebound, lambda: (X, (2.0, 1.0))),
    "nothing": (of_nothing, lambda: (X,)),
    "something": (of_nothing, lambda: (X, (2.0, 1.0))),
    "nested": (nested, lambda: (X, ((2.0, (1.0, np.zeros(40))), 3))),
    "an index out of bounds": (nested, lambda: (X, ((2.0, (1.0, np.zeros(20))), 3))),
    "arrays": (steps, lambda: (swings, np.array([1.0, 0.0]), 0.1, (2.0, np.float64(0.1)))),
    "a named tuple": (of_names, lambda: (X, Line(2.0, 1.0))),
    "a typed tuple": (of_spring, lambda: (X, Spring(2.0))),
    "a dict after the star": (of_dict, lambda: (X, {"a": 2.0, "b": np.float64(1.0)})),
    "a dict of its own": (of_own_dict, lambda: (X, 2.0)),
    "a string": (of_method, lambda: (math.atan2, X, "sum")),
    "another string": (of_method, lambda: (math.atan2, X, "other")),
    "calls that are counted": (counted, lambda: (cubic, 2.0, (1.0, 3.0))),
    "an object of a class": (found_root, lambda: (cubic, slope_of_cubic, 2.0, (1.0, 3.0))),
    "an effect": (found_root, lambda: (cubic, slope_of_cubic, 2.0, (1.0, 3.0), 50, [])),
    "an error after the loop": (found_root, lambda: (cubic, slope_of_cubic, 2.0, (1.0, 3.0), 3)),
    "an error after the loop, of a number of NumPy's": (found_root, lambda: (cubic, slope_of_cubic, X[0], (1.0, 3.0), 3)),
    "a dict": (stored_and_found, lambda: (line, X, np.zeros(40), (2.0, 1.0))),
    "a comprehension": (comprehended, lambda: (line, X, (2.0, 1.0))),
    "a function of a module": (of_module, lambda: (X, (2.0, 1.0))),
    "a partial": (one_argument, lambda: (functools.partial(line, a=2.0, b=1.0), X)),
    "a partial of a partial": (one_argument, lambda: (functools.partial(functools.partial(triple, 2.0), 1.0), X)),
    "a tuple of a tuple": (of_any_sequence, lambda: (line, X, (2.0, 1.0))),
    "a tuple of a list": (of_any_sequence, lambda: (line, X, [2.0, 1.0], 1)),
    "a tuple of a named tuple": (of_any_sequence, lambda: (line, X, Line(2.0, 1.0), np.float32(1.5))),
    "an error in the middle": (stored, lambda: (divided, X, np.zeros(40), (2.0, 0.0))),
    "stored": (stored, lambda: (divided, X, np.zeros(40), (2.0, 3.0))),
    "stored into what is read": (stored, lambda: (line, x := X.copy(), x, (2.0, 3.0))),
    "an overflow": (summed, lambda: (line, X * 1e200, (1e200, 1.0))),
}


def outcome(call: Callable[..., Any], given: Arguments, file: str = __file__) -> tuple[Any, ...]:
    """What a call gives, or raises and in which lines of the file; its warnings; which arguments the result is or holds."""
    mine = copy.deepcopy(given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(*mine)
        except Exception as error:
            lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == file]
            result = type(error).__name__, str(error), tuple(lines[file == __file__ :])
    parts = result if isinstance(result, tuple) else (result,)
    same = [(j, k) for j, part in enumerate(parts) for k, x in enumerate(mine) if part is x and type(x) is not float]
    return result, [(str(each.message), each.lineno) for each in caught], same, mine


def agree(compiled: Callable[..., Any], function: Callable[..., Any], given: Arguments, file: str = __file__) -> None:
    ours, theirs = outcome(compiled, given, file), outcome(function, given, file)
    assert same_bits(ours[0], theirs[0]), (ours[0], theirs[0])
    assert ours[1:3] == theirs[1:3]
    for x, y in zip(npc.trees.flatten(ours[3])[0], npc.trees.flatten(theirs[3])[0], strict=True):
        assert callable(x) or same_bits(x, y)


def programs(compiled: Any) -> int:
    """How many of its programs have no graph."""
    start = next(point for point in compiled_function(compiled).points.values() if point.is_start)
    return sum(each.graph is None and each.compiled is not None for each in start.variants)


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_pythons(name: str) -> None:
    function, make = PROGRAMS[name]
    compiled = npc.compile(function)
    for _ in range(3):
        agree(compiled, function, make())
    assert programs(compiled) == 1


FROM_LOOPS: dict[str, Program] = {
    "a range and a while": (after_what_has_no_program, lambda: (line, 1.0, 60, (0.5, 0.25), [])),
    "a break": (after_what_has_no_program, lambda: (line, 1.0, 60, (3.5, 0.25), [])),
    "no iteration": (after_what_has_no_program, lambda: (line, 1.0, 1, (0.5, 0.25), [])),
    "division by zero": (after_what_has_no_program, lambda: (divided, 1.0, 60, (1.5, 0.0), [])),
    "NumPy's numbers": (after_what_has_no_program, lambda: (line, X[0], 60, (0.5, 0.25), [])),
    "integers": (after_what_has_no_program, lambda: (line, 1, 60, (0, 0), [])),
    "an inner loop": (between_loops, lambda: (line, X, np.zeros(40), (0.5, 0.25))),
    "an error in an inner loop": (between_loops, lambda: (divided, X, np.zeros(40), (0.5, 0.0))),
    "an index out of bounds": (between_loops, lambda: (divided, X, np.zeros(30), (0.5, 1.0))),
}


@pytest.mark.parametrize("name", FROM_LOOPS)
def test_programs_that_begin_at_a_loop(name: str) -> None:
    function, make = FROM_LOOPS[name]
    compiled = npc.compile(function)
    for _ in range(4):
        agree(compiled, function, make())
    points = compiled_function(compiled).points.values()
    assert name == "no iteration" or any(v.aborts for p in points if not p.is_start for v in p.variants)


@pytest.mark.parametrize("name", ["a function that is an argument", "rebound", "as it was"])
def test_no_iteration(name: str) -> None:
    function, make = PROGRAMS[name]
    compiled = npc.compile(function)
    for given in (make(), tuple(x[:0] if isinstance(x, np.ndarray) else x for x in make())):
        agree(compiled, function, given)
    assert programs(compiled) == 1


def test_one_program_for_functions_made_anew() -> None:
    compiled = npc.compile(summed)
    for a in range(12):
        agree(compiled, summed, (scaled(a * 0.3), X, (1.0,)))
    for a in range(12):
        agree(compiled, summed, (with_default(a * 0.3), X, (1.0,)))
    assert programs(compiled) == 2
    agree(compiled, summed, (scaled(2), X, (1.0,)))  # holds another type
    assert programs(compiled) == 3


def test_a_program_for_each_function_and_for_tuples_of_each_kind() -> None:
    compiled = npc.compile(summed)
    given = [(line, X, (1.0, 2.0)), (divided, X, (1.0, 2.0)), (line, X, (1.0, 2)), (halved, X, (1.0,)), (line, X, [1.0, 2.0])]
    for _ in range(2):
        for each in given:
            agree(compiled, summed, each)
    assert programs(compiled) == len(given)
    agree(compiled, summed, (line, X, (1.0,)))  # raises
    agree(compiled, summed, (line, X, (1.0, 2.0, 3.0)))
    agree(compiled, summed, (line, X, (1.0, None)))
    agree(compiled, summed, (line, X, 3.0))
    agree(compiled, summed, (3.0, X, (1.0,)))


def test_a_program_for_each_of_several_functions() -> None:
    compiled = npc.compile(summed)
    functions = [line, lambda x, a, b: x - a, lambda x, a, b: x * b, lambda x, a, b: a / (x + b), lambda x, a, b: abs(x - a)]
    for _ in range(2):
        for f in functions:
            agree(compiled, summed, (f, X, (2.0, 1.0)))
    assert programs(compiled) == len(functions)


def test_functions_whose_parts_change() -> None:
    def f(x, a, *, b=1.0):
        return x * a + b

    def total(x, *args):
        s = 0.0
        for k in range(x.size):
            s += f(x[k], *args)
        return s

    compiled = npc.compile(total)
    agree(compiled, total, (X, 2.0))
    f.__kwdefaults__["b"] = 3.0
    agree(compiled, total, (X, 2.0))
    f.__kwdefaults__ = {"b": 4.0}
    agree(compiled, total, (X, 2.0))
    f.__code__ = (lambda x, a, *, b=1.0: x - a * b).__code__
    agree(compiled, total, (X, 2.0))
    f.__defaults__ = (7.0,)
    agree(compiled, total, (X,))
    del f.__kwdefaults__["b"]
    agree(compiled, total, (X, 2.0))  # raises


def test_compiled_functions_whose_parts_change() -> None:
    def made(x, a, b=1.0):
        return x * a + b

    f = npc.compile(made)

    def total(x):
        s = 0.0
        for k in range(x.size):
            s += f(x[k], 0.5)
        return s

    compiled = npc.compile(total)
    changes = (lambda: f(1.0, 2.0), 1), (lambda: setattr(f, "__defaults__", (3.0,)), 2), (npc.reset, 1)
    for change, count in changes:
        change()
        for _ in range(2):
            agree(compiled, total, (X,))
        assert programs(compiled) == count
    f = npc.compile(line)
    agree(compiled, total, (X,))  # raises
    f = npc.disable(made)
    agree(compiled, total, (X,))


@pytest.mark.parametrize("given", [(2.0,), (2.0, 1.0, 0.0), ()])
def test_a_wrong_number_of_arguments(given: Arguments) -> None:
    compiled = npc.compile(summed)
    agree(compiled, summed, (line, X, given))
    agree(compiled, summed, (line, X[:0], given))
    assert outcome(compiled, (line, X, given))[0][0] == "TypeError"


@pytest.mark.parametrize("kind", [Spring, Doubled])
def test_classes_that_do_not_do_what_tuples_do(kind: type) -> None:
    function, p = (of_spring, Spring(2.0)) if kind is Spring else (of_doubled, Doubled(2.0))
    compiled = npc.compile(function)
    for _ in range(3):
        agree(compiled, function, (X, p))


def test_a_function_that_holds_itself() -> None:
    def f(x, a):
        return x if a == 0 else f(x * 0.5, a - 1)

    compiled = npc.compile(summed)
    agree(compiled, summed, (f, X, (3,)))


def test_arguments_that_hold_themselves_or_much() -> None:
    endless: list[Any] = [2.0]
    endless.append(endless)
    for items in (endless, [1.0] * 1000):
        compiled = npc.compile(first_item)
        assert compiled(X, items) == first_item(X, items) and programs(compiled) == 0


def first_item(x, items):
    s = 0.0
    for k in range(x.size):
        s += line(x[k], *items[:1], 1.0)
    return s


def test_floating_point_errors_that_the_caller_ignores() -> None:
    function, make = PROGRAMS["an overflow"]
    compiled = npc.compile(function)
    for state in ({"over": "ignore"}, {"over": "raise"}, {"all": "ignore"}, {}):
        with np.errstate(**state):  # type: ignore[call-overload]
            agree(compiled, function, make())


def handled(x, args):
    k = 0
    try:
        for k in range(x.size):
            x[k] = divided(float(x[k]), *args)
    except ZeroDivisionError:
        x[0] = k
    return k


def test_loops_in_which_exceptions_are_handled_stay() -> None:
    """A signal's handler may raise anywhere, and the `except` sees the variables of the iterations so far."""
    compiled = npc.compile(handled)
    for args in ((2.0, 0.0), (2.0, 1.0)):
        agree(compiled, handled, (X, args))
    assert programs(compiled) == 0


def repeated(f, n, args):
    s = 0.0
    for k in range(n):
        s = f(s, *args) + (k & 1)
    return s


def test_other_threads_run_meanwhile() -> None:
    compiled, steps, is_done = npc.compile(repeated), [0], threading.Event()
    agree(compiled, repeated, (line, 100, (0.5, 1.0)))

    def count() -> None:
        while not is_done.wait(0.001):
            steps.append(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(steps)
    result = compiled(line, 100_000_000, (0.5, 1.0))
    during = len(steps) - before
    is_done.set()
    thread.join()
    assert result == compiled(line, 100, (0.5, 1.0)) and during > 5 and programs(compiled) == 1


def test_a_program_that_is_left_often_is_kept() -> None:
    """Without it Python would run each iteration, and graphs beside it."""
    compiled = npc.compile(summed)
    for _ in range(2 * MOST_ABORTS):
        agree(compiled, summed, (divided, X, (1.0, 0)))
    assert programs(compiled) == 1
    agree(compiled, summed, (divided, X, (1.0, 2)))


def test_explain_names_the_program() -> None:
    found = npc.explain(npc.compile(summed))(line, X, (2.0, 1.0))
    assert found.natives and not found.graphs and not found.breaks
    assert "args: tuple, 2 items" in str(found)


def test_gradients() -> None:
    for function, given, argnum in (
        (summed, (line, X, (2.0, 1.0)), 1),
        (integral, (cubic, 0.0, 1.0, (1.0, 2.0)), 2),
        (integral, (cubic, 0.0, 1.0, (1.0, 2.0)), 3),
        (steps_of_energy, (swings, np.array([1.0, 0.5]), 0.1, (2.0, 0.3)), 1),
        (through, (X, 2.0, 1.0), 1),
    ):
        native, eager = npc.grad(function, argnums=argnum), npc.config.patch(native_loops=False)
        with eager:
            expected = npc.grad(function, argnums=argnum)(*given)
        for _ in range(2):
            found = native(*given)
            for x, y in zip(npc.trees.flatten(found)[0], npc.trees.flatten(expected)[0], strict=True):
                assert type(x) is type(y)
                np.testing.assert_allclose(x, y, rtol=1e-12)
        assert native._made.loops.versions, native._made.loops.reasons


def steps_of_energy(f, y, h, args):
    for k in range(20):
        y = y + h * f(h * k, y, *args)
    return y[0] * y[0] + y[1] * y[1]


def test_gradients_of_functions_made_anew() -> None:
    gradient = npc.grad(lambda f, a, args: integral(f, 0.0, a, args), argnums=1)
    for _ in range(3):
        assert gradient(lambda x, a: x * a, 1.0, (2.0,)) == pytest.approx(1.96)
    assert len(gradient._made.loops.versions) == 1
    assert gradient(lambda x, a: x * x * a, 1.0, (2.0,)) == pytest.approx(1.9404)
    assert len(gradient._made.loops.versions) == 2
    assert gradient(scaled(2.0), 1.0, (0.0,)) == pytest.approx(1.96)  # it holds a number, so there is no program
    assert len(gradient._made.loops.versions) == 2
