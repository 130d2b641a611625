"""NumPy's functions of numbers in loops: in vectors as alone, with NumPy's errors; Python's `math` stays the C library's."""

from __future__ import annotations

import functools
import math
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.functions import LIBM, definitions
from npcompile.backends.cpu.loop_ir.program import CompiledLoop, compile_program
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.rows import ROWS
from npcompile.tracer.loop_ir.front_end import trace
from npcompile.tracer.loop_ir.number_functions import UFUNCS
from tests.loop_ir.agreement import Happened, compiled, happened
from tests.loop_ir.programs import numbers

NAMES = sorted(LIBM.keys() & {*UFUNCS})
INSIDE = {"arccosh": 1.5, "arcsin": 0.5, "arccos": 0.5, "arctanh": 0.5}


@functools.cache
def function_of(name: str) -> tuple[FunctionType, CompiledLoop]:
    namespace: dict[str, Any] = {"np": np}
    call = f"np.{name}(x[i])" if ROWS[name].arity == 1 else f"np.{name}(x[i], 1.25)"
    exec(f"def each(x, out):\n    for i in range(x.size):\n        out[i] = {call} * 0.5\n", namespace)
    return namespace["each"], made(namespace["each"], numbers(9), np.zeros(9))


def made(function: FunctionType, *arguments: Any) -> CompiledLoop:
    program = trace(function, arguments).program
    run_passes(program)
    return compile_program(program)


@pytest.mark.parametrize("name", NAMES)
def test_a_number_has_one_result_wherever_it_is(name: str) -> None:
    _, loop = function_of(name)
    for x in np.random.default_rng(1).random(5) * 0.4 + INSIDE.get(name, 0.5):
        found = set()
        for n in (1, 7, 37, 700):
            out = np.zeros(n)
            loop((np.full(n, x), out))
            found |= {*out.tolist()}
        assert len(found) == 1
        assert found.pop() == pytest.approx(float(getattr(np, name)(x, *[1.25][: ROWS[name].arity - 1])) * 0.5, rel=4e-16, abs=0)


@pytest.mark.parametrize("name", NAMES)
def test_special_numbers_and_errors_are_numpys(name: str) -> None:
    function, loop = function_of(name)
    for special in (0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 1e300, 710.0, -800.0):
        x = np.full(30, INSIDE.get(name, 0.5))
        x[21] = special
        got, wanted = (happened(call, (x, np.zeros(30))) for call in (compiled(function, loop), function))
        assert got.warnings == wanted.warnings and near(got, wanted), special


def near(got: Happened, wanted: Happened) -> bool:
    return all(np.allclose(a, b, rtol=4e-16, atol=0, equal_nan=True) for a, b in zip(got.arguments, wanted.arguments))


def test_functions_of_python_are_those_of_the_c_library() -> None:
    def both(x, y, n):  # type: ignore[no-untyped-def]
        s = y
        for i in range(n):
            s = math.sin(s + i)
            x[i] = np.sin(x[i])
        return s

    arguments = (numbers(300), 0.3, 300)
    assert happened(compiled(both, made(both, *arguments)), arguments).result == both(*arguments)


def test_loops_without_functions_define_none() -> None:
    def halves(x):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            x[i] = np.sqrt(x[i]) * 0.5

    assert definitions(trace(halves, (numbers(3),)).program) == ""
    assert "npc_f64_sin" in definitions(trace(function_of("sin")[0], (numbers(3), numbers(3))).program)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64, int])
def test_quotients_by_powers_of_two_are_floors(dtype: type) -> None:
    """They are shifts and masks, of negative numbers too."""

    def split(x, quotients, remainders):
        for i in range(x.size):
            quotients[i] = x[i] // 8
            remainders[i] = x[i] % 8

    def of_python(x, quotients, remainders):
        for i in range(x.size):
            quotients[i] = (i - 20) // 16
            remainders[i] = (i - 20) % 16

    function = of_python if dtype is int else split
    kind = np.dtype(dtype)
    limits = np.iinfo(kind)
    x = np.array([0, 1, 7, 8, 9, limits.max, limits.min, limits.max - 8, *range(40)], object).astype(kind)
    if limits.min < 0:
        x = np.concatenate([x, -np.arange(1, 40).astype(kind)])
    arguments = (x, np.zeros(x.size, kind), np.zeros(x.size, kind))
    loop = made(function, *arguments)
    assert ">> " in loop.source.split("npc_loop(")[1] and "npc_remainder" not in loop.source.split("npc_loop(")[1]
    assert happened(compiled(function, loop), arguments).same(happened(function, arguments))
