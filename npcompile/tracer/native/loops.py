"""The variant of a Point, at a loop's header or at the function's start, that runs a native program from there on."""

from __future__ import annotations

import re
import types
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.loops.extents import COUNTED, SMALL, bounds_of
from npcompile.backends.cpu.loops.loop_unit import source as unit_source
from npcompile.backends.cpu.loops.scalar_loops import NoForm
from npcompile.backends.loop_ir.exits import GIVEN, UNFIT, UNUSUAL
from npcompile.backends.native_profiling import profiled
from npcompile.backends.registry import IGNORES_UNDERFLOW, _present_state, may_not_return
from npcompile.tensor_core.guards import All, Equals, Guard, HasKey, Is, Length, OfType, compared, within
from npcompile.tensor_core.source import NONE, UNBOUND, Assigned, Bound, Call, Formula, Literal, Name, Source, Written
from npcompile.tracer.beginning import real_cells
from npcompile.tracer.loop_ir.beginning import is_made_for
from npcompile.tracer.native import arrays, outside
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.loop_versions import write_strip
from npcompile.tracer.native.meanings import MOST_COUNTED
from npcompile.tracer.native.parallel import write_parallel
from npcompile.tracer.native.states import Exit, State, is_attribute, shared_tuples
from npcompile.tracer.native.types import (
    CellOf,
    Elements,
    Items,
    Known,
    Null,
    NumberList,
    Outside,
    Scalar,
    Span,
    Steps,
    Tied,
    Together,
    Walk,
)
from npcompile.tracer.point import Point
from npcompile.tracer.rebuilding import advance_range, advance_walk, rest_of_range, walked_array
from npcompile.tracer.resume import Ending
from npcompile.tracer.values import NULL, Cell, Lazy
from npcompile.tracer.written_loops import RETURN, LoopCall, NotNative, Program, TooLarge

SIZE = re.compile(r"\b(a\d+)_n(\d+)\b")  # of an axis of an array that is given
RANGE_ITERATOR: type = type(iter(range(0)))
ARRAY_ITERATOR: type = type(iter(np.zeros(0)))


def array_size(a: ArrayInput) -> str:
    return " * ".join(f"{a.name}_n{axis}" for axis in range(a.ndim))


class NativeLoop:
    """One attempt at a native program for the loop at a Point, or for the function that begins there."""

    def __init__(self, ending: Ending, state: tuple[Any, ...]):
        self.ending, self.function, self.point = ending, ending.function, ending.point
        self.lines: list[str] = []
        self.guards: dict[Guard, None] = {}
        self.conditions: list[Guard] = []
        layout = self.point.layout
        self.blocks = Blocks(
            self.function.program,
            self.function.facts,
            self.function.python.__globals__,
            layout.index,
            self.guard,
            self.function.object_of,
            self.point.is_start,
            write_strip=write_strip,
            write_parallel=write_parallel,
        )
        self.values = dict(zip(self.point.parameters, state))
        self.blocks.own_cells = frozenset(self.function.code.co_cellvars if self.point.is_start else ())
        self.blocks.cells = {n: CellOf(*found) for n, found in real_cells(self.function, self.point, self.values).items()}
        self.blocks.code.is_bitwise = self.function.accuracy == "bitwise"
        self.blocks.code.are_small = not self.has_large_arrays()

    @classmethod
    def at(cls, function: Any, point: Point, state: tuple[Any, ...]) -> NativeLoop:
        """Of a CompiledFunction at a Point."""
        return cls(Ending.at(function, point, state), state)

    def guard(self, guard: Guard, checked: bool = False) -> None:
        if guard in self.guards:
            return
        self.guards[guard] = None
        if not checked:
            self.conditions.append(guard)

    # --- the beginning

    def state(self) -> State:
        layout, values = self.point.layout, self.values
        stack: list[Any] = []
        for k in range(layout.depth):
            stack.append(Null() if k in layout.null_slots else Outside(Name(f"stack_{k}"), values[f"stack_{k}"]))
        if self.function.program.instructions[layout.index].traits.flow == "next":
            stack[-1] = self.iterator(Name(f"stack_{layout.depth - 1}"), values[f"stack_{layout.depth - 1}"])
        variables: dict[str, Any] = {}
        for name, parameter in zip(layout.local_names, self.point.local_parameters):
            value = values[parameter]
            if name not in self.function.facts.bound[layout.index]:
                is_bound = value is not self.function.namespace["UNBOUND"]
                self.guard(Is(Name(parameter), UNBOUND, not is_bound))
                if not is_bound:
                    continue
            variables[name] = Outside(Name(parameter), value)
        return State(stack, variables)

    def iterator(self, source: Source, example: Any) -> Any:
        code, of, given = self.blocks.code, self.blocks.object_of, Bound(f"rest_{source}")
        self.guard(OfType(source, of(type(example))))
        if type(example) is RANGE_ITERATOR:
            rest = rest_of_range(example)
            limit = 2**62
            if abs(rest.step) >= limit:
                raise NotNative("a range with such a step")
            is_constant = abs(rest.step) < 2**31 and not self.is_step_computed()
            step = Assigned(given.name, Call(of(rest_of_range), source)).attribute("step")
            self.guard(Equals(step, Literal(rest.step)) if is_constant else HasKey(of(range(1 - limit, limit)), step))
            ends, low, high = map(given.attribute, ("start", "stop")), Literal(-limit), Literal(limit)
            self.guard(All(tuple(within(low, end, high, ("<", "<")) for end in ends)))
            steps = Steps(f"given_{source}", rest.step if is_constant else None, str(source))
            if not self.is_made_here(range):
                self.blocks.given.append(steps)
            for variable, part in ((steps.next, "start"), (steps.stop, "stop"), (steps.by, "step"))[: 2 if is_constant else 3]:
                self.blocks.inputs.append(given.attribute(part))
                code.set(code.variable(variable, "int"), code.number("int"))
            return steps
        if type(example) is ARRAY_ITERATOR:
            array, _ = walked_array(example)
            if type(array) is not np.ndarray:
                raise NotNative("a loop over something else")
            self.guard(Is(Assigned(given.name, Call(of(walked_array), source)).item(0), NONE, False))
            elements = outside.wrapped(self.blocks, given.item(0), array)
            walk = Walk(f"given_{source}", elements, str(source))
            self.blocks.given.append(walk)
            self.blocks.inputs.append(given.item(1))
            code.set(code.variable(walk.next, "int"), code.number("int"))
            return walk
        if type(example) in (enumerate, zip) and self.is_made_here(type(example)):
            return self.together(source, example)
        raise NotNative("a loop over something else")

    def is_made_here(self, function: type) -> bool:
        """Is the iterator what a call of the function in front of the loop gives, so that nobody else has it?"""
        if not is_made_for(self.function.facts, self.point.layout.index, function.__name__):
            return False
        made: Any = outside.global_value(self.blocks, function.__name__)
        return isinstance(made, Known) and made.value is function

    def is_step_computed(self) -> bool:
        """Is the loop over range() with a third argument that is no constant?"""
        header = self.point.layout.index
        before = self.function.program.instructions[max(header - 3, 0) : header]
        is_called = len(before) == 3 and before[1].traits.call == "positional" and before[2].traits.stack == "iterator"
        return is_called and before[1].arg == 3 and not before[0].traits.is_constant

    def together(self, source: Source, example: Any) -> Together:
        """Of enumerate and zip: a new one is handed over, that goes on where the loop was left."""
        _, parts = example.__reduce__()[:2]
        held = Bound(f"of_{source}")
        self.guard(Is(Assigned(held.name, Call(source.attribute("__reduce__")).item(1)), NONE, False))
        if isinstance(example, enumerate):
            inner, count = parts
            if not 0 <= count < 2**61:
                raise NotNative("enumerate() from such a number")
            self.guard(within(Literal(0), held.item(1), Literal(2**61), ("<=", "<")))
            counter = Steps(f"count_{source}", 1)
            for variable, given in ((counter.next, held.item(1)), (counter.stop, Literal(MOST_COUNTED))):
                self.blocks.inputs.append(given)
                self.blocks.code.set(self.blocks.code.variable(variable, "int"), self.blocks.code.number("int"))
            return Together(Known(enumerate), (counter, self.part_of(source, held, 0, inner)))
        self.guard(Length(held, "==", len(parts)))
        return Together(Known(zip), tuple(self.part_of(source, held, k, part) for k, part in enumerate(parts)))

    def part_of(self, source: Source, held: Source, k: int, example: Any) -> Any:
        """The k-th iterator that enumerate or zip goes through."""
        part = Bound(f"of_{k}_{source}")
        self.guard(Is(Assigned(part.name, held.item(k)), NONE, False))
        return self.iterator(part, example)

    # --- the end

    def text(self, value: Any, numbers: dict[Any, str]) -> Any:
        """The Python expression for a value that the program hands over; NULL stays."""
        name = self.function.name_constant

        def item(variable: str) -> str:
            return numbers[Scalar("int", variable)]

        match value:
            case Null():
                return NULL
            case Elements(array) if array.made:
                return numbers[arrays.part_of(value)]
            case Outside(source) | Elements(_, source) | Known(_, source):
                return str(source)
            case Part() | Scalar() | NumberList():
                return numbers[value]
            case Items() if id(value) in numbers:
                return numbers[id(value)]
            case Items(items):
                return f"({''.join(f'{self.text(item, numbers)}, ' for item in items)})"
            case Span(start, stop, step):
                return f"{name(range)}({', '.join(self.text(part, numbers) for part in (start, stop, step))})"
            case Together(Known(function), parts) | Tied(Known(function), parts) if function is enumerate:
                count = value.parts[0].next if isinstance(value, Together) else value.items[0].start.text
                return f"{name(enumerate)}({self.text(parts[1], numbers)}, {numbers[Scalar('int', count)]})"
            case Tied(Known(function), (part,)) if function is reversed:
                return f"{name(reversed)}({self.text(part, numbers)})"
            case Together(_, parts) | Tied(_, parts):
                return f"{name(zip)}({', '.join(self.text(part, numbers) for part in parts)})"
            case Steps(given=None):
                by = item(value.by) if value.step is None else value.by
                return f"{name(iter)}({name(range)}({item(value.next)}, {item(value.stop)}, {by}))"
            case Steps(given=source):
                return f"{name(advance_range)}({source}, rest_{source}, {item(value.next)})"
            case Walk(given=None):
                return f"{name(advance_walk)}({name(iter)}({self.text(value.elements, numbers)}), {item(value.next)})"
            case Walk(given=source):
                return f"{name(advance_walk)}({source}, {item(value.next)})"
        raise AssertionError(value)

    def leave(self, exit: Exit) -> list[str]:
        """Lines that go on in Python after an exit."""
        numbers: dict[Any, str] = {value: f"found[{k}]" for k, value in enumerate(exit.values, 1)}
        attributes = {n: self.text(v, numbers) for n, v in exit.state.locals.items() if is_attribute(n)}
        lines = [f"{self.blocks.attributes.places[n]} = {text}" for n, text in attributes.items()]
        lines += [self.text(iterator, numbers) for iterator in exit.given]
        for k, value in enumerate(shared_tuples(exit.state)):
            lines.append(f"tuple{k} = {self.text(value, numbers)}")
            numbers[id(value)] = f"tuple{k}"
        stack = [self.text(v, numbers) for v in exit.state.stack]
        frame = self.ending.frame
        held = {n: v for n, v in exit.state.locals.items() if n not in attributes}
        frame.locals = {n: Lazy(Written(self.text(v, numbers)), None) for n, v in held.items()}
        cell = self.function.name_constant(types.CellType)
        for n in self.blocks.own_cells:
            content = frame.locals.pop(n, None)
            frame.cells[n] = Cell(content, Written(f"{cell}({content.source if content is not None else ''})"))
        frame.stack = [v if v is NULL else Lazy(Written(v), None) for v in stack]
        if exit.is_end:
            return [*lines, self.ending.go(exit.index, frame.stack)]
        return [*lines, self.ending.run_natively_later(exit.index, frame.stack, "found[-2]" if exit.throws else "")]

    @property
    def small(self) -> int:
        """Elements of arrays that are small."""
        return COUNTED if self.blocks.loops and "bincount" in self.function.code.co_names else SMALL

    def has_large_arrays(self) -> bool:
        return any(x.size > self.small for x in self.values.values() if type(x) is np.ndarray)

    def require_small_arrays(self, short_loops: frozenset[int]) -> None:
        """A loop of several statements about the same large arrays in each iteration is a graph that is run repeatedly.

        So are the few iterations of a short loop, which are one statement after another.
        """
        blocks = self.blocks
        made, code = blocks.code.statements, blocks.code
        instructions = made.instructions if made is not None else set()
        loops = [loop for loop, i in instructions if loop >= 0 and i not in code.by_blocks]
        repeated = {loop for loop in loops if loop in short_loops or (loops.count(loop) > 1 and loop not in code.indexed)}
        if not code.asks_small and not repeated:
            return
        bounds: dict[str, int] | None = {array_size(a): self.small for a in code.given_arrays}
        if self.has_large_arrays():
            bounds = bounds_of(made.extents, {*repeated, -1}, code.examples, self.small) if made is not None else None
        if bounds is None:
            raise TooLarge("whole arrays that are large")
        code.bounds = bounds
        sources = {a.name: source for a, source in zip(code.given_arrays, blocks.arrays, strict=True)}
        for size, most in bounds.items():
            axes = [sources[array].attribute("shape").item(int(axis)) for array, axis in SIZE.findall(size)]
            self.guard(compared(Formula(SIZE.sub("{}", size), *axes), "<=", Literal(most)), True)

    def forget(self) -> None:
        """Let go of the values of this call: the parts refer to each other."""
        del self.blocks.guard, self.blocks.code.failing

    def write(self, short_loops: frozenset[int]) -> Program:
        """`short_loops`: headers of those that have few iterations. Raises NotNative."""
        blocks = self.blocks
        try:
            blocks.write(self.state())
            self.require_small_arrays(short_loops)
            blocks.code.wraps_results = sets_attributes = bool(blocks.attributes.places)
            source = profiled(unit_source(blocks.code), self.function.code.co_name, "npc_run")
        except NoForm as reason:
            raise NotNative(str(reason)) from None
        name = self.function.name_constant
        native = f"{self.point.native_name}({', '.join(self.point.parameters)})"
        made, arguments = blocks.code.statements, [*map(str, (*blocks.arrays, *blocks.inputs, *blocks.objects))]
        # Underflow is the one error that the program does not notice.
        known, ignores = name(IGNORES_UNDERFLOW.known, "usual_"), name(IGNORES_UNDERFLOW.holds)
        number = next(self.function.numbers)
        loop, facts = f"loop_{number}", f"facts_{number}"

        def lines_of_call(states: str) -> list[str]:
            given = ", ".join([facts, states, *arguments])
            if sets_attributes:
                # CPython looks for signals after each call, but not where an iterator is unpacked: no handler may raise
                # before the attributes are set.
                lines = [f"[found] = {name(starmap)}({loop}, (({given}),))"]
            else:
                lines = [f"found = {loop}({given})", *RETURN * blocks.returns]
            may_be_given = blocks.returns_list or sets_attributes and blocks.returns
            return lines + [f"if found[0] == {GIVEN}:", "    return found[1]"] * may_be_given

        asked = [f"not {name(may_not_return)}()"] * (made is not None and made.writes_before_it_knows)
        before = [line for each in asked for line in (f"if not ({each}):", f"    return {native}")]
        lines = [*lines_of_call(known), f"if found[0] == {UNUSUAL}:", f"    if not {ignores}():", f"        return {native}"]
        lines += [f"    {line}" for line in lines_of_call(f"[{name(_present_state)}()]")]
        point = name(self.point, "point_")
        lines += self.point.lines_of_exit(point)
        for k, exit in sorted(enumerate(blocks.exits), key=lambda each: not each[1].is_end):
            lines += [f"if where == {k}:", *(f"    {line}" for line in self.leave(exit))]
        # Memory that no element can be read from where it is, or not be written to. Else it is nothing for this program.
        lines += [f"if where == {UNFIT}:", f"    return {native}"]
        call = None
        if blocks.returns and not sets_attributes:
            call = LoopCall(tuple(asked), (facts, known, *arguments), tuple(lines[1 + len(RETURN) :]))
        return Program(
            tuple(self.guards),
            tuple(self.conditions),
            facts,
            (*before, *lines),
            source,
            partial(load, source, blocks.code.dtypes),
            loop,
            blocks.code.passes.all(),
            call,
        )
