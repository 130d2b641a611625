"""Loops whose body is one expression, compared with Python: what they give, its layout and its base, errors and warnings."""

from __future__ import annotations

import types
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import npcompile as npc
from tests.native_loops.agreement import by_six, cloned, is_error, outcome, same
from tests.native_loops.random.generate import LoopProgram
from tests.native_loops.test_native_loops import native_loops

SOURCE = """\
def program(A, x, f, n):
    last = A
    for k in range(n):
        last = {expression}
        {statement}
    return last
"""


def loop_over(expression: str, statement: str = "pass") -> types.FunctionType:
    return LoopProgram(SOURCE.format(expression=expression, statement=statement), ()).function()


def ownership(value: Any) -> Any:
    """Of an array with elements: has it memory of its own, may it be written, and of what shape is its base?"""
    if isinstance(value, tuple):
        return tuple(map(ownership, value))
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    return value.flags.owndata, value.flags.writeable, None if value.base is None else value.base.shape


def nearly_same(ours: Any, theirs: Any) -> bool:
    """Where the order of additions decides the last bits."""
    if type(ours) is not type(theirs):
        return False
    if not isinstance(theirs, (np.ndarray, np.generic)):
        return same(ours, theirs)
    tolerance = 1e-4 if theirs.dtype == np.float32 else 1e-12
    close = np.allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True) if theirs.dtype.kind == "f" else None
    is_equal = bool(np.array_equal(ours, theirs)) if close is None else close
    are_ordered = ours.flags.c_contiguous == theirs.flags.c_contiguous and ours.flags.f_contiguous == theirs.flags.f_contiguous
    return is_equal and are_ordered and (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)


def calls(A: np.ndarray, x: np.ndarray) -> list[tuple[Any, ...]]:
    """The vectors of flags have changed when the program is known."""
    return [(A, x, (np.arange(x.size) * (call + 3)) % 4 > call, 24) for call in range(3)]


def agree_on(
    expression: str | Sequence[str],
    A: np.ndarray,
    x: np.ndarray,
    statement: str = "pass",
    *,
    exactly: bool = True,
    is_native: bool = True,
) -> None:
    """Three calls of the loop. Of several expressions it makes a tuple."""
    expressions = [expression] if isinstance(expression, str) else expression
    user = loop_over(expression if isinstance(expression, str) else f"({', '.join(expression)},)", statement)
    compiled = npc.compile(user)
    alike = same if exactly else nearly_same
    for arguments in calls(A, x):
        theirs = outcome(user, user, cloned(arguments))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*npcompile.config.recompile_limit")
            ours = outcome(compiled, user, cloned(arguments))
        made = ([ours[0]], [theirs[0]]) if isinstance(expression, str) else (ours[0], theirs[0])
        for e, a, b in zip(expressions, *made, strict=True):
            assert alike(a, b), f"{e}: {a!r} where Python gives {b!r}"
            assert not is_native or ownership(a) == ownership(b), f"{e} has another base"
        assert same(ours[1], theirs[1]) and ours[2] == theirs[2], f"{expression}: {ours[1:]!r} where Python gives {theirs[1:]!r}"
    assert not is_native or native_loops(compiled) >= 1, f"{expression} is not native"


def agree_on_all(expressions: Sequence[str], A: np.ndarray, x: np.ndarray, *, exactly: bool = True) -> None:
    """All are native. Those that are no errors share loops."""
    users = {e: loop_over(e) for e in expressions}
    fail = [e for e, user in users.items() if any(is_error(outcome(user, user, cloned(given))[0]) for given in calls(A, x))]
    others = [e for e in expressions if e not in fail]
    for together in [*fail, *by_six(others)]:
        agree_on(together, A, x, exactly=exactly)
