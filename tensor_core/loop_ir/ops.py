"""The ops of the loop IR, in its two stages. They are mutable inside a pass; a value is an int, its type is in Program.types.

An annotation is the role of a field: forms.py reads them, and so one walk, printer, parser and clone serves every class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from npcompile.tensor_core.loop_ir.states import Literal, Recipe, Slot
from npcompile.tensor_core.loop_ir.types import Type

Value: TypeAlias = int  # is read
Result: TypeAlias = int  # is defined, and seen by the ops that follow in this region
Inner: TypeAlias = int  # is defined, and seen in the op's own region alone
Label: TypeAlias = int  # of a Block, a Scope or a While
State: TypeAlias = int  # the name of a FrameState
Region: TypeAlias = "list[Op]"  # ends with a terminator


class Place(NamedTuple):
    """The user's line that an op comes from."""

    file: str = ""
    line: int = 0


NOWHERE: Final = Place()


class LoopKind(Enum):
    SERIAL = "serial"
    PARALLEL = "parallel"  # iterations do not see each other
    ORDERED = "ordered"  # parallel, their results are combined in the serial order
    SIMD = "simd"  # in vectors, or left to the target to make some


@dataclass(slots=True)
class Op:
    """Anything that stands in a region or a block."""


# --- Values


@dataclass(slots=True)
class Constant(Op):
    result: Result
    value: Literal
    at: Place = NOWHERE


@dataclass(slots=True)
class Let(Op):
    """A row of the table of scalar ops (rows.py)."""

    result: Result
    op: str
    args: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class Size(Op):
    """The size of an array along an axis, or with axis 0 the length of a list."""

    result: Result
    array: Value
    axis: int
    at: Place = NOWHERE


@dataclass(slots=True)
class Load(Op):
    """An element of an array or of a list. The indices are inside: a Check has seen to it, or a pass has proved it.

    Where the result is a vector, its lanes are so many elements from there on along the last axis of an array in C order.
    """

    result: Result
    array: Value
    index: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class Gather(Op):
    """A vector of elements of an array that may stand apart: from one lane to the next each index is so much more."""

    result: Result
    array: Value
    index: list[Value]
    steps: list[int]
    at: Place = NOWHERE


@dataclass(slots=True)
class Store(Op):
    """A Load the other way round."""

    array: Value
    index: list[Value]
    value: Value
    at: Place = NOWHERE


@dataclass(slots=True)
class View(Op):
    """Part of an array: `sizes` elements from `starts` on along each kept axis, the one at `starts` along each other."""

    result: Result
    array: Value
    starts: list[Value]
    kept: list[bool]
    sizes: list[Value]  # of the kept axes
    at: Place = NOWHERE


@dataclass(slots=True)
class Alloc(Op):
    """A new array in C order, filled with zeros or not at all.

    `again`: where the op runs once more, nobody has the array that it made before, so that may have its memory. `turns`: nobody
    has the one that it made so many times before, which may be given again.
    """

    result: Result
    sizes: list[Value]
    zeroed: bool
    again: bool = False
    turns: int = 0
    at: Place = NOWHERE


@dataclass(slots=True)
class Scratch(Op):
    """Memory of the program's own for some numbers, which nothing else ever sees: an array that no recipe, View or block has."""

    result: Result
    elements: int
    at: Place = NOWHERE


@dataclass(slots=True)
class Room(Op):
    """The same for a number of elements that is not known before. None, where there is no memory for so many. The next time that
    the op runs, it gives the same memory."""

    result: Result
    elements: Value
    at: Place = NOWHERE


@dataclass(slots=True)
class Threads(Op):
    """How many threads a parallel loop may run on."""

    result: Result
    at: Place = NOWHERE


@dataclass(slots=True)
class Disjoint(Op):
    """Is no byte an element of both arrays?"""

    result: Result
    one: Value
    other: Value
    at: Place = NOWHERE


@dataclass(slots=True)
class Splat(Op):
    """A vector whose lanes all are the value."""

    result: Result
    value: Value
    at: Place = NOWHERE


@dataclass(slots=True)
class NewList(Op):
    result: Result
    at: Place = NOWHERE


@dataclass(slots=True)
class Append(Op):
    items: Value
    value: Value
    at: Place = NOWHERE


@dataclass(slots=True)
class Call(Op):
    """A routine of the target's: `dot` of two vectors, `sum` of one in NumPy's order. It only reads."""

    result: Result
    op: str
    args: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class Routine(Op):
    """A routine of the target's that fills an array, whose elements are in C order: a product of matrices (`ROUTINES`).

    It leaves at the state where a signal's handler has raised meanwhile.
    """

    op: str
    out: Value
    args: list[Value]
    state: State
    at: Place = NOWHERE


# --- Exactness


@dataclass(slots=True)
class FrameState(Op):
    """Python's frame at a Point, here: recipes for stack and locals. A Check that names it may leave there.

    Nothing that Python could see happens between this op and a Check that names it, so Python does what is between them again.
    """

    name: State
    point: int  # index of the instruction that Python goes on with
    stack: list[Recipe]
    locals: list[Slot]
    at: Place = NOWHERE


@dataclass(slots=True)
class Check(Op):
    """Leaves at the state where the condition is false."""

    condition: Value
    state: State
    at: Place = NOWHERE


@dataclass(slots=True)
class Poll(Op):
    """Leaves at the state where a signal waits for Python."""

    state: State
    at: Place = NOWHERE


@dataclass(slots=True)
class Guard(Op):
    """Gives up the body of the Speculate around it where the condition is false: that is undone, and `slow` runs."""

    condition: Value
    at: Place = NOWHERE


@dataclass(slots=True)
class FpClear(Op):
    """Forget floating-point flags: what set them is not reported."""

    at: Place = NOWHERE


@dataclass(slots=True)
class FpCheck(Op):
    """Leaves at the state where NumPy would report one of `errors` (bits of FP_ERRORS) that happened since the last look."""

    state: State
    errors: int
    at: Place = NOWHERE


FP_ERRORS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}  # np.errstate's names
ALL_ERRORS = sum(FP_ERRORS.values())


# --- Terminators


@dataclass(slots=True)
class Return(Op):
    value: Recipe
    at: Place = NOWHERE


@dataclass(slots=True)
class SideExit(Op):
    """Python goes on at the state."""

    state: State
    at: Place = NOWHERE


@dataclass(slots=True)
class Jump(Op):
    target: Label
    args: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class Branch(Op):
    condition: Value
    then: Label
    then_args: list[Value]
    orelse: Label
    else_args: list[Value]
    at: Place = NOWHERE


# --- Structured control flow


@dataclass(slots=True)
class Yield(Op):
    """The end of an arm of an If, or of an iteration of a For: its results, or the next iteration's values."""

    values: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class Break(Op):
    """Leaves the Scope of this label with its results."""

    target: Label
    values: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class Again(Op):
    """Begins the next iteration of the While of this label."""

    target: Label
    values: list[Value]
    at: Place = NOWHERE


@dataclass(slots=True)
class If(Op):
    condition: Value
    then: Region
    orelse: Region
    results: list[Result]
    at: Place = NOWHERE


@dataclass(slots=True)
class For(Op):
    """`index` goes from `start` to before `stop` by 1. `args` begin as `initial`, then they are what the body yields.

    A parallel loop has none. Its iterations run in any order and at once; none is begun after one that a Guard gives up, and a
    Poll in it leaves when those that were begun have ended.
    """

    kind: LoopKind
    index: Inner
    start: Value
    stop: Value
    args: list[Inner]
    initial: list[Value]
    body: Region
    results: list[Result]
    at: Place = NOWHERE


@dataclass(slots=True)
class Speculate(Op):
    """Runs `body` without looking at flags, and looks once at its end. Where NumPy would report one of `errors` (bits of
    FP_ERRORS), a Guard gives up, or a Poll leaves, `undo` puts back what was stored; then `slow` does all again and looks as it
    goes, or Python goes on."""

    errors: int
    body: Region
    undo: Region
    slow: Region
    results: list[Result]
    at: Place = NOWHERE


@dataclass(slots=True)
class While(Op):
    """Repeats its body until that leaves by Break, Return or SideExit."""

    label: Label
    args: list[Inner]
    initial: list[Value]
    body: Region
    at: Place = NOWHERE


@dataclass(slots=True)
class Scope(Op):
    label: Label
    body: Region
    results: list[Result]
    at: Place = NOWHERE


@dataclass(slots=True)
class Block:
    """Ops without a jump inside. The last one is a terminator."""

    label: Label
    args: list[Inner]
    ops: Region


@dataclass(slots=True)
class Cfg(Op):
    """Blocks that jump to each other; the first one is entered. It is the whole program before structuring, and what no other
    form can say after it."""

    blocks: list[Block]
    at: Place = NOWHERE


TERMINATORS = (Return, SideExit, Jump, Branch, Yield, Break, Again)
OF_CFG = (Jump, Branch)
OF_STRUCTURED = (Yield, Break, Again, If, For, Speculate, While, Scope)


@dataclass(slots=True)
class Param:
    """An argument of the program."""

    value: Value
    slot: int | None  # of the function's locals, if it is one


class Policy(Enum):
    """What it means to leave a program where a Check fails."""

    RESUME = "resume"  # Python goes on at the state
    ABORT = "abort"  # the caller restores what was written, and Python does all of it again


@dataclass(slots=True)
class Program:
    """A typed program: values are indices of `types`."""

    name: str
    file: str
    params: list[Param] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    names: dict[Value, str] = field(default_factory=dict)  # hints, where there are
    body: Region = field(default_factory=list)
    labels: int = 0  # so many are used
    states: int = 0
    policy: Policy = Policy.RESUME

    def new(self, kind: Type, name: str = "") -> Value:
        self.types.append(kind)
        value = len(self.types) - 1
        if name:
            self.names[value] = name
        return value

    def copy(self, value: Value) -> Value:
        """Another value of the same type and name."""
        return self.new(self.types[value], self.names.get(value, ""))

    def new_label(self) -> Label:
        self.labels += 1
        return self.labels - 1

    def new_state(self) -> State:
        self.states += 1
        return self.states - 1
