"""On a Python whose bytecode nobody has looked at functions run as they are, with one warning, and nothing crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npcompile.tracer.bytecode.versions import WHY_UNKNOWN

PROGRAM = Path(__file__).with_name("on_unknown_python.py")


def run(planted: str, *options: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parents[1])}
    command = [sys.executable, *options, str(PROGRAM), planted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("planted", "name"),
    [("version", "CPython 3.99"), ("opcodes", "CPython 3.99"), ("free-threaded", "a free-threaded build of CPython")],
)
def test_functions_run_as_they_are(planted, name):
    (warning,) = run(planted).splitlines()
    assert warning.startswith(f"RuntimeWarning at {PROGRAM}:")
    assert "and this is" in warning and name in warning
    assert "functions run uncompiled" in warning


def test_the_program_is_right_as_it_is():
    """Compiled, on a Python that is known."""
    said = run("").splitlines()
    assert len(said) == bool(WHY_UNKNOWN) and all(str(WHY_UNKNOWN) in line for line in said)
