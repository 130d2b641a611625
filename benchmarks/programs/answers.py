"""Whether a side's answer is NumPy's: exactly alike for npcompile, in values for a peer."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import disagreement
from benchmarks.programs.program import Program


def leaves(answer: Any) -> list[Any]:
    """What an answer is made of; a function that returns nothing answers with what it changed."""
    if isinstance(answer, (tuple, list)):
        return [leaf for item in answer for leaf in leaves(item)]
    return [] if answer is None else [answer]


def difference(program: Program, expected: Any, answer: Any, exact: bool) -> str | None:
    """Why `answer` is not NumPy's. None when it is.

    `exact` asks for the same types, dtypes and shapes, the same integers and booleans, and real numbers within the
    program's bound. A peer's numbers may have any type, and `program.unlike` of them may differ.
    """
    theirs, ours = leaves(expected), leaves(answer)
    if len(theirs) != len(ours):
        return f"{len(ours)} results, NumPy gives {len(theirs)}"
    for a, b in zip(theirs, ours):
        if wrong := different_leaf(program, a, b, exact):
            return wrong
    return None


def different_leaf(program: Program, expected: Any, answer: Any, exact: bool) -> str | None:
    given, wanted = np.asarray(answer), np.asarray(expected)
    if exact and wanted.dtype.kind in "biu":
        if type(answer) is not type(expected) or given.dtype != wanted.dtype or given.shape != wanted.shape:
            return f"{type(answer).__name__} {given.dtype}{given.shape}, NumPy gives {wanted.dtype}{wanted.shape}"
        return None if np.array_equal(given, wanted) else f"{np.sum(given != wanted)} integers differ"
    if not exact and program.unlike and given.shape == wanted.shape:
        share = np.mean(given.astype(float) != wanted.astype(float))
        return None if share <= program.unlike else f"differs in {share:.2%} of the elements"
    if exact and not isinstance(expected, (np.ndarray, np.generic)):
        return None if type(answer) is type(expected) and answer == expected else f"{answer!r}, NumPy gives {expected!r}"
    return disagreement(program.case("small"), expected, answer, exact)
