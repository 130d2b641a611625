"""What gets installed: real files, all of them, one top-level name, from wheel, sdist, editable install or checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = {".py", ".pyi", ".c", ".h", ".typed"}
BARE = ("tensor_core", "numpy_shim", "backends")
TRY_IT = f"""
import importlib.util, pathlib, sys
import npcompile, npcompile.tensor_core, npcompile.numpy_shim, npcompile.backends.registry
print(pathlib.Path(npcompile.__file__).resolve().parent)
exposed = [name for name in {BARE} if importlib.util.find_spec(name)]
assert not exposed, exposed
assert "torch" not in sys.modules
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def shipped_files() -> dict[str, bytes]:
    """What an installation must hold: path below site-packages to content."""
    found = {}
    for directory, folders, names in os.walk(ROOT / "npcompile", followlinks=True):
        folders[:] = [f for f in folders if f != "__pycache__"]
        for path in (Path(directory, name) for name in names):
            if path.suffix in SHIPPED:
                found[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the links kept, so that building leaves nothing in the real one."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("npcompile", *BARE):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist, and the wheel made from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, checkout, cwd=out)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Interpreter of an empty virtual environment that sees this one's dependencies, but not its npcompile."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def install(python: Path, *what: str | Path) -> None:
    options = ("--no-deps", "--no-build-isolation", "--ignore-installed", "--disable-pip-version-check", "--no-index")
    run(python, "-m", "pip", "install", *options, *what, cwd=python.parent)


def test_wheel_holds_every_file(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        held = {
            info.filename: wheel.read(info) for info in wheel.infolist() if not info.filename.split("/")[0].endswith(".dist-info")
        }
    assert held == shipped_files()


def test_sdist_holds_every_file(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        members = {m.name.split("/", 1)[1]: m for m in sdist.getmembers() if "/" in m.name}
        held = {name: sdist.extractfile(m).read() for name, m in members.items() if name.startswith("npcompile/") and m.isfile()}  # type: ignore[union-attr]
    assert held == shipped_files()
    assert not any(m.issym() or m.islnk() for m in members.values())


def test_wheel_imports(built: tuple[Path, Path], environment: Path, tmp_path: Path) -> None:
    install(environment, built[1])
    assert run(environment, "-c", TRY_IT, cwd=tmp_path).startswith(str(tmp_path / "venv"))


def test_editable_install_follows_the_links(checkout: Path, environment: Path, tmp_path: Path) -> None:
    install(environment, "-e", checkout)
    assert run(environment, "-c", TRY_IT, cwd=tmp_path) == str(checkout / "npcompile")


def test_bare_checkout_imports(checkout: Path, environment: Path, tmp_path: Path) -> None:
    program = f"import sys; sys.path.append({str(checkout)!r})\nimport npcompile.backends.registry as r; print(r.__file__)"
    assert run(environment, "-c", program, cwd=tmp_path) == str(checkout / "npcompile/backends/registry.py")


def test_links_are_relative() -> None:
    assert {name: os.readlink(ROOT / "npcompile" / name) for name in BARE} == {name: f"../{name}" for name in BARE}


def test_readme_has_two_commands_and_ci_runs_them() -> None:
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("python3 -m venv ")]
    assert len(commands) == 2
    assert commands[0].endswith(" examples/quickstart.py")
    assert " -m pytest" in commands[1]
    assert all(f"readme_command {word}" in (ROOT / ".ci/run").read_text() for word in ("quickstart", "pytest"))


def test_version_is_the_packages_own(built: tuple[Path, Path]) -> None:
    said = next(line for line in (ROOT / "npcompile/__init__.py").read_text().splitlines() if line.startswith("__version__"))
    assert built[1].name.split("-")[1] == said.split('"')[1]


def test_ci_covers_every_python_that_is_claimed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    claimed = {line.removeprefix(prefix) for line in project["classifiers"] if line.startswith(prefix)}
    lines = [line.strip() for line in (ROOT / ".ci/run").read_text().splitlines()]
    loops = [line.removesuffix("; do").split()[3:] for line in lines if line.startswith(("for version in ", "for python in "))]
    free_threaded = {"3.13t", "3.14t"}  # run where they are; functions are not compiled there
    assert {f"3.{minor}" for minor in claimed} | free_threaded == {each.removeprefix("python") for loop in loops for each in loop}
