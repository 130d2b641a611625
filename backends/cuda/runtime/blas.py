"""Products of matrices by cuBLAS, called as NumPy's matmul lays matrices out: CuPy takes several times as long to ask for one.

https://docs.nvidia.com/cuda/cublas/index.html#cublas-t-gemm, and #cublas-t-gemmstridedbatched
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from npcompile.backends.cuda.runtime.graphs import CAPTURING, LISTING, CannotCapture
from npcompile.backends.cuda.runtime.interface import Device
from npcompile.backends.cuda.runtime.launch import PRODUCT, Native, Step, address_of, numbered

LETTERS = {"f": "S", "d": "D", "F": "C", "D": "Z"}  # of cuBLAS, by NumPy's
NUMBERS: dict[str, Any] = {c: (ctypes.c_float if c in "fF" else ctypes.c_double) * 2 for c in LETTERS}  # real ones are the first
AS_IT_IS, TRANSPOSED = 0, 1  # cublasOperation_t
WORKSPACE = 8 << 20  # bytes: given by us, so that cuBLAS allocates nothing in a recording
MOST = 2**31 - 1  # sizes that cuBLAS counts


@dataclass(frozen=True, slots=True)
class Geometry:
    """Matrices in memory as cuBLAS counts, along columns first: the transposed product of ours, `second` times `first`."""

    char: str  # NumPy's letter of the elements
    sizes: tuple[int, int, int]  # columns and rows of our result, and what is summed over
    first: tuple[int, int, int]  # (is it transposed, elements from column to column, from matrix to matrix)
    second: tuple[int, int, int]
    count: int


@lru_cache(4096)
def geometry(
    char: str, shape: tuple[int, ...], strides: tuple[int, ...], other: tuple[int, ...], other_strides: tuple[int, ...]
) -> Geometry | None:
    """Of operands (..., m, k) and (..., k, n) with equal stacks; None where cuBLAS does not take them as they lie."""
    if char not in LETTERS or len(shape) < 2 or len(other) < 2 or shape[:-2] != other[:-2]:
        return None
    itemsize = np.dtype(char).itemsize
    layouts = [layout(n, s, itemsize) for n, s in ((other, other_strides), (shape, strides))]
    if None in layouts:
        return None
    first, second = layouts
    assert first is not None and second is not None
    sizes = (other[-1], shape[-2], shape[-1])
    count = math.prod(shape[:-2])
    if not all(sizes) or not count or max(*sizes, first[1], second[1], count) > MOST:
        return None
    return Geometry(char, sizes, first, second, count)


def layout(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int, int] | None:
    """See Geometry; None where neither rows nor columns are side by side, or matrices are not evenly apart."""
    if any(s % itemsize or s < 0 for s in strides):
        return None
    (rows, columns), (down, across) = shape[-2:], (s // itemsize for s in strides[-2:])
    steps = [(n, s // itemsize) for n, s in zip(shape[:-2], strides[:-2]) if n > 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(steps)):
        return None
    step = steps[-1][1] if steps else 0
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return AS_IT_IS, max(down, columns, 1), step
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return TRANSPOSED, max(across, rows, 1), step
    return None


@dataclass(frozen=True, slots=True)
class Gemm:
    """What calls cuBLAS: (0, handle, first, second, result), the last three addresses, in the order of Geometry."""

    library: Any  # CuPy
    cublas: Any
    geometry: Geometry

    def __call__(self, grid: int, handle: int, first: int, second: int, result: int) -> None:
        g = self.geometry
        number = NUMBERS[g.char]
        one, zero = number(1, 0), number(0, 0)
        place, out = c_void_p(handle), c_void_p(result)
        check(self.cublas.cublasSetStream_v2(place, c_void_p(self.library.cuda.get_current_stream().ptr)))
        if CAPTURING.flags is not None:
            workspace = self.library.cuda.alloc(WORKSPACE)
            check(self.cublas.cublasSetWorkspace_v2(place, c_void_p(workspace.ptr), c_size_t(WORKSPACE)))
        columns, rows, _ = g.sizes
        shape = [c_int(n) for n in (g.first[0], g.second[0], *g.sizes)]
        left, right, into = (c_void_p(first), c_int(g.first[1])), (c_void_p(second), c_int(g.second[1])), (out, c_int(columns))
        if g.count == 1:
            check(self.function(place, *shape, byref(one), *left, *right, byref(zero), *into))
            return
        steps = [ctypes.c_longlong(n) for n in (g.first[2], g.second[2], columns * rows)]
        left, right, into = ((*operand, step) for operand, step in zip((left, right, into), steps))  # type: ignore[assignment]
        check(self.function(place, *shape, byref(one), *left, *right, byref(zero), *into, c_int(g.count)))

    @property
    def function(self) -> Any:
        name = f"cublas{LETTERS[self.geometry.char]}gemm"
        return getattr(self.cublas, f"{name}_v2" if self.geometry.count == 1 else f"{name}StridedBatched")

    def numbers(self, native: Native, step: Step) -> list[int]:
        """This product as launch.c reads it."""
        g = self.geometry
        columns, rows, _ = g.sizes
        functions = [address_of(self.cublas.cublasSetStream_v2), address_of(self.function)]
        numbers = [
            g.char in "dD",
            g.first[0],
            g.second[0],
            *g.sizes,
            *g.first[1:],
            *g.second[1:],
            columns,
            columns * rows,
            g.count,
        ]
        return numbered(PRODUCT, functions + [int(n) for n in numbers], step.arguments)


def matmul(device: Device, a: Any, b: Any) -> Any:
    """a @ b, of (..., m, k) and (..., k, n) with equal stacks. Raises CannotCapture where it cannot be recorded."""
    library = device.library
    g = geometry(a.dtype.char, a.shape, a.strides, b.shape, b.strides) if a.dtype == b.dtype else None
    if g is None and CAPTURING.flags is not None and a.dtype == b.dtype and a.dtype.char in LETTERS and a.size and b.size:
        a, b = library.ascontiguousarray(a), library.ascontiguousarray(b)
        g = geometry(a.dtype.char, a.shape, a.strides, b.shape, b.strides)
    multiply = None if g is None else device.multiplier(g)
    if g is None or multiply is None:
        if CAPTURING.flags is not None:
            raise CannotCapture(f"no product of {a.dtype} and {b.dtype} in cuBLAS")
        return library.matmul(a, b)
    shape = (*a.shape[:-1], b.shape[-1])
    out = device.empty(shape, a.dtype, [a.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape))])
    multiply(0, device.blas_handle(), *device.addresses([b, a, out]))
    if LISTING.lister is not None:
        LISTING.lister.add_product(multiply, [b, a], out)
    return out


class Cublas(threading.local):
    """The library, with one handle for each thread and device: handles are not for several threads at once."""

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}
        self.library: Any = None

    def handle(self, library: Any, number: int) -> int:
        """Of the current device, which has this number."""
        made = self.handles.get(number)
        if made is None:
            place = c_void_p()
            check(self.opened(library).cublasCreate_v2(byref(place)))
            made = self.handles[number] = place.value or 0
        return made

    def opened(self, library: Any) -> Any:
        if self.library is None:
            self.library = load(library)
        return self.library


CUBLAS = Cublas()


def check(status: int) -> None:
    if status:
        raise CannotCapture(f"cuBLAS says {status}") if CAPTURING.flags is not None else RuntimeError(f"cuBLAS says {status}")


def load(library: Any) -> Any:
    """That which CuPy has loaded. Raises OSError where there is none of this name."""
    return ctypes.CDLL(f"libcublas.so.{library.cuda.runtime.runtimeGetVersion() // 1000}")
