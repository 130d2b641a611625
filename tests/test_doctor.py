"""The doctor names what is missing, says what to do, and its exit status tells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from npcompile.backends.cpu.c_library import mathematics, unit_of_calls
from npcompile.backends.cpu.compiler import Compiler
from npcompile.doctor import vector_mathematics

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


# A compiler whose C library lacks a function.
WITHOUT_TANH = """
cat > "$0.c"
grep -q npc_calls_tanh "$0.c" && { echo "undefined reference to tanh" >&2; exit 1; }
exec gcc "$@" < "$0.c"
"""


def hidden(folder: Path, *packages: str) -> str:
    """A folder for PYTHONPATH without which the packages could be imported."""
    (folder / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({packages}))")
    return str(folder)


def test_no_compiler(tmp_path: Path) -> None:
    nowhere = tmp_path / "no-such-compiler"
    status, text = doctor(tmp_path / "cache", CC=str(nowhere), PYTHONPATH=hidden(tmp_path, "ziglang"))
    assert status == 1
    assert f"-> CC={nowhere} names no program: unset CC" in text
    assert "a compiled function answers as NumPy does" in text


def test_a_missing_dependency(tmp_path: Path) -> None:
    status, text = doctor(tmp_path / "cache", PYTHONPATH=hidden(tmp_path, "platformdirs"))
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


def test_packages_that_nothing_imports_are_not_needed(tmp_path: Path) -> None:
    status, text = doctor(tmp_path / "cache", PYTHONPATH=hidden(tmp_path, "scipy", "bytecode", "filelock"))
    assert (status, text.splitlines()[-1]) == (0, "all is well"), text


def test_the_compiler_and_its_version_are_named(tmp_path: Path) -> None:
    _, text = doctor(tmp_path / "cache", CC="gcc")
    version = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    assert f"C compiler         {version}" in text
    assert "it has every mathematical function" in text


@pytest.mark.parametrize(
    ("script", "advised"),
    [
        ("echo '/usr/bin/ld: cannot find Scrt1.o: No such file or directory' >&2; exit 1", "apt-get install libc6-dev"),
        ("echo 'Fatal error: /tmp/cc.s: No space left on device' >&2; exit 1", "set TMPDIR"),
        ("echo 'gcc: fatal error: cannot execute cc1' >&2; exit 1", "install it again"),
        ("echo 'something else' >&2; exit 1", "point CC at another compiler"),
        (WITHOUT_TANH, "has not all functions"),
    ],
)
def test_advice_for_a_compiler_that_fails(script: str, advised: str, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    status, text = doctor(tmp_path / "cache", CC=str(compiler), PYTHONPATH=hidden(tmp_path, "ziglang"))
    assert status == 1
    assert re.search(rf"C compiler .*(\n.*)*-> .*{advised}", text), text
    assert "-> install one" not in text


def test_the_unit_of_calls_calls_all_that_is_declared() -> None:
    text = unit_of_calls()
    assert all(f"return {name}(" in text for name in mathematics())


def test_what_computes_one_number_at_a_time_is_said() -> None:
    gcc = Compiler(("gcc",), "", (), ("-lmvec", "-lm"), calls_vector_forms=True)
    clang, musl = replace(gcc, calls_vector_forms=False), replace(gcc, libraries=("-lm",))
    assert not list(vector_mathematics(gcc))
    for compiler, why, last in ((clang, "calls none of libmvec's", "tanh and pow"), (musl, "no libmvec", "cos and tan")):
        (found,) = vector_mathematics(compiler)
        assert why in found.text and f"{last} are npcompile's own" in found.text and not found.remedy
