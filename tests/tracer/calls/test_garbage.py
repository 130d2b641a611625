"""No search for garbage begins while a function is compiled, but while that waits for a compiler."""

from __future__ import annotations

import gc
import os
import subprocess
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.process import run
from npcompile.tensor_core.garbage import with_collections, without_collections

STATEMENTS = 150


@pytest.fixture
def searches() -> Iterator[list[int]]:
    """The generations that are searched from here on. The first search of all objects is far away."""
    found: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            found.append(about["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def made(line: str) -> Callable[[np.ndarray], np.ndarray]:
    namespace: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    exec("\n".join(["def f(x):", *(f"    {line.format(k)}" for k in range(STATEMENTS)), "    return x"]), namespace)
    return namespace["f"]


@pytest.mark.parametrize("line", ["x = x * 0.5 + {}", "x[{0} % 7] = x[{0} % 5] * 0.5"])
def test_a_first_call_searches_little(searches: list[int], line: str) -> None:
    function = made(line)
    f = npc.compile(function)
    given = np.linspace(0, 1, 9)
    searches.clear()
    answer = f(given.copy())
    assert len(searches) < 20
    assert gc.isenabled()
    np.testing.assert_allclose(answer, function(given.copy()), rtol=1e-14)


def test_it_ends_with_the_block() -> None:
    with pytest.raises(ZeroDivisionError), without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()


def test_others_go_on_while_a_process_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    was_enabled = []

    def communicate(self: subprocess.Popen, timeout: float) -> tuple[bytes, bytes]:
        was_enabled.append(gc.isenabled())
        self.wait(timeout)
        return b"told", b""

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    with without_collections():
        assert run(["true"], "", 60) == "told"
        assert not gc.isenabled()
    assert was_enabled == [True]


def test_what_the_user_has_switched_off_stays_so() -> None:
    gc.disable()
    try:
        with without_collections(), with_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_forked_child_searches_though_another_thread_does_not() -> None:
    has_stopped, may_go_on = threading.Event(), threading.Event()

    def compile_for_long() -> None:
        with without_collections():
            has_stopped.set()
            may_go_on.wait(60)

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    assert has_stopped.wait(60)
    assert not gc.isenabled()
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    may_go_on.set()
    thread.join()
    assert status == 0
    assert gc.isenabled()
