"""Variables to which each iteration of a loop only does something like adding a number that it computes without them.

Threads compute the numbers, which are kept. When all have them, the calling thread adds them in the order of the iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from npcompile.backends.cpu.loops.parallel_loops import Site, Sum
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.native.types import Scalar

Meaning = Callable[[ScalarLoops, Sequence[Any], Fail], Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to the variable, which is None among the operands."""

    meaning: Meaning
    operands: tuple[Scalar | None, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """What the variable was when the iteration began, and what was done to it since."""

    name: str
    kind: str
    steps: tuple[Step, ...] = ()


def is_ordered(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Ordered) for v in values)


def updated(operands: Sequence[Any], meaning: Meaning) -> Ordered:
    """What an operation on numbers and one such variable gives."""
    found = [x for x in operands if isinstance(x, Ordered)]
    if len(found) != 1 or not all(isinstance(x, Scalar | Ordered) for x in operands):
        raise NoForm(f"{found[0].name} beside other than numbers")
    step = Step(meaning, tuple(x if isinstance(x, Scalar) else None for x in operands))
    return Ordered(found[0].name, found[0].kind, (*found[0].steps, step))


def site(code: ScalarLoops, value: Ordered, variable: Sum) -> Site:
    """The statement at which the variable is set, and how the numbers that are kept are combined there."""
    terms = [x for step in value.steps for x in step.operands if x is not None]
    made = variable.site(code.instruction, [(x.kind, x.text) for x in terms])
    if not made.lines:
        kept, code.lines = code.lines, []
        names = iter(made.names)
        result: Any = Scalar(value.kind, variable.name)
        code.computed.clear()
        for step in value.steps:
            operands = [result if x is None else Scalar(x.kind, next(names)) for x in step.operands]
            result = step.meaning(code, operands, lambda: "stop")
        made.lines, code.lines = [*code.lines, f"{variable.name} = {getattr(result, 'text', '')};"], kept
        code.computed.clear()
        if not isinstance(result, Scalar) or result.kind != value.kind:
            raise NoForm(f"{value.name} changes its type")
    return made


def are_ordered(facts: CodeFacts, header: int, region: frozenset[int], names: frozenset[str]) -> bool:
    """Does no iteration read one of these variables after it has set it?"""
    for name in names:
        kinds = {k: [a.kind for a in facts.effects[k].accesses if facts.slots[a.slot] == name] for k in region}
        writes = [k for k in region if "write" in kinds[k]]
        if any(kind not in ("read", "write") for found in kinds.values() for kind in found):
            return False
        seen: set[int] = set()
        pending = [s for k in writes for s in facts.successors[k]]
        while pending:
            k = pending.pop()
            if k in region and k != header and k not in seen:
                seen.add(k)
                pending += facts.successors[k]
        if any("read" in kinds[k] for k in seen.union(k for k in writes if len(kinds[k]) > 1)):
            return False
    return True
