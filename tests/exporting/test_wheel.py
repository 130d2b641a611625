"""`to_wheel`: what is installed gives what the function gives, where there is no compiler and no npcompile."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import pickle
import platform
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.c99 import in_wheels, wheel
from npcompile.backends.cpu.compiler import candidates
from npcompile.backends.errors import CompilerRefused
from tests.exporting.functions import CASES, fails, move_centres, random, same
from tests.exporting.test_c import MORE, columns, grow

pytestmark = pytest.mark.skipif(not any(candidates()), reason="there is no compiler")
X = np.arange(1.0, 6.0)
INSTALLED = """
import pickle, sys
sys.modules["npcompile"] = None
import numpy as np
calls, results = pickle.load(sys.stdin.buffer), []
for name, arguments in calls:
    found = getattr(__import__(name), name)(*arguments)
    results.append((found, arguments))
pickle.dump(results, sys.stdout.buffer)
"""


def test_installed_where_there_is_no_compiler(tmp_path: Path) -> None:
    cases = [*CASES, MORE[1], MORE[2]]
    wheels = [npc.export(case.function, *case.arguments()).to_wheel(tmp_path / "wheels") for case in cases]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=300)
    python = tmp_path / "venv" / "bin" / "python"
    numpys = Path(np.__file__).parent.parent
    place = tmp_path / "venv" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (place / "numpys.pth").write_text(f"{numpys}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-index", "--no-deps"]
    done = subprocess.run([*pip, *map(str, wheels)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    calls = [(case.function.__name__, case.others()) for case in cases]
    environment = {"PATH": str(tmp_path / "venv" / "bin"), "HOME": str(tmp_path)}
    command = [str(python), "-c", INSTALLED]
    ran = subprocess.run(
        command, input=pickle.dumps(calls), capture_output=True, env=environment, cwd=tmp_path, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    for case, (result, arguments) in zip(cases, pickle.loads(ran.stdout), strict=True):
        theirs = case.others()
        assert same(result, case.function(*theirs)), case.function.__name__
        assert same(arguments, theirs), case.function.__name__


def module(exported: npc.Exported, folder: Path, **how: Any) -> Any:
    """The module of a wheel, unpacked."""
    path = exported.to_wheel(folder, **how)
    with zipfile.ZipFile(path) as packed:
        packed.extractall(folder / "unpacked")
    name = path.name.partition("-")[0]
    spec = importlib.util.spec_from_file_location(
        name, folder / "unpacked" / name / "__init__.py", submodule_search_locations=[str(folder / "unpacked" / name)]
    )
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    finally:
        del sys.modules[name]
    return made


def test_files_of_a_wheel(tmp_path: Path) -> None:
    exported = npc.export(columns, random(0, 3, 4))
    path = exported.to_wheel(tmp_path, version="2.3.1")
    again = exported.to_wheel(tmp_path / "again", version="2.3.1")
    assert path.name == f"columns-2.3.1-py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}.whl"
    with zipfile.ZipFile(path) as packed, zipfile.ZipFile(again) as other:
        assert packed.namelist() == other.namelist()
        rows = [line.split(",") for line in packed.read("columns-2.3.1.dist-info/RECORD").decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(packed.namelist())
        for name, digest, size in rows[:-1]:
            data = packed.read(name)
            assert int(size) == len(data)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        metadata = packed.read("columns-2.3.1.dist-info/METADATA").decode()
    assert "Name: columns\nVersion: 2.3.1\n" in metadata
    assert "Requires-Dist: numpy" in metadata


def test_one_name_for_all(tmp_path: Path) -> None:
    made = module(npc.export(lambda x: x * 2.0, X), tmp_path, name="twice")
    assert same(made.twice(X), X * 2.0)
    with pytest.raises(ValueError, match="is not a version"):
        npc.export(columns, random(0, 3, 4)).to_wheel(tmp_path, version="newest")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels are x86-64's")
def test_libraries_of_several_processors(tmp_path: Path) -> None:
    exported = npc.export(CASES[1].function, *CASES[1].arguments())
    made = module(exported, tmp_path)
    folder = Path(made.__file__).parent
    levels = sorted(path.stem[1:] for path in folder.glob("_x86-64-*.so"))
    assert levels[0] == "x86-64-v2"
    best = in_wheels.quickest(str(folder), levels)
    assert made._function.library._name == best
    known = levels[: 1 + levels.index(Path(best).stem[1:])]
    for level in known:  # each one gives the same bits
        arguments = CASES[1].others()
        function = in_wheels.Function(
            str(folder / f"_{level}.so"), "orbit", made.PARAMETERS, made.RESULTS, made.FORMS, made.ERRORS
        )
        assert same(function(*arguments), CASES[1].function(*arguments))


def test_compilers_without_some_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_library = wheel.library

    def refuses(command: Any, source: str, flags: tuple[str, ...], folder: Path) -> bytes:
        if any(flag.startswith("-march=") for flag in flags):
            raise CompilerRefused("an unknown processor")
        return compile_library(command, source, flags, folder)

    monkeypatch.setattr(wheel, "library", refuses)
    made = module(npc.export(columns, random(0, 3, 4)), tmp_path)
    assert [path.name for path in Path(made.__file__).parent.glob("*.so")] == ["_all.so"]
    assert same(made.columns(random(1, 5, 6)), columns(random(1, 5, 6)))


def test_signature_and_errors(tmp_path: Path) -> None:
    made = module(npc.export(fails, X, 1, 1.0), tmp_path)
    assert made.fails.__doc__ == (fails.__doc__ or "")
    assert made.fails.__code__.co_varnames == ("x", "i", "a")
    assert same(made.fails(a=4.0, x=X.copy(), i=2), fails(X.copy(), 2, 4.0))
    for i, a, error in (
        (-9, 1.0, KeyError),
        (-8, 1.0, AssertionError),
        (9, 1.0, IndexError),
        (1, -1.0, ValueError),
        (0, 1.0, ZeroDivisionError),
        (-1, 1.0, made.ExportError),
    ):
        x = X.copy()
        with pytest.raises(error):
            made.fails(x, i, a)
        assert same(x, X)
    for arguments, said in (
        ((X.astype("f4"), 1, 1.0), "'x' is an array of float32 with 1 axes, where an array of float64"),
        ((X.tolist(), 1, 1.0), "'x' is a builtins.list"),
        ((X, 1.0, 1.0), "'i' is a builtins.float, where a builtins.int"),
        ((X, 1 << 70, 1.0), "'i' is an int of more than 64 bits"),
        ((X, 1, np.float64(1.0)), "'a' is a numpy.float64, where a builtins.float"),
    ):
        with pytest.raises(TypeError, match=said):
            made.fails(*arguments)
    read_only = X.copy()
    read_only.flags.writeable = False
    for x, said in ((X[::2], "not in C order"), (read_only, "is written to, and the array is read-only")):
        with pytest.raises(ValueError, match=said):
            made.fails(x, 1, 1.0)


def test_arrays_that_are_written_to_are_apart(tmp_path: Path) -> None:
    made = module(npc.export(move_centres, *CASES[2].arguments()), tmp_path)
    points = random(0, 6, 2)
    with pytest.raises(ValueError, match="shares memory"):
        made.move_centres(points, points[:3], np.zeros(6, dtype=np.int64))


def test_fixed_sizes(tmp_path: Path) -> None:
    made = module(npc.export(columns, random(0, 3, 4), dynamic=False), tmp_path)
    with pytest.raises(ValueError, match=r"'x' has the shape \(4, 4\), where \(3, 4\) is needed"):
        made.columns(random(0, 4, 4))


def several(x: np.ndarray, k: int) -> tuple[Any, ...]:
    y = x * 2.0
    s = 0.0
    for i in range(k):
        s = s + x[i]
    return x, x[1:], y, y[k:], (s, k, None, True, 2.5), x[0] > 1.0, x[0]


@pytest.mark.parametrize("k", [0, 3])
def test_objects_of_results(k: int, tmp_path: Path) -> None:
    """Arguments, views of these, new arrays, views of those, numbers of Python's and of NumPy's, constants."""
    made = module(npc.export(several, X, 2), tmp_path)
    x = X.copy()
    found, wanted = made.several(x, k), several(x, k)
    assert same(found, wanted)
    assert found[0] is x
    assert np.shares_memory(found[1], x)
    assert np.shares_memory(found[2], found[3]) == np.shares_memory(wanted[2], wanted[3])
    found[2][-1] = 7.0
    assert found[3][-1] == 7.0


def last_rows(n: int, x: np.ndarray) -> np.ndarray:
    return grow(n, x)[1]


def test_views_of_what_nobody_has(tmp_path: Path) -> None:
    made = module(npc.export(last_rows, 3, X), tmp_path)
    for _ in range(100):
        found = made.last_rows(5, X)
    assert same(found, last_rows(5, X))
