"""Loops that test at the end of an iteration, as loops that count.

Where the versions of a loop differ in how it is left, only what follows their test is joined: the test then stands at the end of
the joined iteration, and once more before the loop. Such a While runs as often as a For.
"""

from __future__ import annotations

from collections.abc import Mapping

from npcompile.tensor_core.loop_ir.forms import inner, regions, results, substitute_all, uses, walk
from npcompile.tensor_core.loop_ir.ops import Again, Constant, For, If, Let, LoopKind, Op, Program, Region, While, Yield
from npcompile.tensor_core.loop_ir.types import Scalar, zero_of


def rotated(program: Program, op: While, ones: set[int], tests: Mapping[int, Let]) -> Region | None:
    """A While that does `k + 1 < stop` at its end, where one of `tests`, which hold, is `less(k, stop)` of its beginning.

    None where it is another one. The ops in its place: a For, and how the loop is left.
    """
    *body, end = op.body
    if not isinstance(end, If) or len(end.then) != 1 or not isinstance(end.then[0], Again) or end.then[0].target != op.label:
        return None
    again, test = end.then[0], definition(body, end.condition)
    if test is None or test.op != "less" or sum(isinstance(x, Again) and x.target == op.label for x in walk(op.body)) != 1:
        return None
    counted, stop = test.args
    step = definition(body, counted)
    if step is None or step.op != "add" or step.args[0] not in op.args or step.args[1] not in ones:
        return None
    index = step.args[0]
    place = op.args.index(index)
    inside = {value for each in body for value in defined(each)} | set(op.args)
    if stop in inside or again.values[place] != counted or not any(t.args == [op.initial[place], stop] for t in tests.values()):
        return None
    carried = Carried(program, op, again, place)
    after = {
        value: carried.result(value) for value in dict.fromkeys(v for x in walk(end.orelse) for v in uses(x)) if value in inside
    }
    if None in after.values():
        return None
    made = For(LoopKind.SERIAL, index, op.initial[place], stop, carried.args, carried.initial, [], carried.results, op.at)
    made.body = [*body, Yield(carried.values, op.at)]
    substitute_all(end.orelse, after)  # type: ignore[arg-type]
    return [*carried.ops, made, *end.orelse]


def definition(body: Region, value: int) -> Let | None:
    return next((op for op in body if isinstance(op, Let) and op.result == value), None)


def defined(op: Op) -> list[int]:
    """All values that an op defines, for itself too."""
    return [*results(op), *inner(op), *(value for part in regions(op) for each in part for value in defined(each))]


class Carried:
    """What the For hands from one iteration to the next, and after the last one to what follows."""

    __slots__ = ("args", "initial", "ops", "program", "results", "values", "while_")

    def __init__(self, program: Program, op: While, again: Again, place: int):
        rest = [n for n in range(len(op.args)) if n != place]
        self.program, self.while_ = program, op
        self.args, self.initial = [op.args[n] for n in rest], [op.initial[n] for n in rest]
        self.values = [again.values[n] for n in rest]
        self.results = [program.copy(arg) for arg in self.args]
        self.ops: Region = []

    def result(self, value: int) -> int | None:
        """What a value of the last iteration is after the loop. None where nothing could be handed to the first one."""
        if value in self.values:
            return self.results[self.values.index(value)]
        if value in self.while_.args:
            first: int | None = self.while_.initial[self.while_.args.index(value)]
        else:
            first = self.unread(value)
        if first is None:
            return None
        self.args.append(self.program.copy(value))
        self.initial.append(first)
        self.values.append(value)
        self.results.append(self.program.copy(value))
        return self.results[-1]

    def unread(self, value: int) -> int | None:
        kind = self.program.types[value]
        if not isinstance(kind, Scalar) or kind.lanes != 1:
            return None
        self.ops.append(Constant(made := self.program.copy(value), zero_of(kind.kind), self.while_.at))
        return made
