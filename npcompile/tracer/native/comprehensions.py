"""List comprehensions, and generator expressions that sum, min, max, any or all go over, in native programs.

Their code is written where it is called, with blocks and variables of its own. Nothing in it may have effects: what it cannot do
leaves the program before the statement, and Python does all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from npcompile.backends.cpu.loops.number_lists import NumberList
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.bytecode.versions import RUNNING
from npcompile.tracer.native import arrays, number_lists
from npcompile.tracer.native.blocks import Blocks, Left
from npcompile.tracer.native.nested_code import NestedCode
from npcompile.tracer.native.numbers import calculated, compared, number, truth
from npcompile.tracer.native.states import State
from npcompile.tracer.native.types import Generator, Items, Known, Nested, Scalar, Shared

GENERATOR = 0x20  # flag of code
Take = Callable[["Comprehension", Any, Any, Fail], Any]  # (what is known so far, an item) -> what is known then


@dataclass(slots=True)
class Comprehension(NestedCode):
    """The code of one, while it is written. What a generator's items make stands at the bottom of its stack."""

    name: ClassVar[str] = "a comprehension"
    free: dict[str, Any] = field(default_factory=dict)  # what it has of the outer code's variables
    take: Take | None = None  # what is done with an item
    end: Callable[[Any], Any] = lambda found: found

    def shared_value(self, name: str) -> Any:
        if self.calls:
            return Blocks.shared_value(self, name)
        if name not in self.free:
            raise NoForm(f"variable {name!r} has no value")
        return self.realize(self.free[name])

    def give(self, value: Any, fail: Fail) -> None:
        self.finish(value if self.take is None else self.end(self.state.stack[0]))


def write(b: Blocks, nested: Nested, iterator: Any, following: int, fail: Fail, take: Take | None, first: Any, end: Any) -> None:
    """Write the code, and what follows it. Raises NoForm, or Left."""
    number_lists.require(b)
    own = {"own_cells": frozenset(nested.code.co_cellvars), "free": nested.free, "take": take, "end": end}
    inner = Comprehension.within(b, nested.code, following, fail, **own)
    inner.write_from(State([] if take is None else [first], {".0": iterator}))
    b.comprehensions += 1
    raise Left


# --- what functions do with the items of a generator


def added(b: Comprehension, total: Any, item: Any, fail: Fail) -> Any:
    if total.kind == "float" and not number(item).is_numpy and RUNNING.sums_exactly:
        raise NoForm("a sum that is compensated")
    return calculated(b.code, "+", total, item, fail)


def extreme(sign: str) -> Take:
    def take(b: Comprehension, found: Any, item: Any, fail: Fail) -> Any:
        if not isinstance(found, Scalar):
            return number(item)
        if number(item).kind != found.kind:
            raise NoForm("numbers of several types")
        is_better = truth(b.code, compared(b.code, sign, item, found, fail))
        return Scalar(found.kind, b.code.choose(found.kind, is_better, item.text, found.text))

    return take


def ended_by(value: bool) -> Take:
    """any() and all() end with the first item that decides."""

    def take(b: Comprehension, found: Any, item: Any, fail: Fail) -> Any:
        decides = truth(b.code, item)
        after = b.state.copy()
        b.code.line(f"if ({decides if value else f'!{decides}'}) {{")
        b.finish(Scalar("bool", str(int(value))))
        b.code.line("}")
        b.state = after
        return found

    return take


def some(found: Any) -> Any:
    """None where there was no item: Python raises an error."""
    return found if isinstance(found, Scalar) else None


def given(found: Any) -> Any:
    return found


NOTHING = Known(None)
TAKERS: dict[Any, tuple[Take, Any, Callable[[Any], Any]]] = {
    sum: (added, Scalar("int", "INT64_C(0)"), given),
    max: (extreme(">"), NOTHING, some),
    min: (extreme("<"), NOTHING, some),
    any: (ended_by(True), Scalar("bool", "0"), given),
    all: (ended_by(False), Scalar("bool", "1"), given),
}


def call(b: Blocks, function: Any, arguments: list[Any], keywords: dict[str, Any], following: int, fail: Fail) -> Any:
    """A call of a comprehension's code, or of a function with a generator. Raises Left."""
    if isinstance(function, Nested):
        if len(arguments) != 1 or keywords or not function.code.co_varnames[:1] == (".0",):
            raise NoForm("a function that is made and called")
        if function.code.co_flags & GENERATOR:
            return Generator(function, arguments[0])
        return write(b, function, arguments[0], following, fail, None, None, given)
    generator = arguments[0]
    value = function.value if isinstance(function, Known) else None
    if value not in TAKERS or keywords or len(arguments) > (2 if value is sum else 1):
        raise NoForm("a generator that a function is given")
    take, first, end = TAKERS[value]
    first = number(arguments[1]) if len(arguments) == 2 else first
    return write(b, generator.nested, generator.iterator, following, fail, take, first, end)


def make_function(b: Blocks, i: Instruction, fail: Fail) -> None:
    code = b.pop()
    cells = b.pop() if i.arg else Items(())
    if i.arg not in (0, 8) or not all(isinstance(cell, Shared) for cell in cells.items):
        raise NoForm("a function that is made")
    b.push(Nested(code.value, {name: cell.value for name, cell in zip(code.value.co_freevars, cells.items)}))


def list_append(b: Blocks, i: Instruction, fail: Fail) -> None:
    item, owner = arrays.settled(b.code, b.pop(), fail), b.state.stack[-i.arg]
    if not isinstance(b, NestedCode) or not isinstance(owner, NumberList):
        raise NoForm("a list of something else than numbers")
    number_lists.append(b, owner, item)


def yield_value(b: Blocks, i: Instruction, fail: Fail) -> None:
    if not isinstance(b, Comprehension) or b.take is None:
        raise NoForm("a generator")
    item = b.pop()
    b.state.stack[0] = b.take(b, b.state.stack[0], item, fail)
    b.push(NOTHING)
