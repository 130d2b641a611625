"""The functions that rows of the op table answer to: ufuncs, and functions that are written with NumPy's."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.numpy_shim.ufunc_methods import read_axes, read_axis, read_flag, source_array
from npcompile.numpy_shim.ufunc_operands import cast_quietly, operand, resolve, without_arrays
from npcompile.numpy_shim.ufuncs import call_ufunc, is_one_row
from npcompile.tensor_core.array import Array, expand, fresh, reshaped, result_meta
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, broadcast_shapes
from npcompile.tensor_core.op import OPS, Op


def call_elementwise(op: Op, builder: Builder, *arguments: Any) -> Array:
    """The function of an elementwise row, of operands that its ufunc `loops` would take."""
    assert op.loops is not None, op.name
    operands = [operand(builder, x) for x in arguments]
    if all(o.is_weak for o in operands):
        operands = [without_arrays(builder, o, len(operands)) for o in operands]
    loop = resolve(op.loops, (*(o.type for o in operands), None))
    shape = broadcast_shapes(*(o.shape for o in operands))
    nodes = [expand(builder, o.node(builder, dtype), shape) for o, dtype in zip(operands, loop)]
    arrays = [o.value for o in operands if isinstance(o.value, Array)]
    order = "F" if is_one_row(arrays, operands, loop, shape) else "K"
    return fresh(builder, builder.apply(op.name, *nodes), result_meta(shape, loop[-1], arrays, order), boxed=bool(shape))


def call_reduction(op: Op, builder: Builder, x: Any, axis: Any = None, keepdims: Any = False) -> Array:
    """The function of a reduction's row, over `axis`."""
    assert op.loops is not None, op.name
    array, is_kept = source_array(builder, x), read_flag(keepdims)
    axes = tuple(range(array.ndim)) if axis is None else read_axes(read_axis(axis), array.ndim)
    dtype = resolve(op.loops, (array.dtype, None))[0]
    node = builder.apply(op.name, cast_quietly(builder, array.node, dtype), axes=axes)
    if is_kept:
        node = reshaped(builder, node, tuple(1 if a in axes else n for a, n in enumerate(array.shape)))
    return fresh(builder, node, boxed=bool(node.shape))


def call_row(call: Any, signature: inspect.Signature, builder: Builder, *arguments: Any, **keywords: Any) -> Array:
    """`call` with arguments that were given as the function takes them."""
    try:
        given = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise Decline(str(error)) from None
    return call(builder, *given.args, **given.kwargs)


def register(op: Op) -> None:
    """What the row's function is captured as."""
    if isinstance(op.numpy, np.ufunc) and op.numpy.__name__ == op.name:
        FUNCTIONS[op.numpy] = partial(call_ufunc, op.numpy)
    elif isinstance(op.numpy, FunctionType):
        call = call_elementwise if op.kind == "elementwise" else call_reduction
        FUNCTIONS[op.numpy] = partial(call_row, partial(call, op), inspect.signature(op.numpy))


OPS.for_each(register)
