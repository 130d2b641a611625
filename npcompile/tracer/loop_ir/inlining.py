"""Functions of the user's that a program calls are written into it: a frame whose caller is another frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TypeAlias, TypeGuard

from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.loop_ir.abstract import Abstract, Unsupported
from npcompile.tracer.loop_ir.builder import Builder, Frame
from npcompile.tracer.loop_ir.sources import PartOfFunction

Constant: TypeAlias = Callable[[Builder, object], Abstract]
DEEPEST = 16  # calls inside each other
STARRED_OR_GENERATOR = 0x2AC  # CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


def is_users(named: object) -> TypeGuard[FunctionType]:
    """Is it a function of Python's, and none of NumPy's own?"""
    return isinstance(named, FunctionType) and not str(named.__module__).startswith("numpy")


def frame_of(function: FunctionType) -> Frame:
    """The frame of a function that begins, without its arguments."""
    code = function.__code__
    if code.co_flags & STARRED_OR_GENERATOR or code.co_cellvars or code.co_kwonlyargcount:
        raise Unsupported("a function with variables of functions inside, with starred or keyword parameters, or a generator")
    facts = analyse(code)
    return Frame(function, facts, facts.start, [], {})


def entered(b: Builder, function: FunctionType, args: Sequence[Abstract], names: tuple[str, ...], constant: Constant) -> Frame:
    """The frame of a call. The arguments are off the caller's stack; the last ones have `names`."""
    caller = b.frame
    b.read(PartOfFunction(function, "__code__"))
    if sum(1 for _ in caller.chain()) > DEEPEST:
        raise Unsupported(f"{function.__name__} calls itself, or too many functions call each other")
    frame = frame_of(function)
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    positional = args[: len(args) - len(names)]
    given = dict(enumerate(positional))
    for name, x in zip(names, args[len(positional) :]):
        if name not in parameters or parameters.index(name) in given:
            raise Unsupported(f"the arguments of {function.__name__}")
        given[parameters.index(name)] = x
    defaults = b.read(PartOfFunction(function, "__defaults__")) or ()
    assert isinstance(defaults, tuple)
    for k, value in enumerate(defaults, len(parameters) - len(defaults)):
        if k not in given:
            given[k] = constant(b, value)
    if len(positional) > len(parameters) or len(given) != len(parameters):
        raise Unsupported(f"the arguments of {function.__name__}")
    frame.locals.update(given)
    kept = caller.copy()
    kept.locals = caller.living(caller.index + 1)
    frame.caller = kept
    return frame


def after_call(caller: Frame, result: Abstract) -> Frame:
    frame = caller.copy()
    frame.stack.append(result)
    frame.index += 1
    return frame
