"""`left is right`, where that can be known of traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import Is
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tracer.capture import Capture
from npcompile.tracer.values import (
    Closure,
    Constant,
    Deque,
    ExceptionValue,
    Iterator,
    Mapping,
    Opaque,
    Record,
    Sequence,
    SetValue,
    Truth,
)


def is_known_same(left: Any, right: Any) -> bool:
    """Are they surely one object? Containers find such ones without asking whether they are equal: NaN, arrays."""
    return left is right or (isinstance(left, Constant) and isinstance(right, Constant) and left.value is right.value)


def is_same_object(left: Any, right: Any, capture: Capture | None = None) -> bool:
    """`left is right`, where that can be known."""
    if left is right:
        return True
    match left, right:
        case Constant(), Constant():
            return is_same_constant(left.value, right.value)
        case (Array() as x, Array() | Constant(bool() | np.bool_())) | (Constant(bool() | np.bool_()), Array() as x) if (
            x.dtype.kind == "b" and not x.meta.boxed
        ):
            raise Decline("`is` of booleans made of array data: there are two of each type")
        case (Constant(bool()), Truth()) | (Truth(), Constant(bool())):
            raise Decline("`is` on a bool that array data decides")
        case (Constant(known), other) | (other, Constant(known)) if isinstance(known, SINGLETON_TYPES):
            return isinstance(other, Opaque) and other.example is known
        case _ if any(isinstance(v, Array) and v.storage.may_be for v in (left, right)):
            raise Decline("`is` of an array whose memory data decides")
        case Array(), Array() if left.meta.boxed and right.meta.boxed:
            if left.storage is right.storage:
                return left.steps == right.steps == ()  # every view operation makes a new object
            if left.storage.source is None or right.storage.source is None:
                return False
        case _ if isinstance(left, MADE_IN_THE_PROGRAM) or isinstance(right, MADE_IN_THE_PROGRAM):
            return False
        case (Sequence() | Mapping() | SetValue() as made, other) | (other, Sequence() | Mapping() | SetValue() as made) if (
            made.source is None
        ):
            return False
        case (Array() as x, other) | (other, Array() as x) if x.storage.source is None or not isinstance(other, Array | Opaque):
            return False
        case (Constant(), Dim() | Number() | Integer() | Sequence() | Mapping()) | (
            Dim() | Number() | Integer() | Sequence() | Mapping(),
            Constant(),
        ):
            return False if not isinstance(left.value if isinstance(left, Constant) else right.value, NUMBERS) else unknown()
        case (Opaque(), Opaque()) if capture is not None:
            answer = left.example is right.example
            capture.guard(Is(left.source, right.source, answer))
            return answer
        case (Constant(known), Opaque(source, example)) | (Opaque(source, example), Constant(known)) if capture is not None:
            capture.guard(Is(source, capture.object_of(known), example is known))
            return example is known
        case (Opaque() | Sequence() | Mapping() | SetValue(), Opaque() | Sequence() | Mapping() | SetValue()) if (
            capture is not None and not any(issubclass(type_of_outside(v), (tuple, frozenset)) for v in (left, right))
        ):
            assert left.source is not None and right.source is not None
            capture.guard(Is(left.source, right.source, False))  # of one object that can be changed there is one value
            return False
    raise Decline("`is` between objects that are not known")


NUMBERS = (int, float, complex, str, bytes, tuple)
MADE_IN_THE_PROGRAM = (Record, Deque, Iterator, Closure, ExceptionValue)


def unknown() -> bool:
    raise Decline("`is` on numbers or strings depends on the interpreter")


def type_of_outside(value: Any) -> type:
    return type(value.example) if isinstance(value, Opaque) else getattr(value, "kind", dict)


SINGLETON_TYPES = (type(None), type(Ellipsis), bool, type, type(np._NoValue))


def is_same_constant(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if left is not right and isinstance(left, NUMBERS) and not isinstance(left, bool):
        raise Decline("`is` on equal numbers or strings depends on the interpreter")
    return left is right
