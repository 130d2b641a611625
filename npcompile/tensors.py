"""Making Tensors: NumPy's creation functions, with `device` and `requires_grad`.

Where no device is named, what is like another Tensor is made on its device, and else on that of `npcompile.device(...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile import numpy_shim  # noqa: F401  (its captured forms are what Tensors compute with)
from npcompile.tensor_core.tensor import (
    Tensor,
    asarray,
    chosen,
    enable_grad,
    from_dlpack,
    from_numpy,
    gradients_of,
    is_grad_enabled,
    no_grad,
    tensor,
)
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.activations import gelu, relu, sigmoid, softmax
from npcompile.tensor_core.tensors.calls import plain, replaced

__all__ = [
    "Tensor",
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "enable_grad",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "gelu",
    "gradients_of",
    "is_grad_enabled",
    "linspace",
    "no_grad",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "relu",
    "sigmoid",
    "softmax",
    "tensor",
    "zeros",
    "zeros_like",
]


FILLED: dict[Any, Any] = {np.zeros: 0, np.ones: 1, np.empty: 0, np.zeros_like: 0, np.ones_like: 1, np.empty_like: 0}


def creation(function: Callable[..., np.ndarray], example: str) -> Callable[..., Tensor]:
    """NumPy's function of that name, for Tensors."""

    def create(*args: Any, device: str | None = None, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        place = chosen(device, args[0] if args else None)
        given, named = (replaced(plain(values), known_to_numpy) for values in (args, kwargs))
        if place != "cpu" and function in FILLED:
            like = np.empty_like if function in (np.zeros_like, np.ones_like, np.empty_like) else np.empty
            made = filled(like(*given, **named), FILLED[function], place)
        else:
            made = from_numpy(np.asarray(function(*given, **named))).to(place)
        return made.requires_grad_(requires_grad)

    name = function.__name__
    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"As np.{name}, with the dtypes that NumPy gives: `{example}`."
    return create


def known_to_numpy(value: Any) -> Any:
    """An array of a device as what NumPy can ask: its contents where they are one number, else its shape and strides."""
    if not devices.is_on_device(value):
        return value
    return devices.shadow(value) if value.ndim else devices.to_host(value)


def filled(like: np.ndarray, value: Any, device: str) -> Tensor:
    """An array filled on the device: NumPy says its dtype and strides, and nothing is copied."""
    kind = devices.open_kind(device)
    return Tensor._of(kind.full(like.shape, like.dtype, like.strides, value, kind.normalize(device)))


zeros = creation(np.zeros, "zeros((2, 3))")
ones = creation(np.ones, "ones((2, 3), requires_grad=True)")
empty = creation(np.empty, "empty((2, 3))")
full = creation(np.full, "full((2, 3), 0.5)")
arange = creation(np.arange, "arange(0, 1, 0.1)")
linspace = creation(np.linspace, "linspace(0, 1, 11)")
eye = creation(np.eye, "eye(3)")
zeros_like = creation(np.zeros_like, "zeros_like(x)")
ones_like = creation(np.ones_like, "ones_like(x)")
empty_like = creation(np.empty_like, "empty_like(x)")
full_like = creation(np.full_like, "full_like(x, 7)")


def random(draw: Callable[..., Any], shape: tuple[int, ...], dtype: Any, device: str | None, requires_grad: bool) -> Tensor:
    """Numbers are drawn on the host and moved: of one seed they are the same on every device."""
    made = from_numpy(np.asarray(draw(size=shape), dtype)).to(chosen(device))
    return made.requires_grad_(requires_grad)


def rand(*shape: int, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Uniform numbers in [0, 1), from NumPy's global stream (np.random.seed): `rand(2, 3)`. float64 unless `dtype` is given."""
    return random(np.random.random_sample, shape, dtype, device, requires_grad)


def randn(*shape: int, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Normal numbers of mean 0 and variance 1, from NumPy's global stream: `randn(2, 3)`. float64 unless `dtype` is given."""
    return random(np.random.standard_normal, shape, dtype, device, requires_grad)


def rand_like(x: Any, requires_grad: bool = False) -> Tensor:
    """Uniform numbers in [0, 1) of the shape and dtype of `x`, and on its device."""
    return rand(*x.shape, dtype=x.dtype, device=devices.device_of(plain(x)), requires_grad=requires_grad)


def randn_like(x: Any, requires_grad: bool = False) -> Tensor:
    """Normal numbers of mean 0 and variance 1 of the shape and dtype of `x`, and on its device."""
    return randn(*x.shape, dtype=x.dtype, device=devices.device_of(plain(x)), requires_grad=requires_grad)


def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = int, device: str | None = None) -> Tensor:
    """Integers in [low, high), or in [0, low), from NumPy's global stream: `randint(0, 10, (2, 3))`."""
    return from_numpy(np.asarray(np.random.randint(low, high, size, dtype))).to(chosen(device))
