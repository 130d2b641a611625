"""Helper objects of NumPy's own Python code, as the tracer may hold them: attributes are read, methods are inlined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from npcompile.numpy_shim.arguments import array_of
from npcompile.numpy_shim.registry import implements
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import MOST_DIMENSIONS, Decline, Shape, broadcast_shapes, product
from npcompile.tensor_core.number import Number


class ShimObject:
    """An object made while capturing that never changes. Its methods are captured like the user's functions.

    One that may leave the program says which NumPy call on which arrays makes it there.
    """

    maker: ClassVar[Any] = None
    made_of: tuple[Array, ...] = ()


# --- dtypes


@implements(np.result_type)
def result_type(builder: Builder, *arrays_and_dtypes: Any) -> np.dtype:
    """Python numbers are weak (NEP 50), everything else counts with its dtype."""
    try:
        return np.result_type(*map(promoted, arrays_and_dtypes))
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None


def promoted(value: Any) -> Any:
    """What stands for a value in a promotion."""
    if isinstance(value, Array):
        # An array, not its dtype: texts take these unlike where a Python number is among them.
        return value.dtype.type(0).item() if value.meta.weak else np.empty((0,), value.dtype)
    if isinstance(value, Dim):
        return 0
    if isinstance(value, Number):
        return value.type()
    if isinstance(value, (list, tuple)):
        raise Decline("a sequence in a promotion")
    return value


@implements(np.can_cast)
def can_cast(builder: Builder, from_: Any, to: Any, casting: Any = "safe") -> bool:
    if isinstance(from_, (Dim, Number)):
        raise Decline("np.can_cast of a Python number")
    try:
        return np.can_cast(promoted(from_), to, casting)
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None


@implements(np.isscalar)
def isscalar(builder: Builder, element: Any) -> bool:
    """NumPy scalars and Python numbers are, 0-D arrays are not."""
    if isinstance(element, Array):
        return not element.meta.boxed
    return isinstance(element, (Dim, Number)) or bool(np.isscalar(element))


@implements(np.iterable)
def iterable(builder: Builder, y: Any) -> bool:
    """Arrays of at least one dimension are."""
    if isinstance(y, Array):
        return y.ndim > 0
    if type(y) in (list, tuple, dict, str, bytes, range):
        return True
    if isinstance(y, (Dim, Number, int, float, complex, np.generic, type(None))):
        return False
    raise Decline(f"np.iterable of a {type(y).__name__}")


# --- np.broadcast


@dataclass(frozen=True, eq=False)
class Broadcast(ShimObject):
    """np.broadcast(...) without its iterators."""

    shape: Shape
    made_of: tuple[Array, ...]
    maker = np.broadcast

    @property
    def numiter(self) -> int:
        return len(self.made_of)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nd(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Size:
        return product(self.shape)


@implements(np.broadcast)
def broadcast(builder: Builder, *arrays: Any) -> Broadcast:
    if len(arrays) > MOST_DIMENSIONS:
        raise Decline(f"np.broadcast of {len(arrays)} arrays")
    operands = tuple(array_of(builder, a) for a in arrays)
    return Broadcast(broadcast_shapes(*(x.shape for x in operands)), operands)


# --- numpy._core._multiarray_umath._array_converter


@dataclass(frozen=True)
class ArrayConverter(ShimObject):
    """Array-likes as arrays, and results as what the array-likes were."""

    values: tuple[Any, ...]
    arrays: tuple[Array, ...]
    are_python: tuple[bool, ...]  # Python numbers, whose dtype is weak
    scalar_input: tuple[bool, ...]  # numbers, not arrays of no dimensions

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index]

    def as_arrays(self, subok: Any = True, pyscalars: Any = "convert_if_no_array") -> Any:
        if pyscalars == "convert" or (pyscalars == "convert_if_no_array" and all(self.are_python)):
            return self.arrays
        return tuple([v if weak else a for v, a, weak in zip(self.values, self.arrays, self.are_python)])

    def result_type(self, extra_dtype: Any = None, ensure_inexact: Any = False) -> Any:
        operands = list(self.as_arrays(pyscalars="preserve"))
        if extra_dtype is not None:
            operands.append(np.dtype(extra_dtype))
        if ensure_inexact:
            operands.append(1.0)
        return np.result_type(*operands)

    def wrap(self, arr: Any, /, to_scalar: Any = None) -> Any:
        if to_scalar is None:
            to_scalar = all(self.scalar_input)
        return arr[()] if to_scalar and arr.ndim == 0 else arr


PYTHON_NUMBERS = (int, float, complex)


def converter(builder: Builder, *array_likes: Any) -> ArrayConverter:
    are_python = tuple(type(v) in PYTHON_NUMBERS or isinstance(v, (Dim, Number)) for v in array_likes)
    are_scalars = (
        weak or isinstance(v, (bool, np.generic)) or (isinstance(v, Array) and not v.meta.boxed)
        for v, weak in zip(array_likes, are_python)
    )
    return ArrayConverter(array_likes, tuple(array_of(builder, v) for v in array_likes), are_python, tuple(are_scalars))


if hasattr(np._core._multiarray_umath, "_array_converter"):
    implements(np._core._multiarray_umath._array_converter)(converter)
