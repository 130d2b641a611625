"""Branches on data an arm of which has effects: the arm that this call takes is assumed, so that the graph goes on with it.

Such an arm is no part of a node. The program checks what was assumed when its graph has run, before it does anything else: where
the other arm is to be taken, Python runs the same part of the program. A branch both of whose arms are taken ends the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from npcompile.backends.eager import compile_eager
from npcompile.tensor_core.dim import evaluate
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.source import Source
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame, Outcome
from npcompile.tracer.guard_text import text_of
from npcompile.tracer.raising_branches import require
from npcompile.tracer.restarts import Restart
from npcompile.tracer.values import Truth

MOST_ELEMENTS = 2**20  # that are computed to find out which arm a call takes: of larger arrays a graph more is nothing


def go_on(frame: Frame, i: Instruction, decision: Truth, jump_if: bool) -> int | Outcome | None:
    """Where the arm begins that this call takes at the conditional jump `i`, if that is assumed of other calls too."""
    capture, key = frame.capture, (frame.program.code, i.index)
    arms = capture.arms
    if key not in capture.decisions.with_effects or key in arms.varying or not may_assume(capture):
        return None
    truth = truth_now(capture, decision)
    if truth is None:
        return None
    if not arms.take(key, truth):
        raise Restart
    capture.assumed.append(key)
    require(frame, decision, truth)
    if truth is not jump_if:
        return i.index + 1
    return frame.jump_back(i.target) if i.target <= i.index else i.target


def may_assume(capture: Capture) -> bool:
    """Not where one graph is asked for, which could not end there later, nor where gradients go, or on a device."""
    return capture.may_break and capture.is_plain()


# --- which arm this call takes


def truth_now(capture: Capture, decision: Truth) -> bool | None:
    """The truth in this call, computed by NumPy. None where that is not known before the program runs, or would take long."""
    builder = capture.builder
    if builder.measured:
        return None
    graph = builder.finish([decision.array.node])
    if sum(elements(node, capture) for node in graph.nodes) > MOST_ELEMENTS:
        return None
    try:
        found = value_now(capture, replace(graph, checks=frozenset()))
    except Exception:  # noqa: BLE001  (what is raised here is raised when the program runs, too)
        return None
    return bool(found) is not decision.negated


def elements(node: Node, capture: Capture) -> int:
    size = getattr(node.meta, "size", 0)  # of several results, each is a node
    return evaluate(size, capture.builder.env.hints)


def value_now(capture: Capture, graph: Graph) -> Any:
    """The result of a graph for the arguments of this call."""
    env, scope = capture.builder.env, {**capture.arguments}

    def value_of(text: str) -> Any:
        return eval(text, capture.namespace, scope)

    for guard in env.guards:
        if guard.gives():
            value_of(text_of(guard))
    needed = {*graph.nodes}
    sources: list[Source | None] = capture.builder.arguments
    inputs = [value_of(str(source)) if node in needed else 0 for node, source in zip(graph.inputs, sources)]
    (result,) = compile_eager(graph, ())(*inputs, *(scope[name] for name in graph.symbols))
    return result
