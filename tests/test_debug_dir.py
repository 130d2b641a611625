"""`config.debug_dir`: files about each function, whose names stay, and nothing anywhere else."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import loader as loader_module
from npcompile.backends.errors import CompilerError
from npcompile.tensor_core.events import WATCHERS
from tests.fuzz.programs import define

X, LONG = np.linspace(0.5, 1.5, 5), np.linspace(0.5, 1.5, 100)


@pytest.fixture
def folder(tmp_path: Path):
    with npc.config.patch(debug_dir=tmp_path / "debug"):
        yield tmp_path / "debug"
    assert not WATCHERS


def texts(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def breaking(x):
    y = np.exp(x) * 0.1234
    print(end="")
    return y + x


def summing(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] * 0.4321
    return total


def test_a_function_with_a_break(folder: Path):
    compiled = npc.compile(breaking)
    compiled(X)
    name = f"test_debug_dir.breaking.{breaking.__code__.co_firstlineno}"
    found = {path.removeprefix(f"{name}/"): text for path, text in texts(folder).items()}
    files = ("generated.txt", "graph.txt", "guards.txt", "program.py", "unit_0.c", "unit_0_compiler.txt")
    assert sorted(found) == ["explain.txt", *(f"program_{k}/{each}" for k in range(2) for each in files)]
    assert "exp(" in found["program_0/graph.txt"] and "add(" in found["program_1/graph.txt"]
    line = breaking.__code__.co_firstlineno
    assert found["program_0/guards.txt"].startswith(f"A program for calls that come to test_debug_dir.py:{line} with:")
    assert "x: float64 array of shape (5,), C-contiguous" in found["program_0/guards.txt"]
    assert f"It ends at a break: print is not captured (test_debug_dir.py:{line + 2})" in found["program_0/guards.txt"]
    assert found["explain.txt"].startswith("breaking: 2 graphs, 1 break\n")
    assert "npc_run" in found["program_0/unit_0.c"]
    assert found["program_0/unit_0.c"].strip().endswith(found["program_0/generated.txt"].rpartition("*/\n")[2].strip()[-500:])
    assert " -o unit.so - " in found["program_0/unit_0_compiler.txt"]
    compiled(X)
    assert texts(folder).keys() == {f"{name}/{path}" for path in found}


def test_what_a_compiler_said(folder: Path):
    compiled = npc.compile(define(f"def new(x):\n    return x * {time.time_ns()}.0 - 1\n", "new", "new.py"))  # no cache has it
    compiled(X)
    npc.reset()
    gc.collect()
    compiled(X)
    first, second = [text for name, text in texts(folder).items() if name.endswith("unit_0_compiler.txt")]
    assert "no compiler has run" not in first and second.endswith("It was found in the cache: no compiler has run.\n")


def test_loops_and_their_gradients(folder: Path):
    npc.compile(summing)(LONG)
    npc.grad(summing)(LONG)
    found = texts(folder / f"test_debug_dir.summing.{summing.__code__.co_firstlineno}")
    assert "program_0/unit_0.c" in found and "program_0/graph.txt" not in found
    loops = [text for name, text in found.items() if name.endswith("loop_ir_0.txt")]
    assert loops and all("for " in text for text in loops)
    assert "compiled loop: the function at test_debug_dir.py" in found["explain.txt"]


def test_a_unit_that_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    text = loader_module.PRELUDE
    monkeypatch.setattr(loader_module, "PRELUDE", f"{text}\n#error {time.time_ns()} of mine\n")
    with pytest.raises(CompilerError):
        npc.compile(lambda x: x * 0.777)(X)
    [said] = [text for name, text in texts(folder).items() if name.endswith("_compiler.txt")]
    assert " of mine" in said and not said.endswith("It said nothing.\n")


def test_nothing_is_written_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    npc.compile(breaking)(X[:4])
    assert not list(tmp_path.iterdir())


def test_no_text_names_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    loop = "    for k in range(len(x)):\n        total += x[k]\n"
    source = f"def mine(x):\n    total = 0.0\n{loop}    print(end='')\n    return x + total\n"
    function = define(source, "mine", str(home / "secret" / "script.py"))
    with npc.config.patch(debug_dir=tmp_path / "debug"):
        npc.compile(function)(LONG)
        npc.grad(lambda x: function.__globals__["np"].sum(x * x))(X)
    found = texts(tmp_path / "debug")
    assert any(name.startswith("script.mine.1/") for name in found)
    assert not [name for name, text in found.items() if str(home) in text]


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        npc.config.patch(debug_dir=tmp_path / "file"),
        pytest.warns(RuntimeWarning, match=r"npcompile\.config\.debug_dir: .*file"),
    ):
        assert npc.compile(lambda x: x + 0.3)(X)[0] == 0.8


PROGRAM = """
import numpy as np
import npcompile as npc

f = npc.compile(lambda x: np.sin(x) + 1)
f(np.zeros(2))
"""


@pytest.mark.parametrize("is_set", [True, False])
def test_the_environment(tmp_path: Path, is_set: bool):
    environment = {**os.environ, "NPCOMPILE_DEBUG_DIR": "debug" if is_set else "", "PYTHONPATH": str(Path(__file__).parents[1])}
    for _ in range(2):  # the names are those of the first run
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert not done.stderr
        names = [name for name in texts(tmp_path) if name.endswith("graph.txt")]
        assert names == (["debug/_string_._lambda_.5/program_0/graph.txt"] if is_set else [])


@pytest.mark.parametrize("value", [3, "", True])
def test_what_it_may_be(value):
    with pytest.raises(ValueError, match="debug_dir is the path of a folder"):
        npc.config.debug_dir = value
