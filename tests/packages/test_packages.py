"""A few files of packages' own tests, plain and with all their functions compiled: see README.md."""

from __future__ import annotations

import pytest

from tests.packages.__main__ import compare

SHORT = [
    ("networkx.classes.tests.test_graph", 0, ""),  # descriptors, caches, dictionaries that change while they are gone over
    ("scipy.signal.tests.test_windows", 1, ""),
    ("scipy.integrate.tests.test_quadrature", 2, "simpson or trapezoid or cumulative or tanhsinh"),
]


@pytest.mark.parametrize(("suite", "cases", "select"), SHORT, ids=[suite for suite, _, _ in SHORT])
def test_what_passes_plain_passes_compiled(suite: str, cases: int, select: str, capsys: pytest.CaptureFixture[str]) -> None:
    lost = compare(suite, cases=cases, select=select)
    assert not lost, capsys.readouterr().out
