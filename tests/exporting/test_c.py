"""`to_c`: C99 that compilers warn of nothing in, and that gives Python's numbers to the bit."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.exporting.functions import CASES, Case, escape_times, fails, move_centres, orbit, random

COMPILERS = [found for name in ("gcc", "clang-16", "clang") if (found := shutil.which(name))]
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Werror", "-ffp-contract=off", "-fPIC", "-shared")
MAIN = Path(__file__).with_name("main.c")
OFFSETS = np.array([0.5, -np.inf, 2.0])


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def grow(n: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Memory of several kinds: arrays in loops, views of results, lists."""
    kept = []
    for i in range(n):
        row = np.zeros(i + 1)
        row[i] = x[i] * OFFSETS[0]
        kept.append(row[i] + i)
    out = np.ones((n, 2))
    for i in range(len(kept)):
        out[i, 1] = kept[i]
    return out, out[1:], kept[-1]


def narrow(a: np.ndarray, b: np.ndarray, u: np.ndarray, k: int) -> int:
    """Checked integers of several words."""
    total = 0
    for i in range(a.size):
        a[i] = a[i] * b[i] - b[i] + a[i]
        u[i] = u[i] + u[i] * u[i]
        total = total * k + int(a[i]) - i
    return total


def columns(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=1) + OFFSETS[2]


MORE = (
    Case(grow, lambda: (3, random(0, 5)), lambda: (5, random(1, 5))),
    Case(
        narrow,
        lambda: (np.arange(4, dtype="i4"), np.arange(4, dtype="i4"), np.arange(4, dtype="u8"), 3),
        lambda: (np.arange(4, dtype="i4"), np.arange(4, dtype="i4"), np.arange(4, dtype="u8"), 3),
    ),
    Case(columns, lambda: (random(0, 3, 4),), lambda: (random(0, 9, 300),)),
    Case(fails, lambda: (random(0, 5), 1, 1.0), lambda: (random(0, 5), 1, 1.0)),
)


@pytest.mark.skipif(not COMPILERS, reason="there is no compiler")
@pytest.mark.parametrize("case", (*CASES, *MORE), ids=lambda case: case.function.__name__)
def test_compilers_warn_of_nothing(case: Case, tmp_path: Path) -> None:
    exported = npc.export(case.function, *case.arguments())
    _, source, _ = exported.to_c(tmp_path)
    for compiler in COMPILERS:
        for level in ("-O0", "-O3"):
            run(compiler, *STRICT, level, "-o", tmp_path / "library.so", source, "-lm")
    text = source.read_text()
    assert "__builtin" not in text
    assert "rt->" not in text


def expected() -> list[str]:
    """What main.c prints, computed by Python."""
    times = np.zeros((12, 16), dtype=np.int64)
    inside = escape_times(-2.0, -1.25, 0.125, 100, times)
    path, last = orbit(np.array([1.0, 0.0, 0.0, 1.2]), 0.02, 30)
    points = np.array([(k * 7 % 11) / 16.0 + (k % 3) for k in range(40)]).reshape(20, 2)
    centres, labels = (np.arange(6) / 4.0).reshape(3, 2), np.zeros(20, dtype=np.int64)
    total = move_centres(points, centres, labels)
    line = fails.__code__.co_firstlineno + 5
    return [
        f"0 {inside} {' '.join(map(str, times.ravel()))}",
        f"0 30 2 {last.hex()} {' '.join(x.hex() for x in path.ravel().tolist())}",
        f"0 {total.hex()} {' '.join(x.hex() for x in centres.ravel().tolist())} {' '.join(map(str, labels))}",
        f"IndexError: an index is out of bounds (functions.py:{line}): 0x1p+0",
        "an array has another shape or order than is needed, or is written to and shares memory",
    ]


def numbers(line: str) -> list[str]:
    """C prints hexadecimal numbers without zeros at their ends."""
    return [float.fromhex(word).hex() if word.startswith(("0x", "-0x")) else word for word in line.split()]


@pytest.mark.skipif(not COMPILERS, reason="there is no compiler")
def test_a_main_program_of_c(tmp_path: Path) -> None:
    cases = [*CASES[:3], MORE[-1]]
    for case in cases:
        npc.export(case.function, *case.arguments()).to_c(tmp_path / case.function.__name__)
    names = [case.function.__name__ for case in cases]
    if shutil.which("cmake"):
        folders = "".join(f'add_subdirectory("{tmp_path / name}" {name})\n' for name in names)
        text = f"cmake_minimum_required(VERSION 3.10)\nproject(all C)\n{folders}add_executable(main {MAIN})\n"
        text += f"target_link_libraries(main {' '.join(names)})\n"
        (tmp_path / "CMakeLists.txt").write_text(text)
        run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
        run("cmake", "--build", tmp_path / "build")
        program = tmp_path / "build" / "main"
    else:
        program = tmp_path / "main"
        sources = [tmp_path / name / f"{name}.c" for name in names]
        run(COMPILERS[0], "-O2", "-ffp-contract=off", *(f"-I{s.parent}" for s in sources), "-o", program, MAIN, *sources, "-lm")
    found = run(program).splitlines()
    assert [*map(numbers, found)] == [*map(numbers, expected())]


def library(case: Case, folder: Path) -> ctypes.CDLL:
    _, source, _ = npc.export(case.function, *case.arguments()).to_c(folder, name="f")
    run(COMPILERS[0], *STRICT, "-O2", "-o", folder / "f.so", source, "-lm")
    return ctypes.CDLL(str(folder / "f.so"))


@pytest.mark.skipif(not COMPILERS, reason="there is no compiler")
def test_memory_is_the_callers_to_free(tmp_path: Path) -> None:
    """Results that share memory have it once."""

    class Vector(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("shape", ctypes.c_int64),
            ("strides", ctypes.c_int64),
            ("memory", ctypes.c_void_p),
        )

    class Matrix(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("shape", ctypes.c_int64 * 2),
            ("strides", ctypes.c_int64 * 2),
            ("memory", ctypes.c_void_p),
        )

    f, x, (n, given) = library(MORE[0], tmp_path), random(1, 5), MORE[0].others()
    whole, part, last = Matrix(), Matrix(), ctypes.c_double()
    vector = Vector(given.ctypes.data, 5, 8, None)
    assert f.f(ctypes.c_int64(n), ctypes.byref(vector), ctypes.byref(whole), ctypes.byref(part), ctypes.byref(last)) == 0
    out, rest, kept = grow(n, x)
    assert bytes(ctypes.string_at(whole.data, out.nbytes)) == out.tobytes()
    assert part.data == whole.data + 16
    assert (*part.shape, *part.strides) == (*rest.shape, *rest.strides)
    assert (whole.memory, part.memory) == (whole.data, None)
    assert last.value == kept
    ctypes.CDLL(None).free(ctypes.c_void_p(whole.memory))


@pytest.mark.parametrize("name", ["int", "exp", "npc_f", "two words", "é"])
def test_names_that_c_cannot_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a function of C"):
        npc.export(columns, random(0, 3, 4)).to_c(tmp_path, name=name)


def either(x: float) -> Any:
    if x > 0:
        return x
    return 1, 2


@pytest.mark.parametrize(("f", "args", "said"), [(either, (1.0,), "numbers and arrays of other types in other places")])
def test_what_is_no_c(f: Callable[..., Any], args: tuple[Any, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(npc.ExportError, match=said):
        npc.export(f, *args).to_c(tmp_path)
