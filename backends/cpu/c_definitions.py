"""Which functions of a C text other text needs: those that it calls, and those that these call."""

from __future__ import annotations

import re

CALLED = re.compile(r"\w+(?=\()")


def definitions_of(text: str) -> dict[str, str]:
    """Function -> its definition, with the comment before it. What a function calls comes before it."""
    found: dict[str, str] = {}
    lines: list[str] = []
    name = ""
    for line in text.strip().splitlines():
        lines.append(line)
        is_head = line.startswith("static inline")
        if is_head:
            name = CALLED.findall(line)[0]
        if line == "}" or (is_head and line.endswith("}")):
            found[name] = "\n".join(lines) + "\n"
            lines = []
    return found


def needed_by(text: str, definitions: dict[str, str]) -> tuple[set[str], str]:
    """What is called, by `text` and in the definitions that it needs, and these definitions."""
    called, needed = set(CALLED.findall(text)), ""
    for name, definition in reversed(definitions.items()):
        if name in called:
            called |= set(CALLED.findall(definition))
            needed = definition + needed
    return called, needed
