"""Calls of NumPy's surface, and the Tensors among their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core.tensors.handle import Handle

Captured = Callable[..., Any]


@dataclass
class Surface:
    """Captured forms of NumPy's surface, by what they capture. The shim, a layer above, fills these in."""

    functions: dict[Any, Captured] = field(default_factory=dict)
    methods: dict[str, Captured] = field(default_factory=dict)
    attributes: dict[str, Captured] = field(default_factory=dict)
    ufunc_methods: dict[str, Captured] = field(default_factory=dict)  # (builder, ufunc, ...)
    other_ufunc: Callable[[Any], Captured | None] = lambda ufunc: None  # of those that are not in `functions`
    operators: dict[str, Captured] = field(default_factory=dict)  # "+", "+=", "==", "-x", "getitem", "setitem"
    # (function, args, kwargs) -> result, for NumPy functions that are written in Python and have no captured form.
    capture_call: Callable[[Any, tuple, dict], Any] | None = None
    namespace: Any = None  # the module of NumPy's names for Tensors


SURFACE = Surface()


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that NumPy does, natively and captured."""

    label: str  # for messages
    native: Callable[..., Any]
    captured: Captured | None
    written: int | None = None  # the argument that is changed in place
    function: Any = None  # the NumPy function, where it is one
    out: int | None = None  # where `out` stands among the positional arguments
    ufunc: np.ufunc | None = None  # the ufunc that this is a call of, without a shorter way for some numbers
    of_scalar: Callable[..., Any] | None = None  # `native` of an array scalar, for operators and methods


def collect(values: Sequence[Any], found: list[Handle]) -> None:
    """Add the Tensors in arguments to those found."""
    for value in values:
        if isinstance(value, Handle):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            collect(value, found)
        elif isinstance(value, dict):
            collect(tuple(value.values()), found)


def replaced(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A copy of nested arguments or results with everything that is no container replaced by leaf(it)."""
    if isinstance(value, (tuple, list)):
        parts = [replaced(v, leaf) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {k: replaced(v, leaf) for k, v in value.items()}
    return leaf(value)


def plain(value: Any) -> Any:
    """Tensors as the ndarrays that they show."""
    return replaced(value, plain_leaf)


def plain_leaf(value: Any) -> Any:
    return value._data if isinstance(value, Handle) else value


def written_handles(call: Call, args: tuple, kwargs: dict[str, Any]) -> list[Handle]:
    """The Tensors that the call changes in place."""
    found: list[Handle] = []
    if "out" in kwargs:
        collect((kwargs["out"],), found)
    for position in (call.written, call.out):
        if position is not None and len(args) > position:
            collect((args[position],), found)
    return found


def out_position(function: Any) -> int | None:
    """Where NumPy's function, and the method of its name, takes `out` among its positional arguments."""
    try:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):  # no function, or one in C without a signature
        return None
    return names.index("out") if "out" in names else None
