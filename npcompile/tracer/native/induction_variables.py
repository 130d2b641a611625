"""Variables that only count: a function sets them to small integers, and adds small integers to them.

They do not become as large as 64 bits allow, as that would take years: what is added to them needs no test for overflow.
"""

from __future__ import annotations

from npcompile.backends.cpu.loops.value_ranges import Integer
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.bytecode.decode import Instruction, Program
from npcompile.tracer.native.states import names_set

LARGEST_STEP = 16
LARGEST_START = 2**32
MOST = 2**60  # after as many steps as a processor does in a year


def counters_of(program: Program, facts: CodeFacts) -> dict[str, Integer]:
    """Names of variables, and between which integers they are."""
    code = program.code
    given = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    others = {*code.co_varnames[:given]}
    least: dict[str, int] = {}
    for i in program.instructions:
        for name in names_set(i):
            if name in others:
                continue
            found = smallest(program, facts, i, name) if i.traits.writes("local") else None
            if found is None:
                others.add(name)
            else:
                least[name] = min(least.get(name, 0), found)
    return {n: Integer(0 if x == 0 else -MOST, MOST) for n, x in least.items() if n not in others}


def smallest(program: Program, facts: CodeFacts, store: Instruction, name: str) -> int | None:
    """0 if what is stored is no less than the variable was, or than 0; else -1. None if it may be anything."""
    before = [program.instructions[store.index - k] for k in (1, 2, 3) if store.index >= k]
    if store.index in facts.jump_targets or not before:
        return None
    if before[0].traits.is_constant:
        value = before[0].argval
        return None if type(value) is not int or abs(value) > LARGEST_START else -(value < 0)
    sign = before[0].argval.removesuffix("=") if before[0].traits.operator == "binary" else ""
    if sign not in ("+", "-") or len(before) < 3 or any(i.index in facts.jump_targets for i in before[:2]):
        return None
    constant, read = before[1:]
    is_read = read.traits.reads("local") and read.argval == name
    value = constant.argval if constant.traits.is_constant else None
    if not is_read or type(value) is not int or abs(value) > LARGEST_STEP:
        return None
    return -(value < 0 if sign == "+" else value > 0)
