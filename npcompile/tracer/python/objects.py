"""Objects of classes that are written in Python: their attributes and their making."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import HasAttribute, HasKey
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import Literal, Source
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, effects, forward, iteration, operators
from npcompile.tracer.python.calls import Arguments, Keywords, captures
from npcompile.tracer.python.class_attributes import (
    IS_OF_PYTHON,
    MISSING,
    acts_as,
    find,
    guard_own,
    is_asked_for,
    is_data,
    is_hidden,
    is_of_python,
    on_class,
    sets,
)
from npcompile.tracer.python.operators import lift
from npcompile.tracer.raising import Raises, raises
from npcompile.tracer.values import UNASSIGNED, Constant, Lazy, Method, Opaque, Record, Sequence, Super, is_named_tuple

Instance = Record | Opaque


# --- classes


def class_of(value: Any) -> type | None:
    """The class of an object of a class written in Python, else None."""
    match value:
        case Record():
            return value.kind
        case Opaque():
            kind = type(value.example)
            return kind if is_of_python(kind) else None
        case Constant(enum.Enum()):
            return type(value.value)
    return None


def function_on_class(capture: Capture, value: Any, name: str) -> Any:
    """The Python function that a special method of an object is, MISSING if its class has none."""
    kind = class_of(value)
    if kind is None:
        return MISSING
    found = on_class(capture, kind, name)
    if found is MISSING or isinstance(found, types.FunctionType):
        return found
    if found is None or isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinMethodType)):
        return MISSING if getattr(found, "__objclass__", None) is object or found is None else found
    return found


# --- attributes


def load(frame: Frame, owner: Instance, name: str) -> Any:
    """`owner.name`, as object.__getattribute__ and then __getattr__ find it."""
    kind = class_of(owner)
    assert kind is not None
    is_asked = find(kind, "__getattr__") is not MISSING
    found = unless_missing(frame, lambda: lookup(frame, owner, name)) if is_asked else lookup(frame, owner, name)
    if found is not MISSING:
        return found
    fallback = on_class(frame.capture, kind, "__getattr__")
    if isinstance(fallback, types.FunctionType):
        return calls.call(frame, Constant(fallback), [owner, Constant(name)], {})
    raise raises(AttributeError, f"{kind.__name__!r} object has no attribute {name!r}")


def unless_missing(frame: Frame, look: Callable[[], Any]) -> Any:
    """What is found; MISSING if code of the user's that looks for it raises AttributeError."""
    before, frame.catches = frame.catches, True
    try:
        return look()
    except Raises as error:
        if not issubclass(error.value.kind, AttributeError):
            raise
        return MISSING
    finally:
        frame.catches, frame.capture.frame = before, frame


def lookup(frame: Frame, owner: Instance, name: str) -> Any:
    """What object.__getattribute__ finds, MISSING where it raises AttributeError."""
    capture = frame.capture
    kind = class_of(owner)
    assert kind is not None
    on_class(capture, kind, "__getattribute__")
    found = find(kind, name)
    if name == "__class__" and found is find(object, name):
        return Constant(kind)
    if name == "__dict__":
        raise Decline(f"attribute {name!r} of an object")
    is_slot = isinstance(found, types.MemberDescriptorType)
    if is_slot or not is_data(found):
        own = own_attribute(capture, owner, name)
        if is_slot or own is not MISSING:
            return own
    found = on_class(capture, kind, name)
    if found is MISSING:
        return MISSING
    if acts_as(capture, found, functools.cached_property) and found.attrname == name:
        value = own_attribute(capture, owner, name)
        if value is MISSING:
            value = calls.call(frame, Constant(found.func), [owner], {})
            store_own(frame, owner, name, value)
        return value
    return bound(frame, found, owner, kind, name)


def own_attribute(capture: Capture, owner: Instance, name: str) -> Any:
    """An attribute of the object itself, MISSING if it has none. What is read, and that it is not there, is guarded."""
    if isinstance(owner, Record):
        return owner.items.get(name, MISSING)
    if name in owner.written:
        value = owner.written[name]
        return MISSING if value is UNASSIGNED else value
    held = getattr(owner.example, "__dict__", {})
    if not effects.is_name(name):
        raise Decline(f"an attribute that is called {name!r}")
    slot = find(type(owner.example), name)
    if name in held and not isinstance(slot, types.MemberDescriptorType):
        guard_own(capture, type(owner.example), owner.source, name)
        return capture.attribute(owner.source, name, held[name])
    if isinstance(slot, types.MemberDescriptorType):
        if is_asked_for(type(owner.example), slot):
            raise Decline(f"attribute {name!r}, a slot for which __getattr__ may be asked")
        value = getattr(owner.example, name, MISSING)
        if value is not MISSING:
            return capture.attribute(owner.source, name, value)
        capture.guard(HasAttribute(owner.source, name, False))
    elif hasattr(owner.example, "__dict__"):
        capture.guard(HasKey(owner.source.attribute("__dict__"), Literal(name), False))
    return MISSING


def bound(frame: Frame, found: Any, owner: Any, kind: type, name: str, after: type | None = None) -> Any:
    """What a class holds under `name`, as an attribute of its object `owner`, or of the class where that is None.

    `after`: super() found it after this class.
    """
    capture = frame.capture
    if isinstance(found, types.FunctionType):
        return Constant(found) if owner is None else Method(owner, Constant(found), name)
    if acts_as(capture, found, staticmethod):
        return lift(found.__func__)
    if acts_as(capture, found, classmethod):
        return Method(Constant(kind), lift(found.__func__), name)
    if isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)) and owner is not None:
        return Method(owner, Constant(found), name)
    getter = find(type(found), "__get__")
    if getter is MISSING and isinstance(found, (types.BuiltinFunctionType, types.BuiltinMethodType, type)):
        return Constant(found)
    if getter is MISSING:
        return Lazy(held_source(capture, kind, name, after), found)
    if owner is not None and acts_as(capture, found, property):
        if found.fget is None:
            raise Decline(f"property {name!r} cannot be read")
        return calls.call(frame, Constant(found.fget), [owner], {})
    if owner is not None and isinstance(found, types.DynamicClassAttribute) and found.fget is not None:
        return calls.call(frame, Constant(found.fget), [owner], {})
    if not isinstance(getter, types.FunctionType):
        raise Decline(f"attribute {name!r} is a {type(found).__qualname__}")
    on_class(capture, type(found), "__get__")
    descriptor = capture.read(capture.object_of(found), found)
    return calls.call(frame, Constant(getter), [descriptor, owner or Constant(None), Constant(kind)], {})


def held_source(capture: Capture, kind: type, name: str, after: type | None) -> Source:
    """An expression for what a class, or one of its bases, holds: what it gives when asked, but for metaclasses and super()."""
    if after is None and find(type(kind), name) is MISSING:
        return capture.object_of(kind).attribute(name)
    order = kind.__mro__[0 if after is None else kind.__mro__.index(after) + 1 :]
    return capture.object_of(next(each for each in order if name in vars(each))).attribute("__dict__").item(name)


def store(frame: Frame, owner: Instance, name: str, value: Any) -> None:
    """`owner.name = value`"""
    kind = class_of(owner)
    assert kind is not None
    setter = on_class(frame.capture, kind, "__setattr__")
    if isinstance(setter, types.FunctionType):
        calls.call(frame, Constant(setter), [owner, Constant(name), value], {})
    elif setter is object.__setattr__:
        store_plainly(frame, owner, name, value)
    else:
        raise Decline(f"an attribute of {kind.__qualname__} is set")


def store_plainly(frame: Frame, owner: Instance, name: str, value: Any) -> None:
    """As object.__setattr__ does."""
    kind = class_of(owner)
    assert kind is not None
    found = on_class(frame.capture, kind, name)
    if acts_as(frame.capture, found, property, "__set__"):
        if found.fset is None:
            raise Decline(f"property {name!r} cannot be set")
        calls.call(frame, Constant(found.fset), [owner, value], {})
        return
    if sets(found) and not isinstance(found, types.MemberDescriptorType):
        setter = on_class(frame.capture, type(found), "__set__")
        if not isinstance(setter, types.FunctionType):
            raise Decline(f"attribute {name!r} is a {type(found).__qualname__}")
        descriptor = frame.capture.read(frame.capture.object_of(found), found)
        calls.call(frame, Constant(setter), [descriptor, owner, value], {})
        return
    store_own(frame, owner, name, value)


def store_own(frame: Frame, owner: Instance, name: str, value: Any) -> None:
    """Put an attribute into the object itself."""
    kind = class_of(owner)
    assert kind is not None
    slot = on_class(frame.capture, kind, name)
    if not isinstance(slot, types.MemberDescriptorType) and not has_dict(kind):
        raise Decline(f"an object of type {kind.__qualname__} has no attribute {name!r}")
    if isinstance(owner, Record):
        frame.capture.require_no_body("an attribute is set")
        owner.items[name] = value
    elif not is_same_value(frame.capture, own_attribute(frame.capture, owner, name), value):
        effects.set_attribute(frame.capture, owner, name, value, is_hidden=is_hidden(kind, name))


def is_same_value(capture: Capture, old: Any, new: Any) -> bool:
    """Is it the end of `owner.name += x`, which changed the array, Tensor or list in place?"""
    if old is MISSING:
        return False
    old = capture.realize(old)
    return not isinstance(old, (Constant, Dim, Number, Integer)) and old is capture.realize(new)


def has_dict(kind: type) -> bool:
    return kind.__dictoffset__ != 0


def delete(frame: Frame, owner: Instance, name: str) -> None:
    """`del owner.name`"""
    kind = class_of(owner)
    assert kind is not None
    on_class(frame.capture, kind, name)
    if on_class(frame.capture, kind, "__delattr__") is not object.__delattr__ or is_hidden(kind, name):
        raise Decline(f"attribute {name!r} of an object of type {kind.__qualname__} is deleted")
    if own_attribute(frame.capture, owner, name) is MISSING:
        raise Decline(f"an object of type {kind.__qualname__} has no attribute {name!r}")
    if isinstance(owner, Record):
        frame.capture.require_no_body("an attribute is deleted")
        del owner.items[name]
    else:
        effects.delete_attribute(frame.capture, owner, name)


def load_from_super(frame: Frame, owner: Super, name: str) -> Any:
    """`super(after, x).name`"""
    of_class = owner.owner.value if isinstance(owner.owner, Constant) and isinstance(owner.owner.value, type) else None
    kind = of_class or class_of(owner.owner)
    if kind is None or owner.after not in kind.__mro__:
        raise Decline("super() of an object that is not known")
    found = on_class(frame.capture, kind, name, owner.after)
    if found is MISSING or name == "__class__":
        raise Decline(f"super() has no attribute {name!r}")
    return bound(frame, found, None if of_class else owner.owner, kind, name, owner.after)


def super_of(frame: Frame, positional: Arguments) -> Super:
    """super() and super(after, owner), called in `frame`."""
    if not positional:
        cell = frame.cells.get("__class__")
        code = frame.program.code
        if cell is None or cell.content is None or not code.co_argcount:
            raise Decline("super() outside of a method")
        name = code.co_varnames[0]
        first = frame.cells[name].content if name in frame.cells else frame.load(name)
        positional = [cell.content, first]
    if len(positional) != 2:
        raise Decline("super() with one argument")
    after, owner = (frame.capture.realize(p) for p in positional)
    if not isinstance(after, Constant) or not isinstance(after.value, type):
        raise Decline("super() of a class that is not known")
    return Super(after.value, owner)


# --- making


@forward.is_made_plainly.defined
def is_made_plainly(kind: Any) -> bool:
    """Does a call of the class run nothing but its own `__new__` and `__init__`, on an object without C parts?"""
    return (
        isinstance(kind, type)
        and is_of_python(kind)
        and type(kind).__call__ is type.__call__
        and all(each.__flags__ & IS_OF_PYTHON for each in kind.__mro__[:-1])
        and kind.__basicsize__ >= object.__basicsize__
        and not hasattr(kind, "__del__")
        and not getattr(kind, "__abstractmethods__", None)
        and not issubclass(kind, enum.Enum)
        and kind.__mro__[-1] is object
    )


@forward.make.defined
def make(frame: Frame, kind: type, positional: Arguments, keywords: Keywords) -> Any:
    """`kind(*positional, **keywords)` of a class that is made plainly."""
    capture = frame.capture
    new, init = on_class(capture, kind, "__new__"), on_class(capture, kind, "__init__")
    if isinstance(new, staticmethod):
        new = new.__func__
    if isinstance(new, types.FunctionType):
        made = calls.call(frame, Constant(new), [Constant(kind), *positional], keywords)
    elif new is object.__new__ and (not (positional or keywords) or init is not object.__init__):
        made = Record(kind, {})
    else:
        raise Decline(f"{kind.__qualname__}() takes no arguments")
    made = capture.realize(made)
    made_class = class_of(made)
    if made_class is None or not issubclass(made_class, kind):
        return made
    init = on_class(capture, made_class, "__init__")
    if isinstance(init, types.FunctionType):
        result = calls.call(frame, Constant(init), [made, *positional], keywords)
        if not operators.is_none(capture.realize(result)):
            raise Decline("__init__() should return None")
    elif init is not object.__init__ or ((positional or keywords) and new is object.__new__):
        raise Decline(f"{kind.__qualname__}() takes no arguments")
    return made


@captures(object.__new__)
def call_new(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Constant(kind)] if is_made_plainly(kind) and not keywords:
            return Record(kind, {})
    raise Decline("object.__new__ of a class that is not plain")


@captures(tuple.__new__)
def call_tuple_new(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Constant(kind), *items] if len(items) <= 1 and (kind is tuple or is_named_tuple(kind)) and not keywords:
            return Sequence(kind, iteration.iterate(frame.capture, items[0]) if items else [])
    raise Decline("tuple.__new__ of a class that is not plain")


@captures(object.__init__)
def call_init(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1 or keywords:
        raise Decline("object.__init__() takes no arguments")
    return Constant(None)


@captures(object.__setattr__)
def call_object_setattr(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    owner, name, value = positional
    if class_of(owner) is None:
        raise Decline("object.__setattr__ of an object that is not plain")
    store_plainly(frame, owner, operators.plain(frame.capture, name), value)
    return Constant(None)


@captures(object.__getattribute__)
def call_object_getattribute(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    owner, name = positional
    found = lookup(frame, owner, operators.plain(frame.capture, name)) if class_of(owner) is not None else MISSING
    if found is MISSING:
        raise Decline("object.__getattribute__ of what is not known")
    return found


@captures(super)
def call_super(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return super_of(frame, positional)
