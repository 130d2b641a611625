"""All programs, in the order of the report."""

from __future__ import annotations

from benchmarks.programs import (
    elementwise,
    factorizations,
    images,
    learning,
    nests,
    reductions,
    sequences,
    simulation,
    solvers,
    sparse,
    statistics,
    stencils,
)
from benchmarks.programs.program import Program

FAMILIES = (
    elementwise,
    reductions,
    statistics,
    learning,
    images,
    stencils,
    solvers,
    factorizations,
    simulation,
    sequences,
    nests,
    sparse,
)
PROGRAMS: dict[str, Program] = {program.name: program for family in FAMILIES for program in family.PROGRAMS}
