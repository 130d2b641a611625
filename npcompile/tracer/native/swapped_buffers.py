"""Arrays whose names a loop exchanges (`a, b = b, a`), as arrays with elements in the loops inside that do not set these names.

There their places and sizes stay as they are, so that strips and chunks of iterations may read and write their elements. Behind
such a loop they are what the variables of the program hold again. Two names may have one array: that is asked where it matters.
"""

from __future__ import annotations

from typing import Any, Protocol

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.elements import C_OF_KIND, ArrayInput
from npcompile.backends.cpu.loops.scalar_loops import ScalarLoops
from npcompile.tensor_core.source import Name
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.bytecode.decode import Program
from npcompile.tracer.native import arrays
from npcompile.tracer.native.states import names_set, over_items
from npcompile.tracer.native.types import Elements


class Lender(Protocol):
    """The program that the loops are part of."""

    program: Program
    facts: CodeFacts
    code: ScalarLoops
    loops: dict[int, frozenset[int]]
    lent: dict[str, int]


def returned(b: Lender, variables: dict[str, Any], index: int) -> dict[str, Any]:
    """The variables as they are at an instruction: outside of the loop that it was lent to, an array is memory."""

    def outside(value: Any) -> Any:
        header = b.lent.get(str(value.source)) if isinstance(value, Elements) else None
        return value if header is None or index in b.loops[header] else arrays.part_of(value)

    change = over_items(outside)
    return {name: change(value) for name, value in variables.items()}


def lend(b: Lender, variables: dict[str, Any], index: int) -> tuple[dict[str, Any], list[str]]:
    """The variables as the loop at `index` has them, and lines to write in front of it."""
    if index not in b.loops or not any(isinstance(value, Part) for value in variables.values()):
        return variables, []
    instructions = [b.program.instructions[k] for k in b.loops[index]]
    accesses = [a for k in b.loops[index] for a in b.facts.effects[k].accesses]
    stored = {name for i in instructions for name in names_set(i)}
    named = {b.facts.slots[a.slot] for a in accesses if a.kind == "read"}
    made, lines = {}, []
    for name, value in variables.items():
        if name in named - stored and isinstance(value, Part) and may_be_lent(value, f"L{b.facts.slots.index(name)}_o"):
            array = lent_array(b, value, index)
            made[name] = Elements(array, Name(array.name))
            lines += array.set(value.data, value.sizes, value.strides)
    return variables | made, lines


def may_be_lent(part: Part, root: str) -> bool:
    """Is it a whole array that the variable of the program holds?"""
    is_whole = part.is_own and part.is_whole and part.is_dense and part.ndim > 0
    return is_whole and part.root == root and part.dtype.str[1:] in C_OF_KIND


def lent_array(b: Lender, part: Part, index: int) -> ArrayInput:
    """The same each time the loop begins."""
    kind = part.dtype.str[1:]
    for array in b.code.arrays:
        if array.made == part.root and b.lent.get(array.name) == index and (array.kind, array.ndim) == (kind, part.ndim):
            return array
    array = b.code.array(part.dtype, part.ndim, True, part.root)
    array.is_lent = True
    b.code.constants.difference_update(array.texts)  # another array each time
    b.lent[array.name] = index
    return array
