"""The processes that compile: what they leave alone, how they end, and what happens when one dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npcompile.backends.cuda.runtime import compiler
from npcompile.backends.cuda.runtime.compiler import CompileFailed, Request, compile_all, workers

DOUBLE = """import triton
import triton.language as tl

@triton.jit
def double(x):
    tl.store(x, tl.load(x) * {})
"""


def request(number: int = 2, before: str = "") -> Request:
    return Request("double", before + DOUBLE.format(number), (("x", "*fp32"),))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path / "cache"))
    compiler.cubin_cache.cache_clear()


def test_a_worker_that_dies_once_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "died")
    dies_once = f"import os\nif not os.path.exists({path!r}):\n    open({path!r}, 'w')\n    os._exit(3)\n"
    (made,) = compile_all([request(before=dies_once)], 90)
    assert made.cubin[:4] == b"\x7fELF"


def test_what_a_dead_worker_said_is_told() -> None:
    dies = "import os, sys\nsys.stderr.write('out of registers')\nsys.stderr.flush()\nos._exit(4)\n"
    with pytest.raises(CompileFailed, match=r"died with status 4\nout of registers"):
        compile_all([request(before=dies)], 90)


def test_a_worker_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "TIMEOUT", 0.5)
    monkeypatch.setattr(compiler, "ATTEMPTS", 1)
    with pytest.raises(CompileFailed, match="died with status -9"):
        compile_all([request(before="import time\ntime.sleep(600)\n")], 90)


def test_several_at_once() -> None:
    made = compile_all([request(k) for k in range(2, 8)], 90)
    assert len({m.cubin for m in made}) == 6
    assert len(workers().all) >= min(2, len(os.sched_getaffinity(0)))


def run(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(program)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment = {**os.environ, "NPCOMPILE_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": paths, **environment}
    return subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False, timeout=120)


IMPORTS = """from npcompile.backends.cuda.runtime import compiler
from npcompile.backends.cuda.runtime.compiler import Request, compile_all, workers
"""
COMPILE = IMPORTS + f"made = compile_all([Request('double', {DOUBLE.format(2)!r}, (('x', '*fp32'),))], 90)\n"


def test_the_users_main_module_runs_once_and_alone(tmp_path: Path) -> None:
    ran = run("import os\nprint('main')\nif os.fork() == 0: os._exit(0)\nos.wait()\n" + COMPILE + "print(len(made))", tmp_path)
    assert ran.stdout.split() == ["main", "1"], ran.stderr


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    users = tmp_path / "triton"
    program = COMPILE + "import sys\nprint(workers().all[0].process.pid, 'triton' in sys.modules, 'torch' in sys.modules)"
    ran = run(program, tmp_path, TMPDIR=str(folder), TRITON_CACHE_DIR=str(users))
    pid, *imported = ran.stdout.split()
    assert imported == ["False", "False"], ran.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert not [*folder.iterdir()] and not users.exists()


def test_workers_that_are_busy_when_the_process_ends(tmp_path: Path) -> None:
    sleeps = "import time\ntime.sleep(600)\n" + DOUBLE.format(2)
    program = f"""{IMPORTS}
import threading, time
threading.Thread(target=lambda: compile_all([Request('double', {sleeps!r}, (('x', '*fp32'),))], 90), daemon=True).start()
while not workers().all:
    time.sleep(0.01)
print(workers().all[0].process.pid)
"""
    ran = run(program, tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int(ran.stdout), 0)


def test_a_worker_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    ran = run(COMPILE + "import os\nprint(workers().all[0].process.pid, flush=True)\nos.kill(os.getpid(), 9)", tmp_path)
    pid = int(ran.stdout)
    for _ in range(1000):
        if not Path(f"/proc/{pid}").exists() or ") Z" in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the worker is still there")


def test_forked_children_have_their_own(tmp_path: Path) -> None:
    program = f"""{COMPILE}
import os
ours = workers().all[0].process
if os.fork() == 0:
    assert not compiler._workers
    made = compile_all([Request('double', {DOUBLE.format(3)!r}, (('x', '*fp32'),))], 90)
    assert workers().all[0].process.pid != ours.pid
    raise SystemExit(len(made))
_, status = os.wait()
compile_all([Request('double', {DOUBLE.format(4)!r}, (('x', '*fp32'),))], 90)
print(os.waitstatus_to_exitcode(status), workers().all[0].process is ours, ours.poll())
"""
    ran = run(program, tmp_path)
    assert ran.stdout.split() == ["1", "True", "None"], ran.stderr


def test_a_warm_start_starts_nothing(tmp_path: Path) -> None:
    assert run(COMPILE, tmp_path).returncode == 0
    ran = run(COMPILE + "import sys\nprint(compiler._workers, [m for m in ('triton', 'torch') if m in sys.modules])", tmp_path)
    assert ran.stdout.strip() == "[] []", ran.stderr


def test_one_started_ahead_is_used() -> None:
    compiler.stop_workers()
    compiler._workers.clear()
    workers().start()
    (ahead,) = workers().all
    compile_all([request(9)], 90)
    assert workers().all == [ahead]
