"""Four of the programs as kernels written by hand, a thread an iteration of the outermost loops, for CuPy's RawKernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

THREADS = 128
OPTIONS = ("--fmad=false",)  # as npcompile's, so that answers are the same
KERNELS = {
    "mandelbrot": """extern "C" __global__ void mandelbrot(
    const double* xs, const double* ys, long long* out, long long most, long long n, long long m) {
  const long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (t >= n * m) return;
  const double x = xs[t % m], y = ys[t / m];
  double a = 0, b = 0;
  long long k = 0;
  for (; k < most && a * a + b * b <= 4.0; ++k) {
    const double next = a * a - b * b + x;
    b = 2.0 * a * b + y;
    a = next;
  }
  out[t] = k;
}""",
    "bodies": """extern "C" __global__ void bodies(double* x, double* v, double dt, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  double ax = 0, ay = 0, az = 0;
  for (long long j = 0; j < n; ++j) {
    const double dx = x[3 * j] - x[3 * i], dy = x[3 * j + 1] - x[3 * i + 1], dz = x[3 * j + 2] - x[3 * i + 2];
    const double r = 1.0 / sqrt(dx * dx + dy * dy + dz * dz + 1e-3), w = r * r * r;
    ax += dx * w; ay += dy * w; az += dz * w;
  }
  v[3 * i] += dt * ax; v[3 * i + 1] += dt * ay; v[3 * i + 2] += dt * az;
}
extern "C" __global__ void moved(double* x, const double* v, double dt, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < 3 * n) x[i] += dt * v[i];
}""",
    "warping": """extern "C" __global__ void warping(
    const double* a, const double* b, double* rows, double* out, long long pairs, long long n, long long m) {
  const long long p = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (p >= pairs) return;
  double *before = rows + 2 * p * (m + 1), *row = before + m + 1;
  for (long long j = 0; j <= m; ++j) before[j] = row[j] = INFINITY;
  before[0] = 0;
  for (long long i = 0; i < n; ++i) {
    row[0] = INFINITY;
    for (long long j = 0; j < m; ++j) {
      double least = before[j] < before[j + 1] ? before[j] : before[j + 1];
      least = row[j] < least ? row[j] : least;
      row[j + 1] = fabs(a[p * n + i] - b[p * m + j]) + least;
    }
    double* const other = before; before = row; row = other;
  }
  out[p] = before[m];
}""",
    "sparse_product": """extern "C" __global__ void sparse_product(
    const double* data, const long long* columns, const long long* starts, const double* x, double* y, long long n) {
  const long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (r >= n) return;
  double s = 0;
  for (long long k = starts[r]; k < starts[r + 1]; ++k) s += data[k] * x[columns[k]];
  y[r] = s;
}""",
}
KERNELS["warping"] = "#define INFINITY __longlong_as_double(0x7ff0000000000000LL)\n" + KERNELS["warping"]


def blocks(threads: int) -> tuple[int]:
    return (-(-threads // THREADS),)


def launcher(cp: Any, name: str) -> Callable[[Sequence[Any]], Any] | None:
    """What runs a program on CuPy's arrays, where there is a kernel of it. It gives what the program gives."""
    if name not in KERNELS:
        return None
    module = cp.RawModule(code=KERNELS[name], options=OPTIONS)
    kernel, size = module.get_function(name), np.int64

    def run(arguments: Sequence[Any]) -> Any:
        match name:
            case "mandelbrot":
                xs, ys, out, most = arguments
                kernel(blocks(out.size), (THREADS,), (xs, ys, out, size(most), size(ys.size), size(xs.size)))
                return None
            case "bodies":
                x, v, dt = arguments
                n = len(x)
                kernel(blocks(n), (THREADS,), (x, v, np.float64(dt), size(n)))
                module.get_function("moved")(blocks(3 * n), (THREADS,), (x, v, np.float64(dt), size(n)))
                return None
            case "warping":
                a, b = arguments
                rows, out = cp.empty((len(a), 2, b.shape[1] + 1)), cp.empty(len(a))
                few = 32  # threads of a block: pairs are few, and processors many
                kernel((-(-len(a) // few),), (few,), (a, b, rows, out, size(len(a)), size(a.shape[1]), size(b.shape[1])))
                return out
        data, columns, starts, x = arguments
        y = cp.empty(starts.size - 1)
        kernel(blocks(y.size), (THREADS,), (data, columns, starts, x, y, size(y.size)))
        return y

    return run
