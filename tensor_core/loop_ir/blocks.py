"""A loop over blocks of another loop's iterations: what passes that do something once for a block put around one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import (
    Call,
    Constant,
    For,
    FrameState,
    Let,
    LoopKind,
    Poll,
    Program,
    Region,
    Routine,
    Size,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Declined
from npcompile.tensor_core.loop_ir.types import INT

BLOCK = 512  # iterations: what they store stays in the nearest cache


@dataclass(frozen=True, slots=True)
class Block:
    """One block, while its ops are emitted: its iterations are `low` to before `high`, and it is entered with `args`."""

    made: Emitter
    low: int
    high: int
    count: int
    zero: int
    args: list[int]
    state: int  # of the look for signals at its beginning


def in_blocks(program: Program, op: For, prefix: Region, inside: Callable[[Block], list[int]], size: int | None = None) -> Region:
    """Ops in the place of a loop. Each block begins with the loop's `prefix`; `inside` emits the rest, and gives its results.

    `size`: a value, how many iterations a block has; else there are BLOCK.
    """
    made = Emitter(program, op.at)
    zero, one = made.constant(0), made.constant(1)
    size = made.constant(BLOCK) if size is None else size
    # Of a count of 0 there is no block: (0 - 1) // size is -1.
    last = made.let("floor_divide", made.let("subtract", made.let("span", op.start, op.stop), one), size)
    blocks = made.let("add", last, one)
    number = program.new(INT)
    args = [program.copy(arg) for arg in op.args]
    body = Emitter(program, op.at)
    low = body.let("add", op.start, body.let("multiply", number, size))
    count = body.let("clip_bound", size, body.let("subtract", op.stop, low))
    high = body.let("add", low, count)
    body.ops += Cloner(program, program, {op.index: low, **dict(zip(op.args, args))}).region(prefix)
    poll = body.ops[-1]
    assert isinstance(poll, Poll), poll
    body.emit(Yield(inside(Block(body, low, high, count, zero, args, poll.state)), op.at))
    made.emit(For(LoopKind.SERIAL, number, zero, blocks, args, op.initial, body.ops, op.results, op.at))
    return made.ops


def has_long_iterations(op: For) -> bool:
    """May an iteration take so long that each one looks for signals? It has a loop, or the product of two vectors."""
    return any(isinstance(each, For | While | Call | Routine) for each in walk(op.body))


def prefix_of(op: For) -> Region:
    """The ops of an iteration up to its look for signals. Raises Declined."""
    for k, each in enumerate(op.body):
        if type(each) is Poll:
            return op.body[: k + 1]
        if not isinstance(each, FrameState | Let | Constant | Size):
            break
    raise Declined("an iteration does not begin with a look for signals")
