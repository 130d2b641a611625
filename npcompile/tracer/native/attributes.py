"""Attributes of objects whose classes are written in Python.

They are found as object.__getattribute__ finds them. Numbers and arrays are read before the native program begins; those that
it sets are variables of its own, until it leaves for Python, which sets them. Methods and properties are written where they are
called.
"""

from __future__ import annotations

import types
from typing import Any

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tensor_core.guards import HasKey, Is, Keeps, OfType
from npcompile.tensor_core.source import Literal, Name
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import arrays
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.inlining import inline
from npcompile.tracer.native.states import NoProgram
from npcompile.tracer.native.types import Bound, Elements, Known, Outside, Scalar
from npcompile.tracer.python.class_attributes import (
    MISSING,
    acts_as,
    find,
    guard_own,
    is_asked_for,
    is_data,
    is_hidden,
    is_of_python,
    on_class,
)


def meet(b: Blocks, owner: Outside, is_changed: bool = False) -> None:
    """An object whose attributes are read or set: one that is changed is none of the others."""
    met, kind = b.attributes, type(owner.example)
    if not is_of_python(kind):
        raise NoForm(f"an attribute of an object of type {kind.__name__}")
    b.guard(OfType(owner.source, b.object_of(kind)))
    met.owners[owner.source] = owner.example
    if is_changed:
        met.changed.add(owner.source)
    for source, other in met.owners.items():
        is_concerned = is_changed or source in met.changed
        if is_concerned and source != owner.source and type(other) is kind:
            if other is owner.example:
                raise NoForm("an object under two names, one of which is used to change it")
            b.guard(Is(owner.source, source, False))


def own_value(owner: Outside, name: str, found: Any) -> Any:
    """What the object itself has, not its class; MISSING if it has none."""
    if is_asked_for(type(owner.example), found):
        raise NoForm(f"attribute {name!r}, a slot for which __getattr__ may be asked")
    if isinstance(found, types.MemberDescriptorType):
        return getattr(owner.example, name, MISSING)
    return MISSING if is_data(found) else getattr(owner.example, "__dict__", {}).get(name, MISSING)


def load(b: Blocks, owner: Outside, name: str, following: int) -> Any:
    """`owner.name`, for the instruction before `following`. NoForm where it is not there, or made by other code of the user's."""
    meet(b, owner)
    known, kind, source = b.attributes, type(owner.example), owner.source.attribute(name)
    is_set = next((n for n, place in known.places.items() if place == source and n in b.state.locals), None)
    if is_set is not None:
        return b.state.locals[is_set]
    on_class(b, kind, "__getattribute__")
    found = find(kind, name)
    value = own_value(owner, name, found)
    if value is not MISSING:
        if not isinstance(found, types.MemberDescriptorType):
            guard_own(b, kind, owner.source, name)
        if source not in known.names:
            known.names[source] = Name(f"a{len(known.names)}")
            b.guard(Keeps(source, known.names[source].name))
        return b.realize(Outside(known.names[source], value))
    if isinstance(found, (types.MemberDescriptorType, classmethod)):
        raise NoForm(f"attribute {name!r}")
    on_class(b, kind, name)
    if acts_as(b, found, property) and isinstance(found.fget, types.FunctionType):
        return inline(b, Known(found.fget, b.object_of(found.fget)), [owner], {}, following)
    if hasattr(owner.example, "__dict__"):
        b.guard(HasKey(owner.source.attribute("__dict__"), Literal(name), False))
    if isinstance(found, types.FunctionType):
        return Bound(owner, Known(found, b.object_of(found)))
    if acts_as(b, found, staticmethod):
        return b.realize(Outside(b.object_of(found.__func__), found.__func__))
    if found is MISSING or hasattr(type(found), "__get__"):
        raise NoForm(f"attribute {name!r} of an object of type {kind.__name__}")
    return b.realize(Outside(b.object_of(found), found))


def store_attr(b: Blocks, i: Instruction, fail: Fail) -> None:
    """A number or an array, into an attribute that the object has."""
    owner, name = b.pop(), str(i.argval)
    value = arrays.settled(b.code, b.pop(), fail)
    if b.pointwise is not None:
        raise NoForm("a loop over whole arrays that sets attributes")
    if b.inside is not None or b.apart is not None:
        raise NoProgram("an attribute that is set")
    if not isinstance(owner, Outside) or not isinstance(value, Scalar | Elements | Part):
        raise NoForm("an attribute that is set to something else than a number or an array")
    meet(b, owner, is_changed=True)
    kind = type(owner.example)
    found = find(kind, name)
    if (
        is_hidden(kind, name)
        or own_value(owner, name, found) is MISSING
        or on_class(b, kind, "__setattr__") is not object.__setattr__
    ):
        raise NoForm(f"attribute {name!r} is set")
    load(b, owner, name, i.index + 1)  # the object has it in all calls
    places, source = b.attributes.places, owner.source.attribute(name)
    own = next((n for n, place in places.items() if place == source), f".a{len(places)}")
    places[own] = source
    b.state.locals[own] = value
