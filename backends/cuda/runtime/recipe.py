"""A run for given sizes and layouts, with all that they decide: what is allocated and launched, in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.cuda.runtime.graphs import LISTING, check, write_last
from npcompile.backends.cuda.runtime.interface import Device
from npcompile.backends.cuda.runtime.launch import Run, Step, make_run

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
            lister.add_memory(self, outputs, held)
        for number, phase in enumerate(self.phases):
            if number and self.writes:
                write_last(lambda run=phase.run, held=held: run(values))  # type: ignore[misc]
            else:
                phase.run(values)
            if lister is not None:
                lister.add_phase(self, phase, inputs, values)
            if phase.is_checked:
                check(device, held[-1])
        return outputs


def part_of(value: Any, part: str) -> Any:
    """The Python number of a 0-D input: all of it, or its real or imaginary part."""
    number = value.item()
    return number.real if part == "r" else number.imag if part == "i" else number


def key_of_call(inputs: Sequence[Any], addresses: Sequence[int | None], symbols: Sequence[int]) -> tuple:
    """All that a recipe depends on."""
    return (tuple(symbols), tuple([x.strides for x in inputs]), tuple([a if a is None else not a & 15 for a in addresses]))
