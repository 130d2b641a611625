"""The smallest program that still differs: lines, blocks, rounds and arguments are left out while it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npcompile import shrinking
from tests.fuzz.outcomes import difference
from tests.fuzz.programs import Program

SECONDS = 30.0


def smallest(program: Program, backend: str) -> Program:
    """A program, none of whose simpler ones differs, or what was reached in SECONDS."""

    def fails(simpler: Program) -> bool:
        return simpler.is_valid and difference(simpler, backend) is not None

    return shrinking.smallest(program, simpler_programs, fails, SECONDS)


def simpler_programs(program: Program) -> Iterator[Program]:
    if len(program.sizes) > 1:
        yield replace(program, sizes=program.sizes[:-1])
    for body in shrinking.simpler_bodies(program.body):
        yield replace(program, body=body)
    for k, line in enumerate(program.arguments):
        name = line.split(" = ")[0]
        for simple in (
            f"{name} = laid_out((n, m), 'float64', 1 + round, '')",
            f"{name} = laid_out((n,), 'float64', 1 + round, '')",
        ):
            if len(simple) < len(line):
                yield replace(program, arguments=(*program.arguments[:k], simple, *program.arguments[k + 1 :]))
        used = [*program.body, *program.arguments[:k], *program.arguments[k + 1 :]]
        if len(program.parameters) > 1 and not any(name in other for other in used):
            parameters = tuple(p for p in program.parameters if p != name)
            yield replace(program, arguments=(*program.arguments[:k], *program.arguments[k + 1 :]), parameters=parameters)
    for simpler in (
        replace(program, warns=False),
        replace(program, dynamic=None),
        replace(program, place="position"),
    ):
        if simpler != program:
            yield simpler
