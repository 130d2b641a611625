"""Forward mode: from a structured program, one that also moves tangents along. Loop IR in, loop IR out.

Beside each number that depends on what is moved stands its tangent, computed right after it, and beside each array or list of
such numbers one of their tangents. The rules are those of reverse mode: what a rule gives is linear in the gradient, and for one
number after another a slope is the same both ways. A program of reverse mode is such a program too: of it this makes products of
second derivatives with a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.activity import Activity, activity_of
from npcompile.tensor_core.loop_ir.clone import renumber
from npcompile.tensor_core.loop_ir.derivatives import CONSTANTS, DERIVATIVES, NONE
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Append,
    Break,
    Call,
    Constant,
    For,
    If,
    Let,
    Load,
    NewList,
    Op,
    Param,
    Place,
    Policy,
    Program,
    Region,
    Return,
    Scope,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.rows import result_type
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.states import Recipe, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import F32, F64, FLOAT, Kind, List, Memref, Scalar, Type


def forward(program: Program, moved: Sequence[int]) -> None:
    """Let a structured program that aborts give a pair, its result and the tangent of that. In place.

    Its params are those that it had, and then a tangent for each of the params `moved`: a number, or an array like it. Where the
    program stores to an array, it stores to that of its tangents as well. Raises NoDerivative.
    """
    assert program.policy is Policy.ABORT, program.policy
    given = [program.params[k].value for k in moved]
    made = Forward(program, activity_of(program, given))
    made.note_takers()
    program.params += [Param(made.tangent_of(value), None) for value in given]
    program.body = made.region(program.body)
    drop_unused(program, program.body, is_reported=False)
    renumber(program)


@dataclass(slots=True)
class Forward:
    program: Program
    activity: Activity
    tangent: dict[int, int] = field(default_factory=dict)  # by number, array and list
    takers: dict[int, list[int]] = field(default_factory=dict)  # label -> the values that a Break or Again gives
    ops: Region = field(default_factory=list)  # of the region that is made

    def note_takers(self) -> None:
        """The lists as they are before tangents are added to them."""
        for op in walk(self.program.body):
            if isinstance(op, Scope):
                self.takers[op.label] = list(op.results)
            elif isinstance(op, While):
                self.takers[op.label] = list(op.args)

    def is_moved(self, value: int) -> bool:
        return value in self.activity.varied or self.activity.has_shadow(value)

    def type_of(self, value: int) -> Type:
        return self.program.types[value]

    def tangent_of(self, value: int) -> int:
        """The tangent of a value that has one, or 0 for a number that has none."""
        if value not in self.tangent:
            if not self.is_moved(value):
                return self.number(0.0)
            self.tangent[value] = self.program.new(tangent_type(self.type_of(value)), f"t_{self.program.names.get(value, '')}")
        return self.tangent[value]

    def number(self, value: float, /) -> int:
        result = self.program.new(F64)
        self.ops.append(Constant(result, value))
        return result

    def __call__(self, name: str, /, *args: int) -> int:
        kind = result_type(name, [self.type_of(arg) for arg in args])
        assert kind is not None, (name, args)
        result = self.program.new(kind)
        self.ops.append(Let(result, name, list(args)))
        return result

    # --- regions

    def region(self, region: Region) -> Region:
        outer, self.ops = self.ops, []
        for op in region:
            self.op(op)
        made, self.ops = self.ops, outer
        return made

    def with_tangents(self, values: list[int]) -> list[int]:
        """Values that are defined here, then the tangents of those that have one."""
        return [*values, *(self.tangent_of(value) for value in values if self.is_moved(value))]

    def given(self, values: list[int], takers: list[int]) -> list[int]:
        """Values that are handed on, then the tangents that those who take them have."""
        return [*values, *(self.tangent_of(value) for value, taker in zip(values, takers) if self.is_moved(taker))]

    def ended(self, region: Region, takers: list[int]) -> Region:
        """A region whose Yield gives the tangents too."""
        made = self.region(region)
        end = made[-1]
        if isinstance(end, Yield):
            made.pop()
            outer, self.ops = self.ops, made
            end.values = self.given(end.values, takers)
            self.ops.append(end)
            self.ops = outer
        return made

    def op(self, op: Op) -> None:
        match op:
            case For():
                op.initial = self.given(op.initial, op.args)
                op.body = self.ended(op.body, op.args)
                op.args, op.results = self.with_tangents(op.args), self.of_results(op.results, op.args)
            case If():
                op.then, op.orelse = self.ended(op.then, op.results), self.ended(op.orelse, op.results)
                op.results = self.with_tangents(op.results)
            case Scope():
                op.body = self.region(op.body)
                op.results = self.with_tangents(op.results)
            case While():
                op.initial = self.given(op.initial, op.args)
                op.body = self.region(op.body)
                op.args = self.with_tangents(op.args)
            case Break() | Again():
                op.values = self.given(op.values, self.takers[op.target])
            case Return():
                op.value = TupleOf((op.value, self.of_recipe(op.value, op.at)))
            case Store() if self.activity.has_shadow(op.array):
                self.ops.append(Store(self.tangent_of(op.array), op.index, self.tangent_of(op.value), op.at))
            case Append() if self.activity.has_shadow(op.items):
                self.ops.append(Append(self.tangent_of(op.items), self.tangent_of(op.value), op.at))
        self.ops.append(op)
        self.after(op)

    def of_results(self, results: list[int], args: list[int]) -> list[int]:
        """Of a counted loop: what an iteration takes has a tangent where a result has one."""
        return [*results, *(self.tangent_of(result) for result, arg in zip(results, args) if self.is_moved(arg))]

    def after(self, op: Op) -> None:
        """The tangent of what an op without regions has defined."""
        match op:
            case Let(result) if self.is_moved(result):
                self.scalar(op)
            case Load(result, array, index) if self.is_moved(result):
                self.ops.append(Load(self.tangent_of(result), self.tangent_of(array), index, op.at))
            case View(result, array) if self.is_moved(result):
                part = View(self.tangent_of(result), self.tangent_of(array), op.starts, op.kept, op.sizes, op.at)
                self.ops.append(part)
            case Alloc(result) if self.is_moved(result):
                self.ops.append(Alloc(self.tangent_of(result), op.sizes, op.zeroed, at=op.at))
            case NewList(result) if self.is_moved(result):
                self.ops.append(NewList(self.tangent_of(result), op.at))
            case Call(result, "dot", [one, other]) if self.is_moved(result):
                pairs = ((one, other), (other, one))
                parts = [self.dot(self.tangent_of(a), b, op.at) for a, b in pairs if self.is_moved(a)]
                self.tangent[result] = parts[0] if len(parts) == 1 else self("add", *parts)

    def dot(self, one: int, other: int, at: Place) -> int:
        result = self.program.new(F64)
        self.ops.append(Call(result, "dot", [one, other], at))
        return result

    def scalar(self, op: Let) -> None:
        partials = DERIVATIVES.get(op.op)
        if partials is None:
            raise NoDerivative(CONSTANTS.get(op.op, f"the derivative of {op.op}"), op.at.line)
        total: int | None = None
        for arg, partial in zip(op.args, partials, strict=True):
            if self.is_moved(arg) and partial is not NONE:
                part = partial.rule(self, self.tangent_of(arg), self.double(op.result), [*map(self.double, op.args)])
                total = part if total is None else self("add", total, part)
        self.tangent[op.result] = self.number(0.0) if total is None else total

    def double(self, value: int) -> int:
        return self("to_f64", value) if self.type_of(value) == F32 else value

    def of_recipe(self, recipe: Recipe, at: Place) -> Recipe:
        match recipe:
            case TupleOf(items):
                return TupleOf(tuple(self.of_recipe(item, at) for item in items))
            case Use(value) if self.is_moved(value) and not is_single(self.type_of(value)):
                return Use(self.tangent_of(value))
            case Use(value) | Tagged(_, value) if self.type_of(value) in (F64, FLOAT):
                return Use(self.tangent_of(value))
        raise NoDerivative("a result without a tangent", at.line)


def is_single(kind: Type) -> bool:
    """Would a tangent have to be rounded to float32?"""
    return kind == F32 or isinstance(kind, Memref | List) and kind.element is Kind.F32


def tangent_type(kind: Type) -> Type:
    if isinstance(kind, Scalar):
        return F64
    assert isinstance(kind, Memref | List), kind
    return kind._replace(element=Kind.F64)
