"""Which functions and loops run as one program without a graph, of the host or of a device."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from npcompile.tracer import loops
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.control_calls import calls_loops
from npcompile.tracer.frame import Frame, Outcome, Return
from npcompile.tracer.host_fallback import are_any_on_device
from npcompile.tracer.loop_programs import native_program
from npcompile.tracer.point import Point
from npcompile.tracer.restarts import Decisions
from npcompile.tracer.variant import Variant


def is_over_elements(function: Compiled[Point], index: int, variables: dict[str, Any], given: Iterable[Any]) -> bool:
    """Is the instruction the header of a loop that is better a native program, if its iterations are few?"""
    if not function.may_be_native(index, given):
        return False
    from npcompile.tracer.native.candidates import is_over_elements  # here: functions without loops need nothing of it

    return is_over_elements(function.program, function.facts, index, variables, function.python.__globals__)


def comprehends(function: Compiled[Point]) -> bool:
    """Are there list comprehensions, or generator expressions, that may be loops of a native program?"""
    nested = [c.co_name for c in function.code.co_consts if isinstance(c, types.CodeType)]
    return function.are_native_asked and not {"<listcomp>", "<genexpr>"}.isdisjoint(nested)


def native_function(
    function: Compiled[Point], point: Point, state: tuple[Any, ...], frame: Frame, outcome: Outcome, decisions: Decisions
) -> Variant | None:
    """A variant that runs the whole function as one native program, where its graph would end, or branch in iterations.

    Without loops, where its graph would find sizes between its pieces. Where no Python is to run, a program that needs none.
    """
    if function.options.fullgraph:
        return None if isinstance(outcome, Return) else without_python(function, point, state)
    if not point.is_start:
        return None
    made, assumed = frame.capture.builder.made, frame.capture.assumed
    branches = decisions.short_loops and (assumed or any(node.op == "cond" for node in made))
    finds_sizes = bool(frame.capture.builder.env.measured) and not function.facts.loop_headers and function.are_native_asked
    if isinstance(outcome, Return) and (not (branches or finds_sizes) or loops.has_gradients(frame)):
        return None
    native = None
    if may_be_whole(function, point, state) and (has_native_loops(function, state) or finds_sizes or comprehends(function)):
        native = loops_at(function, point, state, frozenset(decisions.short_loops))
    return native if native is not None or isinstance(outcome, Return) else left_by_others(function, point, state)


def may_be_whole(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> bool:
    """May all of the function be a native program that Python goes on after?"""
    has_cells = function.code.co_cellvars and not comprehends(function)
    return not has_cells and not function.refusals.are_enough(point.layout.index, state)


def left_by_others(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> Variant | None:
    """A program that aborts, of loops with what no other compiler has a form for."""
    refused = -1 - point.layout.index  # they are counted apart
    has_loops = bool(function.facts.loop_headers) or comprehends(function)
    if not has_loops or not function.are_native_asked or are_any_on_device(state):  # programs of a device are counted there too
        return None
    if function.refusals.are_enough(refused, state):
        return None
    made = without_python(function, point, state, is_left=True)
    if made is None:
        function.refusals.add(refused, state)
    return made


def has_native_loops(function: Compiled[Point], state: tuple[Any, ...]) -> bool:
    return any(function.may_be_native(header, state) for header in function.facts.loop_headers)


def before_graphs(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> Variant | None:
    """A variant where it is known before capture that a program runs the loops better than graphs."""
    for made in (native_loop, loops_over_elements, control_loops):
        if (variant := made(function, point, state)) is not None:
            return variant
    return None


def native_loop(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> Variant | None:
    """A variant that runs the loop whose header the Point is at as one native program, where it has that form."""
    made = loops_at(function, point, state) if function.may_be_native(point.layout.index, state) else None
    is_header = point.layout.index in function.facts.loop_headers and not point.is_start
    return left_by_others(function, point, state) if made is None and is_header else made


def loops_at(
    function: Compiled[Point], point: Point, state: tuple[Any, ...], short_loops: frozenset[int] = frozenset()
) -> Variant | None:
    """What begins at the Point as one program, where the arrays are."""
    on_device = are_any_on_device(state)
    return loops_of_device(function, point, state) if on_device else native_program(function, point, state, short_loops)


def loops_over_elements(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> Variant | None:
    """A variant of a function all of whose loops are over the elements of arrays of a device."""
    has_loops = point.is_start and has_native_loops(function, state)
    return loops_of_device(function, point, state, of_elements=True) if has_loops and are_any_on_device(state) else None


def control_loops(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> Variant | None:
    """A variant of a function that calls npc.fori_loop, while_loop or scan, here or in functions that it calls."""
    return without_python(function, point, state) if point.is_start and calls_loops(function.python) else None


def without_python(function: Compiled[Point], point: Point, state: tuple[Any, ...], is_left: bool = False) -> Variant | None:
    """A variant that runs a whole function as one program which aborts where it would need Python."""
    if not (point.is_start or is_left) or are_any_on_device(state):
        return None
    from npcompile.tracer.loop_ir.aborting import aborting_function  # here: functions without loops need nothing of it

    return aborting_function(function, point, state, is_left)


def loops_of_device(function: Compiled[Point], point: Point, state: tuple[Any, ...], of_elements: bool = False) -> Variant | None:
    """What a native program is for arrays of a device: a program there, or the host's on copies."""
    from npcompile.tracer import device_loops  # here: programs of the host need nothing of it

    refused = -1 - point.layout.index  # those of the host are counted apart
    if function.refusals.are_enough(refused, state):
        return None
    made = device_loops.device_loops(function, point, state, of_elements) if point.is_start else None
    if of_elements:
        return made
    made = made or device_loops.host_loops(function, point, state)
    if made is None:
        function.refusals.add(refused, state)
    return made
