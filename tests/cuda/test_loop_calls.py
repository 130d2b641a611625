"""Compiled functions with loops, called with arrays of a device: what runs there, and what the host runs on copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.passes import Pass
from npcompile.tensor_core.loop_ir.foreknown import Machine
from npcompile.tracer import beginning, device_loops
from tests.cuda.loop_programs import PROGRAMS, RAISING, SERIAL, LoopProgram, gathered, mandelbrot, smoothing
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)

QUICK = Machine(slower=1e-6, meeting=0.0, load=0.0, launch=0.0)  # the device is always chosen
SLOW = Machine(launch=1e12)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_loops, "MACHINE", QUICK)


def chosen(function: Callable[..., Any], *arguments: Any) -> Pass:
    (found,) = [each for each in npc.explain(function)(*arguments).passes if each.name == "loops on the device"]
    return found


def agrees(program: LoopProgram, there: There) -> Callable[..., Any]:  # noqa: F811
    compiled = npc.compile(program.function)
    for size in (20, 20, 31, 7):
        given = program.arguments(size)
        ours = there.put(list(copy.deepcopy(given)))
        found, expected = compiled(*ours), program.function(*given)
        same(there.get(found), expected, rtol=1e-12)
        same(there.get(ours), list(given), rtol=1e-12)
    return compiled


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_answers_of_the_device(program: LoopProgram, there: There, on_device: None) -> None:  # noqa: F811
    compiled = agrees(program, there)
    assert chosen(compiled, *there.put(list(program.arguments(20)))).fired


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_nothing_is_captured_before(program: LoopProgram, there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Also where iterations make whole arrays for the loops over elements inside them, which no graph does well."""
    monkeypatch.setattr(beginning, "frame_at", None)
    with npc.config.patch(internal_errors="raise"):
        npc.compile(program.function)(*there.put(list(program.arguments(20))))


@pytest.mark.parametrize("program", SERIAL, ids=lambda p: p.name)
def test_what_is_serial_runs_on_the_host(program: LoopProgram, there: There) -> None:  # noqa: F811
    compiled = agrees(program, there)
    ours = there.put(list(program.arguments(20)))
    assert not chosen(compiled, *ours).fired
    told = npc.explain(compiled)(*ours)
    arrays = [x for x in program.arguments(20) if isinstance(x, np.ndarray)]
    assert sum(not each.to_device for each in told.transfers) == len(arrays), "each array is copied once"


def test_the_host_runs_what_takes_the_device_longer(there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(device_loops, "MACHINE", SLOW)
    (program,) = (p for p in PROGRAMS if p.function is mandelbrot)
    compiled = agrees(program, there)
    why_not = chosen(compiled, *there.put(list(program.arguments(20)))).why_not
    assert why_not is not None and "the host is quicker" in why_not


@pytest.mark.parametrize(("function", "arguments"), RAISING, ids=[f.__name__ for f, _ in RAISING])
def test_errors_are_pythons(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    there: There,  # noqa: F811
    on_device: None,
) -> None:
    expected = copy.deepcopy(arguments)
    with pytest.raises((IndexError, ZeroDivisionError)) as raised:
        function(*expected)
    compiled, ours = npc.compile(function), there.put(list(arguments))
    for _ in range(2):
        ours = there.put(list(arguments))
        with pytest.raises(type(raised.value)) as found:
            compiled(*ours)
        assert str(found.value) == str(raised.value)
        same(there.get(ours), list(expected))


def test_what_is_to_raise_on_floating_point_errors_runs_on_the_host(there: There, on_device: None) -> None:  # noqa: F811
    def halved(x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] = x[i] / x[0]

    compiled, ours = npc.compile(halved), there.put([np.zeros(20), np.zeros(20)])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        compiled(*ours)
    compiled(*ours)
    assert np.isnan(there.get(ours[1])).all()


FACTOR = 2.0


def scaled(x: Any, y: Any) -> None:
    for i in range(x.size):
        y[i] = FACTOR * x[i]


def test_globals_are_what_they_are_in_each_call(
    there: There,  # noqa: F811
    on_device: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, (x, y) = npc.compile(scaled), there.put([np.arange(20.0), np.zeros(20)])
    for factor in (2.0, 3.0, np.float64(4.0)):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        compiled(x, y)
        assert there.get(y).tolist() == (np.arange(20.0) * factor).tolist()


def test_arrays_that_share_memory(there: There, on_device: None) -> None:  # noqa: F811
    x, places = np.arange(12.0), np.array([3, 2, 9, 0, 8, 7])
    ours = there.put([x.copy(), places])
    compiled = npc.compile(gathered)
    compiled(ours[0], ours[1], ours[0][3:9])
    gathered(x, places, x[3:9])
    same(there.get(ours[0]), x)


def test_strided_arrays(there: There, on_device: None) -> None:  # noqa: F811
    x, y = np.arange(40.0).reshape(5, 8), np.zeros(40)
    ours = there.put([x, y])
    npc.compile(scaled)(ours[0][:, 2], ours[1][10:0:-2])
    scaled(x[:, 2], y[10:0:-2])
    same(there.get(ours[1]), y)


def test_a_serial_loop_after_a_graph_moves_its_arrays_once(there: There) -> None:  # noqa: F811
    def both(x: Any, out: Any) -> Any:
        y = np.sqrt(x) + 1.0
        y = np.sin(y) * 2.0
        smoothing(y, 0.3, out)
        return y

    compiled = npc.compile(both)
    for n in (40, 50):
        x, out = np.linspace(0.0, 3.0, n), np.zeros(n)
        ours = there.put([x, out])
        found, expected = compiled(*ours), both(x, out)
        same(there.get(found), expected)
        same(there.get(ours), [x, out])
    told = npc.explain(compiled)(*ours)
    assert len(told.transfers) <= 6
