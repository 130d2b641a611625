"""Drawn calls of every captured form: the same as NumPy's, or declined. Never a guess.

`python -m tests.shim.keywords 500` draws more of them, for as long as one likes.
"""

from __future__ import annotations

from inspect import Parameter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npcompile.numpy_shim.registry import ATTRIBUTES, FUNCTIONS, METHODS
from npcompile.numpy_shim.ufunc_methods import UFUNC_METHODS
from tests.shim.keywords.calls import NOT_DRAWN, Call, draw_call, entries
from tests.shim.keywords.outcomes import check_call

EXAMPLES = 15


def test_every_captured_form_is_drawn() -> None:
    """Also with each of its parameters: `entries()` raises KeyError for one that has no strategy."""
    drawn = entries()
    captured = {id(e.captured) for e in drawn.values()}
    left_out = [f.__name__ for f, form in FUNCTIONS.items() if id(form) not in captured and f.__name__ not in NOT_DRAWN]
    assert not left_out
    assert all(f"ndarray.{name}" in drawn for name in (*METHODS, *ATTRIBUTES))
    assert all(f"ufunc.{name}" in drawn for name in UFUNC_METHODS)
    for entry in drawn.values():
        assert not any(p.kind is Parameter.VAR_KEYWORD for p, _ in entry.parameters), entry.name


@st.composite
def calls(draw: st.DrawFn, name: str) -> Call:
    return draw_call(entries()[name], lambda low, high: draw(st.integers(low, high)))


@pytest.mark.parametrize("name", entries())
def test_calls(name: str) -> None:
    @settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(calls(name), st.booleans(), st.sampled_from([1, -1, 5]))
    def agrees(call: Call, symbolic: bool, other: int) -> None:
        check_call(call, symbolic, other)

    agrees()
