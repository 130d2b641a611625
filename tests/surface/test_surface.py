"""docs/numpy-support.md is what the command finds, every public function has a call, and the targets hold."""

from __future__ import annotations

from collections import Counter

from tests.surface.calls import SECTIONS
from tests.surface.kinds import without_calls
from tests.surface.measure import Measured, measure_all
from tests.surface.page import PAGE, committed_versions, kind_of, page, versions

LEAST = {"numpy: ufuncs": 0.99, "numpy: functions": 0.95}  # of the names are in the graph: isnat is about dates


def test_what_the_command_finds() -> None:
    """In one test: what is measured takes long, and tests that share it may run in several processes."""
    measured = measure_all()
    as_many_names_are_in_the_graph(measured)
    breaks_say_why(measured)
    if committed_versions() != versions():
        assert committed_versions().startswith("NumPy ")
        return  # the other NumPy has other functions in Python, which break elsewhere
    assert PAGE.read_text() == page(measured), "run python -m tests.surface"


def test_every_function_has_a_call() -> None:
    if committed_versions() == versions():
        assert without_calls() == []


def as_many_names_are_in_the_graph(measured: dict[str, dict[str, list[Measured]]]) -> None:
    for section, least in LEAST.items():
        found = Counter(map(kind_of, measured[section].values()))
        assert found["compiled"] + found["with NumPy"] >= least * len(measured[section]), found


def breaks_say_why(measured: dict[str, dict[str, list[Measured]]]) -> None:
    """And a call that is in the graph is one graph at most, without a second program after it."""
    for names in measured.values():
        for calls in names.values():
            for call in calls:
                assert all(b.reason and b.location.line for b in call.breaks), call
                assert call.breaks or call.graphs <= 1, call


def test_ufuncs_are_all_there() -> None:
    assert len(SECTIONS["numpy: ufuncs"]) >= 100
