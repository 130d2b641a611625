"""What native programs hand over to Python where they end or cannot go on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loops.scalar_loops import ScalarLoops
from npcompile.backends.cpu.loops.side_exits import ways_out
from tests.native_loops.test_native_loops import agrees, native_loops


def values_of_every_kind(x, small, counts, flags, given, stop):
    whole, number, is_large, made = 3, 0.5, False, np.zeros(4)
    for k in range(x.shape[0]):
        if k == stop:
            break
        number = number * 1.5 + k
        whole = whole - k
        is_large = number > 40
        single, count, flag, double = small[k] * small[k], counts[k] + counts[k], flags[k], x[k] + x[k]
        made = x[:4] * number
        row = made[1:]
    return whole, number, is_large, single, count, flag, double, made, row, given, k, str(whole)


ARGUMENTS = (
    np.linspace(1, 2, 50),
    np.linspace(1, 2, 50, dtype=np.float32),
    np.arange(50, dtype=np.uint8),
    np.arange(50) % 2 == 0,
    7,
)


def kinds(value: Any) -> list[Any]:
    return [(type(v), getattr(v, "dtype", None), np.asarray(v).tobytes()) for v in value]


@pytest.mark.parametrize("stop", [1, 6, 70])
def test_values_of_every_kind_leave(stop: int) -> None:
    compiled = npc.compile(values_of_every_kind)
    for _ in range(2):
        assert kinds(compiled(*ARGUMENTS, stop)) == kinds(values_of_every_kind(*ARGUMENTS, stop))
    assert native_loops(compiled)


def test_the_error_of_an_iteration_finds_every_kind() -> None:
    compiled = npc.compile(values_of_every_kind)
    x, small, counts, flags, given = ARGUMENTS
    for _ in range(2):
        with pytest.raises(IndexError, match="index 5 is out of bounds"):
            compiled(x, small[:5], counts, flags, given, 70)
    assert native_loops(compiled)


def rows(a, b, steps):
    scaled = np.zeros(a.shape[1])
    for i in range(1, steps):
        scaled = b[i, 1:] * a[i - 1, 1:] + b[i - 1, 1:]
        a[i, 1:] = scaled - a[i, :-1] * b[i, :-1]
        part = scaled[1:]
    return scaled, part, a


@pytest.mark.parametrize("steps", [20, 41])
def test_arrays_and_views_leave(steps: int) -> None:
    compiled = npc.compile(rows)
    a, b = np.linspace(1, 2, 160).reshape(40, 4), np.linspace(2, 3, 160).reshape(40, 4)
    results: list[Any] = []
    for function in (compiled, compiled, rows):
        given = a.copy()
        try:
            made = function(given, b, steps)
        except IndexError as error:
            made = (str(error),)
        results.append((kinds(made), kinds([given])))
    assert results[0] == results[1] == results[2]
    assert native_loops(compiled)


def test_exits_that_hand_over_the_same_share_one_call() -> None:
    code = ScalarLoops()
    labels = [code.exit([("i", name)]) for name in ("x", "y", "x")]
    lines = ways_out(code.exits, [f"goto {label};" for label in labels], ("i", "1"))
    assert [line.split(", ")[2] for line in lines if "rt->leave" in line] == ["x", "y"]


def test_exits_of_what_was_written_in_vain_are_left_out() -> None:
    """A form that a loop turned out not to have may have had exits, which hand over variables that nothing sets."""
    code = ScalarLoops()
    code.exit([("i", "(int64_t)(t1)")])
    label = code.exit([("i", "(int64_t)(t2)")], asks=True)
    text = "\n".join(ways_out(code.exits, [f"goto {label};"], ("i", "1")))
    assert "(t1)" not in text and re.findall(r"^\w+(?=:)", text, re.M) == ["exit1", "left1", "failed2", "left2"]


def halved(v):
    return v / 2


def beside_a_handler(x):
    """The statement that calls is further behind than the function that it calls is long."""
    n, total = x.size, 0.0
    scale = (x[0] + x[1]) * (x[2] + x[3]) / (x[4] + x[5])
    try:
        for i in range(n):
            total += halved(x[i]) * scale
    except FloatingPointError:
        total = -1.0
    return total


def test_an_exit_in_a_function_that_is_called_beside_a_handler():
    agrees(beside_a_handler, np.linspace(1.0, 2.0, 50))


def with_a_module(x):
    pairs = [(x, 2.0), (x, 3.0)]
    try:
        import numpy  # noqa: F401
    except ImportError:
        return None
    return dict(reversed(pair) for pair in pairs * 20)


def test_a_list_that_is_read_where_python_goes_on():
    """A program that makes it cannot hand it over, and so is none."""
    compiled = npc.compile(with_a_module)
    for x in (1.5, 2.5, 2.5):
        assert compiled(x) == with_a_module(x)
