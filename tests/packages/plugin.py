"""A pytest plugin that compiles every function of some packages before their own tests run.

    pytest -p tests.packages.plugin --compile=scipy.signal --outcomes=FILE --pyargs scipy.signal

`--compile` names packages, separated by commas; without it the same tests run plain. `npc.compile_package` compiles them, after
all their modules are imported. FILE gets one JSON line when a test starts and one when it ends, so that a crash names its test,
and one of what npcompile did at the end.
"""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
import signal
import sys
import time
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.packages import is_test

LONGEST = 600  # seconds of a test; then it has lost its way


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("npcompile")
    group.addoption("--compile", default="", help="packages whose functions are compiled, separated by commas")
    group.addoption("--outcomes", required=True, help="file that gets a JSON line for each event")
    group.addoption("--tiers", default="always", help='"measured": functions that are quicker as they are run so')
    group.addoption("--cases", type=int, default=0, help="at most so many cases of a parametrized test, spread over all")


def pytest_configure(config: pytest.Config) -> None:
    npc.config.tiers = config.getoption("tiers")
    names = [name for name in config.getoption("compile").split(",") if name]
    recorder = Recorder(open(config.getoption("outcomes"), "w", buffering=1))
    if names:
        import_all(names)
        settle(names)
        began = time.perf_counter()
        recorder.compiled = npc.compile_package(*names).functions
        recorder.write(event="compiled", functions=len(recorder.compiled), seconds=time.perf_counter() - began)
    config.pluginmanager.register(recorder)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The same tests plain and compiled: none that are marked as slow, and some cases of each."""
    items[:] = [item for item in items if not any(item.get_closest_marker(name) for name in ("slow", "xslow", "fail_slow"))]
    if most := config.getoption("cases"):
        cases: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            cases[item.nodeid.split("[")[0]].append(item)
        kept = {id(group[k * len(group) // most]) for group in cases.values() for k in range(most)}
        items[:] = [item for item in items if id(item) in kept]


class Recorder:
    """Writes what happens to each test, and what was compiled."""

    def __init__(self, file: TextIO):
        self.file = file
        self.compiled: list[types.FunctionType] = []
        self.processor = 0.0  # seconds of it that this process has taken for tests
        self.limits: list[str] = []  # what npcompile said of functions that met the recompile limit
        logger = logging.getLogger("npcompile.recompiles")
        logger.setLevel(logging.INFO)
        logger.addHandler(handler := logging.Handler())
        handler.emit = lambda record: self.hear(record.getMessage())  # type: ignore[method-assign]

    def hear(self, message: str) -> None:
        if "uncompiled for other arguments" in message:
            self.limits.append(message)

    def write(self, **facts: Any) -> None:
        self.file.write(json.dumps(facts) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        def end(*_: object) -> None:
            raise TimeoutError(f"{item.nodeid} has no end")

        before, began = signal.signal(signal.SIGALRM, end), time.process_time()
        signal.alarm(LONGEST)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            self.processor += time.process_time() - began
            signal.signal(signal.SIGALRM, before)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write(event="start", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            text = str(report.longrepr)[-4000:] if report.outcome == "failed" else ""
            self.write(event="end", test=report.nodeid, outcome=report.outcome, seconds=report.duration, text=text)

    def pytest_sessionfinish(self) -> None:
        called = [
            made
            for made in map(compiled_function, self.compiled)
            if made is not None and any(point.variants or point.is_native for point in made.points.values())
        ]
        breaks = Counter(stop.reason for made in called for stop in made.breaks)
        self.write(
            event="summary",
            called=len(called),
            processor=self.processor,
            limited=sum(any(point.is_native for point in made.points.values()) for made in called),
            limits=self.limits,
            graphs=sum(len(made.graphs) for made in called),
            breaks=dict(breaks.most_common(30)),
        )


def import_all(names: Iterable[str]) -> None:
    """The packages with all modules below them that can be imported here."""
    for name in names:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(package, "__path__", ()), name + ".", onerror=lambda _: None):
            if not is_test(found.name) and not found.name.rpartition(".")[2].startswith("__main"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        importlib.import_module(found.name)
                    except Exception as error:  # optional modules need what is not installed
                        print(f"{found.name} is not imported: {error!r}"[:150])


def settle(names: Iterable[str]) -> None:
    """networkx's decorators write a function's code at its first call: a compiled one, of the code before, would at each."""
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] in names]:
        for value in list(vars(module).values()):
            decorator = getattr(value, "__argmap__", None)
            if decorator is not None and value.__code__.co_qualname == "argmap.__call__.<locals>.func":
                decorator._lazy_compile(value)
