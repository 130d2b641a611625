"""A pytest plugin that compiles every function of some packages before their own tests run.

    pytest -p tests.packages.plugin --compile=scipy.signal --outcomes=FILE --pyargs scipy.signal

`--compile` names packages, separated by commas; without it the same tests run plain. Functions are replaced wherever they are
kept: in modules, classes, properties, closures, containers. FILE gets one JSON line when a test starts and one when it ends,
so that a crash names its test, and one of what npcompile did at the end.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
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

MOST_ITEMS = 3000  # of a container that is searched for functions
MOST_LEVELS = 4  # of containers in containers
WRAPPERS = (staticmethod, classmethod)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("npcompile")
    group.addoption("--compile", default="", help="packages whose functions are compiled, separated by commas")
    group.addoption("--outcomes", required=True, help="file that gets a JSON line for each event")
    group.addoption("--cases", type=int, default=0, help="at most so many cases of a parametrized test, spread over all")


def pytest_configure(config: pytest.Config) -> None:
    names = [name for name in config.getoption("compile").split(",") if name]
    recorder = Recorder(open(config.getoption("outcomes"), "w", buffering=1))
    if names:
        import_all(names)
        began = time.perf_counter()
        recorder.compiled = Replacement(names).replace_all()
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

    def write(self, **facts: Any) -> None:
        self.file.write(json.dumps(facts) + "\n")

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
            limited=sum(any(point.is_native for point in made.points.values()) for made in called),
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


def is_test(module: str) -> bool:
    parts = module.split(".")
    return any(part in ("tests", "test", "testing", "conftest") or part.startswith("test_") for part in parts)


class Replacement:
    """The functions of packages, and where they are kept."""

    def __init__(self, names: list[str]):
        self.names = names
        self.functions: dict[int, types.FunctionType] = {}
        self.classes: dict[int, type] = {}
        self.new: dict[int, types.FunctionType] = {}  # id of a function -> what replaces it

    def is_ours(self, module: Any) -> bool:
        return isinstance(module, str) and not is_test(module) and any(f"{module}.".startswith(f"{n}.") for n in self.names)

    def replace_all(self) -> list[types.FunctionType]:
        """The compiled functions, which are now where the plain ones were."""
        modules = [
            module for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType) and self.is_ours(name)
        ]
        self.find(value for module in modules for value in vars(module).values())
        for key, function in self.functions.items():
            made = npc.compile(function)
            if made is not function:
                self.new[key] = made
        for module in list(sys.modules.values()):
            if isinstance(module, types.ModuleType) and module.__name__.partition(".")[0] not in (
                "npcompile",
                "tests",
                "_pytest",
            ):
                for name, value in list(vars(module).items()):
                    if isinstance(value, types.FunctionType) and id(value) in self.new:
                        setattr(module, name, self.new[id(value)])
        for owner in self.classes.values():
            for name, value in list(vars(owner).items()):
                if (changed := self.attribute(value)) is not value:
                    setattr(owner, name, changed)
        tops = {name.partition(".")[0] for name in self.names}  # whose other modules may have tables of functions
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in tops and isinstance(module, types.ModuleType):
                for value in list(vars(module).values()):
                    self.inside(value)
        for function in self.functions.values():
            for cell in contents(function):
                cell.cell_contents = self.of(cell.cell_contents)
        return list(self.new.values())

    def find(self, values: Iterable[Any]) -> None:
        pending, seen = list(values), set()
        while pending:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, types.FunctionType):
                if self.is_ours(value.__globals__.get("__name__")):
                    self.functions[id(value)] = value
                pending += [cell.cell_contents for cell in contents(value)]
                pending.append(getattr(value, "__wrapped__", None))
            elif isinstance(value, type):
                if self.is_ours(value.__module__):
                    self.classes[id(value)] = value
                    pending += vars(value).values()
            elif isinstance(value, (*WRAPPERS, types.MethodType)):
                pending.append(value.__func__)
            elif isinstance(value, property):
                pending += [value.fget, value.fset, value.fdel]
            elif isinstance(value, functools.partial):
                pending.append(value.func)
            elif type(value) in (dict, list, tuple) and len(value) < MOST_ITEMS:
                pending += value.values() if isinstance(value, dict) else value

    def of(self, value: Any) -> Any:
        return self.new.get(id(value), value) if isinstance(value, types.FunctionType) else value

    def attribute(self, value: Any) -> Any:
        """What a class has in place of `value`."""
        if type(value) in WRAPPERS and self.of(value.__func__) is not value.__func__:
            return type(value)(self.of(value.__func__))
        if type(value) is property:
            parts = [value.fget, value.fset, value.fdel]
            return property(*map(self.of, parts), doc=value.__doc__) if any(self.of(p) is not p for p in parts) else value
        if type(value) is functools.cached_property:
            value.func = self.of(value.func)
        return self.of(value)

    def inside(self, value: Any, level: int = 0) -> Any:
        """What is in a container in place of `value`; lists and dictionaries change in place."""
        if level == MOST_LEVELS or type(value) not in (dict, list, tuple) or len(value) > MOST_ITEMS:
            return self.of(value)
        if isinstance(value, tuple):
            made = tuple(self.inside(item, level + 1) for item in value)
            return made if any(x is not y for x, y in zip(value, made)) else value
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if (made := self.inside(item, level + 1)) is not item:
                value[key] = made
            if isinstance(value, dict) and self.of(key) is not key:
                value[self.of(key)] = value[key]
        return value


def contents(function: types.FunctionType) -> Iterator[types.CellType]:
    """The cells of a function that hold something."""
    for cell in function.__closure__ or ():
        try:
            cell.cell_contents
        except ValueError:
            continue
        yield cell
