"""Calls, and functions made."""

from __future__ import annotations

import types
from typing import Any

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core.meta import Decline
from npcompile.tracer import raising
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, iteration, objects
from npcompile.tracer.values import NULL, Closure, Constant, Generator, Mapping, Method, Opaque, Sequence


def call(frame: Frame, i: Instruction) -> None:
    names, arguments = i.argval, frame.pop_many(i.arg)
    positional = arguments[: len(arguments) - len(names)]
    keywords = dict(zip(names, arguments[len(positional) :]))
    second, first = frame.pop_raw(), frame.pop_raw()
    callee, own = (second, first) if first is NULL else (first, second)
    if own is not NULL:
        positional.insert(0, own)
    call_value(frame, callee, positional, keywords)


def call_value(frame: Frame, callee: Any, positional: list[Any], keywords: dict[str, Any]) -> None:
    callee = frame.capture.realize(callee)
    frame.calls_python = is_python(callee)
    frame.push(calls.call(frame, callee, positional, keywords))
    frame.calls_python = True


def is_python(callee: Any) -> bool:
    """Does a call of this run the user's Python, and nothing else?"""
    match callee:
        case Method():
            return isinstance(callee.owner, Generator) or callee.function is not None and is_python(callee.function)
        case Opaque():
            return isinstance(callee.example, types.FunctionType) and not is_captured(callee.example)
        case Constant(type()):
            return objects.is_made_plainly(callee.value)
        case Constant():
            return callee.value is next or isinstance(callee.value, types.FunctionType) and not is_captured(callee.value)
        case _:
            return isinstance(callee, Closure)


def is_captured(function: types.FunctionType) -> bool:
    return function in calls.BUILTINS or function in FUNCTIONS


def call_function_ex(frame: Frame, i: Instruction) -> None:
    keywords = frame.pop() if i.arg else Mapping({})
    positional = iteration.iterate(frame.capture, frame.pop())
    second = frame.pop_raw()
    callee = second if second is not NULL else frame.pop_raw()
    if second is not NULL and frame.stack and frame.stack[-1] is NULL:
        frame.pop_raw()
    if not isinstance(keywords, Mapping):
        raise Decline("** of an object that is not a plain dict")
    call_value(frame, callee, list(positional), dict(keywords.items))


def make_function(frame: Frame, i: Instruction) -> None:
    code = frame.pop().value
    closure = Closure(code, frame.globals_source, frame.globals, qualname=code.co_qualname)
    for flag, slot in ((8, "closure"), (16, "annotations"), (4, "annotations"), (2, "kwdefaults"), (1, "defaults")):
        if i.arg & flag:
            set_function_part(frame, closure, slot, frame.pop())
    frame.push(closure)


def set_function_part(frame: Frame, closure: Closure, slot: str, part: Any) -> None:
    match slot:
        case "closure":
            closure.cells = [frame.capture.realize(cell) for cell in part.items]
        case "defaults":
            closure.defaults = part
        case "kwdefaults":
            closure.kwdefaults = part
        case "annotations":
            closure.annotations = part


def stop_iteration_error(frame: Frame, i: Instruction) -> None:
    """An exception leaves a generator."""
    frame.push(raising.out_of_generator(raising.raised(frame.pop())).value)


def call_intrinsic(frame: Frame, i: Instruction) -> None:
    raise Decline(f"intrinsic {i.argval} is not captured")


def list_to_tuple(frame: Frame, i: Instruction) -> None:
    frame.push(Sequence(tuple, frame.pop().items))
