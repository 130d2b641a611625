"""Kinds of numbers in native loops, and arrays whose elements they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

C_OF_KIND = {
    "int": "int64_t",
    "float": "double",
    "bool": "uint8_t",
    "b1": "uint8_t",
    "f4": "float",
    "f8": "double",
    **{f"i{n}": f"int{8 * n}_t" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}_t" for n in (1, 2, 4, 8)},
    "complex": "npc_z16",
    "c8": "npc_z8",
    "c16": "npc_z16",
    "data": "char*",  # memory
    "state": "int64_t",  # is something true of NumPy's state of floating-point errors?
    "object": "PyObject*",  # an array that the program made: a reference of its own, or NULL
}
COMPLEX_TYPES = "typedef float _Complex npc_z8;\ntypedef double _Complex npc_z16;"
PART_OF_COMPLEX = {"complex": "float", "c8": "f4", "c16": "f8"}  # kinds of complex numbers -> those of both parts
LIMITS = {f"i{n}": (-(2 ** (8 * n - 1)), 2 ** (8 * n - 1) - 1) for n in (1, 2, 4, 8)} | {
    f"u{n}": (0, 2 ** (8 * n) - 1) for n in (1, 2, 4, 8)
}
INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul"}  # C compilers' names of operations that may overflow


@dataclass(slots=True)
class ArrayInput:
    """An array that the loops read or write: `name` is its first byte."""

    name: str
    kind: str
    ndim: int
    is_contiguous: bool  # in C order
    is_written: bool = False
    made: str = ""  # the C variable of the array object, where the program made it
    is_lent: bool = False  # is it another array each time that the loops begin?

    def declarations(self) -> list[str]:
        numbers = [f"{self.name}_{part}{axis} = 0" for axis in range(self.ndim) for part in "ns"]
        return [f"char* {self.name} = 0;", f"int64_t {', '.join(numbers)};"]

    @property
    def root(self) -> str:
        """The C expression of the array object."""
        return self.made or f"(PyObject*){self.name}_array"

    @property
    def texts(self) -> list[str]:
        """C variables that say where it is."""
        return [self.name, *(f"{self.name}_{part}{axis}" for part in "ns" for axis in range(self.ndim))]

    def set(self, data: str, sizes: Sequence[str], strides: Sequence[str]) -> list[str]:
        """Lines that say where an array is that the program has made."""
        axes = enumerate(zip(sizes, strides))
        return [
            f"{self.name} = {data};",
            *(f"{self.name}_n{k} = {size}; {self.name}_s{k} = {stride};" for k, (size, stride) in axes),
        ]

    def step(self, axis: int) -> str:
        """Bytes from one index to the next; elements of a contiguous array."""
        if not self.is_contiguous:
            return f"{self.name}_s{axis}"
        return " * ".join(f"{self.name}_n{k}" for k in range(axis + 1, self.ndim)) or "1"

    def at(self, places: Sequence[str]) -> str:
        """The element at positions that are within bounds."""
        terms = " + ".join(f"{place} * {self.step(axis)}" for axis, place in enumerate(places))
        c = C_OF_KIND[self.kind]
        return f"(({c}*){self.name})[{terms}]" if self.is_contiguous else f"*({c}*)({self.name} + {terms})"

    def element(self, places: Sequence[str]) -> str:
        """Its value. Any byte may stand for True."""
        return f"{self.at(places)} != 0" if self.kind == "b1" else self.at(places)
