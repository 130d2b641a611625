"""The units of one graph are compiled at the same time, and only if one of them fails is it as if they were not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from npcompile.backends.background import Pool
from npcompile.backends.cache import LOCK_TIMEOUT
from npcompile.backends.cpu import loader as module
from npcompile.backends.cpu.compiler import which
from npcompile.backends.together import at_once, finished, together
from npcompile.tensor_core.events import COUNTS
from tests.runtime.units import INT64, constant, make_loader

ROOT = Path(__file__).parents[2]
REAL = which("cc") or which("gcc") or which("clang") or ""
FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.skipif(not REAL, reason="no C compiler")

# Units are known by their function; runtime and probes are made as always.
COMPILER = """#!/bin/sh
cat > "$0.$$"
if grep -q "^PyObject\\* npc_run.*{{$" "$0.$$"; then
  echo "begin $$" >> "$0.log"
  {does}
  echo "end $$" >> "$0.log"
fi
{real} "$@" < "$0.$$"
"""
UNTIL_ALL_HAVE_BEGUN = """n=0
  while [ `grep -c begin "$0.log"` -lt 2 ] && [ $n -lt 500 ]; do sleep 0.02; n=$((n + 1)); done"""
HANG = "sleep 86397 & sleep 86397"

HEADER = """
import signal, sys, threading, warnings, os
import numpy as np
import npcompile as npc
from npcompile.backends.cpu import loader
from npcompile.compiler import compiled_function
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
npc.config.tiers = "always"
loader.AHEAD.most = int(sys.argv[1])
x = np.linspace(-1, 3, 40)

@npc.compile
def f(x):
    return np.exp(np.sort(np.sin(x)))

wanted = np.exp(np.sort(np.sin(x)))
"""
PROGRAMS = {
    "around NumPy": "assert np.allclose(f(x), wanted, rtol=1e-14)",
    "sizes from data": """
g = npc.compile(lambda x: np.exp(np.unique(np.sin(x))))
assert np.allclose(g(x), np.exp(np.unique(np.sin(x))), rtol=1e-14)
""",
    "control flow": """
g = npc.compile(lambda x: npc.cond(x[0] > 0, lambda x: np.sin(x) * 2, lambda x: np.cos(x) + 1, x))
assert np.allclose(g(x), np.cos(x) + 1, rtol=1e-14)
""",
}


def run(tmp_path: Path, script: str, does: str, most: int = 2) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a script with a compiler that does something for each unit. What its log says then."""
    compiler = tmp_path / "cc"
    compiler.write_text(COMPILER.format(does=does, real=REAL))
    compiler.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    changed = {"CC": str(compiler), "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-c", HEADER + script, str(most)],
        env={**os.environ, **changed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    log = Path(f"{compiler}.log")
    return done, [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_begin_before_one_is_waited_for(tmp_path, program):
    done, log = run(tmp_path, PROGRAMS[program], UNTIL_ALL_HAVE_BEGUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert log[:2] == ["begin", "begin"]


def test_no_more_are_at_work_than_there_are_processors(tmp_path):
    script = "g = npc.compile(lambda x: np.cumsum(np.sort(np.exp(np.sort(np.sin(x)))) * 2))\nprint(g(x).shape)"
    done, log = run(tmp_path, script, "sleep 0.05", most=1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(40,)\n", "")
    assert log == ["begin", "end"] * 3


def test_one_that_is_refused_ends_the_others(tmp_path):
    """NumPy runs the graph, after one warning."""
    script = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        assert np.array_equal(f(x), wanted)
print(len(caught), "no sine today" in str(caught[0].message), len(loader.loader().jobs), len(loader.AHEAD.running))
"""
    does = f'if grep -q "sin(" "$0.$$"; then {UNTIL_ALL_HAVE_BEGUN}; echo "no sine today" >&2; exit 1; fi; {HANG}'
    done, log = run(tmp_path, script, does)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 True 0 0\n", "")
    assert log == ["begin", "begin"]
    assert_nothing_is_left(tmp_path)


def test_an_interrupt_ends_all(tmp_path):
    script = """
threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    f(x)
except KeyboardInterrupt:
    print("interrupted", len(loader.loader().jobs), len(loader.AHEAD.running))
open(os.environ["CC"] + ".free", "w").close()
print(np.allclose(f(x), wanted, rtol=1e-14))
"""
    done, log = run(tmp_path, script, f'if ! [ -e "$0.free" ]; then {HANG}; fi')
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted 0 0\nTrue\n", "")
    assert log.count("end") == 2
    assert_nothing_is_left(tmp_path)


def assert_nothing_is_left(tmp_path: Path) -> None:
    deadline = time.monotonic() + 30
    while any(str(tmp_path / "cc") in command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline")):
        assert time.monotonic() < deadline, "a compiler still runs"
        time.sleep(0.05)
    assert not list((tmp_path / "temporary").iterdir())


def command_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


def load_all(folder: Path, values: list[int], start, results) -> None:
    loader, before = make_loader(folder), COUNTS["units_compiled"]
    start.wait()
    began = time.monotonic()
    units = finished(together(loader.loading(constant(value), [INT64]) for value in values))
    results.put(([int(unit.call()[0]) for unit in units], COUNTS["units_compiled"] - before, time.monotonic() - began))


def test_processes_share_the_work(tmp_path):
    """In another order each: none waits for a unit of another one while that waits for its own."""
    make_loader(tmp_path).load(constant(0), [INT64])  # the runtime
    orders = [[81, 82, 83], [82, 83, 81], [83, 82, 81]]
    start, results = FORK.Barrier(len(orders)), FORK.Queue()
    workers = [FORK.Process(target=load_all, args=(tmp_path, order, start, results)) for order in orders]
    for worker in workers:
        worker.start()
    answers = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(values for values, _, _ in answers) == orders
    assert sum(compiled for _, compiled, _ in answers) == 3
    assert max(seconds for _, _, seconds in answers) < LOCK_TIMEOUT / 2


@pytest.mark.parametrize("most", [1, 2])
def test_threads_share_the_work(tmp_path, monkeypatch, most):
    monkeypatch.setattr(module, "AHEAD", Pool(most))
    loader, before = make_loader(tmp_path), COUNTS["units_compiled"]
    orders = [[91, 92, 93], [92, 93, 91], [93, 92, 91], [91, 91, 91]]
    found: dict[int, list[int]] = {}
    start = threading.Barrier(len(orders))

    def load(k: int) -> None:
        start.wait()
        units = finished(together(loader.loading(constant(value), [INT64]) for value in orders[k]))
        found[k] = [int(unit.call()[0]) for unit in units]

    threads = [threading.Thread(target=load, args=(k,)) for k in range(len(orders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[k] for k in range(len(orders))] == orders
    assert COUNTS["units_compiled"] - before == 4  # and the runtime
    assert not loader.jobs and not module.AHEAD.running


def test_units_of_one_text_are_made_once(tmp_path):
    loader, before = make_loader(tmp_path), COUNTS["units_compiled"]
    first, second = finished(together(loader.loading(constant(5), [INT64]) for _ in range(2)))
    assert first.call is second.call
    assert COUNTS["units_compiled"] - before == 2  # and the runtime


def test_an_error_ends_what_has_begun(tmp_path):
    loader = make_loader(tmp_path)

    def wrong() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        finished(together([loader.loading(constant(6), [INT64]), at_once(wrong)]))
    assert not loader.jobs and not module.AHEAD.running
    assert loader.load(constant(6), [INT64]).call() == (6,)
