"""Products in recordings: what cuBLAS is asked for, against one that computes on the host, and on a device."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loader import NoCompiler, loader
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda.runtime import blas, graphs
from npcompile.backends.cuda.runtime.graphs import Replayed, capturing
from tests.cuda.test_launch import on_a_device

LIBRARY = """
#include <complex.h>
typedef float complex cfloat;
typedef double complex cdouble;
int stream_set = 0, workspace_set = 0;
int cublasCreate_v2(void** handle) { *handle = (void*)0x77; return 0; }
int cublasSetStream_v2(void* handle, void* stream) { stream_set = stream == (void*)0x123 && handle == (void*)0x77; return 0; }
int cublasSetWorkspace_v2(void* handle, void* room, unsigned long size) { workspace_set = room && size; return 0; }
#define GEMM(NAME, T)                                                                                                       \\
  int NAME(void* handle, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda, long long sa, const T* b, \\
           int ldb, long long sb, const T* beta, T* c, int ldc, long long sc, int count) {                                  \\
    if (handle != (void*)0x77 || !stream_set || !workspace_set) return 7;                                                   \\
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
  }
GEMM(cublasSgemmStridedBatched, float)
GEMM(cublasDgemmStridedBatched, double)
GEMM(cublasCgemmStridedBatched, cfloat)
GEMM(cublasZgemmStridedBatched, cdouble)
"""


class Array(np.ndarray):
    """NumPy's memory with CuPy's word for its address."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


def put(x: np.ndarray) -> Array:
    return x.view(Array)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        command = loader().compiler.command
    except NoCompiler as error:
        pytest.skip(str(error))
    path = tmp_path / "libcublas.so"
    subprocess.run([*command, "-x", "c", "-shared", "-fPIC", "-o", path, "-"], input=LIBRARY, text=True, check=True)
    monkeypatch.setattr(blas, "load", lambda library: ctypes.CDLL(str(path)))
    monkeypatch.setattr(blas, "CUBLAS", blas.Cublas())
    cuda = SimpleNamespace(
        alloc=lambda size: SimpleNamespace(ptr=4096),
        get_current_stream=lambda: SimpleNamespace(ptr=0x123),
        runtime=SimpleNamespace(getDevice=lambda: 0),
    )
    return SimpleNamespace(
        cuda=cuda,
        matmul=lambda a, b: pytest.fail("CuPy calls cuBLAS"),
        empty=lambda shape, dtype: put(np.full(shape, np.nan, dtype)),
        ascontiguousarray=lambda x: put(np.ascontiguousarray(x)),
    )


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrices as they may lie in memory."""
    turned = np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2)
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., : x.shape[-1]] = x
    sparse = x.repeat(2, -1)[..., ::2]
    return [x, turned, wide[..., : x.shape[-1]], sparse, x[..., ::-1, :].copy()[..., ::-1, :]]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stack", [(), (3,), (2, 3)])
def test_layouts(dtype: str, stack: tuple[int, ...], library: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((*stack, 4, 5)).astype(dtype), rng.standard_normal((*stack, 5, 7)).astype(dtype)
    for x in layouts(a):
        for y in layouts(b):
            with capturing():
                got = blas.matmul(library, put(x), put(y))
            assert got.shape == (*stack, 4, 7)
            np.testing.assert_allclose(np.asarray(got), a @ b, rtol=1e-5 if dtype in "fF" else 1e-13)


def test_errors_are_no_recordings(library: Any) -> None:
    a = put(np.ones((2, 2)))
    library.cuda.get_current_stream = lambda: SimpleNamespace(ptr=1)
    with capturing(), pytest.raises(graphs.CannotCapture, match="cuBLAS says 7"):
        blas.matmul(library, a, a)


@on_a_device
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
