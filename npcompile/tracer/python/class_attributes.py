"""What classes give for a name, found as Python finds it, and guarded."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

from npcompile.tensor_core.guards import HasAttribute, HasKey, Is
from npcompile.tensor_core.source import Literal, Source

MISSING = object()
IS_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE of a class: a `class` statement made it


def is_of_python(kind: type) -> bool:
    """Do objects of this class behave as its Python code says, down to `object`?"""
    return (
        bool(kind.__flags__ & IS_OF_PYTHON)
        and kind.__module__.partition(".")[0] not in ("numpy", "npcompile", "cupy")
        and find(kind, "__getattribute__") is object.__getattribute__
        and not issubclass(kind, (type, np.ndarray))
    )


def find(kind: type, name: str, after: type | None = None) -> Any:
    """What the class, or the next one after `after`, has under `name`; MISSING if none has. Runs no code of the user's."""
    order = kind.__mro__ if after is None else kind.__mro__[kind.__mro__.index(after) + 1 :]
    return next((vars(each)[name] for each in order if name in vars(each)), MISSING)


def is_data(found: Any) -> bool:
    """Is what a class holds asked before an object's own attributes, as object.__getattribute__ has it?

    A descriptor that sets but does not get is not: https://docs.python.org/3/howto/descriptor.html#invocation-from-an-instance
    """
    return found is not MISSING and find(type(found), "__get__") is not MISSING and sets(found)


def sets(found: Any) -> bool:
    """Does what a class holds decide what happens when the attribute is set or deleted?"""
    return found is not MISSING and any(find(type(found), name) is not MISSING for name in ("__set__", "__delete__"))


def is_hidden(kind: type, name: str) -> bool:
    """Would setting the attribute ask a descriptor of the class, other than a slot?"""
    found = find(kind, name)
    return sets(found) and not isinstance(found, types.MemberDescriptorType)


def acts_as(capture: Any, found: Any, kind: type, method: str = "__get__") -> bool:
    """Is `found` a descriptor of this kind, whose class does not answer in another way? Guarded for a class of the user's."""
    if not isinstance(found, kind) or find(type(found), method) is not find(kind, method):
        return False
    if type(found) is not kind:
        on_class(capture, type(found), method)
    return True


def is_asked_for(kind: type, found: Any) -> bool:
    """Would __getattr__ be asked for a slot, if it were empty?"""
    return isinstance(found, types.MemberDescriptorType) and find(kind, "__getattr__") is not MISSING


def guard_own(capture: Any, kind: type, source: Source, name: str) -> None:
    """An object has an attribute in its __dict__: guarded where code of the user's would answer for one that has not."""
    if may_be_computed(kind, name):
        capture.guard(HasKey(source.attribute("__dict__"), Literal(name)))


def may_be_computed(kind: type, name: str) -> bool:
    """May code of the user's answer for an object that has no attribute of its own?"""
    found = find(kind, name)
    is_computed = found is not MISSING and not isinstance(found, types.FunctionType) and hasattr(type(found), "__get__")
    return is_computed or find(kind, "__getattr__") is not MISSING


def on_class(capture: Any, kind: type, name: str, after: type | None = None) -> Any:
    """The same, guarded. `capture` notes the guards: a native program does too."""
    found = find(kind, name, after)
    known = capture.object_of(kind)
    on_meta = find(type(kind), name)
    is_plain = after is None and on_meta is MISSING  # else it would be asked, or super()
    is_first = is_plain or after is None and type(kind) is type and not is_data(on_meta)
    if is_first and type(found) in FOUND_AS_THEY_ARE:
        capture.guard(Is(known.attribute(name), capture.object_of(found)))
    elif is_plain and type(found) is classmethod:
        capture.guard_class(kind, name)
    elif is_plain and found is MISSING and find(type(kind), "__getattr__") is MISSING:
        capture.guard(HasAttribute(known, name, False))
    else:
        capture.guard(Is(known.attribute("__mro__"), capture.object_of(kind.__mro__)))
        for each in kind.__mro__ if after is None else kind.__mro__[kind.__mro__.index(after) + 1 :]:
            if each.__flags__ & IS_OF_PYTHON:
                space = capture.object_of(each).attribute("__dict__")
                is_here = name in vars(each)
                is_found = Is(space.item(name), capture.object_of(found)) if is_here else HasKey(space, Literal(name), False)
                capture.guard(is_found)
            if name in vars(each):
                break
    return found


# What a class gives when it is asked by name: itself.
FOUND_AS_THEY_ARE = (
    *(types.FunctionType, property, types.MemberDescriptorType, types.WrapperDescriptorType, functools.cached_property),
)
