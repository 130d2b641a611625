"""One function of the corpus, SciPy's and compiled: what each call gives, and what was captured."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.fft  # noqa: F401  (some functions import it when first called, which is a break)

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.restarts import Break
from tests.scipy_functions.corpus import Call, Sample
from tests.shim.harness import copy
from tests.tracer.harness import compare_any


@dataclass
class Outcome:
    """What a call did: its result or exception, the warnings, and its arguments afterwards."""

    result: Any
    error: Exception | None
    warned: list[tuple[type[Warning], str]]
    arguments: Any


@dataclass
class Measured:
    graphs: int
    breaks: list[Break]
    captures: int  # programs compiled, over all Points
    cold: float = 0.0  # seconds of the first call
    ratio: float = 0.0  # of the first call's arguments when warm: how many times as quick as SciPy
    problems: list[str] = field(default_factory=list)


def outcome(function: Callable[..., Any], given: Call) -> Outcome:
    positional, keywords = copy((given.positional, given.keywords))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(*positional, **keywords), None
        except Exception as raised:
            result, error = None, raised
    return Outcome(result, error, [(w.category, str(w.message)) for w in caught], (positional, keywords))


def compare(ours: Outcome, theirs: Outcome, ulp: int) -> None:
    if theirs.error is None and ours.error is not None:
        raise ours.error
    assert (type(ours.error), str(ours.error)) == (type(theirs.error), str(theirs.error)), (ours, theirs)
    assert ours.warned == theirs.warned, (ours.warned, theirs.warned)
    compare_results(ours.result, theirs.result, ulp)
    compare_results(ours.arguments, theirs.arguments, ulp)


def compare_results(ours: Any, theirs: Any, ulp: int) -> None:
    """As results of NumPy, and objects of SciPy's classes by the data that they hold."""
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            compare_results(a, b, ulp)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            compare_results(ours[key], theirs[key], ulp)
    else:
        compare_any(ours, theirs, ulp=np.inf)
        require_near(ours, theirs, ulp)
    held = {} if isinstance(theirs, (np.ndarray, type)) else getattr(theirs, "__dict__", {})
    for name, value in held.items():
        if isinstance(value, DATA):
            compare_results(vars(ours)[name], value, ulp)


def require_near(ours: Any, theirs: Any, ulp: int) -> None:
    """Within `ulp` units of the largest element: many functions here end in a difference, which may be nearly 0."""
    if not isinstance(theirs, (np.ndarray, np.generic, float, complex)) or np.asarray(theirs).dtype.kind not in "fc":
        return
    finite = np.isfinite(theirs)
    found, wanted = np.asarray(ours)[finite], np.asarray(theirs)[finite]
    if wanted.size:
        unit = np.finfo(wanted.dtype).eps * np.abs(wanted).max()
        error = np.abs(found - wanted).max()
        assert error <= ulp * unit, f"{error / unit} ULP of the largest: {ours!r} {theirs!r}"


DATA = (np.ndarray, np.generic, int, float, complex, str, tuple, list)


def measure(sample: Sample, backend: str = "cpu", timed: bool = False) -> Measured:
    """Make all calls: the first twice in turn, cold and warm, then the others, which come with other sizes and dtypes."""
    theirs = sample.function
    ours = npc.compile(theirs, backend=backend)
    began = time.perf_counter()
    outcome(ours, sample.calls[0])
    cold = time.perf_counter() - began
    ratio = speed(theirs, sample.calls[0]) / speed(ours, sample.calls[0]) if timed else 0.0
    problems = []
    for given in (sample.calls[0], *sample.calls[1:], sample.calls[0]):
        try:
            compare(outcome(ours, given), outcome(theirs, given), sample.ulp)
        except Exception as error:
            problems.append(f"{sample.name}{given}: {type(error).__name__}: {error}")
    known = compiled_function(ours)
    if known is None:
        return Measured(0, [], 0, cold, ratio, problems)
    captures = sum(len(p.variants) for p in known.points.values())
    return Measured(len(known.graphs), list(known.breaks), captures, cold, ratio, problems)


def speed(function: Callable[..., Any], given: Call) -> float:
    """Seconds of one call: the least of some."""
    times = []
    for _ in range(20):
        positional, keywords = copy((given.positional, given.keywords))
        began = time.perf_counter()
        function(*positional, **keywords)
        times.append(time.perf_counter() - began)
    return min(times)
