"""Generated code and the CPU runtime under GCC's sanitizers, a small part of what `python -m tests.sanitizers` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from npcompile.backends.cpu.threads import thread_limit
from tests.sanitizers.environment import LIBRARIES, REPORTED, environment, library_of

MISTAKES = {  # statements of a unit, where n is 16
    "heap-buffer-overflow": "result = rt->empty(npc_dtypes[0], 1, &n, 0); ((npc_array*)result)->data[n * 8] = 1;",
    "use-after-poison": "char* p = rt->scratch(1 << 20); p[(1 << 20) - 16 + n] = 1;",  # a block that malloc knows nothing of
    "shift exponent": "n = 1 << (n + 48);",
}
RACE = """
static int64_t seen, count, left = 3000000000; /* looks for the other thread: on a busy machine it comes late */
static void body(void* context, int64_t begin, int64_t end, int thread) {
  count += 1;
  __atomic_fetch_or(&seen, 1 << thread, __ATOMIC_RELAXED);
  while (__atomic_load_n(&seen, __ATOMIC_RELAXED) < 3 && __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) > 0) {}
}
"""
SCRIPT = """
import sys
import numpy as np
from npcompile.backends.cpu.loader import load
from tests.runtime.units import returning
statements, before = sys.argv[1:]
source = returning(f"int64_t n = 16; {statements} if (!result) result = rt->box(npc_dtypes[0], &n);", before)
load(source, [np.dtype("i8")]).call()
"""


def run(kind: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    if library_of(kind) is None:
        pytest.skip(f"the GCC of this machine has no {LIBRARIES[kind]}")
    done = subprocess.run([sys.executable, *command], env=environment(kind, folder), capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("GCC's ThreadSanitizer does not know the address space of this machine")
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests of a module, so that the runtime is compiled once."""
    return tmp_path_factory.mktemp("sanitized")


@pytest.mark.parametrize("report", MISTAKES)
def test_mistakes_are_reported(report: str, folder: Path) -> None:
    done = run("address", folder, "-c", SCRIPT, MISTAKES[report], "")
    assert done.returncode == REPORTED and report in done.stderr, done.stderr


@pytest.mark.skipif(thread_limit() < 2, reason="one thread")
def test_races_are_reported(folder: Path) -> None:
    done = run("thread", folder, "-c", SCRIPT, "rt->parallel(body, 0, 64, 1);", RACE)
    assert done.returncode == REPORTED and "data race" in done.stderr, done.stderr


def test_generated_code_has_nothing_to_report(folder: Path) -> None:
    done = run("address", folder, "-m", "tests.sanitizers.programs", "2")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[:6000]
