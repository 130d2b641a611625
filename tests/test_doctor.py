"""The doctor names what is missing, says what to do, and its exit status tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def doctor(cache: Path, **environment: str) -> tuple[int, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("NPCOMPILE_", "OMP_")) and name != "CC"
    }
    done = subprocess.run(
        [sys.executable, "-m", "npcompile.doctor"],
        cwd=ROOT,
        env=inherited | {"NPCOMPILE_CACHE_DIR": str(cache)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_a_whole_machine_is_well(tmp_path: Path) -> None:
    status, text = doctor(tmp_path / "cache", OMP_NUM_THREADS="1")
    assert (status, text.splitlines()[-1]) == (0, "all is well"), text
    assert "1 (OMP_NUM_THREADS=1)" in text
    assert "a compiled function answers as NumPy does" in text


def test_no_compiler(tmp_path: Path) -> None:
    status, text = doctor(tmp_path / "cache", CC=str(tmp_path / "no-such-compiler"))
    assert status == 1
    assert "-> install one" in text
    assert "a compiled function answers as NumPy does" in text


def test_a_missing_dependency(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['platformdirs'] = None")
    status, text = doctor(tmp_path / "cache", PYTHONPATH=str(tmp_path))
    assert status == 1
    assert "-> pip install platformdirs" in text
    assert "The rest was not looked at" in text


def test_a_cache_that_others_may_write(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    status, text = doctor(tmp_path / "cache")
    assert status == 1
    assert "others may write to it" in text
    assert "NPCOMPILE_CACHE_DIR" in text
