"""Tracebacks as they are without compilation: the frames that call the user's code are ours, and are left out."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType
from typing import Final

OURS: Final = f"{Path(__file__).parents[1]}/"
GENERATED: Final = "<npcompile "  # begins the file names of generated programs


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith((GENERATED, OURS))


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
