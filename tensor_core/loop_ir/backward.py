"""The regions of a gradient program, each of which undoes a region of the first program."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.derivatives import CONSTANTS, DERIVATIVES, RESULT
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Append,
    Break,
    Call,
    Check,
    Constant,
    For,
    FpCheck,
    FpClear,
    FrameState,
    If,
    Let,
    Load,
    LoopKind,
    NewList,
    Op,
    Poll,
    Region,
    Scope,
    Size,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.rows import result_type
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.tapes import TAPES, Taping
from npcompile.tensor_core.loop_ir.types import F32, F64, INT, Kind, List, Memref, Scalar, Type


@dataclass(frozen=True, slots=True)
class Emitting:
    """What rules of derivatives compute with."""

    backward: Backward

    def __call__(self, op: str, /, *args: int) -> int:
        return self.backward.let(op, *args)

    def number(self, value: float, /) -> int:
        return self.backward.constant(value)


@dataclass(frozen=True, slots=True)
class KeepingZeros(Emitting):
    """For a product with what may be infinite."""

    def __call__(self, op: str, /, *args: int) -> int:
        return self.backward.let("zero_or_multiply" if op == "multiply" else op, *args)


@dataclass(slots=True)
class Seeds:
    """The gradients of what a terminator gives, for those of its values that have one."""

    op: type[Op]
    label: int
    gradients: list[int | None]


@dataclass(slots=True)
class Backward:
    """A region of the gradient program, which undoes a region of the first one."""

    taping: Taping
    region: Region
    above: Backward | None
    seeds: tuple[Seeds, ...] = ()
    ops: Region = field(default_factory=list)
    prologue: Region = field(default_factory=list)  # values of the first program that are computed again
    taped: list[int] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)  # value of the first program -> its value here
    bars: dict[int, int] = field(default_factory=dict)  # value of the first program -> its gradient so far
    position: dict[Kind, int] = field(default_factory=dict)  # of the tapes, where ops stand
    base: dict[Kind, int] = field(default_factory=dict)  # below what this region has taped
    start: dict[Kind, int] = field(default_factory=dict)

    def define(self, kind: Scalar) -> int:
        return self.taping.program.new(kind)

    def constant(self, value: Literal, prologue: bool = False) -> int:
        result = self.define(INT if isinstance(value, int) else F64)
        (self.prologue if prologue else self.ops).append(Constant(result, value))
        return result

    def let(self, op: str, *args: int) -> int:
        kind = result_type(op, [self.type_of(arg) for arg in args])
        assert kind is not None, (op, args)
        result = self.define(kind)
        self.ops.append(Let(result, op, list(args)))
        return result

    def type_of(self, value: int) -> Type:
        return self.taping.program.types[value]

    def add(self, value: int, gradient: int) -> None:
        if self.is_varied(value):
            self.bars[value] = self.let("add", self.bars[value], gradient) if value in self.bars else gradient

    def is_varied(self, value: int) -> bool:
        return value in self.taping.activity.varied

    def has_shadow(self, value: int) -> bool:
        return self.taping.activity.has_shadow(value)

    def taken(self, value: int) -> int | None:
        return self.bars.pop(value, None)

    # --- values of the first program

    def want(self, value: int) -> int:
        """The value, where this region runs: seen, computed again, or read from a tape."""
        if value in self.known:
            return self.known[value]
        home, op = self.taping.home.get(value, (0, None))
        if home != id(self.region):
            return self.above.want(value) if self.above is not None else value
        if self.above is None:
            return value  # of the outermost region: it is still there
        match op:
            case Size(_, array) if isinstance(self.type_of(array), List):
                found = self.from_tape(value)  # it may have grown
            case Constant() | Let() | Size() | View() | Alloc():
                found = self.again(op)
            case Load(_, array, _) if not self.taping.activity.is_written(array):
                found = self.again(op)
            case _:
                found = self.from_tape(value)
        self.known[value] = found
        return found

    def from_tape(self, value: int) -> int:
        self.taping.kind_of(value)
        self.taped.append(value)
        return self.taping.program.copy(value)

    def again(self, op: Constant | Let | Size | View | Load | Alloc) -> int:
        made = self.taping.program.copy(op.result)
        match op:
            case Constant(_, value):
                self.prologue.append(Constant(made, value, op.at))
            case Let(_, name, args):
                self.prologue.append(Let(made, name, [self.want(arg) for arg in args], op.at))
            case Size(_, array, axis):
                self.prologue.append(Size(made, self.want(array), axis, op.at))
            case Load(_, array, index):
                self.prologue.append(Load(made, self.want(array), [self.want(i) for i in index], op.at))
            case Alloc(_, sizes, zeroed):
                # Of an array that no other iteration has: its elements are taped, and its gradients begin as zeros.
                self.prologue.append(Alloc(made, [self.want(size) for size in sizes], zeroed, at=op.at))
            case View(_, array, starts, kept, sizes):
                wanted = [self.want(start) for start in starts], list(kept), [self.want(size) for size in sizes]
                self.prologue.append(View(made, self.want(array), *wanted, op.at))
        return made

    def shadow(self, array: int) -> int:
        return self.want(self.taping.mirrored.shadow[array])

    # --- the region

    def begin(self, position: dict[Kind, int]) -> None:
        """Where the tapes are when the region is entered. What it taped is read first."""
        self.start = dict(position)
        if self.above is not None:
            self.base = {kind: self.define(INT) for kind in position}
            self.position = dict(self.base)
        else:
            self.position = dict(position)

    def run(self) -> None:
        if not self.position:
            raise AssertionError("the tapes have no position")
        for op in reversed(self.region):
            self.op(op)

    def finished(self) -> Region:
        """The ops of the region: what it taped, what it computes again, and what it undoes."""
        reads: Region = []
        program = self.taping.program
        counts = dict.fromkeys(self.base, 0)
        for value in self.taped:
            kind = self.taping.kind_of(value)
            place, offset, found = self.define(INT), self.define(INT), self.known[value]
            reads += [Constant(offset, counts[kind]), Let(place, "add", [self.base[kind], offset])]
            read = found if program.types[found] == Scalar(kind) else program.new(Scalar(kind))
            reads.append(Load(read, self.taping.tapes[kind], [place]))
            if read != found:
                kept = program.types[found]
                assert isinstance(kept, Scalar), kept
                reads.append(Let(found, "truth" if kept.kind is Kind.BOOL else f"to_{kept.kind.value}", [read]))
            counts[kind] += 1
        starts: Region = []
        for kind, base in self.base.items():
            count = self.define(INT)
            starts += [Constant(count, counts[kind]), Let(base, "subtract", [self.start[kind], count])]
        if self.taped and self.above is not None:
            self.taping.pushes.append((self.region, list(self.taped)))
        return [*starts, *reads, *self.prologue, *self.ops]

    def op(self, op: Op) -> None:
        match op:
            case Let():
                self.scalar(op)
            case Load() if self.has_shadow(op.array):
                if (g := self.taken(op.result)) is not None:
                    self.accumulate(self.shadow(op.array), [self.want(i) for i in op.index], g)
            case Store() if self.has_shadow(op.array):
                self.stored(op)
            case Append() if id(op) in self.taping.mirrored.place:
                g = self.define(F64)
                self.ops.append(Load(g, self.shadow(op.items), [self.want(self.taping.mirrored.place[id(op)])]))
                self.add(op.value, g)
            case Call(result, "dot", args):
                if (g := self.taken(result)) is not None:
                    self.dot(op, args, g)
            case If():
                self.branch(op)
            case For():
                self.counted_loop(op)
            case Scope():
                self.scope(op)
            case While():
                self.uncounted_loop(op)
            case Yield() | Break() | Again():
                self.ended(op)
            case Constant() | Size() | View() | Alloc() | NewList() | Load() | Store() | Append():
                pass
            case FrameState() | Check() | Poll() | FpCheck() | FpClear():
                pass
            case _:
                raise NoDerivative(type(op).__name__, op.at.line)  # type: ignore[attr-defined]

    def ended(self, op: Yield | Break | Again) -> None:
        label = -1 if isinstance(op, Yield) else op.target
        found = next(seeds for seeds in reversed(self.seeds) if seeds.op is type(op) and seeds.label == label)
        for value, gradient in zip(op.values, found.gradients):
            if gradient is not None:
                self.add(value, gradient)

    # --- ops without regions

    def scalar(self, op: Let) -> None:
        g = self.taken(op.result)
        if g is None:
            return
        partials = DERIVATIVES.get(op.op)
        if partials is None:
            raise NoDerivative(CONSTANTS.get(op.op, f"the derivative of {op.op}"), op.at.line)
        for arg, partial in zip(op.args, partials, strict=True):
            if self.is_varied(arg):
                wanted = [self.double(self.want(each)) if k in partial.reads else -1 for k, each in enumerate(op.args)]
                result = self.double(self.want(op.result)) if RESULT in partial.reads else -1
                is_kept = op.op == "multiply" and not self.taping.infinite.isdisjoint(op.args)
                emit = KeepingZeros(self) if is_kept else Emitting(self)
                part = partial.rule(emit, g, result, wanted)
                if op.op == "sqrt" and arg in self.taping.squares:
                    zero = self.constant(0.0)
                    part = self.let("choose", self.let("equal", result, zero), zero, part)
                self.add(arg, part)

    def double(self, value: int) -> int:
        return self.let("to_f64", value) if self.type_of(value) == F32 else value

    def accumulate(self, shadow: int, index: list[int], gradient: int) -> None:
        old = self.define(F64)
        self.ops.append(Load(old, shadow, index))
        self.ops.append(Store(shadow, index, self.let("add", old, gradient)))

    def stored(self, op: Store) -> None:
        shadow, index, g = self.shadow(op.array), [self.want(i) for i in op.index], self.define(F64)
        self.ops.append(Load(g, shadow, index))
        self.ops.append(Store(shadow, index, self.constant(0.0)))
        self.add(op.value, g)

    def dot(self, op: Call, args: list[int], g: int) -> None:
        """The gradient of a vector is the other vector. One that is written is taped, element by element."""
        one, other = args
        if any(kind.element is not Kind.F64 for arg in args if isinstance(kind := self.type_of(arg), Memref)):
            raise NoDerivative("a product of vectors of other numbers than float64", op.at.line)
        read = [arg for arg, partner in ((one, other), (other, one)) if self.has_shadow(partner)]
        taped = [arg for arg in dict.fromkeys(read) if self.taping.activity.is_written(arg)]
        if taped:
            self.taping.vectors.append((self.region, op, taped))
        inside = Backward(self.taping, [], self)
        size, zero, k = inside.define(INT), self.constant(0), inside.define(INT)
        self.ops.append(Size(size, self.want(args[0]), 0))
        place = self.position[Kind.F64]
        for _ in taped:
            place = self.let("subtract", place, size)
        elements: dict[int, int] = {}
        for arg in dict.fromkeys(read):
            element = elements[arg] = inside.define(F64)
            if arg in taped:
                at = k
                for _ in taped[1:]:
                    at = inside.let("add", at, k)
                at = inside.let("add", inside.let("add", place, at), inside.constant(taped.index(arg)))
                inside.ops.append(Load(element, self.taping.tapes[Kind.F64], [at]))
            else:
                inside.ops.append(Load(element, self.want(arg), [k]))
        for arg, partner in ((one, other), (other, one)):
            if self.has_shadow(arg):
                inside.accumulate(self.shadow(arg), [k], inside.let("multiply", g, elements[partner]))
        self.ops.append(For(LoopKind.SERIAL, k, zero, size, [], [], [*inside.ops, Yield([])], [], op.at))
        self.position[Kind.F64] = place

    # --- regions

    def inside(self, region: Region, seeds: tuple[Seeds, ...], position: dict[Kind, int]) -> Backward:
        made = Backward(self.taping, region, self, (*self.seeds, *seeds))
        made.begin(position)
        return made

    def scope(self, op: Scope) -> None:
        seeds = Seeds(Break, op.label, [self.taken(value) for value in op.results])
        made = self.inside(op.body, (seeds,), self.position)
        made.run()
        self.ops += made.finished()
        self.position = made.position
        for value, gradient in made.bars.items():
            self.add(value, gradient)

    def branch(self, op: If) -> None:
        condition = self.want(op.condition)
        seeds = Seeds(Yield, -1, [self.taken(value) for value in op.results])
        arms = [self.inside(arm, (seeds,), self.position) for arm in (op.then, op.orelse)]
        for arm in arms:
            arm.run()
        outer = list(dict.fromkeys(value for arm in arms for value in arm.bars))
        ends: list[Region] = []
        for arm in arms:
            gradients = [arm.bars[value] if value in arm.bars else arm.constant(0.0) for value in outer]
            ends.append([*arm.finished(), Yield([*gradients, *(arm.position[kind] for kind in TAPES)], op.at)])
        made = [self.define(F64) for _ in outer]
        self.position = {kind: self.define(INT) for kind in TAPES}
        self.ops.append(If(condition, ends[0], ends[1], [*made, *self.position.values()], op.at))
        for value, gradient in zip(outer, made):
            self.add(value, gradient)

    def counted_loop(self, op: For) -> None:
        """The same iterations, the last one first."""
        start, stop = self.want(op.start), self.want(op.stop)
        arrays = [k for k, arg in enumerate(op.args) if isinstance(self.type_of(arg), Memref)]
        end = op.body[-1]
        assert isinstance(end, Yield), end
        body, k = self.loop_body(op.body, Yield, -1, op.args, [self.taken(value) for value in op.results])
        one = body.inside.constant(1, prologue=True)
        last, both, index = (self.define(INT) for _ in range(3))
        body.inside.prologue += [Let(last, "subtract", [stop, one]), Let(both, "add", [start, last])]
        body.inside.prologue.append(Let(index, "subtract", [both, k]))
        body.inside.known[op.index] = index
        for place in arrays:
            # What an iteration leaves at one place was at another: going back, it is there again.
            value = end.values[place]
            if value not in op.args:
                raise NoDerivative("an array that changes from iteration to iteration", op.at.line)
            carried = self.taping.program.copy(value)
            body.inside.known[value] = carried
            body.args.append(carried)
            body.initial.append(self.want(op.results[place]))
        body.inside.run()
        body.next += [body.inside.known.get(op.args[place], -1) for place in arrays]
        if -1 in body.next:
            raise NoDerivative("an array that a loop drops", op.at.line)
        self.finish_loop(body, k, start, stop, op.initial, op)

    def uncounted_loop(self, op: While) -> None:
        """As many iterations as there were: each knows from its conditions whether it was the last."""
        scope = next(seeds.label for seeds in reversed(self.seeds) if seeds.op is Break)
        count = self.want(self.taping.mirrored.count[scope])
        body, k = self.loop_body(op.body, Again, op.label, op.args, [None] * len(op.args))
        body.inside.run()
        self.finish_loop(body, k, self.constant(0), count, op.initial, op)

    def loop_body(
        self, region: Region, kind: type[Op], label: int, args: list[int], given: list[int | None]
    ) -> tuple[LoopBody, int]:
        numbers = [n for n, arg in enumerate(args) if self.is_varied(arg)]
        bars = {n: self.define(F64) for n in numbers}
        initial = [zero if (zero := given[n]) is not None else self.constant(0.0) for n in numbers]
        start = {tape: self.define(INT) for tape in TAPES}
        inside = self.inside(region, (Seeds(kind, label, [bars.get(n) for n in range(len(args))]),), start)
        made = LoopBody(
            inside, [*bars.values(), *start.values()], [*initial, *(self.position[tape] for tape in TAPES)], [], numbers
        )
        made.taken = [args[n] for n in numbers]
        return made, self.define(INT)

    def finish_loop(self, body: LoopBody, k: int, start: int, stop: int, initial: list[int], op: For | While) -> None:
        inside = body.inside
        gradients = [inside.bars.pop(arg, None) for arg in body.taken]
        ends = [inside.constant(0.0) if g is None else g for g in gradients]
        sums = list(inside.bars)
        totals = [self.define(F64) for _ in sums]
        grown = [inside.let("add", total, inside.bars[value]) for value, total in zip(sums, totals)]
        args = [*body.args, *totals]
        first = [*body.initial, *(self.constant(0.0) for _ in sums)]
        values = [*ends, *(inside.position[tape] for tape in TAPES), *body.next, *grown]
        made = [self.taping.program.copy(arg) for arg in args]
        region = [Poll(self.taping.mirrored.state, op.at), *inside.finished(), Yield(values, op.at)]
        self.ops.append(For(LoopKind.SERIAL, k, start, stop, args, first, region, made, op.at))
        count = len(body.numbers)
        self.position = dict(zip(TAPES, made[count : count + len(TAPES)]))
        for n, gradient in zip(body.numbers, made):
            self.add(initial[n], gradient)
        for value, total in zip(sums, made[len(args) - len(sums) :]):
            self.add(value, total)


@dataclass(slots=True)
class LoopBody:
    """A loop of the gradient program while it is made."""

    inside: Backward
    args: list[int]
    initial: list[int]
    next: list[int]  # the arrays of the next iteration
    numbers: list[int]  # which of the first loop's args have a gradient
    taken: list[int] = field(default_factory=list)  # these
