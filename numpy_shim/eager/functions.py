"""NumPy's functions and ufuncs, which give Tensors where NumPy gives arrays and array scalars of numbers."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.tensor import Tensor, function_call, ufunc_call
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.calls import Call, collect, replaced
from npcompile.tensor_core.tensors.dispatch import perform
from npcompile.tensor_core.tensors.handle import Handle
from npcompile.tensor_core.tensors.results import box


def as_tensors(result: Any, out: Any = None) -> Any:
    """Tensors for the arrays and array scalars in what NumPy gave; `out` is the caller's array, and stays it.

    What Tensors do not hold (objects, strings, dates, other byte orders, subclasses) stays NumPy's.
    """
    outs = out if isinstance(out, tuple) else (out,)
    place = devices.CURRENT.get()

    def leaf(value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)) or any(value is o for o in outs):
            return value
        made = box(Tensor, value)
        return made.to(place) if place != "cpu" and isinstance(made, Tensor) else made

    return leaf(result) if not isinstance(result, (tuple, list, dict)) else replaced(result, leaf)


def asks_operands(function: Any) -> bool:
    """Does NumPy ask the arguments (`__array_ufunc__`, `__array_function__`) what the call means?"""
    return isinstance(function, np.ufunc) or hasattr(function, "_implementation")


def call_numpy(call: Call, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call whose arguments NumPy does not ask: Tensors among them are its arrays, with their gradients."""
    operands: list[Handle] = []
    collect(args, operands)
    collect(tuple(kwargs.values()), operands)
    if operands:
        return as_tensors(perform(call, args, kwargs), kwargs.get("out"))
    return as_tensors(call.native(*args, **kwargs), kwargs.get("out"))


@functools.cache
def rehosted_function(function: Callable[..., Any], name: str, module: str) -> Callable[..., Any]:
    """The function for Tensors, named `module`.`name`. A keyword `device` may be that of a Tensor."""
    asks = asks_operands(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs and str(kwargs["device"]).partition(":")[0] in devices.OPENERS:
            return call(*args, **kwargs | {"device": None}).to(kwargs["device"])
        if asks:
            return as_tensors(function(*args, **kwargs), kwargs.get("out"))
        return call_numpy(function_call(function), args, kwargs)

    functools.update_wrapper(call, function)
    call.__module__, call.__name__, call.__qualname__ = module, name, name
    return Builtin(call) if isinstance(function, types.BuiltinFunctionType) else call


class Builtin:
    """A function that NumPy has written in C: as an attribute of a class it does not become a method."""

    def __init__(self, call: Callable[..., Any]):
        functools.update_wrapper(self, call)
        self.__wrapped__ = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __text_signature__(self) -> str | None:
        return self.__wrapped__.__wrapped__.__text_signature__  # type: ignore[attr-defined,no-any-return]

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"  # type: ignore[attr-defined]

    def __reduce__(self) -> str:
        return self.__name__  # type: ignore[attr-defined,no-any-return]


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that only looks at arrays, and asks whether they are NumPy's: of Tensors it gets the arrays, and scalars of
    those without dimensions."""

    def native(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value._host if value.ndim else value._host[()]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*replaced(args, native), **replaced(kwargs, native))

    return call


class Ufunc:
    """A ufunc of NumPy with its methods, for Tensors. It is an instance of np.ufunc, and equal to NumPy's own."""

    __slots__ = ("__wrapped__",)
    __wrapped__: np.ufunc

    def __init__(self, ufunc: np.ufunc):
        self.__wrapped__ = ufunc

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        return np.ufunc

    def _called(self, method: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        if any(a.__class__ is list or a.__class__ is tuple for a in args):
            # NumPy does not ask what is in lists; and other types than Tensors are asked there as well.
            return call_numpy(ufunc_call(self.__wrapped__, method), args, kwargs)
        return as_tensors(getattr(self.__wrapped__, method)(*args, **kwargs), kwargs.get("out"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called("__call__", args, kwargs)

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        return self._called("reduce", args, kwargs)

    def accumulate(self, *args: Any, **kwargs: Any) -> Any:
        return self._called("accumulate", args, kwargs)

    def reduceat(self, *args: Any, **kwargs: Any) -> Any:
        return self._called("reduceat", args, kwargs)

    def outer(self, *args: Any, **kwargs: Any) -> Any:
        return self._called("outer", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return dir(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ is (other.__wrapped__ if type(other) is Ufunc else other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> tuple[Any, ...]:
        return rehosted_ufunc, (self.__wrapped__,)


@functools.cache
def rehosted_ufunc(ufunc: np.ufunc) -> Ufunc:
    return Ufunc(ufunc)


class Subscripted:
    """np.r_, np.c_, np.mgrid and np.ogrid: what subscripts make is Tensors."""

    def __init__(self, maker: Any, name: str):
        self._maker = maker
        self._call = Call(f"np.{name}[...]", maker.__getitem__, None)

    def __getitem__(self, key: Any) -> Any:
        return call_numpy(self._call, (key,), {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._maker, name)
