"""What an iteration adds to the integers that a loop hands on: between which constants it lies, whichever arms are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.ops import Break, For, If, Let, Region, Scope, Yield


class Step(NamedTuple):
    """`arg` and between `least` and `most`."""

    arg: int
    least: int
    most: int
    is_tested: bool = False  # is it asked whether the sum leaves its word?


def steps_of(loop: For, ranges: Ranges) -> dict[int, Step]:
    """By argument of a loop: what an iteration adds to it. Without those that become something else.

    `ranges` knows the constants from outside the loop.
    """
    sums = Sums(ranges, {arg: Step(arg, 0, 0) for arg in loop.args})
    yielded = sums.region(loop.body)
    found = {arg: step for arg, step in zip(loop.args, yielded) if step is not None and step.arg == arg}
    return {arg: step._replace(is_tested=arg in sums.tested) for arg, step in found.items()}


@dataclass(slots=True)
class Sums:
    """The values of a loop's body that are an argument and what was added."""

    ranges: Ranges
    of: dict[int, Step]
    tested: set[int] = field(default_factory=set)  # arguments
    left: dict[int, list[list[Step | None]]] = field(default_factory=dict)  # by label of a Scope: what it is left with

    def region(self, region: Region) -> list[Step | None]:
        """What a region yields."""
        for op in region:
            match op:
                case Let(result, "add" | "subtract" as name, [a, b]):
                    self.added(result, name, a, b)
                case Let(_, "add_overflows" | "subtract_overflows", args):
                    self.tested.update(self.of[arg].arg for arg in args if arg in self.of)
                case If(_, then, orelse, made):
                    self.met(made, [each for each in (self.region(then), self.region(orelse)) if each])
                case Scope(label, body, made):
                    self.left[label] = []
                    self.region(body)
                    self.met(made, self.left[label])
                case Yield(values):
                    return self.steps(values)
                case Break(label, values) if label in self.left:
                    self.left[label].append(self.steps(values))
        return []

    def steps(self, values: list[int]) -> list[Step | None]:
        return [self.of.get(value) for value in values]

    def added(self, result: int, name: str, a: int, b: int) -> None:
        if name == "add" and b in self.of:
            a, b = b, a
        form = self.ranges.forms.get(b)
        if a in self.of and form is not None and not form.factors:
            added, before = form.constant if name == "add" else -form.constant, self.of[a]
            self.of[result] = Step(before.arg, before.least + added, before.most + added)

    def met(self, made: list[int], ways: list[list[Step | None]]) -> None:
        """Results where several ways meet, each with its own."""
        for value, steps in zip(made, zip(*ways)):
            known = [step for step in steps if step is not None and step.arg == (steps[0] or step).arg]
            if len(known) == len(steps):
                self.of[value] = Step(known[0].arg, min(step.least for step in known), max(step.most for step in known))
