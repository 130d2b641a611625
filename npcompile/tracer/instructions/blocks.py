"""`with` and `assert`."""

from __future__ import annotations

from npcompile.tensor_core.graph import FLOAT_ERRORS
from npcompile.tensor_core.meta import Decline
from npcompile.tracer.decode import Instruction
from npcompile.tracer.frame import Frame, handles
from npcompile.tracer.values import (
    Constant,
    ContextExit,
    ErrorState,
    GradMode,
)


@handles("BEFORE_WITH")
def before_with(frame: Frame, i: Instruction) -> None:
    manager = frame.pop()
    if not isinstance(manager, (ErrorState, GradMode)):
        raise Decline("`with` of an object that is not captured")
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


@handles("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, i: Instruction) -> None:
    frame.push(Constant(AssertionError))
