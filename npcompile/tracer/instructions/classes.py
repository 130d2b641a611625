"""Sets, patterns, globals, attributes that are deleted, and super()."""

from __future__ import annotations

import builtins
from typing import Any

from npcompile.tensor_core.guards import HasKey
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Literal, Source
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame
from npcompile.tracer.instructions.containers import require_begun_in_body
from npcompile.tracer.instructions.variables import push_callable
from npcompile.tracer.python import attributes, containers, effects, objects, operators
from npcompile.tracer.python.introspection import call_isinstance, type_of
from npcompile.tracer.python.python_builtins import call_len
from npcompile.tracer.values import UNASSIGNED, Constant, Mapping, Sequence, SetValue

# --- sets


def build_set(frame: Frame, i: Instruction) -> None:
    frame.push(SetValue({operators.constant_key(frame.capture, v) for v in frame.pop_many(i.arg)}))


def set_add(frame: Frame, i: Instruction) -> None:
    value = operators.constant_key(frame.capture, frame.pop())
    set_under_construction(frame, i.arg).items.add(value)  # type: ignore[union-attr]


def set_update(frame: Frame, i: Instruction) -> None:
    items = containers.members(frame.capture, frame.pop())
    set_under_construction(frame, i.arg).items.update(items)  # type: ignore[union-attr]


def set_under_construction(frame: Frame, position: int) -> SetValue:
    container = frame.capture.realize(frame.stack[-position])
    require_begun_in_body(frame, position)
    if not isinstance(container, SetValue) or container.source is not None:
        raise Decline("a set that was begun before the graph")
    return container


# --- globals


def globals_source(frame: Frame) -> Source:
    if frame.globals_source is None:
        raise Decline("a global of a library is set")
    return frame.globals_source


def store_global(frame: Frame, i: Instruction) -> None:
    effects.set_global(frame.capture, frame.globals, globals_source(frame), str(i.argval), frame.pop_raw())


def delete_global(frame: Frame, i: Instruction) -> None:
    name, written = str(i.argval), frame.capture.globals_written
    source = globals_source(frame)
    is_there = written.get((id(frame.globals), name), frame.globals.get(name, UNASSIGNED)) is not UNASSIGNED
    if not is_there:
        raise Decline(f"name {name!r} is not defined")
    if (id(frame.globals), name) not in written:
        frame.capture.guard(HasKey(source, Literal(name)))
    effects.delete_global(frame.capture, frame.globals, source, name)


# --- attributes


def load_build_class(frame: Frame, i: Instruction) -> None:
    if frame.globals_source is not None:
        frame.capture.guard_name(vars(builtins), "__build_class__")
    frame.push(Constant(builtins.__build_class__))


def delete_attr(frame: Frame, i: Instruction) -> None:
    attributes.delete(frame, frame.pop(), str(i.argval))


def load_super_attr(frame: Frame, i: Instruction) -> None:
    owner, after, function = frame.pop(), frame.pop(), frame.pop()
    if not isinstance(function, Constant) or function.value is not super:
        raise Decline("super is another function")
    push_callable(frame, i, attributes.load(frame, objects.super_of(frame, [after, owner]), str(i.argval)))


# --- patterns: https://docs.python.org/3/reference/compound_stmts.html#the-match-statement


def get_len(frame: Frame, i: Instruction) -> None:
    frame.push(call_len(frame, [frame.capture.realize(frame.stack[-1])], {}))


SEQUENCE, MAPPING = 1 << 5, 1 << 6  # Py_TPFLAGS_SEQUENCE and _MAPPING of the classes that patterns take for these


def matches(frame: Frame, flag: int) -> Constant:
    return Constant(bool(type_of(frame.capture.realize(frame.stack[-1])).__flags__ & flag))


def match_sequence(frame: Frame, i: Instruction) -> None:
    frame.push(matches(frame, SEQUENCE))


def match_mapping(frame: Frame, i: Instruction) -> None:
    frame.push(matches(frame, MAPPING))


def match_keys(frame: Frame, i: Instruction) -> None:
    keys, subject = (frame.capture.realize(v) for v in (frame.stack[-1], frame.stack[-2]))
    if not isinstance(subject, Mapping):
        raise Decline("a pattern of a mapping that is not a dict")
    names = [operators.constant_key(frame.capture, k) for k in keys.items]
    is_there = all(name in subject.items for name in names)
    frame.push(Sequence(tuple, [subject.items[name] for name in names]) if is_there else Constant(None))


# Of these classes a pattern's one positional part is the object itself.
MATCH_THEMSELVES = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def match_class(frame: Frame, i: Instruction) -> None:
    names, kind, subject = frame.pop(), frame.pop(), frame.pop()
    if not isinstance(kind, Constant) or not isinstance(kind.value, type):
        raise Decline("a pattern of a class that is not known")
    if not call_isinstance(frame, [subject, kind], {}).value:
        frame.push(Constant(None))
        return
    found: list[Any] = []
    if i.arg and issubclass(kind.value, MATCH_THEMSELVES):
        if i.arg > 1:
            raise Decline(f"{kind.value.__qualname__}() accepts 1 positional sub-pattern")
        found.append(subject)
    elif i.arg:
        positional = getattr(kind.value, "__match_args__", ())
        if len(positional) < i.arg:
            raise Decline(f"{kind.value.__qualname__}() accepts {len(positional)} positional sub-patterns")
        frame.capture.guard_class(kind.value, "__match_args__")
        found += [attributes.load(frame, subject, name) for name in positional[: i.arg]]
    found += [attributes.load(frame, subject, operators.plain(frame.capture, name)) for name in names.items]
    frame.push(Sequence(tuple, found))
