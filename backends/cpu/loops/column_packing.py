"""Copies of matrices by columns, for loops that read columns again and again.

An element of a column costs a line of the cache, of which the rest is gone when the next column comes. In the copy the elements
of a column lie side by side, so each line is used as a whole, and by vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.loops.speculation import size_of

BLOCK = 64  # rows whose lines stay in the first cache while all columns take their elements
GRAIN = 50_000  # elements that are worth waking a thread

COPY = r"""
struct npc_columns_SIZE { const char* data; int64_t row, n, m; char* room; };
static void npc_columns_SIZE_run(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_columns_SIZE* const c = context;
  for (int64_t block = begin; block < end; block++)
    for (int64_t j = 0; j < c->m; j++)
      for (int64_t i = block * BLOCK; i < npc_min((block + 1) * BLOCK, c->n); i++)
        __builtin_memcpy(c->room + (j * c->n + i) * SIZE, c->data + i * c->row + j * SIZE, SIZE);
}
/* Of n rows and m columns. */
static int npc_columns_SIZE(const char* data, int64_t row, int64_t n, int64_t m, char* room) {
  struct npc_columns_SIZE c = {data, row, n, m, room};
  return rt->parallel(npc_columns_SIZE_run, &c, (n + BLOCK - 1) / BLOCK, npc_max(1, GRAIN / BLOCK / npc_max(1, m)));
}
"""


def name_of(array: str) -> str:
    """The C variable of the copy."""
    return f"{array}_columns"


def helper(array: ArrayInput) -> str:
    """The function that copies such elements."""
    return filled(COPY, {"SIZE": str(size_of(array.kind)), "BLOCK": str(BLOCK), "GRAIN": str(GRAIN)})


def bytes_of(array: ArrayInput) -> str:
    return f"({array.name}_n0 * {array.name}_n1 * {size_of(array.kind)} + 63) / 64 * 64"


def copied(columns: Sequence[ArrayInput], run: str) -> list[str]:
    """Lines that copy the matrices to what `shared` has of them, call `run`, and return what it gives; -1 where that fails."""
    lines = [f"char* const columns = rt->scratch({' + '.join(map(bytes_of, columns))});", "if (!columns) return -1;"]
    before = ["columns"]
    calls = []
    for a in columns:
        lines.append(f"shared.{name_of(a.name)} = {' + '.join(before)};")
        before.append(bytes_of(a))
        sizes = f"{a.name}_s0, {a.name}_n0, {a.name}_n1"
        calls.append(f"npc_columns_{size_of(a.kind)}({a.name}, {sizes}, shared.{name_of(a.name)})")
    return [*lines, f"const int64_t done = {' || '.join(calls)} ? -1 : {run};", "rt->release(columns);", "return done;"]
