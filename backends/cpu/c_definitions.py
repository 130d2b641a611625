"""Which functions of a C text other text needs: those that it calls, and those that these call."""

from __future__ import annotations

import re

BACKWARDS = re.compile(r"\((\w+)")


def called_in(text: str) -> set[str]:
    """The words before a parenthesis. (Read from the end: a search for what a word ends with begins at each of its letters.)

    >>> sorted(called_in("x = sin(a) * fmax (b, c(1));"))
    ['c', 'sin']
    """
    return {word[::-1] for word in set(BACKWARDS.findall(text[::-1]))}


def definitions_of(text: str) -> dict[str, str]:
    """Function -> its definition, with the comment before it. What a function calls comes before it."""
    found: dict[str, str] = {}
    lines: list[str] = []
    name = ""
    for line in text.strip().splitlines():
        lines.append(line)
        is_head = line.startswith("static inline")
        if is_head:
            name = line[: line.index("(")].split()[-1].lstrip("*")
        if line == "}" or (is_head and line.endswith("}")):
            found[name] = "\n".join(lines) + "\n"
            lines = []
    return found


def needed_by(text: str, definitions: dict[str, str]) -> tuple[set[str], str]:
    """What is called, by `text` and in the definitions that it needs, and these definitions."""
    called, needed = called_in(text), ""
    for name, definition in reversed(definitions.items()):
        if name in called:
            called |= called_in(definition)
            needed = definition + needed
    return called, needed
