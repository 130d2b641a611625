"""`config.compile = "background"`: the program goes on while the compiler runs, and gets the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.background import MOST, Job, blocking
from npcompile.backends.cpu import process
from npcompile.backends.cpu.compiler import which
from npcompile.compiler import compiled_function

ROOT = Path(__file__).parents[1]
REAL = which("cc") or which("gcc") or which("clang") or ""
pytestmark = pytest.mark.skipif(not REAL, reason="no C compiler")

HEADER = """
import os, sys
from pathlib import Path
import numpy as np
import npcompile as npc
from npcompile.compiler import compiled_function
held = Path(os.environ["HELD"])
npc.config.tiers = "always"

@npc.compile
def ready(x):
    return x + 1

ready(np.ones(3))  # the compiler is known and the runtime made
held.touch()
npc.config.compile = "background"

@npc.compile
def f(x, y):
    total = 0.0
    for k in range(len(x)):
        total += x[k] * y[k]
    return np.sin(x) * total
"""


def run(tmp_path: Path, script: str, header: str = HEADER) -> subprocess.CompletedProcess[str]:
    """Run a script with a compiler that waits while a file is there, and makes nothing where another is."""
    compiler = tmp_path / "cc"
    wait = 'while [ -e "$HELD" ]; do sleep 0.02; done'
    fail = 'if [ -e "$HELD.broken" ]; then echo "no such processor" >&2; exit 1; fi'
    compiler.write_text(f'#!/bin/sh\n{wait}\n{fail}\nexec {REAL} "$@"\n')
    compiler.chmod(0o755)
    (tmp_path / "temporary").mkdir(exist_ok=True)
    changed = {"CC": str(compiler), "HELD": str(tmp_path / "held"), "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache")}
    changed |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", header + script]
    return subprocess.run(command, env={**os.environ, **changed}, capture_output=True, text=True, timeout=300, check=False)


def test_calls_run_as_they_are_until_the_compiler_has_ended(tmp_path):
    done = run(
        tmp_path,
        """
x, y = np.arange(50.0), np.ones(50)
wanted = compiled_function(f).user(x, y)
for _ in range(5):
    np.testing.assert_allclose(f(x, y), wanted, rtol=1e-15)
    assert f(x[:7], y[:7]).shape == (7,)  # other arguments
assert not compiled_function(f).graphs and not any(p.variants for p in compiled_function(f).points.values())
held.unlink()
compiled_function(f).compiling.join()
for _ in range(2):
    np.testing.assert_allclose(f(x, y), wanted, rtol=1e-14)
assert any(p.variants for p in compiled_function(f).points.values())
print("done")
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_compiler_that_fails_is_told_of_once(tmp_path):
    done = run(
        tmp_path,
        """
import warnings
x, y = np.arange(50.0), np.ones(50)
wanted = compiled_function(f).user(x, y)
f(x, y)
held.with_suffix(".broken").touch()
held.unlink()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(8):
        if job := compiled_function(f).compiling:
            job.join()
        np.testing.assert_allclose(f(x, y), wanted, rtol=1e-14)
assert len(caught) <= 3  # the loop, the graph, and that the compiler is asked no more
print(*{"no such processor" in str(w.message) for w in caught})
""",
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_program_that_ends_leaves_no_compiler_and_no_files(tmp_path):
    done = run(tmp_path, "f(np.ones(3), np.ones(3))\nprint(compiled_function(f).compiling.is_alive())\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    deadline = time.monotonic() + 60
    while any(str(tmp_path / "cc") in command_of(path) for path in Path("/proc").glob("[0-9]*/cmdline")):
        assert time.monotonic() < deadline, "the compiler still runs"
        time.sleep(0.05)
    assert not list((tmp_path / "temporary").iterdir())


def command_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


def test_fullgraph_waits(monkeypatch):
    monkeypatch.setattr(npc.config, "compile", "background")
    f = npc.compile(lambda x: np.cosh(x) * 1.25 + 3, fullgraph=True)
    np.testing.assert_allclose(f(np.ones(5)), np.cosh(np.ones(5)) * 1.25 + 3)
    assert compiled_function(f).graphs


def test_the_setting_is_checked():
    with pytest.raises(ValueError, match="unknown compile 'later': choose one of first call, background"):
        npc.config.compile = "later"


def test_compilers_beside_the_program_leave_it_the_processor():
    """Those that the program waits for do not."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    asked = "import os, time; time.sleep(0.3); print(os.getpriority(os.PRIO_PROCESS, 0))"

    def priority(is_beside=True):
        return process.Child([sys.executable, "-c", asked], "", is_beside)

    def read(child):
        return int(child.result(60))

    with priority(is_beside=False) as child:
        assert read(child) == own
    assert Job(priority, read).result() == min(own + process.NICE, 19)


@pytest.mark.skipif(not os.path.exists("/proc/self/autogroup"), reason="no autogroups: priorities count between all processes")
def test_their_priority_is_one_among_those_of_the_program():
    """Priorities count within an autogroup alone, and a session of its own is one."""
    with open("/proc/self/autogroup") as file:
        own = file.read()
    with process.Child([sys.executable, "-c", "print(open('/proc/self/autogroup').read(), end='')"], "", is_beside=True) as child:
        assert child.result(60) == own


def test_jobs_beyond_the_most_wait_for_those_at_work():
    """In order, and what is printed in between fits nowhere but into a file."""
    told = "import sys, time; sys.stderr.write('.' * (1 << 20)); time.sleep(0.2); print({})"
    jobs = [
        Job(lambda k=k: process.Child([sys.executable, "-c", told.format(k)], "", True), lambda child: child.result(60))
        for k in range(MOST + 2)
    ]
    assert [job.work is not None for job in jobs] == [True] * MOST + [False] * 2
    assert blocking() is not None
    assert [int(job.result()) for job in jobs] == [*range(MOST + 2)]
    assert blocking() is None


def test_a_job_that_cannot_begin_tells_so_and_takes_no_place():
    job = Job(lambda: process.Child(["/no/such/compiler"], "", True), lambda child: child)
    assert not job.is_alive()
    assert job.result() is None


def test_nothing_beside_the_program_is_a_thread(tmp_path):
    """A process that once had two pays for it in each malloc, in C++ code that is not ours, too."""
    done = run(
        tmp_path,
        """
started = []
sys.addaudithook(lambda event, of: started.append(of) if event == "_thread.start_new_thread" else None)
held.unlink()

@npc.compile
def product(a):
    return np.sin(a @ a)

x, y, a = np.arange(50.0), np.ones(50), np.ones((80, 80))
for _ in range(4):
    f(x, y), product(a)
    for function in (f, product):
        if job := compiled_function(function).compiling:
            job.join()
assert all(any(p.variants for p in compiled_function(each).points.values()) for each in (f, product))
print(len(started))
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_compiler_that_is_not_known_yet_is_not_waited_for(tmp_path, is_broken):
    """What it can is asked beside the program too, and the runtime made: without a thread."""
    done = run(
        tmp_path,
        f"""
started = []
sys.addaudithook(lambda event, of: started.append(of) if event == "_thread.start_new_thread" else None)
x, y = np.arange(50.0), np.ones(50)
wanted = compiled_function(f).user(x, y)
for _ in range(5):
    np.testing.assert_allclose(f(x, y), wanted, rtol=1e-15)
    assert compiled_function(f).compiling.is_alive()
assert not any(p.variants for p in compiled_function(f).points.values())
if {is_broken}:
    Path(str(held) + ".broken").touch()
held.unlink()
for _ in range(5):
    np.testing.assert_allclose(f(x, y), wanted, rtol=1e-15)
    if job := compiled_function(f).compiling:
        job.join()
point, = compiled_function(f).points.values()
print(len(started), bool(point.variants), point.is_native)
""",
        HEADER.replace("ready(np.ones(3))", ""),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 True False\n" or is_broken and done.stdout == "0 False True\n"  # where there is no other compiler


def test_a_program_that_ends_while_the_compiler_is_asked_leaves_nothing(tmp_path):
    done = run(tmp_path, "f(np.arange(50.0), np.ones(50))", HEADER.replace("ready(np.ones(3))", ""))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not [*(tmp_path / "temporary").iterdir()]


def test_what_was_made_when_the_program_ends_is_kept_for_the_next(tmp_path):
    script = """
held.unlink()

@npc.compile
def g(x):
    return x * 3 + 1

g(np.ones(3))
if job := compiled_function(g).compiling:
    job.join()
print(job is None)
"""
    assert run(tmp_path, script).stdout == "False\n"
    assert run(tmp_path, script).stdout == "True\n"


def test_what_was_captured_is_kept_while_the_compiler_runs(tmp_path):
    """And no argument of that call is."""
    done = run(
        tmp_path,
        """
import gc, weakref
from npcompile.tracer.function import CompiledFunction
captures = []
capture = CompiledFunction.capture
CompiledFunction.capture = lambda self, point, state: captures.append(point) or capture(self, point, state)

@npc.compile
def g(x, y):
    z = np.sin(x) * y
    return z.sum() + 1

x = np.ones(50)
g(x, np.ones(50))
gone = weakref.ref(x)
del x
gc.collect()
assert gone() is None
held.unlink()
compiled_function(g).compiling.join()
for size in (50, 50, 7):  # the last is another size
    assert abs(g(np.ones(size), np.ones(size)) - np.sin(1.0) * size - 1) < 1e-9
    (point,) = compiled_function(g).points.values()
    print(len(captures), len(point.variants), point.captured is None)
    if job := compiled_function(g).compiling:
        job.join()
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 1 True\n1 1 True\n2 1 False\n", "")


def test_a_native_loop_is_kept_while_the_compiler_runs(tmp_path):
    """So are functions with loops; a compiler that refuses the unit later leaves the loop to its compiled body."""
    done = run(
        tmp_path,
        """
import gc, weakref
from npcompile.tracer import loop_programs
written = []
write = loop_programs.written_loop
loop_programs.written_loop = lambda function, *given: written.append(function.code.co_name) or write(function, *given)

@npc.compile
def loop(x, y):
    total = 0.0
    for k in range(len(x)):
        total = total + x[k] * y[k]
    return total

x = np.ones(50)
assert loop(x, np.ones(50)) == 50
gone = weakref.ref(x)
del x
gc.collect()
assert gone() is None
held.unlink()
compiled_function(loop).compiling.join()
for size in (50, 50, 7):
    assert loop(np.ones(size), np.ones(size)) == size
    (point,) = compiled_function(loop).points.values()
    print(written, [v.computes for v in point.variants], point.captured is None)
    if job := compiled_function(loop).compiling:
        job.join()
""",
    )
    line = "['loop'] [True] True\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, 3 * line, "")
