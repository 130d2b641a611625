"""A plain parallel copy in C: what the machine's memory gives, measured beside the programs that memory limits."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = """
void copy(double *restrict to, const double *restrict from, long n) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) to[i] = from[i];
}
"""


def copy_call(moved: int) -> Callable[[], Any]:
    """A copy that moves as many bytes, reads and writes together."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "copy.c"), Path(folder, "copy.so")
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", str(library), str(source)], check=True)
        copy = ctypes.CDLL(str(library)).copy
    count = max(moved // 16, 1)
    given, taken = np.ones(count), np.ones(count)
    copy.argtypes, copy.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long], None
    to, given_from = taken.ctypes.data, given.ctypes.data

    def call() -> Any:
        copy(to, given_from, count)
        return taken, given  # kept alive by the call

    return call
