"""What a user of npcompile.compile sees of the same faults."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.compiler import which

needs_compiler = pytest.mark.skipif(not (which("cc") or which("gcc")), reason="no C compiler")


def run_python(text: str, **environment: str) -> list[str]:
    """The words that a program prints in a process of its own."""
    variables = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
    done = subprocess.run([sys.executable, "-c", text], env=variables, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


WITHOUT_COMPILER = """
import importlib.util, warnings
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "ziglang" else real(name, *rest)
import numpy as np, npcompile as npc
f = npc.compile(lambda x: np.sin(x) * 2 + x.sum())
g = npc.compile(lambda x: np.cos(x) - 1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for x in (np.arange(5.0), np.arange(7.0), np.arange(5)):
        assert np.array_equal(f(x), np.sin(x) * 2 + x.sum()) and np.array_equal(g(x), np.cos(x) - 1)
print(len(caught), *("doctor" in str(w.message) for w in caught))
"""


@pytest.mark.parametrize("compiler", ["", "/bin/false", "/bin/true"], ids=["none", "failing", "lying"])
def test_without_a_compiler_numpy_answers_with_one_warning(compiler, tmp_path):
    environment = {"CC": compiler, "PATH": str(tmp_path), "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache")}
    assert run_python(WITHOUT_COMPILER, **environment) == ["1", "True"]


FORKED = """
import os, numpy as np, npcompile as npc, signal
f = npc.compile(lambda x: np.sin(x) * np.cos(x) + 1)
x = np.random.rand(1_000_000)
expected = f(x)
signal.alarm(20)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if np.array_equal(f(x), expected) and np.array_equal(f(x[:7]), expected[:7]) else 1)
    children.append(child)
print(*(os.waitpid(child, 0)[1] for child in children), np.array_equal(f(x), expected))
"""


@needs_compiler
def test_forked_children_answer(tmp_path):
    assert run_python(FORKED, NPCOMPILE_CACHE_DIR=str(tmp_path)) == ["0", "0", "0", "True"]


@needs_compiler
def test_many_threads_call_one_function():
    @npc.compile
    def f(x, y):
        return (x * 2 + y).sum(axis=0)

    shapes = [(5,), (7, 3), (7, 3), (64, 100), (100_000,)]
    barrier = threading.Barrier(32)
    wrong: list[object] = []

    def work(number: int) -> None:
        shape = shapes[number % len(shapes)]
        x, y = np.full(shape, number), np.arange(np.prod(shape)).reshape(shape)
        expected = (x * 2 + y).sum(axis=0)
        barrier.wait()
        for _ in range(5):
            got = f(x, y)
            if not np.array_equal(got, expected):
                wrong.append((shape, got, expected))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


INTERRUPTED = """
import os, signal, threading, time, numpy as np, npcompile as npc
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
f = npc.compile(lambda x: np.sin(np.sin(np.sin(np.sin(x)))).sum())
x = np.random.rand(60_000_000)
expected = f(x[:1000]), f(x[:2000])
begun = time.monotonic()
f(x)
soon = max(0.5, (time.monotonic() - begun) / 2)  # half of a call, where the machine is busy
sent = [0.0]
def send():
    sent[0] = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
timer = threading.Timer(0.2, send)
timer.start()
try:
    while time.monotonic() < sent[0] + 20 if sent[0] else True:
        f(x)
    print("ignored")
except KeyboardInterrupt:
    print("seen" if time.monotonic() - sent[0] < soon else "late")
print((f(x[:1000]), f(x[:2000])) == expected)
"""


@needs_compiler
def test_interrupt_of_a_long_call(tmp_path):
    assert run_python(INTERRUPTED, NPCOMPILE_CACHE_DIR=str(tmp_path)) == ["seen", "True"]


# Waits for the file that the next call makes: the processes of the first three calls run at the same time, or never end.
WAITING_COMPILER = """#!/bin/sh
number=$(ls {folder} | wc -l)
while ! mkdir {folder}/$number; do number=$((number + 1)); done
tries=0
while [ $number -lt 2 ] && ! [ -e {folder}/2 ] && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
[ $tries -lt 300 ] && exec {compiler} "$@"
"""
COMPILED = """
import numpy as np, npcompile as npc
x = np.arange(5.0)
print(np.array_equal(npc.compile(lambda x: x * 2 + 1)(x), x * 2 + 1))
"""


@needs_compiler
def test_the_compiler_is_tried_while_it_makes_the_runtime(tmp_path):
    calls, compiler = tmp_path / "calls", tmp_path / "cc"
    calls.mkdir()
    compiler.write_text(WAITING_COMPILER.format(folder=calls, compiler=which("cc") or which("gcc")))
    compiler.chmod(0o755)
    environment = {"CC": str(compiler), "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache")}
    assert run_python(COMPILED, **environment) == ["True"]
    assert len(list(calls.iterdir())) == 4  # two questions, the runtime, the graph
    assert run_python(COMPILED, **environment) == ["True"]
    assert len(list(calls.iterdir())) == 4


@needs_compiler
@pytest.mark.parametrize("refused", ["-fopenmp", "-lmvec"])
def test_a_runtime_begun_with_options_that_are_refused_is_made_anew(refused, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nfor a; do [ "$a" = {refused} ] && exit 1; done\nexec {which("cc") or which("gcc")} "$@"\n')
    compiler.chmod(0o755)
    assert run_python(COMPILED, CC=str(compiler), NPCOMPILE_CACHE_DIR=str(tmp_path / "cache")) == ["True"]


@needs_compiler
def test_a_program_that_ends_before_the_runtime_is_made_leaves_nothing(tmp_path):
    """It makes no graph, so it does not wait."""
    text = "import npcompile as npc\nprint(npc.compile(lambda x: x + 1)(2))"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert run_python(text, NPCOMPILE_CACHE_DIR=str(tmp_path / "cache"), TMPDIR=str(temporary)) == ["3"]
    assert not list(temporary.iterdir())
    assert len(list((tmp_path / "cache").glob("*.so"))) == 1


WRONG_PROCESSOR = """
import numpy as np, npcompile as npc
f = npc.compile(lambda x: np.sin(x) * 2 + x)
for _ in range(2):
    try:
        f(np.ones(3))
    except ValueError as error:
        print(error)
"""


@needs_compiler
def test_a_processor_that_the_compiler_does_not_know(tmp_path):
    environment = os.environ | {
        "NPCOMPILE_MARCH": "bogus",
        "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.getcwd(),
    }
    command = [sys.executable, "-W", "error", "-c", WRONG_PROCESSOR]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == second and first.startswith("NPCOMPILE_MARCH='bogus' in the environment: ")
