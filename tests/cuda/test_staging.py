"""Big copies in pieces: pinned buffers are not used again before the device, or a thread, is done with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.runtime.device import current_device
from npcompile.backends.cuda.runtime.staging import LEAST, PIECE, Staging, bytes_of


class LateTransport:
    """A device whose copies are made as late as they may be: when somebody waits for an event behind them."""

    def __init__(self, size: int):
        self.memory = np.zeros(size, np.uint8)
        self.queue: list[Callable[[], None]] = []
        self.done = 0
        self.lock = threading.Lock()

    def pinned(self, size: int) -> np.ndarray:
        return np.zeros(size, np.uint8)

    def send(self, address: int, buffer: np.ndarray) -> None:
        self.queue.append(lambda: np.copyto(self.memory[address : address + len(buffer)], buffer))

    def receive(self, buffer: np.ndarray, address: int) -> None:
        self.queue.append(lambda: np.copyto(buffer, self.memory[address : address + len(buffer)]))

    def record(self) -> LateEvent:
        return LateEvent(self, len(self.queue))

    def run(self, until: int) -> None:
        with self.lock:
            for copy in self.queue[self.done : until]:
                copy()
            self.done = max(self.done, until)


class LateEvent:
    def __init__(self, transport: LateTransport, number: int):
        self.transport, self.number = transport, number

    def synchronize(self) -> None:
        self.transport.run(self.number)


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 250, 1000, 5000])
@pytest.mark.parametrize("threads", [1, 3])
def test_there_and_back(threads: int, size: int) -> None:
    rng = np.random.default_rng(size)
    transport = LateTransport(size + 7)
    staging = Staging(transport, threads, piece=100)
    for _ in range(3):
        host = rng.integers(0, 256, size, np.uint8)
        sent = host.copy()
        assert staging.upload(7, sent)
        sent[...] = 0  # the caller may write to it at once
        out = np.zeros(size, np.uint8)
        assert staging.download(7, out)
        np.testing.assert_array_equal(out, host)
        assert all(slot.copied is None for slot in staging.slots) and len(staging.slots) == 2 * threads


def test_uploads_behind_each_other() -> None:
    """Nobody waits for the device between them."""
    transport = LateTransport(3000)
    staging = Staging(transport, 2, piece=100)
    sources = [np.full(1000, k, np.uint8) for k in (1, 2, 3)]
    for k, source in enumerate(sources):
        assert staging.upload(1000 * k, source)
        source[...] = 0
    transport.run(len(transport.queue))
    np.testing.assert_array_equal(transport.memory, np.repeat([1, 2, 3], 1000))


def test_one_copy_at_a_time() -> None:
    staging = Staging(LateTransport(10), 1)
    with staging.lock:
        assert not staging.upload(0, np.zeros(10, np.uint8)) and not staging.download(0, np.zeros(10, np.uint8))
    assert staging.upload(0, np.zeros(10, np.uint8))


def test_without_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def pinned(size: int) -> np.ndarray:
        raise MemoryError

    transport = LateTransport(10)
    monkeypatch.setattr(transport, "pinned", pinned)
    staging = Staging(transport, 1)
    assert not staging.upload(0, np.zeros(10, np.uint8))
    monkeypatch.undo()
    assert staging.upload(0, np.zeros(10, np.uint8))


def test_an_error_leaves_it_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = LateTransport(1000)
    staging = Staging(transport, 2, piece=100)

    def broken(*_: Any) -> None:
        raise OSError("no bus")

    for method, copy in (("send", staging.upload), ("receive", staging.download)):
        with monkeypatch.context() as patch:
            patch.setattr(transport, method, broken)
            with pytest.raises(OSError, match="no bus"):
                copy(0, np.zeros(1000, np.uint8))
        assert all(slot.copied is None for slot in staging.slots)
        assert copy(0, np.zeros(1000, np.uint8))


def test_bytes_of_every_order() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for array in (x, x.transpose(1, 0, 2).copy().transpose(1, 0, 2), np.asfortranarray(x), x.astype(np.complex64), x > 3):
        found = bytes_of(array)
        assert found.tobytes() == array.ravel(order="K").tobytes() and np.shares_memory(found, array)


# --- on a device


@pytest.mark.parametrize("size", [LEAST - 8, LEAST, LEAST + 8, 50 * PIECE + 24])
@pytest.mark.gpu
def test_a_device(size: int) -> None:
    device = current_device()
    x = np.random.default_rng(0).standard_normal(size // 8)
    original = x.copy()
    there = device.upload(x)
    x[...] = 0
    twice = there * 2
    out = np.empty_like(x)
    device.download(twice, out)
    np.testing.assert_array_equal(out, original * 2)
    stream = device.library.cuda.Stream(non_blocking=True)
    with stream:
        again = device.upload(original)
        device.download(again, out)
    np.testing.assert_array_equal(out, original)
