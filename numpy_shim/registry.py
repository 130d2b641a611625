"""Which NumPy function is captured by what: the tables that the tracer looks in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, cast, fresh
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.dtypes import is_number, is_same_dtype
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.number import Number

# A captured form takes the builder, then what the NumPy function takes, with the same names and defaults. Arguments are
# Arrays (traced arrays and scalars), Dims (traced ints), Numbers (traced floats), other Python and NumPy constants, and
# tuples, lists and dicts of them. It returns the same kinds. It never guesses: what it does not do exactly, and what
# NumPy would refuse, it declines.
Captured = Callable[..., Any]

MOST_VALUES = 1024  # in a sequence that becomes an array
FUNCTIONS: dict[Any, Captured] = {}  # NumPy callable (function, ufunc, type) -> captured form
METHODS: dict[str, Captured] = {}  # ndarray method name -> captured form (builder, self, ...)
ATTRIBUTES: dict[str, Captured] = {}  # ndarray attribute name -> captured form (builder, self)


def implements(*functions: Any, method: str | None = None) -> Callable[[Captured], Captured]:
    """Register the captured form of NumPy functions, and of the ndarray method of the same meaning and arguments."""

    def add(captured: Captured) -> Captured:
        for function in functions:
            assert function not in FUNCTIONS, f"{function} has two captured forms"
            FUNCTIONS[function] = captured
            in_c = getattr(function, "_implementation", None)  # what NumPy's own Python code calls
            if isinstance(in_c, BuiltinFunctionType):
                FUNCTIONS[in_c] = captured
        if method is not None:
            assert method not in METHODS, f"ndarray.{method} has two captured forms"
            METHODS[method] = captured
        return captured

    return add


def is_traced(value: Any) -> bool:
    """Does this value, or something in it, belong to the program being captured?"""
    if isinstance(value, (tuple, list)):
        return any(map(is_traced, value))
    return isinstance(value, (Array, Dim, Number))


def require_dtype(dtype: Any) -> np.dtype:
    """The dtype if graphs can hold it: native byte order bool, integers, floats (bfloat16 too) and complex (not clongdouble)."""
    # np.dtype() takes a class like np.dtypes.Float64DType for a Python class: NumPy's functions take its only dtype.
    dtype = dtype() if isinstance(dtype, type) and issubclass(dtype, np.dtype) else np.dtype(dtype)
    if not is_number(dtype):
        raise Decline(f"arrays of dtype {dtype} run as NumPy")
    return dtype


def result_dtype(*types: Any) -> np.dtype:
    """np.result_type. Declines where there is none: bfloat16 and float16 have no common dtype."""
    try:
        return require_dtype(np.result_type(*types))
    except TypeError as error:
        raise Decline(str(error)) from None


def as_array(builder: Builder, value: Any, dtype: np.dtype | None = None) -> Array:
    """np.asarray(value): the Array itself, or a fresh one made of constants and traced values."""
    if isinstance(value, Array):
        if dtype is None or is_same_dtype(value.dtype, dtype):
            return value
        require_number_fits(value, dtype)
        return fresh(builder, builder.apply("cast", value.node, dtype=dtype), boxed=value.meta.boxed)
    if isinstance(value, Number):
        node = value.node(builder)
        return fresh(builder, node if dtype is None else cast(builder, node, dtype))
    if isinstance(value, Dim):
        node = builder.apply("size", value=value)
        return fresh(builder, node if dtype is None else cast(builder, node, dtype))
    if isinstance(value, (list, tuple)) and is_traced(value):
        return stack_values(builder, value, dtype)
    if dtype is None:
        constant = np.asarray(value)
    else:
        with evaluated_once():
            constant = np.asarray(value, dtype)
    require_dtype(constant.dtype)
    return literal(builder, constant)


@contextmanager
def evaluated_once() -> Iterator[None]:
    """Around NumPy on constants, while capturing: what it raises, or warns of at each call, declines."""
    try:
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            yield
    except (TypeError, ValueError, ArithmeticError, Warning) as error:
        raise Decline(str(error)) from None


def require_number_fits(value: Array, dtype: np.dtype) -> None:
    """A Python number of which only the type is known is no cast to integers: NaN and what does not fit raise."""
    is_integer = value.dtype.kind == "b" or (value.dtype.kind == "i" and dtype == np.int64)
    if value.meta.weak and dtype.kind in "iu" and not is_integer:
        raise Decline(f"a Python number made of array data may not fit into {dtype}", f"Convert it first: x.astype(np.{dtype}).")


def literal(builder: Builder, constant: np.ndarray | np.generic) -> Array:
    """A fresh Array with the contents of a constant known at capture; scalars stay scalars."""
    boxed = isinstance(constant, np.ndarray)
    if constant.ndim == 0:
        return fresh(builder, builder.constant(constant[()], constant.dtype), boxed=boxed)
    node = builder.apply("literal", data=constant.tobytes(), dtype=constant.dtype, shape=constant.shape)
    return fresh(builder, node)


def stack_values(builder: Builder, values: Any, dtype: np.dtype | None) -> Array:
    """np.asarray of a sequence that holds traced values: elements stacked along a new first axis."""
    if len(values) > MOST_VALUES:
        raise Decline(f"an array of {len(values)} values of the program: a node for each takes longer than it saves")
    parts = [as_array(builder, v) for v in values]
    if dtype is None:
        dtype = result_dtype(*(p.dtype for p in parts))
    if any(p.shape != parts[0].shape for p in parts[1:]):
        raise Decline("setting an array element with a sequence of different shapes")
    nodes = []
    for part in parts:
        nodes.append(builder.apply("reshape", cast(builder, part.node, dtype), shape=(1, *part.shape)))
    node = builder.apply("concatenate", *nodes, axis=0) if len(nodes) > 1 else nodes[0]
    return fresh(builder, node, TensorMeta((len(parts), *parts[0].shape), np.dtype(dtype)))
