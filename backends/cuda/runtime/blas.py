"""Products of matrices while launches are recorded: CuPy does not call cuBLAS then, so it is called here.

https://docs.nvidia.com/cuda/cublas/index.html#cublas-t-gemmstridedbatched
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_longlong, c_size_t, c_void_p
from typing import Any

from npcompile.backends.cuda.runtime.graphs import CAPTURING, CannotCapture

GEMM: dict[str, tuple[str, Any]] = {
    "f": ("cublasSgemmStridedBatched", ctypes.c_float),
    "d": ("cublasDgemmStridedBatched", ctypes.c_double),
    "F": ("cublasCgemmStridedBatched", ctypes.c_float * 2),
    "D": ("cublasZgemmStridedBatched", ctypes.c_double * 2),
}
AS_IT_IS, TRANSPOSED = 0, 1  # cublasOperation_t
WORKSPACE = 8 << 20  # bytes: given by us, so that cuBLAS allocates nothing in a recording
MOST = 2**31 - 1


def matmul(library: Any, a: Any, b: Any) -> Any:
    """a @ b, of (..., m, k) and (..., k, n) with equal stacks. Raises CannotCapture where it cannot be recorded."""
    if CAPTURING.flags is None:
        return library.matmul(a, b)
    if a.dtype != b.dtype or a.dtype.char not in GEMM:
        raise CannotCapture(f"no product of {a.dtype} and {b.dtype} in cuBLAS")
    stack = a.shape[:-2]
    a, b = flat_stack(library, a), flat_stack(library, b)
    (count, m, k), n = a.shape, b.shape[-1]
    out = library.empty((count, m, n), a.dtype)
    cublas = opened(library)
    # cuBLAS counts along columns first: what it takes for the transposed product is ours.
    one, two = layout(b), layout(a)
    assert one is not None and two is not None, (a.strides, b.strides)
    step_a, step_b = (x.strides[0] // x.itemsize for x in (a, b))
    if max(m, n, k, one[1], two[1], count) > MOST:
        raise CannotCapture("cuBLAS counts with 32 bits")
    name, number = GEMM[a.dtype.char]
    alpha, beta = number(1), number(0)
    workspace = library.cuda.alloc(WORKSPACE)
    stream = c_void_p(library.cuda.get_current_stream().ptr)
    cublas.check(cublas.library.cublasSetStream_v2(cublas.handle, stream))
    cublas.check(cublas.library.cublasSetWorkspace_v2(cublas.handle, c_void_p(workspace.ptr), c_size_t(WORKSPACE)))
    left = (c_void_p(b.data.ptr), c_int(one[1]), c_longlong(step_b))
    right = (c_void_p(a.data.ptr), c_int(two[1]), c_longlong(step_a))
    result = (c_void_p(out.data.ptr), c_int(n), c_longlong(m * n))
    sizes = (c_int(one[0]), c_int(two[0]), c_int(n), c_int(m), c_int(k))
    gemm = getattr(cublas.library, name)
    cublas.check(gemm(cublas.handle, *sizes, byref(alpha), *left, *right, byref(beta), *result, c_int(count)))
    return out.reshape(*stack, m, n)


def flat_stack(library: Any, x: Any) -> Any:
    """The matrices along one axis, each with rows or columns side by side."""
    if x.ndim > 3 or layout(x) is None:
        x = library.ascontiguousarray(x)
    return x[None] if x.ndim == 2 else x.reshape(-1, *x.shape[-2:]) if x.ndim > 3 else x


def layout(x: Any) -> tuple[int, int] | None:
    """(is it transposed, elements from one row or column to the next), or None where neither is side by side."""
    (rows, columns), (down, across) = x.shape[-2:], (s // x.itemsize for s in x.strides[-2:])
    if any(s % x.itemsize or s < 0 for s in x.strides):
        return None
    if across == 1 and down >= columns:
        return AS_IT_IS, down
    if down == 1 and across >= rows:
        return TRANSPOSED, across
    return None


class Cublas(threading.local):
    """The library, with one handle for each thread and device: handles are not for several threads at once."""

    def __init__(self) -> None:
        self.handles: dict[int, c_void_p] = {}
        self.library: Any = None
        self.handle: c_void_p | None = None

    def open(self, library: Any) -> None:
        if self.library is None:
            self.library = load(library)
        number = library.cuda.runtime.getDevice()
        if number not in self.handles:
            handle = c_void_p()
            self.check(self.library.cublasCreate_v2(byref(handle)))
            self.handles[number] = handle
        self.handle = self.handles[number]

    def check(self, status: int) -> None:
        if status:
            raise CannotCapture(f"cuBLAS says {status}")


CUBLAS = Cublas()


def opened(library: Any) -> Cublas:
    CUBLAS.open(library)
    return CUBLAS


def load(library: Any) -> Any:
    """That which CuPy has loaded."""
    name = f"libcublas.so.{library.cuda.runtime.runtimeGetVersion() // 1000}"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise CannotCapture(str(error)) from None
