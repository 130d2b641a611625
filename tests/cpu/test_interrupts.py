"""A handler of signals that raises finds arguments as they are between two statements, whenever the signal comes."""

from __future__ import annotations

import inspect
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import npcompile as npc

Program = Callable[[np.ndarray, np.ndarray], None]

N = 2_000_000
EVERY = 53  # such elements are compared
rng = np.random.default_rng(5)
X, Y = rng.random(N) + 0.5, rng.random(N)


class Stopped(Exception):
    pass


def scaled_and_added(x: np.ndarray, y: np.ndarray) -> Iterator[None]:
    y *= np.sin(x) ** 1.3
    yield
    y += np.exp(-x * x) * np.cos(x) ** 1.1
    yield
    x += np.tanh(y)


def divided_by_a_total(x: np.ndarray, y: np.ndarray) -> Iterator[None]:
    x /= (np.exp(x) * np.sin(y) ** 1.7).sum()
    yield
    y -= x.mean()


def partly(x: np.ndarray, y: np.ndarray) -> Iterator[None]:
    y[::2] = np.log1p(np.sin(x[::2]) ** 1.5)
    yield
    y[1:] += np.exp(x[:-1]) ** 1.5


def in_a_loop(x: np.ndarray, y: np.ndarray) -> Iterator[None]:
    for i in range(4):
        y[:] = np.exp(np.sin(x)) ** 1.3
        yield
        x += y * 0.1
        yield


def stencil(x: np.ndarray, y: np.ndarray) -> Iterator[None]:
    for i in range(8):
        y[1:-1] = x[1:-1] + 0.1 * (x[2:] - 2 * x[1:-1] + x[:-2])
        yield
        x[:] = y
        yield


def program_of(steps: Callable[[np.ndarray, np.ndarray], Iterator[None]]) -> Program:
    """The same statements without what tells them apart."""
    text = textwrap.dedent(inspect.getsource(steps)).replace("yield", "pass")
    space = {"np": np, "Iterator": Iterator}
    exec(compile(text, f"<{steps.__name__}>", "exec"), space)
    program: Program = space[steps.__name__]
    return program


def seen(*arrays: np.ndarray) -> np.ndarray:
    return np.concatenate([a[::EVERY] for a in arrays])


@pytest.mark.parametrize("steps", [scaled_and_added, divided_by_a_total, partly, in_a_loop, stencil])
def test_statements_are_done_as_a_whole_or_not_at_all(steps: Callable[..., Iterator[None]]) -> None:
    x, y = X.copy(), Y.copy()
    between = [seen(x, y), *(seen(x, y) for _ in steps(x, y)), seen(x, y)]
    run = npc.compile(program_of(steps))
    run(X.copy(), Y.copy())
    x, y = X.copy(), Y.copy()
    began = time.perf_counter()
    run(x, y)
    seconds = time.perf_counter() - began

    def stop(number: int, frame: object) -> None:
        raise Stopped

    draw, before = random.Random(3), signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(8):
            x, y = X.copy(), Y.copy()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + draw.random() * seconds)
                run(x, y)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stopped:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            found = seen(x, y)
            assert any(np.allclose(found, each, rtol=1e-7, atol=0) for each in between)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_writes_nothing_visible_is_stopped() -> None:
    """A result that nobody has yet may stay unfinished."""

    def program(x: np.ndarray) -> float:
        total = 0.0
        for _ in range(40):
            total = total + np.exp(np.cos(x + total) ** 2 + 1).sum()
        return total

    run = npc.compile(program)
    x = X[:100_000].copy()
    run(x)
    x = np.resize(X, 20_000_000)

    def stop(number: int, frame: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stopped):
            run(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


WITHOUT_MEMORY = """
import resource
import numpy as np
import npcompile as npc

def program(x, y):
    y *= x
    s = np.cumsum(y)
    t = np.cumsum(s[::-1] / s.sum())
    return np.cumsum(t[::-1] * y) / t.max()

run = npc.compile(program)
for size in (5000, 6000, 7000):  # the last is compiled for all sizes
    run(np.ones(size), np.ones(size))
size = 1 << 22
x, y = np.full(size, 2.0), np.ones(size)
begun = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
lacking = 0
for pieces in range(12):
    resource.setrlimit(resource.RLIMIT_AS, (begun + (2 * pieces + 1) * size * 4, resource.RLIM_INFINITY))
    y[:] = 1
    try:
        run(x, y)
    except MemoryError:  # NumPy's, which has done the first statement before it asks for memory
        lacking += 1
    assert (y == 2).all(), pieces
print(lacking)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_memory_is_there_before_the_first_write() -> None:
    """Where some of it is lacking NumPy runs the program, and finds arguments as they were: it would write a second time."""
    made = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, timeout=300)
    assert 2 < int(made.stdout or 0) < 12, made.stderr
