"""With any one call of the operating system failing, a unit gives the right answer or NoCompiler, and works afterwards."""

from __future__ import annotations

import pytest

from npcompile.backends.cpu.cache import open_cache
from npcompile.backends.cpu.compiler import find_compiler
from npcompile.backends.cpu.errors import NoCompiler
from npcompile.backends.cpu.loader import Loader
from tests.runtime.faults import TARGETS, each_fault
from tests.runtime.units import INT64, constant


def answer() -> int | str:
    """What a user sees of a process that starts with the cache as it is."""
    try:
        cache = open_cache()
        return int(Loader(cache, find_compiler(cache)).load(constant(42), [INT64]).call()[0])
    except NoCompiler as error:
        assert str(error)
        return f"NumPy runs instead: {error}"


@pytest.mark.parametrize("target", TARGETS)
def test_warm_cache(target, loader, monkeypatch):
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(loader.cache.folder))
    assert answer() == 42
    for at, outcome in each_fault(target, answer):
        # The cache is optional: a unit can always be compiled instead.
        assert outcome == 42 or "source of the runtime cannot be read" in str(outcome), f"{target} {at}"
        assert answer() == 42


@pytest.mark.parametrize("target", TARGETS)
def test_cold_cache(target, tmp_path, monkeypatch, loader):
    folders = iter(range(1000))

    def cold_answer() -> int | str:
        monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path / str(next(folders))))
        return answer()

    for at, outcome in each_fault(target, cold_answer):
        assert outcome == 42 or str(outcome).startswith("NumPy runs instead"), f"{target} {at}"
    for number in range(next(folders)):
        monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path / str(number)))
        assert answer() == 42  # whatever the fault left in the cache
