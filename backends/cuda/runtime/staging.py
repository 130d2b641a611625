"""Big copies between NumPy's memory and a device: in pieces, through pinned buffers that threads fill or empty.

The driver copies from and to pageable memory with one thread, which is slower than the bus. Here several threads copy
between this memory and pinned buffers while the device copies others, and touch the new pages of results together.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from npcompile.backends.cpu.threads import thread_limit

LEAST = 4 << 20  # bytes: below, the driver's own copy is as fast
PIECE = 2 << 20
MOST_THREADS = 8


class Transport(Protocol):
    """What copies between pinned buffers and a device, on one stream."""

    def pinned(self, size: int) -> np.ndarray: ...  # bytes; raises MemoryError
    def send(self, address: int, buffer: np.ndarray) -> None: ...  # to the device, not waited for
    def receive(self, buffer: np.ndarray, address: int) -> None: ...
    def record(self) -> Any: ...  # an event: its synchronize() returns when the copies before it are done


@dataclass(slots=True, eq=False)
class Slot:
    """A pinned buffer, and who has it."""

    buffer: np.ndarray
    event: Any = None  # the device is done with it after this
    copied: Future[None] | None = None  # a thread is


@dataclass(slots=True, eq=False)
class Staging:
    """Copies for one device, one at a time. A second thread is told to use the driver's own."""

    transport: Transport
    threads: int = field(default_factory=lambda: min(MOST_THREADS, thread_limit()))
    piece: int = PIECE
    slots: list[Slot] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    pool: ThreadPoolExecutor | None = None

    def upload(self, address: int, host: np.ndarray) -> bool:
        """Copy bytes of the host to an address of the device. They may be changed when this returns.

        False if nothing was copied: the memory or the buffers are not there.
        """
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if not self.prepare():
                return False
            waiting: deque[tuple[Slot, int, int]] = deque()
            for k, start in enumerate(range(0, len(host), self.piece)):
                if len(waiting) == len(self.slots):
                    self.send(address, *waiting.popleft())
                slot = self.slots[k % len(self.slots)]
                stop = min(start + self.piece, len(host))
                slot.copied = self.submit(fill, slot.buffer[: stop - start], host[start:stop], slot.event)
                waiting.append((slot, start, stop))
            while waiting:
                self.send(address, *waiting.popleft())
            return True
        finally:
            self.finish()

    def send(self, address: int, slot: Slot, start: int, stop: int) -> None:
        assert slot.copied is not None
        slot.copied.result()
        self.transport.send(address + start, slot.buffer[: stop - start])
        slot.event = self.transport.record()

    def download(self, address: int, out: np.ndarray) -> bool:
        """Copy from an address of the device to bytes of the host, which are there when this returns. False as `upload`."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if not self.prepare():
                return False
            for k, start in enumerate(range(0, len(out), self.piece)):
                slot = self.slots[k % len(self.slots)]
                stop = min(start + self.piece, len(out))
                if slot.copied is not None:
                    slot.copied.result()
                elif slot.event is not None:  # of an earlier copy, maybe on another stream
                    slot.event.synchronize()
                self.transport.receive(slot.buffer[: stop - start], address + start)
                slot.event = self.transport.record()
                slot.copied = self.submit(fill, out[start:stop], slot.buffer[: stop - start], slot.event)
            return True
        finally:
            self.finish()

    def prepare(self) -> bool:
        """Have buffers, twice as many as threads: one half is copied by these, the other by the device."""
        try:
            while len(self.slots) < 2 * self.threads:
                self.slots.append(Slot(self.transport.pinned(self.piece)))
        except MemoryError:
            self.slots.clear()
        return bool(self.slots)

    def submit(self, *call: Any) -> Future[None]:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.threads, "npcompile-copies")
        return self.pool.submit(*call)

    def finish(self) -> None:
        """No thread copies any more, whatever was raised: the memory of the host may go."""
        running = [slot.copied for slot in self.slots if slot.copied is not None]
        wait(running)
        for slot in self.slots:
            slot.copied = None
        self.lock.release()
        for copied in running:
            copied.result()


def fill(target: np.ndarray, source: np.ndarray, event: Any) -> None:
    """Copy once the device is done with the buffer among the two. NumPy lets other threads run meanwhile."""
    if event is not None:
        event.synchronize()
    target[...] = source


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of an array without gaps, whatever its order of axes. The array has to live as long as these are used."""
    return np.frombuffer((ctypes.c_char * array.nbytes).from_address(array.ctypes.data), np.uint8)


@dataclass(frozen=True, slots=True)
class CupyTransport:
    """Copies on CuPy's current stream."""

    cupy: Any

    def pinned(self, size: int) -> np.ndarray:
        runtime = self.cupy.cuda.runtime
        try:
            return np.frombuffer(self.cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        except runtime.CUDARuntimeError as error:
            raise MemoryError(f"no {size:,} bytes of pinned memory: {error}") from None

    def send(self, address: int, buffer: np.ndarray) -> None:
        self.copy(address, buffer.ctypes.data, buffer.nbytes, self.cupy.cuda.runtime.memcpyHostToDevice)

    def receive(self, buffer: np.ndarray, address: int) -> None:
        self.copy(buffer.ctypes.data, address, buffer.nbytes, self.cupy.cuda.runtime.memcpyDeviceToHost)

    def copy(self, target: int, source: int, size: int, kind: int) -> None:
        self.cupy.cuda.runtime.memcpyAsync(target, source, size, kind, self.cupy.cuda.get_current_stream().ptr)

    def record(self) -> Any:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.cupy.cuda.get_current_stream())
        return event
