"""Trees of values of a program that is captured: their leaves, and what was around them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from npcompile.tensor_core.decline import Decline, WrongValue
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import attributes, calls, iteration
from npcompile.tracer.python.introspection import type_of
from npcompile.tracer.values import Constant, Mapping, Opaque, Record, Sequence, describe
from npcompile.trees import NONE, REGISTERED, TreeDef, is_static, kind_of


@dataclass(slots=True)
class Tree:
    """A value taken apart: its leaves, and its form, which holds None where a leaf was."""

    form: object
    leaves: list[Any]

    @classmethod
    def of(cls, frame: Frame, value: Any) -> Tree:
        leaves: list[Any] = []
        return cls(take_apart(frame, value, leaves), leaves)

    def build(self, leaves: Iterator[Any] | list[Any]) -> Any:
        """The same form with other leaves."""
        return put_together(self.form, iter(leaves))

    def is_like(self, other: Tree) -> bool:
        return definition(self.form) == definition(other.form)

    def axes(self, given: Any, name: str) -> list[int | None]:
        """The axis of each leaf, where `given` has one for it or for what holds it."""
        try:
            return definition(self.form).spread(given, name)
        except ValueError as error:
            raise WrongValue(str(error), "It is like the tree that it speaks of, or ends earlier.") from None


LEAF = object()


@dataclass(slots=True, eq=False)
class Static:
    """A part of a dataclass that is no part of the tree."""

    value: object


@dataclass(slots=True, eq=False)
class Registered:
    """The form of an object of a class whose parts the user's functions give."""

    frame: Frame
    kind: type
    static: object
    items: list[Any]

    def build(self, parts: list[Any]) -> Any:
        unflatten = Constant(REGISTERED[self.kind].unflatten)
        return calls.call(self.frame, unflatten, [self.static, Sequence(tuple, parts)], {})


def take_apart(frame: Frame, value: Any, leaves: list[Any]) -> Any:
    value = frame.capture.realize(value)
    match value:
        case Sequence():
            return Sequence(value.kind, [take_apart(frame, v, leaves) for v in value.items])
        case Mapping():
            return Mapping({k: take_apart(frame, v, leaves) for k, v in value.items.items()})
        case Record() | Opaque() if dataclasses.is_dataclass(kind := type_of(value)):
            return Record(kind, {f.name: take_apart_field(frame, value, f, leaves) for f in dataclasses.fields(kind)})
        case Record() | Opaque() if functions := REGISTERED.get(type_of(value)):
            parts, static = iteration.iterate(frame.capture, calls.call(frame, Constant(functions.flatten), [value], {}))
            items = iteration.iterate(frame.capture, frame.capture.realize(parts))
            return Registered(frame, type_of(value), static, [take_apart(frame, part, leaves) for part in items])
        case Opaque() if kind_of(value.example) is not None:
            raise Decline(f"a tree that has {describe(value)}")
        case Constant(None):
            return value
    leaves.append(value)
    return LEAF


def take_apart_field(frame: Frame, value: Any, field: dataclasses.Field[Any], leaves: list[Any]) -> Any:
    part = attributes.load(frame, value, field.name)
    return Static(part) if is_static(field) else take_apart(frame, part, leaves)


def put_together(form: Any, leaves: Iterator[Any]) -> Any:
    match form:
        case Sequence():
            return Sequence(form.kind, [put_together(f, leaves) for f in form.items])
        case Mapping():
            return Mapping({k: put_together(f, leaves) for k, f in form.items.items()})
        case Record():
            return Record(form.kind, {k: put_together(f, leaves) for k, f in form.items.items()})
        case Registered():
            return form.build([put_together(f, leaves) for f in form.items])
        case Static(value):
            return value
    return next(leaves) if form is LEAF else form


def definition(form: Any) -> TreeDef:
    """The same form as that of a tree of Python's own values."""
    match form:
        case Sequence():
            keys = getattr(form.kind, "_fields", range(len(form.items)))
            return TreeDef(form.kind, children=tuple((k, definition(f)) for k, f in zip(keys, form.items)))
        case Mapping():
            return TreeDef(dict, children=tuple((k, definition(f)) for k, f in form.items.items()))
        case Record():
            fields = tuple((k, definition(f)) for k, f in form.items.items() if not isinstance(f, Static))
            return TreeDef(form.kind, children=fields)
        case Registered():
            return TreeDef(form.kind, children=tuple((k, definition(f)) for k, f in enumerate(form.items)))
    return TreeDef(None) if form is LEAF else NONE
