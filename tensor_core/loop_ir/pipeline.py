"""The passes, in their order. Each changes a program in place and says how often it fired."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from npcompile.tensor_core.events import stretch
from npcompile.tensor_core.loop_ir.check_hoisting import hoist_checks
from npcompile.tensor_core.loop_ir.clone import renumber
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.forwarding import forward_stores
from npcompile.tensor_core.loop_ir.fp_status import sink_flag_checks
from npcompile.tensor_core.loop_ir.if_conversion import convert_ifs
from npcompile.tensor_core.loop_ir.joins import join
from npcompile.tensor_core.loop_ir.licm import hoist_invariants
from npcompile.tensor_core.loop_ir.memory import take_again
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.parallelize import parallelize
from npcompile.tensor_core.loop_ir.peel import peel
from npcompile.tensor_core.loop_ir.report import Report, Said
from npcompile.tensor_core.loop_ir.signals import look_less_often
from npcompile.tensor_core.loop_ir.simplify import simplify
from npcompile.tensor_core.loop_ir.speculation import speculate
from npcompile.tensor_core.loop_ir.step_blocks import speculate_steps
from npcompile.tensor_core.loop_ir.structure import structure
from npcompile.tensor_core.loop_ir.value_ranges import value_ranges
from npcompile.tensor_core.loop_ir.vectorize import vectorize
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of
from npcompile.tensor_core.loop_ir.views import see_through_views
from npcompile.tensor_core.loop_ir.wavefront import skew_rows


class Transform(Protocol):
    """Changes a program in place. How often it fired, or a report of where."""

    def __call__(self, program: Program, /) -> int | Report: ...


@dataclass(frozen=True, slots=True)
class Pass:
    name: str
    run: Transform
    stage: Stage  # in which a program has to be


LANES = 8  # of doubles: the widest registers of x86, and for others a few of theirs
PASSES = (
    Pass("join", join, Stage.CFG),
    Pass("peel", peel, Stage.CFG),
    Pass("simplify", simplify, Stage.CFG),
    Pass("structure", structure, Stage.CFG),
    Pass("views", see_through_views, Stage.STRUCTURED),
    Pass("loop-invariant code", hoist_invariants, Stage.STRUCTURED),
    Pass("value ranges", value_ranges, Stage.STRUCTURED),
    Pass("check hoisting", hoist_checks, Stage.STRUCTURED),
    Pass("floating-point status", sink_flag_checks, Stage.STRUCTURED),
    Pass("steps", speculate_steps, Stage.STRUCTURED),
    Pass("wavefront", skew_rows, Stage.STRUCTURED),
    Pass("forward stores", forward_stores, Stage.STRUCTURED),
    Pass("parallelize", parallelize, Stage.STRUCTURED),
    Pass("speculate", speculate, Stage.STRUCTURED),
    Pass("if-conversion", convert_ifs, Stage.STRUCTURED),
    Pass("vectorize", partial(vectorize, lanes=LANES), Stage.STRUCTURED),
    Pass("signals", look_less_often, Stage.STRUCTURED),
    Pass("memory", take_again, Stage.STRUCTURED),
)


def before(name: str) -> tuple[Pass, ...]:
    """The passes that run before the one of this name."""
    return PASSES[: next(k for k, each in enumerate(PASSES) if each.name == name)]


SCALAR_PASSES = before("steps")  # for a target without threads and vectors, which looks at no flags


@dataclass(frozen=True, slots=True)
class Ran:
    """One pass over one program."""

    name: str
    fired: int
    ops: int  # before it
    seconds: float  # of the processor
    said: tuple[Said, ...] = ()


def differentiable(program: Program) -> None:
    """Run the passes before reverse mode, in place: it takes structured programs, before there are versions of loops."""
    for each in before("check hoisting"):
        if stage_of(program) is each.stage:
            each.run(program)
    renumber(program)


def run_passes(
    program: Program, after: Callable[[Pass], None] | None = None, without: str = "", passes: Sequence[Pass] = PASSES
) -> list[Ran]:
    """Run passes on a program in place.

    `after` is called after each, with values numbered anew. `without`: the name of one to leave out. A program that cannot be
    structured stays in blocks, and later passes leave it alone.
    """
    log = []
    for each in passes:
        if each.name == without or stage_of(program) is not each.stage:
            continue
        ops = sum(1 for _ in walk(program.body))
        began = time.thread_time()
        with stretch("pass", each.name):
            found = each.run(program)
        seconds = time.thread_time() - began
        report = found if isinstance(found, Report) else Report(found)
        log.append(Ran(each.name, report.fired, ops, seconds, tuple(report.said)))
        if after is not None:
            renumber(program)
            after(each)
    began = time.thread_time()
    renumber(program)
    log.append(Ran("renumber", 0, sum(1 for _ in walk(program.body)), time.thread_time() - began))
    return log
