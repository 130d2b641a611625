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
    pytest.importorskip(suite.partition(".")[0])
    lost = compare(suite, cases=cases, select=select)
    assert not lost, capsys.readouterr().out


def test_a_suite_that_does_not_run_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("scipy.no_such_package.tests.test_nothing", cases=1)
    assert compare("scipy.signal.tests.test_windows", cases=1, select="no_such_test") == ["scipy.signal.tests.test_windows plain"]
    assert "the plain run: no test passed" in capsys.readouterr().out
