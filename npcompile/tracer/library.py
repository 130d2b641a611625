"""What the Python of NumPy, SciPy and the standard library asks of its own functions, answered while capturing."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.meta import Decline
from npcompile.tracer import calls, operators
from npcompile.tracer.calls import BUILTINS, CALLED_BY_TYPE, Arguments, Keywords
from npcompile.tracer.frame import Frame
from npcompile.tracer.values import Constant, Opaque

# --- functions that remember what they gave


def call_remembering(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """A library's function under functools.lru_cache: its answer about constants is one for all calls."""
    inner = function.__wrapped__
    if not isinstance(inner, types.FunctionType) or not calls.is_library_code(inner.__globals__):
        raise Decline(f"{calls.function_name(function)} remembers its results", "It runs natively; the graph resumes after it.")
    return calls.evaluate_call(frame, function, positional, keywords)


CALLED_BY_TYPE[functools._lru_cache_wrapper] = call_remembering


# --- signatures


def call_signature(asked: Callable[..., Any], frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Of a library's function, whose parameters nobody changes."""
    match positional:
        case [Constant(types.FunctionType() as function)]:
            pass
        case [Opaque(source, types.FunctionType() as function)]:
            frame.capture.guard(f"{source} is {frame.capture.name_constant(function)}")
        case _:
            raise Decline(f"inspect.{asked.__name__} of what is not a function")
    if keywords or not calls.is_library_code(function.__globals__):
        raise Decline("the signature of a function that is not a library's")
    return operators.evaluate(lambda: asked(function))


BUILTINS |= {f: functools.partial(call_signature, f) for f in (inspect.signature, inspect.getfullargspec)}
