"""What a target says about itself: its types, its text for each scalar op, and what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from npcompile.backends.loop_ir.c_text import CText, c
from npcompile.tensor_core.loop_ir.types import Kind, Scalar


class Unsupported(Exception):
    """A target has no text for an op: why, and the user's line."""

    def __init__(self, reason: str, line: int):
        super().__init__(f"line {line}: {reason}")
        self.reason, self.line = reason, line


class Ability(Enum):
    ALLOCATE = "allocation"
    LISTS = "lists that grow"


@dataclass(frozen=True, slots=True)
class Target:
    """One language of C's family. The texts of primitives have a `{}` for each operand."""

    name: str
    helpers: str  # definitions that the statements use
    function: str  # the head of the program's function, with a `{}` for its name
    primitives: Mapping[str, str]  # by row, where it differs from C's
    checks_flags: bool
    abilities: frozenset[Ability]


C_TYPES = {
    Kind.BOOL: "signed char",
    Kind.B1: "signed char",
    Kind.INT: "npc_i64",
    Kind.I64: "npc_i64",
    Kind.FLOAT: "double",
    Kind.F64: "double",
}
ELEMENT_TYPES = {Kind.B1: "signed char", Kind.I64: "npc_i64", Kind.F64: "double"}

# What is the same in C and CUDA C++.
PRIMITIVES: Mapping[str, str] = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "divide": "{} / {}",
    "negative": "-{}",
    "absolute": "fabs({})",
    "sign": "npc_sign({})",
    "sqrt": "sqrt({})",
    "exp": "exp({})",
    "sin": "sin({})",
    "cos": "cos({})",
    "floor_divide": "npc_floor_divide({}, {})",
    "remainder": "npc_remainder({}, {})",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
    "greater": "{} > {}",
    "greater_equal": "{} >= {}",
    "equal": "{} == {}",
    "not_equal": "{} != {}",
    "truth": "{} != 0",
    "logical_not": "!{}",
    "logical_and": "{} && {}",
    "to_float": "(double){}",
    "to_f64": "(double){}",
    "to_i64": "{}",
    "to_int": "{}",
    "wrap_index": "npc_wrap({}, {})",
    "is_index": "npc_is_index({}, {})",
    "clip_bound": "npc_clip({}, {})",
    "span": "npc_span({}, {})",
    "add_overflows": "npc_add_overflows({}, {})",
    "subtract_overflows": "npc_subtract_overflows({}, {})",
    "multiply_overflows": "npc_multiply_overflows({}, {})",
}
# The same everywhere. `NPC_INLINE` is the target's.
SHARED_HELPERS = """NPC_INLINE npc_i64 npc_floor_divide(npc_i64 a, npc_i64 b) { return a / b - (a % b < 0); } /* b > 0 */
NPC_INLINE npc_i64 npc_remainder(npc_i64 a, npc_i64 b) { const npc_i64 r = a % b; return r < 0 ? r + b : r; }
NPC_INLINE npc_i64 npc_wrap(npc_i64 i, npc_i64 n) { return i < 0 ? i + n : i; }
NPC_INLINE int npc_is_index(npc_i64 i, npc_i64 n) { return (unsigned long long)i < (unsigned long long)n; }
NPC_INLINE npc_i64 npc_clip(npc_i64 i, npc_i64 n) { i = npc_wrap(i, n); return i < 0 ? 0 : i > n ? n : i; }
NPC_INLINE double npc_sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x; }
NPC_INLINE npc_i64 npc_span(npc_i64 a, npc_i64 b) { return a < b ? b - a : 0; }
"""


def primitive(target: Target, row: str, operands: list[CText], kinds: list[Scalar], line: int) -> CText:
    """The expression of a row. Raises Unsupported."""
    floating = any(kind.kind in (Kind.FLOAT, Kind.F64) for kind in kinds)
    template = target.primitives.get(f"{row}.double") if floating else None
    template = template or target.primitives.get(row) or PRIMITIVES.get(row)
    if template is None or any(kind.kind not in C_TYPES or kind.lanes != 1 for kind in kinds):
        raise Unsupported(f"{target.name} has no text for {row}", line)
    return c(template, *operands)
