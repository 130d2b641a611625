"""From Tensors to the arrays that they hold and back, while a program is captured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from npcompile.numpy_shim.registry import MOST_VALUES
from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.values import Lazy, Mapping, Sequence, TensorValue, children


def as_tensor(capture: Capture, value: Any) -> Any:
    """Arrays in a result as Tensors."""
    match value:
        case Array():
            known = capture.tensors_by_array.get(id(value))
            if known is not None:
                return known  # what writes to it returns it
            if not value.meta.boxed:
                value = fresh(value.builder, value.node)
            if not capture.grad_enabled:
                value = constant_view(value) if value.steps or value.storage.source else without_gradient(value)
            made = TensorValue(value)
            capture.tensors_by_array[id(value)] = made
            return made
        case Sequence():
            return Sequence(value.kind, [as_tensor(capture, v) for v in value.items])
        case _:
            return value


def as_array(value: Any) -> Any:
    """Tensors in a value as the arrays that they hold."""
    match value:
        case TensorValue():
            return value.array
        case Sequence() if holds_tensor(value):
            return Sequence(value.kind, [as_array(v) for v in value.items])
        case Mapping() if holds_tensor(value):
            return Mapping({k: as_array(v) for k, v in value.items.items()})
        case _:
            return value


def holds_tensor(value: Any) -> bool:
    """Is there a Tensor in it? Of sequences only items that were looked at already can be one."""
    if isinstance(value, TensorValue):
        return True
    return isinstance(value, (Sequence, Mapping)) and any(map(holds_tensor, children(value)))


def realized(capture: Capture, values: Iterable[Any]) -> list[Any]:
    """The values as what they are; sequences that hold Tensors with their items as what these are."""
    return [realize_items(capture, capture.realize(v)) for v in values]


def realize_items(capture: Capture, value: Any) -> Any:
    if isinstance(value, Sequence):
        unread = sum(isinstance(v, Lazy) for v in value.items)
        if unread > MOST_VALUES:
            raise Decline(f"{unread} values from outside in one list or tuple: a guard for each takes longer than it saves")
        items = realized(capture, value.items)
        if any(map(holds_tensor, items)):
            return Sequence(value.kind, items)
    return value


def constant_view(x: Array) -> Array:
    """The same memory, through which no gradient passes."""
    return x.view("constant", None, x.meta)


def without_gradient(x: Array) -> Array:
    """The same contents, through which no gradient passes, in memory of their own."""
    return fresh(x.builder, x.builder.apply("alias", x.node, name=None), x.meta)


def through_tensors(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of arrays that gives Tensors when it is given one. Its first argument is the capture."""

    @functools.wraps(operation)
    def operate(capture: Capture, *values: Any) -> Any:
        if not any(map(holds_tensor, values)):
            return operation(capture, *values)
        return as_tensor(capture, operation(capture, *map(as_array, values)))

    return operate
