"""Sums of products of two arrays as matrix products, which NumPy leaves to BLAS."""

from __future__ import annotations

from math import prod

import numpy as np

Axes = tuple[int, ...]
IN_BLAS = "fdFD"


def product(x: np.ndarray, y: np.ndarray, inputs: tuple[Axes, Axes], output: Axes) -> np.ndarray:
    """np.einsum(x, inputs[0], y, inputs[1], output), where no operand has an axis twice."""
    left, right = inputs
    summed = tuple(a for a in left if a in right and a not in output)
    if not summed or x.dtype.char not in IN_BLAS or {*left, *right} - {*summed} != {*output}:
        return np.asarray(np.einsum(x, list(left), y, list(right), list(output)))
    sizes = dict(zip((*left, *right), (*x.shape, *y.shape)))
    stacked = tuple(a for a in output if a in left and a in right)
    rows = tuple(a for a in output if a in left and a not in right)
    columns = tuple(a for a in output if a in right and a not in left)

    def matrices(array: np.ndarray, axes: Axes, *groups: Axes) -> np.ndarray:
        ordered = array.transpose([axes.index(a) for group in (stacked, *groups) for a in group])
        return ordered.reshape([*(sizes[a] for a in stacked), *(prod(sizes[a] for a in group) for group in groups)])

    result = np.matmul(matrices(x, left, rows, summed), matrices(y, right, summed, columns))
    made = (*stacked, *rows, *columns)
    return result.reshape([sizes[a] for a in made]).transpose([made.index(a) for a in output])
