"""Loops without loops inside, written a second time as strips of iterations that are checked afterwards."""

from __future__ import annotations

from typing import Any

from npcompile.backends.cpu.scalar_loops import NoForm
from npcompile.backends.cpu.strips import Strip, Way
from npcompile.tracer.native import arrays, pointwise, time_loops
from npcompile.tracer.native.blocks import Blocks, Inside
from npcompile.tracer.native.kinds import Items, Scalar, Steps, Together, Walk
from npcompile.tracer.native.states import key_of, loop_region, names_set


def write_strip(b: Blocks, index: int, label: str) -> None:
    """Write a strip of the loop whose header is at `index`, where it has one. The loop as it is follows."""
    region = loop_region(b.facts, index)
    if any(k in b.facts.loop_headers for k in region if k != index):
        return
    if b.apart is not None and index == b.apart.header and not b.apart.spread.counter.is_range:
        return  # a strip would go on behind the chunk
    is_own = b.apart is None and index not in b.parallel
    if is_own and (pointwise.write(b, index, region) or time_loops.write(b, index, region, label)):
        return
    strip = Strip(
        f"{'' if b.apart is None else b.apart.spread.name + '_'}strip{len(b.labels)}",
        b.code,
        frozenset(staying(b, index, region)),
    )
    iterator = b.state.stack[-1] if b.program.instructions[index].opname == "FOR_ITER" else None
    if iterator is not None and not isinstance(iterator, Steps | Walk | Together):
        return
    strip.ways = ways(iterator)
    state = b.state
    inside = Inside(strip, index, region, key_of(index, state))
    try:
        body = written(b, inside)
    except NoForm:
        return
    finally:
        b.state = state
    function, parameters = strip.function(body)
    b.code.functions.append(function)
    b.code.declarations += strip.declarations()
    is_apart = b.code.keep_apart({s.array.name for s in strip.stores}, parameters)
    b.code.lines += strip.call(parameters, label, is_apart)
    for k, (target, left) in enumerate(inside.left):
        b.code.label(f"{strip.name}_out{k}")
        b.state = left
        b.go(target)
    b.state = state
    b.code.label(f"{strip.name}_slow")


def written(b: Blocks, inside: Inside) -> list[str]:
    """The lines of the loop's body. Raises NoForm where a strip is of no use."""
    outer = b.code.lines, b.labels, b.pending, b.refused
    b.code.lines, b.labels, b.pending, b.refused = [], {}, [], []
    b.inside, b.code.strip = inside, inside.strip
    try:
        b.state = b.state.copy()
        b.block(inside.header)
        while b.pending:
            index, b.state, label = b.pending.pop()
            inside.strip.is_straight = False
            b.code.label(label)
            b.block(index)
        if not inside.comes_back:
            raise NoForm("no iteration is followed by another")
        inside.strip.ways_out = len(inside.left)
        inside.strip.finish(b.code.lines)
        return b.code.lines
    finally:
        b.code.lines, b.labels, b.pending, b.refused = outer
        b.inside = b.code.strip = None


def ways(iterator: Any) -> list[Way]:
    """What the loop takes its items from, in the order in which they are asked for."""
    match iterator:
        case Together():
            return [way for part in iterator.parts for way in ways(part)]
        case Steps():
            return [Way(iterator.next, iterator.stop, iterator.step)]
        case Walk():
            return [Way(iterator.next, arrays.part_of(iterator.elements).sizes[0], 1, is_range=False)]
    return []


def staying(b: Blocks, header: int, region: frozenset[int]) -> list[str]:
    """The C variables, of those that are set at the header, that the loop does not set."""
    stored = {n for k in region for n in names_set(b.program.instructions[k])}
    values = [v for n, v in b.state.locals.items() if n not in stored]
    return [text for v in [*values, *b.state.stack] for text in scalar_texts(v)]


def scalar_texts(value: Any) -> list[str]:
    if isinstance(value, Scalar):
        return [value.text]
    return [text for item in value.items for text in scalar_texts(item)] if isinstance(value, Items) else []
