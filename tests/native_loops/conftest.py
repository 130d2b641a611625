"""Loops on threads, however short they are."""

import pytest

from npcompile.backends.cpu.loops import loop_unit, parallel_loops
from tests.native_loops.random.independent_iterations import ALWAYS


@pytest.fixture
def at_once(monkeypatch):
    """Loops of any length are worth threads, however few there are."""
    for name, value in ALWAYS.items():
        monkeypatch.setattr(parallel_loops, name, value)
    counted = parallel_loops.SPREAD_HELPERS.replace("= rt->parallel(", "= (npc_runs++, 0) || rt->parallel(")
    monkeypatch.setattr(loop_unit, "SPREAD_HELPERS", "int64_t npc_runs = 0;\n" + counted)
