"""Attribute access on traced values."""

from __future__ import annotations

import enum
import functools
import sys
import types
from typing import Any

import numpy as np

from npcompile.numpy_shim.attributes import SET_ATTRIBUTES
from npcompile.numpy_shim.registry import ATTRIBUTES, METHODS
from npcompile.tensor_core.array import NEW_ZEROS, Array, is_new_memory
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import HasAttribute, HasKey, Is
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import NONE, Literal
from npcompile.tracer import raising
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, containers, forward, generators, groups, inlining, objects, operators, texts
from npcompile.tracer.python.class_attributes import IS_OF_PYTHON, MISSING, acts_as, find, is_data, on_class
from npcompile.tracer.values import (
    UNASSIGNED,
    ArrayFlags,
    ArrayFlat,
    ArrayMethod,
    Closure,
    Constant,
    Deque,
    ExceptionValue,
    Generator,
    Lazy,
    Mapping,
    Method,
    Opaque,
    Partial,
    PythonNumber,
    RangeValue,
    Record,
    Sequence,
    SetValue,
    SliceValue,
    Super,
    TensorValue,
    Text,
)

# Modules whose attributes are constants: guarded where the user's code reads them, assumed so where the library's does.
FIXED_MODULES = ("numpy", "scipy", "math", "cmath", "operator", "itertools", "functools", "builtins")
DRAWN: dict[type, dict[str, Any]] = {}  # methods of random generators: draws.py
_missing = object()


def load(frame: Frame, owner: Any, name: str) -> Any:
    """`owner.name`"""
    match owner:
        case Opaque(example=(np.random.Generator() | np.random.RandomState()) as known) | Constant(
            (np.random.Generator() | np.random.RandomState()) as known
        ) if name in DRAWN.get(type(known), ()):
            return Method(owner, Constant(DRAWN[type(known)][name]), name)
        case Array():
            return load_from_array(frame, owner, name)
        case ArrayFlags():
            flags = ATTRIBUTES["flags"](frame.capture.builder, owner.owner)
            return operators.evaluate(lambda: getattr(flags, name))
        case ArrayFlat(x) if name == "base":
            return x
        case TensorValue():
            return forward.tensor_attribute(frame, owner, name)
        case Constant() if type(owner.value) is dict and name in containers.METHODS[dict]:
            return Method(owner, None, name)
        case Constant(enum.Enum() as member):
            return load_from_enum(frame, member, name)
        case Constant():
            return load_from_constant(frame, owner, name)
        case Opaque() | Record() if objects.class_of(owner) is not None:
            return objects.load(frame, owner, name)
        case Opaque():
            return load_from_object(frame, owner, name)
        case Super():
            return objects.load_from_super(frame, owner, name)
        case Sequence() if owner.kind not in (list, tuple) and name not in containers.METHODS[tuple]:
            return load_from_named_tuple(frame, owner, name)
        case Sequence() | Mapping() | SetValue() | Deque() if name in containers.METHODS[containers.kind_of(owner)]:  # type: ignore[index]
            return Method(owner, None, name)
        case Sequence() | Mapping() | SetValue() if name == "__class__":
            return Constant(owner.kind if not isinstance(owner, Mapping) else dict)
        case SliceValue() | RangeValue() if name in ("start", "stop", "step"):
            part = getattr(owner, name)
            return Constant(part) if isinstance(part, int) else part
        case SliceValue() | RangeValue():
            return Constant(operators.evaluate(lambda: getattr(operators.plain(frame.capture, owner), name)).value)
        case Closure() if name in owner.attributes:
            return owner.attributes[name]
        case Partial() if owner.kind is functools.partial and name in ("func", "args", "keywords"):
            func, *args = owner.positional
            return func if name == "func" else Sequence(tuple, args) if name == "args" else Mapping(dict(owner.keywords))
        case Closure() if name in ("__name__", "__qualname__") and not owner.is_renamed:
            return Constant(owner.code.co_name if name == "__name__" else owner.code.co_qualname)
        case Closure() if name == "__doc__":
            return Constant(doc_of(owner.code))
        case Method() if name in ("__self__", "__func__") and owner.function is not None:
            return owner.owner if name == "__self__" else owner.function
        case ExceptionValue() if groups.is_group(owner.kind) and name in groups.METHODS:
            return Method(owner, None, name)
        case ExceptionValue():
            found = groups.load(owner, name) if groups.is_group(owner.kind) else None
            return raising.load(owner, name) if found is None else found
        case Generator() if name in generators.METHODS:
            return Method(owner, None, name)
        case Text() if name in texts.METHODS:
            return Method(owner, Constant(getattr(str, name)), name)
        case Integer() if name not in ("real", "imag", "numerator", "denominator"):
            return load_from_constant(frame, Constant(operators.fixed(frame.capture, owner)), name)
        case Dim() | Number() | Integer():
            return load_from_number(owner, name)
        case Sequence() | Mapping() | PythonNumber() if not hasattr(owner.kind if not isinstance(owner, Mapping) else dict, name):
            raise missing(owner.kind if not isinstance(owner, Mapping) else dict, name)
        case _:
            raise Decline(f"attribute {name!r} of {operators.describe(owner)}")


def doc_of(code: types.CodeType) -> Any:
    return types.FunctionType(code, {}, closure=(types.CellType(),) * len(code.co_freevars)).__doc__


BUILT_IN = (int, float, complex, str, bytes, range, type(None))


def missing(kind: type, name: str) -> raising.Raises:
    """What Python raises for an attribute that no object of a built-in type has."""
    return raising.raises(AttributeError, f"'{kind.__name__}' object has no attribute {name!r}")


def load_from_array(frame: Frame, x: Array, name: str) -> Any:
    if name in ("base", "flags") and x.storage.may_be:
        raise Decline(f"ndarray.{name} of an array whose memory data decides")
    if name == "base":
        return base_of(frame, x)
    if name == "flags":
        return ArrayFlags(x)
    if name == "flat" and x.meta.boxed and frame.capture.place is None:
        return ArrayFlat(x)
    kind = np.ndarray if x.meta.boxed else x.dtype.type
    if name in ("device", "to_device") and frame.capture.place is not None:
        raise Decline(f"ndarray.{name} of what may be an array on a device")
    if name in ATTRIBUTES and hasattr(kind, name):
        return operators.lift(ATTRIBUTES[name](frame.capture.builder, x))
    if name in METHODS and hasattr(kind, name):
        return ArrayMethod(x, name)
    if not hasattr(kind, name) and name not in ("__array_interface__", "__array_struct__"):
        raise raising.raises(AttributeError, f"'{kind.__module__}.{kind.__qualname__}' object has no attribute {name!r}")
    if name == "__array_interface__":
        raise Decline(f"attribute {name!r} of an array")
    raise Decline(f"ndarray.{name} {NOT_CAPTURED.get(name, 'is not captured')}")


# Why NumPy runs these: they are about an object, its memory or a file, and not about numbers.
NOT_CAPTURED = {
    **dict.fromkeys(("ctypes", "data"), "gives out the address of memory, which a graph has only while it runs"),
    **dict.fromkeys(("dump", "tofile"), "writes a file, which a graph that fails has not to have done"),
    "dumps": "is a pickle of the object",
    "resize": "gives an object other memory, which everything else that sees it would have to learn of",
    "setflags": "changes what an object allows, in memory that others may see",
    **dict.fromkeys(("getfield", "setfield"), "is about bytes within items: x.view, x.real and x.imag stay in the graph"),
}


def base_of(frame: Frame, x: Array) -> Any:
    """The array that owns the memory of `x`, or None."""
    storage = x.storage
    if is_new_memory(x):
        return Constant(None)
    if any(step.kind in ("windows", "strided", NEW_ZEROS) for step in x.steps):
        raise Decline("ndarray.base of what sliding_window_view, as_strided or .imag of real numbers made")
    if storage.source is None:
        return Array(storage, (), storage.meta) if x.steps else Constant(None)
    if not x.meta.boxed:
        return Constant(None)
    base = frame.capture.examples[storage.source].base
    if x.steps and base is None:
        frame.capture.guard(Is(storage.source.attribute("base"), NONE))
        return next(a for source, a in frame.capture.by_identity.values() if source == storage.source)
    return Lazy(storage.source.attribute("base"), base)


def has_plain_setattr(kind: Any) -> bool:
    return kind.__setattr__ is object.__setattr__


def load_from_named_tuple(frame: Frame, owner: Sequence, name: str) -> Any:
    fields = owner.kind._fields  # type: ignore[attr-defined]
    if name in fields:
        return owner.items[fields.index(name)]
    if name in ("_fields", "__class__"):
        return operators.lift(fields) if name == "_fields" else Constant(owner.kind)
    found: Any = vars(owner.kind).get(name)
    if isinstance(found, classmethod):
        frame.capture.guard_class(owner.kind, name)
        return Method(Constant(owner.kind), Constant(found.__func__), name)
    if isinstance(found, types.FunctionType):
        frame.capture.guard_class(owner.kind, name)
        return Method(owner, Constant(found), name)
    if acts_as(frame.capture, found, property) and found.fget is not None:
        frame.capture.guard_class(owner.kind, name)
        return calls.call(frame, Constant(found.fget), [owner], {})
    raise Decline(f"attribute {name!r} of a named tuple")


def load_from_number(owner: Any, name: str) -> Any:
    if isinstance(owner, Dim | Integer) or isinstance(owner.hint, float):
        if name == "real":
            return owner
        if name == "imag":
            return Constant(0 if isinstance(owner, Dim | Integer) else 0.0)
    if isinstance(owner, Dim | Integer) and name in ("numerator", "denominator"):
        return owner if name == "numerator" else Constant(1)
    kind = int if isinstance(owner, Dim) else type(owner.hint)
    if not hasattr(kind, name):
        raise missing(kind, name)
    raise Decline(f"attribute {name!r} of a traced number")


def load_from_constant(frame: Frame, owner: Constant, name: str) -> Any:
    value = owner.value
    if isinstance(value, types.ModuleType):
        written = frame.capture.globals_written.get((id(vars(value)), name))
        if written is UNASSIGNED:
            raise Decline(f"a global {name!r} that the program has deleted")
        if written is not None:
            return written
        found = getattr(value, name, _missing)
        if found is _missing:
            raise Decline(f"module {value.__name__!r} has no attribute {name!r}")
        if owner.source is None:  # read by library code
            return library_constant(found)
        if is_library(value.__name__):
            frame.capture.guard_name(vars(value), name)
            return (
                Constant(found, owner.source.attribute(name)) if isinstance(found, types.ModuleType) else library_constant(found)
            )
        return frame.capture.attribute(owner.source, name, found)
    if isinstance(value, np.ufunc) and name in ("identity", "nin", "nout", "nargs", "signature"):
        return Constant(getattr(value, name))
    if isinstance(value, np.ufunc) and name in ("types", "ntypes"):
        return operators.lift(getattr(value, name))
    if isinstance(value, np.ufunc) and name in ("reduce", "accumulate", "outer", "at", "reduceat", "resolve_dtypes"):
        return Constant(getattr(value, name))
    if isinstance(value, type) and value.__flags__ & IS_OF_PYTHON and not is_class_of_library(value):
        made = load_from_class(frame, owner, name)
        if made is not None:
            return made
    if isinstance(value, operators.PURE_TYPES):
        found = getattr(value, name, _missing)
        if found is _missing and isinstance(value, BUILT_IN):
            raise missing(type(value), name)
        if found is _missing and isinstance(value, type) and not hasattr(type(type(value)), "__getattr__"):
            frame.capture.guard(HasAttribute(frame.capture.object_of(value), name, False))
            raise raising.raises(AttributeError, f"type object {value.__name__!r} has no attribute {name!r}")
        if found is _missing:
            raise Decline(f"{type(value).__qualname__} has no attribute {name!r}")
        if isinstance(value, type) and not is_class_of_library(value):
            return frame.capture.attribute(owner.source or frame.capture.object_of(value), name, found)
        return operators.lift(found)
    if isinstance(value, (types.FunctionType, type(np.sum), np.ufunc)) and name in ("__name__", "__qualname__", "__module__"):
        return Constant(getattr(value, name))
    raise Decline(f"attribute {name!r} of {type(value).__qualname__}")


def load_from_class(frame: Frame, owner: Constant, name: str) -> Any | None:
    """`owner.name` of a class of the user's where Python code answers, as type.__getattribute__ finds it; else None."""
    capture, kind, meta = frame.capture, owner.value, type(owner.value)
    is_known = meta is type or inlining.is_library_code({"__name__": meta.__module__})
    answer = None if is_known else load_from_metaclass(frame, owner, name)
    if answer is not None:
        return answer
    found = find(kind, name)
    is_asked = found is not MISSING and isinstance(find(type(found), "__get__"), types.FunctionType)
    if not is_asked or acts_as(capture, found, functools.cached_property):
        return None
    return objects.bound(frame, on_class(capture, kind, name), None, kind, name)


def load_from_metaclass(frame: Frame, owner: Constant, name: str) -> Any | None:
    """What a metaclass of the user's has for `owner.name`, before the class or in its place; None for functions and nothing."""
    capture, kind, meta = frame.capture, owner.value, type(owner.value)
    if find(meta, "__getattribute__") is not type.__getattribute__:
        raise Decline(f"attribute {name!r} of a class whose metaclass says what attributes are")
    on_meta, is_on_class = find(meta, name), find(kind, name) is not MISSING
    if on_meta is MISSING and not is_on_class and isinstance(find(meta, "__getattr__"), types.FunctionType):
        on_class(capture, meta, name), on_class(capture, kind, name)
        return calls.call(frame, Constant(on_class(capture, meta, "__getattr__")), [owner, Constant(name)], {})
    is_first = is_data(on_meta) or (on_meta is not MISSING and not is_on_class)
    if not is_first or isinstance(on_meta, (types.FunctionType, types.GetSetDescriptorType)):
        return None
    return objects.bound(frame, on_class(capture, meta, name), owner, meta, name)


def library_constant(found: Any) -> Any:
    return operators.lift(found) if not isinstance(found, np.ndarray) else Constant(found)


def is_library(module: str | None) -> bool:
    return (module or "").split(".")[0] in FIXED_MODULES


def is_class_of_library(cls: type) -> bool:
    """One written in Python may say so and be the user's: `exec` makes classes of the module "builtins"."""
    module = sys.modules.get(cls.__module__) if isinstance(cls.__module__, str) else None
    is_written = bool(cls.__flags__ & IS_OF_PYTHON)
    return is_library(cls.__module__) and (not is_written or getattr(module, cls.__qualname__, None) is cls)


# What functions have, as members of the C structure or, since CPython 3.14, in other ways.
OF_FUNCTIONS = tuple(vars(types.FunctionType)[name] for name in ("__doc__", "__module__") if name in vars(types.FunctionType))


def load_from_object(frame: Frame, owner: Opaque, name: str) -> Any:
    """Python's attribute lookup for an object without a __getattribute__ of its own, run without running user code."""
    x: Any = owner.example
    cls: Any = type(x)
    if cls.__getattribute__ is not object.__getattribute__ or isinstance(x, np.ndarray):
        raise Decline(f"attribute {name!r} of an object of type {cls.__qualname__}")
    found = find(cls, name)
    if acts_as(frame.capture, found, property):
        if found.fget is None:
            raise Decline(f"property {name!r} cannot be read")
        frame.capture.guard_class(cls, name)
        return calls.call(frame, Constant(found.fget), [owner], {})
    if isinstance(found, types.MemberDescriptorType) or any(found is each for each in OF_FUNCTIONS):
        value = getattr(x, name, _missing)
        if value is _missing:
            raise Decline(f"attribute {name!r} has no value")
        return frame.capture.attribute(owner.source, name, value)
    if found is not MISSING and hasattr(type(found), "__set__"):
        raise Decline(f"attribute {name!r} is a descriptor")
    own = getattr(x, "__dict__", {})
    if name in own:
        return frame.capture.attribute(owner.source, name, own[name])
    if isinstance(found, types.FunctionType):
        if hasattr(x, "__dict__"):
            frame.capture.guard(HasKey(owner.source.attribute("__dict__"), Literal(name), False))
        frame.capture.guard_class(cls, name)
        return Method(owner, Constant(found), name)
    if isinstance(found, staticmethod):
        frame.capture.guard_class(cls, name)
        return Constant(found.__func__)
    if found is MISSING or hasattr(type(found), "__get__"):
        raise Decline(f"attribute {name!r} of an object of type {cls.__qualname__}")
    return frame.capture.attribute(owner.source, name, found)


def load_from_enum(frame: Frame, member: enum.Enum, name: str) -> Any:
    """An attribute of a member of an enum. What a member is made of does not change."""
    source, kind = frame.capture.object_of(member), type(member)
    if name in ("name", "value", "_name_", "_value_") and name.strip("_") not in vars(kind):
        value = getattr(member, f"_{name.strip('_')}_")
        is_constant = isinstance(value, operators.PURE_TYPES) and not isinstance(value, tuple)
        return Constant(value) if is_constant else Lazy(source.attribute("_value_"), value)
    if name in vars(member):
        return Lazy(source.attribute(name), vars(member)[name])
    if name == "__class__":
        return Constant(kind)
    found = on_class(frame.capture, kind, name)
    if found is MISSING:
        raise Decline(f"attribute {name!r} of a member of {kind.__qualname__}")
    return objects.bound(frame, found, Constant(member), kind, name)


def store(frame: Frame, owner: Any, name: str, value: Any) -> None:
    """`owner.name = value`"""
    if isinstance(owner, TensorValue):
        return forward.store_tensor_attribute(frame, owner, name, value)
    if isinstance(owner, (Record, Opaque)) and objects.class_of(owner) is not None:
        objects.store(frame, owner, name, value)
        return None
    if isinstance(owner, ExceptionValue):
        raising.store(owner, name, frame.capture.realize(value))
        return None
    if isinstance(owner, Array):
        from_table = SET_ATTRIBUTES.get(name)
        if from_table is not None:
            from_table(frame.capture.builder, owner, operators.lower(frame.capture, value))
            frame.capture.require_no_overlap()
            return None
    if isinstance(owner, Opaque) and is_set_to_itself(frame, owner, name, value):
        return None
    if isinstance(owner, Closure) and (not name.startswith("__") or name == "__wrapped__" and not owner.is_renamed):
        frame.capture.require_no_body("an attribute is set")
        owner.attributes[name] = value
        return None
    raise Decline(f"attribute {name!r} of {operators.describe(owner)} is set")


def delete(frame: Frame, owner: Any, name: str) -> None:
    """`del owner.name`"""
    if not isinstance(owner, (Record, Opaque)) or objects.class_of(owner) is None:
        raise Decline(f"attribute {name!r} of {operators.describe(owner)} is deleted")
    objects.delete(frame, owner, name)


def is_set_to_itself(frame: Frame, owner: Opaque, name: str, value: Any) -> bool:
    """Is this the end of `owner.name += x`, which changed the array or Tensor in place?"""
    kind = type(owner.example)
    if not has_plain_setattr(kind) or hasattr(kind, name) or name not in getattr(owner.example, "__dict__", ()):
        return False
    return frame.capture.realize(load(frame, owner, name)) is frame.capture.realize(value)
