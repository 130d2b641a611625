"""What the Python of NumPy, SciPy and the standard library asks of its own functions, answered while capturing."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.guards import Is
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import NONE, Call
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import inlining, operators
from npcompile.tracer.python.calls import BUILTINS, Arguments, Keywords
from npcompile.tracer.values import Constant, ExceptionValue, Opaque, Sequence, TracebackValue

# --- signatures


def call_signature(asked: Callable[..., Any], frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Of a library's function, whose parameters nobody changes."""
    match positional:
        case [Constant(function)] if isinstance(function, (types.FunctionType, type(np.sum))):
            pass
        case [Opaque(source, types.FunctionType() as function)]:
            frame.capture.guard(Is(source, frame.capture.object_of(function)))
        case _:
            raise Decline(f"inspect.{asked.__name__} of what is not a function")
    if keywords or not inlining.is_library_code(inspect.unwrap(function).__globals__):
        raise Decline("the signature of a function that is not a library's")
    return operators.evaluate(lambda: asked(function))


# --- the exception that is handled


def call_exception(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """sys.exception()"""
    handled = frame.root.handled
    if handled:
        return handled[-1]
    if sys.exception() is not None:
        raise Decline("sys.exception() in a function that is called by a handler of exceptions")
    frame.capture.guard(Is(Call(frame.capture.object_of(sys.exception)), NONE))
    return Constant(None)


def call_exc_info(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    error = call_exception(frame, positional, keywords)
    if not isinstance(error, ExceptionValue):
        return Sequence(tuple, [Constant(None)] * 3)
    return Sequence(tuple, [Constant(error.kind), error, TracebackValue(error)])


BUILTINS |= {sys.exception: call_exception, sys.exc_info: call_exc_info}
BUILTINS |= {f: functools.partial(call_signature, f) for f in (inspect.signature, inspect.getfullargspec)}
