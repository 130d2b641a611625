"""Memory of the device: plans of buffers, running out of it, several devices, processes that were forked."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npcompile.backends.cuda import device as cuda_device
from npcompile.backends.cuda import memory
from npcompile.backends.cuda.device import ForkedDevice, NoDevice, device_number, named_device
from npcompile.backends.cuda.memory import Lifetime, plan_memory, retried


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    steps = draw(st.integers(1, 12))
    sizes = st.integers(0, 3000) | st.sampled_from([0, 1, 512, 513, 1024, 2**40])
    made = []
    for _ in range(draw(st.integers(0, 20))):
        first = draw(st.integers(0, steps - 1))
        made.append(Lifetime(draw(sizes), first, draw(st.integers(first, steps - 1))))
    return made


@given(lifetimes(), st.sampled_from([1, 16, 512]))
def test_buffers_of_one_time_share_no_byte(buffers: list[Lifetime], alignment: int) -> None:
    offsets, size = plan_memory(buffers, alignment)
    assert len(offsets) == len(buffers)
    for k, (a, start) in enumerate(zip(buffers, offsets)):
        assert start % alignment == 0 and 0 <= start and start + a.size <= size
        for b, other in zip(buffers[:k], offsets):
            if a.meets(b) and a.size and b.size:
                assert start + a.size <= other or other + b.size <= start, (a, start, b, other)
    at_once = [sum(b.size for b in buffers if b.first <= step <= b.last) for step in range(12)]
    apart = sum(-(-b.size // alignment) * alignment for b in buffers)
    assert max(at_once) <= size <= apart


def test_a_chain_needs_two_buffers() -> None:
    """Each step reads the result of the one before it."""
    buffers = [Lifetime(4096, k, k + 1) for k in range(50)]
    assert plan_memory(buffers)[1] == 2 * 4096


def test_the_least_gap_is_taken() -> None:
    buffers = [Lifetime(4000, 0, 9), Lifetime(3000, 0, 1), Lifetime(2000, 0, 9), Lifetime(1000, 0, 1), Lifetime(900, 0, 9)]
    offsets, size = plan_memory([*buffers, Lifetime(900, 5, 9)], 100)
    assert offsets[5] == offsets[3] and size == plan_memory(buffers, 100)[1]


# --- running out of memory


class Cache:
    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_one_retry_with_caches_released(failures: int) -> None:
    cache, calls = Cache(), []
    memory.caches.add(cache)
    freed: list[int] = []

    def allocate() -> str:
        calls.append(1)
        if len(calls) <= failures:
            raise MemoryError("no 1,024 bytes.")
        return "memory"

    if failures == 2:
        with pytest.raises(MemoryError, match=r"no 1,024 bytes\. 7 bytes are used") as caught:
            retried(allocate, lambda: freed.append(1), lambda: "7 bytes are used")
        assert caught.value.__context__ is None  # whose frames would keep arrays alive
    else:
        assert retried(allocate, lambda: freed.append(1), lambda: "") == "memory"
    assert cache.released == len(freed) == min(failures, 1)


def test_caches_are_not_kept_alive() -> None:
    cache = Cache()
    memory.caches.add(cache)
    alive = weakref.ref(cache)
    del cache
    gc.collect()
    assert alive() is None


# --- devices by name


class Runtime:
    """What CuPy's runtime says on a machine with two devices."""

    CUDARuntimeError = type("CUDARuntimeError", (RuntimeError,), {})
    getDevice = staticmethod(lambda: 1)
    getDeviceCount = staticmethod(lambda: 2)


class FakeContext:
    compute_capability = "90"

    def __init__(self, number: int):
        self.number = number


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=Runtime, Device=FakeContext))
    monkeypatch.setattr(cuda_device, "import_cupy", lambda: cupy)
    monkeypatch.setattr(cuda_device.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(cuda_device, "start_ahead", lambda: None)
    monkeypatch.setattr(cuda_device.launch, "prepare", lambda: None)
    monkeypatch.setattr(cuda_device, "_devices", {})


@pytest.mark.parametrize(("name", "number"), [("cuda", None), ("cuda:0", 0), ("cuda:12", 12)])
def test_numbers_of_devices(name: str, number: int | None) -> None:
    assert device_number(name) == number


@pytest.mark.parametrize("name", ["cpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1 ", "CUDA", "xcuda"])
def test_names_of_no_device(name: str) -> None:
    with pytest.raises(ValueError, match=r'unknown device .*"cuda:1"'):
        named_device(name)


def test_devices_by_name(two_devices: None) -> None:
    assert named_device("cuda").name == "cuda:1"  # the current one
    assert named_device("cuda:1") is named_device("cuda")
    first = named_device("cuda:0")
    assert first.number == 0 and first.architecture == 90
    assert isinstance(first.use(), FakeContext) and not isinstance(named_device("cuda:1").use(), FakeContext)
    with pytest.raises(NoDevice, match='no device "cuda:2": this machine has 2 CUDA devices, the last is "cuda:1"'):
        named_device("cuda:2")


def test_a_forked_child_is_told(two_devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    used = named_device("cuda:0")
    cuda_device.forget_after_fork()
    assert type(used) is ForkedDevice
    uses: list[Callable[[], Any]] = [
        lambda: named_device("cuda:0"),
        lambda: used.empty((3,), np.dtype(float), (8,)),
        lambda: used.upload(np.zeros(3)),
        lambda: used.use(),
        lambda: used.load([]),
    ]
    for use in uses:
        with pytest.raises(NoDevice, match=r"forked from one that had used it.*spawn"):
            use()
    monkeypatch.setattr(Runtime, "getDevice", staticmethod(fail))
    with pytest.raises(NoDevice, match="forked"):
        named_device("cuda")


def fail() -> None:
    raise Runtime.CUDARuntimeError("cudaErrorInitializationError")
