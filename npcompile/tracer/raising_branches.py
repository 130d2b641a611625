"""Branches on data whose arm only raises: assumed not to be taken, so that checks of data do not end a graph.

The program checks that at the end of its run, as it checks indices: where the arm would be taken, NumPy runs the same part of
the program instead. An arm that only warns is one too where gradients need one graph, and in a library's code: the user's may
be taken at each call.
"""

from __future__ import annotations

import numpy as np

from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.decode import Instruction, Program
from npcompile.tracer.frame import Frame
from npcompile.tracer.values import Truth

LONGEST = 200  # instructions of an arm that are looked at


def go_on(frame: Frame, i: Instruction, decision: Truth, jump_if: bool) -> int | None:
    """Where the other arm begins, if one arm of the conditional jump `i` is unlikely."""
    capture = frame.capture
    if capture.bodies or is_handled(frame):
        return None
    program, following = frame.program, i.index + 1
    may_warn = capture.goes_through_gradients or frame.globals_source is None  # a library warns of data out of the ordinary
    if raises(program, following) or may_warn and only_warns(program, following, i.target):
        jumps = True
    elif raises(program, i.target):
        jumps = False
    else:
        return None
    if "branches" not in capture.builder.ignored:
        require(frame, decision, jump_if is jumps)
    return i.target if jumps else following


def require(frame: Frame, decision: Truth, truth: bool) -> None:
    """The program raises Unexpected, and NumPy runs, where the truth is another."""
    builder, node = frame.capture.builder, decision.array.node
    if node.dtype != np.bool_:
        node = builder.apply("cast", node, dtype=np.dtype(bool))
    if decision.negated is not truth:
        node = builder.apply("logical_not", node)
    builder.apply("require_none", node)


def is_handled(frame: Frame | None) -> bool:
    """Would a handler of the program see what is raised here?"""
    while frame is not None:
        if analyse(frame.program.code).protected[frame.index]:
            return True
        frame = frame.parent
    return False


def raises(program: Program, start: int) -> bool:
    for i in program.instructions[start : start + LONGEST]:
        if i.traits.flow == "raise":
            return True
        if i.target >= 0 or lasts(i):
            return False
    return False


def lasts(i: Instruction) -> bool:
    """Does the instruction do more than compute and set variables of its own?"""
    traits = i.traits
    return traits.access == "write" and traits.place != "local" or traits.is_branch or traits.flow in ("return", "yield", "raise")


def only_warns(program: Program, start: int, end: int) -> bool:
    """Do the instructions from `start` to `end` call warnings.warn, and nothing else that lasts?"""
    arm = program.instructions[start:end]
    if not arm or len(arm) > LONGEST or any(lasts(i) and i.target != end for i in arm):
        return False
    names = [i.argval for i in arm if i.traits.reads("global") or i.traits.reads("attribute")]
    return names[:2] == ["warnings", "warn"] and sum(i.traits.call != "" for i in arm) == 1
