"""How a variant ends: what it returns, or hands over to what comes next."""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.backends.device_arrays import array_kind
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.guards import Is, Truth
from npcompile.tensor_core.source import GLOBALS, Call, Name
from npcompile.tracer.beginning import place_cells
from npcompile.tracer.bytecode.decode import Program
from npcompile.tracer.bytecode.layout import Layout
from npcompile.tracer.bytecode.tracebacks import uncounted
from npcompile.tracer.capture import Capture
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.conditions import UNLESS_IT_HOLDS, Asked
from npcompile.tracer.entry import plain_function
from npcompile.tracer.frame import Branch, Frame, Jump, NextItem, Outcome, Return, Stop
from npcompile.tracer.fresh_classes import are_alike, are_compared
from npcompile.tracer.host_fallback import decided, leaving
from npcompile.tracer.instructions.jumps import PLAIN_ITERATORS
from npcompile.tracer.point import Point
from npcompile.tracer.profitability import UNROLL_LIMIT
from npcompile.tracer.python.calls import BUILTINS
from npcompile.tracer.python.inlining import is_library_code
from npcompile.tracer.restarts import Break, Decisions
from npcompile.tracer.values import NULL, Array, Closure, Constant, Iterator, Lazy, Method, Opaque
from npcompile.tracer.variant_source import Emitter

MADE = re.compile(r"^ *(v\d+) = ")  # a statement that makes a value


def why_split(outcome: Stop | Branch | Jump | NextItem, program: Program) -> Break:
    """Why the program is more than one graph."""
    if isinstance(outcome, (Stop, Branch)):
        return outcome.reason
    return Break("a loop too long to unroll", "Whole-array operations stay in the graph.", program.location(outcome.index))


@dataclass(slots=True, eq=False)
class Later:
    """A segment that is made when it is first run."""

    function: Compiled[Point]
    layout: Layout
    throws: bool = False
    made: Callable[..., Any] | None = None

    @uncounted
    def run(self, *state: Any) -> Any:
        if self.made is None:
            self.made = self.function.segment(self.layout, None, throws=self.throws)
        return self.made(*state)


DICT_ITERATOR: type = type(iter({}))
RANGE_ITERATOR: type = type(iter(range(0)))


@dataclass(slots=True, eq=False)
class Ending:
    """How a variant hands over to what comes next."""

    function: Compiled[Point]
    point: Point  # that the variant is of
    capture: Capture
    frame: Frame
    emitter: Emitter
    changed: set[str] = field(default_factory=set)  # parameters that are others when the variant goes on at its own Point
    is_repeated: bool = False  # does it go on there?

    @classmethod
    def at(cls, function: Any, point: Point, state: Sequence[Any]) -> Ending:
        """Of a program that begins at a Point of a CompiledFunction with nothing captured."""
        capture = Capture(Builder(), Decisions(), {}, {}, function.options.dynamic, function.object_of)
        frame = Frame(capture, function.program, function.python.__globals__, GLOBALS, {}, index=point.layout.index)
        place_cells(function, capture, frame, point, dict(zip(point.parameters, state)))
        return cls(function, point, capture, frame, Emitter(capture, function.name_constant))

    def live_values(self, outcome: Outcome) -> list[Any]:
        """Every value that must be a real object when the variant ends."""
        frame = self.frame
        cells = [c for c in frame.cells.values() if c.source is None] + self.escaped_cells()
        match outcome:
            case Return(value):
                return [value, *self.escaped_cells()]
            case Branch(condition, (true, true_stack), (false, false_stack)):
                return [condition.array, *true_stack, *false_stack, *self.locals_at(true), *self.locals_at(false), *cells]
            case NextItem():
                after = self.function.program.instructions[outcome.index].target
                return [*frame.stack, *self.locals_at(outcome.index + 1), *self.locals_at(after), *cells]
            case Stop() | Jump():
                found = [*frame.stack, *self.locals_at(outcome.index), *cells]
                if isinstance(outcome, Jump) and self.loop_iterator(outcome.index) is not None:
                    found += self.locals_at(outcome.index + 1)
                    found += self.locals_at(self.function.program.instructions[outcome.index].target)
                return found

    def escaped_cells(self) -> list[Any]:
        return [c.content for c in self.capture.cells.values() if c.is_written]

    def locals_at(self, index: int) -> list[Any]:
        return [self.frame.locals.get(n) for n in self.function.facts.live_locals(index) if n in self.frame.locals]

    def state_text(self, index: int, stack: list[Any], top: str | None = None) -> str:
        """The arguments of the Point at `index`, as a tuple."""
        return f"({''.join(f'{p}, ' for p in self.state_parts(index, stack, top))})"

    def state_parts(self, index: int, stack: list[Any], top: str | None) -> list[str]:
        text = self.emitter.text
        parts = [self.cells_text()] if self.function.has_cells else []
        parts += [text(v) for v in stack if v is not NULL]
        if top is not None:
            parts.append(top)
        for name in self.function.facts.live_locals(index):
            parts.append(text(self.frame.locals[name]) if name in self.frame.locals else "UNBOUND")
        names = self.function.facts.kept_locals(index)
        if names:
            parts.append(self.kept_text(names))
        return parts

    def kept_text(self, names: tuple[str, ...]) -> str:
        """A list of the locals that nothing reads any more, where they are still what the Point was entered with, or were made.

        What a program computes for a variable that nothing reads is not made, unless others have it. A list that the Point
        has is passed on, so that it holds nothing when the next segment has taken out what is in it.
        """
        held = self.point.layout.kept_names
        before = {n: f"kept[{k}]" for k, n in enumerate(held)}
        found = self.frame.locals
        texts = [self.text_if_made(found[n]) if n in found else before.get(n, "UNBOUND") for n in names]
        if held and texts == [*before.values()]:
            return "kept"
        made = f"[{', '.join(texts)}]"
        return f"{self.emitter.name_constant(refilled)}(kept, {made})" if held else made

    def text_if_made(self, value: Any) -> str:
        """An expression for what there is without making it: what was given, or has a variable."""
        if isinstance(value, Lazy) and isinstance(value.source, Name) and value.source.name in self.point.parameters:
            return value.source.name
        if isinstance(value, Array) and not value.steps and id(value.storage) in self.emitter.storages:
            return self.emitter.text(value)
        return self.emitter.names.get(id(value), "UNBOUND")

    def cells_text(self) -> str:
        code = self.function.code
        if not self.point.is_start:
            return "cells"
        cells = [self.frame.cells[n] for n in (*code.co_cellvars, *code.co_freevars)]
        return f"({''.join(f'{self.emitter.text(c)}, ' for c in cells)})"

    def go(self, index: int, stack: list[Any], top: str | None = None) -> str:
        """A return statement that continues at `index`."""
        nulls = tuple(k for k, v in enumerate(stack) if v is NULL)
        function = self.function
        if not function.is_point(index, function.facts.nulls(index, nulls)):
            return self.run_natively(index, stack, top)
        point = function.point_at(index, nulls, self.capture.place)
        if point is self.point and self.may_repeat():
            return self.go_again(self.state_parts(index, stack, top))
        target = function.name_constant(point, "point_")
        return self.leave(f"({target}, {self.state_text(index, stack, top)})")

    def leave(self, hop: str, segment: str = "") -> str:
        """Statements that go on with a hop, or with what a segment makes of a state.

        The frame here keeps nothing that the user's function has dropped, nor an exception that has the frame in its traceback.
        """
        made = [*self.emitter.storages.values(), *(name for line in self.emitter.lines for name in MADE.findall(line))]
        is_kept = bool(made) and (self.point.is_start or bool(segment))
        left = f"{segment}(*{'hops.pop()' if is_kept else hop})" if segment else "hops.pop()" if is_kept else hop
        going = f"return drive({left})" if self.point.is_start else f"return {left}"
        return f"hops = [{hop}]; {' = '.join(dict.fromkeys(made))} = None; {going}" if is_kept else going

    def may_repeat(self) -> bool:
        """May the variant go on at its own Point without leaving its program?

        Not where a handler of the user's would see variables as they were when the program was entered, nor where what it does
        beside the graph may have changed what guards look at.
        """
        value = self.frame.stack[-1] if self.frame.stack else None
        is_plain = value is None or (isinstance(value, Lazy | Opaque) and type(value.example) is RANGE_ITERATOR)
        is_alone = not (self.capture.effects or self.capture.draws.lines or self.capture.tensors or self.escaped_cells())
        return is_plain and is_alone and not self.point.is_start and not self.point.is_protected and self.capture.place is None

    def go_again(self, parts: list[str]) -> str:
        """Statements that give the parameters their next values; see `repeated`."""
        parameters = self.point.parameters
        assert len(parameters) == len(parts), (parameters, parts)
        others = {name: text for name, text in zip(parameters, parts) if name != text}
        self.is_repeated = True
        self.changed |= others.keys()
        return f"{', '.join(others)} = {', '.join(others.values())}; continue" if others else "continue"

    def run_natively(self, index: int, stack: list[Any], top: str | None = None) -> str:
        """A return statement that runs the user's code from `index` to the next Points."""
        function = self.function
        nulls = tuple(k for k, v in enumerate(stack) if v is NULL)
        layout = Layout(index, len(stack) + (top is not None), nulls, *function.facts.locals_at(index))
        is_on_device = any(isinstance(v, Lazy) and array_kind(type(v.example)) is not None for v in stack)
        segment = function.name_constant(function.segment(layout, self.capture.place, is_on_device), "segment_")
        return self.leave(self.state_text(index, stack, top), segment)

    def run_natively_later(self, index: int, stack: list[Any], error: str = "") -> str:
        """The same, for what seldom happens: the segment is made when it is first needed. It may raise an error at `index`."""
        function = self.function
        nulls = tuple(k for k, v in enumerate(stack) if v is NULL)
        layout = Layout(index, len(stack), nulls, *function.facts.locals_at(index))
        segment = function.name_constant(Later(function, layout, throws=bool(error)), "segment_")
        parts = self.state_parts(index, stack, None)
        parts[function.has_cells : function.has_cells] = [error] * bool(error)
        return self.leave(f"{segment}.run({', '.join(parts)})")

    def may_be_native(self, index: int) -> bool:
        return self.function.may_be_native(index, self.capture.arguments.values())

    def emit(self, outcome: Outcome) -> None:
        lines, text = self.emitter.lines, self.emitter.text
        match outcome:
            case Return(value):
                result = self.result_text(value)
                lines.append(f"return {result}" if self.point.is_start else f"return None, {result}")
            case Stop(index):
                self.compile_callee(index)
                # A loop that no graph can begin may still be a native program.
                is_entered = index != self.point.layout.index and self.may_be_native(index)
                lines.append((self.go if is_entered else self.run_natively)(index, self.frame.stack))
            case Jump(index):
                iterator = None if self.may_be_native(index) else self.loop_iterator(index)
                if iterator is None:
                    lines.append(self.go(index, self.frame.stack))
                else:
                    self.next_item(index, text(iterator))
            case NextItem(index, iterator):
                # A few iterations are better captured, with the loops inside: their statements then share passes over memory.
                may_be_native = index != self.point.layout.index and self.may_be_native(index)
                if may_be_native and not has_few(iterator):
                    lines.append(self.go(index, self.frame.stack))
                else:
                    self.next_item(index, text(iterator))
            case Branch(condition, if_true, if_false, reason):
                test = text(condition.array)
                if self.capture.place is not None:
                    test = f"{self.emitter.name_constant(decided)}({test}, {self.emitter.name_constant(reason.location)})"
                test = f"{'not ' if condition.negated else ''}{test}"
                self.arm(f"if {test}:", *if_true)
                lines.append(self.arm_text(*if_false)[-1])

    def result_text(self, value: Any) -> str:
        """What was made natively on the way goes to the device that arrays came on."""
        place, result = self.capture.place, self.emitter.result_text(value)
        if place is None or not place.gives_arrays or self.point.is_start:
            return result
        return f"{self.emitter.name_constant(leaving)}({result}, {self.emitter.name_constant(place)})"

    def loop_iterator(self, index: int) -> Any | None:
        """The iterator of a `for` loop at `index` when the generated program may ask it for the next item."""
        if self.function.program.instructions[index].traits.flow != "next":
            return None
        value = self.capture.realize(self.frame.stack[-1])
        if isinstance(value, Iterator) and value.kind in ("range", "sequence", "array"):
            return value
        return value if isinstance(value, Opaque) and type(value.example) in PLAIN_ITERATORS else None

    def next_item(self, index: int, iterator: str) -> None:
        lines = self.emitter.lines
        after = self.function.program.instructions[index].target
        value = self.capture.realize(self.frame.stack[-1])
        if isinstance(value, Opaque) and type(value.example) is DICT_ITERATOR and self.function.facts.enterable[index]:
            natively = self.run_natively(index, self.frame.stack)  # what it hands over is made before the try
            lines += ["try:", f"    item = next({iterator}, UNBOUND)", "except RuntimeError:  # a dict has another size now"]
            lines.append(f"    {natively}")
        else:
            lines.append(f"item = next({iterator}, UNBOUND)")
        exhausted = self.go(after, self.frame.stack[:-1])
        following = self.go(index + 1, self.frame.stack, top="item")
        lines += ["if item is UNBOUND:", f"    {exhausted}", following]

    def arm(self, header: str, index: int, stack: list[Any]) -> None:
        body = self.arm_text(index, stack)
        self.emitter.lines += [header, *(f"    {line}" for line in body)]

    def arm_text(self, index: int, stack: list[Any]) -> list[str]:
        return [self.go(index, stack)]

    def compile_callee(self, index: int) -> None:
        """A Python function that could not be inlined is called through its own compiled entry."""
        function = self.function
        if function.program.instructions[index].traits.call == "" or function.compile_callee is None:
            return
        position = self.callee_position(index)
        value = self.frame.stack[position]
        if value is NULL or isinstance(value, Lazy) and not is_user_function(value.example):
            return
        callee = called = self.capture.realize(value)
        if isinstance(callee, Opaque) and callee.source in self.capture.varying:
            compiled_of = self.function.object_of(function).attribute("compiled_of")
            self.frame.stack[position] = Lazy(Call(compiled_of, callee.source), callee.example)
            return
        if isinstance(called, Method) and called.function is not None:
            callee = self.capture.realize(called.function)
        user: Any = self.made_anew(callee) if isinstance(callee, (Closure, Opaque)) else getattr(callee, "value", None)
        if is_user_function(user) and id(user) not in self.capture.anew:
            is_partly_disabled = getattr(user, "__npcompile_disabled__", None) == "itself"
            if index in self.capture.decisions.native_calls or is_partly_disabled:
                if isinstance(callee, Opaque) and user is callee.example:
                    self.capture.guard(Is(callee.source, self.function.object_of(user)))
                compiled = Constant(self.compiled_callee(user))
                bound = Method(called.owner, compiled, called.name) if isinstance(called, Method) else compiled
                self.frame.stack[position] = bound

    def made_anew(self, callee: Closure | Opaque) -> Any:
        """One function for all that are made of the same parts at each call, or the callee where it is no such function."""
        if isinstance(callee, Closure):
            items = callee.defaults.items if callee.defaults is not None else ()
            defaults = tuple(item.value for item in items if isinstance(item, Constant))
            is_alone = callee.kwdefaults is None and not callee.cells and not callee.attributes
            if not is_alone or len(defaults) < len(items) or not are_compared(defaults):
                return None
            return self.function.stand_in(callee.code, callee.globals, defaults)
        user, source = callee.example, callee.source
        stand_in = self.function.stand_in_of(user)
        if stand_in is user:
            return user
        defaults = user.__defaults__ or ()
        self.capture.guard(
            Is(source.attribute("__globals__"), self.function.object_of(user.__globals__))
        )  # its code is guarded already
        for part in ("__dict__", "__kwdefaults__"):
            self.capture.guard(Truth(source.attribute(part), False))
        asked = source.attribute("__defaults__")
        alike = Call(self.function.object_of(are_alike), asked, self.function.object_of(defaults)) if defaults else asked
        self.capture.guard(Truth(alike, bool(defaults)))
        return stand_in

    def callee_position(self, call: int) -> int:
        """Where on the stack stands what the instruction calls."""
        instruction, stack = self.function.program.instructions[call], self.frame.stack
        above = instruction.above_callee
        assert above is not None, instruction
        first = len(stack) - above - 2
        return first if stack[first] is not NULL else first + 1

    def compiled_callee(self, user: types.FunctionType) -> types.FunctionType:
        """The callee compiled as it is now: guarded, as a compiled function has a copy of these parts."""
        function = self.function
        parts = {name: getattr(user, name) for name in ("__code__", "__defaults__", "__kwdefaults__")}
        for name, part in parts.items():
            self.capture.guard(Is(self.function.object_of(user).attribute(name), self.function.object_of(part)))
        return function.compiled(user)


ITERATIONS = 64  # of a loop that one program runs, before all guards are asked again


def repeated(
    lines: Sequence[str], conditions: Sequence[Asked], changed: set[str], parameters: Sequence[str], point: str
) -> list[str]:
    """The lines as the body of a loop: while the guards hold that are about what changes, the program goes on by itself."""
    asked: list[Asked] = []
    names = set(changed)
    for condition in conditions:
        if not names.isdisjoint(condition.names()):
            asked.append(condition)
            names |= {*condition.gives()}
    check = []
    if asked:
        check = [
            "if iteration:",
            "    try:",
            f"        holds = ({' and '.join(map(str, asked))})",
            *(f"    {line}" for line in UNLESS_IT_HOLDS),
            "    if not holds:",
            "        break",
        ]
    again = f"return {point}, ({''.join(f'{p}, ' for p in parameters)})"
    return [f"for iteration in range({ITERATIONS}):", *(f"    {line}" for line in (*check, *lines)), again]


def has_few(iterator: Any) -> bool:
    """Has a range so few items left that a loop over it would be captured whole?"""
    left = iterator.example if isinstance(iterator, Opaque) else None
    return type(left) is RANGE_ITERATOR and operator.length_hint(left) < UNROLL_LIMIT


def refilled(kept: list[Any], values: list[Any]) -> list[Any]:
    kept[:] = values
    return kept


def is_user_function(value: Any) -> bool:
    is_plain = isinstance(value, types.FunctionType) and value.__closure__ is None and value not in BUILTINS
    if is_plain and not all(name.isidentifier() for name in value.__code__.co_varnames):  # of a comprehension
        return False
    is_compiled = plain_function(value) is not value
    return is_plain and not is_compiled and not is_library_code(value.__globals__) and not is_ours(value.__globals__)


def is_ours(namespace: dict[str, Any]) -> bool:
    return str(namespace.get("__name__")).split(".")[0] == "npcompile"
