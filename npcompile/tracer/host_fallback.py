"""Arrays of a device where the user's code runs natively: NumPy's arrays in their place, whose changes go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.device_arrays import ArrayKind, array_kind, array_types, bounds, is_repeated
from npcompile.backends.registry import Device, devices_of
from npcompile.backends.transfers import note
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.tensors.devices import shadow
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.bytecode.decode import Program
from npcompile.tracer.bytecode.layout import Layout
from npcompile.tracer.bytecode.tracebacks import uncounted
from npcompile.tracer.entry import compiled_function
from npcompile.tracer.identity_set import MADE_NATIVELY, SCALARS
from npcompile.tracer.reachable_values import is_holder, leaves, replaced
from npcompile.tracer.recursion import COMPILED_DEPTH, nesting, room_for_entries
from npcompile.tracer.values import Transform

# --- where programs run


@dataclass(frozen=True, slots=True)
class Place:
    """The device that arrays came on: programs run there, and what they compute stays there."""

    kind: str  # the first part of the device's name
    number: int
    gives_arrays: bool  # arrays that are no Tensors leave as arrays of the device, as some came; else as NumPy's

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind

    def device(self) -> Any:
        devices = devices_of(self.kind)
        assert devices is not None, self.kind
        return devices.numbered(self.number)


def flags_of(array: Any) -> Any:
    """What NumPy says of an array of that shape and strides."""
    return array.flags if array_kind(type(array)) is None else shadow(array).flags


def as_numpy(array: Any, boxed: bool = True) -> Any:
    """A copy on the host: an ndarray, or a NumPy scalar."""
    if array_kind(type(array)) is None:
        return array
    visit = Visit(None, None)
    visit.down(array)
    ((_, host),) = visit.copies[0].arrays if visit.copies else ((None, visit.copy_of[id(array)]),)
    return host if boxed else host[()]


def decided(condition: Any, location: Location) -> bool:
    """What an array decides: the host waits for it."""
    if array_kind(type(condition)) is not None:
        note(False, condition.nbytes, location)
    return bool(condition)


def leaving(result: Any, place: Place) -> Any:
    """The result of a call, with what native code made moved to the device."""
    visit = Visit(None, place)
    moved = {id(x): y for x in leaves(result) if x in MADE_NATIVELY and (y := visit.moved(x)) is not None}
    return replaced(result, moved) if moved else result


# --- native code


@dataclass(slots=True, eq=False)
class Copied:
    """A range of a device's memory that native code sees a copy of."""

    device: Device
    low: int  # its first address on the device
    memory: np.ndarray  # the copy, as bytes
    before: np.ndarray  # what it was
    arrays: list[tuple[Any, np.ndarray]]  # of the device, and what stands for it

    @property
    def address(self) -> int:
        return self.memory.ctypes.data


@dataclass(slots=True, eq=False)
class Visit:
    """One run of native code on copies of what is on a device."""

    location: Location | None  # None: nothing is written down for it
    place: Place | None  # where its results go on
    copies: list[Copied] = field(default_factory=list)
    copy_of: dict[int, Any] = field(default_factory=dict)  # id of an array of the device -> what native code gets
    origin: dict[int, Any] = field(default_factory=dict)  # id of that -> the array of the device
    known: set[int] = field(default_factory=set)  # ids of NumPy's arrays that there were before
    kept: list[Any] = field(default_factory=list)  # so that ids stay theirs

    def down(self, value: Any) -> Any:
        """The value with copies of what is on a device. Lists and dicts stay the same objects."""
        found: dict[int, tuple[Any, ArrayKind]] = {}
        for leaf in leaves(value):
            kind = array_kind(type(leaf))
            if kind is not None and id(leaf) not in self.copy_of:
                found[id(leaf)] = leaf, kind
            elif isinstance(leaf, np.ndarray):
                self.known.add(id(leaf))
                self.kept.append(leaf)
        for group in overlapping(found.values()):
            self.copy(group)
        return replaced(value, self.copy_of) if self.copy_of else value

    def copy(self, group: list[tuple[Any, ArrayKind]]) -> None:
        first, kind = group[0]
        place = Place(kind.device, kind.number(first), True)
        self.place = self.place or place
        device = place.device()
        spans = [bounds(x, kind) for x, _ in group]
        low, high = min(a for a, _ in spans), max(b for _, b in spans)
        is_whole = len(group) == 1 and first.flags.c_contiguous
        whole = np.empty(first.shape, first.dtype) if is_whole else np.empty(high - low, np.uint8)
        memory = whole.reshape(-1).view(np.uint8)
        with device.use():
            device.download(kind.view(first, low - kind.address(first), whole.shape, whole.dtype, whole.strides), whole)
        note(False, memory.nbytes, self.location)
        made: list[tuple[Any, np.ndarray]] = []
        for x, _ in group:
            start = kind.address(x) - low if x.size else 0
            host = whole if is_whole else np.ndarray(x.shape, x.dtype, memory, start, x.strides)
            if is_repeated(x):
                host.flags.writeable = False
            stands = host[()] if x in SCALARS else host
            self.copy_of[id(x)] = stands
            self.kept += [x, stands]
            if stands is host:
                self.origin[id(host)] = x
                made.append((x, host))
        if made:
            self.copies.append(Copied(device, low, memory, memory.copy(), made))

    def write_back(self) -> None:
        """What native code has changed, into the memory of the device."""
        for copied in self.copies:
            copied.arrays = [(self.in_form(x, host, copied), host) for x, host in copied.arrays]
            if np.array_equal(copied.memory, copied.before):
                continue
            for x, host in copied.arrays:
                if host.flags.writeable:
                    with copied.device.use():
                        x[...] = copied.device.upload(np.ascontiguousarray(host).reshape(host.shape))
                    note(True, host.nbytes, self.location)
            copied.before[...] = copied.memory

    def in_form(self, x: Any, host: np.ndarray, copied: Copied) -> Any:
        """The array of the device, after `shape` or `dtype` of what stands for it may have been set."""
        if (host.shape, host.dtype) == (x.shape, x.dtype):
            return x
        if host.dtype == x.dtype:
            x.shape = host.shape
        else:
            self.origin[id(host)] = x = self.view_in(copied, host)
        return x

    def up(self, value: Any, is_result: bool = False) -> Any:
        """The value with what is on the device in place of its copies. NumPy's arrays in a result go there too."""
        back = dict(self.origin)
        for leaf in leaves(value):
            if type(leaf) is np.ndarray and id(leaf) not in back and id(leaf) not in self.known:
                made = self.view_of_origin(leaf)
                if made is None and self.place is not None and self.place.gives_arrays:
                    MADE_NATIVELY.add(leaf)
                    made = self.moved(leaf) if is_result else None
                if made is not None:
                    back[id(leaf)] = made
        return replaced(value, back) if back else value

    def view_of_origin(self, x: np.ndarray) -> Any:
        """What sees of the device's memory what `x` sees of a copy; None where `x` is no view of one."""
        start = x.__array_interface__["data"][0]
        for copied in self.copies:
            if x.base is not None and 0 <= start - copied.address < copied.memory.nbytes:
                return self.view_in(copied, x)
        return None

    def view_in(self, copied: Copied, x: np.ndarray) -> Any:
        owner, _ = copied.arrays[0]
        kind = array_kind(type(owner))
        assert kind is not None
        offset = copied.low + x.__array_interface__["data"][0] - copied.address - kind.address(owner)
        return kind.view(owner, offset, x.shape, x.dtype, x.strides)

    def moved(self, x: np.ndarray) -> Any:
        """A copy on the device, of a dtype that it has; else None."""
        if x.dtype.kind not in "biufc" or not x.dtype.isnative or x.dtype.char in "gG":
            return None
        assert self.place is not None
        device = self.place.device()
        note(True, x.nbytes, self.location)
        with device.use():
            return device.upload(np.array(x, order="K"))


def overlapping(arrays: Any) -> Iterator[list[tuple[Any, ArrayKind]]]:
    """Groups of arrays that share memory."""
    spans = [(kind.number(x), *bounds(x, kind), k) for k, (x, kind) in enumerate(arrays)]
    given, end = list(arrays), (-1, 0)
    group: list[tuple[Any, ArrayKind]] = []
    for number, low, high, k in sorted(spans):
        if group and (number, low) >= end:
            yield group
            group = []
        end = max(end, (number, high))
        group.append(given[k])
    if group:
        yield group


# --- segments


def are_any_on_device(values: Sequence[Any]) -> bool:
    """Is there an array of a device among the values, or where native code could find one?"""
    types = array_types()
    if not types:
        return False
    for value in values:
        if type(value) in types or (is_holder(value) and any(type(leaf) in types for leaf in leaves(value))):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Touched:
    """What a segment looks at, as positions among the values that it is called with."""

    stack: tuple[int, ...]
    locals: tuple[int, ...]
    cells: tuple[int, ...]  # among the cells, which come first
    callee: tuple[int, ...]  # where it is what the segment begins with calling
    attribute: str | None  # that it begins with loading
    is_step: bool  # of a loop: it asks an iterator for the next item, and does nothing else

    @classmethod
    def by(cls, program: Program, facts: CodeFacts, run: set[int], layout: Layout) -> Touched:
        """By the instructions `run` of a segment."""
        names = (*facts.cells, *facts.free)
        first = int(bool(names))
        slots = [k for k in range(layout.depth) if k not in layout.null_slots]
        reads = {facts.slots[a.slot] for k in run for a in facts.effects[k].accesses if a.kind in ("read", "take")}
        cells = {i.argval for k in run if (i := program.instructions[k]).traits.reads("cell")}
        begin = program.instructions[layout.index]
        above = begin.above_callee
        callee = () if above is None else (layout.depth - above - 2, layout.depth - above - 1)
        name = begin.argval if begin.traits.reads("attribute") else None
        return cls(
            tuple(first + k for k in range(len(slots))),
            tuple(first + len(slots) + k for k, n in enumerate(layout.local_names) if n in reads),
            tuple(k for k, n in enumerate(names) if n in cells),
            tuple(first + slots.index(k) for k in callee if k in slots),
            name,
            begin.traits.flow == "next" and len(run) == 1,
        )

    def positions(self, state: Sequence[Any]) -> tuple[int, ...]:
        """Of what is to be on the host: not the arguments of what takes arrays of a device."""
        if self.is_step or any(takes_device_arrays(state[k]) for k in self.callee):
            return self.locals
        name = self.attribute
        if name is not None and not hasattr(np.ndarray, name) and any(hasattr(kind, name) for kind in array_types()):
            return self.locals
        return (*self.stack, *self.locals)


def takes_device_arrays(function: Any) -> bool:
    """Is it compiled, or of CuPy?"""
    if compiled_function(function) is not None or isinstance(function, Transform):
        return True
    owner = getattr(function, "__self__", None)
    kinds = (type(function), function, getattr(function, "__objclass__", None), type(owner))
    return any(str(getattr(k, "__module__", "")).partition(".")[0] in ("cupy", "cupyx") for k in kinds)


@uncounted
def natively(segment: Callable[..., Any], touched: Touched | None, place: Place | None, location: Location) -> Callable[..., Any]:
    """A segment, or a user's function, that sees NumPy's arrays for those of a device among what it is called with.

    It gives, as a segment does, where to go on and the state there, or None and a result. Without `touched` it looks at all.
    """

    def run(*state: Any) -> Any:
        if place is None and not are_any_on_device(state):
            nesting.depth += 1
            try:
                if nesting.depth != COMPILED_DEPTH:
                    return segment(*state)
                with room_for_entries():
                    return segment(*state)
            finally:
                nesting.depth -= 1
                state = ()  # the traceback of an exception holds this frame, and the exception may be in the state
        visit = Visit(location, place)
        positions = range(len(state)) if touched is None else touched.positions(state)
        cells = () if touched is None else tuple([state[0][k] for k in touched.cells])
        visible = (*(state[k] for k in positions), *cells)
        copies = visit.down(visible)
        if place is None and not visit.copy_of:
            return segment(*state)
        given = list(state)
        for k, value in zip(positions, copies):
            given[k] = value
        try:
            point, left = segment(*given)
        finally:
            visit.write_back()
            visit.up((copies, visible))
        if point is None:
            return None, visit.up(left, is_result=True)
        return (point if visit.place is None else point.on(visit.place)), visit.up(left)

    return run
