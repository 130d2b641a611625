"""Python lists of numbers in native loops, as C: items side by side in memory that grows as they become more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from npcompile.backends.cpu.elements import C_OF_KIND

SLOT = 8  # bytes of each number of an item that is a tuple
LETTERS = {"int": "i", "float": "f", "bool": "b"}  # of numbers that are Python's; others are NumPy's

LIST_HELPERS = r"""
typedef struct {
  char* data;
  int64_t count, bytes; /* items, and the memory there is for them */
} npc_list;
/* Room for more. */
static __attribute__((noinline)) int npc_grow(npc_list* list, int64_t used) {
  const int64_t bytes = list->bytes ? 2 * list->bytes : 512;
  char* const data = rt->scratch(bytes);
  if (!data) return -1;
  if (used) __builtin_memcpy(data, list->data, used);
  rt->release(list->data);
  list->data = data, list->bytes = bytes;
  return 0;
}
static inline int npc_reserve(npc_list* list, int64_t bytes) {
  if (bytes <= list->bytes) return 0;
  rt->release(list->data);
  list->bytes = 0;
  if (!(list->data = rt->scratch(bytes))) return -1;
  list->bytes = bytes;
  return 0;
}
"""


def declarations(names: Iterable[str]) -> list[str]:
    return [f"npc_list {name} = {{0, 0, 0}};" for name in names]


def releases(names: Iterable[str]) -> list[str]:
    return [f"rt->release({name}.data);" for name in names]


def dtype_of(kind: str) -> str:
    return {"int": "i8", "float": "f8", "bool": "b1"}.get(kind, kind)


class Code(Protocol):
    """The program that the list is in."""

    def dtype(self, dtype: np.dtype) -> int: ...


@dataclass(frozen=True, slots=True)
class NumberList:
    """A list of numbers that the program has made and may change. Which one it is the C variable tells: each has its own."""

    name: str
    kinds: tuple[str, ...] = ()  # of an item's numbers; none while nothing was put into it
    is_of_tuples: bool = False

    @property
    def count(self) -> str:
        return f"{self.name}.count"

    @property
    def size(self) -> int:
        """Of an item, in bytes."""
        return SLOT * len(self.kinds) if self.is_of_tuples else np.dtype(dtype_of(self.kinds[0])).itemsize

    def slots(self, place: str) -> list[str]:
        """The numbers of an item, as C that reads or is set."""
        if not self.is_of_tuples:
            return [f"(({C_OF_KIND[self.kinds[0]]}*){self.name}.data)[{place}]"]
        size = self.size
        return [f"*({C_OF_KIND[kind]}*)({self.name}.data + ({place}) * {size} + {SLOT * k})" for k, kind in enumerate(self.kinds)]

    def objects(self, code: Code) -> str:
        """The arguments of the runtime's `list_of`."""
        if not self.kinds:
            return '"i", (PyObject**)0, (char*)0, (int64_t)0, (int64_t)0'
        letters = "(" * self.is_of_tuples + "".join(LETTERS.get(kind, "n") for kind in self.kinds)
        dtypes = ", ".join(f"npc_dtypes[{code.dtype(np.dtype(dtype_of(kind)))}]" for kind in self.kinds)
        return f'"{letters}", (PyObject*[]){{{dtypes}}}, {self.name}.data, {self.count}, (int64_t){self.size}'
