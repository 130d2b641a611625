"""`npc.profile`: a trace that other programs read, of calls that stay compiled."""

import cProfile
import json
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tensor_core.events import WATCHERS
from npcompile.tracer.entry import overheads
from tests.fuzz.programs import define
from tests.tracer.calls.made_up_times import CALLS, Clock, is_aside

X = np.linspace(0.5, 1.5, 5)
SLEPT = 50e3  # microseconds, which no machine makes less


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert sys.getprofile() is None and not WATCHERS


def waiting(x):
    y = np.exp(x) * 0.3571
    time.sleep(SLEPT / 1e6)
    return np.sin(y)


def require_whole(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of a trace, which hold what the format asks for: each thread's nest, processes begin and end."""
    lines = [line for line in trace["traceEvents"] if line["ph"] != "M"]
    named = {line["tid"] for line in trace["traceEvents"] if line["name"] == "thread_name"}
    assert {line["tid"] for line in lines} <= named
    by_thread = defaultdict(list)
    for line in lines:
        assert line["ph"] in "Xibe" and line["name"] and line["cat"] and line["ts"] >= 0, line
        if line["ph"] == "X":
            assert line["dur"] >= 0, line
            by_thread[line["tid"]].append(line)
    for each in by_thread.values():
        ends: list[float] = []
        for line in each:
            while ends and ends[-1] <= line["ts"]:
                ends.pop()
            end = line["ts"] + line["dur"]
            assert not ends or end <= ends[-1] + 1e-3, (line, ends)  # microseconds: sums are rounded
            ends.append(end)
    beside = {kind: {line["id"]: line["ts"] for line in lines if line["ph"] == kind} for kind in "be"}
    assert beside["b"].keys() == beside["e"].keys()
    assert all(beside["b"][k] <= beside["e"][k] for k in beside["b"])
    return lines


def test_the_file_of_a_first_and_a_second_call(tmp_path: Path):
    compiled, path = npc.compile(waiting), tmp_path / "trace.json"
    with npc.profile(path) as p:
        first, second = compiled(X), compiled(X)
    np.testing.assert_allclose(first, waiting(X))
    np.testing.assert_array_equal(first, second)
    trace = json.loads(path.read_text())
    lines = require_whole(trace)
    names = {line["cat"] for line in lines}
    assert {"call", "Python", "compiled code", "capture", "compile graph", "pass", "schedule", "print", "load", "break"} <= names
    calls = [line for line in lines if line["cat"] == "call"]
    assert [line["name"] for line in calls] == ["call waiting"] * 2
    assert all(line["args"]["line"] == f"test_profile.py:{waiting.__code__.co_firstlineno}" for line in calls)
    steps = []
    for call in calls:
        within = [line for line in lines if line["ph"] == "X" and line is not call and is_within(line, call)]
        outermost = [line for line in within if not any(is_within(line, other) for other in within if other is not line)]
        steps.append([line["cat"] for line in sorted(outermost, key=lambda line: float(line["ts"]))])
        (sleeping,) = (line for line in outermost if line["cat"] == "Python")
        assert call["dur"] >= sleeping["dur"] >= SLEPT
        assert sleeping["args"]["line"] == f"test_profile.py:{waiting.__code__.co_firstlineno + 2}"
    in_turn = ["compiled code", "Python", "compiled code"]
    assert steps == [["capture", *in_turn[:2], "capture", *in_turn[2:]], in_turn]
    assert [event.what for event in p.events if event.name == "break"] == ["time.sleep is not captured"]


def is_within(line: dict[str, Any], other: dict[str, Any]) -> bool:
    return other["ts"] <= line["ts"] and line["ts"] + line["dur"] <= other["ts"] + other["dur"] + 1e-3


def test_the_c_compiler_runs_beside():
    compiled = npc.compile(define(f"def new(x):\n    return x * {time.time_ns()}.0 - 1\n", "new", "new.py"))  # no cache has it
    before = npc.counters()
    with npc.profile() as p:
        compiled(X[:3])
    made = [event for event in p.events if event.name == "C compiler"]
    assert len(made) >= npc.counters(since=before)["units_compiled"] > 0
    for event in made:
        assert event.is_beside and event.ended > event.began and " -o " in event.about["command"]
    assert not any("source" in line.get("args", ()) for line in require_whole(p.trace()))


def test_passes_of_loops_and_where_they_are_left():
    def f(x):
        total = 0.0
        for k in range(len(x)):
            total += x[k] * 0.321
        return total

    def g(x):
        total = 0.0
        for k in range(len(x)):
            if x[k] > 1:
                print(end="")
            total += x[k]
        return total

    with npc.profile() as p:
        npc.compile(g)(X)
        npc.grad(f)(X)
    require_whole(p.trace())
    found = {(event.name, event.what) for event in p.events}
    assert {"write loop", "side exit"} <= {name for name, _ in found}
    assert ("pass", "value ranges") in found
    [gradient] = [event for event in p.events if event.name == "call" and event.what == f"grad of {f.__qualname__}"]
    inside = {event.name for event in p.events if gradient.began < event.began and event.ended < gradient.ended}
    assert {"capture", "compiled code"} <= inside


def test_threads_have_their_own_lines():
    compiled = npc.compile(waiting)
    compiled(X)
    with npc.profile() as p:
        thread = threading.Thread(target=compiled, args=(X,), name="of mine")
        thread.start()
        compiled(X)
        thread.join()
    trace = p.trace()
    require_whole(trace)
    names = {line["tid"]: line["args"]["name"] for line in trace["traceEvents"] if line["name"] == "thread_name"}
    assert sorted(names[event.thread] for event in p.events if event.name == "call") == ["MainThread", "of mine"]


def test_a_thread_that_goes_on_is_left_alone():
    go, ended, compiled = threading.Event(), [], npc.compile(lambda x: x - 7)

    def work() -> None:
        go.wait()
        compiled(X)
        ended.append(sys.getprofile())

    with npc.profile() as p:
        thread = threading.Thread(target=work)
        thread.start()
    number = len(p.events)
    go.set()
    thread.join()
    assert ended == [None] and len(p.events) == number


def test_a_function_that_steps_aside(monkeypatch):
    Clock(monkeypatch, lambda state, is_plain: 1e-6 if is_plain else 2e-6)
    compiled = npc.compile(lambda x: x * 2 + 1)
    with npc.config.patch(tiers="measured"):
        for _ in range(CALLS):
            compiled(X)
        assert is_aside(compiled)
        with npc.profile() as p:
            compiled(X)
    assert [event.name for event in p.events] == ["call as it is"]


def test_calls_stay_compiled_and_the_block_ends_with_an_error(tmp_path: Path):
    compiled = npc.compile(lambda x: x + 0.75)
    compiled(X)
    before = npc.counters()
    with pytest.raises(ZeroDivisionError), npc.profile(tmp_path / "trace.json") as p:
        compiled(X)
        1 / 0
    assert [event.name for event in p.events] == ["call"]
    assert len(require_whole(json.loads((tmp_path / "trace.json").read_text()))) == 1
    assert not any(npc.counters(since=before).values())


def test_errors_of_the_function_end_their_events():
    @npc.compile
    def f(x):
        y = x + 1
        raise KeyError(len(y))

    with npc.profile() as p:
        for _ in range(2):
            with pytest.raises(KeyError):
                f(X)
    require_whole(p.trace())
    assert [event.name for event in p.events].count("call") == 2


OF_MONITORING = pytest.mark.skipif(sys.version_info >= (3, 12), reason="cProfile has sys.monitoring there, and runs beside")


@pytest.mark.parametrize("other", [npc.profile, pytest.param(cProfile.Profile, marks=OF_MONITORING)])
def test_another_profiler_is_named(other):
    with other(), pytest.raises(RuntimeError, match=r"npcompile\.profile needs sys\.setprofile"), npc.profile():
        pass


def test_what_the_package_times_for_itself_is_no_call():
    overheads.cache_clear()
    with npc.profile() as p:
        overheads()
    assert not [event for event in p.events if event.name == "call"]


def test_a_file_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(OSError), npc.profile(tmp_path / "no folder" / "trace.json"):
        pass
