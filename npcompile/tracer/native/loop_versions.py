"""Loops without loops inside, written a second time as strips of iterations that are checked afterwards, and as bands of rows."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from npcompile.backends.cpu.loops import strip_functions
from npcompile.backends.cpu.loops.scalar_loops import NoForm
from npcompile.backends.cpu.loops.speculation import NoNest, Strip, Way
from npcompile.backends.cpu.loops.strip_elements import Outer
from npcompile.backends.cpu.loops.vector_wavefront import LaneBand
from npcompile.backends.cpu.loops.vectorize_outer import LANE_NEST_HELPERS, LaneNest
from npcompile.backends.cpu.loops.wavefront import Band, NoBand
from npcompile.backends.native_profiling import PROFILERS, label_of
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import outside, row_tiling, stencil_tiling, type_joins
from npcompile.tracer.native.blocks import Blocks, Inside, NotChosen
from npcompile.tracer.native.states import has_known_steps, key_of, names_set, number_of_items
from npcompile.tracer.native.types import Items, Known, Scalar, Steps, Together, Walk
from npcompile.tracer.native.variables import Variables, read_first

SAME = (range, len, min, max, int)  # functions of numbers


def write_strip(b: Blocks, index: int, label: str) -> None:
    """Write a strip of the loop whose header is at `index`, where it has one. The loop as it is follows."""
    region = loop_region(b.facts, index)
    inner = [k for k in region if k in b.facts.loop_headers and k != index]
    if inner and not is_nest(b, index):
        return
    if b.apart is not None and index == b.apart.header and not b.apart.spread.counter.is_range:
        return  # a strip would go on after the chunk
    is_own = b.apart is None and index not in b.parallel and not inner
    if is_own and (row_tiling.write(b, index, region) or stencil_tiling.write(b, index, region, label)):
        return
    iterator = b.state.stack[-1] if b.program.instructions[index].traits.flow == "next" else None
    if iterator is not None and not (isinstance(iterator, Steps | Walk | Together) and has_known_steps(iterator)):
        return
    if outer_of(b, index, region) is None and b.trip_counts.get(index, strip_functions.FEWEST) < strip_functions.FEWEST:
        return
    state = b.state
    try:
        inside, body = with_choices(b, index, region, iterator, label)
    except (NoForm, NoNest) as reason:
        b.noted("speculation", index, str(reason) or "a statement that cannot be undone")
        return
    finally:
        b.state = state
    strip = inside.strip
    if not strip.is_gain:
        b.noted("speculation", index, "nothing to be looked at afterwards")
        return
    b.noted("speculation", index)
    b.noted("checks in iterations of a strip", index, count=len(strip.checks))
    b.noted("undo by iteration", index, None if strip.is_regular else "what is stored is at places that are data")
    b.noted("stores without undo", index, "what is noted afterwards may be of any iteration" if strip.kept else None)
    for k in inside.chosen | inside.branches:
        b.noted("if-conversion", k, None if k in inside.chosen else "arms that are more than a few numbers", "branch")
    outer = None if strip.is_nest else outer_of(b, index, region)
    bands = [] if outer is None else bands_of(strip, outer, body)
    if outer is not None:
        why_not = None if any(isinstance(x, LaneBand) for x in bands) else "statements without vectors"
        b.noted("wavefront in lanes", index, why_not)
        b.noted("wavefront", index, None if bands else "rows do not wait for the row before them, or in no known way")
    by_lanes = lane_nest_of(b, strip, body) if strip.is_nest else []
    if strip.is_nest:
        why_not = None if by_lanes else "iterations that are not alike, or statements without vectors"
        b.noted("vectorize the outer loop", index, why_not)
        why_not = None if strip.is_counted else "loops inside whose iterations are not known before"
        b.noted("iterations counted before a strip", index, why_not)
        b.noted("loops inside a strip", index, count=sum(k in b.facts.loop_headers for k, *_ in inside.labels))
    if by_lanes and LANE_NEST_HELPERS not in b.code.functions:
        b.code.functions.append(LANE_NEST_HELPERS)
    strip.repeat(outer)
    b.noted("rows in one call", index, "what is known of a row may not be of the next" if strip.outer is None else None)
    strip.finish(body)
    function, parameters = strip_functions.function(strip, body, by_lanes)
    text = strip_functions.written_once(b.code.functions, strip, function)
    if text is not function:
        b.noted("one function for two copies of a loop", index)
    b.noted("iterations of the shortest strip", index, count=strip_functions.fewest(strip))
    b.code.functions.append(text)
    b.code.declarations += strip_functions.declarations(strip)
    are_apart = b.code.keep_apart({s.array.name for s in strip.stores}, parameters)
    for band in bands:
        function, parameters_of_band = band.function()
        b.code.functions += [band.helpers] * (band.helpers not in b.code.functions)
        b.code.functions += strip_functions.where(band.condition, [function])
        b.code.declarations += band.declarations()
        b.code.lines += strip_functions.where(band.condition, band.call(parameters_of_band, label, are_apart))
    b.code.lines += strip_functions.call(strip, parameters, label, are_apart)
    for k, (target, left) in enumerate(inside.left):
        b.code.label(f"{strip.name}_out{k}")
        b.state = left
        b.go(target)
    b.state = state
    b.code.label(f"{strip.name}_slow")


def is_nest(b: Blocks, index: int) -> bool:
    """Is the loop the outermost that iterations of loops inside leave soon? The outermost of all is for threads."""

    @cache  # without it, twice as long for each loop more
    def depth(k: int) -> int:
        return max((1 + depth(j) for j in b.loops if j != k and j in b.loops[k]), default=0)

    def qualifies(k: int) -> bool:
        return depth(k) == 1 or depth(k) == 2 and any(k in region for j, region in b.loops.items() if j != k)

    around = [k for k, r in b.loops.items() if index in r and k != index]
    is_range = b.program.instructions[index].traits.flow == "next" and isinstance(b.state.stack[-1], Steps)
    return is_range and b.pointwise is None and not b.suffix and qualifies(index) and not any(map(qualifies, around))


def with_choices(b: Blocks, index: int, region: frozenset[int], iterator: Any, label: str) -> tuple[Inside, list[str]]:
    """A strip and its body, in which branches are choices between numbers where they can be."""
    state, branches = b.state, frozenset[int]()
    widened = dict[int, frozenset[str]]()
    prefix = "" if b.apart is None else b.apart.spread.name + "_"
    suffix = f"_{label_of(b.program.code.co_name)}" if PROFILERS.are_told else ""
    while True:
        name = f"{prefix}{label.replace('block', 'strip')}{suffix}"  # as the block at the header, of which there may be several
        strip = Strip(name, b.code, frozenset(staying(b, index, region)), ways(iterator))
        strip.same = same_as_moving(b, strip)
        inside = Inside(strip, index, region, key_of(index, state), branches=branches)
        inner = [k for k in region if k in b.facts.loop_headers and k != index]
        if inner:
            strip.inner = {k: b.loops[k] for k in inner}
            strip.has_while = any(b.program.instructions[k].traits.flow != "next" for k in inner)
            inside.widened = widened
            inside.once = Variables.of(b.facts, index, region).once - read_first(b.facts, index, region)
        try:
            body = written(b, inside)
            found = type_joins.widened(inside, body, b.facts, b.loops)
            if not found:
                return inside, body
            widened = widened | found
            b.state = state
        except NotChosen as branch:
            branches |= {branch.index}
            b.state = state


def written(b: Blocks, inside: Inside) -> list[str]:
    """The lines of the loop's body. Raises NoForm where a strip is of no use."""
    outer = b.code.lines, b.labels, b.pending, b.refused
    integers = b.code.integers.copy()
    b.code.lines, b.labels, b.pending, b.refused = [], {}, [], []
    b.inside, b.code.strip = inside, inside.strip
    try:
        b.state = b.state.copy()
        b.block(inside.header)
        while b.pending:
            index, b.state, label = b.pending.pop()
            inside.strip.is_straight = False
            b.code.label(label)
            if index in b.facts.loop_headers and b.program.instructions[index].traits.flow != "next":
                b.code.line("if (UNLIKELY(++turns >= POLL)) goto undo;")
            b.block(index)
        if not inside.comes_back:
            raise NoForm("no iteration is followed by another")
        inside.strip.ways_out = len(inside.left)
        inside.strip.finish_counters()
        return b.code.lines
    finally:
        inside.labels = b.labels
        b.code.lines, b.labels, b.pending, b.refused = outer
        if inside.strip.is_nest:
            b.code.integers = integers  # what the iterations set is not known after
        b.inside = b.code.strip = None


def ways(iterator: Any) -> list[Way]:
    """What the loop takes its items from, in the order in which they are asked for."""
    match iterator:
        case Together():
            return [way for part in iterator.parts for way in ways(part)]
        case Steps():
            assert iterator.step is not None
            return [Way(iterator.next, iterator.stop, iterator.step)]
        case Walk():
            return [Way(iterator.next, number_of_items(iterator.elements), 1, is_range=False)]
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


def same_as_moving(b: Blocks, strip: Strip) -> dict[str, str]:
    """C variables of the chunk's own that count its iterations -> the program's variables that hold them."""
    moving = () if b.code.accesses is None else b.code.accesses.moving
    known = {text: b.code.integer(text) for text in sorted(strip.stays & b.code.variables.keys())}
    return {at: text for at in moving for text, found in known.items() if found.terms == ((at, 1),) and not found.constant}


def bands_of(strip: Strip, outer: Outer, body: list[str]) -> list[Band]:
    """Those of the most rows first."""
    bands = []
    for kind in (LaneBand, Band):
        with suppress(NoBand):
            bands.append(kind(strip, outer, body.copy()))
    return bands


def lane_nest_of(b: Blocks, strip: Strip, body: list[str]) -> list[str]:
    try:
        nest = LaneNest(strip, body.copy())
        lines = nest.lines()
    except NoBand:
        return []
    if b.code.accesses is not None:
        b.code.accesses.in_lanes |= nest.in_columns
    return lines


def outer_of(b: Blocks, index: int, region: frozenset[int]) -> Outer | None:
    """The loop around the one whose header is at `index`, if each of its iterations begins that one in the same way."""
    around = [k for k, each in b.loops.items() if index in each and k != index]
    if not around or b.apart is not None or b.calls or len(b.state.stack) < 2:
        return None
    header = min(around, key=lambda k: len(b.loops[k]))
    inner, outer = b.state.stack[-1], b.state.stack[-2]
    if not isinstance(inner, Steps) or not isinstance(outer, Steps) or inner.start not in b.code.variables:
        return None
    if outer.step is None:
        return None
    between = [b.program.instructions[k] for k in sorted(b.loops[header] - region)]
    stored = [n for k in b.loops[header] for n in names_set(b.program.instructions[k])]
    rows = [n for i in between for n in names_set(i)]
    if len(rows) != 1 or stored.count(rows[0]) != 1 or not all(stays_same(b, i, stored) for i in between):
        return None
    row = b.state.locals.get(rows[0])
    return Outer(row.text if isinstance(row, Scalar) else "", outer.next, outer.stop, outer.step, inner.start)


def stays_same(b: Blocks, i: Instruction, stored: list[str]) -> bool:
    """Does the instruction do the same in each iteration of a loop that sets the variables `stored`?"""
    traits = i.traits
    match traits.access, traits.place:
        case "read", "local":
            value = b.realize(b.state.locals.get(i.argval))
            return i.argval not in stored and not isinstance(value, Known)  # a function may write when it is called
        case "read", "global":
            value = outside.global_value(b, i.argval)
            return isinstance(value, Scalar) or isinstance(value, Known) and value.value in SAME
        case "read", "attribute":
            return not i.null and i.argval in ("shape", "size") and not b.attributes.owners
        case "read", "element":
            key, owner = (b.program.instructions[i.index - k].traits for k in (1, 2))
            return key.is_constant and owner.reads("attribute")
    # What only makes the range of the loop inside.
    is_moved = traits.is_constant or traits.writes("local") or traits.stack in ("null", "iterator", "nothing", "drop")
    return is_moved or traits.operator == "binary" or traits.call == "positional" or traits.flow in ("next", "goto")
