"""Built-in functions that ask for types and attributes of traced values, and set these."""

from __future__ import annotations

import builtins
import collections
import types
from typing import Any

import numpy as np

from npcompile.numpy_shim.objects import ShimObject
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import HasAttribute
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.tensor import Tensor
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import attributes, class_attributes, objects, operators
from npcompile.tracer.python.calls import Arguments, Keywords, captures
from npcompile.tracer.python.operators import evaluate, plain
from npcompile.tracer.raising import Raises
from npcompile.tracer.values import (
    ArrayFlat,
    Closure,
    Constant,
    Converted,
    Deque,
    DictView,
    ExceptionValue,
    Iterator,
    Mapping,
    Opaque,
    Partial,
    PythonNumber,
    RangeValue,
    Record,
    Sequence,
    SetValue,
    SliceValue,
    TensorValue,
    Text,
    Truth,
)


@captures(isinstance)
def call_isinstance(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    value, kinds = positional[0], plain(frame.capture, positional[1])
    require_plain_check(kinds, "__instancecheck__")
    if isinstance(value, Constant) and not isinstance(value.value, ShimObject):
        return evaluate(lambda: isinstance(value.value, kinds))
    kind = type_of(value)
    if class_attributes.find(kind, "__class__") is not class_attributes.find(object, "__class__"):
        raise Decline(f"{kind.__qualname__} says which class its objects are of")
    return evaluate(lambda: issubclass(kind, kinds))


@captures(issubclass)
def call_issubclass(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    kind, kinds = (plain(frame.capture, p) for p in positional)
    require_plain_check(kinds, "__subclasscheck__")
    return evaluate(lambda: issubclass(kind, kinds))


def require_plain_check(kinds: Any, name: str) -> None:
    """Do the classes leave the answer to Python, or to abc?"""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        check = class_attributes.find(type(kind), name)
        if isinstance(check, types.FunctionType) and check.__module__ != "abc" or getattr(kind, "_is_protocol", False):
            raise Decline(f"{type(kind).__qualname__}.{name}")


@captures(type)
def call_type(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1:
        raise Decline("type() with three arguments")
    return Constant(type_of(positional[0]))


def type_of(value: Any) -> type:
    match value:
        case Array():
            return np.ndarray if value.meta.boxed else value.dtype.type
        case ArrayFlat():
            return np.flatiter
        case Constant(ShimObject(maker=maker)):
            if maker is None:
                raise Decline(f"the type of {operators.describe(value)}")
            return maker
        case TensorValue():
            return Tensor
        case Dim() | Integer():
            return int
        case Number():
            return value.type
        case Sequence():
            return value.kind
        case Mapping():
            return dict
        case Record() | SetValue() | Partial() | ExceptionValue():
            return value.kind
        case Deque():
            return collections.deque
        case DictView():
            return type(getattr({}, value.kind)())
        case Iterator() if value.kind in ("zip", "map", "filter", "enumerate"):
            return getattr(builtins, value.kind)
        case SliceValue():
            return slice
        case RangeValue():
            return range
        case Constant():
            return type(value.value)
        case Opaque():
            return type(value.example)
        case Closure():
            return types.FunctionType
        case Text():
            return str
        case Truth():
            return bool
        case PythonNumber() | Converted():
            return value.kind
        case _:
            raise Decline(f"the type of {operators.describe(value)}")


@captures(hasattr)
def call_hasattr(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    owner, name = positional[0], plain(frame.capture, positional[1])
    match owner:
        case Array() | TensorValue():
            return Constant(hasattr(type_of(owner), name))
        case Opaque() | Record() if objects.class_of(owner) is not None:
            is_there = found_on(frame, owner, name) is not class_attributes.MISSING
            is_guarded = class_attributes.may_be_computed(type_of(owner), name)  # where it was looked for
            if isinstance(owner, Opaque) and name not in owner.written and not is_guarded:
                frame.capture.guard(HasAttribute(owner.source, name, is_there))
            return Constant(is_there)
        case Constant() | Sequence() | Dim() | Number() | Integer() | Mapping():
            holder = owner.value if isinstance(owner, Constant) else type_of(owner)
            return Constant(has_attribute(frame, owner, holder, name))
        case _:
            raise Decline(f"hasattr of {operators.describe(owner)}")


def found_on(frame: Frame, owner: Any, name: str) -> Any:
    """An attribute of an object, MISSING if asking for it raises AttributeError."""
    return objects.unless_missing(frame, lambda: attributes.load(frame, owner, name))


def has_attribute(frame: Frame, owner: Any, holder: Any, name: str) -> bool:
    """hasattr(holder, name), guarded for modules and classes of the user's."""
    answer = hasattr(holder, name)
    if isinstance(owner, Constant) and isinstance(holder, (type, types.ModuleType)) and owner.source is not None:
        frame.capture.guard(HasAttribute(frame.capture.object_of(holder), name, answer))
    return answer


@captures(getattr)
def call_getattr(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    owner, name = positional[0], plain(frame.capture, positional[1])
    if len(positional) == 3 and isinstance(owner, (Opaque, Record)) and objects.class_of(owner) is not None:
        found = found_on(frame, owner, name)
        return positional[2] if found is class_attributes.MISSING else found
    if len(positional) == 3 and isinstance(owner, (Array, TensorValue, Constant)):
        holder = owner.value if isinstance(owner, Constant) else type_of(owner)
        if not has_attribute(frame, owner, holder, name):
            return positional[2]
    try:
        return attributes.load(frame, owner, name)
    except Raises as error:
        if len(positional) < 3 or not issubclass(error.value.kind, AttributeError):
            raise
        return positional[2]


@captures(setattr)
def call_setattr(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    owner, name, value = positional
    attributes.store(frame, owner, plain(frame.capture, name), value)
    return Constant(None)


@captures(delattr)
def call_delattr(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    attributes.delete(frame, positional[0], plain(frame.capture, positional[1]))
    return Constant(None)


@captures(callable)
def call_callable(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return Constant(
        any("__call__" in vars(c) for c in type_of(positional[0]).__mro__)
        if not isinstance(positional[0], Constant)
        else callable(positional[0].value)
    )
