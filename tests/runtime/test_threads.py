"""Parallel loops: every item once, as many threads as allowed, forks and interrupts survived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from npcompile.backends.cpu.control_groups import cpu_quota, memory_quota
from npcompile.backends.cpu.threads import read_setting, thread_limit, usable_processors
from tests.runtime.units import INT64, count_threads, mark_items, returning

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.getcwd()}


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 1000, 123_457])
@pytest.mark.parametrize("grain", [1, 7, 64, 10_000])
def test_every_item_runs_once(n, grain, loader):
    times, thread = np.divmod(mark_items(loader)(n, grain), 1000)
    assert (times == 1).all()  # and every chunk began at a multiple of the grain
    assert n == 0 or thread.max() < count_threads(loader)


@pytest.mark.parametrize("grain, piece", [(7, 1), (64, 16), (10_000, 2000), (5, 7)])
def test_pieces_of_a_grain(grain, piece, loader):
    for n in (0, 1, 7, 64, 65, 123_457, 123_457):  # the later ones find workers awake
        times, thread = np.divmod(mark_items(loader)(n, grain, piece=piece), 1000)
        assert (times == 1).all()  # and every chunk began at a multiple of the piece
        assert n == 0 or thread.max() < count_threads(loader)
        assert n > piece or (thread == 0).all()


def test_a_slow_loop_uses_every_thread(loader):
    """Unless the system keeps one waiting all that time: a busy machine is given longer loops."""
    threads, mark = count_threads(loader), mark_items(loader)
    if threads < 2:
        pytest.skip("one thread")
    assert any(len(set(mark(60 * threads, 1, 100_000 << k) % 1000)) == threads for k in range(8))


def test_threads_have_the_same_items_each_time(loader):
    """Those that their caches still hold, unless a thread comes late: on a busy machine, to short loops."""
    threads, n = count_threads(loader), 1000
    if threads < 2:
        pytest.skip("one thread")
    mark, parts = mark_items(loader), [n * k // threads for k in range(threads)]

    def own(cost: int) -> int:
        thread = mark(n, 1, cost) % 1000
        return sum((thread[first : first + n // threads // 2] == k).all() for k, first in enumerate(parts))

    assert any(own(cost) > threads // 2 for cost in (*[10_000] * 200, *[100_000] * 20, *[1_000_000] * 5))


def test_a_small_loop_is_one_call_on_this_thread(loader):
    assert (mark_items(loader)(1000, 1000) == 1000).all()


def test_short_loops_that_follow_each_other_wake_threads(loader):
    if count_threads(loader) < 2:
        pytest.skip("one thread")
    mark = mark_items(loader)
    time.sleep(0.01)  # all are asleep
    assert (mark(100, 100, 1000, piece=10) == 1000).all()  # not worth it alone
    assert any((mark(100, 100, 1000, piece=10) % 1000).any() for _ in range(10_000))


PLACED = """
import os, sys, time
from pathlib import Path
from tests.runtime.units import make_loader, mark_items

def field(thread, number):
    return int(Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[number - 3])

def threads():
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}

def loop():
    times, thread = divmod(mark(2000, 1, 10_000), 1000)
    assert (times == 1).all()
    return set(thread)

mark = mark_items(make_loader(Path(sys.argv[1])))
before, everywhere = threads(), os.sched_getaffinity(0)
while len(loop()) < 2:
    pass
(worker,) = threads() - before
for _ in range(3):
    time.sleep(0.05)  # it is asleep
    last = field(worker, 39)
    os.sched_setaffinity(0, {last})
    while loop() != {0, 1}:
        pass
    loop()
    assert os.sched_getaffinity(worker) == everywhere - {last}, (os.sched_getaffinity(worker), last)
    os.sched_setaffinity(0, everywhere)
os.sched_setaffinity(worker, everywhere)  # by the user
for processor in everywhere:
    os.sched_setaffinity(0, {processor})
    for _ in range(20):
        time.sleep(0.005)
        loop()
assert os.sched_getaffinity(worker) == everywhere
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
@pytest.mark.skipif(usable_processors() < 2, reason="one processor")
def test_workers_are_not_where_the_caller_is(loader):
    """Unless the user places them."""
    command = [sys.executable, "-c", PLACED, str(loader.cache.folder)]
    environment = {**ENVIRONMENT, "NPCOMPILE_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr


# ---- how many threads ----


def test_limit_is_the_least(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("NPCOMPILE_NUM_THREADS", raising=False)
    free = thread_limit()
    assert free <= usable_processors()
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert thread_limit() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1000")
    assert thread_limit() == free
    monkeypatch.setenv("NPCOMPILE_NUM_THREADS", "1")
    assert thread_limit() == 1


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5"])
def test_settings_that_are_no_number_are_not_read(text, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert read_setting("OMP_NUM_THREADS") is None


@pytest.mark.parametrize("text", ["0", "-3", "abc", "1.5", "2,1"])
def test_wrong_numbers_of_threads_are_errors_at_import(text):
    environment = ENVIRONMENT | {"NPCOMPILE_NUM_THREADS": text}
    done = subprocess.run([sys.executable, "-c", "import npcompile"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ValueError: NPCOMPILE_NUM_THREADS={text!r} in the environment: it takes")


def groups(tmp_path: Path, membership: str, files: dict[str, str]) -> tuple[Path, Path]:
    (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "cgroup", tmp_path / "mount"


QUOTAS = {
    "version 2": ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n", "a/cpu.max": "max 100000\n"}, 2),
    "version 2, parent": ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "100000 100000\n"}, 1),
    "version 2, container": ("0::/host/path\n", {"cpu.max": "300000 100000\n"}, 3),
    "version 2, less than one": ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
    "version 1": (
        "3:cpu,cpuacct:/a\n1:name=systemd:/a\n",
        {"cpu,cpuacct/a/cpu.cfs_quota_us": "400000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"},
        4,
    ),
    "version 1, none": ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    "no groups": ("", {}, None),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_quota_of_the_control_group(name, tmp_path):
    membership, files, quota = QUOTAS[name]
    assert cpu_quota(*groups(tmp_path, membership, files)) == quota


LIMITS = {
    "version 2": ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "4096\n"}, 4096),
    "version 1": ("9:memory:/a\n", {"memory/a/memory.limit_in_bytes": "8192\n"}, 8192),
    "none": ("0::/a\n", {"a/memory.max": "max\n"}, None),
}


@pytest.mark.parametrize("name", LIMITS)
def test_memory_of_the_control_group(name, tmp_path):
    membership, files, limit = LIMITS[name]
    assert memory_quota(*groups(tmp_path, membership, files)) == limit


def test_threadpoolctl_is_obeyed(loader):
    before = count_threads(loader)
    with threadpoolctl.threadpool_limits(1):
        assert count_threads(loader) == 1
        assert (mark_items(loader)(2000, 1, 10_000) % 1000 == 0).all()
    assert count_threads(loader) == before


def test_threadpoolctl_limits_calls_of_every_thread(loader):
    """OpenMP's own limit is that of the thread which asked for it."""
    before = count_threads(loader)
    with threadpoolctl.threadpool_limits(1), ThreadPoolExecutor(1) as other:
        assert other.submit(count_threads, loader).result() == 1
    with threadpoolctl.threadpool_limits(1000):  # more than the environment and the processors allow
        assert count_threads(loader) == before
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "npcompile"]
    assert pools and all(pool["num_threads"] >= 1 and pool["user_api"] == "openmp" for pool in pools)


COUNTED = returning(
    """
  int64_t n = 400, most = 0;
  if (rt->parallel(work, &most, n, 1)) return 0;
  result = rt->box(npc_dtypes[0], &most);
""",
    before="""
int usleep(unsigned);
static int64_t inside;
static void inner(void* context, int64_t begin, int64_t end, int thread) {
  if (thread != *(int*)context) __atomic_store_n(&inside, 1000000, __ATOMIC_RELAXED);
  usleep(100);
}
static void work(void* context, int64_t begin, int64_t end, int thread) {
  int64_t now = __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);
  if (now > *(int64_t*)context) __atomic_store_n((int64_t*)context, now, __ATOMIC_RELAXED);
  rt->parallel(inner, &thread, 20, 1);
  usleep(200);
  __atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
}
""",
)


def test_loops_inside_loops_stay_on_their_thread(loader):
    most = loader.load(COUNTED, [INT64]).call()[0]
    assert 1 <= most <= count_threads(loader)


def test_callers_share_the_threads(loader):
    call = loader.load(COUNTED, [INT64]).call
    most: list[int] = []
    callers = [threading.Thread(target=lambda: most.append(int(call()[0]))) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(most) == 8
    assert max(most) <= count_threads(loader) + 8 - 1  # each brings its own, only the first gets the others


# ---- fork ----


@needs_fork
def test_a_forked_child_answers_on_one_thread(loader):
    mark = mark_items(loader)
    mark(2000, 1, 10_000)
    unit = loader.load(returning("int64_t n = rt->threads(); result = rt->box(npc_dtypes[0], &n);"), [INT64])
    child = os.fork()
    if child == 0:
        threads = int(unit.call()[0])
        answers = mark(2000, 1, 1000)
        os._exit(0 if threads == 1 and (answers == 1000).all() else 1)
    deadline = time.monotonic() + 5
    done, status = 0, 1
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done and status == 0
    assert (mark(2000, 1, 1000) // 1000 == 1).all()


FORKED_WHILE_COMPILING = """
import os, sys, threading
from npcompile.backends.cpu import loader as module
from tests.runtime.units import INT64, constant
module.load(constant(0), [INT64])
loader = module.loader()
inside, leave = threading.Event(), threading.Event()
real = type(loader.compiler).begin
def slow(compiler, *arguments):
    inside.set()
    leave.wait(20)
    return real(compiler, *arguments)
type(loader.compiler).begin = slow
thread = threading.Thread(target=module.load, args=(constant(1), [INT64]))
thread.start()
inside.wait(20)
child = os.fork()
if child == 0:
    type(loader.compiler).begin = real
    os._exit(0 if module.load(constant(1), [INT64]).call() == (1,) else 1)
threading.Timer(1, leave.set).start()
_, status = os.waitpid(child, 0)
leave.set()
thread.join()
print(status, int(module.load(constant(1), [INT64]).call()[0]))
"""


@needs_fork
def test_a_child_forked_while_another_thread_compiles(tmp_path):
    environment = {**ENVIRONMENT, "NPCOMPILE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED_WHILE_COMPILING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.split() == ["0", "1"], done.stderr


# ---- interrupts ----

INTERRUPTED = """
import os, random, signal, sys, threading
from pathlib import Path
from tests.runtime.units import make_loader, mark_items
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
mark = mark_items(make_loader(Path(sys.argv[1])))
mark(10, 1)
delays = random.Random(0)
for grain in (1, 1000):
    for _ in range(3):
        threading.Timer(0.05 + 0.3 * delays.random(), os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            mark(20_000_000, grain, 1000)  # seconds of work for dozens of processors
            print("ran to its end")
        except KeyboardInterrupt:
            print("interrupted")
        assert (mark(1000, 10) // 1000 == 1).all()
"""


@pytest.mark.parametrize("threads", ["1", "64"])
def test_interrupts_are_seen(threads, loader):
    command = [sys.executable, "-c", INTERRUPTED, str(loader.cache.folder)]
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": threads}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.split() == ["interrupted"] * 6, done.stdout + done.stderr


def test_other_threads_run_meanwhile(loader):
    mark = mark_items(loader)
    mark(10, 1)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    mark(500_000, 1000, 2000)
    ended = time.monotonic()
    done.set()
    thread.join()
    assert sum(began < t < ended for t in ticks) > 5
