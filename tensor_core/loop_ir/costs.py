"""What a structured program computes and moves for arguments of some sizes, in numbers: its loops are counted, not run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core.costs import Costs
from npcompile.tensor_core.loop_ir.cost import FUNCTION, cost_of_row
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import (
    Alloc,
    Append,
    Call,
    Constant,
    For,
    If,
    Let,
    Load,
    NewList,
    Program,
    Region,
    Return,
    Routine,
    Scope,
    Size,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.rows import MEANINGS
from npcompile.tensor_core.loop_ir.states import leaves
from npcompile.tensor_core.loop_ir.types import FLOATING, Memref, Scalar, dtype_of

MOST_STEPS = 10_000  # iterations that are counted one by one, where loops inside are of other lengths in each


def costs_of_program(program: Program, arguments: Sequence[Any]) -> Costs:
    """For these arguments, which are of the program's types. Of an arm that nobody knows, the longer one is counted. A loop of
    which nobody knows the length is counted once, and named in `uncounted`."""
    counting = Counting(program)
    found = counting.found
    for param, x in zip(program.params, arguments):
        if isinstance(x, np.ndarray):
            counting.shapes[param.value] = x.shape
            found.arguments += x.nbytes
        else:
            counting.known[param.value] = x
    with np.errstate(all="ignore"):
        counting.region(program.body, 1)
    params = {param.value for param in program.params}
    returned = {value for op in walk(program.body) if isinstance(op, Return) for value in leaves(op.value)} - params
    found.outputs = sum(counting.bytes_of(value) for value in returned)
    found.temporaries = max(0, counting.allocated - found.outputs)
    return found


@dataclass(slots=True)
class Counting:
    program: Program
    found: Costs = field(default_factory=Costs)
    known: dict[int, int] = field(default_factory=dict)  # integers and truth values
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)  # of arrays
    allocated: int = 0  # bytes
    steps: int = MOST_STEPS

    def region(self, region: Region, times: float) -> None:
        for op in region:
            match op:
                case Constant(result, value) if isinstance(value, int):
                    self.known[result] = value
                case Let():
                    self.let(op, times)
                case Size(result, array, axis) if array in self.shapes:
                    self.known[result] = self.shapes[array][axis]
                case Load(result) | Store(value=result):
                    self.found.bytes_accessed += times * self.size_of_element(result)
                case View(result, sizes=sizes) | Alloc(result, sizes):
                    if all(size in self.known for size in sizes):
                        self.shapes[result] = tuple(self.known[size] for size in sizes)
                    if isinstance(op, Alloc):
                        self.allocated += int(self.bytes_of(result) * (1 if op.again or op.turns else times))
                case Call() | Routine():
                    self.routine(op, times)
                case NewList() | Append():
                    pass
                case If():
                    self.choice(op, times)
                case For():
                    self.loop(op, times)
                case While(args=args, initial=initial, body=body, at=at):
                    self.uncounted(at.line)
                    self.carried(args, initial)
                    self.region(body, times)
                case Scope(body=body):
                    self.region(body, times)

    def let(self, op: Let, times: float) -> None:
        types = [self.program.types[value] for value in (op.result, *op.args)]
        if not op.op.startswith("to_") and any(isinstance(kind, Scalar) and kind.kind in FLOATING for kind in types):
            if cost_of_row(op.op) == FUNCTION:
                self.found.transcendentals += times
            else:
                self.found.flops += times
        if all(value in self.known for value in op.args):
            try:
                found = MEANINGS[op.op](*(self.known[value] for value in op.args))
                self.known.pop(op.result, None)
                if isinstance(found, int | np.integer | np.bool_):
                    self.known[op.result] = int(found)
            except (ArithmeticError, ValueError):  # a Check leaves before it
                self.known.pop(op.result, None)
        else:
            self.known.pop(op.result, None)

    def routine(self, op: Call | Routine, times: float) -> None:
        """A sum, or a product of which the summed sizes are in the sizes of its operands and of its result."""
        arrays = [*op.args, *([op.out] if isinstance(op, Routine) else [])]
        if not all(value in self.shapes for value in arrays):
            self.uncounted(op.at.line)
            return
        sizes = [math.prod(self.shapes[value]) for value in arrays]
        self.found.bytes_accessed += times * sum(map(self.bytes_of, arrays))
        if op.op == "sum":
            self.found.flops += times * max(0, sizes[0] - 1)
        else:  # m x k, k x n and m x n, or k, k and 1
            self.found.flops += times * 2 * math.isqrt(math.prod(sizes))

    def choice(self, op: If, times: float) -> None:
        arms = [op.then, op.orelse]
        if op.condition in self.known:
            arms = arms[:1] if self.known[op.condition] else arms[1:]
        counted = []
        for arm in arms:
            one = Counting(self.program, Costs(), dict(self.known), dict(self.shapes), 0, self.steps)
            one.region(arm, times)
            counted.append((one.found.flops + one.found.transcendentals + one.found.bytes_accessed, one, arm))
        _, longer, arm = max(counted, key=lambda each: each[0])
        self.found.flops += longer.found.flops
        self.found.transcendentals += longer.found.transcendentals
        self.found.bytes_accessed += longer.found.bytes_accessed
        self.found.uncounted += [each for each in longer.found.uncounted if each not in self.found.uncounted]
        self.allocated += longer.allocated
        if arm and isinstance(end := arm[-1], Yield):
            for result, value in zip(op.results, end.values):
                if value in longer.shapes:
                    self.shapes[result] = longer.shapes[value]
                if value in longer.known and len(arms) == 1:
                    self.known[result] = longer.known[value]

    def loop(self, op: For, times: float) -> None:
        self.carried(op.args, op.initial)
        if op.start not in self.known or op.stop not in self.known:
            self.uncounted(op.at.line)
            self.region(op.body, times)
        else:
            start, stop = self.known[op.start], self.known[op.stop]
            count = max(0, stop - start)
            alike = Counting(self.program, Costs(), dict(self.known), dict(self.shapes), 0, self.steps)
            alike.region(op.body, times)
            if alike.found.uncounted and count <= self.steps:  # loops inside may be as long as the index says
                self.steps -= count
                for index in range(start, stop):
                    self.known[op.index] = index
                    self.region(op.body, times)
                self.known.pop(op.index, None)
            elif count:
                self.region(op.body, times * count)
        self.carried(op.results, op.args)

    def carried(self, args: list[int], initial: list[int]) -> None:
        """Arrays keep their shapes, numbers are not known."""
        for arg, value in zip(args, initial):
            self.known.pop(arg, None)
            if value in self.shapes:
                self.shapes[arg] = self.shapes[value]

    def uncounted(self, line: int) -> None:
        said = f"the loop at line {line}"
        if said not in self.found.uncounted:
            self.found.uncounted.append(said)

    def size_of_element(self, value: int) -> int:
        kind = self.program.types[value]
        assert isinstance(kind, Scalar), kind
        return dtype_of(kind.kind).itemsize * kind.lanes

    def bytes_of(self, value: int) -> int:
        kind = self.program.types[value]
        if not isinstance(kind, Memref) or value not in self.shapes:
            return 0
        return math.prod(self.shapes[value]) * dtype_of(kind.element).itemsize
