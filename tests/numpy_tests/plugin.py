"""A pytest plugin: NumPy's own installed tests against another namespace.

    pytest -p tests.numpy_tests.plugin --namespace npcompile.numpy_shim --pyargs numpy._core.tests.test_umath

Where a test module imports NumPy, or from it, it gets the namespace: class bodies and parameters are made with it as well. With
`--namespace numpy` what fails does so without Tensors. `--outcomes FILE` writes the outcome and message of each test as JSON.
"""

from __future__ import annotations

import builtins
import importlib
import json
import operator
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PARTS = ("linalg", "fft", "random", "testing", "lib", "lib.stride_tricks")  # modules that the namespace has in NumPy's place
outcomes: dict[str, dict[str, tuple[str, str]]] = {}  # module, test -> passed, failed or skipped, and the message of what failed
replaced: list[str] = []  # modules that got the namespace


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--namespace", default="npcompile.numpy_shim", help="module to run NumPy's tests against")
    parser.addoption("--outcomes", default=None, help="file for the outcome of each test")


def importing(namespace: types.ModuleType) -> Callable[..., Any]:
    """`__import__` for modules whose NumPy is the namespace."""

    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        found = builtins.__import__(name, globals, locals, fromlist, level)
        if level or name.partition(".")[0] != "numpy":
            return found
        part = name.partition(".")[2] if fromlist else ""
        return operator.attrgetter(part)(namespace) if part in PARTS else found if part else namespace

    return import_


def pytest_configure(config: pytest.Config) -> None:
    namespace = importlib.import_module(config.getoption("--namespace"))
    loader: Any = config.pluginmanager.rewrite_hook  # of test modules, whose assertions pytest rewrites
    execute = loader.exec_module

    def with_namespace(module: types.ModuleType) -> None:
        path = Path(str(module.__file__))
        if "numpy" in path.parts and path.parent.name == "tests" and path.name.startswith("test_"):
            replaced.append(module.__name__)
            module.__dict__["__builtins__"] = vars(builtins) | {"__import__": importing(namespace)}
        execute(module)

    loader.exec_module = with_namespace


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # What is expected to fail is skipped to pytest; where it passes nevertheless, it has failed.
    name = report.nodeid.partition("::")[2]
    path = report.location[0].removesuffix(".py").rpartition("/numpy/")[2]
    of_module = outcomes.setdefault(f"numpy.{path.replace('/', '.')}", {})
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        of_module[name] = ("failed", str(crash.message if crash else report.longrepr)[:1000])
    elif of_module.get(name, ("passed",))[0] == "passed":
        of_module[name] = (report.outcome, "")


def pytest_sessionfinish(session: pytest.Session) -> None:
    assert replaced, "no module of NumPy's tests got the namespace"
    if path := session.config.getoption("--outcomes"):
        Path(path).write_text(json.dumps(outcomes, indent=0))
