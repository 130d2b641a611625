"""`npc.counters()`: what happened in this process, counted once, and nothing for calls of what is compiled."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.calls.made_up_times import CALLS, Clock

X = np.linspace(0.0, 7.0, 8)


@contextmanager
def counted() -> Iterator[dict[str, Any]]:
    """What is counted in the block, once that has ended."""
    found: dict[str, Any] = {}
    before = npc.counters()
    yield found
    found |= npc.counters(since=before)


def made(found: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(found[name] for name in names)


def test_the_keys_are_documented():
    _, head, table, *_ = (npc.counters.__doc__ or "").split("==\n")
    assert head.split()[0] == "key"
    assert [*npc.counters()] == [line.split()[0] for line in table.splitlines()[:-1]]


def test_a_graph_and_what_it_took():
    @npc.compile
    def f(x):
        return np.exp(x) * 0.4711 + x

    with counted() as found:
        f(X)
    assert made(found, "functions", "captures", "variants", "recompiles", "graphs", "kernels") == (1, 1, 1, 0, 1, 1)
    assert found["units_compiled"] + found["units_from_disk"] >= 1
    assert found["breaks"] == {} and found["loop_programs"] == found["side_exits"] == 0
    assert found["capture_seconds"] > 0 and (found["c_compiler_seconds"] > 0) == (found["units_compiled"] > 0)
    with counted() as again:
        for _ in range(5):
            f(X)
    assert not any(again.values()), again


def test_breaks_by_reason_and_recompiles():
    @npc.compile
    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    with counted() as found:
        f(X)
    assert found["breaks"] == {"print is not captured": 1} and made(found, "graphs", "recompiles") == (2, 0)
    with counted() as found:
        f(X[:3])
    assert found["breaks"] == {"print is not captured": 1} and found["recompiles"] == found["captures"] == 2


def test_units_are_found_in_memory_and_on_disk():
    def make() -> Callable[..., Any]:
        return npc.compile(lambda x: x * 0.815 - x / 7)

    first, second = make(), make()
    first(X)
    with counted() as found:
        second(X)
    assert made(found, "units_in_memory", "units_from_disk", "units_compiled") == (1, 0, 0)
    del first, second
    npc.reset()
    gc.collect()
    with counted() as found:
        make()(X)
    assert made(found, "units_in_memory", "units_from_disk", "units_compiled", "c_compiler_seconds") == (0, 1, 0, 0)


def test_loops_that_are_left():
    @npc.compile
    def f(x):
        total = 0.0
        for k in range(len(x)):
            if x[k] > 5:
                print(end="")
            total += x[k]
        return total

    with counted() as found:
        f(X)
    assert found["loop_programs"] >= 1
    with counted() as found:
        f(X)
    assert found["side_exits"] > 0 == found["captures"]
    with counted() as found:
        f(X[:4])
    assert found["side_exits"] == 0


def test_a_function_that_steps_aside_is_counted_once(monkeypatch):
    Clock(monkeypatch, lambda state, is_plain: 1e-6 if is_plain else 2e-6)

    @npc.compile
    def scaled(x):
        return x * 2 + 1

    with npc.config.patch(tiers="measured"), counted() as found:
        for _ in range(CALLS + 100):
            scaled(X)
    assert found["steps_aside"] == 1


def test_counts_stay_when_functions_go():
    npc.compile(lambda x: x + 0.125)(X)
    before = npc.counters()
    npc.reset()
    gc.collect()
    assert npc.counters() == before


def test_each_call_gives_a_dict_of_its_own():
    first = npc.counters()
    first["breaks"]["of mine"] = 1
    first["graphs"] = -1
    assert npc.counters()["graphs"] >= 0 and "of mine" not in npc.counters()["breaks"]


@pytest.mark.parametrize("since", [{}, {"graphs": 1}, 3], ids=str)
def test_a_snapshot_is_what_counters_gave(since):
    with pytest.raises(ValueError, match="takes what counters"):
        npc.counters(since=since)
