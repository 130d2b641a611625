"""Which sums of products are products of matrices, in the form that BLAS takes."""

from __future__ import annotations

import numpy as np

from npcompile.backends.kernels.index import is_one
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.graph import Node

DTYPES = ("f4", "f8", "c8", "c16")
MOST_SUMMANDS, FEWEST_BYTES, MOST_BYTES = 16, 16, 64  # summands of an element, and a row, of what is made without BLAS


def is_product(node: Node) -> bool:
    """Is it an einsum for BLAS, in canonical form?"""
    if node.op != "einsum" or len(node.inputs) != 2 or short(node.dtype) not in DTYPES:
        return False
    if not node.dtype.isnative or len(node.params["output"]) < 2:
        return False
    (*stack, m, n), (a, b) = node.params["output"], node.params["inputs"]
    summed = [axis for axis in a if axis not in node.params["output"]]
    if len(summed) != 1 or a != (*stack, m, *summed) or b != (*stack, *summed, n):
        return False
    (rows, inner), columns = node.inputs[0].shape[-2:], node.inputs[1].shape[-1]
    return not any(map(is_one, (rows, columns, inner))) and not is_tiny(rows, columns, inner)


def is_tiny(*sizes: object) -> bool:
    """Are products of fixed sizes so few that a loop around them is better?"""
    return all(isinstance(n, int) and n <= 8 for n in sizes)


def is_narrow(columns: object, inner: object, dtype: np.dtype) -> bool:
    """Is each row of a product a few vectors of few summands? Kernels make these nearly as fast, and fuse them."""
    if dtype.kind != "f" or not isinstance(columns, int) or not isinstance(inner, int):
        return False
    return inner <= MOST_SUMMANDS and FEWEST_BYTES <= columns * dtype.itemsize <= MOST_BYTES
