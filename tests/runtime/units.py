"""Small generated units, and a loader with a cache of its own for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from npcompile.backends.cache import Cache
from npcompile.backends.cpu.compiler import find_compiler
from npcompile.backends.cpu.loader import Loader


def make_loader(folder: Path) -> Loader:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    cache = Cache(folder)
    return Loader(cache, find_compiler(cache))


def returning(statements: str, before: str = "") -> str:
    """A unit that runs `statements`, which set `PyObject* result`, and returns it (NULL: the exception that is set)."""
    return f"""
{before}
PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {{
  PyObject* result = 0;
{statements}
  if (!result) return 0;
  PyObject* tuple = rt->tuple(1);
  rt->tuple_set(tuple, 0, result);
  return tuple;
}}
"""


def constant(value: int) -> str:
    """A unit that returns np.int64(value), given dtypes [int64]."""
    return returning(f"int64_t value = {value}; result = rt->box(npc_dtypes[0], &value);")


INT64 = np.dtype(np.int64)

# args: n, grain, nanoseconds of work per item, piece or 0 -> an int64 array with, for each item, 1000 * (times run) + thread
MARK_ITEMS = returning(
    """
  int64_t n, grain, cost, piece;
  if (rt->as_int64(args[0], &n) || rt->as_int64(args[1], &grain) || rt->as_int64(args[2], &cost)) return 0;
  if (rt->as_int64(args[3], &piece)) return 0;
  result = rt->empty(npc_dtypes[0], 1, &n, 0);
  if (!result) return 0;
  int64_t* items = (int64_t*)((npc_array*)result)->data;
  for (int64_t i = 0; i < n; i++) items[i] = 0;
  struct marks marks = {items, piece ? piece : grain, cost};
  if (piece ? rt->parallel_in_pieces(mark, &marks, n, grain, piece) : rt->parallel(mark, &marks, n, grain)) {
    rt->decref(result);
    return 0;
  }
""",
    before="""
struct timespec { int64_t seconds, nanoseconds; };
int clock_gettime(int, struct timespec*);
static int64_t now(void) {
  struct timespec t;
  clock_gettime(1, &t);
  return t.seconds * 1000000000 + t.nanoseconds;
}
struct marks { int64_t *items, grain, cost; };
static void mark(void* context, int64_t begin, int64_t end, int thread) {
  struct marks* marks = context;
  int64_t until = now() + marks->cost * (end - begin);
  for (int64_t i = begin; i < end; i++) __atomic_fetch_add(&marks->items[i], 1000 + thread, __ATOMIC_RELAXED);
  if (begin % marks->grain) marks->items[begin] = -1;
  while (now() < until) {}
}
""",
)


def mark_items(loader: Loader) -> Callable[..., np.ndarray]:
    call = loader.load(MARK_ITEMS, [INT64]).call
    return lambda n, grain, cost=0, piece=0: call(n, grain, cost, piece)[0]


THREADS = returning("int64_t n = rt->threads(); result = rt->box(npc_dtypes[0], &n);")


def count_threads(loader: Loader) -> int:
    answer: Any = loader.load(THREADS, [INT64]).call()[0]
    return int(answer)
