"""Which NumPy scalar a branch on array data chooses: one object of two, or a new one."""

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.breaks.test_branches import conditions_in


def one_scalar_or_another(x, y):
    chosen = x if y > 0 else x + 1
    return chosen is x, chosen * 2


def one_scalar_or_another_leaves(x, y):
    chosen = x if y > 0 else x + 1
    return chosen is not None, chosen, x


def one_scalar_or_another_before_a_break(x, y):
    chosen = x if y > 0 else y
    npc.graph_break()
    return chosen is x, chosen is y, chosen in [x]


def one_scalar_or_another_made_before(x, y):
    before = x * 2
    chosen = before if y > 0 else before + 1
    return chosen, before


def one_scalar_or_another_changed(x, y):
    chosen = x
    if y.sum() > 0:
        pass
    else:
        chosen += -1
    return (y, 1) if x is chosen else (x, 2)


def one_scalar_or_another_for_numbers(x, y):
    """Which object it is nobody sees: the branch is part of the graph."""
    chosen = x if y > 0 else x + 1
    return chosen * 2, x


SCALARS = [
    one_scalar_or_another, one_scalar_or_another_leaves, one_scalar_or_another_before_a_break,
    one_scalar_or_another_made_before, one_scalar_or_another_changed, one_scalar_or_another_for_numbers,
]  # fmt: skip


def outcome_of_scalars(function: Any, *given: Any) -> tuple[str, list[bool]]:
    """The results, and which of them and of the arguments are one object. Both booleans are, of Python."""
    results = function(*given)
    shown = [v for v in (*results, *given) if type(v) is not bool]
    return repr(results), [v is w for v in shown for w in shown]


@pytest.mark.parametrize("function", SCALARS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [np.float64, np.float16, np.array])
def test_scalars_are_the_objects_that_they_are(function: Any, kind: Any) -> None:
    compiled = npc.compile(function, backend="eager")
    for a, b in ((2.0, 1.0), (2.0, -1.0), (np.nan, 1.0), (np.nan, -1.0), (-3.0, 4.0)):
        theirs, ours = outcome_of_scalars(function, kind(a), kind(b)), outcome_of_scalars(compiled, kind(a), kind(b))
        assert ours == theirs
    if function is one_scalar_or_another_for_numbers and kind is not np.array:
        known = compiled_function(compiled)
        assert sum(conditions_in(graph) for graph, _ in known.graphs) and not known.breaks
