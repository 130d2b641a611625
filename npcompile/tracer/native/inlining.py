"""Calls of the user's functions in a native loop: their instructions are written where they are called.

Each way through the function is written by itself, up to its return, so a function may branch; those that loop are in
`called_loops`. What leaves the program in the middle of it does so before the call, and Python calls the function again: so
nothing in it leaves after it has written to an array. Attributes that it sets are variables until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tensor_core.guards import Is, Length
from npcompile.tensor_core.source import Formula
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.native import called_loops, outside
from npcompile.tracer.native.blocks import Blocks, Left
from npcompile.tracer.native.states import NoProgram, State, is_attribute
from npcompile.tracer.native.types import Closure, Known, Outside, cells_of

MOST_RETURNS = 16
MOST_DEPTH = 8


@dataclass(slots=True)
class Call:
    """A function that is being written."""

    caller: tuple[Any, ...]  # its code, and its state without what was called
    following: int  # the caller's next instruction
    branches: bool = False  # is there another way than the one that is being written?
    returns: int = 0
    result: object = None
    attributes: dict[str, Any] = field(default_factory=dict)  # that it has set


def inline(b: Blocks, known: Known, arguments: list[Any], keywords: dict[str, Any], following: int) -> Any:
    """The function's result; Left when it branches, and every way through it goes on after the call.

    NoForm where it does what has no form, or may leave after it has written.
    """
    if len(b.calls) >= MOST_DEPTH:
        raise NoForm("functions that call one another too deep")
    function = known.value
    values = bound(b, known, arguments, keywords)
    b.settle(b.fail())
    facts = analyse(function.__code__)
    if called_loops.has_loops(facts):
        called_loops.write(b, known, values, following, b.fail())
    caller = context(b)
    written, clean = len(b.code.lines), b.clean
    call = Call(caller, following)
    b.calls.append(call)
    code, source = function.__code__, known.source
    enter(b, (decode(code), facts, function.__globals__, source.attribute("__globals__"), cells_of(known)))
    b.state = State([], values | {n: v for n, v in b.state.locals.items() if is_attribute(n)})
    try:
        b.follow(b.facts.start)
    except NoForm as reason:
        del b.code.lines[written:]
        b.clean = clean
        if b.inside is not None:
            raise NoProgram(str(reason)) from None
        raise
    finally:
        b.calls.remove(call)
        enter(b, caller)
    if call.branches:
        raise Left
    b.state.locals |= call.attributes
    return call.result


def context(b: Blocks) -> tuple[Any, ...]:
    return b.program, b.facts, b.globals, b.globals_source, b.cells, b.state


def enter(b: Blocks, other: tuple[Any, ...]) -> None:
    b.program, b.facts, b.globals, b.globals_source, b.cells = other[:5]
    if len(other) > 5:
        b.state = other[5]


def bound(b: Blocks, known: Known, arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """The function's local variables at its beginning."""
    function, code = known.value, known.value.__code__
    names = code.co_varnames[: code.co_argcount]
    if len(arguments) > len(names) or any(n not in names[code.co_posonlyargcount :] for n in keywords):
        raise NoForm(f"a call of {function.__name__} with other arguments")
    values = dict(zip(names, arguments))
    if values.keys() & keywords.keys():
        raise NoForm(f"a call of {function.__name__} with other arguments")
    values |= keywords
    values = default_values(b, known) | values
    if len(values) != len(names):
        raise NoForm(f"a call of {function.__name__} with other arguments")
    return values


def default_values(b: Blocks, known: Known) -> dict[str, Any]:
    """Of the parameters that have defaults. Those of a function that is made for each call are looked at again."""
    function, source = known.value, known.source
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount][-len(defaults) :] if defaults else ()
    if isinstance(known, Closure):
        held = source.attribute("__defaults__")
        b.guard(Length(Formula("{} or ()", held), "==", len(defaults)))
        return {n: Outside(held.item(k), value) for k, (n, value) in enumerate(zip(names, defaults))}
    for part in ("__code__", "__defaults__"):
        b.guard(Is(source.attribute(part), b.object_of(getattr(function, part))))
    return dict(zip(names, (outside.constant_value(b, value) for value in defaults)))


def return_value(b: Blocks, i: Any, fail: Fail) -> None:
    returned(b, b.pop(), fail)


def returned(b: Blocks, value: Any, fail: Fail) -> None:
    if not b.calls:
        b.give(value, fail)
        raise Left
    call = b.calls[-1]
    call.returns += 1
    if call.returns > MOST_RETURNS:
        raise NoForm("a function with many ways through it")
    b.code.settle()
    call.attributes = {n: v for n, v in b.state.locals.items() if is_attribute(n)}
    if call.branches:
        here = context(b)
        b.calls.pop()
        enter(b, call.caller)
        b.state = State([*b.state.stack, value], b.state.locals | call.attributes)
        try:
            b.go(call.following)
        finally:
            b.calls.append(call)
            enter(b, here)
    call.result = value
    raise Left
