"""copy.copy and copy.deepcopy of values."""

from __future__ import annotations

import copy
import types
from typing import Any

from npcompile.numpy_shim.registry import METHODS
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import Keys
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import Literal
from npcompile.tracer.capture import Capture
from npcompile.tracer.constant_kinds import ATOMIC_TYPES
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, class_attributes, objects, operators
from npcompile.tracer.python.calls import Arguments, Keywords, captures
from npcompile.tracer.values import ArrayMethod, Closure, Constant, Lazy, Mapping, Opaque, Record, Sequence, SetValue

# With one of these a class says how its objects are copied.
SAYS_HOW = (
    *("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    *("__getnewargs__", "__getnewargs_ex__"),
)


@captures(copy.copy)
def call_copy(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    (value,) = positional
    match value:
        case Array():
            return copied_array(frame, value)
        case Sequence() if value.kind is list:
            return Sequence(list, list(value.items))
        case Mapping():
            return Mapping(dict(value.items))
        case SetValue() if value.kind is set:
            return SetValue(value.items.copy())
        case Opaque() | Record() if objects.class_of(value) is not None:
            kind, items = parts_of(frame.capture, value)
            return Record(kind, items)
    require_immutable(value)
    return value


def copied_array(frame: Frame, x: Array) -> Any:
    if not x.meta.boxed:
        return x
    assert "copy" in METHODS
    return calls.call(frame, ArrayMethod(x, "copy"), [], {"order": Constant("K")})


def require_immutable(value: Any) -> None:
    """A copy of it is the object itself."""
    is_same = (Dim, Number, Integer, Closure)
    if isinstance(value, is_same) or isinstance(value, Sequence) and value.kind is tuple:
        return
    is_known = isinstance(value, Constant) and isinstance(value.value, (*operators.PURE_TYPES, *ATOMIC_TYPES))
    if isinstance(value, SetValue) or (is_known and not isinstance(value.value, types.ModuleType)):
        return
    raise Decline(f"a copy of {operators.describe(value)}")


def parts_of(capture: Capture, value: Opaque | Record) -> tuple[type, dict[str, Any]]:
    """The class of an object and its attributes, of which a plain copy is made."""
    kind = objects.class_of(value)
    assert kind is not None
    if not objects.is_made_plainly(kind) or class_attributes.find(kind, "__new__") is not object.__new__:
        raise Decline(f"a copy of an object of type {kind.__qualname__}")
    for name in SAYS_HOW:
        if getattr(class_attributes.find(kind, name), "__objclass__", object) is not object or isinstance(
            class_attributes.find(kind, name), types.FunctionType
        ):
            raise Decline(f"{kind.__qualname__} says how its objects are copied")
    if isinstance(value, Record):
        return kind, dict(value.items)
    if any("__slots__" in vars(c) for c in kind.__mro__[:-1]):
        raise Decline("a copy of an object with slots")
    names = [*vars(value.example)]
    held_in = value.source.attribute("__dict__")
    capture.guard(Keys(held_in, Literal(names)))
    hidden = [name for name in names if class_attributes.is_data(class_attributes.find(kind, name))]
    sources = {name: held_in.item(name) if name in hidden else value.source.attribute(name) for name in names}
    held = {name: Lazy(source, vars(value.example)[name]) for name, source in sources.items()} | value.written
    return kind, {name: v for name, v in held.items() if v is not objects.UNASSIGNED}


@captures(copy.deepcopy)
def call_deepcopy(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1 or keywords:
        raise Decline("deepcopy() with a memo")
    return deep(frame, positional[0], {})


def deep(frame: Frame, value: Any, done: dict[int, Any]) -> Any:
    """A copy in which what was one object is one object again."""
    value = frame.capture.realize(value)
    if id(value) in done:
        return done[id(value)][0]

    def keep(made: Any) -> Any:
        done[id(value)] = made, value
        return made

    made: Any
    match value:
        case Array():
            return keep(copied_array(frame, value))
        case Sequence() if value.kind is list:
            made = keep(Sequence(list, []))
            made.items += [deep(frame, v, done) for v in value.items]
            return made
        case Sequence() if value.kind is tuple:
            items = [deep(frame, v, done) for v in value.items]
            is_same = all(a is frame.capture.realize(b) for a, b in zip(items, value.items))
            return keep(value if is_same else Sequence(tuple, items))
        case Mapping():
            made = keep(Mapping({}))
            made.items |= {k: deep(frame, v, done) for k, v in value.items.items()}
            return made
        case SetValue() if value.kind is set:
            return keep(SetValue(value.items.copy()))
        case Opaque() | Record() if objects.class_of(value) is not None:
            kind, attributes = parts_of(frame.capture, value)
            made = keep(Record(kind, {}))
            made.items |= {name: deep(frame, v, done) for name, v in attributes.items()}
            return made
    require_immutable(value)
    return value
