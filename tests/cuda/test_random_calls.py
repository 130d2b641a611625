"""Random programs with arrays of a device for arguments: what NumPy does, they do."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npcompile as npc
from tests.cuda.there import There, calls, there  # noqa: F401  (fixtures)
from tests.fuzz.generate import draw_program
from tests.fuzz.outcomes import Outcome, run, same_outcome
from tests.fuzz.programs import Program, define
from tests.shim.harness import flatten


def check_program(program: Program, calls: There) -> None:  # noqa: F811
    filename = f"<calls {abs(hash(program)):x}>"
    user = define(program.source, "program", filename)
    make = define(program.arguments_source, "arguments", f"{filename[:-1]} arguments>")
    compiled = npc.compile(user, dynamic=program.dynamic)
    for round, sizes in enumerate(program.sizes):
        try:
            theirs_arguments, ours_arguments = (make(*sizes, round) for _ in range(2))
        except (IndexError, ValueError):
            continue
        if not all(x.flags.writeable for x in flatten(*theirs_arguments) if isinstance(x, np.ndarray)):
            continue  # arrays of a device cannot be read-only
        theirs = run(user, user, theirs_arguments, program)
        ours = run(compiled, user, calls.put(ours_arguments), program)
        expected = moved(calls, theirs)
        same_outcome(with_scalars(moved(calls, ours), expected), expected, program, on_device=True)


def moved(calls: There, outcome: Outcome) -> Outcome:  # noqa: F811
    memories: dict[int, np.ndarray] = {}
    value, arguments = calls.get(outcome.value, memories), calls.get(outcome.arguments, memories)
    return replace(outcome, value=value, arguments=arguments, state=calls.get(outcome.state[:1]))


def with_scalars(ours: Outcome, theirs: Outcome) -> Outcome:
    changed = {name: scalars(getattr(ours, name), getattr(theirs, name)) for name in ("value", "arguments", "state")}
    return replace(ours, **changed)


def scalars(ours: Any, theirs: Any) -> Any:
    """Arrays of no dimensions as the scalars that they stand for, where NumPy has such."""
    if type(ours) in (list, tuple) and type(ours) is type(theirs):
        return type(ours)(scalars(a, b) for a, b in zip(ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {k: scalars(v, theirs.get(k)) for k, v in ours.items()}
    return ours[()] if isinstance(theirs, np.generic) and isinstance(ours, np.ndarray) and not ours.ndim else ours


@st.composite
def random_programs(draw: Any) -> Program:
    return draw_program(lambda low, high: draw(st.integers(low, high)), arrays_only=True)


def test_random_programs(calls: There) -> None:  # noqa: F811
    @settings(max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(random_programs())
    def agrees(program: Program) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_program(program, calls)

    agrees()
