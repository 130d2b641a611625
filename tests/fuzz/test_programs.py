"""Random programs: what NumPy does, compiled code does. docs/fuzzing.md tells how to run it for long."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.backends import BACKENDS
from tests.fuzz import programs
from tests.fuzz.generate import draw_program
from tests.fuzz.programs import Program, define
from tests.shim.harness import compare_aliasing, flatten
from tests.tracer.harness import Outcome, compare_any, run

EXAMPLES = int(os.environ.get("NPCOMPILE_FUZZ_EXAMPLES", "0"))
SEED = os.environ.get("NPCOMPILE_FUZZ_SEED")
DEFAULT_EXAMPLES = {"eager": 800, "cpu": 60, "cuda": 40}
LOOSE = {2: 2e-2, 4: 1e-4, 8: 1e-9}  # of inexact programs: error of each float size, against the largest value


def check_program(program: Program, backend: str) -> None:
    """The program by NumPy and compiled, in each round with other arguments of other sizes."""
    filename = f"<fuzz {abs(hash(program)):x}>"
    user = define(program.source, "program", filename)
    make = define(program.arguments_source, "arguments", f"{filename[:-1]} arguments>")
    compiled = npc.compile(user, backend=backend, dynamic=program.dynamic)
    raised = False  # by NumPy, in any round so far
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for round, sizes in enumerate(program.sizes):
            try:
                theirs_arguments, ours_arguments = (make(*sizes, round) for _ in range(2))
            except (IndexError, ValueError):
                continue
            theirs, their_prints = observed(user, user, theirs_arguments)
            ours, our_prints = observed(compiled, user, ours_arguments)
            same_outcome(ours, theirs, program.is_exact)
            raised |= theirs.error is not None
            if not raised:
                raises_nothing_while_capturing(compiled, program)
            assert len(our_prints) == len(their_prints)
            compare_values(our_prints, their_prints, program.is_exact)


def raises_nothing_while_capturing(compiled: Any, program: Program) -> None:
    """A break for an error that NumPy does not raise is a mistake in what is captured."""
    known = compiled_function(compiled)
    if known is not None and not any("try:" in line for line in program.body):
        own = [b for b in known.breaks if "site-packages" not in b.location.filename]  # NumPy's code has its own handlers
        wrong = [b for b in own if re.match(r"\w+Error: ", b.reason)]
        assert not wrong, wrong


def observed(function: Any, user: Any, arguments: list[Any]) -> tuple[Outcome, list[Any]]:
    programs.printed.clear()
    user.__globals__["TABLE"] = np.arange(3.0)
    outcome = run(function, user, arguments)
    return outcome, [*programs.printed, user.__globals__["TABLE"]]


def same_outcome(ours: Outcome, theirs: Outcome, is_exact: bool) -> None:
    if theirs.error is not None:
        assert ours.error is not None, f"{theirs.error!r} is not raised; the result is {ours.value!r}"
        # CPython reports the line before for a local without a value, and the code of a segment has cells of another kind.
        if not (isinstance(theirs.error, NameError) and isinstance(ours.error, NameError)):
            assert (type(ours.error), str(ours.error)) == (type(theirs.error), str(theirs.error)), (ours.error, theirs.error)
            assert ours.line == theirs.line, f"{ours.error!r} is raised from line {ours.line}, not {theirs.line}"
    elif ours.error is not None:
        raise ours.error
    compare_values(ours.value, theirs.value, is_exact)
    compare_values(ours.arguments, theirs.arguments, is_exact)
    compare_aliasing(ours.value, theirs.value, flatten(*ours.arguments), flatten(*theirs.arguments))


def compare_values(ours: Any, theirs: Any, is_exact: bool) -> None:
    if is_exact:
        compare_any(ours, theirs, ulp=2)
        return
    our_arrays, their_arrays = flatten(ours), flatten(theirs)
    assert len(our_arrays) == len(their_arrays)
    scale = max(
        (float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in map(np.asarray, their_arrays) if x.dtype.kind in "fc"),
        default=0.0,
    )
    for a, b in zip(our_arrays, their_arrays):
        assert (type(a), a.dtype, a.shape) == (type(b), b.dtype, b.shape)
        kept = [k for k, n in enumerate(b.shape) if n > 1 and b.size]
        assert [a.strides[k] for k in kept] == [b.strides[k] for k in kept]
        if b.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b)
        else:
            loose = LOOSE[np.asarray(b).real.dtype.itemsize] if scale < 1e30 else np.inf
            close = np.isclose(a, b, rtol=loose, atol=loose * scale, equal_nan=True) | ~np.isfinite(b) | ~np.isfinite(a)
            assert close.all(), (a, b)


@st.composite
def random_programs(draw: Any) -> Program:
    return draw_program(lambda low, high: draw(st.integers(low, high)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_programs(backend: str) -> None:
    @settings(
        max_examples=EXAMPLES or DEFAULT_EXAMPLES[backend],
        derandomize=SEED is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(random_programs())
    def agrees(program: Program) -> None:
        check_program(program, backend)

    (agrees if SEED is None else seed(int(SEED))(agrees))()
