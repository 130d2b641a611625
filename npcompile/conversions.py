"""Trees of Tensors as trees of arrays, and back. The tracer knows these functions: captured, they cost nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.tensor_core.tensor import Tensor, asarray, is_grad_enabled
from npcompile.tensor_core.tensors.devices import is_on_device
from npcompile.trees import flatten


def to_arrays(tree: Any) -> Any:
    """The tree with ndarrays, or arrays of devices, in place of Tensors; they share memory. Those that gradients go through
    stay Tensors: this runs where the program is not captured, and what it computes is recorded."""
    leaves, form = flatten(tree)
    records = is_grad_enabled()
    return form.unflatten([x._data if isinstance(x, Tensor) and not (records and x.requires_grad) else x for x in leaves])


def to_tensors(tree: Any, arguments: Any) -> Any:
    """The tree with Tensors in place of arrays and NumPy scalars. `arguments` are what it was computed from."""
    leaves, form = flatten(tree)
    return form.unflatten([asarray(x) if isinstance(x, (np.ndarray, np.generic)) or is_on_device(x) else x for x in leaves])
