"""List comprehensions, and generator expressions that sum, min, max, any or all go over, in native programs.

Their code is written where it is called, with blocks and variables of its own. Nothing in it may have effects: what it cannot do
leaves the program before the statement, and Python does all of it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from npcompile.backends.cpu.loops.number_lists import NumberList
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.decode import Instruction, decode
from npcompile.tracer.native import arrays, number_lists
from npcompile.tracer.native.blocks import Blocks, Left, means
from npcompile.tracer.native.kinds import Generator, Items, Known, Nested, Scalar, Shared
from npcompile.tracer.native.numbers import calculated, compared, number, truth
from npcompile.tracer.native.states import Placing, State, is_attribute, key_of, still_needed

GENERATOR = 0x20  # flag of code
MOST_DEPTH = 3
Take = Callable[["Comprehension", Any, Any, Fail], Any]  # (what is known so far, an item) -> what is known then


Inner = TypeVar("Inner", bound="Comprehension")


def never() -> str:
    raise AssertionError


@dataclass(slots=True)
class Comprehension(Blocks):
    """The code of one, while it is written. What a generator's items make stands at the bottom of its stack."""

    outer: Blocks | None = None
    following: int = -1  # the outer code's next instruction
    base: State = field(default_factory=lambda: State([], {}))  # the outer code's, without the call
    left: Fail = never  # the exit before the call
    free: dict[str, Any] = field(default_factory=dict)  # what it has of the outer code's variables
    take: Take | None = None  # what is done with an item
    end: Callable[[Any], Any] = lambda found: found

    def ahead(self) -> frozenset[int]:
        return frozenset(k for k, state in enumerate(self.facts.states) if state is not None)

    def fail(self) -> Fail:
        return self.left

    def back_out(self, is_refused: bool = False) -> str:
        raise NoForm(self.refused.pop() if self.refused else "a comprehension")

    def note_write(self) -> None:
        raise NoForm("a comprehension with effects")

    def values_in_use(self) -> list[Any]:
        assert self.outer is not None
        own = Blocks.values_in_use(self)
        return [*own, *self.base.stack, *self.base.locals.values(), *self.outer.values_in_use()]

    def shared_value(self, name: str) -> Any:
        if self.calls:
            return Blocks.shared_value(self, name)
        if name not in self.free:
            raise NoForm(f"variable {name!r} has no value")
        return self.realize(self.free[name])

    def go(self, index: int) -> None:
        if self.calls:
            Blocks.go(self, index)
            return
        self.settle(self.left)
        copies: list[tuple[str, str, str]] = []
        slots = {name: k for k, name in enumerate(self.facts.slots)}
        kept = still_needed(self.state.locals, self.facts.live[index] | self.own_cells)
        if any(map(is_attribute, kept)):
            raise NoForm("an attribute in a comprehension")
        state = Placing(self.code, copies, self.suffix).all(State(self.state.stack, kept), slots)
        if any(kind == "object" for _, _, kind in copies):
            raise NoForm("arrays that a comprehension makes")
        copies = [c for c in copies if c[0] != c[1]]
        self.note_copies(copies)
        texts = [self.code.new(kind, text) if text in self.code.variables else text for _, text, kind in copies]
        for (target, _, _), text in zip(copies, texts):
            self.code.set(target, text)
        key = key_of(index, state)
        label = self.labels.get(key)
        if label is None:
            label = self.labels[key] = f"block{len(self.labels)}{self.suffix}_{index}"
            self.pending.append((index, state, label))
        self.code.jump(label)

    def note_copies(self, copies: list[tuple[str, str, str]]) -> None:
        """Variables are set: (variable, value, kind)."""

    def give(self, value: Any, fail: Fail) -> None:
        self.finish(value if self.take is None else self.end(self.state.stack[0]))

    def finish(self, value: Any) -> None:
        """Go on behind the call."""
        assert self.outer is not None
        if value is None:
            self.code.jump(self.left())
            return
        self.outer.state = State([*self.base.stack, value], self.base.locals.copy())
        self.outer.go(self.following)


def write(b: Blocks, nested: Nested, iterator: Any, following: int, fail: Fail, take: Take | None, first: Any, end: Any) -> None:
    """Write the code, and what follows it. Raises NoForm, or Left."""
    number_lists.require(b)
    check(b)
    own_cells = frozenset(nested.code.co_cellvars)
    inner = within(b, Comprehension, nested.code, following, fail, own_cells=own_cells, free=nested.free, take=take, end=end)
    run(b, inner, State([] if take is None else [first], {".0": iterator}))
    b.comprehensions += 1
    raise Left


def check(b: Blocks) -> None:
    """NoForm where code with blocks of its own cannot be written."""
    if any(map(is_attribute, b.state.locals)):
        raise NoForm("a comprehension beside attributes that were set")
    if b.calls or len(b.suffix) > 6 * MOST_DEPTH:
        raise NoForm("a comprehension in a function that is called, or in another one")


def within(b: Blocks, kind: type[Inner], own: types.CodeType, following: int, fail: Fail, **more: Any) -> Inner:
    """What writes code of its own in the middle of another."""
    return kind(
        decode(own),
        facts := analyse(own),
        more.pop("globals", b.globals),
        facts.start,
        b.guard,
        b.name_constant,
        code=b.code,
        exits=b.exits,
        realized=b.realized,
        inputs=b.inputs,
        arrays=b.arrays,
        objects=b.objects,
        globals_source=more.pop("globals_source", b.globals_source),
        contents=b.contents,
        attributes=b.attributes,
        site=f"{b.site}w{b.code.instruction}",
        suffix=f"{b.suffix}w{b.code.new_site()}",
        outer=b,
        following=following,
        base=b.state.copy(),
        left=fail,
        **more,
    )


def run(b: Blocks, inner: Comprehension, state: State) -> None:
    """Write it, entered at its start. NoForm where it cannot be, with all as it was before."""
    code = b.code
    saved = len(code.lines), b.labels.copy(), b.pending.copy(), b.origins.copy(), b.came_back.copy(), b.state.copy(), code.loop
    inner.state = state
    try:
        code.settle()
        inner.go(inner.facts.start)
        inner.write_pending()
    except NoForm as reason:
        del code.lines[saved[0] :]
        code.computed.clear()
        _, b.labels, b.pending, b.origins, b.came_back, b.state, code.loop = saved
        raise NoForm(str(reason)) from None
    code.loop = saved[-1]


# --- what functions do with the items of a generator


def added(b: Comprehension, total: Any, item: Any, fail: Fail) -> Any:
    if total.kind == "float" and not number(item).is_numpy and sys.version_info >= (3, 12):
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


NOTHING = Known(None, "None")
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


@means("MAKE_FUNCTION")
def make_function(b: Blocks, i: Instruction, fail: Fail) -> None:
    code = b.pop()
    cells = b.pop() if i.arg else Items(())
    if (i.arg or 0) not in (0, 8) or not all(isinstance(cell, Shared) for cell in cells.items):
        raise NoForm("a function that is made")
    b.push(Nested(code.value, {name: cell.value for name, cell in zip(code.value.co_freevars, cells.items)}))


@means("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(b: Blocks, i: Instruction, fail: Fail) -> None:
    function, cells = b.pop(), b.pop()
    if i.arg != 8 or not isinstance(function, Nested) or not all(isinstance(cell, Shared) for cell in cells.items):
        raise NoForm("a function that is made")
    b.push(Nested(function.code, {name: cell.value for name, cell in zip(function.code.co_freevars, cells.items)}))


@means("LIST_APPEND")
def list_append(b: Blocks, i: Instruction, fail: Fail) -> None:
    item, owner = arrays.settled(b.code, b.pop(), fail), b.state.stack[-i.arg]
    if not isinstance(b, Comprehension) or not isinstance(owner, NumberList):
        raise NoForm("a list of something else than numbers")
    number_lists.append(b, owner, item)


@means("YIELD_VALUE")
def yield_value(b: Blocks, i: Instruction, fail: Fail) -> None:
    if not isinstance(b, Comprehension) or b.take is None:
        raise NoForm("a generator")
    item = b.pop()
    b.state.stack[0] = b.take(b, b.state.stack[0], item, fail)
    b.push(NOTHING)
