"""Calls that come as before take a shorter way, which sees what has changed."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.runtime.device import Maker
from npcompile.backends.cuda.runtime.launch import Argument, Step
from npcompile.backends.cuda.runtime.quick import Quick
from npcompile.backends.cuda.runtime.recipe import Phase, Recipe, key_of_call
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.meta import contiguous_strides
from tests.backends import gpu
from tests.cuda.test_launch import Driver, driver  # noqa: F401  (a fixture)
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)

X = np.random.default_rng(0).standard_normal((12, 16))
MODES = ("default", "reduce-overhead")


@pytest.mark.parametrize("mode", MODES)
def test_layouts_sizes_and_places_in_turn(there: There, mode: str) -> None:  # noqa: F811
    f = npc.compile(lambda x, y: (x * 2 + y, (x - y).sum(axis=0)), mode=mode)
    wide = there.put(np.pad(X, ((0, 0), (0, 9))))
    for _ in range(3):
        for x in (X, np.asfortranarray(X), X[:5], X[:, ::-1], X[::3]):
            for _ in range(3):
                same(there.get(f(there.put(x), there.put(x + 1))), (x * 2 + (x + 1), (x - (x + 1)).sum(axis=0)))
        for first in (0, 1, 2, 3):  # addresses that are multiples of 16 bytes, and some that are not
            y = wide[:, first : first + 16]
            h = np.pad(X, ((0, 0), (0, 9)))[:, first : first + 16]
            for _ in range(2):
                same(there.get(f(y, y)), (h * 2 + h, (h - h).sum(axis=0)))


@pytest.mark.parametrize("mode", MODES)
def test_results_are_arrays_of_their_own(there: There, mode: str) -> None:  # noqa: F811
    f = npc.compile(lambda x: x + 1, mode=mode)
    held = [(k, f(there.put(X * k))) for k in range(12)]
    for k, y in held:
        same(there.get(y), X * k + 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("numbers", [(1.5, -0.0, 2.5, float("nan"), 1e300), (1, 2, -3, 4, 5), (1j, 2 + 3j, -0.5j, 1j, 2j)])
def test_numbers(numbers: Any, mode: str, there: There) -> None:  # noqa: F811
    f = npc.compile(lambda x, a: x * a + a, mode=mode)
    x = there.put(X)
    with np.errstate(all="ignore"):
        for a in [n for n in numbers for _ in range(2)]:
            same(there.get(f(x, a)), X * a + a)
        for a in numbers:
            scalar = np.asarray(a)[()]
            same(there.get(f(x, scalar)), X * scalar + scalar)


@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_are_written_to(there: There, mode: str) -> None:  # noqa: F811
    def step(x: Any, y: Any) -> Any:
        x += y * 2
        return x.sum()

    f = npc.compile(step, mode=mode)
    x, expected = there.put(X), X.copy()
    for k in range(6):
        y = X + k
        same(there.get(f(x, there.put(y))), step(expected, y))
        same(there.get(x), expected)


def test_hosts_and_devices_in_turn(there: There) -> None:  # noqa: F811
    f = npc.compile(lambda x, y: np.exp(-x) * y)
    for _ in range(3):
        same(there.get(f(there.put(X), there.put(X))), np.exp(-X) * X)
        same(there.get(f(X, X)), np.exp(-X) * X)
        same(there.get(f(there.put(X), there.put(X))), np.exp(-X) * X)


@gpu
def test_errors_are_numpys_after_quick_calls() -> None:
    cupy = pytest.importorskip("cupy")
    f = npc.compile(lambda x: 1 / x)
    x = cupy.arange(5.0)
    for _ in range(4):
        f(x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        f(x)


@gpu
@pytest.mark.parametrize("mode", MODES)
def test_streams_and_threads(mode: str) -> None:
    cupy = pytest.importorskip("cupy")
    f = npc.compile(lambda x: np.sqrt(x) + x, mode=mode)
    failed: list[int] = []

    def work(k: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for j in range(50):
                x = cupy.full(1000, float(k * 50 + j))
                y = f(x)
                stream.synchronize()
                if not (y.get() == np.sqrt(k * 50.0 + j) + (k * 50 + j)).all():
                    failed.append(j)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@gpu
def test_quick_calls_are_taken() -> None:
    cupy = pytest.importorskip("cupy")
    from npcompile.backends.cuda.runtime import quick

    f = npc.compile(lambda x, a: (x * a).sum(axis=1) + 1)
    before = set(quick.everywhere)
    x = cupy.ones((8, 8))
    for _ in range(4):
        f(x, 2.5)
    (made,) = set(quick.everywhere) - before
    assert len(made.ready) == 1 and made.attempts <= 1


class HostArray:
    """What CuPy's arrays are asked for."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, data: Any):
        self.shape, self.dtype, self.data = shape, dtype, data
        self.strides = contiguous_strides(shape, dtype.itemsize)


def test_no_memory_is_left_to_the_general_way(driver: Driver) -> None:  # noqa: F811
    room = itertools.count(4096, 4096)
    wanted: list[int] = []

    def alloc(size: int) -> Any:
        wanted.append(size)
        if len(wanted) == 2:
            raise MemoryError
        return SimpleNamespace(ptr=next(room))

    cuda = driver.library.cuda
    cuda.alloc, cuda.runtime.getDevice = alloc, lambda: 0
    driver.library.ndarray = HostArray
    device = SimpleNamespace(library=driver.library, number=0, blas_handle=lambda: 0)
    device.addresses = lambda arrays: [x.data.ptr for x in arrays]
    builder = Builder()
    x = builder.input(TensorMeta((5,), np.dtype(float)))
    graph = builder.finish([builder.apply("sin", x)])
    step = Step(driver.function(7, ("*fp64", "*fp64")), 1, (Argument(0), Argument(1, 8)))
    recipe = Recipe([], [Maker(device, (5,), np.dtype(float), None, 40)], None, [Phase.of([step])])  # type: ignore[arg-type]
    given = HostArray((5,), np.dtype(float), SimpleNamespace(ptr=512))
    program = SimpleNamespace(recipes={key_of_call([given], [512], ()): recipe})
    calls: list[Any] = []
    quick = Quick(device, graph, program, lambda *args: (calls.append(args), "by the general way")[1:])
    call = quick.call()
    driver.set(parameters=2)
    assert call(given) == ("by the general way",)  # nothing was ready
    (made,) = call(given)
    assert isinstance(made, HostArray) and wanted == [40] and len(calls) == 1
    assert [list(r.parameters[:2]) for r in driver.records()] == [[512, made.data.ptr + 8]]
    assert call(given) == ("by the general way",) and len(calls) == 2  # no memory
    call(given)
    assert len(calls) == 2 and len(driver.records()) == 2
    misaligned = HostArray((5,), np.dtype(float), SimpleNamespace(ptr=520))
    assert call(misaligned) == ("by the general way",)
