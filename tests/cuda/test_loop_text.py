"""The CUDA text of programs with loops, without a GPU: NVRTC compiles it, and as C++ it gives plain Python's answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.loop_ir.cupy_kernel import CupyKernel
from npcompile.backends.cuda.loop_ir.kernel import DeviceLoop
from npcompile.backends.cuda.loop_ir.nvrtc import compile_cubin
from npcompile.backends.cuda.loop_ir.program import CudaProgram, cuda_program
from npcompile.backends.loop_ir.native import LeftAlone
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import Policy
from npcompile.tensor_core.loop_ir.outcome import Returned
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.backends import need_nvrtc
from tests.cuda.interpreted import KIND, DeviceArray
from tests.cuda.loop_programs import PROGRAMS, RAISING, SERIAL, LoopProgram, gathered, heat, life, scaled_row, warping
from tests.cuda.loops_on_cpu import KernelOnCpu
from tests.cuda.numpy_library import StrictDevice
from tests.loop_ir.agreement import nearly, same_bits

ALL = [*PROGRAMS, *SERIAL]


def printed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> CudaProgram:
    made = cuda_program(trace(function, arguments, Policy.ABORT).program)
    verify(made.program)
    return made


def on_device(function: Callable[..., Any], arguments: tuple[Any, ...]) -> DeviceLoop:
    made = printed(function, arguments)
    return DeviceLoop(made, StrictDevice(), KernelOnCpu(made.source), KIND)


def put(x: Any) -> Any:
    return StrictDevice().upload(x) if isinstance(x, np.ndarray) else x


def back(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(back, x))
    return x.view(np.ndarray) if isinstance(x, DeviceArray) else x


@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_answers(program: LoopProgram) -> None:
    loop = on_device(program.function, program.arguments(7))
    assert loop.cuda.report.fired >= program.loops
    equal = same_bits if program.is_exact else nearly
    for size in (7, 1, 23):
        given = program.arguments(size)
        ours = [put(x) for x in given]
        found, expected = loop(ours), program.function(*given)
        assert equal(back(found), expected)
        assert all(map(equal, map(back, ours), given))


@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_the_pass_changes_no_answer(program: LoopProgram) -> None:
    given = program.arguments(7)
    mine = copy.deepcopy(given)
    outcome, _ = interpret(printed(program.function, given).program, mine)
    assert isinstance(outcome, Returned)
    assert same_bits(outcome.value, program.function(*given))
    assert all(map(same_bits, mine, given))


@pytest.mark.parametrize(("function", "arguments"), RAISING, ids=[f.__name__ for f, _ in RAISING])
def test_what_was_stored_before_a_failure_is_put_back(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    ours = [put(x) for x in arguments]
    with pytest.raises(LeftAlone, match="a check failed"):
        on_device(function, arguments)(ours)
    assert all(map(same_bits, map(back, ours), arguments))
    with pytest.raises((IndexError, ZeroDivisionError)):
        function(*copy.deepcopy(arguments))


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_compiles_for_devices(program: LoopProgram, architecture: int) -> None:
    need_nvrtc()
    assert compile_cubin(printed(program.function, program.arguments(5)).source, architecture)[:4] == b"\x7fELF"


def test_arrays_that_share_memory_are_left_to_others() -> None:
    x = put(np.arange(6.0))
    places = put(np.array([3, 2, 1]))
    loop = on_device(gathered, (np.arange(6.0), np.array([3, 2, 1]), np.zeros(3)))
    with pytest.raises(LeftAlone, match="share memory"):
        loop([x, places, x[:3]])
    loop([x[:3], put(np.array([0, 1, 2])), x[3:]])
    assert back(x).tolist() == [0, 1, 2, 0, 1, 2]


def test_results_are_the_arguments_that_they_are_in_python() -> None:
    u, v = np.ones((4, 4)), np.zeros((4, 4))
    for steps in (2, 3):
        ours = [put(u), put(v), steps]
        assert on_device(heat, (u, v, steps))(ours) is ours[steps % 2]


def test_a_result_sees_the_memory_of_an_argument() -> None:
    a = put(np.ones((3, 4)))
    row = on_device(scaled_row, (np.ones((3, 4)), 1))([a, 1])
    row[0] = 7.0
    assert back(a)[1].tolist() == [7.0, 0.5, 0.5, 0.5]


def test_a_grid_waits_only_where_one_thread_may_see_what_another_stored() -> None:
    texts = {p.name: printed(p.function, p.arguments(5)).text for p in PROGRAMS}
    assert not any(texts[name].meets for name in ("mandelbrot", "gathered", "warping", "early_exercise"))
    assert all(texts[name].meets for name in ("heat", "lu", "shortest_paths", "rows_then_total", "bodies"))


def test_iterations_have_arrays_of_their_own() -> None:
    assert len(printed(warping, (np.ones((2, 3)), np.ones((2, 3)))).text.own) == 2


def test_the_report_says_why_a_loop_is_serial() -> None:
    said = printed(life, (np.zeros((3, 3), int), np.zeros((3, 3), int), 2)).report.said
    line = life.__code__.co_firstlineno
    assert [(each.at.line - line, each.reason) for each in said] == [(2, "iterations that need what others computed"), (3, "")]


def rows_of(n, out):
    for i in range(out.size):
        row = np.zeros(n)
        for j in range(n):
            row[j] = i * j
        out[i] = row[n - 1] + row[0]


def test_own_arrays_have_the_size_of_each_call() -> None:
    loop = on_device(rows_of, (np.int64(3), np.zeros(2)))
    for n in (3, 4000, 5):
        ours, theirs = put(np.zeros(9)), np.zeros(9)
        loop([np.int64(n), ours])
        rows_of(n, theirs)
        assert same_bits(back(ours), theirs)
    assert [plan.own for plan in loop.plans.values()] == [[24], [32000], [40]]


class Recorder:
    """In the place of CuPy: what of it a kernel needs."""

    def __init__(self, registers: int) -> None:
        self.registers = registers
        self.loaded: list[bytes] = []
        self.launched: list[tuple[Any, ...]] = []
        self.cuda = self.function = self.driver = self

    def Module(self) -> Any:
        return self

    def Device(self) -> Any:
        return SimpleNamespace(attributes={"MultiProcessorCount": 132})

    def load(self, cubin: bytes) -> None:
        self.loaded.append(cubin)

    def get_function(self, name: str) -> Any:
        assert name == "npc_loop"
        return self

    ptr = 7

    def funcGetAttribute(self, attribute: int, function: int) -> int:
        assert (attribute, function) == (4, self.ptr)
        return self.registers

    def __call__(self, grid: Any, block: Any, words: Any, enable_cooperative_groups: bool) -> None:
        assert all(type(word) is np.int64 for word in words)
        self.launched.append((grid, block, len(words), enable_cooperative_groups))


@pytest.mark.parametrize(("registers", "blocks"), [(32, 2), (64, 2), (65, 1), (128, 1)])
def test_a_kernel_that_waits_for_all_has_no_more_blocks_than_run_at_once(registers: int, blocks: int) -> None:
    need_nvrtc()
    cupy, made = Recorder(registers), printed(heat, (np.ones((4, 4)), np.ones((4, 4)), 2))
    kernel = CupyKernel.of(cupy, made.source, 90, made.text.meets)
    again = CupyKernel.of(cupy, made.source, 90, made.text.meets)
    assert cupy.loaded[0] == cupy.loaded[1] and kernel.function is again.function
    assert kernel.resident(512) == blocks * 132
    kernel(kernel.resident(512), 512, [1, 2, 3])
    assert cupy.launched == [((blocks * 132,), (512,), 3, True)]
