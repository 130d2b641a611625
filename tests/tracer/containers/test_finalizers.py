"""Objects in variables that nothing reads any more live as long as they do in the plain function."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

EVENTS: list[Any] = []


class Owner:
    """Says when it is finalized."""

    def __init__(self, name: Any, payload: Any = None):
        self.name, self.payload = name, payload

    def __del__(self) -> None:
        EVENTS.append(f"{self.name} is gone")


def note(event: Any) -> None:
    EVENTS.append(event)


note = npc.disable(note)


def kept_across_breaks(x):
    owner = Owner("owner")  # noqa: F841
    y = x * 3
    note("first")
    z = y + 1
    note("second")
    return z


def kept_on_one_path(x):
    if x[0] > 0:
        owner = Owner("owner")  # noqa: F841
    y = x * 2
    note("after the branch")
    return y + 1


def kept_in_a_loop(x):
    for k in range(3):
        owner = Owner(k)  # noqa: F841
        x = x + k
        note(f"in {k}")
    note("behind the loop")
    return x


def kept_in_a_block(x):
    with np.errstate(divide="ignore"):
        owner = Owner("owner")  # noqa: F841
        y = 1 / x
        note("in the block")
    z = y * 2
    note("behind it")
    return z


def kept_with_cells(x):
    scale = 2
    owner = Owner("owner")  # noqa: F841

    def scaled(v):
        return v * scale

    note("first")
    y = scaled(x)
    note("second")
    return scaled(y)


def memory_by_its_address(x):
    buffer = np.arange(1000.0) + x.sum()
    address = buffer.ctypes.data
    note("the last line that names the buffer is above")
    y = x * 2
    note("others take memory")
    others = [np.full(1000, -1.0) for _ in range(5)]  # noqa: F841
    note("as large as the buffer")
    found = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_double)), (1000,)).copy()
    return y, found


def deleted_by_name(x):
    owner = Owner("owner")
    note("before")
    y = x + 1
    del owner
    note("after")
    return y


PROGRAMS = [kept_across_breaks, kept_on_one_path, kept_in_a_loop, kept_in_a_block, kept_with_cells, memory_by_its_address]


def outcome(f: Callable[..., Any], x: np.ndarray) -> tuple[Any, list[Any]]:
    EVENTS.clear()
    gc.freeze()  # what there is already need not be looked through
    result = f(x)
    gc.collect()
    return result, list(EVENTS)


@pytest.mark.parametrize("f", PROGRAMS)
def test_finalizers_run_when_they_do_in_the_plain_function(f):
    x = np.array([1.0, 2.0, 3.0])
    wanted, events = outcome(f, x)
    compiled = npc.compile(f)
    for _ in range(3):
        found, seen = outcome(compiled, x)
        np.testing.assert_equal(found, wanted)
        assert seen == events


def test_a_deleted_variable_holds_nothing():
    compiled = npc.compile(deleted_by_name)
    _, seen = outcome(compiled, np.ones(3))
    assert seen.count("owner is gone") == 1


def test_what_a_variable_kept_is_freed_when_the_function_returns():
    made: list[weakref.ref[Any]] = []

    def f(x):
        array = np.arange(5.0)
        made.append(weakref.ref(array))
        note("a break")
        return x + 1

    compiled = npc.compile(f)
    for _ in range(3):
        compiled(np.ones(3))
    assert len(made) == 3 and all(reference() is None for reference in made)


def test_what_nobody_reads_is_not_computed():
    def f(x):
        unused = x * 3  # noqa: F841
        note("a break")
        return x + 1

    compiled = npc.compile(f)
    compiled(np.arange(3))  # of floats the product may report an overflow
    assert "multiply" not in " ".join(str(g) for g, _ in compiled_function(compiled).graphs)
