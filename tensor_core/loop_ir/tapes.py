"""What an iteration of the first program leaves for reverse mode: which values are taped, and the ops that append them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.activity import Activity
from npcompile.tensor_core.loop_ir.forms import inner, results
from npcompile.tensor_core.loop_ir.infinite import infinite_values
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import (
    Append,
    Call,
    Constant,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Program,
    Region,
    Scope,
    Size,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.shadows import Mirrored
from npcompile.tensor_core.loop_ir.squares import sums_of_squares
from npcompile.tensor_core.loop_ir.types import F64, FLOATING, INT, INTEGERS, TRUTHS, Kind, Scalar
from npcompile.tensor_core.loop_ir.verifier import never_goes_on

TAPES = (Kind.F64, Kind.INT)


@dataclass(slots=True)
class Taping:
    """What all regions of the gradient program have in common."""

    mirrored: Mirrored
    tapes: dict[Kind, int] = field(default_factory=dict)
    home: dict[int, tuple[int, Op | None]] = field(default_factory=dict)  # value -> its region, and the op that defines it
    pushes: list[tuple[Region, list[int]]] = field(default_factory=list)
    vectors: list[tuple[Region, Call, list[int]]] = field(default_factory=list)  # operands of a call whose elements are taped
    infinite: set[int] = field(init=False)  # values that may be, where they are not used

    squares: set[int] = field(init=False)  # values that are sums of squares

    def __post_init__(self) -> None:
        self.infinite = infinite_values(self.activity)
        self.squares = sums_of_squares(self.activity)

    @property
    def program(self) -> Program:
        return self.mirrored.program

    @property
    def activity(self) -> Activity:
        return self.mirrored.activity

    def note_homes(self, region: Region, values: Iterable[int] = ()) -> None:
        self.home |= dict.fromkeys(values, (id(region), None))
        for op in region:
            for value in results(op):
                self.home[value] = (id(region), op)
            match op:
                case If():
                    self.note_homes(op.then)
                    self.note_homes(op.orelse)
                case For() | While():
                    self.note_homes(op.body, inner(op))
                case Scope():
                    self.note_homes(op.body)

    def is_wanted(self, value: int) -> bool:
        """Is the gradient of this param, a number, asked for?"""
        return self.mirrored.wanted.get(value, False) and isinstance(self.program.types[value], Scalar)

    def kind_of(self, value: int) -> Kind:
        """Which tape keeps it."""
        kind = self.program.types[value]
        if not isinstance(kind, Scalar) or kind.lanes != 1 or kind.kind not in FLOATING | INTEGERS | TRUTHS:
            raise NoDerivative(f"a value of type {kind} would have to be kept")
        return Kind.F64 if kind.kind in FLOATING else Kind.INT

    def push(self, region: Region, values: list[int]) -> None:
        """Append values to their tapes at the end of a region: where it forks, at each end."""
        end = region[-1]
        if isinstance(end, If) and never_goes_on(end):
            self.push(end.then, values)
            self.push(end.orelse, values)
            return
        ops: Region = []
        for value in values:
            kind = self.kind_of(value)
            if self.program.types[value] != Scalar(kind):
                kept = self.program.new(Scalar(kind))
                ops.append(Let(kept, "to_f64" if kind is Kind.F64 else "to_int", [value]))
                value = kept
            ops.append(Append(self.tapes[kind], value))
        region[len(region) - 1 : len(region) - 1] = ops

    def push_vectors(self, region: Region, call: Call, vectors: list[int]) -> None:
        """Append the elements of vectors to the tape after a call that reads them, those of one index together."""
        new = self.program.new
        index, zero, size = new(INT), new(INT), new(INT)
        body: Region = []
        for vector in vectors:
            element = new(F64)
            body += [Load(element, vector, [index], call.at), Append(self.tapes[Kind.F64], element, call.at)]
        loop = For(LoopKind.SERIAL, index, zero, size, [], [], [*body, Yield([])], [], call.at)
        place = next(k for k, op in enumerate(region) if op is call) + 1
        region[place:place] = [Constant(zero, 0), Size(size, call.args[0], 0), loop]
