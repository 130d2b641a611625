"""Which types the operands and results of each op have."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.invalid import Invalid, Rule
from npcompile.tensor_core.loop_ir.ops import (
    Alloc,
    Append,
    Branch,
    Call,
    Check,
    Constant,
    Disjoint,
    For,
    Gather,
    Guard,
    If,
    Let,
    Load,
    NewList,
    Op,
    Program,
    Room,
    Routine,
    Scratch,
    Size,
    Splat,
    Store,
    Threads,
    View,
)
from npcompile.tensor_core.loop_ir.rows import result_type
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.types import B1, BOOL, DTYPES, F64, INT, LIMITS, PYTHON, Kind, List, Memref, Scalar, Type

TRUTH = (BOOL, B1)


def verify_types(program: Program) -> None:
    """Raises Invalid where an op's operands do not fit it or its result."""
    for op in walk(program.body):
        Typing(program).op(op)


def is_number_of(kind: Type, value: Literal) -> bool:
    """Is it exactly a number of this kind of NumPy's?"""
    if not isinstance(kind, Scalar) or not kind.is_numpys or type(value) is not type(DTYPES[kind.kind].type(0).item()):
        return False
    if kind.kind in LIMITS:
        return LIMITS[kind.kind][0] <= value.real <= LIMITS[kind.kind][1]
    return repr(DTYPES[kind.kind].type(value).item()) == repr(value)


class Typing:
    __slots__ = ("types",)

    def __init__(self, program: Program):
        self.types = program.types

    def must(self, rule: Rule, holds: bool, op: Op) -> None:
        if not holds:
            raise Invalid(rule, str(op))

    def integers(self, values: list[int], op: Op) -> None:
        self.must(Rule.TYPES, all(self.types[value] == INT for value in values), op)

    def array(self, value: int, op: Op) -> Memref:
        kind = self.types[value]
        if not isinstance(kind, Memref):
            raise Invalid(Rule.TYPES, str(op))
        return kind

    def op(self, op: Op) -> None:
        types = self.types
        match op:
            case Constant(result, value):
                self.must(Rule.TYPES, types[result] == Scalar(PYTHON[type(value)]) or is_number_of(types[result], value), op)
            case Let(result, name, args):
                self.must(Rule.TYPES, types[result] == result_type(name, [types[arg] for arg in args]), op)
            case Size(result, array, axis):
                sized = types[array]
                rank = sized.rank if isinstance(sized, Memref) else int(isinstance(sized, List))
                self.must(Rule.INDEX, 0 <= axis < rank, op)
                self.must(Rule.TYPES, types[result] == INT, op)
            case Load(result, array, index):
                self.element(op, array, index, types[result])
            case Gather(result, array, index, steps):
                self.element(op, array, index, Scalar(self.array(array, op).element))
                found = types[result]
                self.must(Rule.TYPES, isinstance(found, Scalar) and found.kind is self.array(array, op).element, op)
                self.must(Rule.INDEX, len(steps) == len(index), op)
            case Store(array, index, value):
                self.element(op, array, index, types[value])
                self.must(Rule.WRITEABLE, isinstance(types[array], List) or self.array(array, op).writeable, op)
            case Splat(result, value):
                many = types[result]
                self.must(Rule.TYPES, isinstance(many, Scalar) and types[value] == Scalar(many.kind), op)
            case Disjoint(result, one_array, other_array):
                self.array(one_array, op), self.array(other_array, op)
                self.must(Rule.TYPES, types[result] == BOOL, op)
            case Scratch(result, elements):
                scratch = self.array(result, op)
                self.must(Rule.TYPES, scratch == Memref(scratch.element, 1, True, True, True) and elements > 0, op)
            case Room(result, elements):
                room = self.array(result, op)
                self.integers([elements], op)
                self.must(Rule.TYPES, room == Memref(room.element, 1, True, True, True), op)
            case Threads(result):
                self.integers([result], op)
            case View():
                self.view(op)
            case Alloc(result, sizes):
                made = self.array(result, op)
                self.integers(sizes, op)
                self.must(Rule.INDEX, made.rank == len(sizes), op)
                self.must(Rule.WRITEABLE, made.contiguous and made.writeable, op)
            case NewList(result):
                self.must(Rule.TYPES, isinstance(types[result], List), op)
            case Append(items, value):
                grown = types[items]
                self.must(Rule.TYPES, isinstance(grown, List) and types[value] == Scalar(grown.element), op)
            case Call(result, _, args):
                vectors = [self.array(arg, op) for arg in args]
                self.must(Rule.TYPES, types[result] == F64 and all((v.element, v.rank) == (Kind.F64, 1) for v in vectors), op)
            case Routine(_, out, args):
                made, *given = (self.array(value, op) for value in (out, *args))
                self.must(Rule.WRITEABLE, made.contiguous and made.writeable, op)
                self.must(Rule.TYPES, all(x.element is Kind.F64 and x.rank in (1, 2) for x in (made, *given)), op)
            case For(_, index, start, stop):
                self.integers([index, start, stop], op)
            case Check(condition) | Guard(condition) | If(condition) | Branch(condition):
                self.must(Rule.CONDITION, types[condition] in TRUTH, op)

    def element(self, op: Op, array: int, index: list[int], found: Type) -> None:
        """One element, or a vector of elements that are side by side."""
        kind = self.types[array]
        if not isinstance(kind, Memref | List) or not isinstance(found, Scalar) or found.kind is not kind.element:
            raise Invalid(Rule.TYPES, str(op))
        self.must(Rule.TYPES, found.lanes == 1 or isinstance(kind, Memref) and kind.contiguous, op)
        self.must(Rule.INDEX, len(index) == (kind.rank if isinstance(kind, Memref) else 1), op)
        self.integers(index, op)

    def view(self, op: View) -> None:
        kind, made = self.array(op.array, op), self.array(op.result, op)
        self.integers([*op.starts, *op.sizes], op)
        self.must(Rule.INDEX, len(op.starts) == len(op.kept) == kind.rank and sum(op.kept) == len(op.sizes) == made.rank, op)
        self.must(Rule.TYPES, made.element is kind.element, op)
        self.must(Rule.WRITEABLE, kind.writeable or not made.writeable, op)
