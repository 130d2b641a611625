"""Where a native program ends, and what it hands over to Python there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

GOTO = re.compile(r"goto (\w+);")

Handed = tuple[str, str]  # an object for Python: the letter and the arguments that the runtime's `leave` makes it of


def failed() -> str:
    """The label where an exception is set that nothing has to be handed over with."""
    return "failed"


@dataclass(frozen=True, slots=True)
class WayOut:
    """An exit."""

    values: tuple[Handed, ...]
    throws: bool = False  # the exception that is set is handed over, too
    asks: bool = False  # whether the user has interrupted: the next exit throws that

    def label(self, number: int) -> str:
        return f"{'failed' if self.throws else 'exit'}{number}"

    def lines(self, number: int) -> list[str]:
        """Up to what those that hand over the same have in common."""
        asking = f"  if (UNLIKELY(rt->interrupted())) goto failed{number + 1};"
        catching = "  raised = rt->caught();"
        return [f"{self.label(number)}:", *[asking] * self.asks, *[catching] * self.throws, f"  where = {number};"]


def ways_out(exits: Sequence[WayOut], body: Sequence[str], iterations: Handed) -> list[str]:
    """The exits, which tell how many `iterations` there were. There are many, so those that hand over the same share one call.

    Those that the body does not go to are of what was written in vain: it may lack variables that these would hand over.
    """
    lines, known = list[str](), dict[tuple[Handed, ...], int]()
    used = {label for line in body for label in GOTO.findall(line)}
    used |= {exits[k + 1].label(k + 1) for k, way in enumerate(exits) if way.asks and way.label(k) in used}
    for k, way in enumerate(exits):
        if way.label(k) not in used:
            continue
        lines += way.lines(k)
        values = (*way.values, *[("o", "raised")] * way.throws)
        if values in known:
            lines.append(f"  goto left{known[values]};")
            continue
        known[values] = k
        given = (*values, iterations)
        letters = "".join(letter for letter, _ in given)
        arguments = ", ".join(["where", f'"{letters}"', *(text for _, text in given)])
        lines += [f"left{k}:", f"  result = rt->leave({arguments});", "  goto done;"]
    return lines
