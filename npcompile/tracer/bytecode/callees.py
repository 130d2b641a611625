"""Functions that run as they are, generators for one: the functions that they call by a global name are compiled."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

from npcompile.tracer.bytecode.assembler import (
    CALLING,
    LOAD_CONST,
    LOAD_GLOBAL,
    PUSH_NULL,
    Item,
    assembled_instructions,
    exception_table,
    line_table,
    written,
)
from npcompile.tracer.bytecode.decode import Instruction, decode

Compiled = Callable[[Any], Any]  # what is called instead of a callable


def calling_compiled(function: types.FunctionType, compiled: Compiled) -> types.FunctionType:
    """A function of the same code that calls `compiled(f)(...)` where `function` calls `f(...)`, for each global `f`.

    Its frames have the lines, locals and cells of `function`. That one itself where it calls nothing so.
    """
    code = rewritten(function.__code__, compiled)
    if code is function.__code__:
        return function
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(made, function)
    return made


def rewritten(code: types.CodeType, compiled: Compiled) -> types.CodeType:
    """The code, and that of the functions in it, with `compiled` called on each global that is called."""
    constants = tuple(rewritten(c, compiled) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    if any(new is not old for new, old in zip(constants, code.co_consts)):
        code = code.replace(co_consts=constants)
    instructions = decode(code).instructions
    if not any(calls_global(i) for i in instructions):
        return code
    items: list[Item] = []
    labels = {}
    for i in instructions:
        labels[i.index] = len(items)
        if calls_global(i):
            items += [Item(opcode, arg, None, i.positions, i.handler) for opcode, arg in call_of(i, len(constants))]
        else:
            items += written(instructions, i)
    return code.replace(
        co_code=assembled_instructions(items, labels),
        co_consts=(*constants, compiled),
        co_stacksize=code.co_stacksize + 4,
        co_linetable=line_table(items, code.co_firstlineno),
        co_exceptiontable=exception_table(items, labels),
    )


def call_of(i: Instruction, constant: int) -> list[tuple[int, int]]:
    """Instructions that call a constant with a global, and leave the result where a call finds what it calls."""
    load, call = (LOAD_CONST, constant), [(LOAD_GLOBAL, i.arg & ~1), *((opcode, 1) for opcode in CALLING)]
    if i.null > 0:
        return [load, (PUSH_NULL, 0), *call, (PUSH_NULL, 0)]
    return [(PUSH_NULL, 0), (PUSH_NULL, 0), load, *call]


def calls_global(i: Instruction) -> bool:
    """Does the instruction load a function that is then called, and no built-in one?"""
    return i.traits.reads("global") and bool(i.null) and not hasattr(builtins, i.argval)
