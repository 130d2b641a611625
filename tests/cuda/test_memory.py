"""Memory of the device: plans of buffers, running out of it, several devices, processes that were forked."""

from __future__ import annotations

import gc
import os
import signal
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npcompile as npc
from npcompile import devices
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.backends.cuda.runtime import memory
from npcompile.backends.cuda.runtime.device import CupyDevice, ForkedDevice, NoDevice, copy_to, device_number, named_device
from npcompile.backends.cuda.runtime.memory import Lifetime, plan_memory, retried
from tests.cuda.numpy_library import StrictDevice


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
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=Runtime, Device=FakeContext, get_current_stream=None))
    monkeypatch.setattr(cuda_device, "import_cupy", lambda: cupy)
    monkeypatch.setattr(cuda_device.importlib.util, "find_spec", lambda name: name)
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


# --- every allocation fails once


class FailingDevice(StrictDevice):
    """An allocation, counted from 0, fails: once, or from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.fails_at, self.goes_on = 0, -1, False

    def fail(self, at: int, goes_on: bool) -> None:
        self.count, self.fails_at, self.goes_on = 0, at, goes_on

    def attempt(self, call: Callable[[], Any]) -> Any:
        def counted() -> Any:
            number, self.count = self.count, self.count + 1
            if 0 <= self.fails_at <= number and (self.goes_on or number == self.fails_at):
                raise MemoryError("no memory")
            return call()

        return retried(counted, lambda: None, lambda: "for 12 bytes")

    def empty(self, *args: Any) -> Any:
        return self.attempt(lambda: super(FailingDevice, self).empty(*args))

    def zeros(self, *args: Any) -> Any:
        return self.attempt(lambda: super(FailingDevice, self).zeros(*args))


def shift(x: np.ndarray, y: np.ndarray) -> Any:
    x += y.mean(0)
    y[1:] = x[:-1] * 2
    return x.sum(), y.T @ x


def pick(x: np.ndarray, at: np.ndarray) -> Any:
    x[at] = x[at] * 2
    return np.sort(x, 0), np.cumsum(x, 1)


def layer(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
    return np.maximum(x @ w + b, 0).sum(0), np.linalg.inv(w.T @ w)


def loop(x: np.ndarray) -> Any:
    return npc.fori_loop(0, 2, lambda i, c: npc.cond(c.sum() > 0, lambda a: a @ a.T @ a + i, np.cos, c), x)


Y = np.random.default_rng(0).standard_normal((12, 10))
PROGRAMS: list[tuple[Callable[..., Any], list[np.ndarray]]] = [
    (shift, [Y, Y[::-1] * 2]),
    (pick, [Y, np.array([3, -1, 0])]),
    (layer, [Y, Y[:10], Y[0]]),
    (loop, [Y]),
]


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_every_allocation_fails(
    function: Callable[..., Any], arguments: list[np.ndarray], goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right values, or MemoryError with arguments as they were; and the function works afterwards."""
    device = FailingDevice()
    monkeypatch.setattr(cuda_device, "current_device", lambda: device)
    monkeypatch.setattr(devices, "_in_use", [])
    fail_each_allocation(function, arguments, goes_on, device, "no memory for 12 bytes")


def fail_each_allocation(
    function: Callable[..., Any], arguments: list[np.ndarray], goes_on: bool, allocator: Any, message: str
) -> None:
    expected = outcome(function, arguments)
    compiled = npc.compile(function)
    failures = 0
    with npc.device("cuda"):
        for number in range(200):
            if goes_on:  # when it is compiled; else when it is known
                compiled = npc.compile(function)
            ours = [x.copy() for x in arguments]
            allocator.fail(number, goes_on)
            try:
                got = compiled(*ours)
            except MemoryError as error:
                assert goes_on and message in str(error)
                is_same([ours], [arguments])
            else:
                is_same([got, ours], expected)
            is_met = allocator.count > number
            failures += is_met
            allocator.fail(-1, False)
            if goes_on or not is_met:
                is_same(outcome(compiled, arguments), expected)
            if not is_met:
                break
    assert failures > 4 and not is_met


def outcome(function: Callable[..., Any], arguments: list[np.ndarray]) -> list[Any]:
    given = [x.copy() for x in arguments]
    return [function(*given), given]


def is_same(got: Any, expected: Any) -> None:
    if isinstance(expected, (list, tuple)):
        for a, b in zip(got, expected, strict=True):
            is_same(a, b)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


# --- on a device


@pytest.fixture
def gpu() -> CupyDevice:
    return cuda_device.current_device()


@pytest.mark.gpu
def test_no_memory_on_a_device(gpu: CupyDevice) -> None:
    """CuPy's pool has a limit: the error says how much was asked for, and the function works when there is more."""
    cupy = gpu.library
    pool = cupy.get_default_memory_pool()
    x = cupy.arange(4 << 20, dtype=np.float64)
    compiled = npc.compile(lambda x: np.multiply(x, 2, out=x).cumsum() - x[::-1])
    memory.release_caches()  # those of tests before: else they make room for it
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.used_bytes() + (16 << 20))
    try:
        with pytest.raises(MemoryError, match=r"33,554,432 bytes.*arrays of this process use [\d,]+ bytes.* [\d,]+ of [\d,]+"):
            compiled(x)
        np.testing.assert_array_equal(x.get(), np.arange(4 << 20))
        kept = cupy.empty(8 << 20, np.uint8)
        holder = Holder(kept)
        memory.caches.add(holder)
        pool.free_all_blocks()
        pool.set_limit(size=pool.total_bytes() + (31 << 20))
        del kept
        np.testing.assert_array_equal(gpu.empty((4 << 20,), np.dtype(float), (8,)).shape, (4 << 20,))
        assert holder.memory is None
    finally:
        pool.set_limit(size=before)
    y = np.arange(4 << 20) * 2.0
    np.testing.assert_allclose(compiled(x).get(), np.cumsum(y) - y[::-1])


class Holder:
    def __init__(self, held: Any) -> None:
        self.memory = held

    def release(self) -> None:
        self.memory = None


class FailingAllocator:
    """CuPy's pool, of which an allocation fails: once, or from then on."""

    def __init__(self, cupy: Any):
        self.cupy, self.malloc = cupy, cupy.get_default_memory_pool().malloc
        self.fail(-1, False)

    def fail(self, at: int, goes_on: bool) -> None:
        self.count, self.fails_at, self.goes_on = 0, at, goes_on

    def __call__(self, size: int) -> Any:
        number, self.count = self.count, self.count + 1
        if 0 <= self.fails_at <= number and (self.goes_on or number == self.fails_at):
            raise self.cupy.cuda.memory.OutOfMemoryError(size, 12)
        return self.malloc(size)


@pytest.mark.gpu
@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_every_allocation_fails_on_a_device(
    function: Callable[..., Any], arguments: list[np.ndarray], goes_on: bool, gpu: CupyDevice
) -> None:
    allocator = FailingAllocator(gpu.library)
    with gpu.library.cuda.using_allocator(allocator):
        fail_each_allocation(function, arguments, goes_on, allocator, "Out of memory allocating")


@pytest.mark.gpu
def test_copies_between_devices(gpu: CupyDevice) -> None:
    count = cuda_device.device_count()
    with pytest.raises(NoDevice, match=f'no device "cuda:{count}".*the last is "cuda:{count - 1}"'):
        named_device(f"cuda:{count}")
    other = named_device(f"cuda:{count - 1}")  # with one device, itself
    x = np.random.default_rng(0).standard_normal((300, 400))
    for layout in (lambda a: a, lambda a: a.T, lambda a: a[:, ::-3]):
        here = gpu.upload(x)
        there = copy_to(layout(here), other)
        assert there.device.id == other.number and cuda_device.device_of(there) is other
        here[...] = 0  # it was read before
        np.testing.assert_array_equal(there.get(), layout(x))
        back = copy_to(there, gpu)
        assert back.device.id == gpu.number and back.strides == there.strides
        np.testing.assert_array_equal(back.get(), layout(x))
    compiled = npc.compile(lambda a: np.sin(a) @ a.T)
    with npc.device(other.name):
        np.testing.assert_allclose(compiled(x), np.sin(x) @ x.T)
    with npc.device("cuda"):
        np.testing.assert_allclose(compiled(x), np.sin(x) @ x.T)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_on_a_machine_with_a_device(gpu: CupyDevice) -> None:
    compiled = npc.compile(lambda x: x * 2 + 1)
    with npc.device("cuda"):
        np.testing.assert_array_equal(compiled(Y), Y * 2 + 1)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # it must not hang
            try:
                compiled(Y)
                os.write(writing, b"no error")
            except RuntimeError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        said = os.read(reading, 1000).decode()
        os.waitpid(child, 0)
        assert "forked from one that had used it" in said, said
        np.testing.assert_array_equal(compiled(Y), Y * 2 + 1)
