"""What a kernel is on the device: generated Triton texts, and the sizes of the tiles that they run in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.kernels.kernel import Kernel
from npcompile.tensor_core.dim import Dim, Size, evaluate
from npcompile.tensor_core.dtypes import short

Values = Mapping[str, int]  # of the graph's symbols
POINTER_TYPES = {"b1": "*i8", "f2": "*fp16", "bf16": "*u16", "f4": "*fp32", "f8": "*fp64"}
POINTER_TYPES |= {f"{k}{n}": f"*{k}{8 * n}" for k in "iu" for n in (1, 2, 4, 8)}
TOKEN = re.compile(r"\b(INDEX|NOWHERE|BLOCK|ROWS|FOLD|SPLIT|PARTS|STEPS)\b")


class NotPrintable(Exception):
    """A kernel that Triton cannot have: its nodes run with CuPy or NumPy."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A run-time argument. `role`: buffer, literal, scratch, error, scalar, size."""

    name: str
    type: str  # as in Triton's signatures; "INDEX" for sizes
    role: str
    source: str = ""  # of a buffer, scalar, literal or symbol: its name in the schedule

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@dataclass(frozen=True, slots=True)
class Program:
    """One Triton function. The type of its indices, and the sizes of its tile, stand in its text as the names of TOKEN."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    is_fast: bool = False  # may it round otherwise than NumPy?

    def with_tile(self, tile: Tile, is_wide: bool) -> str:
        """The text for one tile; `is_wide`: offsets pass 2**31."""
        tokens = {
            "INDEX": "tl.int64" if is_wide else "tl.int32",
            "NOWHERE": str(2**63 - 1 if is_wide else 2**31 - 1),
            "BLOCK": str(tile.block),
            "ROWS": str(tile.rows),
            "FOLD": str(tile.fold),
            "SPLIT": str(tile.split),
            "PARTS": str(power_of_two(tile.split)),
            "STEPS": str(tile.steps),
        }
        return TOKEN.sub(lambda m: tokens[m[0]], self.text)


@dataclass(frozen=True, slots=True)
class Tile:
    """`grid` programs of `rows` x `block` elements, each taking `steps` blocks of one of `split` parts.

    Of every `fold` elements that a running result is given, the combination is made first.
    """

    grid: int
    block: int
    rows: int = 1
    split: int = 1
    steps: int = 1
    warps: int = 4
    fold: int = 1
    stages: int = 3  # loads of a loop that are on their way at once


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory that only one kernel needs."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Launch:
    program: Program
    tile: Tile
    scratch: tuple[Scratch, ...] = ()
    others: tuple[Tile, ...] = ()  # that would do as well: see tuning.py


@dataclass(slots=True)
class Plan:
    """A kernel of the schedule: `launches(values)` says what runs for these sizes."""

    kernel: Kernel
    launches: Callable[[Values], list[Launch]]
    programs: list[Program] = field(default_factory=list)


def number_of(size: Size, values: Values) -> int:
    return evaluate(size, dict(values)) if isinstance(size, Dim) else size


def power_of_two(n: int) -> int:
    """The least one that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def ceil_divide(a: int, b: int) -> int:
    return -(-a // b)


def warps_for(elements: int, each: int = 256) -> int:
    return min(max(power_of_two(ceil_divide(elements, each)), 1), 16)


def pointer_type(dtype: np.dtype) -> str:
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    return POINTER_TYPES[short(part)]
