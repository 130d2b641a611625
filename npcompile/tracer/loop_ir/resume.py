"""Python goes on where a program was left: the outcome of a run becomes the function's result."""

from __future__ import annotations

from types import FunctionType

import numpy as np

from npcompile.tensor_core.loop_ir.outcome import Entered, Exited, Outcome, Returned, Taken, TakenOf
from npcompile.tracer.bytecode.segment import make_segment


def finish(function: FunctionType, outcome: Outcome, raised: BaseException | None = None) -> object:
    """What `function` returns: the program's result, or what Python computes from the Point on.

    `raised`: an exception of a handler of signals, which Python raises at the Point.
    """
    if isinstance(outcome, Returned):
        return outcome.value
    names = local_names(function, outcome)
    segment = make_segment(function, outcome.point, (), names, {}, throws=raised is not None)
    state = [live(x) for x in (*outcome.stack, *outcome.locals.values())]
    _, value = segment(*([raised] if raised is not None else []), *state)
    return value


def local_names(function: FunctionType, outcome: Exited) -> tuple[str, ...]:
    return tuple(function.__code__.co_varnames[slot] for slot in outcome.locals)


def live(x: object) -> object:
    """An object of the frame: iterators are begun, and np.errstate is entered."""
    match x:
        case Taken() | TakenOf():
            return x.iterator()
        case Entered():
            entered = np.errstate(**x.arguments())  # type: ignore[call-overload]
            entered.__enter__()
            return entered.__exit__
    return x
