"""SciPy's functions give what they give uncompiled, and are captured no worse than docs/coverage.md says."""

import dataclasses

import pytest

from tests.scipy_functions import SAMPLES
from tests.scipy_functions.coverage import committed, versions
from tests.scipy_functions.measure import measure

WRITTEN_WITH, ROWS = committed()
REWRITE = "python -m tests.scipy_functions.coverage writes docs/coverage.md anew"


@pytest.mark.parametrize("name", SAMPLES)
def test_function(name):
    """All calls, with the captured graphs run by NumPy."""
    measured = measure(SAMPLES[name], backend="eager")
    assert not measured.problems, "\n".join(measured.problems)
    if WRITTEN_WITH == versions():  # other versions of SciPy have other lines
        row, breaks = ROWS[name], len(measured.breaks)
        found = "\n".join(map(str, measured.breaks))
        assert breaks <= row.breaks, f"{breaks} breaks instead of {row.breaks}:\n{found}"
        assert measured.graphs <= row.graphs or breaks < row.breaks, f"{measured.graphs} graphs instead of {row.graphs}:\n{found}"


@pytest.mark.parametrize("name", SAMPLES)
def test_compiled(name):
    """The first call, with the graphs compiled."""
    sample = SAMPLES[name]
    measured = measure(dataclasses.replace(sample, calls=sample.calls[:1]))
    assert not measured.problems, "\n".join(measured.problems)


def test_page_has_these_functions_and_calls():
    assert {n: r.calls for n, r in ROWS.items()} == {n: len(s.calls) for n, s in SAMPLES.items()}, REWRITE
