"""Subscripts of traced values: items read, set and deleted."""

from __future__ import annotations

import enum
import operator
from typing import Any

import numpy as np

from npcompile.numpy_shim import flat, grids, indexing
from npcompile.numpy_shim.registry import ATTRIBUTES
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import forward, ranges
from npcompile.tracer.python.arithmetic import plain_number
from npcompile.tracer.python.operators import constant_key, evaluate, evaluate_pure, library_keys, lift, lower, plain
from npcompile.tracer.raising import raises
from npcompile.tracer.tensor_values import as_array, through_tensors
from npcompile.tracer.values import (
    ArrayFlags,
    ArrayFlat,
    Constant,
    Mapping,
    Opaque,
    RangeValue,
    Sequence,
    SliceValue,
    TensorValue,
    describe,
    is_long,
)


def getitem(capture: Capture, container: Any, key: Any) -> Any:
    if isinstance(container, (Sequence, Mapping)):  # what it holds is what it is, beside Tensors too
        return part(capture, container, as_array(key))
    return element(capture, container, key)


@through_tensors
def element(capture: Capture, container: Any, key: Any) -> Any:
    return part(capture, container, key)


def part(capture: Capture, container: Any, key: Any) -> Any:
    match container:
        case Array():
            if isinstance(key, Constant) and isinstance(key.value, enum.Enum) and isinstance(key.value, int):
                key = Constant(key.value.__index__())
            return lift(indexing.getitem(capture.builder, container, lower(capture, key)))
        case Sequence():
            return sequence_item(capture, container, key)
        case Mapping():
            name = constant_key(capture, key)
            found = capture.item(container, name)
            if found is None:
                raise raises(KeyError, name)
            return found
        case ArrayFlags():
            flags = ATTRIBUTES["flags"](capture.builder, container.owner)
            return evaluate(lambda: flags[plain(capture, key)])
        case ArrayFlat():
            return lift(flat.read(capture.builder, container.owner, lower(capture, key)))
        case RangeValue() if isinstance(key, SliceValue):
            return ranges.part(capture, container, key)
        case RangeValue() if isinstance(number := plain_number(key), Dim) or type(number) is int:
            return lift(ranges.item(capture, container, number))
        case RangeValue():
            return lift(evaluate(lambda: plain(capture, container)[plain(capture, key)]).value)
        case Constant(dict() as known):
            name = constant_key(capture, key)
            return evaluate(lambda: library_keys(capture, known, name)[name])
        case Constant() if isinstance(container.value, list):  # of a library: assumed constant
            return evaluate(lambda: container.value[plain(capture, key)])
        case Constant() if type(container.value) in grids.INDEXED:
            return lift(grids.INDEXED[type(container.value)](capture.builder, lower(capture, key)))
        case Constant() if isinstance(container.value, type(np.s_)):
            is_one = container.value.maketuple and not (isinstance(key, Sequence) and key.kind is tuple)
            return Sequence(tuple, [key]) if is_one else key
        case Constant():
            return evaluate_pure(capture, operator.getitem, container, key)
        case Opaque() if type(container.example) is dict:
            raise Decline("an item of a dict with keys that are not plain constants")
        case _:
            found = forward.class_getitem(capture, container, key)
            if found is NotImplemented:
                raise Decline(f"an item of {describe(container)}")
            return capture.realize(found)


def sequence_item(capture: Capture, container: Any, key: Any) -> Any:
    index = plain(capture, key)
    if isinstance(index, np.integer):
        index = int(index)
    if isinstance(index, slice):
        items = container.items[index]
        return container.part(items) if index.step in (None, 1) else Sequence(container.plain_kind, items)
    if isinstance(index, int) and is_long(container) and -len(container.example) <= index < len(container.example):
        return capture.item_of_long(container, index)
    if not isinstance(index, int):
        raise Decline(f"index {index!r} of a {container.kind.__name__}")
    if not -len(container.items) <= index < len(container.items):
        raise raises(IndexError, f"{container.plain_kind.__name__} index out of range")
    return container.items[index]


def setitem(capture: Capture, container: Any, key: Any, value: Any) -> None:
    if isinstance(container, TensorValue):
        container = container.array
    match container:
        case Array():
            indexing.setitem(capture.builder, container, lower(capture, key), lower(capture, value))
            capture.require_no_overlap()
        case ArrayFlat():
            flat.write(capture.builder, container.owner, lower(capture, key), lower(capture, value))
            capture.require_no_overlap()
        case Sequence() | Mapping() if (
            getattr(container, "kind", list) is list  # a tuple refuses
            and capture.realize(getitem_or_none(capture, container, key)) is capture.realize(value)
        ):
            pass  # the end of `container[key] += x`, which changed the array or Tensor in place
        case _:
            asked = (ask(capture, container, key, value) for ask in (forward.container_setitem, forward.class_setitem))
            if all(found is NotImplemented for found in asked):
                raise Decline(f"an item of {describe(container)} is assigned")


def getitem_or_none(capture: Capture, container: Any, key: Any) -> Any:
    try:
        return getitem(capture, container, key)
    except Decline:
        return None


def delitem(capture: Capture, container: Any, key: Any) -> None:
    asked = (ask(capture, container, key) for ask in (forward.container_delitem, forward.class_delitem))
    if all(found is NotImplemented for found in asked):
        raise Decline(f"an item of {describe(container)} is deleted")
