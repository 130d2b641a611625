"""A pytest plugin: every test function is compiled before it runs, so that a suite nobody here wrote judges the tracer.

`pytest -p tests.numpy_compiled.compiled_tests --assert=plain --pyargs numpy._core.tests.test_umath`: a test that passes
uncompiled must pass. (pytest rewrites assert statements with calls of locals(), and functions that look at themselves are
not captured.)
`--npcompile-backend=cpu` takes another backend than the eager one. `--npcompile-anew` compiles each case of a parametrized
test for itself: else they share one function, whose guards tell the cases apart.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import npcompile
from npcompile.compiler import compiled_function
from npcompile.tracer import point


@dataclass(slots=True)
class Suite:
    """What was compiled of the tests that ran."""

    backend: str
    is_shared: bool
    compiled: dict[types.FunctionType, Any] = field(default_factory=dict)
    tests: int = 0
    graphs: int = 0
    ops: int = 0
    breaks: int = 0

    def compile(self, function: types.FunctionType) -> Any:
        known = self.compiled.get(function)
        if known is None or not self.is_shared:
            known = self.compiled[function] = npcompile.compile(function, backend=self.backend)
        return known


SUITE = pytest.StashKey[Suite]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--npcompile-backend", default="eager")
    parser.addoption("--npcompile-anew", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    point.warn_of_limit = lambda point, state: None  # tests count the warnings that they see
    config.stash[SUITE] = Suite(config.getoption("npcompile_backend"), not config.getoption("npcompile_anew"))
    npcompile.config.internal_errors = "raise"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    test, suite = pyfuncitem.obj, pyfuncitem.config.stash[SUITE]
    function = getattr(test, "__func__", test)
    if not isinstance(function, types.FunctionType):
        return (yield)
    compiled = suite.compile(function)
    pyfuncitem.obj = types.MethodType(compiled, test.__self__) if isinstance(test, types.MethodType) else compiled
    account = compiled_function(compiled)  # None: it runs as it is, and what it calls is compiled
    before = (0, 0, 0) if account is None else counted(account)
    try:
        return (yield)
    finally:
        if account is not None:
            graphs, ops, breaks = (new - old for new, old in zip(counted(account), before))
            suite.tests, suite.graphs, suite.ops = suite.tests + 1, suite.graphs + graphs, suite.ops + ops
            suite.breaks += breaks


def counted(account: Any) -> tuple[int, int, int]:
    return len(account.graphs), sum(n.op != "input" for g, _ in account.graphs for n in g.nodes), len(account.breaks)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    suite = config.stash[SUITE]
    counts = f"graphs: {suite.graphs}, ops: {suite.ops}, breaks: {suite.breaks}"
    terminalreporter.write_line(f"compiled tests: {suite.tests}, {counts}")
