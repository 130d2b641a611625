"""The forms that say most: a Scope that ends where its arms end is an If with results, a While that counts is a For."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import all_regions, regions, results, substitute_final, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Break,
    Constant,
    For,
    If,
    Let,
    LoopKind,
    Op,
    Program,
    Region,
    Scope,
    Size,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.rotated import rotated


def tidy(program: Program) -> int:
    """Tidy a structured program in place. How many forms were found."""
    constants = [op for op in walk(program.body) if isinstance(op, Constant)]
    tidier = Tidier(program, {op.result for op in constants if type(op.value) is int and op.value == 1})
    tidier.region(program.body)
    substitute_final(program.body, tidier.new)
    return tidier.found


@dataclass(slots=True)
class Tidier:
    program: Program
    ones: set[int]  # the constant 1, wherever it stands
    found: int = 0
    new: dict[int, int] = field(default_factory=dict)
    lets: dict[int, Let] = field(default_factory=dict)  # comparisons
    tests: dict[int, Let] = field(default_factory=dict)  # those that hold where the tidier is

    def region(self, region: Region) -> None:
        for op in region:
            if type(op) is Let:
                if op.op == "less":
                    self.lets[op.result] = op
            else:
                for part in regions(op):
                    self.tested(op, part)
        k = 0
        while k < len(region):
            op = region[k]
            if isinstance(op, While) and (made := self.counted(op) or self.rotated(op)) is not None:
                region[k : k + 1] = made
                self.found += 1
            elif isinstance(op, Scope) and (spliced := self.without(op)) is not None:
                region[k : k + 1] = spliced
                self.found += 1
            else:
                k += 1

    def tested(self, op: Op, part: Region) -> None:
        """A region of an op: what an If asks holds where its first arm runs."""
        known = self.tests
        if isinstance(op, If) and part is op.then and (test := self.lets.get(op.condition)) is not None:
            self.tests = {**known, op.condition: test}
        self.region(part)
        self.tests = known

    # --- Scopes

    def without(self, op: Scope) -> Region | None:
        """The body of a Scope that is left only where it ends."""
        if isinstance(op.body[0], While) or not ends_with_all(op.body, Break, op.label):
            return None
        values = self.close(op.body, Break, op.label, len(op.results))
        self.new |= {result: value for result, value in zip(op.results, values, strict=True) if result != value}
        return op.body

    def close(self, region: Region, kind: type[Break] | type[Again], label: int, count: int) -> list[int]:
        """Take the end of a region, which leaves by `kind`, off. The values that it leaves with."""
        end = region[-1]
        if isinstance(end, Break | Again):
            region.pop()
            return end.values
        if isinstance(end, While):
            return self.enclose(region, end, label)
        assert isinstance(end, If), end
        arms = []
        for arm in (end.then, end.orelse):
            if ends_with(arm, kind, label):
                arms.append(self.close(arm, kind, label, count))
                arm.append(Yield(arms[-1], end.at))
        end.results = [self.program.copy(value) for value in arms[0]]
        return list(end.results)

    def enclose(self, region: Region, end: While, label: int) -> list[int]:
        """Give a While at the end of a region a Scope of its own. The results of this."""
        leaves = [op for op in walk(end.body) if isinstance(op, Break) and op.target == label]
        own = self.program.new_label()
        for op in leaves:
            op.target = own
        values = [self.program.copy(value) for value in leaves[0].values]
        region[-1] = Scope(own, [end], values, end.at)
        return list(values)

    # --- Whiles

    def counted(self, op: While) -> Region | None:
        """A While whose first test is `k < n`, whose every iteration adds 1 to k, and that leaves after the last, as a For."""
        head, test = op.body[:-1], op.body[-1]
        if not isinstance(test, If) or not all(isinstance(each, Let | Constant | Size) for each in head):
            return None
        match next((each for each in head if results(each) == [test.condition]), None), test.orelse:
            case Let(_, "less", [k, stop]), [Break() as leave] if k in op.args:
                pass
            case _:
                return None
        constants = [each for each in head if type(each) is Constant]  # they may stand before the loop: what leaves may need them
        head = [each for each in head if type(each) is not Constant]
        inside = {value for each in [*head, *walk(test.then)] for value in results(each)} | set(op.args)
        own = {value for each in head for value in results(each)}
        if stop in inside or k in leave.values or own & set(leave.values):
            return None
        place = op.args.index(k)
        if not self.adds_one(test.then, self.next_values(test.then, op.label), k, place, head):
            return None
        are_at_end = ends_with_all(test.then, Again, op.label)
        values = self.close(test.then, Again, op.label, len(op.args)) if are_at_end else self.gathered(test.then, op)
        rest = [n for n in range(len(op.args)) if n != place]
        args = [op.args[n] for n in rest]
        made = [self.program.copy(arg) for arg in args]
        body = [
            *(each for each in head if results(each) != [test.condition]),
            *test.then,
            Yield([values[n] for n in rest], op.at),
        ]
        ended = dict(zip(args, made))
        leave.values = [ended.get(value, value) for value in leave.values]
        initial = [op.initial[n] for n in rest]
        return [*constants, For(LoopKind.SERIAL, k, op.initial[place], stop, args, initial, body, made, op.at), leave]

    def gathered(self, region: Region, loop: While) -> list[int]:
        """Let all ways to the next iteration meet at the end of a region. The values that it begins with."""
        own = self.program.new_label()
        for part in all_regions(region):
            if isinstance(end := part[-1], Again) and end.target == loop.label:
                part[-1] = Break(own, end.values, end.at)
        values = [self.program.copy(arg) for arg in loop.args]
        region[:] = [Scope(own, list(region), values, loop.at)]
        return values

    def rotated(self, op: While) -> Region | None:
        """The same where the test is at the end."""
        substitute_final([op], self.new)  # what its end reads is asked for
        return rotated(self.program, op, self.ones, self.tests)

    def next_values(self, region: Region, label: int) -> list[list[int]]:
        return [op.values for op in walk(region) if isinstance(op, Again) and op.target == label]

    def adds_one(self, region: Region, ends: list[list[int]], k: int, place: int, head: Region) -> bool:
        """Is the next `k` always `k + 1`?"""
        ops = [*head, *walk(region)]
        nexts = {
            op.result for op in ops if isinstance(op, Let) and op.op == "add" and op.args[0] == k and op.args[1] in self.ones
        }
        return bool(ends) and all(values[place] in nexts for values in ends)


def ends_with(region: Region, kind: type[Break] | type[Again], label: int) -> bool:
    """Does every way to its end, which is reached, leave by `kind`?"""
    if not region:
        return False
    end = region[-1]
    if isinstance(end, kind):
        return end.target == label  # type: ignore[attr-defined]
    if isinstance(end, While):
        return kind is Break and leaving(end.body, kind, label) > 0
    return isinstance(end, If) and not end.results and any(ends_with(arm, kind, label) for arm in (end.then, end.orelse))


def leaving(region: Region, kind: type[Break] | type[Again], label: int) -> int:
    """How many ops leave for the label."""
    return len([op for op in walk(region) if type(op) is kind and op.target == label])  # type: ignore[attr-defined]


def at_end(region: Region, kind: type[Break] | type[Again], label: int) -> int:
    """How many of these stand at the end of the region, or of an arm at its end."""
    end: Op = region[-1]
    if isinstance(end, If) and not end.results:
        return sum(at_end(arm, kind, label) for arm in (end.then, end.orelse))
    if isinstance(end, While) and kind is Break:
        return leaving(end.body, kind, label)
    return int(isinstance(end, kind) and end.target == label)  # type: ignore[attr-defined]


def ends_with_all(region: Region, kind: type[Break] | type[Again], label: int) -> bool:
    count = leaving(region, kind, label)
    return count > 0 and count == at_end(region, kind, label)
