"""Trees of Tensors as trees of arrays, and back. The tracer knows these functions: captured, they cost nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.tensor_core.tensor import Tensor, asarray
from npcompile.tensor_core.tensors.devices import is_on_device
from npcompile.trees import flatten


def to_arrays(tree: Any) -> Any:
    """The tree with ndarrays, or arrays of devices, in place of Tensors; they share memory."""
    leaves, form = flatten(tree)
    return form.unflatten([x._data if isinstance(x, Tensor) else x for x in leaves])


def to_tensors(tree: Any, arguments: Any) -> Any:
    """The tree with Tensors in place of arrays and NumPy scalars. `arguments` are what it was computed from."""
    leaves, form = flatten(tree)
    return form.unflatten([asarray(x) if isinstance(x, (np.ndarray, np.generic)) or is_on_device(x) else x for x in leaves])
