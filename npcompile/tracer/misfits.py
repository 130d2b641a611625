"""A program is to fit the values that it was captured from: one whose guards do not hold for them is a mistake of ours.

Nothing else would notice: the call would be captured again and again, until there are as many programs as there may be.
"""

from __future__ import annotations

from typing import Any

from npcompile.logs import log
from npcompile.tensor_core.user_warnings import GENERATED
from npcompile.tracer.faults import is_fault
from npcompile.tracer.recompiles import why_not
from npcompile.tracer.variant import Variant

MOST = 3  # in a row: another thread may have changed what a guard asks for since


def is_misfit(point: Any, made: Variant, state: tuple[Any, ...]) -> bool:
    """Do its guards not hold for the values that it was made for? The last of several in a row is an error."""
    if holds(point, made, state):
        point.misfits = 0
        return False
    point.misfits += 1
    name, values = point.function.code.co_qualname, dict(zip(point.parameters, state))
    why = why_not(made.guards, point.function.namespace, values, point.users_names)
    text = f"a program of {name} at {point.location} does not fit the values that it was made for: {why}"
    log("recompiles", lambda: text)
    if point.misfits >= MOST:
        raise AssertionError(text)
    return True


def holds(point: Any, made: Variant, state: tuple[Any, ...]) -> bool:
    """What the dispatch asks before it runs the program."""
    condition = " and ".join(map(str, made.conditions)) or "True"
    scope: dict[str, Any] = {}
    exec(
        compile(f"def holds({', '.join(point.parameters)}): return ({condition})", GENERATED, "exec"),
        point.function.namespace,
        scope,
    )
    try:
        return bool(scope["holds"](*state))
    except Exception as error:
        if not is_fault(error):
            raise
        return False
