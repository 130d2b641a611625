"""`npcompile.config`: what is the same for every compiled function of the process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

INTERNAL_ERRORS = ("warn", "raise")
TIERS = ("measured", "always")
COMPILE = ("first call", "background")
ACCURACIES = ("numpy", "bitwise", "fast")
STANCES = ("default", "force_eager", "run_only", "fail_on_recompile", "eager_then_compile")
SAME_STANCES = {"eager_on_recompile": "run_only"}  # what torch.compiler.set_stance calls it
BOOLEANS = ("enabled", "compile_while_traced", "fallback_random", "native_loops", "native_profiling")


def check_in_environment() -> float:
    """What NPCOMPILE_CHECK says. ValueError for another value than numbers from 0 to 1."""
    text = os.environ.get("NPCOMPILE_CHECK", "") or "0"
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"NPCOMPILE_CHECK is {text!r}: set it to the share of calls to check, from 0 to 1 (all of them)")
    return share


def enabled_in_environment() -> bool:
    """What NPCOMPILE_DISABLE says. ValueError for another value than 0 and 1."""
    value = os.environ.get("NPCOMPILE_DISABLE", "")
    if value not in ("", "0", "1"):
        raise ValueError(f"NPCOMPILE_DISABLE is {value!r}: set it to 1, so that functions run uncompiled, or to 0")
    return value != "1"


def native_profiling_in_environment() -> bool:
    """What NPCOMPILE_PERF says. ValueError for another value than 0 and 1."""
    value = os.environ.get("NPCOMPILE_PERF", "")
    if value not in ("", "0", "1"):
        raise ValueError(f"NPCOMPILE_PERF is {value!r}: set it to 1, so that native profilers show lines of Python, or to 0")
    return value == "1"


def tiers_in_environment() -> str:
    """What NPCOMPILE_TIERS says. ValueError for another value than those of `config.tiers`."""
    value = os.environ.get("NPCOMPILE_TIERS", "") or "measured"
    if value not in TIERS:
        raise ValueError(f"NPCOMPILE_TIERS is {value!r}: set it to one of {', '.join(TIERS)}")
    return value


@dataclass(slots=True)
class Config:
    """Settings that hold from the next compilation on, if they say nothing else. What is compiled stays: see `npcompile.reset`.

    >>> config.recompile_limit = 16
    >>> with config.patch(internal_errors="raise"):
    ...     pass
    """

    recompile_limit: int = 8
    """How many programs are compiled for one place of a function (its start, or where it goes on after a graph break) and for
    values of the same kinds: types, dtypes, numbers of dimensions, layouts, booleans, members of an enum. Of all kinds together
    there may be 32 times as many. For arguments that none of them fits, the function then runs uncompiled from there, with one
    warning that names the guard that failed and the value that changed."""

    accuracy: str = "numpy"
    """How near to NumPy are the results of functions whose `accuracy` is not given? As `npcompile.compile` takes it. A change
    forgets what is compiled."""

    internal_errors: str = "warn"
    """What a mistake of npcompile itself does while it captures a function. "warn": the function runs uncompiled from there on,
    with one warning that holds the error, to be reported. "raise": the error is raised, as it is with `fullgraph=True`; so is
    that of a C compiler that refuses what npcompile wrote."""

    fallback_random: bool = True
    """Are random numbers those of NumPy's own streams? False: those that a graph can compute by itself come from a counter-based
    generator, whose key is one number of the user's generator (docs/random.md). Asked at every call that draws, so that what is
    compiled already is not used under the other setting."""

    native_loops: bool = True
    """Do loops over single elements run as native programs? False: an iteration at a time, whose graph is compiled. To find out
    which of the two is at fault."""

    enabled: bool = field(default_factory=enabled_in_environment)
    """Do compiled functions run compiled? False: as they are, from the next call on. It is False from the start where the
    environment has NPCOMPILE_DISABLE=1; `npcompile.disabled` switches off for a `with` block."""

    stance: str = "default"
    """What calls do, in all threads; `npcompile.set_stance` says what they are, and sets it for a `with` block."""

    compile_while_traced: bool = False
    """Do functions stay compiled while a debugger, coverage or a line profiler traces? False: they run as they are then, so that
    breakpoints stop and lines are counted. True is for test suites that measure coverage and are to test what is compiled."""

    tiers: str = field(default_factory=tiers_in_environment)
    """When do functions run compiled? "measured": where that is quicker than plain Python, which the first calls with each kind
    of arguments find out (docs/tiers.md). "always": wherever something can be compiled, so that each call does the same as the
    one before. Tests of what is compiled need that. NPCOMPILE_TIERS sets it from outside."""

    compile: str = "first call"
    """Does the program wait for the C compiler? "first call": it does, so that the first call runs compiled. "background": calls
    run as they are until the compiler has ended, which runs beside the program, and the next call takes what it made. Calls with
    `fullgraph=True` wait in any case; what `compile_package` compiles does not (docs/tiers.md)."""

    progress: bool | None = None
    """Is a line shown while a call waits for the C compiler for more than a second? None: where standard error is a terminal. By
    rich where that is installed."""

    check_nan: bool | str = False
    """Is a NaN in a result of a compiled function an error? True: the first operation that gives one raises FloatingPointError,
    which names the line and the operation, in graphs, loops, gradients and the Python code between them. "inf": infinities are
    errors too. For finding mistakes: graphs run an operation at a time, by NumPy. False: nothing is looked at, and it costs
    nothing. A change forgets what is compiled. See docs/debugging.md."""

    check: float = field(default_factory=check_in_environment)
    """Which share of the calls of compiled functions is compared with plain Python, from 0 (none) to 1 (all); NPCOMPILE_CHECK
    sets it from outside. A copy of the process (os.fork) calls the plain function with the same arguments: the call raises
    `npcompile.CheckFailed` where results, exceptions or changed arguments differ by more than rounding. Not compared are
    functions with a graph break, as Python code between graphs may write files, those on a device, and results that cannot be
    pickled."""

    debug_dir: str | os.PathLike[str] | None = field(default_factory=lambda: os.environ.get("NPCOMPILE_DEBUG_DIR") or None)
    """A folder for what is made of each function from now on, for those who look for a mistake or want to report one: graphs,
    guards in words, programs of loops, the C code, the compiler's command and messages, what `explain` tells. None: nothing is
    written. NPCOMPILE_DEBUG_DIR sets it from outside (docs/debugging.md)."""

    native_profiling: bool = field(default_factory=native_profiling_in_environment)
    """Is what is compiled from now on made for native profilers (perf, py-spy, gdb) to show? True: names of C functions end with
    those of yours, machine code has your files and lines, and on a GPU NVTX ranges have both. The libraries are others than
    without, and compiled anew. NPCOMPILE_PERF=1 sets it from outside (docs/how-to/profiling.md)."""

    def __setattr__(self, name: str, value: Any) -> None:
        names = [f.name for f in fields(self)]
        if name not in names:
            raise AttributeError(f"npcompile.config has no setting {name!r}: choose one of {', '.join(names)}")
        if name == "recompile_limit" and (not isinstance(value, int) or value < 0):
            raise ValueError(f"recompile_limit is a number of programs, not {value!r}")
        if name == "internal_errors" and value not in INTERNAL_ERRORS:
            raise ValueError(f"unknown internal_errors {value!r}: choose one of {', '.join(INTERNAL_ERRORS)}")
        if name == "compile" and value not in COMPILE:
            raise ValueError(f"unknown compile {value!r}: choose one of {', '.join(COMPILE)}")
        if name == "check_nan" and value is not False and value is not True and value != "inf":
            raise ValueError(f"check_nan is False, True or 'inf', not {value!r}")
        if name == "tiers" and value not in TIERS:
            raise ValueError(f"unknown tiers {value!r}: choose one of {', '.join(TIERS)}")
        value = SAME_STANCES.get(value, value) if name == "stance" and isinstance(value, str) else value
        if name == "stance" and value not in STANCES:
            raise ValueError(f"unknown stance {value!r}: choose one of {', '.join(STANCES)}")
        if name == "accuracy" and value not in ACCURACIES:
            raise ValueError(f"unknown accuracy {value!r}: choose one of {', '.join(ACCURACIES)}")
        if name == "progress" and not isinstance(value, bool | None):
            raise ValueError(f"progress is True, False or None, not {value!r}")
        if name == "debug_dir" and not (value is None or value and isinstance(value, str | os.PathLike)):
            raise ValueError(f"debug_dir is the path of a folder, or None, not {value!r}")
        if name in BOOLEANS and not isinstance(value, bool):
            raise ValueError(f"{name} is True or False, not {value!r}")
        if name == "check" and not (isinstance(value, (int, float)) and 0 <= value <= 1):
            raise ValueError(f"check is a share of the calls, from 0 to 1, not {value!r}")
        if name == "check" and value and not hasattr(os, "fork"):
            raise ValueError(f"check is {value!r}, which needs os.fork: this system does not have it")
        object.__setattr__(self, name, value)
        for call in after_change.get(name, ()):
            call()

    @contextmanager
    def patch(self, **changes: Any) -> Iterator[None]:
        """These settings inside of a `with` block."""
        before = {name: getattr(self, name) for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


after_change: dict[str, list[Callable[[], None]]] = {}  # setting -> what is to be called when it was set
config = Config()
