"""Does a program with loops do compiled what it does in plain Python: results, arrays, errors, and warnings?"""

from __future__ import annotations

import copy
import itertools
import os
import random
import signal
import subprocess
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.passes import Pass, PassLog
from npcompile.backends.registry import CompiledGraph
from npcompile.compiler import compiled_function, original
from npcompile.tracer.loop_ir import whole_function
from tests.limits import TooLong, time_limit
from tests.native_loops.random.generate import LoopProgram
from tests.native_loops.random.varied import varied
from tests.shim.harness import copy as copy_arrays

REPORTS = ("always", "always", "error", "raise")  # of the calls of a program


def outcome(function: Any, user: types.FunctionType, arguments: list[Any], reports: str = "always") -> tuple[Any, ...]:
    """(result or error with its line, arguments afterwards, warnings with their lines)

    `reports`: floating-point errors are warnings ("always"), by a filter "error", or np.errstate lets them "raise".
    """
    with warnings.catch_warnings(record=True) as met, np.errstate(all="raise") if reports == "raise" else nullcontext():
        warnings.simplefilter("error" if reports == "error" else "always")
        warnings.filterwarnings("ignore", message=".*npcompile.config.recompile_limit")
        try:
            made: Any = function(*arguments)
        except Exception as error:
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == user.__code__.co_filename]
            made = type(error), str(error), lines
    seen = [(w.category, str(w.message), w.lineno) for w in met if w.filename == user.__code__.co_filename]
    return made, arguments[:3], seen


def same(ours: Any, theirs: Any) -> bool:
    """The same to the bit, and of the same types."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(theirs, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, (np.ndarray, np.generic)):
        same_order = all(getattr(ours.flags, order) == getattr(theirs.flags, order) for order in ("c_contiguous", "f_contiguous"))
        return ours.dtype == theirs.dtype and ours.shape == theirs.shape and same_order and same_bits(ours, theirs)
    if isinstance(theirs, complex):
        return same_bits(np.complex128(ours), np.complex128(theirs))
    if isinstance(theirs, float):
        return same_bits(np.float64(ours), np.float64(theirs))
    return bool(ours == theirs)


def same_bits(ours: Any, theirs: Any) -> bool:
    if theirs.dtype.kind == "c":
        return same_bits(ours.real, theirs.real) and same_bits(ours.imag, theirs.imag)
    both_nan = (ours != ours) & (theirs != theirs)
    signs = np.signbit(ours) == np.signbit(theirs) if theirs.dtype.kind == "f" else True
    return bool(np.all(both_nan | ((ours == theirs) & signs)))


def program_of(lines: Sequence[str], name: str, space: dict[str, Any]) -> Callable[..., Any]:
    """The function `program` that these lines define."""
    exec(compile("\n".join(lines), f"<{name}>", "exec"), space)
    program: Callable[..., Any] = space["program"]
    return program


def by_six(texts: Sequence[str]) -> list[Sequence[str]]:
    """Expressions that share a loop: most of the time would go to a unit of C for each."""
    return [texts[k : k + 6] for k in range(0, len(texts), 6)]


def is_error(made: Any) -> bool:
    return isinstance(made, tuple) and isinstance(made[0], type)


def cloned(values: tuple[Any, ...]) -> list[Any]:
    memo: dict[int, Any] = {}
    for v in values:
        if id(v) not in memo:
            memo[id(v)] = copy_arrays(v) if isinstance(v, np.ndarray) else copy.copy(v)
    return [memo[id(v)] for v in values]


@contextmanager
def signalled(number: int = signal.SIGINT, handler: Any = signal.default_int_handler, after: float = 0.3) -> Iterator[None]:
    """Another process, which needs nothing of this one, sends a signal after so many seconds.

    After 30 more it sends another: what a handler raises in a callback of the garbage collector is lost, in plain Python too.
    """
    before = signal.signal(number, handler)  # processes in the background ignore SIGINT
    send = f"kill -{int(number)} {os.getpid()}"
    sender = subprocess.Popen(["sh", "-c", f"sleep {after}; {send}; echo; sleep 30; {send}"], stdout=subprocess.PIPE)
    try:
        yield
    finally:
        assert sender.stdout is not None
        sender.stdout.readline()  # the first was sent
        sender.terminate()
        sender.wait()
        sender.stdout.close()
        signal.signal(number, before)


def ends_when_interrupted(call: Callable[[], Any]) -> None:
    """A call that takes minutes ends with KeyboardInterrupt soon after Ctrl-C."""
    with signalled(), pytest.raises(KeyboardInterrupt):
        call()


def compiled_once(function: Any, *arguments: Any) -> Any:
    compiled = npc.compile(function)
    compiled(*arguments)
    return compiled


def passes(compiled: Any, name: str) -> dict[str, Pass]:
    """What the pass of this name did to a function's programs, native ones and graphs, by place."""
    known = compiled_function(compiled)
    assert known is not None
    made = [v.compiled for point in known.points.values() for v in point.variants]
    log = PassLog()
    for each in (p for m in made if isinstance(m, CompiledGraph) for p in m.passes if p.name == name):
        log.note(each.name, each.place, each.why_not, each.count)
    return {p.place: p for p in log.all()}


def fired(compiled: Any, name: str, line: int | None = None) -> bool:
    """Did the pass fire somewhere in the function, or at a line of it, counted from its `def`?"""
    if line is not None:
        line += original(compiled).__code__.co_firstlineno
    places = [p.place for p in passes(compiled, name).values() if p.fired]
    return any(line is None or place.endswith(f"line {line}") for place in places)


def counts(compiled: Any, name: str) -> list[int | None]:
    """What the pass of this name counted at each place where it fired."""
    return [p.count for p in passes(compiled, name).values() if p.fired]


@contextmanager
def without_loop_ir() -> Iterator[None]:
    """No function is a program of the loop IR: what is asked is about passes that are for the other functions with loops."""
    with mock.patch.object(whole_function, "loop_units", lambda backend: None):
        yield


def check(program: LoopProgram, backend: str) -> None:
    """Raise AssertionError where the compiled program differs, in any of its calls; it says whether native loops are why."""
    check_native(program, backend, and_graphs=True)


def check_native(program: LoopProgram, backend: str, and_graphs: bool = False) -> None:
    """Raise AssertionError where native loops are why the compiled program differs."""
    try:
        agree(program, backend)
    except AssertionError as error:
        other = failure_without_native_loops(program, backend)
        if other is None:
            raise AssertionError(f"native: {error}") from error
        if and_graphs:
            raise AssertionError(f"without native loops too: {error}") from other


def failure_without_native_loops(program: LoopProgram, backend: str) -> AssertionError | None:
    with npc.config.patch(native_loops=False):
        try:
            agree(program, backend)
        except AssertionError as error:
            return error
    return None


def agree(program: LoopProgram, backend: str) -> None:
    user = program.function()
    compiled = npc.compile(user, backend=backend)
    draw = random.Random(program.source)
    given = [program.values] * len(REPORTS) + [varied(draw, program.values) for _ in range(2)]
    first = draw.randrange(len(REPORTS))  # a program is made under any of them
    for call, (values, reports) in enumerate(zip(given, itertools.cycle(REPORTS[first:] + REPORTS[:first]))):
        try:
            with time_limit(5):
                theirs = outcome(user, user, cloned(values), reports)
        except TooLong:  # a power of an integer of any length
            return
        with time_limit(60):
            ours = outcome(compiled, user, cloned(values), reports)
        for what, a, b in zip(("result", "arrays", "warnings"), ours, theirs):
            assert same(a, b), f"{what} of call {call} ({reports}) with {values}: {a!r} where Python gives {b!r}"
