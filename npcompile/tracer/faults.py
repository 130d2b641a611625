"""Mistakes of this package: how they are told from exceptions of the user's, and what the user reads of them."""

from __future__ import annotations

import signal
import sys
import types

from npcompile.backends.nan_checks import NotFinite
from npcompile.tensor_core.user_warnings import warn_user

OF_VALUES = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError)  # classes derived from them are the same
OF_DATA = (ValueError, IndexError, ArithmeticError)  # what functions of NumPy's raise for some data
MODULES = ("builtins", "ctypes", "npcompile", "numpy")  # of the classes of exceptions that our mistakes are


def is_fault(error: BaseException) -> bool:
    """Is it an exception of the program that was running, and not what a handler of signals raised while it ran?

    A lack of memory is none of its own, and one of another library's class is what another thread may have raised here.
    """
    is_of_ours = type(error).__module__.partition(".")[0] in MODULES or isinstance(error, OF_VALUES)
    is_told = isinstance(error, MemoryError | NotFinite)  # it is what the user is to read
    return is_of_ours and isinstance(error, Exception) and not is_told and not is_of_handler(error)


def cannot_hold() -> bool:
    """Has the guard that raised the present exception said so that it does not hold?"""
    error = sys.exception()
    assert error is not None
    return is_fault(error)


def is_of_handler(error: BaseException) -> bool:
    """Was it raised inside a handler of signals?"""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is None:  # raised where it was caught
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [code for handler in handlers if callable(handler) for code in codes_of(handler)]
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def codes_of(handler: object) -> list[types.CodeType]:
    """The code of a function, a method, or an object that can be called."""
    found = [getattr(handler, "__func__", handler), vars(type(handler)).get("__call__")]
    return [code for function in found if (code := getattr(function, "__code__", None)) is not None]


def text_of_fault(error: Exception, doing: str, instead: str = "") -> str:
    """`doing`: a gerund and where it was. `instead`: a sentence, what happens now."""
    return (
        f"Internal error of npcompile while {doing}: {type(error).__name__}: {error}. {instead}{' ' * bool(instead)}"
        'Please report it; npcompile.config.internal_errors = "raise" shows the traceback.'
    )


def warn_of_fault(error: Exception, doing: str, instead: str) -> None:
    warn_user(text_of_fault(error, doing, instead))
