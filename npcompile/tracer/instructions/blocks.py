"""`with`, `assert`, and exceptions."""

from __future__ import annotations

import types
from typing import Any

from npcompile.tensor_core.graph import FLOAT_ERRORS
from npcompile.tensor_core.meta import Decline
from npcompile.tracer import raising
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, groups, objects
from npcompile.tracer.python.operators import describe, plain
from npcompile.tracer.values import Constant, ContextExit, ErrorState, ExceptionValue, GradMode, Method, TracebackValue


def before_with(frame: Frame, i: Instruction) -> None:
    manager = frame.pop()
    if not isinstance(manager, (ErrorState, GradMode)):
        enter_object(frame, manager)
        return
    frame.contexts.append((i.index, manager))
    frame.stack += [ContextExit(manager), Constant(None)]
    if isinstance(manager, GradMode):
        manager.before, frame.capture.grad_enabled = frame.capture.grad_enabled, manager.enabled
        return
    manager.before = frame.capture.builder.ignored
    changed = {"all": FLOAT_ERRORS}
    for name, setting in manager.settings.items():
        categories = changed.get(name, frozenset((name,)))
        frame.capture.builder.ignored -= categories
        if setting == "ignore":
            frame.capture.builder.ignored |= categories


def enter_object(frame: Frame, manager: Any) -> None:
    """`with` of an object whose methods are written in Python: they are part of the program, and it may break inside."""
    enter, leave = (objects.function_on_class(frame.capture, manager, name) for name in ("__enter__", "__exit__"))
    if not isinstance(enter, types.FunctionType) or not isinstance(leave, types.FunctionType):
        raise Decline(f"`with` of {describe(manager)}")
    frame.push(Method(manager, Constant(leave), "__exit__"))
    frame.push(calls.call(frame, Constant(enter), [manager], {}))


# --- exceptions: `value` is raised, handled and forgotten while capturing


def raise_varargs(frame: Frame, i: Instruction) -> None:
    raise raised_by_statement(frame, i.arg)  # in no variable: its traceback holds this frame


def raised_by_statement(frame: Frame, operands: int) -> raising.Raises:
    """What `raise`, with so many operands on the stack, raises."""
    handled = frame.root.handled
    if operands:
        cause = frame.pop() if operands == 2 else None
        error = raising.raised(frame.pop(), cause)
        raising.set_context(error.value, handled)
        error.value.origin = None  # from here on it has a traceback of its own
        return error
    if not handled:
        raise Decline("an exception from outside is raised again")
    return raising.Raises(handled[-1])


def reraise(frame: Frame, i: Instruction) -> None:
    raise raising.raised(frame.pop())


def push_exc_info(frame: Frame, i: Instruction) -> None:
    value = frame.pop()
    frame.root.handled.append(value)
    frame.stack += [Constant(None), value]


def pop_except(frame: Frame, i: Instruction) -> None:
    frame.pop_raw()
    frame.root.handled.pop()


def check_exc_match(frame: Frame, i: Instruction) -> None:
    kinds = plain(frame.capture, frame.pop())
    frame.push(Constant(raising.matches(frame.capture.realize(frame.stack[-1]), kinds)))


def check_eg_match(frame: Frame, i: Instruction) -> None:
    kinds, value = plain(frame.capture, frame.pop()), frame.pop()
    found, rest = groups.match(value, kinds)
    frame.stack += [rest or Constant(None), found or Constant(None)]
    if found is not None:
        frame.root.handled[-1] = found


def prep_reraise_star(frame: Frame, i: Instruction) -> None:
    raised, original = frame.pop(), frame.pop()
    frame.push(groups.left_to_raise(original, [frame.capture.realize(e) for e in raised.items]) or Constant(None))


def with_except_start(frame: Frame, i: Instruction) -> None:
    leave, error = (frame.capture.realize(frame.stack[-k]) for k in (4, 1))
    if not isinstance(leave, (ContextExit, Method)) or not isinstance(error, ExceptionValue):
        raise Decline("`with` is left by an exception")
    frame.push(calls.call(frame, leave, [Constant(error.kind), error, TracebackValue(error)], {}))
