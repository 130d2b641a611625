"""Which functions call npc.fori_loop, while_loop or scan."""

from __future__ import annotations

from collections.abc import Iterator
from types import CellType, CodeType, FunctionType
from typing import Final

from npcompile import control
from npcompile.tracer.entry import plain_function

LOOPS: Final = {each.__name__: each for each in (control.fori_loop, control.while_loop, control.scan)}
MOST_LEVELS: Final = 3  # of functions that call each other, which are looked at
EMPTY: Final = CellType()


def calls_loops(function: FunctionType, level: int = 0) -> bool:
    """Does it call one of them, or do functions that its names stand for?"""
    names = {name for code in codes_in(function.__code__) for name in code.co_names}
    return not LOOPS.keys().isdisjoint(names) or any(
        any(each is loop for loop in LOOPS.values()) or level < MOST_LEVELS and calls_loops(plain_function(each), level + 1)
        for each in named(function, names)
    )


def named(function: FunctionType, names: set[str]) -> Iterator[FunctionType]:
    """Other functions that its variables from outside stand for."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != EMPTY]
    for x in (*cells, *map(function.__globals__.get, names)):
        if isinstance(x, FunctionType) and x is not function:
            yield x


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """That of a function, and of those inside."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_in(each)
