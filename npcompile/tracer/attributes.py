"""Attribute access on traced values."""

from __future__ import annotations

import inspect
import types
from typing import Any

import numpy as np

from npcompile.numpy_shim.attributes import SET_ATTRIBUTES
from npcompile.numpy_shim.registry import ATTRIBUTES, METHODS
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number
from npcompile.tracer import calls, operators, raising
from npcompile.tracer.frame import Frame
from npcompile.tracer.values import (
    ArrayFlags,
    ArrayMethod,
    Constant,
    ExceptionValue,
    Lazy,
    Mapping,
    Method,
    Opaque,
    Record,
    Sequence,
    TensorValue,
)

# Modules whose attributes are constants: guarded where the user's code reads them, assumed so where the library's does.
FIXED_MODULES = ("numpy", "scipy", "math", "cmath", "operator", "itertools", "functools", "builtins")
CONTAINER_METHODS: dict[type, tuple[str, ...]] = {
    list: ("append", "extend", "pop", "insert", "reverse", "copy", "index", "count"),
    tuple: ("index", "count"),
    dict: ("get", "items", "keys", "values", "pop", "update", "setdefault", "copy"),
}
DRAWN: dict[type, dict[str, Any]] = {}  # methods of random generators: draws.py
_missing = object()


def load(frame: Frame, owner: Any, name: str) -> Any:
    """`owner.name`"""
    match owner:
        case Array():
            return load_from_array(frame, owner, name)
        case ArrayFlags():
            flags = ATTRIBUTES["flags"](frame.capture.builder, owner.owner)
            return operators.evaluate(lambda: getattr(flags, name))
        case TensorValue():
            return calls.TENSOR_CALLS["load"](frame, owner, name)
        case Constant() if type(owner.value) is dict and name in CONTAINER_METHODS[dict]:
            return Method(owner, None, name)
        case Constant():
            return load_from_constant(frame, owner, name)
        case Opaque(example=example) if name in DRAWN.get(type(example), ()):
            return Method(owner, Constant(DRAWN[type(example)][name]), name)
        case Opaque():
            return load_from_object(frame, owner, name)
        case Sequence() if owner.kind not in CONTAINER_METHODS and name not in CONTAINER_METHODS[tuple]:
            return load_from_named_tuple(frame, owner, name)
        case Sequence() if name in CONTAINER_METHODS[owner.plain_kind]:
            return Method(owner, None, name)
        case Mapping() if name in CONTAINER_METHODS[dict]:
            return Method(owner, None, name)
        case Record():
            return load_from_record(frame, owner, name)
        case ExceptionValue():
            return raising.load(owner, name)
        case Dim() | Number():
            return load_from_number(owner, name)
        case _:
            raise Decline(f"attribute {name!r} of {operators.describe(owner)}")


def load_from_array(frame: Frame, x: Array, name: str) -> Any:
    if name == "base":
        return base_of(frame, x)
    if name == "flags" and x.meta.boxed:
        return ArrayFlags(x)
    if name in ATTRIBUTES:
        return operators.lift(ATTRIBUTES[name](frame.capture.builder, x))
    if name in METHODS:
        return ArrayMethod(x, name)
    kind = np.ndarray if x.meta.boxed else x.dtype.type
    if not hasattr(kind, name) and name not in ("__array_interface__", "__array_struct__"):
        raise raising.raises(AttributeError, f"'{kind.__module__}.{kind.__qualname__}' object has no attribute {name!r}")
    if name == "__array_interface__":
        raise Decline(f"attribute {name!r} of an array")
    raise Decline(f"ndarray.{name} is not captured")


def base_of(frame: Frame, x: Array) -> Any:
    """The array that owns the memory of `x`, or None."""
    storage = x.storage
    if storage.source is None:
        return Array(storage, (), storage.meta) if x.steps else Constant(None)
    if not x.meta.boxed:
        return Constant(None)
    base = frame.capture.examples[storage.source].base
    if x.steps and base is None:
        frame.capture.guard(f"{storage.source}.base is None")
        return next(a for source, a in frame.capture.by_identity.values() if source == storage.source)
    return Lazy(f"{storage.source}.base", base)


def load_from_record(frame: Frame, owner: Record, name: str) -> Any:
    if name in owner.items:
        return owner.items[name]
    on_class = inspect.getattr_static(owner.kind, name, None)
    if isinstance(on_class, types.FunctionType):
        frame.capture.guard_class(owner.kind, name)
        return Method(owner, Constant(on_class), name)
    if isinstance(on_class, property) and on_class.fget is not None:
        frame.capture.guard_class(owner.kind, name)
        return calls.call(frame, Constant(on_class.fget), [owner], {})
    raise Decline(f"attribute {name!r} of an object of type {owner.kind.__qualname__}")


def has_plain_setattr(kind: Any) -> bool:
    return kind.__setattr__ is object.__setattr__


def load_from_named_tuple(frame: Frame, owner: Sequence, name: str) -> Any:
    fields = owner.kind._fields  # type: ignore[attr-defined]
    if name in fields:
        return owner.items[fields.index(name)]
    on_class = vars(owner.kind).get(name)
    if isinstance(on_class, types.FunctionType):
        frame.capture.guard_class(owner.kind, name)
        return Method(owner, Constant(on_class), name)
    if isinstance(on_class, property) and on_class.fget is not None:
        frame.capture.guard_class(owner.kind, name)
        return calls.call(frame, Constant(on_class.fget), [owner], {})
    raise Decline(f"attribute {name!r} of a named tuple")


def load_from_number(owner: Any, name: str) -> Any:
    if isinstance(owner, Dim) or isinstance(owner.hint, float):
        if name == "real":
            return owner
        if name == "imag":
            return Constant(0 if isinstance(owner, Dim) else 0.0)
    if isinstance(owner, Dim) and name in ("numerator", "denominator"):
        return owner if name == "numerator" else Constant(1)
    raise Decline(f"attribute {name!r} of a traced number")


def load_from_constant(frame: Frame, owner: Constant, name: str) -> Any:
    value = owner.value
    if isinstance(value, types.ModuleType):
        found = getattr(value, name, _missing)
        if found is _missing:
            raise Decline(f"module {value.__name__!r} has no attribute {name!r}")
        if owner.source is None:  # read by library code
            return library_constant(found)
        if is_library(value.__name__):
            frame.capture.guard_name(vars(value), name)
            return Constant(found, f"{owner.source}.{name}") if isinstance(found, types.ModuleType) else library_constant(found)
        return Lazy(f"{owner.source}.{name}", found)
    if isinstance(value, np.ufunc) and name in ("reduce", "accumulate", "outer", "at", "reduceat"):
        return Constant(getattr(value, name))
    if isinstance(value, operators.PURE_TYPES):
        found = getattr(value, name, _missing)
        if found is _missing:
            raise Decline(f"{type(value).__qualname__} has no attribute {name!r}")
        if isinstance(value, type) and not is_library(value.__module__) and owner.source is not None:
            return Lazy(f"{owner.source}.{name}", found)
        return operators.lift(found)
    if isinstance(value, (types.FunctionType, type(np.sum), np.ufunc)) and name in ("__name__", "__qualname__", "__module__"):
        return Constant(getattr(value, name))
    raise Decline(f"attribute {name!r} of {type(value).__qualname__}")


def library_constant(found: Any) -> Any:
    return operators.lift(found) if not isinstance(found, np.ndarray) else Constant(found)


def is_library(module: str | None) -> bool:
    return (module or "").split(".")[0] in FIXED_MODULES


def load_from_object(frame: Frame, owner: Opaque, name: str) -> Any:
    """Python's attribute lookup for an object without a __getattribute__ of its own, run without running user code."""
    x: Any = owner.example
    cls: Any = type(x)
    if cls.__getattribute__ is not object.__getattribute__ or isinstance(x, np.ndarray):
        raise Decline(f"attribute {name!r} of an object of type {cls.__qualname__}")
    on_class = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), _missing)
    source = f"{owner.source}.{name}"
    if isinstance(on_class, property):
        if on_class.fget is None:
            raise Decline(f"property {name!r} cannot be read")
        frame.capture.guard_class(cls, name)
        return calls.call(frame, Constant(on_class.fget), [owner], {})
    if isinstance(on_class, types.MemberDescriptorType):
        value = getattr(x, name, _missing)
        if value is _missing:
            raise Decline(f"attribute {name!r} has no value")
        return Lazy(source, value)
    if on_class is not _missing and hasattr(type(on_class), "__set__"):
        raise Decline(f"attribute {name!r} is a descriptor")
    own = getattr(x, "__dict__", {})
    if name in own:
        return Lazy(source, own[name])
    if isinstance(on_class, types.FunctionType):
        if hasattr(x, "__dict__"):
            frame.capture.guard(f"{name!r} not in {owner.source}.__dict__")
        frame.capture.guard_class(cls, name)
        return Method(owner, Constant(on_class), name)
    if isinstance(on_class, staticmethod):
        frame.capture.guard_class(cls, name)
        return Constant(on_class.__func__)
    if on_class is _missing or hasattr(type(on_class), "__get__"):
        raise Decline(f"attribute {name!r} of an object of type {cls.__qualname__}")
    return Lazy(source, on_class)


def store(frame: Frame, owner: Any, name: str, value: Any) -> None:
    """`owner.name = value`"""
    if isinstance(owner, TensorValue):
        return calls.TENSOR_CALLS["store"](frame, owner, name, value)
    if isinstance(owner, Record) and name in owner.items and has_plain_setattr(owner.kind):
        frame.capture.require_no_body("an attribute is set")
        owner.items[name] = value
        return None
    if isinstance(owner, Array):
        from_table = SET_ATTRIBUTES.get(name)
        if from_table is not None:
            from_table(frame.capture.builder, owner, operators.lower(frame.capture, value))
            frame.capture.require_no_overlap()
            return None
    if isinstance(owner, Opaque) and is_set_to_itself(frame, owner, name, value):
        return None
    raise Decline(f"attribute {name!r} of {operators.describe(owner)} is set")


def is_set_to_itself(frame: Frame, owner: Opaque, name: str, value: Any) -> bool:
    """Is this the end of `owner.name += x`, which changed the array or Tensor in place?"""
    kind = type(owner.example)
    if not has_plain_setattr(kind) or hasattr(kind, name) or name not in getattr(owner.example, "__dict__", ()):
        return False
    return frame.capture.realize(load(frame, owner, name)) is frame.capture.realize(value)
