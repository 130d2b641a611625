"""How launches reach the driver: against one that writes down what it is asked for, and on a device."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loader import NoCompiler, loader
from npcompile.backends.cuda.runtime import launch
from npcompile.backends.cuda.runtime.launch import Argument, Batch, Copy, Function, Step, load_native, make_run
from tests.backends import gpu

DRIVER = """
#include <stdint.h>
#include <string.h>
#define STREAM 0x123456789ABC
enum { MOST = 64 };
struct record { uint64_t function, stream; uint32_t grid[3], block[3], shared; uint64_t parameters[MOST]; };
struct record records[4096];
int32_t count = 0, parameters = 0, answer = 0, answers = 0; /* `answers` calls give `answer` */
int cuLaunchKernel(void* f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared,
                   void* stream, void** given, void** extra) {
  if (answers) { answers--; return answer; }
  struct record* r = &records[count++];
  *r = (struct record){(uint64_t)f, (uint64_t)stream, {gx, gy, gz}, {bx, by, bz}, shared};
  for (int k = 0; k < parameters; k++) memcpy(&r->parameters[k], given[k], 8);
  return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, uint64_t bytes, void* stream) {
  if (stream != (void*)STREAM) return 1;
  memcpy((void*)target, (void*)source, bytes);
  return 0;
}
"""


class Record(ctypes.Structure):
    _fields_ = [("function", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3)]
    _fields_ += [("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32), ("parameters", ctypes.c_uint64 * 64)]


class Driver:
    """libcuda.so.1 with one function, which records its arguments; CuPy's names for the rest."""

    def __init__(self, path: Path):
        self.path = path
        self.handle = ctypes.CDLL(str(path))
        self.freed = 0
        self.stream = 0x1234_5678_9ABC
        self.library = SimpleNamespace(
            cuda=SimpleNamespace(
                get_current_stream=lambda: SimpleNamespace(ptr=self.stream),
                runtime=SimpleNamespace(free=self.free),
                driver=SimpleNamespace(CUDADriverError=RuntimeError),
            )
        )

    def free(self, address: int) -> None:
        self.freed += 1

    def set(self, **numbers: int) -> None:
        for name, number in numbers.items():
            ctypes.c_int32.in_dll(self.handle, name).value = number

    def records(self) -> list[Record]:
        count = ctypes.c_int32.in_dll(self.handle, "count").value
        return list((Record * 4096).in_dll(self.handle, "records")[:count])

    def function(self, number: int, types: tuple[str, ...], hidden: int = 2) -> Function:
        return Function(self.library, None, SimpleNamespace(ptr=number), 128, 1000 + number, types, hidden)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    try:
        command = loader().compiler.command
    except NoCompiler as error:
        pytest.skip(f"launches go through CuPy here: {error}")
    path = tmp_path / "libcuda.so.1"
    subprocess.run([*command, "-x", "c", "-shared", "-fPIC", "-o", path, "-"], input=DRIVER, text=True, check=True)
    made = Driver(path)
    native = load_native(str(path))
    assert native is not None
    monkeypatch.setattr(launch, "native_launcher", lambda: native)
    return made


def bits(number: float) -> int:
    (made,) = struct.unpack("Q", struct.pack("d", number))
    return made


def test_what_the_driver_gets(driver: Driver) -> None:
    types = ("*fp32", "i32", "i64", "u64", "fp64", "*i8")
    arguments = (Argument(0, 512), Argument(None, 77), Argument(1), Argument(2), Argument(3), Argument(None, 1 << 40))
    steps = [Step(driver.function(1, types), 9, arguments), Step(driver.function(2, types[:4], 4), 10, arguments[:4])]
    run = make_run(steps)
    assert isinstance(run, Batch)
    driver.set(parameters=8)
    run([1 << 44, -5, 2**64 - 1, -0.0])
    first, second = driver.records()
    assert (first.function, first.stream, first.shared) == (1, driver.stream, 1001)
    assert (list(first.grid), list(first.block)) == ([9, 1, 1], [128, 1, 1])
    expected = [(1 << 44) + 512, 77, 2**64 - 5, 2**64 - 1, bits(-0.0), 1 << 40, 0, 0]
    assert list(first.parameters[:8]) == expected
    assert (second.function, list(second.grid)) == (2, [10, 1, 1])
    assert list(second.parameters[:8]) == [*expected[:4], 0, 0, 0, 0]


def test_many_launches_go_in_several_plans(driver: Driver) -> None:
    types = ("*fp32",) * 60
    steps = [Step(driver.function(k, types), k + 1, tuple(Argument((j + k) % 70, 16 * j) for j in range(60))) for k in range(50)]
    run = make_run(steps)
    assert isinstance(run, Batch) and len(run.plans) == 4
    driver.set(parameters=60)
    run([1000 * k for k in range(70)])
    records = driver.records()
    assert [r.function for r in records] == list(range(50))
    for k, r in enumerate(records):
        assert list(r.parameters[:60]) == [1000 * ((j + k) % 70) + 16 * j for j in range(60)]


def test_a_thread_that_has_not_used_the_device(driver: Driver) -> None:
    run = make_run([Step(driver.function(1, ("*fp32",)), 1, (Argument(0),))])
    driver.set(answer=launch.NO_CONTEXT, answers=1, parameters=1)
    run([64])
    assert driver.freed == 1 and [r.parameters[0] for r in driver.records()] == [64]


def test_errors_of_the_driver(driver: Driver) -> None:
    steps = [Step(driver.function(k, ("*fp32",)), 1, (Argument(0),)) for k in range(3)]
    driver.set(answer=719, answers=1)
    with pytest.raises(RuntimeError, match="719"):
        make_run(steps)([64])
    assert not driver.records()  # none follows one that failed


def test_copies_between_launches(driver: Driver) -> None:
    source, target = np.arange(5.0), np.zeros(5)
    copy = Step(Copy(driver.library, 24), 0, (Argument(0, 8), Argument(1, 16)))
    run = make_run([Step(driver.function(1, ("*fp32",)), 1, (Argument(0),)), copy])
    run([target.ctypes.data, source.ctypes.data])
    assert [*target] == [0, 2, 3, 4, 0] and len(driver.records()) == 1


def test_wrong_values_are_errors_before_anything_is_launched(driver: Driver) -> None:
    run = make_run([Step(driver.function(k, (t,)), 1, (Argument(k),)) for k, t in enumerate(("i64", "fp64"))])
    with pytest.raises(TypeError):
        run([1, "2"])
    assert not driver.records()


def calls() -> tuple[list[Any], Callable[..., None]]:
    made: list[Any] = []
    return made, lambda *given, **options: made.append((*given, *options.values()))


def test_without_a_compiler_launchers_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    made, launcher = calls()
    make_run([Step(launcher, 3, (Argument(0), Argument(None, 4), Argument(1, 16)))])([-0.0, 100])
    assert made == [(3, -0.0, 4, 116)] and np.signbit(made[0][1])

    given, function = calls()
    monkeypatch.setattr(launch, "native_launcher", lambda: None)
    types = ("*fp32", "i32", "fp64")
    through_cupy = Function(None, None, function, 64, 99, types, 2)
    make_run([Step(through_cupy, 5, (Argument(0), Argument(None, 7), Argument(1)))])([4096, 1.5])
    ((grid, block, arguments, shared),) = given
    assert (grid, block, shared) == ((5,), (64,), 99)
    assert [type(a) for a in arguments] == [np.uint64, np.int32, np.float64, np.uint64, np.uint64]
    assert [*arguments] == [4096, 7, 1.5, 0, 0]


def test_no_driver_is_no_native_launcher() -> None:
    assert load_native("libno-such-driver.so.1") is None


# --- on a device


@gpu
def test_a_thread_whose_first_call_is_a_launch() -> None:
    cupy = pytest.importorskip("cupy")
    f = npc.compile(lambda x: x * 2 + 1)
    x = cupy.arange(1000.0)
    f(x)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.extend(f(x) for _ in range(3)))
    thread.start()
    thread.join()
    assert len(got) == 3 and all((y == x * 2 + 1).all() for y in got)


@gpu
def test_launches_go_to_the_current_stream() -> None:
    cupy = pytest.importorskip("cupy")
    f = npc.compile(lambda x: np.sin(x) * 2)
    x = cupy.ones(20_000_000)
    f(x)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(20):
            y = f(x)
        is_busy = not stream.done
        stream.synchronize()
    assert is_busy  # what was launched was on this stream
    assert cupy.allclose(y, np.sin(1.0) * 2)


@gpu
def test_a_warm_start_on_the_device_imports_no_triton(tmp_path: Path) -> None:
    program = """
import sys
import cupy, numpy as np, npcompile as npc
from npcompile.backends.cuda.runtime import launch
y = npc.compile(lambda x: np.sin(x) + np.sum(x))(cupy.ones(1000))
assert cupy.allclose(y, np.sin(1.0) + 1000)
print([m for m in ("triton", "torch") if m in sys.modules], launch.native_launcher() is not None)
"""
    path = tmp_path / "program.py"
    path.write_text(program)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    environment = {**os.environ, "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    for _ in range(2):
        ran = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert ran.stdout.split("\n")[0] == "[] True", ran.stdout + ran.stderr
