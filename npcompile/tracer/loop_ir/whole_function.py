"""The variant of a Point, at a function's start or at a loop, that runs what follows as one program of the loop IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from npcompile.backends.loop_ir import target
from npcompile.backends.loop_ir.exits import GIVEN, UNFIT, UNUSUAL, Way
from npcompile.backends.loop_ir.native import Resuming, said_of
from npcompile.backends.registry import IGNORES_UNDERFLOW, _present_state
from npcompile.devices import loop_units
from npcompile.logs import log
from npcompile.tensor_core.guards import Guard, Is
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Poll, Program, Routine
from npcompile.tensor_core.loop_ir.outcome import Entered, Taken, TakenOf
from npcompile.tensor_core.loop_ir.pipeline import Ran
from npcompile.tensor_core.loop_ir.states import ErrorState, Fixed, RangeIterator, Recipe, SequenceIterator, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import Object
from npcompile.tensor_core.source import NONE, Literal, Name, Source, Written
from npcompile.tracer.loop_ir import family
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.arguments import HELD
from npcompile.tracer.loop_ir.asking import guards_of_name, guards_of_type
from npcompile.tracer.loop_ir.beginning import Entry
from npcompile.tracer.loop_ir.front_end import trace
from npcompile.tracer.loop_ir.leaving import unchanged
from npcompile.tracer.loop_ir.resume import live
from npcompile.tracer.loop_ir.sources import Same
from npcompile.tracer.resume import Ending
from npcompile.tracer.values import Lazy
from npcompile.tracer.written_loops import RETURN, LoopCall
from npcompile.tracer.written_loops import Program as WrittenProgram

NOTHING = Object("None")


def whole_function(function: Any, point: Any, state: tuple[Any, ...]) -> WrittenProgram | None:
    """The program of a CompiledFunction from a Point on. None where the loop IR has not all of it, or takes longer."""
    try:
        return WholeFunction.made(function, point, state).written()
    except (Unsupported, target.Unsupported) as reason:
        why = str(reason)
        log("loops", lambda: f"{function.code.co_qualname}: not by the loop IR: {why}")
        return None


@dataclass(slots=True)
class WholeFunction:
    """A program, and the lines that call it and go on after it."""

    ending: Ending
    program: Program
    sources: tuple[Source, ...]  # of its params
    asked: tuple[Guard, ...]  # before it runs, beside these
    names: tuple[Same, ...]
    ran: Sequence[Ran]
    native: Resuming
    name: str  # of its function in the lines

    @classmethod
    def made(cls, function: Any, point: Any, state: Sequence[Any]) -> WholeFunction:
        """Raises Unsupported, of the front end or the backend."""
        unit_of, code = loop_units(function.options.backend), function.code
        if unit_of is None or function.accuracy == "bitwise":
            raise Unsupported("another backend, or NumPy's bits are asked for")
        if code.co_cellvars or point.is_start and len(point.parameters) != code.co_argcount:
            raise Unsupported("variables of functions inside, or other parameters than positional ones")
        if any(type(x) is int and x == -(2**63) for x in state):
            raise Unsupported("the least integer of a word")
        entry = Entry.of(function, point, state)
        traced = trace(function.python, entry.arguments, with_statements=family.STATEMENTS, at=entry.at)
        if any(isinstance(kind, Object) and kind not in (NOTHING, HELD) for kind in traced.program.types):
            raise Unsupported("an argument that is not a number or array")
        ran = family.optimised(traced, function.facts, state if point.is_start else None)
        ending, name = Ending.at(function, point, state), f"loop_{next(function.numbers)}"
        given = [*entry.held, *entry.leaves_of_iterator(function), *entry.variables]
        sources = tuple(source for source, _ in given)
        return cls(ending, traced.program, sources, entry.guards, traced.guards, ran, unit_of(traced.program), name)

    def written(self) -> WrittenProgram:
        point, function = self.ending.point, self.ending.function
        given = [*zip((self.program.types[param.value] for param in self.program.params), self.sources, strict=True)]
        of_names = [*self.asked]
        of_names += [guard for same in self.names for guard in guards_of_name(function, same)]
        of_names += [Is(source, NONE) for kind, source in given if kind == NOTHING]
        of_arguments = [guard for kind, source in given for guard in guards_of_type(function, kind, source)]
        facts = f"facts_{next(function.numbers)}"
        guards, lines = (*of_arguments, *of_names), tuple(self.lines(facts))
        usual = function.name_constant(IGNORES_UNDERFLOW.known, "usual_")
        is_call = point.is_start and self.returns
        call = LoopCall((), (facts, usual, *map(str, self.sources)), lines[1 + len(RETURN) :]) if is_call else None
        native = self.native
        return WrittenProgram(
            guards, tuple(of_names), facts, lines, native.source, native.unit, self.name, said_of(self.ran), call
        )

    # --- the call, and what follows

    def lines(self, facts: str) -> Iterator[str]:
        name, point = self.ending.function.name_constant, self.ending.point
        natively = f"return {point.native_name}({', '.join(point.parameters)})"
        yield from self.call(facts, name(IGNORES_UNDERFLOW.known, "usual_"))
        yield f"if found[0] == {UNUSUAL}:"
        yield from (f"    if not {name(IGNORES_UNDERFLOW.holds)}():", f"        {natively}")
        yield from (f"    {line}" for line in self.call(facts, f"[{name(_present_state)}()]"))
        named = name(point, "point_")
        yield from point.lines_of_exit(named)
        ways = self.native.ways.found
        polled = {op.state for op in walk(self.program.body) if isinstance(op, Poll | Routine)}
        for number, way in enumerate(ways):
            if not way.is_returned:
                yield f"if where == {number}:"
                yield from (f"    {line}" for line in self.leave(way, ""))
        states = {number: state for state, number in self.native.ways.of_state.items()}
        for number, way in enumerate(ways):
            if states.get(number) in polled:
                yield f"if where == {len(ways) + number}:"
                yield from (f"    {line}" for line in self.leave(way, "found[-2]"))
        yield from (f"if where == {UNFIT}:", f"    {natively}")

    def call(self, facts: str, states: str) -> Iterator[str]:
        yield f"found = {self.name}({', '.join([facts, states, *map(str, self.sources)])})"
        if not self.returns:
            return
        if self.ending.point.is_start:
            yield from RETURN
        else:
            yield from ("if type(found) is not list:", "    return None, found")
        yield from (f"if found[0] == {GIVEN}:", f"    {self.returned('found[1]')}")

    @property
    def returns(self) -> bool:
        """Does the native program itself return what the function returns, on some way?"""
        return any(way.is_returned for way in self.native.ways.found)

    def returned(self, text: str) -> str:
        return f"return {'' if self.ending.point.is_start else 'None, '}{text}"

    def leave(self, way: Way, raised: str) -> Iterator[str]:
        """Lines that go on in Python after a way out."""
        handed = {leaf.value: f"found[{k}]" for k, leaf in enumerate(way.leaves, 1)}
        handed |= {param.value: str(source) for param, source in zip(self.program.params, self.sources)}
        if way.point is None:
            yield self.returned(self.text(way.stack[0], handed))
            return
        function, frame = self.ending.function, self.ending.frame
        slots = function.code.co_varnames
        texts = {slots[slot.index]: self.text(slot.recipe, handed) for slot in way.locals}
        frame.locals = {name: Lazy(Name(given), None) for name, given in self.held().items()}
        frame.locals |= {name: Lazy(Written(text), None) for name, text in texts.items()}
        frame.stack = [Lazy(Written(self.text(recipe, handed)), None) for recipe in way.stack]
        headers = function.facts.loop_headers if self.ending.point.is_start else (self.ending.point.layout.index,)
        ends = family.ends(self.program, function.facts, headers)
        if not raised and any(way.point == each.point for each in ends):
            yield self.ending.go(way.point, frame.stack)
        else:
            yield self.ending.run_natively_later(way.point, frame.stack, raised)

    def held(self) -> dict[str, str]:
        """Parameters that stay what they are: the user's frame has them to its end."""
        given = unchanged(self.ending.function.facts)
        return {n: at for n, at in zip(self.ending.point.layout.local_names, self.ending.point.local_parameters) if n in given}

    def text(self, recipe: Recipe, handed: dict[int, str]) -> str:
        """The Python expression for what a recipe makes."""
        name = self.ending.function.name_constant
        match recipe:
            case Use(value):
                return handed[value]
            case Tagged(tag, value):
                return f"({name(float)}({handed[value]}) if {handed[tag]} else {handed[value]})"
            case Fixed(value):
                return str(Literal(value))
            case TupleOf(items):
                return f"({''.join(f'{self.text(item, handed)}, ' for item in items)})"
            case RangeIterator(start, step, length, taken):
                return f"{name(live)}({name(Taken)}({handed[start]}, {step}, {handed[length]}, {handed[taken]}))"
            case SequenceIterator(sequence, taken):
                return f"{name(live)}({name(TakenOf)}({self.text(sequence, handed)}, {handed[taken]}))"
            case ErrorState():
                return f"{name(live)}({name(Entered(recipe))})"
