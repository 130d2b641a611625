"""The form that reverse mode takes: every region is left at its end alone, and every Scope by Breaks to itself alone.

Going back, a region has to know how it was left. A Scope or loop that is also left for somewhere else gets one more result, the
number of the way out, and who follows it goes on by that number. What stood after an If that may leave goes into its arm that
goes on. A counted loop that is left from inside becomes one that is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.forms import regions, walk
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Break,
    Constant,
    For,
    If,
    Let,
    Op,
    Program,
    Region,
    Return,
    Scope,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.states import Fixed, Literal, Recipe, Tagged, Use
from npcompile.tensor_core.loop_ir.types import BOOL, F32, F64, FLOAT, INT, Scalar, zero_of


def with_single_exits(program: Program) -> None:
    """Bring a structured program into this form, in place. Raises NoDerivative."""
    form = SingleExits(program)
    form.one_return()
    program.body = form.region(program.body, -1)


def leaving(op: Op) -> list[Break | Again]:
    """The ops that leave `op` for what is around it."""
    ops = walk([op])
    own = {each.label for each in ops if type(each) is Scope or type(each) is While}
    return [each for each in ops if (type(each) is Break or type(each) is Again) and each.target not in own]


@dataclass(slots=True)
class SingleExits:
    program: Program

    def one_return(self) -> None:
        """Let the function end at its end alone."""
        body = self.program.body
        ends = [op for op in walk(body) if isinstance(op, Return)]
        if len(ends) == 1 and body[-1] is ends[0]:
            return
        label = self.program.new_label()
        if all(op.value == Fixed(None) for op in ends):
            self.replace(body, label, False)
            self.program.body = [Scope(label, body, []), Return(Fixed(None))]
            return
        kinds = {kind for end in ends for kind in self.kinds(end.value, end)}
        is_mixed = len(kinds) > 1
        self.replace(body, label, is_mixed)
        value = self.program.new(F64 if is_mixed else kinds.pop(), "result")
        results = [value]
        recipe: Recipe = Use(value)
        if is_mixed:
            results.append(self.program.new(BOOL, "is_float"))
            recipe = Tagged(results[1], value)
        self.program.body = [Scope(label, body, results), Return(recipe)]

    def kinds(self, recipe: Recipe, end: Return) -> list[Scalar]:
        match recipe:
            case Use(value) if (kind := self.program.types[value]) in (F32, F64, FLOAT):
                return [kind]  # type: ignore[list-item]
            case Fixed(float()):
                return [FLOAT]
            case Tagged():
                return [F64, FLOAT]
        raise NoDerivative("a function that ends in several places, and not always with a floating-point number", end.at.line)

    def replace(self, region: Region, label: int, is_mixed: bool) -> None:
        """Break for Return, with the number, and where it may be Python's or NumPy's with the truth of the first."""
        for op in region:
            for part in regions(op):
                self.replace(part, label, is_mixed)
        end = region[-1]
        if not isinstance(end, Return):
            return
        region.pop()
        match end.value:
            case Tagged(tag, value):
                values = [value, tag]
            case Fixed(float() as number):
                values = [self.constant(region, number, FLOAT)]
            case Use(value):
                values = [value]
            case _:
                values = []
        if is_mixed and len(values) == 1:
            is_float = self.program.types[values[0]] == FLOAT
            converted = self.program.new(F64)
            region.append(Let(converted, "to_f64", values, end.at))
            values = [converted, self.constant(region, is_float, BOOL)]
        region.append(Break(label, values, end.at))

    def constant(self, region: Region, value: Literal, kind: Scalar) -> int:
        result = self.program.new(kind)
        region.append(Constant(result, value))
        return result

    # --- regions

    def region(self, region: Region, label: int) -> Region:
        """The region in this form. `label`: of the Scope that it is the body of, or -1."""
        made: Region = []
        for k, op in enumerate(region):
            found: Op = op
            if isinstance(op, For) and leaving(op):
                found = self.uncounted(op)
            elif isinstance(op, If) and leaving(op) and any(isinstance(arm[-1], Yield) for arm in (op.then, op.orelse)):
                found = self.scope_of(op)
            match found:
                case Scope():
                    found.body = self.region(found.body, found.label)
                case For() | While():
                    found.body = self.region(found.body, -1)
                case If():
                    found.then, found.orelse = self.region(found.then, -1), self.region(found.orelse, -1)
            if isinstance(found, While) and not self.is_alone(found, label, made):
                found = Scope(self.program.new_label(), [found], [], found.at)
            if isinstance(found, Scope) and (ways := {way.target: way for way in leaving(found)}):
                return [*made, *self.dispatched(found, list(ways), region[k + 1 :])]
            made.append(found)
        return made

    def is_alone(self, op: While, label: int, before: Region) -> bool:
        """Is the loop left only for the end of the Scope that it stands in, and nothing else there is?"""
        is_own = all(isinstance(each, Break) and each.target == label for each in leaving(op))
        return is_own and not any(each.target == label for one in before for each in leaving(one))

    def scope_of(self, op: If) -> Scope:
        """An If that goes on in one arm alone, as a Scope."""
        label = self.program.new_label()
        for arm in (op.then, op.orelse):
            end = arm[-1]
            if isinstance(end, Yield):
                arm[-1] = Break(label, end.values, end.at)
        made = Scope(label, [op], op.results, op.at)
        op.results = []
        return made

    def uncounted(self, op: For) -> Scope:
        new = self.program.new
        scope, loop = self.program.new_label(), self.program.new_label()
        condition, one, following = new(BOOL), new(INT), new(INT)
        end = op.body[-1]
        if not isinstance(end, Yield):
            raise NoDerivative("a counted loop whose every iteration leaves it", op.at.line)
        again = [Constant(one, 1), Let(following, "add", [op.index, one]), Again(loop, [following, *end.values], end.at)]
        body: Region = [
            Let(condition, "less", [op.index, op.stop], op.at),
            If(condition, [*op.body[:-1], *again], [Break(scope, list(op.args), op.at)], [], op.at),
        ]
        made = While(loop, [op.index, *op.args], [op.start, *op.initial], body, op.at)
        return Scope(scope, [made], op.results, op.at)

    def dispatched(self, op: Scope, targets: list[int], rest: Region) -> Region:
        """A Scope that is left for `targets` too: who follows it goes on by the number of the way out."""
        ways = {way.target: way for way in leaving(op)}
        own = op.label
        kinds = [[self.program.types[value] for value in ways[target].values] for target in targets]
        if any(not isinstance(kind, Scalar) for part in kinds for kind in part):
            raise NoDerivative("a loop that is left in several places while variables hold arrays", op.at.line)
        handed = [[self.program.copy(value) for value in ways[target].values] for target in targets]
        number = self.program.new(INT, "way")
        self.give(op.body, own, targets, [*op.results], handed)
        op.results = [*op.results, number, *(value for part in handed for value in part)]
        following = self.region(rest, -1) if rest else []
        for k in reversed(range(len(targets))):
            end = ways[targets[k]]
            leave: Op = type(end)(targets[k], list(handed[k]), end.at)
            if not following:
                following = [leave]
                continue
            wanted, is_way = self.program.new(INT), self.program.new(BOOL)
            following = [
                Constant(wanted, k + 1),
                Let(is_way, "equal", [number, wanted], op.at),
                If(is_way, [leave], following, [], op.at),
            ]
        return [op, *following]

    def give(self, region: Region, own: int, targets: list[int], results: list[int], handed: list[list[int]]) -> None:
        """Let every Break to the Scope, and all that leaves it for `targets`, break to it with all of its results."""
        for op in region:
            for part in regions(op):
                self.give(part, own, targets, results, handed)
        end = region[-1]
        if not isinstance(end, Break | Again) or end.target not in (own, *targets):
            return
        region.pop()
        way = 0 if end.target == own else targets.index(end.target) + 1
        values = list(end.values) if way == 0 else [self.zero(region, value) for value in results]
        values.append(self.constant(region, way, INT))
        for k, taken in enumerate(handed, 1):
            values += end.values if k == way else [self.zero(region, value) for value in taken]
        region.append(Break(own, values, end.at))

    def zero(self, region: Region, like: int) -> int:
        kind = self.program.types[like]
        if not isinstance(kind, Scalar):
            raise NoDerivative("a loop that is left in several places while variables hold arrays")
        return self.constant(region, zero_of(kind.kind), kind)
