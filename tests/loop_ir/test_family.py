"""Functions that `npc.compile` leaves to another compiler, because they are quicker there."""

from __future__ import annotations

import copy
from types import FunctionType

import pytest

import npcompile as npc
from npcompile.tracer.entry import compiled_function
from npcompile.tracer.loop_ir import family
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments
from tests.loop_ir.programs import numbers
from tests.loop_ir.test_whole_functions import runs_whole


def sorted_by_insertion(a):
    for i in range(1, a.size):
        x, j = a[i], i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x


def counted(x):
    count = 0
    for i in range(x.size):
        count += 1
    return count


def relaxed(x):
    for _ in range(9):
        for i in range(1, x.size - 1):
            x[i] = x[i - 1] * 0.5 + x[i + 1]


def greatest_of_all(x):
    best = 0.0
    for i in range(x.size):
        if x[i] > best:
            best = x[i]
    return best


def place_of_greatest(x):
    place = 0
    for i in range(1, x.size):
        if x[i] > x[place]:
            place = i
    return place


def listed(x):
    found = []
    for i in range(x.size):
        found.append(x[i] * 2.0)
    return found


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (sorted_by_insertion, (numbers(40),), "does not count"),
        (greatest_of_all, (numbers(40),), "between Python's number and NumPy's"),
        (listed, (numbers(40),), "a list that grows"),
        (place_of_greatest, (numbers(40),), "integers that count nothing|Python may go on"),
        (counted, (numbers(40),), "integers go from one iteration"),
        (relaxed, (numbers(40),), "need what others store"),
    ],
)
def test_what_is_quicker_elsewhere_stays_there(function: FunctionType, arguments: Arguments, reason: str) -> None:
    compiled = npc.compile(function)
    compiled(*copy.deepcopy(arguments))
    with pytest.raises(Unsupported, match=reason):
        family.optimised(trace(function, arguments), compiled_function(compiled).facts, arguments)
    assert not any(runs_whole(compiled))
