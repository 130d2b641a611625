"""A run for given sizes and layouts, with all that they decide: what is allocated and launched, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.cuda.runtime.graphs import CAPTURING, check, write_last
from npcompile.backends.cuda.runtime.interface import Device, Runner
from npcompile.backends.cuda.runtime.launch import Run, Step, make_run
from npcompile.backends.cuda.runtime.listing import LISTING, Lister, Reference, Scalar, Unlisted, listing, planned

MOST_RECIPES = 64  # sizes remembered for one program


@dataclass(frozen=True, slots=True)
class Phase:
    run: Run
    steps: list[Step]
    is_checked: bool  # is the error flag read after it?

    @classmethod
    def of(cls, steps: list[Step], is_checked: bool = False) -> Phase:
        return cls(make_run(steps), steps, is_checked)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Launches take their arguments from one list of values: addresses of the inputs, 0-D inputs given by value, addresses
    of the outputs, of the arena and of the error flag, the handle of cuBLAS."""

    scalars: list[tuple[int, str]]  # inputs by value, or the "r" or "i" part of one
    outputs: list[Callable[[], Any]]
    arena: Callable[[], Any] | None  # every temporary
    phases: list[Phase]
    writes: bool = False  # does the last phase write to inputs?
    uses_blas: bool = False

    def run(self, device: Device, inputs: Sequence[Any], addresses: Sequence[int | None]) -> list[Any]:
        """Launch every kernel on the current stream. Raises BadIndex before anything is written."""
        outputs = [make() for make in self.outputs]
        values: list[Any] = [*addresses]
        if self.scalars:
            values += [part_of(inputs[k], part) for k, part in self.scalars]
        values += device.addresses(outputs)
        held = []  # until all is launched: from then on the order of the stream protects it
        if self.arena is not None:
            held.append(self.arena())
        if self.phases and self.phases[0].is_checked:
            held.append(device.zeros(1, np.dtype(np.int32)))
        values += device.addresses(held)
        if self.uses_blas:
            values.append(device.blas_handle())
        lister = LISTING.lister
        if lister is not None:
            self.note_memory(lister, outputs, held)
        for number, phase in enumerate(self.phases):
            if number and self.writes:
                write_last(lambda run=phase.run, held=held: run(values))  # type: ignore[misc]
            else:
                phase.run(values)
            if lister is not None:
                self.note(lister, phase, inputs, values)
            if phase.is_checked:
                check(device, held[-1])
        return outputs

    def note_memory(self, lister: Lister, outputs: Sequence[Any], held: Sequence[Any]) -> None:
        if self.phases and self.phases[0].is_checked:
            *held, flag = held
            lister.flag(flag)
        if self.writes:  # a piece that writes by itself: not known when
            lister.refuse()
        lister.take([*outputs, *held])

    def note(self, lister: Lister, phase: Phase, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """What this phase did, in a program that is being listed."""
        first = len(inputs)
        scalars = range(first, first + len(self.scalars))

        def references(step: Step) -> Iterator[Reference]:
            for a in step.arguments:
                if a.index is None:
                    yield a.number
                elif a.index in scalars:
                    k, part = self.scalars[a.index - first]
                    yield Scalar(lister.source_of(inputs[k]), part)
                else:
                    yield lister.place(values[a.index] + a.number)

        for step in phase.steps:
            lister.add(step.launcher, step.grid, references(step))


def part_of(value: Any, part: str) -> Any:
    """The Python number of a 0-D input: all of it, or its real or imaginary part."""
    number = value.item()
    return number.real if part == "r" else number.imag if part == "i" else number


def listed(lister: Lister, outputs: Sequence[Any]) -> Recipe | None:
    """What gives these results of the run that was noted again; None where no list can."""
    try:
        plan = planned(lister, outputs)
    except Unlisted:
        return None
    if plan.is_checked:
        phases = [Phase.of(plan.steps[: plan.written_from], is_checked=True)]
        phases += [Phase.of(plan.steps[plan.written_from :])] if plan.written_from < len(plan.steps) else []
    else:
        phases = [Phase.of(plan.steps)]
    return Recipe(plan.scalars, plan.outputs, plan.arena, phases, writes=plan.is_checked, uses_blas=plan.uses_blas)


def key_of_call(inputs: Sequence[Any], addresses: Sequence[int | None], symbols: Sequence[int]) -> tuple:
    """All that a recipe depends on."""
    return (tuple(symbols), tuple([x.strides for x in inputs]), tuple([a if a is None else not a & 15 for a in addresses]))


@dataclass(slots=True, eq=False)
class ListedProgram:
    """A program of several pieces, whose steps are noted at its second run with given sizes: the first one compiles them."""

    runner: Runner
    recipes: dict[tuple, Recipe | None] = field(default_factory=dict)  # None: not yet
    refused: bool = False

    def run(self, device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        if self.refused or CAPTURING.flags is not None:
            return self.runner(device, inputs, symbols)
        addresses = device.addresses(inputs)
        key = key_of_call(inputs, addresses, symbols)
        recipe = self.recipes.get(key)
        if recipe is not None:
            return recipe.run(device, inputs, addresses)
        if key not in self.recipes:
            if len(self.recipes) >= MOST_RECIPES:
                self.recipes.clear()
            self.recipes[key] = None
            return self.runner(device, inputs, symbols)
        with listing(device, inputs) as lister:
            results = self.runner(device, inputs, symbols)
        self.recipes[key] = listed(lister, results)
        self.refused = self.recipes[key] is None
        return results
