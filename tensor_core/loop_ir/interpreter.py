"""The reference meaning of a program: it runs op by op on Python's and NumPy's own objects. It is slow and exact.

A program ends with a result, or with what Python's frame holds where it goes on. Warnings are never given here: a floating-point
error leaves the program, and NumPy reports it when Python does the same again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.tensor_core.loop_ir.ops import (
    FP_ERRORS,
    Again,
    Alloc,
    Append,
    Block,
    Branch,
    Break,
    Call,
    Cfg,
    Check,
    Constant,
    Disjoint,
    For,
    FpCheck,
    FpClear,
    FrameState,
    Gather,
    Guard,
    If,
    Jump,
    Let,
    Load,
    LoopKind,
    NewList,
    Op,
    Poll,
    Program,
    Region,
    Return,
    Room,
    Routine,
    Scope,
    Scratch,
    SideExit,
    Size,
    Speculate,
    Splat,
    Store,
    Threads,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.outcome import Datum, Exited, Outcome, Returned, ignored_errors, made
from npcompile.tensor_core.loop_ir.rows import MEANINGS, OF_LANES
from npcompile.tensor_core.loop_ir.types import DTYPES, INT, Kind, List, Memref, Scalar, type_of

CALLS = {"dot": np.matmul, "sum": np.sum}
ROUTINES = {  # what fills an array
    "matvec": np.matmul,
    "matvec_of_turned": lambda a, x: a.T @ x,
    "matmul": np.matmul,
    "matmul_of_turned": lambda a, b: a.T @ b,
    "matmul_by_turned": lambda a, b: a @ b.T,
    "matmul_of_both_turned": lambda a, b: a.T @ b.T,
}


@dataclass(frozen=True, slots=True)
class Leaving:
    """A terminator that was reached, with its values."""

    op: Op
    values: list[Datum]


@dataclass(slots=True)
class Interpreter:
    """One run. `leave_at`: the number of the Check or Poll, counted from 0, that leaves although it need not."""

    program: Program
    leave_at: int = -1
    checks: int = 0  # that were passed
    flags: int = 0
    ignored: int = field(default_factory=ignored_errors)
    values: dict[int, Datum] = field(default_factory=dict)
    states: dict[int, FrameState] = field(default_factory=dict)
    turns: dict[int, list[np.ndarray]] = field(default_factory=dict)  # by Alloc: its last arrays

    def run(self, arguments: Sequence[Datum]) -> Outcome:
        """Run the program on one argument for each of its params."""
        self.values = {}
        for param, argument in zip(self.program.params, arguments, strict=True):
            self.set(param.value, argument)
        with np.errstate(all="call", call=self.note):
            outcome = self.region(self.program.body)
        assert isinstance(outcome, Returned | Exited), outcome
        return outcome

    def note(self, _: str, flag: int) -> None:
        self.flags |= flag

    def set(self, result: int, value: Datum) -> None:
        kind = self.program.types[result]
        match kind:
            case Scalar(_, 1):
                assert type_of(value) == kind, (result, value, kind)
            case Scalar():
                assert isinstance(value, np.ndarray) and value.shape == (kind.lanes,), (result, value, kind)
            case Memref():
                self.check_array(value, kind)
            case List():
                assert isinstance(value, list), value
        self.values[result] = value

    def check_array(self, value: Datum, kind: Memref) -> None:
        assert isinstance(value, np.ndarray), value
        assert value.dtype == DTYPES[kind.element] and value.ndim == kind.rank, (value, kind)
        assert value.flags.c_contiguous or not kind.contiguous, kind
        assert value.flags.writeable or not kind.writeable, kind

    def set_all(self, results: Sequence[int], values: Sequence[Datum]) -> None:
        for result, value in zip(results, values, strict=True):
            self.set(result, value)

    def of(self, values: Sequence[int]) -> list[Datum]:
        return [self.values[value] for value in values]

    def array(self, value: int) -> np.ndarray:
        found = self.values[value]
        assert isinstance(found, np.ndarray), found
        return found

    def items(self, value: int) -> list[Datum]:
        found = self.values[value]
        assert isinstance(found, list), found
        return found

    def integers(self, values: Sequence[int]) -> list[int]:
        found = [self.values[value] for value in values]
        assert all(type(x) is int for x in found), found
        return [x for x in found if isinstance(x, int)]

    # --- control

    def region(self, region: Region) -> Outcome | Leaving:
        for op in region:
            left = self.op(op)
            if left is not None:
                return left
        raise AssertionError(f"a region without an end: {region}")

    def op(self, op: Op) -> Outcome | Leaving | None:
        match op:
            case Guard():
                return None if self.values[op.condition] else Leaving(op, [])
            case If():
                return self.yielded(self.region(op.then if self.values[op.condition] else op.orelse), op.results)
            case For():
                return self.loop(op)
            case Speculate():
                return self.speculated(op)
            case While():
                self.set_all(op.args, self.of(op.initial))
                while (
                    isinstance(left := self.region(op.body), Leaving)
                    and isinstance(left.op, Again)
                    and left.op.target == op.label
                ):
                    self.set_all(op.args, left.values)
                return left
            case Scope():
                left = self.region(op.body)
                if isinstance(left, Leaving) and isinstance(left.op, Break) and left.op.target == op.label:
                    self.set_all(op.results, left.values)
                    return None
                return left
            case Cfg():
                return self.blocks(op.blocks)
            case Yield() | Break() | Again():
                return Leaving(op, self.of(op.values))
            case Jump():
                return Leaving(op, self.of(op.args))
            case Branch():
                taken = bool(self.values[op.condition])
                return Leaving(op, [taken, *self.of(op.then_args if taken else op.else_args)])
            case Return():
                return Returned(made(op.value, self.values))
            case SideExit():
                return self.exit(op.state)
        return self.effect(op)

    def yielded(self, left: Outcome | Leaving, results: Sequence[int]) -> Outcome | Leaving | None:
        if isinstance(left, Leaving) and isinstance(left.op, Yield):
            self.set_all(results, left.values)
            return None
        return left

    def speculated(self, op: Speculate) -> Outcome | Leaving | None:
        left = self.region(op.body)
        if isinstance(left, Leaving) and isinstance(left.op, Yield) and not self.flags & op.errors & ~self.ignored:
            return self.yielded(left, op.results)
        self.region(op.undo)
        if not isinstance(left, Leaving):
            return left
        self.flags = 0
        return self.yielded(self.region(op.slow), op.results)

    def loop(self, op: For) -> Outcome | Leaving | None:
        carried = self.of(op.initial)
        start, stop = self.of([op.start, op.stop])
        assert isinstance(start, int) and isinstance(stop, int)
        # Whether iterations see each other shows where the last one is the first.
        for k in range(start, stop) if op.kind is not LoopKind.PARALLEL else reversed(range(start, stop)):
            self.set(op.index, k)
            self.set_all(op.args, carried)
            left = self.region(op.body)
            if not (isinstance(left, Leaving) and isinstance(left.op, Yield)):
                return left
            carried = left.values
        self.set_all(op.results, carried)
        return None

    def blocks(self, blocks: list[Block]) -> Outcome | Leaving:
        by_label = {block.label: block for block in blocks}
        block = blocks[0]
        while True:
            left = self.region(block.ops)
            if not (isinstance(left, Leaving) and isinstance(left.op, Jump | Branch)):
                return left
            if isinstance(left.op, Jump):
                block, values = by_label[left.op.target], left.values
            else:
                block, values = by_label[left.op.then if left.values[0] else left.op.orelse], left.values[1:]
            self.set_all(block.args, values)

    # --- ops without regions

    def effect(self, op: Op) -> Outcome | None:
        match op:
            case FrameState():
                self.states[op.name] = op
            case Check():
                return self.leave(bool(self.values[op.condition]), op.state)
            case Poll():
                return self.leave(True, op.state)
            case FpClear():
                self.flags = 0
            case FpCheck():
                return self.leave(not self.flags & op.errors & ~self.ignored, op.state)
            case Store() if isinstance(self.program.types[op.array], List):
                self.items(op.array)[self.integers(op.index)[0]] = self.values[op.value]
            case Store():
                self.array(op.array)[self.place(op.index, op.value)] = self.values[op.value]
            case Append():
                self.items(op.items).append(self.values[op.value])
            case Routine():
                self.filled(op)
            case _:
                result, value = self.computed(op)
                self.set(result, value)
        return None

    def filled(self, op: Routine) -> None:
        found = ROUTINES[op.op](*self.of(op.args))
        if not np.isfinite(found).all():
            self.flags |= FP_ERRORS["invalid"]
        out = self.array(op.out)
        out.reshape(-1)[: found.size] = found.reshape(-1)

    def computed(self, op: Op) -> tuple[int, Datum]:
        match op:
            case Constant():
                kind = self.program.types[op.result]
                assert isinstance(kind, Scalar)
                return op.result, DTYPES[kind.kind].type(op.value) if kind.is_numpys else op.value
            case Let():
                kind, meaning = self.program.types[op.result], MEANINGS[op.op]
                if isinstance(kind, Scalar) and kind.lanes > 1:
                    meaning = OF_LANES.get(op.op, meaning)
                return op.result, self.plain(op.result, meaning(*self.of(op.args)))
            case Size():
                if isinstance(self.program.types[op.array], List):
                    return op.result, len(self.items(op.array))
                return op.result, self.array(op.array).shape[op.axis]
            case Load():
                if isinstance(self.program.types[op.array], List):
                    return op.result, self.items(op.array)[self.integers(op.index)[0]]
                found = self.array(op.array)[self.place(op.index, op.result)]
                return op.result, found.copy() if isinstance(found, np.ndarray) else found
            case Gather():
                lanes = self.program.types[op.result]
                assert isinstance(lanes, Scalar)
                first, array = self.integers(op.index), self.array(op.array)
                places = [tuple(i + k * step for i, step in zip(first, op.steps, strict=True)) for k in range(lanes.lanes)]
                return op.result, np.array([array[place] for place in places], array.dtype)
            case Scratch():
                kind = self.program.types[op.result]
                assert isinstance(kind, Memref)
                return op.result, np.empty(op.elements, DTYPES[kind.element])
            case Splat():
                lanes = self.program.types[op.result]
                assert isinstance(lanes, Scalar)
                return op.result, np.full(lanes.lanes, self.values[op.value])
            case Room(result, elements):
                kind, (count,) = self.program.types[result], self.integers([elements])
                assert isinstance(kind, Memref)
                return result, np.empty(count, DTYPES[kind.element])
            case Threads(result):
                return result, 2
            case Disjoint():
                return op.result, not np.shares_memory(self.array(op.one), self.array(op.other))
            case View():
                sizes = iter(self.integers(op.sizes))
                starts = self.integers(op.starts)
                parts = [slice(start, start + next(sizes)) if kept else start for start, kept in zip(starts, op.kept)]
                return op.result, self.array(op.array)[tuple(parts)]
            case Alloc():
                kind = self.program.types[op.result]
                assert isinstance(kind, Memref)
                return op.result, self.allocated(op, DTYPES[kind.element])
            case NewList():
                return op.result, []
            case Call():
                return op.result, CALLS[op.op](*self.of(op.args))
        raise AssertionError(f"not an op that runs: {op}")

    def allocated(self, op: Alloc, dtype: np.dtype) -> np.ndarray:
        sizes = tuple(map(int, self.of(op.sizes)))  # type: ignore[arg-type]
        before = self.turns.setdefault(op.result, [])
        made = before.pop(0) if op.turns and len(before) == op.turns else None
        if made is None or made.shape != sizes:
            made = np.empty(sizes, dtype)
        before.append(made)
        made.fill(0 if op.zeroed else 77)  # what a program must not read
        return made

    def place(self, index: list[int], value: int) -> tuple[int | slice, ...]:
        """Where an element is, or elements side by side if the value is a vector."""
        kind, (*rest, last) = self.program.types[value], self.integers(index)
        assert isinstance(kind, Scalar), kind
        return (*rest, last if kind.lanes == 1 else slice(last, last + kind.lanes))

    def plain(self, result: int, value: Datum) -> Datum:
        """Python's number where the result is one: rows that are the machine's own take NumPy's integers too."""
        kind = self.program.types[result]
        if isinstance(kind, Scalar) and isinstance(value, np.generic) and not kind.is_numpys:
            return {Kind.BOOL: bool, Kind.INT: int, Kind.FLOAT: float}[kind.kind](value)  # type: ignore[arg-type]
        if kind == INT and type(value) is int:
            return (value + 2**63) % 2**64 - 2**63  # a word: a pass may move an op before the Check of its overflow
        return value

    def leave(self, may_go_on: bool, state: int) -> Outcome | None:
        self.checks += 1
        return None if may_go_on and self.checks - 1 != self.leave_at else self.exit(state)

    def exit(self, name: int) -> Exited:
        state = self.states[name]
        stack = tuple(made(recipe, self.values) for recipe in state.stack)
        return Exited(state.point, stack, {slot.index: made(slot.recipe, self.values) for slot in state.locals}, name)


def interpret(program: Program, arguments: Sequence[Datum], leave_at: int = -1) -> tuple[Outcome, int]:
    """Run a program: its outcome, and how many Checks and Polls were passed."""
    run = Interpreter(program, leave_at)
    return run.run(arguments), run.checks
