"""How many threads a parallel loop may use."""

from __future__ import annotations

import ctypes
import os

from npcompile.backends.cpu.control_groups import cpu_quota

OWN_SETTING = "NPCOMPILE_NUM_THREADS"


def thread_limit() -> int:
    """The least of NPCOMPILE_NUM_THREADS, OMP_NUM_THREADS, the processors this process may run on and its CPU quota.

    Asked once. Asked at every loop are OpenMP's own limit, which holds for the thread that set it (omp_set_num_threads), and
    that of `register_pool`. ValueError where NPCOMPILE_NUM_THREADS is not a positive number.
    """
    limits = [read_setting(OWN_SETTING), read_setting("OMP_NUM_THREADS"), usable_processors(), cpu_quota()]
    return max(1, min(limit for limit in limits if limit is not None))


def read_setting(name: str) -> int | None:
    """A positive number from the environment, None where there is none.

    NPCOMPILE_NUM_THREADS is npcompile's own: ValueError for any other value. OMP_NUM_THREADS is OpenMP's: it may be a list,
    whose first number counts, and what OpenMP would not understand counts for nothing.
    """
    text = os.environ.get(name, "").strip()
    number = text if name == OWN_SETTING else text.split(",")[0].strip()
    if number.isdecimal() and int(number) > 0:
        return int(number)
    if text and name == OWN_SETTING:
        raise ValueError(f"{name}={text!r} in the environment: it takes a number of threads, 1 or more")
    return None


def usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def register_pool(runtime: ctypes.PyDLL) -> None:
    """Let threadpoolctl list and limit the threads of `runtime`, the library that has them, for every caller in the process.

    Its limits can lower what `thread_limit` said, never raise it.
    """
    from threadpoolctl import LibController, register  # here: what importing npcompile alone does not need

    class PoolController(LibController):
        user_api = "openmp"
        internal_api = "npcompile"
        filename_prefixes = (os.path.basename(runtime._name).lower(),)
        check_symbols = ("npc_set_num_threads",)

        def get_num_threads(self) -> int:
            return self.dynlib.npc_get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            self.dynlib.npc_set_num_threads(num_threads)

        def get_version(self) -> None:
            return None

    register(PoolController)
