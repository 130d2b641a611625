"""Loops printed as C strip by strip, where sin, cos and tan are inline: without a branch in strips whose angles are all near.

A loop over the strip looks at the angles first, and computes again what they come from: that is little beside a branch for each
number, of which compilers make no vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from npcompile.backends.cpu.inline_angles import IS_INLINE
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import Accumulate, Let, Load, Position, Statement, Store

STRIP = 512  # elements: what they are loaded from stays in the nearest cache
ANGLE_OPS = ("sin", "cos", "tan")
PLAIN = (Let, Load, Position, Store, Accumulate)

Write = Callable[[Sequence[Statement], str, str], None]  # prints a loop: its body, where it begins and ends


class Printer(Protocol):
    angles: str  # goes before the names of these functions

    def line(self, text: str) -> None: ...
    def open(self, text: str) -> None: ...
    def close(self) -> None: ...


def near_and_far(p: Printer, body: Sequence[Statement], first: str, end: str, write: Write) -> None:
    """Print a loop whose iterations do not depend on each other."""
    asked = asked_of(body)
    if asked:
        p.line(f"#ifdef {IS_INLINE}")
        p.open(f"for (int64_t strip = {first}, strip_end; strip < {end}; strip = strip_end) {{")
        p.line(f"strip_end = npc_min(strip + {STRIP}, {end});")
        p.line("int64_t far = 0;")
        for head, prefix, statements in (("{", "seen", asked), ("if (!far) {", "near", body), ("else {", "", body)):
            p.angles = prefix and f"npc_{prefix}_"
            p.open(head)
            write(statements, "strip", "strip_end")
            p.close()
        p.close()
        p.line("#else")
    write(body, first, end)
    if asked:
        p.line("#endif")


def has_angle(s: Statement) -> bool:
    return isinstance(s, Let) and s.op in ANGLE_OPS and s.target.dtype.char in "efd"


def asked_of(body: Sequence[Statement]) -> list[Statement]:
    """These functions of a loop's body and what their angles come from. None where it does more than to compute and store."""
    if not all(isinstance(s, PLAIN) for s in body):
        return []
    wanted: set[str] = set()
    found: list[Statement] = []
    for s in reversed(body):
        if has_angle(s) or (isinstance(s, (Let, Load, Position)) and s.target.name in wanted):
            found.append(s)
            wanted |= read_by(s)
    return found[::-1] if any(map(has_angle, found)) else []


def read_by(s: Statement) -> set[str]:
    match s:
        case Let():
            return {v.name for v in s.args}
        case Load():
            return symbols_in(s.offset) | ({s.mask.name} if s.mask else set())
        case Position():
            return symbols_in(s.index)
    raise AssertionError(s)


def named(text: str, s: Let, prefix: str) -> str:
    """The C text of a statement, with a prefix before the name of its function if that is one of these."""
    if not prefix or not has_angle(s):
        return text
    return text.replace(f"{s.op}(", f"{prefix}{s.op}(").replace(f"{s.op}f(", f"{prefix}{s.op}f(")
