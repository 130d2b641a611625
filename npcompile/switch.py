"""When compiled functions run as they are: while they are switched off, or while a debugger, coverage or line profiler traces."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from sys import gettrace
from typing import Any, ParamSpec, TypeVar

from npcompile.settings import after_change, config
from npcompile.tensor_core.context import set_within

P = ParamSpec("P")
R = TypeVar("R")

# Tools of sys.monitoring by number, up to Python 3.11 none: debuggers, coverage, profilers.
TOOLS = (0, 1, 2) if hasattr(sys, "monitoring") else ()
COUNTS_CALLS = ("cProfile",)  # tools that ask nothing of lines: functions stay compiled while they run

_is_disabled: ContextVar[bool | None] = ContextVar("_is_disabled", default=None)  # None: as config.enabled says
_lock = threading.Lock()


class Switch:
    """What every call of a compiled function looks at."""

    __slots__ = ("blocks", "get_tool", "is_asked")

    def __init__(self) -> None:
        self.blocks = 0  # `with disabled()` blocks that some thread or task is in
        self.is_asked = False  # must calls ask `runs_plain`?
        self.get_tool: Callable[[int], Any] | None = sys.monitoring.get_tool if TOOLS else None  # type: ignore[attr-defined]

    def __reduce__(self) -> str:
        return "SWITCH"  # one for the process: compiled functions that are pickled hold it

    def set(self) -> None:
        self.is_asked = self.blocks > 0 or not is_enabled()


def is_enabled() -> bool:
    return config.enabled and config.stance != "force_eager"


SWITCH = Switch()
SWITCH.set()
after_change["enabled"] = after_change["stance"] = [SWITCH.set]


def runs_plain() -> bool:
    """Does a compiled function that is called here run as it is?"""
    here = _is_disabled.get()
    if here is not None:
        return here
    return not is_enabled() or not config.compile_while_traced and is_traced()


def is_plain_now() -> bool:
    """`runs_plain`, of which the quick questions are asked first, as entries ask them."""
    return (SWITCH.is_asked or gettrace() is not None or bool(TOOLS) and is_traced()) and runs_plain()


def is_traced() -> bool:
    """Does a debugger, coverage or a line profiler trace this thread?"""
    if gettrace() is not None:
        return True
    return any((name := SWITCH.get_tool(k)) is not None and name not in COUNTS_CALLS for k in TOOLS)  # type: ignore[misc]


@contextmanager
def disabled() -> Iterator[None]:
    """Run compiled functions as they are inside of a `with` block, in this thread or task. What is compiled stays.

    Transforms (`grad`, `vmap` and the others) work as before.

    >>> with disabled():
    ...     pass
    """
    with set_within(_is_disabled, True):
        with _lock:
            SWITCH.blocks += 1
            SWITCH.set()
        try:
            yield
        finally:
            with _lock:
                SWITCH.blocks -= 1
                SWITCH.set()


class set_stance:
    """Choose what calls of compiled functions do from now on, in all threads; for a `with` block as a context manager, and for
    the calls of a function as its decorator.

    Parameters
    ----------
    stance
        "default": compile what is new. "run_only": compile nothing; calls for which nothing is compiled run as they are.
        "fail_on_recompile": compile nothing; such calls raise RuntimeError, which says what changed. Warm up, then set one of
        these, in a server that must not wait for a compiler. "force_eager": run everything as it is. "eager_then_compile":
        run the first call with each kind of arguments as it is, and compile in the second, where sizes that differ from those
        of the first are symbols at once. It saves a program where sizes change in each call.

    Raises
    ------
    ValueError
        For another word.

    Notes
    -----
    What is compiled stays. `explain` compiles in any case. Derivatives for which nothing is compiled are computed by Tensors, an
    operation at a time, with "run_only". The words are those of `torch.compiler.set_stance`, and "run_only" may be called
    "eager_on_recompile" as there.

    >>> with set_stance("run_only"):
    ...     pass
    """

    def __init__(self, stance: str):
        self.before = config.stance
        config.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        config.stance = self.before

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        stance, config.stance = config.stance, self.before

        @functools.wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> R:
            with set_stance(stance):
                return function(*args, **kwargs)

        return within


def may_compile() -> bool:
    """May something new be compiled here?"""
    return config.stance not in ("run_only", "fail_on_recompile") or _is_disabled.get() is False


def runs_first_calls_plain() -> bool:
    return config.stance == "eager_then_compile" and _is_disabled.get() is not False


@contextmanager
def compiling() -> Iterator[None]:
    """Run compiled functions compiled, whatever is said elsewhere: to explain what is compiled."""
    with set_within(_is_disabled, False):
        yield
