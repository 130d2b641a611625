"""Values that come from nowhere: inputs, constants, sizes, index grids."""

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import row


@row("leaf", eager=lambda **_: None)  # type: ignore[arg-type,return-value]
def input_(*, index):
    raise AssertionError("inputs are made by Builder.input")


@row("leaf", eager=lambda *, value, dtype: np.asarray(value, dtype))
def constant(*, value, dtype):
    """A 0-D constant."""
    return TensorMeta((), dtype)


@row("leaf", eager=lambda *, data, dtype, shape: np.frombuffer(data, dtype).reshape(shape))
def literal(*, data, dtype, shape):
    """A small constant array, its bytes in C order."""
    return TensorMeta(shape, dtype)


@row("leaf", eager=lambda *, value: np.asarray(value, np.int64))
def size(*, value):
    """A symbolic integer as a 0-D int64."""
    return TensorMeta((), np.dtype(np.int64))


@row("leaf", eager=lambda *, shape, axis: np.indices(shape)[axis])
def index(*, shape, axis):
    """out[i0, i1, ...] = i_axis, int64."""
    return TensorMeta(shape, np.dtype(np.int64))
