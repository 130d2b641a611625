"""Arrays in every memory layout and dtype that the shim's tests draw from."""

from __future__ import annotations

import numpy as np

CUBE = np.arange(24.0).reshape(2, 3, 4)
MATRIX = np.arange(12.0).reshape(3, 4) - 5
VECTOR = np.arange(5.0) - 2.5


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS: dict[str, np.ndarray | np.generic] = {
    "contiguous": CUBE,
    "fortran": CUBE.T,
    "transposed": CUBE.transpose(1, 0, 2),
    "reversed": CUBE[::-1, ::-1],
    "strided": CUBE[:, ::-1, ::2],
    "broadcast": np.broadcast_to(np.arange(4.0), (2, 3, 4)),
    "empty": np.zeros((2, 0, 3)),
    "ones": np.ones((1, 3, 1)),
    "0-D": np.array(3.5),
    "scalar": np.float64(-2.5),
    "vector": VECTOR,
    "matrix": MATRIX,
    "columns": MATRIX.T,
    "read-only": read_only(MATRIX),
    "complex": MATRIX + 1j * MATRIX[::-1],
    "bool": MATRIX > 0,
    "bytes": MATRIX.astype("u1"),
    "single": MATRIX.astype("f4").T,
    "ints": np.arange(6, dtype="i4").reshape(2, 3),
    "negative zero": np.array([-0.0, 0.0, np.nan, np.inf]),
}
