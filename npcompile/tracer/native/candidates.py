"""What the code of a loop of few iterations tells before it is captured: `profitability` decides by it whether it is compiled."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from npcompile.backends.device_arrays import array_kind
from npcompile.tensor_core.array import Array
from npcompile.tracer.bytecode.analysis import CodeFacts, loop_region
from npcompile.tracer.bytecode.decode import Instruction, Program
from npcompile.tracer.native.blocks import meaning_of
from npcompile.tracer.native.meanings import FUNCTIONS, is_known
from npcompile.tracer.native.states import names_read
from npcompile.tracer.native.types import kind_of_number
from npcompile.tracer.profitability import is_better_compiled
from npcompile.tracer.values import Lazy

PROPERTIES = ("shape", "size", "ndim")


def is_over_elements(program: Program, facts: CodeFacts, header: int, known: Mapping[str, Any], space: Mapping[str, Any]) -> bool:
    """Are there loops inside that read or write single elements of arrays, and nothing that a native loop has no form for?"""
    region = sorted(loop_region(facts, header))
    instructions = [program.instructions[k] for k in region]
    read = {n for i in instructions for n in names_read(i)}
    ranks = {rank for n in read if (rank := rank_of(known.get(n))) is not None}
    subscripts = [k for k, i in zip(region, instructions) if i.traits.reads("element") or i.traits.writes("element")]
    are_elements = [index_length(program.instructions[k - 1]) in ranks for k in subscripts]
    inside = sum(k in facts.loop_headers for k in region if k != header)
    return is_better_compiled(inside, are_elements, all(has_form(i, space) for i in instructions))


def rank_of(value: Any) -> int | None:
    example = value.example if isinstance(value, Lazy) else value
    is_array = isinstance(example, Array | np.ndarray) or array_kind(type(example)) is not None
    return example.ndim if is_array else None  # type: ignore[union-attr]


def index_length(i: Instruction) -> int:
    """How many integers an index has, by the instruction before the subscript."""
    return i.arg if i.traits.builds is tuple else 1


def has_form(i: Instruction, space: Mapping[str, Any]) -> bool:
    if i.traits.reads("global"):
        value = space.get(i.argval, getattr(builtins, i.argval, None))
        return value is np or value is math or is_known(value, FUNCTIONS) or kind_of_number(value) is not None
    if i.traits.reads("attribute"):
        found = [getattr(module, i.argval, None) for module in (np, math)]
        return i.argval in PROPERTIES or any(is_known(f, FUNCTIONS) for f in found if f is not None)
    return meaning_of(i) is not None and i.traits.place != "slice" and i.traits.builds is not slice
