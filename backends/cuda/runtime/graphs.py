"""CUDA graphs: what a program launches, recorded once for its sizes and launched as a whole.

A recording has the addresses that it was made with. So results have memory of the recording, which is used again when
nobody has a reference to them any more, and small results are copied where somebody keeps many; inputs are compared by
address, and those that change are copied to memory of the recording, as 0-D inputs by value always are. What a program
writes to is never copied.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from npcompile.backends.cuda.runtime.interface import Device
from npcompile.backends.cuda.runtime.memory import caches
from npcompile.tensor_core.graph import Graph, subgraphs

T = TypeVar("T")
MOST_KEYS = 16  # sizes and layouts of one program with recordings
MOST_RECORDINGS = 8  # of one of these: as many results can be in use at once
MOST_COPYING = 2  # more, whose results are copied: somebody collects results
MOST_COPIED = 2**16  # bytes of results that are copied


class CannotCapture(Exception):
    """The program does what no recording holds: it waits for the device, copies from or to the host, or calls what does."""


class Capturing(threading.local):
    """Is this thread recording? `flags`: error flags to be read after each run; `writes`: to arguments, when none is set."""

    flags: list[Any] | None = None
    writes: list[Callable[[], None]]


CAPTURING = Capturing()


class Listing(threading.local):
    """What notes the steps of this thread, if anything does: see listing.py."""

    lister: Any = None


LISTING = Listing()


def refuse_while_capturing(what: str) -> None:
    """Raises CannotCapture in a thread that records."""
    if CAPTURING.flags is not None:
        raise CannotCapture(what)


@contextmanager
def capturing() -> Iterator[list[Any]]:
    CAPTURING.flags, CAPTURING.writes = [], []
    try:
        yield CAPTURING.flags
    finally:
        CAPTURING.flags, CAPTURING.writes = None, []


def write_last(write: Callable[[], None]) -> None:
    """Do what writes to arguments, after all else: now, or in a recording when its flags are known."""
    if CAPTURING.flags is None:
        write()
    else:
        CAPTURING.writes.append(write)


def capture_with_cupy(library: Any, run: Callable[[], T]) -> tuple[T, Callable[[], None]]:
    """What `run` returns, and a function that does on the current stream what it would have done. Raises CannotCapture."""
    pool = library.cuda.MemoryPool()  # what is freed in between is used again in the recording, and by nobody else
    stream = library.cuda.Stream(non_blocking=True)
    refused = (library.cuda.runtime.CUDARuntimeError, library.cuda.driver.CUDADriverError, NotImplementedError)
    relaxed = library.cuda.runtime.streamCaptureModeRelaxed  # the pool allocates, other threads do what they like
    with library.cuda.using_allocator(pool.malloc), stream:
        stream.begin_capture(relaxed)
        try:
            result = run()
        except BaseException as error:
            with suppressed(refused):
                stream.end_capture()
            if isinstance(error, refused):
                raise CannotCapture(str(error)) from error
            raise
        try:
            graph = stream.end_capture()
        except refused as error:
            raise CannotCapture(str(error)) from error

    def launch(held: Any = (pool, stream)) -> None:  # the memory of temporaries lives as long as the graph
        graph.launch()

    return result, launch


@contextmanager
def suppressed(errors: tuple[type[BaseException], ...]) -> Iterator[None]:
    try:
        yield
    except errors:
        return


@dataclass(slots=True, eq=False)
class Recording:
    """One CUDA graph with the memory that it uses."""

    addresses: dict[int, int | None]  # of inputs that must come from the same place
    copied: dict[int, Any]  # memory for the other inputs
    outputs: list[Any]
    launch: Callable[[], None]
    flags: list[Any]
    references: list[tuple[int, ...]] = field(default_factory=list)  # to each output, when only the recording has it
    by_value: dict[int, bytes] = field(default_factory=dict)  # what the memory of 0-D inputs of the host holds
    expected: list[int | None] | None = None  # the addresses, where launching is all that there is to do
    write: Callable[[], None] | None = None  # to arguments, when no flag is set
    gives_copies: bool = False  # its own results are never given out

    def is_free(self, device: Device) -> bool:
        """Has nobody else a reference to a result?"""
        return self.gives_copies or device.references(self.outputs) == self.references

    def run(self, device: Device, inputs: Sequence[Any]) -> list[Any]:
        for k, memory in self.copied.items():
            given = inputs[k]
            if not device.is_array(given):
                content = given.tobytes()
                if self.by_value.get(k) == content:
                    continue
                self.by_value[k] = content
            device.assign(memory, given)
        self.launch()
        for flag in self.flags:
            check(device, flag)
        if self.write is not None:
            self.write()
        return [copy_of(device, x) for x in self.outputs] if self.gives_copies else [*self.outputs]


@dataclass(slots=True, eq=False)
class Known:
    """Recordings for one combination of sizes, layouts and stream."""

    free: deque[Recording] = field(default_factory=deque)  # that no thread is running now
    made: int = 0
    bytes: int = 0  # of the results
    moved: set[int] = field(default_factory=set)  # inputs that were seen at several addresses, and can be copied
    ready: frozenset[int] | None = None  # inputs that were copied in the last run that was not recorded


@dataclass(slots=True, eq=False, weakref_slot=True)
class Replayed:
    """A program whose launches are recorded at its second run, and repeated from then on.

    `written`: inputs that it writes to. `most_bytes`: of inputs and results together, else it is not recorded.
    """

    written: frozenset[int]
    runner: Callable[[Device, Sequence[Any], Sequence[Any]], list[Any]]  # the last are what else it depends on
    most_bytes: int | None = None
    known: dict[tuple, Known] = field(default_factory=dict)
    refused: bool = False

    def __post_init__(self) -> None:
        caches.add(self)

    def release(self) -> None:
        """Memory is short: recordings go, and the memory that they have."""
        for known in self.known.values():  # others may know of it
            known.free.clear()
        self.known.clear()

    def run(self, device: Device, inputs: Sequence[Any], symbols: Sequence[Any]) -> list[Any]:
        if self.refused or CAPTURING.flags is not None:  # a part of what is being recorded
            return self.runner(device, inputs, symbols)
        addresses = device.addresses(inputs)
        key = (device.stream(), tuple(symbols), tuple([x.strides for x in inputs]))
        known = self.known.get(key)
        if known is None:
            if len(self.known) >= MOST_KEYS:
                self.release()
            known = self.known[key] = Known()
        elif (results := self.again(device, known, addresses)) is not None:
            return results
        recording = self.find(device, known, inputs, addresses)
        if recording is None:
            gives_copies = known.made >= MOST_RECORDINGS
            if gives_copies and (known.made >= MOST_RECORDINGS + MOST_COPYING or known.bytes > MOST_COPIED):
                return self.runner(device, inputs, symbols)
            copied = frozenset(k for k, x in enumerate(inputs) if k in known.moved or not device.is_array(x))
            if known.ready != copied:  # kernels are compiled, and libraries started, before anything is recorded
                given = [copy_of(device, x) if k in copied else x for k, x in enumerate(inputs)]
                results = self.runner(device, given, symbols)
                known.ready = copied
                if self.most_bytes is not None and sum(x.nbytes for x in (*inputs, *results)) > self.most_bytes:
                    known.made = MOST_RECORDINGS + MOST_COPYING
                return results
            recording = self.record(device, inputs, symbols, copied)
            if recording is None:
                return self.runner(device, inputs, symbols)
            if gives_copies:
                recording.gives_copies, recording.expected = True, None
            known.made += 1
            known.bytes = sum(x.nbytes for x in recording.outputs)
        try:
            return recording.run(device, inputs)
        finally:
            known.free.append(recording)

    def again(self, device: Device, known: Known, addresses: list[int | None]) -> list[Any] | None:
        """The results, where launching is all that there is to do: the way of most calls, which is to be short."""
        try:
            recording = known.free.pop()  # no other thread has it now
        except IndexError:
            return None
        try:
            if recording.expected == addresses and recording.is_free(device):
                recording.launch()
                return [*recording.outputs]
        finally:
            known.free.append(recording)
        return None

    def find(self, device: Device, known: Known, inputs: Sequence[Any], addresses: Sequence[int | None]) -> Recording | None:
        """A recording for these inputs whose results nobody uses. One gives way where copying inputs would have helped."""
        kept: list[Recording] = []
        found = None
        while found is None:
            try:
                recording = known.free.pop()  # no other thread has it now
            except IndexError:
                break
            if not recording.is_free(device):
                kept.append(recording)
                continue
            moved = {k for k, a in recording.addresses.items() if addresses[k] != a}
            if not moved:
                found = recording
            elif all(map(self.can_copy, moved, [inputs[k] for k in moved])):
                known.moved |= moved
                known.made -= 1
            else:
                kept.append(recording)
        known.free.extendleft(kept)
        return found

    def can_copy(self, index: int, value: Any) -> bool:
        """What is written to is not copied, nor what has gaps."""
        return index not in self.written and is_dense(value)

    def record(self, device: Device, inputs: Sequence[Any], symbols: Sequence[Any], copied: frozenset[int]) -> Recording | None:
        copies = {k: device.empty(inputs[k].shape, inputs[k].dtype, inputs[k].strides) for k in copied}
        given = [copies.get(k, x) for k, x in enumerate(inputs)]
        write: Callable[[], None] | None = None

        def run() -> list[Any]:
            results = self.runner(device, given, symbols)
            if not flags:
                do_all(CAPTURING.writes)
            return results

        with capturing() as flags:
            try:
                outputs, launch = device.capture(run)
                if flags and CAPTURING.writes:
                    _, write = device.capture(lambda: do_all(CAPTURING.writes))
            except CannotCapture:
                self.refused = True
                self.known.clear()
                return None
        fixed = {k: a for k, a in enumerate(device.addresses(inputs)) if k not in copied}
        made = Recording(fixed, copies, list(outputs), launch, flags, write=write)
        del outputs
        made.references = device.references(made.outputs)
        if not copies and not flags:
            made.expected = device.addresses(inputs)
        return made


def do_all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


def overwrite(device: Device, target: Any, value: Any) -> None:
    """The contents of `value` for those of `target`: a plain copy where both lie alike."""
    if target.strides == value.strides and target.dtype == value.dtype and is_dense(target):
        device.assign(target, value)
        if LISTING.lister is not None:
            LISTING.lister.add_copy(target, value)
    else:
        target[...] = value
        if LISTING.lister is not None:
            LISTING.lister.refuse()


def copy_of(device: Device, value: Any) -> Any:
    made = device.empty(value.shape, value.dtype, value.strides)
    device.assign(made, value)
    return made


def asks_the_host(graph: Graph) -> bool:
    """Does the host decide what is launched, by values that are computed?"""
    return any(n.op in ("cond", "while_loop") or any(map(asks_the_host, subgraphs(n).values())) for n in graph.nodes)


def is_dense(x: Any) -> bool:
    """Does the array take just the memory that its elements need?"""
    extent = sum((n - 1) * s for n, s in zip(x.shape, x.strides)) + x.dtype.itemsize
    return not x.size or min(x.strides, default=0) >= 0 and extent == x.size * x.dtype.itemsize


class BadIndex(Exception):
    """A kernel met an index out of bounds; nothing is written yet."""


def check(device: Device, flag: Any) -> None:
    """Raises BadIndex where a kernel has set the flag. A recording asks when it has run."""
    if CAPTURING.flags is not None:
        CAPTURING.flags.append(flag)
        return
    value = np.empty(1, np.int32)
    device.download(flag, value)
    if value[0]:
        raise BadIndex
