"""The loop IR beside `npc.compile`, which runs some of the programs by it: `python -m benchmarks.loop_ir [PROGRAM ...]`.

Times are medians, sides take turns.
Microseconds an op of the front end, each pass, the C printer, reverse mode; milliseconds to a first answer, of all processors;
microseconds of a warm call. `--ops` makes a function of many statements and gives the passes' times for it.
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.command import Command
from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.loop_ir.program import CompiledLoop, compile_program
from npcompile.backends.cpu.loop_ir.target import CPU
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.statements import print_function
from npcompile.tensor_core.loop_ir.adjoint import adjoint
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.pipeline import differentiable, run_passes
from npcompile.tensor_core.loop_ir.types import Memref
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from npcompile.tracer.loop_ir.resume import finish
from tests.loop_ir.programs import CASES, numbers

Arguments = tuple[Any, ...]
SIZES: dict[str, Callable[[], Arguments]] = {
    "smoothing": lambda: (numbers(5000), 0.3),
    "weighted": lambda: (numbers(5000), np.array([0.3]), np.zeros(5000)),
    "product": lambda: (numbers(60, 50), numbers(50, 70), np.zeros((60, 70))),
    "triangular": lambda: (np.tril(numbers(300, 300)) + 300 * np.eye(300), numbers(300), np.zeros(300)),
    "crossings": lambda: (numbers(5000), 1.0, 5000),
    "diffuse": lambda: (numbers(500), numbers(500, seed=1), 40),
    "roots": lambda: (numbers(1000), np.zeros(1000)),
}


NOTHING = "PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) { return rt->tuple(0); }"


def count(program: Program) -> int:
    return sum(1 for _ in walk(program.body))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def processed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of a processor: other programs on it do not count."""
    began = time.thread_time()
    result = call()
    return time.thread_time() - began, result


def all_processed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of all processors, those of compilers included."""
    before = os.times()
    result = call()
    after = os.times()
    return sum(after[:4]) - sum(before[:4]), result


def per_op(call: Callable[[], Any], ops: int, repeats: int = 15) -> float:
    return statistics.median(processed(call)[0] for _ in range(repeats)) / ops * 1e6


def warm(sides: dict[str, Callable[[], Any]], seconds: float = 1.0) -> dict[str, float]:
    """Microseconds of a call of each side."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, call in sides.items():
            times[name].append(timed(call)[0])
    return {name: statistics.median(found) * 1e6 for name, found in times.items()}


def print_c(program: Program) -> str:
    return unit(print_function(program, CPU)[0])


def machine_code(loop: CompiledLoop, arguments: Arguments, repeats: int = 200) -> float:
    """Microseconds of the machine code with making words of objects and objects of words, without Python's part of a call."""
    loop(arguments)
    found = [timed(partial(loop.run, arguments))[0] for _ in range(repeats)]
    return statistics.median(found) * 1e6


def pass_times(function: FunctionType, arguments: Arguments, repeats: int = 15) -> dict[str, float]:
    """Microseconds an op, of what makes a program."""
    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        seconds, traced = processed(lambda: trace(function, arguments))
        program = traced.program
        found.setdefault("front end", []).append(seconds / count(program))
        for ran in run_passes(program):
            found.setdefault(ran.name, []).append(ran.seconds / ran.ops)
        ops = count(program)
        found.setdefault("C printer", []).append(processed(partial(print_c, program))[0] / ops)
        found.setdefault("(verifier)", []).append(processed(partial(verify, program))[0] / ops)
    return {name: statistics.median(each) * 1e6 for name, each in found.items()}


def made(function: FunctionType, arguments: Arguments) -> CompiledLoop:
    program = trace(function, arguments).program
    run_passes(program)
    return compile_program(program)


def report(name: str) -> None:
    case = next(case for case in CASES if case.function.__name__ == name)
    function, arguments = case.function, SIZES[name]()
    print(f"{name}: us an op: " + ", ".join(f"{key} {value:.1f}" for key, value in pass_times(function, arguments).items()))
    first, loop = all_processed(lambda: made(function, arguments))
    production = npc.compile(function)
    first_production, _ = all_processed(lambda: production(*SIZES[name]()))
    production(*arguments)
    interpreted, _ = timed(lambda: function(*SIZES[name]()))
    sides = {"loop IR": lambda: finish(function, loop(arguments).outcome), "npc.compile": lambda: production(*arguments)}
    times = warm(sides)
    print(f"  first call: loop IR {first * 1e3:.0f} ms, npc.compile {first_production * 1e3:.0f} ms of processors")
    print(f"  Python: {interpreted * 1e3:.2f} ms a call")
    print("  warm call: " + ", ".join(f"{side} {value:.1f} us" for side, value in times.items()), end="")
    print(f"; its machine code {machine_code(loop, arguments):.1f} us")
    try:
        gradients(function, arguments)
    except NoDerivative as error:
        print(f"  gradient: {error}")


def gradients(function: FunctionType, arguments: Arguments) -> None:
    program = trace(function, arguments).program
    differentiable(program)
    speed = per_op(lambda: adjoint(program), count(program))
    made = adjoint(program)
    run_passes(made)
    loop = compile_program(made)
    answer = function(*copy.deepcopy(arguments))
    whole: list[Any] = list(arguments)
    for param in loop.program.params[len(arguments) :]:
        kind = loop.program.types[param.value]
        result = np.ones_like(answer) if isinstance(kind, Memref) else np.float64(1.0)
        of = [x for x in arguments if isinstance(x, np.ndarray)]
        k = len(whole) - len(arguments)
        whole.append(np.ones_like(of[k]) if k < len(of) else result)
        assert param.slot is None
    times = warm({"loop and gradient": lambda: loop(whole)})
    print(f"  reverse mode: {speed:.1f} us an op; loop and gradient {times['loop and gradient']:.1f} us", end="")
    print(f", its machine code {machine_code(loop, tuple(whole)):.1f} us")


def many_ops() -> None:
    """The passes for a function of 400 statements in a loop."""
    lines = ["def many(x, y, n):", "    for i in range(n):"]
    lines += [f"        y[i] = x[i] * {k}.5 + y[i] * 0.5" for k in range(400)]
    namespace: dict[str, FunctionType] = {}
    exec("\n".join(lines), namespace)
    arguments = (numbers(9), numbers(9), 9)
    times = pass_times(namespace["many"], arguments, 5)
    ops = count(trace(namespace["many"], arguments).program)
    print(f"{ops} ops: us an op: " + ", ".join(f"{key} {value:.1f}" for key, value in times.items()))


def main() -> None:
    command = Command("loop_ir", __doc__, SIZES)
    command.add_argument("--ops", action="store_true", help="the passes' times for a function of many statements")
    given = command.given()
    if given.ops:
        many_ops()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NPCOMPILE_CACHE_DIR"] = folder  # a first call compiles
        load(NOTHING)  # the runtime too
        for name in given.names or SIZES:
            report(name)


if __name__ == "__main__":
    main()
