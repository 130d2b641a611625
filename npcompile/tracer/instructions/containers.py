"""Containers and strings: built, filled, and taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Formula, Literal
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, containers, iteration, operators, texts
from npcompile.tracer.values import Constant, Lazy, Mapping, Sequence, SliceValue, Text


def build_sequence(frame: Frame, i: Instruction) -> None:
    kind = i.traits.builds
    assert kind is not None, i
    frame.push(Sequence(kind, frame.pop_many(i.arg)))


def build_map(frame: Frame, i: Instruction) -> None:
    flat = frame.pop_many(2 * i.arg)
    frame.push(Mapping({operators.constant_key(frame.capture, k): v for k, v in zip(flat[::2], flat[1::2])}))


def build_const_key_map(frame: Frame, i: Instruction) -> None:
    keys = [operators.constant_key(frame.capture, k) for k in frame.pop().items]
    frame.push(Mapping(dict(zip(keys, frame.pop_many(i.arg)))))


def build_slice(frame: Frame, i: Instruction) -> None:
    parts = frame.pop_many(i.arg)
    frame.push(SliceValue(*parts, *[Constant(None)] * (3 - i.arg)))


def under_construction(frame: Frame, position: int) -> Any:
    """The list or dict that is being built, `position` deep in the stack."""
    container = frame.capture.realize(frame.stack[-position])
    require_begun_in_body(frame, position)
    if not isinstance(container, (Sequence, Mapping)) or container.source is not None:
        raise Decline("a container that was begun before the graph")
    return container


def require_begun_in_body(frame: Frame, position: int) -> None:
    """Not in a body, captured once for all iterations, for a container that the iterations fill together."""
    if frame.loop_header is not None and frame.parent is not None and len(frame.stack) - position < len(frame.parent.stack):
        raise Decline("a comprehension of many items")


def list_append(frame: Frame, i: Instruction) -> None:
    value = frame.pop_raw()
    begun = frame.capture.realize(frame.stack[-i.arg])
    if isinstance(begun, Sequence) and begun.source is not None:  # begun before a break
        containers.list_append(frame.capture, begun, value)
    else:
        under_construction(frame, i.arg).items.append(value)


def list_extend(frame: Frame, i: Instruction) -> None:
    items = iteration.iterate(frame.capture, frame.pop())
    under_construction(frame, i.arg).items.extend(items)


def map_add(frame: Frame, i: Instruction) -> None:
    value, key = frame.pop_raw(), frame.pop()
    begun = frame.capture.realize(frame.stack[-i.arg])
    if isinstance(begun, Mapping) and begun.source is not None:  # begun before a break
        containers.set_item(frame.capture, begun, key, value)
        return
    under_construction(frame, i.arg).items[operators.constant_key(frame.capture, key)] = value


def dict_update(frame: Frame, i: Instruction) -> None:
    merge(frame, i, is_of_keywords=False)


def dict_merge(frame: Frame, i: Instruction) -> None:
    merge(frame, i, is_of_keywords=True)


def merge(frame: Frame, i: Instruction, is_of_keywords: bool) -> None:
    source = frame.pop()
    if not isinstance(source, Mapping):
        raise Decline("** of an object that is not a plain dict")
    target = under_construction(frame, i.arg)
    if is_of_keywords and target.items.keys() & source.items.keys():
        raise Decline("multiple values for a keyword argument")
    target.items.update(source.items)


def unpack_sequence(frame: Frame, i: Instruction) -> None:
    items = iteration.iterate(frame.capture, frame.pop(), at_most=i.arg + 1)
    if len(items) != i.arg:
        raise Decline("wrong number of values to unpack")
    frame.stack += reversed(items)


def unpack_ex(frame: Frame, i: Instruction) -> None:
    before, after = i.arg & 0xFF, i.arg >> 8
    items = iteration.iterate(frame.capture, frame.pop())
    if len(items) < before + after:
        raise Decline("not enough values to unpack")
    middle = Sequence(list, items[before : len(items) - after])
    frame.stack += reversed([*items[:before], middle, *items[len(items) - after :]])


CONVERSIONS: dict[int, Callable[[Any], str]] = {1: str, 2: repr, 3: ascii}


def formatted(frame: Frame, convert: int, spec: str) -> Any:
    """format(convert(value), spec) of the top value. Numbers and strings from outside are not fixed for that."""
    value, function = frame.pop_raw(), CONVERSIONS.get(convert)
    made = texts.formatted(frame.capture, function, spec, value)
    if made is not None:
        return made
    if isinstance(value, Lazy) and type(value.example) not in (tuple, list, int, bool, type(None)):
        raise Decline("the text of a value that is not constant")
    known = calls.plain(frame.capture, value)
    return calls.evaluate(lambda: format(function(known) if function else known, spec))


def spec_of(frame: Frame, value: Any) -> str:
    spec = calls.plain(frame.capture, value)
    if not isinstance(spec, str):
        raise Decline("a format that is not a string")
    return spec


def format_value(frame: Frame, i: Instruction) -> None:
    spec = spec_of(frame, frame.pop()) if i.arg & 4 else ""
    frame.push(formatted(frame, i.arg & 3, spec))


def convert_value(frame: Frame, i: Instruction) -> None:
    frame.push(formatted(frame, i.arg, ""))


def build_string(frame: Frame, i: Instruction) -> None:
    parts = frame.pop_many(i.arg)
    if any(isinstance(p, Lazy) for p in parts):
        raise Decline("a string made of parts that are not constant")
    if any(isinstance(p, Text) for p in parts):
        joined = "".join(p.hint if isinstance(p, Text) else calls.plain(frame.capture, p) for p in parts)
        sources = [p.source if isinstance(p, Text) else Literal(calls.plain(frame.capture, p)) for p in parts]
        frame.push(Text(Formula(f"''.join(({', '.join(['{}'] * len(sources))}))", *sources), joined))
        return
    parts = [calls.plain(frame.capture, p) for p in parts]
    frame.push(Constant("".join(parts)))
