"""What is printed of an exported program as C: its names, its types, and those of its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from npcompile.backends.loop_ir.libm import BUILT_IN, OF_ONE, OF_TWO
from npcompile.backends.loop_ir.target import Unsupported
from npcompile.tensor_core.loop_ir.causes import Cause
from npcompile.tensor_core.loop_ir.forms import all_regions
from npcompile.tensor_core.loop_ir.ops import Poll, Program
from npcompile.tensor_core.loop_ir.pipeline import SCALAR_PASSES, run_passes
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, TupleOf
from npcompile.tensor_core.loop_ir.types import DTYPES, NUMPYS, Kind, Memref, Scalar, Type, kind_in_words

PUBLIC: Final = {
    **{kind: f"{'u' * (dtype.kind == 'u')}int{8 * dtype.itemsize}_t" for kind, dtype in DTYPES.items() if dtype.kind in "iu"},
    Kind.B1: "bool",
    Kind.BOOL: "bool",
    Kind.INT: "int64_t",
    Kind.FLOAT: "double",
    Kind.F64: "double",
    Kind.F32: "float",
}
WORDS: Final = """
auto bool break case char const continue default do double else enum extern float for goto if inline int register restrict return
short signed sizeof static struct switch typedef union unsigned void volatile while int8_t int16_t int32_t int64_t long uint8_t
uint16_t uint32_t uint64_t class delete namespace new operator private protected public template this throw try typename virtual
true false
"""
KEYWORDS: Final = frozenset(WORDS.split())  # of C and C++
LIBRARY: Final = frozenset(("main", "malloc", "calloc", "free", "abs", "pow", *BUILT_IN, *OF_ONE.values(), *OF_TWO.values()))


@dataclass(frozen=True)
class Description:
    """What is to be printed. `program` is changed."""

    name: str
    doc: str
    program: Program
    names: Sequence[str]  # of the parameters
    written: Sequence[bool]  # which are arrays that are stored to
    shapes: Sequence[tuple[int, ...]] | None  # that are needed
    causes: Sequence[Cause]
    outside: Sequence[np.ndarray]
    made_by: str

    def __post_init__(self) -> None:
        program = self.program
        run_passes(program, passes=SCALAR_PASSES)
        for region in all_regions(program.body):
            region[:] = [op for op in region if not isinstance(op, Poll)]  # C has no signals that wait for Python

    @property
    def kinds(self) -> list[Type]:
        return [self.program.types[param.value] for param in self.program.params[: len(self.names)]]

    @cached_property
    def parameters(self) -> list[str]:
        """Their names in C."""
        made: list[str] = []
        for k, name in enumerate(self.names):
            fits = name.isascii() and not name.startswith("npc_") and name not in made
            made.append(f"p{k}" if not fits else f"{name}_" if name in KEYWORDS or name == self.name else name)
        return made


@dataclass(frozen=True)
class Result:
    """One of a call: a number or an array, in C's parameters after the function's own."""

    kind: Type
    name: str

    @property
    def declared(self) -> str:
        return f"{public_type(self.kind)}* {self.name}"


def public_type(kind: Type) -> str:
    """Raises Unsupported."""
    match kind:
        case Scalar(element, 1) if element in PUBLIC:
            return PUBLIC[element]
        case Memref(element, rank) if element in PUBLIC:
            return f"npc_{NUMPYS.get(element, element).value}_{rank}"
    raise Unsupported(f"C has no {kind_in_words(kind)}", 0)


def dtype_in_words(kind: Kind) -> str:
    """The name of a dtype, or of a class of Python's."""
    return DTYPES[kind].name if kind in DTYPES else kind.value


def number_in_words(kind: Kind) -> str:
    """The same, where Python's bool and NumPy's are two."""
    return "?" if kind is Kind.B1 else dtype_in_words(kind)


def flat(recipe: Recipe) -> Iterator[Recipe]:
    """The numbers and arrays of a result, without None."""
    if isinstance(recipe, TupleOf):
        for item in recipe.items:
            yield from flat(item)
    elif recipe != Fixed(None):
        yield recipe
