"""Generators, coroutines and functions that look at frames run as they are; the plain functions that they call are compiled."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import all_compiled

SCALE = 3.0


def step(x):
    return np.sin(x) * SCALE + 1


def total(x, *, by=2):
    return (x * by).sum()


def refuse(x):
    y = x + 1
    return y + np.ones(7)


def steps(x, n):
    for _ in range(n):
        x = step(x)
        yield x


def with_send(x):
    received = []
    try:
        while True:
            received.append((yield step(x)))
            x = x + 1
    except ValueError as error:
        yield str(error), total(x)
    finally:
        received.append("closed")
    return received


def delegates(x):
    first = yield from with_send(x)
    yield first, total(x, by=3)


def expression(x):  # captured up to the generator expression, which then runs as it is
    return list(step(x) + k for k in range(3) if locals() is not None)  # noqa: C400


async def coroutine(x):
    y = step(x)
    await asyncio.sleep(0)
    return total(y)


async def asynchronous_generator(x):
    for k in range(3):
        await asyncio.sleep(0)
        yield step(x) * k


async def gathers(x):
    items = [y async for y in asynchronous_generator(x)]
    async with asyncio.Lock():
        return await asyncio.gather(coroutine(x), coroutine(items[1])), len(items)


def names_of_locals(x):
    y = step(x)
    z = y * 2
    return sorted(locals()), total(y)


def variables(x):
    y = step(x)  # noqa: F841
    return sorted(vars()), dir(), eval("total(y) + x.sum()")


def executes(x):
    scope = {"y": step(x)}
    exec("z = y * 2", {}, scope)
    return scope["z"]


def own_frame(x):
    y = step(x)
    frame = inspect.currentframe()
    return frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals), total(y), sys._getframe(0) is frame


def caller_sees(x):
    hidden = step(x)  # noqa: F841
    return look_up("hidden") + look_up("x"), sys._getframe().f_lineno


def look_up(name):
    return sys._getframe(1).f_locals[name]


class Base:
    def shift(self, x):
        return step(x) + 1


class Derived(Base):
    def shift(self, x):
        return super().shift(x) * total(x)


def closes_over(x):
    inner_scale = 2

    def generate():
        nonlocal inner_scale
        inner_scale += 1
        yield step(x) * inner_scale

    return [*generate(), *generate()], inner_scale, locals().keys()


def run(function: Any, *arguments: Any) -> Any:
    """What a call gives, to the end: the items of a generator, the result of a coroutine."""
    made = function(*arguments)
    if inspect.iscoroutine(made):
        return asyncio.run(made)
    if inspect.isasyncgen(made):
        return asyncio.run(collect(made))
    return list(made) if inspect.isgenerator(made) else made


async def collect(items):
    return [item async for item in items]


X = np.array([0.5, 1.5, 2.5])
PROGRAMS = {
    steps: (X, 3),
    expression: (X,),
    coroutine: (X,),
    asynchronous_generator: (X,),
    gathers: (X,),
    names_of_locals: (X,),
    variables: (X,),
    executes: (X,),
    own_frame: (X,),
    caller_sees: (X,),
    closes_over: (X,),
    Derived.shift: (Derived(), X),
}


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__qualname__)
def test_same_as_without(function):
    compiled = npc.compile(function, backend="eager")
    for test in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.signature):
        assert test(compiled) == test(function)
    for _ in range(2):
        assert repr(run(compiled, *PROGRAMS[function])) == repr(run(function, *PROGRAMS[function]))


@pytest.mark.parametrize("function", [f for f in PROGRAMS if f is not expression], ids=lambda f: f.__qualname__)
def test_their_callees_are_compiled(function):
    compiled = npc.compile(function, backend="eager")
    run(compiled, *PROGRAMS[function])
    assert sum(len(made.graphs) for made in all_compiled() if made.user in (step, total, Derived.shift, Base.shift)) >= 1
    npc.reset()


def test_a_callee_is_compiled_once():
    compiled = npc.compile(steps, backend="eager")
    before = {id(made) for made in all_compiled()}
    for _ in range(3):
        list(compiled(X, 4))
    (made,) = [made for made in all_compiled() if made.user is step and id(made) not in before]
    assert [len(point.variants) for point in made.points.values()] == [1]


def conversation(function):
    """All that a generator says, and how it ends."""
    said = []
    items = function(X)
    for ask in (lambda: next(items), lambda: items.send("one"), lambda: items.throw(ValueError("two")), lambda: next(items)):
        try:
            said.append(repr(ask()))
        except StopIteration as end:
            said.append(("end", repr(end.value)))
    again = function(X)
    next(again)
    again.close()
    return said


@pytest.mark.parametrize("function", [with_send, delegates])
def test_send_throw_and_close(function):
    assert conversation(npc.compile(function, backend="eager")) == conversation(function)


def test_generator_called_by_a_compiled_function():
    def f(x):
        y = x * 2
        return sum(steps(y, 3)) + max(map(total, steps(y, 2)))

    np.testing.assert_array_equal(npc.compile(f, backend="eager")(X), f(X))


def raises_in_generator(x):
    yield step(x)
    yield refuse(x)


def report(function):
    try:
        run(function, X)
    except ValueError:
        return traceback.format_exc()
    raise AssertionError("nothing is raised")


def test_traceback():
    assert report(npc.compile(raises_in_generator, backend="eager")) == report(raises_in_generator)


def test_globals_are_looked_up_at_each_call(monkeypatch):
    compiled = npc.compile(names_of_locals, backend="eager")
    assert compiled(X)[1] == names_of_locals(X)[1]
    monkeypatch.setitem(globals(), "total", lambda y: y.max())
    assert compiled(X)[1] == names_of_locals(X)[1]
    monkeypatch.delitem(globals(), "total")
    with pytest.raises(NameError, match="total"):
        compiled(X)


def test_disabled_callees_stay_as_they_are(monkeypatch):
    monkeypatch.setitem(globals(), "step", npc.disable(lambda x: x + len(all_compiled())))
    before = set(all_compiled())  # the set keeps them: others may be collected meanwhile
    list(npc.compile(steps, backend="eager")(X, 2))
    assert set(all_compiled()) == before


def test_compiled_again():
    once = npc.compile(steps, backend="eager")
    twice = npc.compile(once, backend="eager")
    assert repr(run(twice, X, 2)) == repr(run(steps, X, 2))
    assert twice.__npcompile_original__ is steps
