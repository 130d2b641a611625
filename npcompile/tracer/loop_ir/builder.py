"""The blocks of a program while they are made: one for each instruction and version key, with frame states at its Points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Protocol

from npcompile.tensor_core.loop_ir.ops import (
    ALL_ERRORS,
    FP_ERRORS,
    NOWHERE,
    Block,
    Branch,
    Check,
    Constant,
    FpCheck,
    FpClear,
    FrameState,
    Jump,
    Let,
    Op,
    Param,
    Place,
    Policy,
    Poll,
    Program,
    Region,
    Return,
    SideExit,
)
from npcompile.tensor_core.loop_ir.rows import MEANINGS, result_type, sets_flags
from npcompile.tensor_core.loop_ir.states import Literal, Mode, Slot
from npcompile.tensor_core.loop_ir.types import BOOL, FLOAT, INT, PYTHON, Scalar, Type, kind_in_words
from npcompile.tracer.bytecode.analysis import CodeFacts, loop_region
from npcompile.tracer.loop_ir.abstract import (
    Abstract,
    Cell,
    EnteredErrorState,
    Key,
    Unsupported,
    key_of,
    leaves,
    rebuilt,
    recipe_of,
)
from npcompile.tracer.loop_ir.sources import Same, Source

MOST_BLOCKS = 1600
OF_SIZES = ("add", "subtract", "multiply", "span", "clip_bound", "wrap_index", "least")  # what sizes are computed with


@dataclass(slots=True)
class Frame:
    """Python's frame before an instruction. That of a function that is written into another one has a caller."""

    function: FunctionType
    facts: CodeFacts
    index: int
    stack: list[Abstract]
    locals: dict[int, Abstract]  # by slot, those that are bound and may be read; below 0 what is read from outside
    caller: Frame | None = None
    cells: tuple[Cell, ...] = ()  # what a function that the program made reads of the variables around it

    def copy(self) -> Frame:
        return Frame(self.function, self.facts, self.index, list(self.stack), dict(self.locals), self.caller, self.cells)

    def chain(self) -> Iterator[Frame]:
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.caller

    def parts(self) -> Iterator[Abstract]:
        for frame in self.chain():
            yield from frame.stack
            yield from (frame.locals[slot] for slot in sorted(frame.locals))

    def slots(self) -> Key:
        """Where everything in it is."""
        return tuple(
            (id(frame.facts), frame.index, *(key_of(x, []) for x in frame.cells), len(frame.stack), *sorted(frame.locals))
            for frame in self.chain()
        )

    def living(self, index: int) -> dict[int, Abstract]:
        """The locals that may be read from instruction `index` on, and those that functions inside or around may read."""
        live = self.facts.live[index].union(self.facts.cells, self.facts.free)
        return {slot: x for slot, x in self.locals.items() if slot < 0 or self.facts.slots[slot] in live}


@dataclass(slots=True)
class Point:
    """Where the next frame state stands, if a Check needs it: the frame, and a place in the block's ops."""

    frame: Frame
    position: int
    name: int | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """Where the front end stands between two instructions."""

    block: Block
    ops: list[Op]
    frame: Frame
    point: Point | None


@dataclass(frozen=True, slots=True)
class Tail:
    """Where Python goes on after a program that aborts, which returns a tuple: None, the tail's number, the stack, variables."""

    op: Return
    index: int
    depth: int  # of the stack, without what is held there
    slots: tuple[int, ...]  # of the variables: those that are not what the function was given


class Statement(Protocol):
    def compute_all(self) -> None: ...


@dataclass(slots=True)
class Begun:
    """A block that has no ops yet, and Python's frame there."""

    block: Block
    frame: Frame


@dataclass(slots=True)
class Builder:
    program: Program
    frame: Frame
    blocks: list[Block] = field(default_factory=list)
    versions: dict[Key, int] = field(default_factory=dict)  # labels
    pending: list[Begun] = field(default_factory=list)
    constants: dict[int, Literal] = field(default_factory=dict)
    block: Block = field(default_factory=lambda: Block(0, [], []))
    statement: Statement | None = None  # about arrays, whose elements wait to be computed
    views: dict[int, tuple[int, Sequence[Abstract]]] = field(default_factory=dict)  # which arrays they are parts of, and which
    region: Region | None = None  # of the loop inside the block that ops go to
    names: dict[tuple[int, str], Same] = field(default_factory=dict)  # what was read from outside
    hints: dict[int, int] = field(default_factory=dict)  # what integers are in the first call, where that is known
    shapes: dict[int, tuple[int | None, ...]] = field(default_factory=dict)  # of arrays
    fresh: set[int] = field(default_factory=set)  # arrays that an operation has made, and nobody else refers to
    has_arrays: bool = False  # are there, in loops, statements about whole arrays of a size that is not known here?
    has_products: bool = False  # with matrices?
    has_new_forms: bool = False  # is there, in loops, what no other compiler has a form for?
    goes_on: bool = False  # may a program that aborts end after the loops, so that Python goes on?
    loop: frozenset[int] | None = None  # the instructions of the one that the program begins at, if it does
    held: int = 0  # of what is on the stack there, below the loop's iterator
    tails: list[Tail] = field(default_factory=list)  # where it does
    array_loops: set[int] = field(default_factory=set)  # headers of the function's own loops that hold such statements
    has_loops: bool = False  # other ones than over items that are known?
    is_exact: bool = False  # has it NumPy's bits in sums and powers too, or no program?
    with_statements: bool = True  # about whole arrays, or is there no program?
    hands_on: bool = False  # has each tuple and list among the arguments a param of its own, as it may be handed on?
    merges: bool = False  # is a float NumPy's wherever blocks meet? Then there are fewer versions
    start: int = 0  # the state at the beginning, of a program that aborts
    point: Point | None = None
    flagged: bool = False  # has an op since the last FpCheck set flags, perhaps?
    at: Place = NOWHERE

    @property
    def aborts(self) -> bool:
        return self.program.policy is Policy.ABORT

    @property
    def has_numpys_bits(self) -> bool:
        """Are sums, powers and the order of axes those of NumPy, or is there no program?"""
        return self.is_exact or not self.aborts

    @property
    def facts(self) -> CodeFacts:
        return self.frame.facts

    def has_element_loops(self, facts: CodeFacts) -> bool:
        """Are there innermost loops of the function's own that hold no statements about whole arrays?"""
        headers = facts.loop_headers
        return any(h not in self.array_loops and loop_region(facts, h) & {*headers} == {h} for h in headers)

    def note_new_form(self) -> None:
        """Tuples that are arguments, and calls with stars, have no form elsewhere."""
        self.has_new_forms |= any(
            frame.index in loop_region(frame.facts, header) for frame in self.frame.chain() for header in frame.facts.loop_headers
        )

    # --- names

    def read(self, source: Source) -> object:
        """What a name stands for: the program is for that alone."""
        known = self.names.get(source.key)
        if known is None:
            known = self.names[source.key] = Same(source, source.read())
        return known.found

    # --- values

    def new(self, kind: Type, name: str = "") -> int:
        return self.program.new(kind, name)

    def param(self, kind: Type, name: str = "", slot: int | None = None) -> int:
        value = self.new(kind, name)
        self.program.params.append(Param(value, slot))
        return value

    def type(self, value: int) -> Type:
        return self.program.types[value]

    def emit(self, op: Op) -> None:
        (self.block.ops if self.region is None else self.region).append(op)

    @contextmanager
    def inside(self) -> Iterator[Region]:
        """Ops go to the region of a loop that stands in the block. Nothing is left in it but at states from before."""
        made: Region = []
        around, self.region = self.region, made
        try:
            yield made
        finally:
            self.region = around

    def constant(self, value: Literal) -> int:
        if type(value) not in PYTHON:
            raise Unsupported(f"a constant of type {type(value).__name__}")
        result = self.new(Scalar(PYTHON[type(value)]))
        self.emit(Constant(result, value, self.at))
        self.constants[result] = value
        if type(value) is int:
            self.hints[result] = value
        return result

    def let(self, op: str, *args: int) -> int:
        kind = result_type(op, [self.type(arg) for arg in args])
        if kind is None:
            raise Unsupported(f"{op} of {', '.join(kind_in_words(self.type(arg)) for arg in args)}")
        result = self.new(kind)
        self.emit(Let(result, op, list(args), self.at))
        self.flagged |= sets_flags(op, kind)
        if op in OF_SIZES and kind == INT and all(arg in self.hints for arg in args):
            self.hints[result] = int(MEANINGS[op](*(self.hints[arg] for arg in args)).real)
        return result

    def size_hint(self, array: int, axis: int) -> int | None:
        return self.shapes[array][axis] if array in self.shapes else None

    # --- leaving

    def begin_point(self, index: int) -> None:
        """From here on checks leave at the frame as it is now, before instruction `index`."""
        if self.aborts:
            return
        frame = self.frame.copy()
        frame.index = index
        frame.locals = frame.living(index)
        self.point = Point(frame, len(self.block.ops))

    def state(self) -> int:
        """The name of the frame state that checks leave at: it is made when first asked for."""
        if self.aborts:
            return self.start
        point = self.point
        assert point is not None
        if point.name is None:
            frame = point.frame
            if not frame.facts.enterable[frame.index]:
                raise Unsupported("execution cannot be left here")
            point.name = self.program.new_state()
            slots = [Slot(slot, recipe_of(frame.locals[slot])) for slot in sorted(frame.locals)]
            op = FrameState(point.name, frame.index, [recipe_of(x) for x in frame.stack], slots, self.at)
            self.block.ops.insert(point.position, op)
        return point.name

    def saved(self) -> Saved:
        """What restore() needs to forget what an instruction did."""
        return Saved(self.block, list(self.block.ops), self.frame.copy(), self.point and replace(self.point))

    def restore(self, saved: Saved) -> None:
        self.block, self.frame, self.point = saved.block, saved.frame, saved.point
        self.block.ops[:] = saved.ops

    def leave(self) -> None:
        """Python goes on here."""
        self.emit(SideExit(self.state(), self.at))

    def check(self, condition: int) -> None:
        if self.constants.get(condition) is not True:
            self.emit(Check(condition, self.state(), self.at))

    def check_not(self, condition: int) -> None:
        self.check(self.let("logical_not", condition))

    def poll(self) -> None:
        self.emit(Poll(self.state(), self.at))

    def errors(self) -> int:
        """The floating-point errors that NumPy reports here, as bits, unless its caller has it ignore them."""
        mask = ALL_ERRORS
        for x in (x for frame in self.frame.chain() for x in frame.stack):
            if isinstance(x, EnteredErrorState):
                for name, bit in FP_ERRORS.items():
                    mask &= ~bit if getattr(x.modes, name) is Mode.IGNORE else ALL_ERRORS
        return mask

    def flush(self) -> None:
        """Compute what waits and look at flags: before what Python must not do twice, and before execution goes elsewhere."""
        if self.statement is not None:
            self.statement.compute_all()
            self.statement = None
        if self.flagged:
            self.emit(FpCheck(self.state(), self.errors(), self.at))
            self.flagged = False

    def forget_flags(self) -> None:
        self.emit(FpClear(self.at))
        self.flagged = False

    def effect(self, op: Op) -> None:
        """An op that Python must not do again."""
        self.flush()
        self.emit(op)
        self.begin_point(self.frame.index + 1)

    # --- blocks

    def as_numpys(self, frame: Frame) -> Frame:
        """The frame with NumPy's floats for Python's."""
        values = [self.let("to_f64", value) if self.type(value) == FLOAT else value for x in frame.parts() for value in leaves(x)]
        return self.with_values(frame, iter(values))

    def with_values(self, frame: Frame, values: Iterator[int]) -> Frame:
        """The same frame over other values, in the order of its parts."""
        made = frame.copy()
        made.stack = [rebuilt(x, values) for x in frame.stack]
        made.locals = {slot: rebuilt(frame.locals[slot], values) for slot in sorted(frame.locals)}
        made.caller = frame.caller and self.with_values(frame.caller, values)
        return made

    def goto(self, index: int) -> tuple[int, list[int]]:
        """The version of instruction `index` for the frame as it is, and the arguments that it takes."""
        now = self.as_numpys(self.frame) if self.merges else self.frame
        frame = Frame(now.function, now.facts, index, now.stack, now.living(index), now.caller, now.cells)
        key: Key = (frame.slots(), *(key_of(x, self.program.types) for x in frame.parts()))
        label = self.versions.get(key)
        if label is None:
            begun = self.new_block(frame)
            self.pending.append(begun)
            label = self.versions[key] = begun.block.label
        return label, self.values(frame)

    def values(self, frame: Frame) -> list[int]:
        """All values of a frame: the arguments of a block that goes on with it."""
        return [value for x in frame.parts() for value in leaves(x)]

    def new_block(self, frame: Frame) -> Begun:
        """A block with an argument for each value of the frame, so that it reads nothing of other blocks."""
        if len(self.blocks) > MOST_BLOCKS:
            raise Unsupported("too many versions of its instructions")
        block = Block(self.program.new_label(), [], [])

        def renamed(x: Abstract, hint: str) -> Abstract:
            values = [self.new(self.type(value), hint or self.program.names.get(value, "")) for value in leaves(x)]
            block.args += values
            self.shapes.update({new: self.shapes[old] for old, new in zip(leaves(x), values) if old in self.shapes})
            return rebuilt(x, iter(values))

        def of(frame: Frame) -> Frame:
            stack = [renamed(x, "") for x in frame.stack]
            names = frame.facts.slots
            slots = {slot: renamed(frame.locals[slot], names[slot] if slot >= 0 else "") for slot in sorted(frame.locals)}
            caller = frame.caller and of(frame.caller)
            return Frame(frame.function, frame.facts, frame.index, stack, slots, caller, frame.cells)

        self.blocks.append(block)
        return Begun(block, of(frame))

    def jump(self, index: int) -> None:
        self.flush()
        self.emit(Jump(*self.goto(index), self.at))

    def branch(self, condition: int, then: int, orelse: int) -> None:
        self.flush()
        if self.type(condition) != BOOL and not (isinstance(kind := self.type(condition), Scalar) and kind.kind.value == "b1"):
            condition = self.let("truth", condition)
        self.emit(Branch(condition, *self.goto(then), *self.goto(orelse), self.at))
