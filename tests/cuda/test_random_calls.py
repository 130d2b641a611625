"""Random programs with arrays of a device for arguments: what NumPy does, they do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

import npcompile as npc
from tests.cuda.there import There, calls, there  # noqa: F401  (fixtures)
from tests.fuzz.programs import Program, define
from tests.fuzz.test_programs import compare_values, observed, random_programs, same_outcome
from tests.shim.harness import flatten
from tests.tracer.harness import Outcome


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
        theirs, their_prints = observed(user, user, theirs_arguments)
        ours, our_prints = observed(compiled, user, calls.put(ours_arguments))
        expected = moved(calls, theirs)
        same_outcome(with_scalars(moved(calls, ours), expected), expected, program.is_exact)
        assert len(our_prints) == len(their_prints)
        compare_values(scalars(calls.get(our_prints), calls.get(their_prints)), calls.get(their_prints), program.is_exact)


def moved(calls: There, outcome: Outcome) -> Outcome:  # noqa: F811
    memories: dict[int, np.ndarray] = {}
    return Outcome(calls.get(outcome.value, memories), outcome.error, outcome.line, calls.get(outcome.arguments, memories))


def with_scalars(ours: Outcome, theirs: Outcome) -> Outcome:
    value, arguments = scalars(ours.value, theirs.value), scalars(ours.arguments, theirs.arguments)
    return Outcome(value, ours.error, ours.line, arguments)


def scalars(ours: Any, theirs: Any) -> Any:
    """Arrays of no dimensions as the scalars that they stand for, where NumPy has such."""
    if type(ours) in (list, tuple) and type(ours) is type(theirs):
        return type(ours)(scalars(a, b) for a, b in zip(ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {k: scalars(v, theirs.get(k)) for k, v in ours.items()}
    return ours[()] if isinstance(theirs, np.generic) and isinstance(ours, np.ndarray) and not ours.ndim else ours


def test_random_programs(calls: There) -> None:  # noqa: F811
    @settings(max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(random_programs())
    def agrees(program: Program) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_program(program, calls)

    agrees()
