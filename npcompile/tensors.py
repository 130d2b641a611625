"""Making Tensors: NumPy's creation functions, with `device` and `requires_grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile import numpy_shim  # noqa: F401  (its captured forms are what Tensors compute with)
from npcompile.tensor_core.tensor import (
    Tensor,
    asarray,
    enable_grad,
    from_dlpack,
    from_numpy,
    gradients_of,
    is_grad_enabled,
    no_grad,
    tensor,
)
from npcompile.tensor_core.tensors.activations import gelu, relu, sigmoid, softmax
from npcompile.tensor_core.tensors.dispatch import plain

__all__ = [
    "Tensor",
    "arange",
    "asarray",
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


def creation(function: Callable[..., np.ndarray], example: str) -> Callable[..., Tensor]:
    """NumPy's function of that name, for Tensors."""

    def create(*args: Any, device: str = "cpu", requires_grad: bool = False, **kwargs: Any) -> Tensor:
        made = from_numpy(np.asarray(function(*plain(args), **plain(kwargs))))
        return made.requires_grad_(requires_grad).to(device)

    name = function.__name__
    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"As np.{name}, with the dtypes that NumPy gives: `{example}`."
    return create


zeros = creation(np.zeros, "zeros((2, 3))")
ones = creation(np.ones, "ones((2, 3), requires_grad=True)")
full = creation(np.full, "full((2, 3), 0.5)")
arange = creation(np.arange, "arange(0, 1, 0.1)")
linspace = creation(np.linspace, "linspace(0, 1, 11)")
eye = creation(np.eye, "eye(3)")
zeros_like = creation(np.zeros_like, "zeros_like(x)")
ones_like = creation(np.ones_like, "ones_like(x)")
full_like = creation(np.full_like, "full_like(x, 7)")


def random(draw: Callable[..., Any], shape: tuple[int, ...], dtype: Any, device: str, requires_grad: bool) -> Tensor:
    made = from_numpy(np.asarray(draw(size=shape), dtype))
    return made.requires_grad_(requires_grad).to(device)


def rand(*shape: int, dtype: Any = None, device: str = "cpu", requires_grad: bool = False) -> Tensor:
    """Uniform numbers in [0, 1), from NumPy's global stream (np.random.seed): `rand(2, 3)`. float64 unless `dtype` is given."""
    return random(np.random.random_sample, shape, dtype, device, requires_grad)


def randn(*shape: int, dtype: Any = None, device: str = "cpu", requires_grad: bool = False) -> Tensor:
    """Normal numbers of mean 0 and variance 1, from NumPy's global stream: `randn(2, 3)`. float64 unless `dtype` is given."""
    return random(np.random.standard_normal, shape, dtype, device, requires_grad)


def rand_like(x: Any, requires_grad: bool = False) -> Tensor:
    """Uniform numbers in [0, 1) of the shape and dtype of `x`."""
    return rand(*np.shape(x), dtype=x.dtype, requires_grad=requires_grad)


def randn_like(x: Any, requires_grad: bool = False) -> Tensor:
    """Normal numbers of mean 0 and variance 1 of the shape and dtype of `x`."""
    return randn(*np.shape(x), dtype=x.dtype, requires_grad=requires_grad)


def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = int, device: str = "cpu") -> Tensor:
    """Integers in [low, high), or in [0, low), from NumPy's global stream: `randint(0, 10, (2, 3))`."""
    return from_numpy(np.asarray(np.random.randint(low, high, size, dtype))).to(device)
