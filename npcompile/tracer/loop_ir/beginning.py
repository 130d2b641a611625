"""Where a program begins: at the start of a function, or at a loop, with what Python's frame has there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from npcompile.tensor_core.guards import Equals, Guard, Is, OfType
from npcompile.tensor_core.source import UNBOUND, Assigned, Bound, Call, Literal, Name, Source
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.asking import guards_of_name
from npcompile.tracer.loop_ir.front_end import Beginning
from npcompile.tracer.loop_ir.iteration import RANGE_ITERATOR
from npcompile.tracer.loop_ir.sources import GlobalName, Same
from npcompile.tracer.point import Point
from npcompile.tracer.rebuilding import rest_of_range


@dataclass(frozen=True, slots=True)
class Entry:
    """What a Point's state is for a program that begins there."""

    at: Beginning | None  # None: at the start of the function
    held: list[tuple[Source, object]]  # on the stack below the loop's iterator
    iterator: object  # of the loop: None where it has none
    variables: list[tuple[Source, object]]
    guards: tuple[Guard, ...] = ()

    @classmethod
    def of(cls, function: Compiled[Point], point: Point, state: Sequence[Any]) -> Entry:
        """Raises Unsupported."""
        if point.is_start:
            return cls(None, [], None, [*zip(map(Name, point.parameters), state)])
        return cls.header(function, point, state)

    @classmethod
    def header(cls, function: Compiled[Point], point: Point, state: Sequence[Any]) -> Entry:
        """At a loop of the function. Raises Unsupported."""
        layout, values = point.layout, dict(zip(point.parameters, state))
        if function.has_cells or layout.null_slots:
            raise Unsupported("a loop in a function with variables of functions inside, or in a call")
        asked: list[Guard] = []
        variables, names = [], []
        for name, parameter in zip(layout.local_names, point.local_parameters):
            is_bound = values[parameter] is not function.namespace["UNBOUND"]
            if name not in function.facts.bound[layout.index]:
                asked.append(Is(Name(parameter), UNBOUND, not is_bound))
            if is_bound:
                variables.append((Name(parameter), values[parameter]))
                names.append(name)
        iterates = function.facts.instructions[layout.index].traits.flow == "next"
        iterator, held = values[f"stack_{layout.depth - 1}"] if iterates else None, layout.depth - iterates
        if iterates:
            asked += asked_of_range(function, layout.index, Name(f"stack_{held}"), iterator)
        stack: list[tuple[Source, object]] = [(Name(f"stack_{k}"), values[f"stack_{k}"]) for k in range(held)]
        return cls(Beginning(layout.index, held, iterates, tuple(names)), stack, iterator, [*variables], tuple(asked))

    @property
    def arguments(self) -> list[object]:
        """What `trace` is given beside `at`."""
        has_iterator = self.at is not None and self.at.has_iterator
        return [*[self.iterator] * has_iterator, *(x for _, x in self.variables)]

    def leaves_of_iterator(self, function: Compiled[Point]) -> Iterator[tuple[Source, object]]:
        """Where it goes on, and how many items it has left."""
        if self.at is not None and self.at.has_iterator:
            rest, example = rest_of(self.at.held), rest_of_range(self.iterator)
            yield rest.attribute("start"), example.start
            yield Call(function.object_of(len), rest), len(example)


def rest_of(held: int) -> Bound:
    return Bound(f"rest_stack_{held}")


def asked_of_range(function: Compiled[Point], header: int, source: Name, iterator: object) -> Iterator[Guard]:
    """That it is an iterator of a range with this step. Raises Unsupported where it may be another one, or others may have it."""
    if type(iterator) is not RANGE_ITERATOR:
        raise Unsupported("a loop over something else than a range")
    if not is_made_for(function.facts, header, "range"):
        raise Unsupported("an iterator that others may have")
    yield from guards_of_name(function, Same(GlobalName(function.python.__globals__, "range"), range))
    yield OfType(source, function.object_of(RANGE_ITERATOR))
    rest = Assigned(f"rest_{source}", Call(function.object_of(rest_of_range), source))
    yield Equals(rest.attribute("step"), Literal(rest_of_range(iterator).step))


def is_made_for(facts: CodeFacts, header: int, name: str) -> bool:
    """Is the loop's iterator what a call of the global in front of it gives, so that nobody else has it?"""
    begins = [k for k in range(header) if facts.depth[k] == (facts.depth[header] or 0) - 1]
    first = facts.instructions[begins[-1]] if begins else None
    return first is not None and first.traits.reads("global") and first.argval == name
