"""NumPy's classes that make or hand out arrays, for Tensors."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from npcompile.numpy_shim.eager.functions import as_tensors, call_numpy
from npcompile.tensor_core.tensor import Tensor
from npcompile.tensor_core.tensors.calls import Call, plain
from npcompile.tensor_core.tensors.results import PLAIN


class ArrayType(type):
    """Instances of np.ndarray are Tensors, and NumPy's own arrays of what Tensors do not hold; subclasses are NumPy's."""

    def __new__(kind, name: str, bases: tuple[type, ...], attributes: dict[str, Any], **kwargs: Any) -> Any:
        if not any(isinstance(base, ArrayType) for base in bases):
            return super().__new__(kind, name, bases, attributes, **kwargs)
        natives = tuple(np.ndarray if isinstance(base, ArrayType) else base for base in bases)
        return type(natives[0])(name, natives, attributes, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (Tensor, np.ndarray))

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, (Tensor, np.ndarray))

    def __getattribute__(cls, name: str) -> Any:
        is_method = not name.startswith("__") and hasattr(Tensor, name)
        return getattr(Tensor, name) if is_method else super().__getattribute__(name)


class ndarray(np.ndarray, metaclass=ArrayType):
    """np.ndarray: `ndarray(shape, dtype, buffer, ...)` makes Tensors. Views of NumPy's subclasses as it are NumPy's arrays."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not ndarray:  # NumPy's `ndarray.__new__(subclass, ...)`
            return np.ndarray.__new__(cls, *args, **kwargs)  # type: ignore[unreachable]
        return call_numpy(Call("np.ndarray", np.ndarray, None), args, kwargs)


PLAIN.add(ndarray)


class vectorize(np.vectorize):
    """np.vectorize, whose functions take and give Tensors. The function itself sees NumPy's scalars."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = super().__call__(*plain(args), **plain(kwargs))
        return result if isinstance(result, np.vectorize) else as_tensors(result)


class ndenumerate(np.ndenumerate):
    """np.ndenumerate of a Tensor: values are NumPy's scalars, as an iterator makes them."""

    def __init__(self, arr: Any):
        super().__init__(plain(arr))

    def __iter__(self) -> Iterator[Any]:
        return self


def drawing(method: Any) -> Any:
    """A method of random generators whose arrays are Tensors."""

    @functools.wraps(method)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        # An array that is shuffled in place, and one that is written, is the Tensor's own.
        return as_tensors(method(self, *plain(args), **plain(kwargs)), kwargs.get("out"))

    return draw


def with_tensors(kind: type, left_out: tuple[str, ...]) -> type:
    """A class of random generators whose draws are Tensors: a subclass of NumPy's, of the same streams."""
    names = [n for n in dir(kind) if not n.startswith("_") and n not in left_out and callable(getattr(kind, n))]
    return type(kind.__name__, (kind,), {n: drawing(getattr(kind, n)) for n in names} | {"__module__": kind.__module__})


@functools.lru_cache(maxsize=1)
def random_classes() -> dict[str, Any]:
    """The names of np.random that make generators."""
    generator = with_tensors(np.random.Generator, ("spawn", "bit_generator"))
    state = with_tensors(np.random.RandomState, ("get_state", "set_state", "seed", "bytes"))

    @functools.wraps(np.random.default_rng)
    def default_rng(seed: Any = None) -> Any:
        made = np.random.default_rng(plain(seed))
        return made if made is seed else generator(made.bit_generator)

    return {"Generator": generator, "RandomState": state, "default_rng": default_rng}
