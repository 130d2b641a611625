"""Tracebacks and warnings as they are without compilation: the frames that call the user's code are ours, and are left out."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final, TypeVar

from npcompile.settings import config
from npcompile.tensor_core.user_warnings import GENERATED, is_ours

# `warnings` and `logging` do not count frames of files that have both words in their names: importlib is what they mean.
# So warnings.warn(..., stacklevel=2) in a compiled function names the line that calls it.
UNCOUNTED: Final = "importlib._bootstrap"

F = TypeVar("F", bound=Any)


FIRST = "point_0"  # the program that a call begins with


def shown_name(code: CodeType, program: str) -> str:
    """What profilers call a program that is made for the user's code."""
    return f"{code.co_name} (npcompile{'' if program == FIRST else f', {program}'})"


def program_of(shown: CodeType) -> str:
    """Which program it is, of those of a function."""
    _, _, program = shown.co_name.rpartition(" (npcompile")
    return program.removeprefix(", ").removesuffix(")") or FIRST


def generated_name(code: CodeType, what: str) -> str:
    """The file of a program that is made for the user's code. The last part of its path says where that is."""
    return f"{GENERATED}{code.co_qualname} {what}, {UNCOUNTED}, {code.co_filename}:{code.co_firstlineno}>"


def uncounted(function: F) -> F:
    """Name the file of a function that calls the user's code such that its frames are not counted."""
    path = function.__code__.co_filename
    name = f"{path} ({UNCOUNTED})"
    linecache.cache[name] = (lambda: Path(path).read_text(encoding="utf-8"),)
    function.__code__ = renamed(function.__code__, name)
    return function


def renamed(code: CodeType, filename: str) -> CodeType:
    constants = (renamed(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=filename, co_consts=tuple(constants))


def hide_frames() -> None:
    """Leave of the exception that is being handled what it would be without this package: see `hide_ours`.

    An entry calls this and raises again with a bare `raise`, which does not add the entry's own frame.
    """
    error = sys.exception()
    assert error is not None
    hide_ours(error)


def hide_ours(error: BaseException) -> None:
    """Take frames of ours out of the tracebacks of an exception and of those linked to it, and exceptions of ours out of these.

    Where mistakes of ours are to be raised, an exception that no code of the user's had a part in stays whole.
    """
    shown = without_ours(error.__traceback__)
    if shown is None and config.internal_errors == "raise":
        return
    error.__traceback__ = shown
    seen, pending = {id(error)}, [error]
    while pending:
        each = pending.pop()
        context, cause, suppresses = each.__context__, each.__cause__, each.__suppress_context__
        each.__context__, each.__cause__ = users(context), None if cause is None or is_of_ours(cause) else cause
        each.__suppress_context__ = suppresses
        linked = [each.__context__, each.__cause__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]
        for other in linked:
            if other is not None and id(other) not in seen:
                other.__traceback__ = without_ours(other.__traceback__)
                seen.add(id(other))
                pending.append(other)


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback, changed to have no frames of ours."""
    kept = []
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code):
            kept.append(trace)
        trace = trace.tb_next
    for each, following in zip(kept, [*kept[1:], None]):
        if each.tb_next is not following:
            each.tb_next = following
    return kept[0] if kept else None


def users(error: BaseException | None) -> BaseException | None:
    """The first of a chain of contexts that is not of ours."""
    while error is not None and is_of_ours(error):
        error = error.__context__
    return error


def is_of_ours(error: BaseException) -> bool:
    """Is it of a class of ours, or was it handled by code of ours? Its traceback begins with the frame that has handled it."""
    trace = error.__traceback__
    return type(error).__module__.startswith("npcompile.") or (trace is not None and is_ours(trace.tb_frame.f_code))


def is_raised_in(code: CodeType, error: BaseException) -> bool:
    """Did the exception come out of the user's function, so that its handlers have seen it?"""
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    found = None if trace is None else trace.tb_frame.f_code
    return found is not None and all(getattr(found, name) == getattr(code, name) for name in NAMES_OF_CODE)


NAMES_OF_CODE: Final = ("co_filename", "co_qualname", "co_firstlineno")  # a segment has them from the function
