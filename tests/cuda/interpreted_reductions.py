"""Reductions and scans of Triton's interpreter, a row at a time: its own combine one element after another, in Python.

What is combined with what, and in which order, is the same. Import this only where Triton is interpreted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps


def running(op: Any, given: tuple[tl.tensor, ...], axis: int) -> Iterator[list[np.ndarray]]:
    """What the elements along `axis` combine to, from the first on."""
    columns = [np.moveaxis(x.handle.data, axis, 0) for x in given]
    made: list[np.ndarray] = []
    for row in zip(*columns):
        if not made:
            made = list(row)
        else:
            before, here = ([op.to_tensor(v, x.dtype) for v, x in zip(values, given)] for values in (made, row))
            combined = op.combine_fn.fn(*before, *here)
            parts = combined if isinstance(combined, tuple) else (combined,)
            made = [shaped(part, v) for part, v in zip(parts, row)]
        yield made


def shaped(part: Any, like: Any) -> Any:
    data = np.asarray(part.handle.data if isinstance(part, tl.tensor) else part).astype(like.dtype)
    return np.broadcast_to(data, like.shape) if like.shape else data.reshape(())[()]


def generic_reduce(self: ReduceOps, given: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    flat, axis = self.unravel(given, self.axis)
    for made in running(self, flat, axis):
        pass
    results = []
    for data, x in zip(made, flat):
        if self.keep_dims:
            data = np.expand_dims(data, axis)
        results.append(self.to_tensor(data, x.dtype))
    return results


def generic_scan(self: ScanOps, given: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    rows = list(zip(*running(self, given, self.axis)))
    return [self.to_tensor(np.moveaxis(np.stack(r), 0, self.axis), x.dtype) for r, x in zip(rows, given)]


ReduceOps.generic_reduce = generic_reduce
ScanOps.generic_scan = generic_scan
