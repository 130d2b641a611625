"""With any one call of the operating system failing, a unit gives the right answer or NoCompiler, and works afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from npcompile.backends.cache import open_cache
from npcompile.backends.cpu.compiler import find_compiler
from npcompile.backends.cpu.loader import Loader
from npcompile.backends.errors import NoCompiler
from tests.runtime.faults import TARGETS, each_fault
from tests.runtime.units import INT64, constant, make_loader


def answer(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> int | str:
    """What a user sees of a process that starts with the cache as it is."""
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(cache_directory))
    try:
        cache = open_cache()
        return int(Loader(cache, find_compiler(cache)).load(constant(42), [INT64]).call()[0])
    except NoCompiler as error:
        assert str(error)
        return f"NumPy runs instead: {error}"


@pytest.mark.parametrize("target", TARGETS)
def test_warm_cache(target, loader, monkeypatch):
    folder = loader.cache.folder
    assert answer(folder, monkeypatch) == 42
    for at, outcome in each_fault(target, lambda: answer(folder, monkeypatch)):
        # The cache is optional: a unit can always be compiled instead.
        assert outcome == 42 or "source of the runtime cannot be read" in str(outcome), f"{target} {at}"
        assert answer(folder, monkeypatch) == 42


@pytest.fixture(scope="module")
def runtime_only(loader, tmp_path_factory) -> Path:
    """A cache that has the runtime, but knows no compiler and no unit."""
    folder = tmp_path_factory.mktemp("runtime")
    make_loader(folder).start_runtime()
    for probe in folder.glob("*.json"):
        probe.unlink()
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_cold_cache(target, tmp_path, monkeypatch, runtime_only):
    def fresh(number: int) -> Path:
        folder = tmp_path / str(number)
        shutil.copytree(runtime_only, folder)
        folder.chmod(0o700)
        return folder

    folders = (fresh(number) for number in range(1000))
    current = next(folders)
    for at, outcome in each_fault(target, lambda: answer(current, monkeypatch)):
        assert outcome == 42 or str(outcome).startswith("NumPy runs instead"), f"{target} {at}"
        assert answer(current, monkeypatch) == 42  # whatever the fault left in the cache
        current = next(folders)
