"""Jumps, branches, loops and generators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.op import OPS
from npcompile.tracer import assumed_branches, branches, loops, raising, raising_branches
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Branch, Frame, Jump, NextItem, Outcome, Yielded
from npcompile.tracer.profitability import ELEMENTWISE_LIMIT, UNROLL_LIMIT, is_for_one_graph, is_nest_for_one_graph
from npcompile.tracer.python import generators, identity, iteration, operators
from npcompile.tracer.restarts import Break, Restart
from npcompile.tracer.values import Comparison, Constant, Iterator, Opaque, Truth

# --- jumps and loops


def jump(frame: Frame, i: Instruction) -> int:
    return i.target


def jump_backward(frame: Frame, i: Instruction) -> int | Outcome:
    return frame.jump_back(i.target)


def branch(frame: Frame, i: Instruction) -> int | Outcome | None:
    """Jump by the top value's truth."""
    jump_if = i.traits.flow == "if true"
    is_by_size = isinstance(frame.stack[-1], (Comparison, Dim))
    known = len(frame.capture.builder.env.guards)
    value = frame.pop()
    decision = operators.truth(frame.capture, value)
    if is_by_size:
        frame.is_by_size = True
        frame.size_guards += [*frame.capture.builder.env.guards][known:]
    if isinstance(decision, Truth):
        if any(not (isinstance(n, int) and n == 1) for n in decision.array.shape):
            raise Decline("the truth of an array with more than one element")
        for go_on in (raising_branches.go_on, assumed_branches.go_on):
            if (assumed := go_on(frame, i, decision, jump_if)) is not None:
                return assumed
        stack = frame.stack.copy()
        jumped = (frame.follow(i.target), stack)
        fell = (frame.follow(i.index + 1), stack)
        reason = frame.why(i.index, Decline("a branch on array data", branches.hint(frame, i)))
        assert isinstance(reason, Break)
        arms, starts = (jumped, fell), (i.target, i.index + 1)
        if not jump_if:
            arms, starts = arms[::-1], starts[::-1]
        outcome = Branch(decision, *arms, reason)
        joined = branches.capture_branch(frame, i, outcome, starts)
        return outcome if joined is None else joined
    if bool(decision.value) != jump_if:
        return None
    return take(frame, i)


def take(frame: Frame, i: Instruction) -> int | Outcome:
    return frame.jump_back(i.target) if i.target <= i.index else i.target


def branch_on_none(frame: Frame, i: Instruction) -> int | Outcome | None:
    is_none = identity.is_same_object(frame.pop(), Constant(None))
    return take(frame, i) if is_none == (i.traits.flow == "if none") else None


def get_iter(frame: Frame, i: Instruction) -> None:
    frame.push(iteration.iterator_of(frame.capture, frame.pop()))


# Iterators whose __next__ is C code without user code in it: the generated program may call it.
PLAIN_ITERATORS: tuple[type, ...] = (type(iter(range(0))), type(iter(())), type(iter([])), type(iter({})))


def for_iter(frame: Frame, i: Instruction) -> int | Outcome | None:
    iterator = frame.capture.realize(frame.stack[-1])
    rolled = frame.capture.decisions.rolled_loops
    if isinstance(iterator, Iterator):
        if frame.parent is None and i.index in rolled:
            return Jump(i.index)
        is_long = takes_long(frame, i.index, iterator)
        if not is_long and iterator.position == 1 and iteration.remaining(iterator) == UNROLL_LIMIT:
            is_long = loops.may_be_node(frame, iterator)  # so it was before the first iteration
        if (is_long or iterator.position == 1) and loops.may_be_node(frame, iterator):
            if iterator.position == 0:
                frame.push(iteration.next_item(frame.capture, iterator))
                return None
            if is_long or iteration.length_changes(iterator):
                try:
                    loops.capture_loop(frame, i.index, iterator)
                    return i.target
                except Decline:
                    if frame.parent is not None:
                        require_unrollable(frame, i.index, iterator)
                        raise
        if is_long or iteration.length_changes(iterator):
            frame.roll(i.index)
        if iterator.position == 0:
            frame.passes[i.index] = len(frame.capture.builder.made)
        item = iteration.next_item(frame.capture, iterator)
        if item is None:
            if iterator.kind != "range" or is_light_pass(frame, i.index):  # the loop may stand in another
                frame.visits.pop(i.index, None)
            frame.pop_raw()
            return i.target
        frame.push(item)
        return None
    if isinstance(iterator, Opaque) and type(iterator.example) in PLAIN_ITERATORS and frame.parent is None:
        return NextItem(i.index, iterator)
    raise Decline(f"a loop over {type_name(iterator)}")


def takes_long(frame: Frame, header: int, iterator: Iterator) -> bool:
    """Are there too many iterations for one graph? More are not too many where they do a few elementwise operations."""
    left = iteration.remaining(iterator) or 0
    if (frame.program.code, header) in frame.capture.decisions.unrolled:
        frame.before.setdefault(header, len(frame.capture.builder.made))
        return False
    is_first = iterator.position == 0 and frame.parent is None and frame.capture.place is None
    given = frame.capture.arguments.values()
    if is_first and iterator.kind == "range" and frame.capture.is_native(header, frame.locals, given):
        return not loops.has_gradients(frame)
    if left <= UNROLL_LIMIT and header not in frame.before:
        if frame.parent is None:
            frame.capture.decisions.short_loops.add(header)
        return False
    made = frame.capture.builder.made
    may_be_light = iterator.position == 0 and left <= ELEMENTWISE_LIMIT and iteration.is_of_containers(iterator)
    if may_be_light and not loops.has_gradients(frame):
        frame.before[header] = len(made)
        return False
    if header not in frame.before:
        return True
    if iterator.position != 2:
        return False
    new = made[frame.before[header] :]
    return not (is_elementwise(new) and is_for_one_graph(len(new) // 2, left + 2))


def require_unrollable(frame: Frame, header: int, iterator: Iterator) -> None:
    """Capture again with all iterations of a loop that has no place in a node, unless there are too many."""
    key = frame.program.code, header
    if (iteration.remaining(iterator) or 0) < ELEMENTWISE_LIMIT and key not in frame.capture.decisions.unrolled:
        frame.capture.decisions.unrolled.add(key)
        raise Restart


def is_elementwise(nodes: Sequence[Node]) -> bool:
    kinds = {OPS[node.op].kind for node in nodes if node.meta.ndim}
    return "elementwise" in kinds and kinds <= {"leaf", "elementwise", "movement"}


def is_light_pass(frame: Frame, header: int) -> bool:
    """Did the pass through a loop that ends here do so little that all passes which loops around it make are for one graph?"""
    made = frame.capture.builder.made[frame.passes.get(header, 0) :]
    around = [v for v in frame.stack[:-1] if isinstance(v, Iterator)]
    if not around or not is_elementwise(made) or loops.has_gradients(frame):
        return False
    operations = sum(1 for node in made if node.meta.ndim and OPS[node.op].kind == "elementwise")
    return is_nest_for_one_graph(operations, math.prod((iteration.remaining(v) or 0) + 1 for v in around))


def type_name(value: Any) -> str:
    match value:
        case Opaque():
            return f"an object of type {type(value.example).__qualname__}"
        case Array() | Dim() | Number() | Integer():
            return type(value).__name__
        case _:
            return f"a {type(value).__name__}"


# --- generators: each item is computed when it is asked for


def return_generator(frame: Frame, i: Instruction) -> None:
    frame.push(Constant(None))


def get_yield_from_iter(frame: Frame, i: Instruction) -> None:
    frame.push(generators.begin(frame.pop(), frame.capture))


def send(frame: Frame, i: Instruction) -> int | None:
    sent, delegate = frame.pop(), frame.capture.realize(frame.stack[-1])
    item = generators.ask(frame, delegate, sent)
    if item is None:
        generators.end(frame, delegate)
        return i.target
    frame.push(item)
    return None


def end_send(frame: Frame, i: Instruction) -> None:
    result = frame.pop_raw()
    frame.stack[-1] = result


def cleanup_throw(frame: Frame, i: Instruction) -> None:
    """An exception leaves what `yield from` asks; StopIteration that was thrown there ends it."""
    error = raising.raised(frame.pop())
    if not issubclass(error.value.kind, StopIteration):
        try:
            raise error
        finally:
            del error
    del frame.stack[-2:]
    frame.stack += [Constant(None), raising.load(error.value, "value")]


def yield_value(frame: Frame, i: Instruction) -> Yielded:
    value = frame.pop_raw()
    frame.push(Constant(None))  # what `yield` gives when it is not sent anything
    return Yielded(value)
