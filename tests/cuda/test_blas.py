"""What cuBLAS is asked for, against a library that computes on the host, and on a device."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.binding import python_function
from npcompile.backends.cpu.loader import NoCompiler, loader
from npcompile.backends.cpu.prelude import TYPES
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda.runtime import blas, graphs
from npcompile.backends.cuda.runtime.graphs import Replayed, capturing
from npcompile.backends.cuda.runtime.launch import SOURCE, Argument, Batch, Native, Step
from tests.backends import gpu

LIBRARY = """
#include <complex.h>
typedef float complex cfloat;
typedef double complex cdouble;
int stream_set = 0, workspace_set = 0, workspace_needed = 0;
int cublasCreate_v2(void** handle) { *handle = (void*)0x77; return 0; }
int cublasSetStream_v2(void* handle, void* stream) { stream_set = stream == (void*)0x123 && handle == (void*)0x77; return 0; }
int cublasSetWorkspace_v2(void* handle, void* room, unsigned long size) { workspace_set = room && size; return 0; }
#define GEMM(NAME, T)                                                                                                       \\
  int cublas##NAME##gemmStridedBatched(void* handle, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda, \\
           long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc, long long sc, int count) {        \\
    if (handle != (void*)0x77 || !stream_set || workspace_needed > workspace_set) return 7;                                 \\
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 8;                                                      \\
    for (int q = 0; q < count; q++, a += sa, b += sb, c += sc)                                                              \\
      for (int i = 0; i < m; i++)                                                                                           \\
        for (int j = 0; j < n; j++) {                                                                                       \\
          T sum = 0;                                                                                                        \\
          for (int l = 0; l < k; l++)                                                                                       \\
            sum += a[ta ? l + (long)i * lda : i + (long)l * lda] * b[tb ? j + (long)l * ldb : l + (long)j * ldb];           \\
          c[i + (long)j * ldc] = *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + (long)j * ldc]);                            \\
        }                                                                                                                   \\
    return 0;                                                                                                               \\
  }                                                                                                                         \\
  int cublas##NAME##gemm_v2(void* handle, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, \\
           int ldb, const T* beta, T* c, int ldc) {                                                                         \\
    return cublas##NAME##gemmStridedBatched(handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);      \\
  }
GEMM(S, float)
GEMM(D, double)
GEMM(C, cfloat)
GEMM(Z, cdouble)
"""


class HostDevice:
    """Products in NumPy's memory, by a library that has cuBLAS's functions."""

    def __init__(self, path: Path):
        stream = SimpleNamespace(ptr=0x123)
        cuda = SimpleNamespace(alloc=lambda size: SimpleNamespace(ptr=4096), get_current_stream=lambda: stream)
        self.library = SimpleNamespace(cuda=cuda, matmul=self.refuse, ascontiguousarray=np.ascontiguousarray)
        self.cublas = ctypes.CDLL(str(path))

    def refuse(self, a: Any, b: Any) -> Any:
        pytest.fail("CuPy calls cuBLAS")

    def empty(self, shape: Any, dtype: Any, strides: Any) -> np.ndarray:
        return np.full(shape, np.nan, dtype)

    def addresses(self, arrays: Any) -> list[int]:
        return [x.ctypes.data for x in arrays]

    def multiplier(self, geometry: blas.Geometry) -> blas.Gemm:
        return blas.Gemm(self.library, self.cublas, geometry)

    def blas_handle(self) -> int:
        return 0x77


@pytest.fixture
def device(tmp_path: Path) -> HostDevice:
    try:
        command = loader().compiler.command
    except NoCompiler as error:
        pytest.skip(str(error))
    path = tmp_path / "libcublas.so"
    subprocess.run([*command, "-x", "c", "-shared", "-fPIC", "-o", path, "-"], input=LIBRARY, text=True, check=True)
    return HostDevice(path)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrices as they may lie in memory."""
    turned = np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2)
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., : x.shape[-1]] = x
    sparse = x.repeat(2, -1)[..., ::2]
    return [x, turned, wide[..., : x.shape[-1]], sparse, x[..., ::-1, :].copy()[..., ::-1, :]]


def recorded(device: HostDevice, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    ctypes.c_int.in_dll(device.cublas, "workspace_needed").value = 1
    with capturing():
        return blas.matmul(device, a, b)


def by_launch_c(device: HostDevice, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What launch.c makes of the steps of a list."""
    g = blas.geometry(a.dtype.char, a.shape, a.strides, b.shape, b.strides)
    if g is None:
        return blas.matmul(device, np.ascontiguousarray(a), np.ascontiguousarray(b))
    source = f"{TYPES}{SOURCE.read_text()}"
    made = loader()
    native = Native(python_function(made.library(made.part(source, "npc_launch")), "npc_launch"), 0, 0)
    out = np.full((*a.shape[:-1], b.shape[-1]), np.nan, a.dtype)
    step = Step(device.multiplier(g), 0, (Argument(3), Argument(1), Argument(0, 16), Argument(2)))
    Batch.of(native, [step])([a.ctypes.data - 16, b.ctypes.data, out.ctypes.data, 0x77])
    return out


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stack", [(), (3,), (2, 3)])
@pytest.mark.parametrize("way", [blas.matmul, recorded, by_launch_c])
def test_layouts(way: Any, stack: tuple[int, ...], dtype: str, device: HostDevice) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((*stack, 4, 5)).astype(dtype), rng.standard_normal((*stack, 5, 7)).astype(dtype)
    if way is blas.matmul:
        device.library.matmul = np.matmul  # what lies otherwise goes through CuPy
    for x in layouts(a):
        for y in layouts(b):
            got = way(device, x, y)
            assert got.shape == (*stack, 4, 7)
            np.testing.assert_allclose(np.asarray(got), a @ b, rtol=1e-5 if dtype in "fF" else 1e-13)


@pytest.mark.parametrize(
    "shapes", [((1, 5), (5, 7)), ((4, 1), (1, 7)), ((4, 5), (5, 1)), ((1, 1), (1, 1)), ((3, 1, 5), (3, 5, 1))]
)
def test_rows_and_columns(shapes: Any, device: HostDevice) -> None:
    a, b = (np.random.default_rng(k).standard_normal(s) for k, s in enumerate(shapes))
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            np.testing.assert_allclose(blas.matmul(device, x, y), a @ b, rtol=1e-13)
            np.testing.assert_allclose(by_launch_c(device, x, y), a @ b, rtol=1e-13)


def test_one_matrix_times_a_stack(device: HostDevice) -> None:
    a, b = np.random.default_rng(0).standard_normal((4, 5)), np.random.default_rng(1).standard_normal((3, 5, 7))
    np.testing.assert_allclose(blas.matmul(device, np.broadcast_to(a, (3, 4, 5)), b), a @ b, rtol=1e-13)


def test_nothing_to_multiply_is_left_to_the_library(device: HostDevice) -> None:
    device.library.matmul = np.matmul
    for m, k, n in ((0, 5, 7), (4, 0, 7), (4, 5, 0)):
        got = blas.matmul(device, np.ones((m, k)), np.ones((k, n)))
        assert got.shape == (m, n) and not got.any()


def test_errors(device: HostDevice) -> None:
    a = np.ones((2, 2))
    device.library.cuda.get_current_stream = lambda: SimpleNamespace(ptr=1)
    with capturing(), pytest.raises(graphs.CannotCapture, match="cuBLAS says 7"):
        blas.matmul(device, a, a)
    with pytest.raises(RuntimeError, match="cuBLAS says 7"):
        blas.matmul(device, a, a)
    with pytest.raises(RuntimeError, match="cuBLAS says 7"):
        by_launch_c(device, a, a)


@gpu
def test_a_training_step_is_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = pytest.importorskip("cupy")
    made: list[Replayed] = []

    def make(*given: Any) -> Replayed:
        made.append(Replayed(*given))
        return made[-1]

    monkeypatch.setattr(cuda_backend, "Replayed", make)

    def layers(x: Any, w: Any, v: Any) -> Any:
        return np.tanh(x @ w) @ v.T + 1

    f = npc.compile(layers, mode="reduce-overhead")
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(s) for s in ((32, 48), (48, 64), (24, 64)))
    given = [cupy.asarray(a) for a in (x, w, v)]
    for k in range(4):
        given[0][...] = cupy.asarray(x * k)
        np.testing.assert_allclose(f(*given).get(), layers(x * k, w, v), rtol=1e-11, atol=1e-11)
    assert not made[0].refused and sum(known.made for known in made[0].known.values()) == 1
