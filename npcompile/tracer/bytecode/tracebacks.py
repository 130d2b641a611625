"""Tracebacks and warnings as they are without compilation: the frames that call the user's code are ours, and are left out."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import CodeType
from typing import Any, Final, TypeVar

from npcompile.tensor_core.user_warnings import is_ours

# `warnings` and `logging` do not count frames of files that have both words in their names: importlib is what they mean.
# So warnings.warn(..., stacklevel=2) in a compiled function names the line that calls it.
UNCOUNTED: Final = "importlib._bootstrap"

F = TypeVar("F", bound=Any)


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
    """Take the frames down to the user's code out of the traceback of the exception that is being handled.

    An entry calls this and raises again with a bare `raise`, which does not add the entry's own frame. Where no other code
    follows, the exception is this package's, and its traceback stays whole.
    """
    error = sys.exception()
    assert error is not None
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace


def is_raised_in(code: CodeType, error: BaseException) -> bool:
    """Did the exception come out of the user's function, so that its handlers have seen it?"""
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    found = None if trace is None else trace.tb_frame.f_code
    return found is not None and all(getattr(found, name) == getattr(code, name) for name in NAMES_OF_CODE)


NAMES_OF_CODE: Final = ("co_filename", "co_qualname", "co_firstlineno")  # a segment has them from the function
