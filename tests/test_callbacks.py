"""`cfunc`: functions of C give what Python's give, in SciPy's integrals and filters too."""

from __future__ import annotations

import ctypes
import gc
import math
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import ndimage
from scipy.integrate import nquad, quad

import npcompile as npc

SCALE, WEIGHTS = 2.5, np.arange(5.0)


@npc.cfunc("double(double)")
def bell(x):
    return math.exp(-x * x)


@npc.cfunc("double(int n, double x[n], void*)")
def product(n, x):
    found = 1.0
    for i in range(n):
        if x[i] < -0.5:
            return -1.0
        found *= np.cos(x[i]) * (i + 1)
    return found


@npc.cfunc("int(double values[size], npy_intp size, double result[1], void* data)")
def weighted(values, size, result):
    found = 0.0
    for i in range(size):
        found += values[i] * WEIGHTS[i % 5] * SCALE
    result[0] = found
    return 1


@npc.cfunc("long long(long long n, double x)")
def steps(n, x):
    count = 0
    while x > 1.0:
        x /= n
        count += 1
    return count * n


@npc.cfunc("double(double)")
def inverse(x):
    return 1 / x


@npc.cfunc("void(double x[3], double y[3], int stops)")
def shift(x, y, stops):
    for i in range(3):
        y[i] = x[i] + y[i]
    y[stops] = 7.0


@npc.cfunc("double(double)")
def told(x):
    print("called")
    return float(f"{x:.2f}")


def as_compiled(function: npc.CFunction) -> npc.CFunction:
    assert not function.reason
    return function


def test_integrals() -> None:
    assert quad(as_compiled(bell).low_level_callable(), -3, 3) == quad(bell, -3, 3)
    plain = quad(lambda x: product(1, np.array([x])), -1, 2)
    assert quad(as_compiled(product).low_level_callable(), -1, 2) == pytest.approx(plain, rel=1e-12)
    found = nquad(product.low_level_callable(), [[0, 1], [-0.4, 1]])
    assert found[0] == pytest.approx(nquad(lambda x, y: product(2, np.array([x, y])), [[0, 1], [-0.4, 1]])[0], rel=1e-12)


def test_a_filter() -> None:
    x = np.random.default_rng(0).normal(size=(20, 30))

    def plain(values):
        result = np.zeros(1)
        weighted(values, values.size, result)
        return result[0]

    for _ in range(2):
        found = ndimage.generic_filter(x, as_compiled(weighted).low_level_callable(), size=3)
        np.testing.assert_array_equal(found, ndimage.generic_filter(x, plain, size=3))
        WEIGHTS[2] += 1.0  # an array from outside is seen as it is


@pytest.mark.parametrize("arguments", [(2, 1e3), (3, 5.5), (-7, 0.5), (2**40, 2.0)])
def test_integers(arguments: tuple[Any, ...]) -> None:
    assert as_compiled(steps).ctypes(*arguments) == steps(*arguments)


def doubles(*values: float) -> Any:
    return (ctypes.c_double * len(values))(*values)


def test_arrays_that_are_written() -> None:
    x, y = doubles(1, 2, 3), doubles(10, 20, 30)
    as_compiled(shift).ctypes(x, y, 1)
    assert [*y] == [11.0, 7.0, 33.0]
    shift.ctypes(x, x, 0)  # share memory: Python's function runs
    assert [*x] == [7.0, 4.0, 6.0]
    memory = doubles(1, 2, 3, 4)
    later = ctypes.cast(ctypes.addressof(memory) + 8, ctypes.POINTER(ctypes.c_double))
    shift.ctypes(memory, later, 2)
    assert [*memory] == [1.0, 3.0, 6.0, 7.0]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: found.append((kind, traceback.tb_frame.f_code.co_name)))
    return found


def test_exceptions_are_reported(reported: list[Any]) -> None:
    assert as_compiled(inverse).ctypes(4.0) == 0.25 and not reported
    assert math.isnan(inverse.ctypes(0.0))
    assert reported == [(ZeroDivisionError, "inverse")]
    x, y = doubles(1, 2, 3), doubles(10, 20, 30)
    shift.ctypes(x, y, 5)
    assert [*y] == [11.0, 22.0, 33.0]  # once, as Python's function leaves it
    assert reported[1:] == [(IndexError, "shift")]


def test_overflow_of_integers_is_pythons(reported: list[Any]) -> None:
    grow = npc.cfunc("double(long long)")(lambda n: n * n / 4.0)
    assert as_compiled(grow).ctypes(3) == 2.25
    assert grow.ctypes(2**62) == 2.0**122 and not reported


def test_what_is_not_compiled_calls_pythons_function(capsys: pytest.CaptureFixture[str]) -> None:
    assert told.reason
    assert told.ctypes(1.234) == 1.23 and capsys.readouterr().out == "called\n"
    with npc.disabled():
        off = npc.cfunc("double(double)")(lambda x: x + 1)
    assert "switched off" in off.reason and off.ctypes(1.0) == 2.0
    assert npc.cfunc("double(double)")(math.sin).ctypes(1.0) == math.sin(1.0)


def test_functions_of_one_text_are_apart() -> None:
    def times(factor: float) -> npc.CFunction:
        return npc.cfunc("double(double)")(lambda x: x * factor)

    made = [as_compiled(times(factor)) for factor in (2.0, 3.0, -0.0)]
    assert [f.ctypes(1.5) for f in made] == [3.0, 4.5, 0.0]
    assert math.copysign(1, made[2].ctypes(1.5)) == -1


def test_what_is_called_lives_as_long_as_who_may_call_it() -> None:
    def made() -> Any:
        offsets = np.array([1.0, 2.0])
        return npc.cfunc("double(double)")(lambda x: x + offsets[1]).low_level_callable()

    callables = [made() for _ in range(3)]
    gc.collect()
    assert [quad(each, 0, 1)[0] for each in callables] == pytest.approx([2.5] * 3, rel=1e-12)


def test_other_threads() -> None:
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(quad(bell.low_level_callable(), -3, 3)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [quad(bell, -3, 3)[0]] * 4


def test_it_is_the_function_for_python() -> None:
    assert bell(0.5) == math.exp(-0.25) and bell.__name__ == "bell"
    assert pickle.loads(pickle.dumps(bell)) is bell
    other = pickle.loads(pickle.dumps(npc.cfunc("double(double)")(math.sqrt)))
    assert other.ctypes(4.0) == 2.0 == other(4.0)


WRONG: dict[str, str] = {
    "double": "not a C signature",
    "float(double)": "a result of type 'float'",
    "double(float x)": "a parameter of type 'float'",
    "double(double* x)": "a pointer without a length",
    "double(double x[n])": "the length 'n'",
    "double(double n, double x[n])": "the length 'n'",
    "double(int x[3])": "arrays are of double",
    "double(double x y)": "not a C parameter",
}


@pytest.mark.parametrize("signature", WRONG)
def test_wrong_signatures(signature: str) -> None:
    with pytest.raises(ValueError, match=WRONG[signature]):
        npc.cfunc(signature)


@pytest.mark.parametrize("error", [RuntimeError, KeyError])
def test_a_fault_leaves_pythons_function(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Callable[..., Any]:
        raise error("a mistake of ours")

    monkeypatch.setattr("npcompile.callbacks.run_passes", fails)
    monkeypatch.setattr(npc.config, "internal_errors", "warn")
    with pytest.warns(RuntimeWarning, match="while compiling .* for C"):
        made = npc.cfunc("double(double)")(lambda x: x * 2)
    assert made.ctypes(2.0) == 4.0 and "a mistake of ours" in made.reason
