"""Warnings of npcompile: one each, at the user's line, after everything is in order, and never an exception of the program's."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core import user_warnings
from npcompile.tracer.variant_source import Emitter

X = np.arange(4.0)


def sized(x):
    return x * 2 + len(x)


def compiled_for_each_size() -> Any:
    return npc.compile(sized, backend="eager", dynamic=False)


def at_the_limit() -> Any:
    compiled = compiled_for_each_size()
    with npc.config.patch(recompile_limit=1):
        for n in (4, 3, 2, 4, 3):
            np.testing.assert_array_equal(compiled(X[:n]), sized(X[:n]))
    return compiled


def test_the_limit_where_warnings_are_errors():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        compiled = at_the_limit()
    start = min(compiled_function(compiled).points.values(), key=lambda p: p.number)
    assert start.is_native
    assert len(start.variants) == 1
    (warning,) = said  # it is shown, to those who record what is shown too
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    assert "was compiled 1 times at test_own_warnings.py" in str(warning.message)


def test_ignored_warnings_stay_so(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at_the_limit()
    assert not capsys.readouterr().err


@pytest.mark.parametrize("kind", [RuntimeWarning, LookupError])
def test_a_hook_that_raises(kind, monkeypatch):
    def show(*args: Any, **kwargs: Any) -> None:
        raise kind("from the hook")

    monkeypatch.setattr(warnings, "showwarning", show)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        at_the_limit()


def test_faults_where_warnings_are_errors(monkeypatch):
    def planted(*args: Any) -> None:
        raise TypeError("planted")

    monkeypatch.setattr(Emitter, "graph_of", planted)
    compiled = compiled_for_each_size()
    with npc.config.patch(internal_errors="warn"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        for n in (4, 3, 4):
            np.testing.assert_array_equal(compiled(X[:n]), sized(X[:n]))
    (warning,) = said
    assert "TypeError: planted" in str(warning.message)


def test_a_hook_may_use_the_function_in_another_thread(monkeypatch):
    """No lock is held while a hook of the user's runs."""
    seen = []

    def show(*args: Any, **kwargs: Any) -> None:
        thread = threading.Thread(target=lambda: seen.append(compiled(X.astype(np.float32))))
        thread.start()
        thread.join(20)

    monkeypatch.setattr(warnings, "showwarning", show)
    compiled = compiled_for_each_size()
    with npc.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("always")
        for n in (4, 3):
            np.testing.assert_array_equal(compiled(X[:n]), sized(X[:n]))
    assert seen
    np.testing.assert_array_equal(seen[0], sized(X.astype(np.float32)))


def test_a_warning_waits_for_the_end_of_what_is_under_way():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with user_warnings.warnings_held():
            with user_warnings.warnings_held():
                user_warnings.warn_user("of the inner")
            user_warnings.warn_user("of the outer")
            assert not said
    assert [str(w.message) for w in said] == ["of the inner", "of the outer"]
    assert {w.filename for w in said} == {__file__}


PROGRAM = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "ziglang" else real(name, *rest)
import numpy as np, npcompile as npc
from npcompile.tensor_core.user_warnings import _warned

@npc.compile
def f(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] * 0.5
    return np.sin(x) * 2 + total, total

x = np.arange(5.0)
for _ in range(2):
    np.testing.assert_allclose(f(x)[0], np.sin(x) * 2 + 5.0)
"""


def run_with_errors(tmp_path: Path, **environment: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    root = str(Path(__file__).parents[1])
    settings = os.environ | {"PYTHONPATH": root, "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache")} | environment
    command = [sys.executable, "-W", "error::RuntimeWarning", str(path)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_no_compiler_where_warnings_are_errors(tmp_path):
    said = run_with_errors(tmp_path, CC=str(tmp_path / "missing"), PATH=str(tmp_path))
    assert said.count("RuntimeWarning") == 1
    assert "NumPy runs the captured graphs" in said
    assert f"{tmp_path}/program.py:" in said


def test_unsafe_cache_where_warnings_are_errors(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    said = run_with_errors(tmp_path, NPCOMPILE_CACHE_DIR=str(folder))
    assert said.count("RuntimeWarning") == 1
    assert f"does not use the cache directory {folder}" in said
    assert f"{tmp_path}/program.py:" in said
