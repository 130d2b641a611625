"""One number to one number: NumPy's ufuncs, casts and `where`.

Every operand of an elementwise node already has the result's shape and the dtype of the ufunc's inner loop: the maker
inserts `broadcast_to` and `cast`. The loop is found by `ufunc.resolve_dtypes`, so NEP 50 is NumPy's own.
"""

from collections.abc import Callable

import numpy as np

from npcompile.tensor_core.meta import TensorMeta, keep_order_strides
from npcompile.tensor_core.op import OPS, Op, row


def elementwise(ufunc: np.ufunc, scalar: str | Callable | None = None, vjp: Callable | None = None) -> Op:
    """A row for a ufunc with one output."""

    def meta(*xs: TensorMeta) -> TensorMeta:
        *_, out = ufunc.resolve_dtypes((*(x.dtype for x in xs), None))
        shape = xs[0].shape
        return TensorMeta(shape, out, keep_order_strides(shape, out.itemsize, xs))

    name = ufunc.__name__
    return OPS.add(Op(name, "elementwise", meta, ufunc, scalar or name, vjp, ufunc))


@row("elementwise", eager=lambda x, *, dtype: np.asarray(x).astype(dtype), scalar="cast")
def cast(x: TensorMeta, *, dtype):
    """astype(dtype, casting='unsafe')."""
    return TensorMeta(x.shape, dtype, keep_order_strides(x.shape, dtype.itemsize, [x]))


@row("elementwise", eager=np.where, scalar="where", numpy=np.where)
def where(condition: TensorMeta, x: TensorMeta, y: TensorMeta):
    """condition is bool; x and y have one dtype."""
    return TensorMeta(x.shape, x.dtype, keep_order_strides(x.shape, x.dtype.itemsize, [condition, x, y]))


@row("elementwise", eager=lambda x: x.real, scalar="real")
def real(x: TensorMeta):
    return TensorMeta(x.shape, np.zeros(0, x.dtype).real.dtype)


@row("elementwise", eager=lambda x: x.imag, scalar="imag")
def imag(x: TensorMeta):
    return TensorMeta(x.shape, np.zeros(0, x.dtype).real.dtype)


@row("elementwise", eager=lambda re, im: np.asarray(re + 1j * im, np.result_type(re, np.complex64)), scalar="complex")
def complex_(re: TensorMeta, im: TensorMeta):
    return TensorMeta(re.shape, np.result_type(re.dtype, np.complex64))


@row("elementwise", eager=lambda x, *, dtype: np.ascontiguousarray(x).view(dtype), scalar="bitcast")
def bitcast(x: TensorMeta, *, dtype):
    """The same bits read as another dtype of the same size."""
    assert x.dtype.itemsize == dtype.itemsize
    return TensorMeta(x.shape, dtype)


add = elementwise(np.add)
subtract = elementwise(np.subtract)
multiply = elementwise(np.multiply)
