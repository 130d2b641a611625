"""ndarray attributes, read and set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, assigned, axes_of, axis_of, fit, scalar
from npcompile.numpy_shim.objects import ShimObject
from npcompile.numpy_shim.registry import ATTRIBUTES, Captured, as_array, implements
from npcompile.tensor_core.array import NEW_ZEROS, Array, expand, fresh, is_new_memory, transpose
from npcompile.tensor_core.decline import DataDecides
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, contiguous_strides, is_contiguous, order_in_memory, product

SET_ATTRIBUTES: dict[str, Callable[[Builder, Array, Any], None]] = {}  # name -> (builder, self, value): self.name = value


def attribute(read: Captured) -> Captured:
    """Register the captured form of the ndarray attribute of the function's name."""
    name = read.__name__.rstrip("_")
    assert name not in ATTRIBUTES, f"ndarray.{name} has two captured forms"
    ATTRIBUTES[name] = read
    return read


def setter(write: Callable[[Builder, Array, Any], None]) -> Callable[[Builder, Array, Any], None]:
    """Register how the attribute `set_<name>` is set."""
    SET_ATTRIBUTES[write.__name__.removeprefix("set_")] = write
    return write


@attribute
def shape(builder: Builder, x: Array) -> Shape:
    return x.shape


@attribute
def dtype(builder: Builder, x: Array) -> np.dtype:
    return x.dtype


@attribute
def strides(builder: Builder, x: Array) -> Shape:
    if any(n == 0 for n in x.shape):
        raise Decline("the strides of an empty array, which depend on NumPy's version")
    return x.meta.strides


@attribute
def ndim(builder: Builder, x: Array) -> int:
    return x.ndim


@attribute
def size(builder: Builder, x: Array) -> Size:
    return product(x.shape)


@attribute
def itemsize(builder: Builder, x: Array) -> int:
    return x.dtype.itemsize


@attribute
def nbytes(builder: Builder, x: Array) -> Size:
    return product(x.shape) * x.dtype.itemsize


@attribute
def device(builder: Builder, x: Array) -> str:
    return "cpu"


@attribute
def T(builder: Builder, x: Array) -> Array:
    return transpose(x, range(x.ndim)[::-1]) if x.meta.boxed else x


@attribute
def mT(builder: Builder, x: Array) -> Array:
    if x.ndim < 2:
        raise Decline("matrix transpose with ndim < 2 is undefined")
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@attribute
def real(builder: Builder, x: Array) -> Array:
    if x.dtype.kind != "c":
        return x
    if not x.meta.boxed:
        return scalar(builder, builder.apply("real", x.node))
    return complex_part(x, "real")


@attribute
def imag(builder: Builder, x: Array) -> Array:
    if not x.meta.boxed:
        if x.dtype.kind == "c":
            return scalar(builder, builder.apply("imag", x.node))
        return scalar(builder, builder.constant(0, x.dtype))
    if x.dtype.kind == "c":
        return complex_part(x, "imag")
    order = order_in_memory(x.meta)
    meta = TensorMeta(x.shape, x.dtype, contiguous_strides(x.shape, x.dtype.itemsize, order))
    zeros = fresh(builder, expand(builder, builder.constant(0, x.dtype), x.shape), meta)
    return zeros.view(NEW_ZEROS, None, meta.with_(strides=meta.strides, writeable=False))


def complex_part(x: Array, part: str) -> Array:
    dtype = np.empty(0, x.dtype).real.dtype
    return x.view(part, None, x.meta.with_(dtype=dtype, strides=x.meta.strides))


@setter
def set_real(builder: Builder, x: Array, value: Any) -> None:
    part = real(builder, x)
    part.write(fit(builder, assigned(builder, value, part.dtype).node, part.shape))


@setter
def set_imag(builder: Builder, x: Array, value: Any) -> None:
    if x.dtype.kind != "c":
        raise Decline("array does not have imaginary part to set")
    part = imag(builder, x)
    part.write(fit(builder, assigned(builder, value, part.dtype).node, part.shape))


@attribute
def base(builder: Builder, x: Array) -> None:
    if not is_new_memory(x) and (x.steps or x.storage.source is not None or not x.meta.boxed):
        raise Decline("ndarray.base of a view or argument")


@dataclass(frozen=True)
class Flags(ShimObject):
    """What ndarray.flags says, as attributes and as items; it cannot be set."""

    meta: TensorMeta
    is_owner: bool | None  # None: not known when capturing

    @property
    def c_contiguous(self) -> bool:
        return is_contiguous(self.meta, "C")

    @property
    def f_contiguous(self) -> bool:
        return is_contiguous(self.meta, "F")

    @property
    def contiguous(self) -> bool:
        return self.c_contiguous

    @property
    def fortran(self) -> bool:
        return self.f_contiguous

    @property
    def fnc(self) -> bool:
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        return self.f_contiguous or self.c_contiguous

    @property
    def owndata(self) -> bool:
        if self.is_owner is None:
            raise Decline("whether an argument owns its memory")
        return self.is_owner

    @property
    def writeable(self) -> bool:
        return self.meta.writeable

    @property
    def writebackifcopy(self) -> bool:
        return False

    @property
    def aligned(self) -> bool:
        if self.is_owner is not True:
            raise Decline("whether the memory of an argument is aligned")
        return True

    def __getitem__(self, name: str) -> bool:
        if name not in FLAG_ITEMS:
            raise Decline(f"flag {name!r}")
        return getattr(self, FLAG_ITEMS[name])


FLAG_ITEMS = {
    "A": "aligned",
    "ALIGNED": "aligned",
    "C": "c_contiguous",
    "C_CONTIGUOUS": "c_contiguous",
    "CONTIGUOUS": "c_contiguous",
    "F": "f_contiguous",
    "F_CONTIGUOUS": "f_contiguous",
    "FORTRAN": "f_contiguous",
    "FNC": "fnc",
    "FORC": "forc",
    "O": "owndata",
    "OWNDATA": "owndata",
    "W": "writeable",
    "WRITEABLE": "writeable",
    "X": "writebackifcopy",
    "WRITEBACKIFCOPY": "writebackifcopy",
}


@attribute
def flags(builder: Builder, x: Array) -> Flags:
    """Reading from the result can decline: who owns an argument's memory is not known."""
    is_argument = x.storage.source is not None
    is_view = x.steps and not is_new_memory(x)
    return Flags(x.meta, False if is_view else None if is_argument and x.meta.boxed else True)


# --- the functions of the same names


@implements(np.shape)
def function_shape(builder: Builder, a: Any) -> Shape:
    return array_of(builder, a).shape


@implements(np.ndim)
def function_ndim(builder: Builder, a: Any) -> int:
    return array_of(builder, a).ndim


@implements(np.size)
def function_size(builder: Builder, a: Any, axis: Any = None) -> Size:
    x = array_of(builder, a)
    if axis is None:
        return product(x.shape)
    return product([x.shape[i] for i in (axes_of(axis, x.ndim) if isinstance(axis, tuple) else (axis_of(axis, x.ndim),))])


@implements(np.real)
def function_real(builder: Builder, val: Any) -> Any:
    return part_of(builder, val, "real")


@implements(np.real_if_close)
def real_if_close(builder: Builder, a: Any, tol: Any = 100) -> Array:
    x = array_of(builder, a)
    if x.dtype.kind == "c":
        raise DataDecides("what is real or complex, as the numbers are", "z.real is always real")
    return x


@implements(np.imag)
def function_imag(builder: Builder, val: Any) -> Any:
    return part_of(builder, val, "imag")


def part_of(builder: Builder, value: Any, part: str) -> Any:
    """np.real and np.imag read the attribute of what has it: Python numbers give Python numbers."""
    if isinstance(value, (bool, int, float, complex)):
        return getattr(value, part)
    if isinstance(value, (Array, np.ndarray, np.generic, list, tuple)):
        return ATTRIBUTES[part](builder, as_array(builder, value))
    raise Decline(f"the parts of a {type(value).__name__}")
