"""Functions with loops that are called with arrays of a device: one program there, or the host's on copies, by estimate.

Where iterations are independent the device is quicker, and where each needs the one before the host is, unless what has to be
moved takes longer. What a program on the device leaves, the host does again: arrays are as before, and errors raise there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from npcompile.backends.device_arrays import ArrayKind, array_kind
from npcompile.backends.loop_ir import target
from npcompile.backends.loop_ir.native import DeviceProgram, LeftAlone, kind_of_call
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph, devices_of
from npcompile.logs import log
from npcompile.tensor_core.events import COUNTS
from npcompile.tensor_core.guards import Guard, Truth
from npcompile.tensor_core.loop_ir.foreknown import Machine, Seconds, estimated, is_parallel
from npcompile.tensor_core.loop_ir.ops import Policy
from npcompile.tensor_core.loop_ir.types import KINDS, Memref, Type, type_of
from npcompile.tensor_core.source import Call, Name
from npcompile.tensor_core.tensors.devices import shadow
from npcompile.tracer.bytecode.layout import UNBOUND
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.conditions import Condition
from npcompile.tracer.host_fallback import Place, Visit, natively
from npcompile.tracer.identity_set import SCALARS
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import Traced, trace
from npcompile.tracer.loop_programs import native_program
from npcompile.tracer.point import Point
from npcompile.tracer.profitability import is_for_device
from npcompile.tracer.variant import Variant

MOST_KNOWN = 64  # kinds of calls whose estimate is remembered
MACHINE = Machine()
PLAIN = (bool, int, float, complex, np.generic, str, type(None), type(iter(range(0))), ModuleType, FunctionType)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a program asks of one argument."""

    kind: Type
    place: Place | None  # of an array

    def fits(self, x: Any) -> bool:
        if self.place is None or not isinstance(self.kind, Memref):
            return type_of(x) == self.kind
        kind = array_kind(type(x))
        return kind is not None and place_of(x, kind) == self.place and device_type(x, kind) == self.kind


def place_of(x: Any, kind: ArrayKind) -> Place:
    return Place(kind.device, kind.number(x), True)


def device_type(x: Any, kind: ArrayKind) -> Type | None:
    """The type that NumPy's array of this dtype, shape and strides has."""
    element, size, is_contiguous = KINDS.get(x.dtype), x.dtype.itemsize, x.flags.c_contiguous
    if element is None or not x.ndim or kind.address(x) % size or not (is_contiguous or all(s % size == 0 for s in x.strides)):
        return None
    return Memref(element, x.ndim, is_contiguous, True)


@dataclass(slots=True)
class DeviceLoops:
    """What runs for calls with arguments of some types, all arrays among them on one device."""

    taken: tuple[Taken, ...]
    traced: Traced
    program: DeviceProgram
    on_host: Callable[..., Any]
    is_host_compiled: Callable[[Sequence[Any]], bool]
    known: dict[tuple[Any, ...], bool] = field(default_factory=dict)  # kind of a call -> does it run on the device?
    is_native_there: bool | None = None  # has the host a native program? None: nobody asked yet

    def fits(self, *state: Any) -> bool:
        return all(taken.fits(x) for taken, x in zip(self.taken, state)) and all(guard.holds() for guard in self.traced.guards)

    def __call__(self, *state: Any) -> Any:
        if self.is_for_device(state):
            try:
                return self.program([*state, *(source.read() for source in self.traced.inputs)])
            except LeftAlone as why:
                reason = str(why)
                log("loops", lambda: f"{self.program.program.name}: the host runs it: {reason}")
        return self.on_host(*state)

    def is_for_device(self, state: Sequence[Any]) -> bool:
        key = kind_of_call(state)
        if key not in self.known:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            found = self.estimate(state)
            is_quicker = is_for_device(is_parallel(self.program.program), found.device, found.host)
            self.known[key] = is_quicker or not self.has_host(state)
        return self.known[key]

    def has_host(self, state: Sequence[Any]) -> bool:
        if self.is_native_there is None:
            self.is_native_there = self.is_host_compiled(state)
        return self.is_native_there

    def estimate(self, state: Sequence[Any]) -> Seconds:
        given = [*state, *(source.read() for source in self.traced.inputs)]
        arrays = [isinstance(self.program.program.types[p.value], Memref) for p in self.program.program.params]
        moved = sum(x.nbytes * (1 + w) for x, is_array, w in zip(given, arrays, self.program.written) if is_array)
        said = [tuple(x.shape) if is_array else x for x, is_array in zip(given, arrays)]
        return estimated(self.program.program, said, moved, MACHINE, os.cpu_count() or 1)

    def passes(self, state: Sequence[Any]) -> tuple[Pass, ...]:
        """Where each loop runs, why, and how long either way is thought to take for this call."""
        found, runs_there = self.estimate(state), self.is_for_device(state)
        times = f"{found.device / 1e6:.3f} ms there, {found.host / 1e6:.3f} ms on the host with copies, by estimate"
        chosen = Pass("loops on the device", f"the function ({times})", None if runs_there else "the host is quicker")
        each = [
            Pass("threads of the device", f"the loop at line {x.at.line}", x.reason or None) for x in self.program.report.said
        ]
        return (chosen, *dict.fromkeys(each))


def device_loops(function: Compiled[Point], point: Point, state: tuple[Any, ...], of_elements: bool) -> Variant | None:
    """A variant of the Point at the start of a CompiledFunction. None where the loops have no program on the device.

    `of_elements`: None, too, where all innermost loops hold statements about whole arrays, which graphs may do better.
    """
    began = time.perf_counter()
    try:
        made = compiled_loops(function, point, state, of_elements)
    except (Unsupported, target.Unsupported) as error:
        why = str(error)
        log("loops", lambda: f"{function.code.co_qualname}: no program of a device: {why}")
        return None
    fits = function.object_of(made.fits, "fits_")
    guards: tuple[Guard, ...] = (Truth(Call(fits, *map(Name, point.parameters))),)
    line = f"return {function.name_constant(made, 'loops_')}({', '.join(point.parameters)})"
    COUNTS["loop_programs"] += 1
    compiled = CompiledGraph(made, made.program.source, passes=made.passes(state))
    seconds = {"capture": time.perf_counter() - began}
    return Variant(guards, tuple(map(Condition, guards)), (line,), None, compiled, None, seconds)


def compiled_loops(function: Compiled[Point], point: Point, state: Sequence[Any], of_elements: bool) -> DeviceLoops:
    """Raises Unsupported, of the front end or a backend."""
    kinds = [array_kind(type(x)) for x in state]
    places = [None if kind is None else place_of(x, kind) for x, kind in zip(state, kinds)]
    there = {place for place in places if place is not None}
    if len(there) != 1 or any(isinstance(x, np.ndarray) and place is None for x, place in zip(state, places)):
        raise Unsupported("arrays on several devices, or none")
    (place,) = there
    seen = [x if where is None else shadow(x) for x, where in zip(state, places)]
    traced = trace(function.python, seen, Policy.ABORT)
    if of_elements and (traced.has_arrays or traced.has_products) and not traced.has_element_loops:
        raise Unsupported("statements about whole arrays in loops")
    if any(isinstance(source.read(), np.ndarray) for source in traced.inputs):
        raise Unsupported("an array of the host")
    devices = devices_of(place.kind)
    assert devices is not None, place
    example = next(x for x, where in zip(state, places) if where is not None)
    program = devices.compile_loop(traced.program, example)
    taken = tuple(Taken(kind, where) for x, where in zip(seen, places) if (kind := type_of(x)) is not None)
    return DeviceLoops(taken, traced, program, on_host(function), lambda given: is_native_on_host(function, point, given))


def on_host(function: Compiled[Point]) -> Callable[..., Any]:
    """The compiled function on copies of its arrays: what it changes goes back, and its results go to the device."""
    run = natively(lambda *state: (None, function.entry(*state)), None, None, function.program.location(function.facts.start))
    return lambda *state: run(*state)[1]


def is_native_on_host(function: Compiled[Point], point: Point, state: Sequence[Any]) -> bool:
    """Is there a native program of the function for copies of its arrays? It is kept, for the calls that come.

    It is made for arrays without their numbers, which it does not depend on.
    """
    blank = {id(x): np.zeros_like(shadow(x)) for x in state if array_kind(type(x)) is not None and x not in SCALARS}
    copies = Visit(None, None).down(tuple(blank.get(id(x), x) for x in state))
    made = native_program(function, point, copies)
    if made is not None:
        point.variants.insert(0, made)
    return made is not None


def host_loops(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> Variant | None:
    """The same where the host is to run it: at the start of the function, or at a loop inside it, whose values are moved once."""
    if not all(map(is_plain, state)):
        return None
    layout = point.layout
    here = point if point.is_start else function.point_at(layout.index, layout.null_slots, None)
    if not is_native_on_host(function, here, state):
        return None
    location = function.program.location(layout.index)
    if point.is_start:
        run = on_host(function)
    else:
        run = natively(lambda *given: here.enter(*given), None, point.place, location)
    asked = Asks(tuple(array_kind(type(x)) for x in state))
    guards: tuple[Guard, ...] = (Truth(Call(function.object_of(asked, "on_device_"), *map(Name, point.parameters))),)
    line = f"return {function.name_constant(run, 'on_host_')}({', '.join(point.parameters)})"
    passes = (Pass("loops on the device", f"the loop at {location}", "the host runs it on copies"),)
    compiled = CompiledGraph(run, "", passes=passes)
    return Variant(guards, tuple(map(Condition, guards)), (line,), None, compiled, None, {})


def is_plain(x: Any) -> bool:
    """Is it an array of a device, or what refers to none? An iterator of an array, for one, sees memory of its own."""
    return array_kind(type(x)) is not None or isinstance(x, PLAIN) or x is UNBOUND


@dataclass(frozen=True, slots=True)
class Asks:
    """Are the same of these values arrays of a device?"""

    kinds: tuple[ArrayKind | None, ...]

    def __call__(self, *state: Any) -> bool:
        return all(array_kind(type(x)) is kind for x, kind in zip(state, self.kinds))
