"""A pytest plugin: NumPy's own installed tests against another namespace.

    pytest -p tests.numpy_tests.plugin --namespace npcompile.numpy_shim --pyargs numpy._core.tests.test_umath

When the test modules are imported, their global names that are NumPy's (`np`, `numpy.linalg`, functions imported by name) are
replaced by those of the namespace. Class bodies have been evaluated with NumPy by then; functions among
the parameters are replaced. With `--namespace
numpy` what fails does so without Tensors. `--outcomes FILE` writes a JSON object: test id -> passed, failed or skipped.
"""

from __future__ import annotations

import importlib
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODULES = ("", "linalg", "fft", "random", "testing", "lib.stride_tricks", "emath")
outcomes: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--namespace", default="npcompile.numpy_shim", help="module to run NumPy's tests against")
    parser.addoption("--outcomes", default=None, help="file for the outcome of each test")


def attribute(module: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        module = getattr(module, name)
    return module


class Replacements:
    """NumPy's objects as the namespace has them."""

    def __init__(self, namespace: types.ModuleType):
        self.modules = {id(attribute(np, path)): attribute(namespace, path) for path in MODULES}
        self.natives = [(attribute(np, path), attribute(namespace, path)) for path in MODULES]

    def of(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            return self.modules.get(id(value), value)
        name = getattr(value, "__name__", None)
        if callable(value) and isinstance(name, str):
            for native, ours in self.natives:
                if getattr(native, name, None) is value:
                    return getattr(ours, name)
        return value


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    replacements = Replacements(importlib.import_module(config.getoption("--namespace")))
    for item in items:
        if (spec := getattr(item, "callspec", None)) is not None:
            spec.params.update({name: replacements.of(value) for name, value in spec.params.items()})
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        for name, value in list(vars(module).items()):
            setattr(module, name, replacements.of(value))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # xfailed tests are skipped ones to pytest; a test that should fail and passes is a failed one.
    if report.failed or outcomes.get(report.nodeid) is None:
        outcomes[report.nodeid] = report.outcome
    elif report.when == "call" and outcomes[report.nodeid] == "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--outcomes"):
        Path(path).write_text(json.dumps(outcomes, indent=0))
