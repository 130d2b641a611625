"""The smallest program that still differs: lines, blocks, rounds and arguments are left out while it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.outcomes import difference
from tests.fuzz.programs import Program

SECONDS = 30.0


def smallest(program: Program, backend: str) -> Program:
    """A program, none of whose simpler ones differs, or what was reached in SECONDS."""
    end = time.perf_counter() + SECONDS
    found = True
    while found:
        found = False
        for simpler in simpler_programs(program):
            if time.perf_counter() > end:
                return program
            if simpler.is_valid and difference(simpler, backend) is not None:
                program, found = simpler, True
                break
    return program


def simpler_programs(program: Program) -> Iterator[Program]:
    for k in range(len(program.sizes)):
        if len(program.sizes) > 1 and k + 1 == len(program.sizes):
            yield replace(program, sizes=program.sizes[:k])
    body = program.body
    for k in reversed(range(len(body))):
        depth = indent(body[k])
        end = next((j for j in range(k + 1, len(body)) if indent(body[j]) <= depth), len(body))
        yield replace(program, body=(*body[:k], *body[end:]))
        if end > k + 1:
            yield replace(program, body=(*body[:k], *(line[4:] for line in body[k + 1 : end]), *body[end:]))
            yield replace(program, body=(*body[: k + 1], " " * (depth + 4) + "pass", *body[end:]))
        returned = body[k].strip().removeprefix("return ").split(", ")
        if body[k].strip().startswith("return ") and len(returned) > 1 and "(" not in body[k]:
            for j in range(len(returned)):
                kept = [*returned[:j], *returned[j + 1 :]]
                yield replace(program, body=(*body[:k], f"{' ' * depth}return {', '.join(kept)}", *body[k + 1 :]))
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


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())
