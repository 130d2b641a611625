"""Which functions call npc.fori_loop, while_loop or scan."""

from __future__ import annotations

from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from npcompile import control
from npcompile.tracer.entry import plain_function

LOOPS: Final = {each.__name__: each for each in (control.fori_loop, control.while_loop, control.scan)}
MOST_LEVELS: Final = 3  # of functions that call each other, which are looked at
EMPTY: Final = CellType()


def calls_loops(function: FunctionType) -> bool:
    """Does it call one of them, or do functions that its names stand for?"""
    return any(map(names_loop, reached(function)))


def reached(function: FunctionType) -> Iterator[FunctionType]:
    """It, the functions that its names stand for, those that theirs do, and so on for some levels: each once."""
    seen, level = {function}, [function]
    for _ in range(MOST_LEVELS + 1):
        yield from level
        found = dict.fromkeys(plain_function(x) for each in level for x in values_of(each) if isinstance(x, FunctionType))
        level = [each for each in found if each not in seen]
        seen.update(level)


def names_loop(function: FunctionType) -> bool:
    """Does a name of it stand for one of the loops, or for a module that it may take one from?"""
    values = [*values_of(function)]
    taken = LOOPS.keys() & names_of(function)
    modules = [x for x in values if isinstance(x, ModuleType)] if taken else []
    return any(x is loop for x in values for loop in LOOPS.values()) or any(
        getattr(module, name, None) is LOOPS[name] for module in modules for name in taken
    )


def values_of(function: FunctionType) -> Iterator[Any]:
    """What its variables from outside stand for."""
    for cell in function.__closure__ or ():
        if cell != EMPTY:
            yield cell.cell_contents
    for name in names_of(function):
        if name in function.__globals__:
            yield function.__globals__[name]


def names_of(function: FunctionType) -> set[str]:
    return {name for code in codes_in(function.__code__) for name in code.co_names}


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """That of a function, and of those inside."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_in(each)
