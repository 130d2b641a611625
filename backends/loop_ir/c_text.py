"""C that was printed. It can be put into other C, and nobody can read it: passes ask the IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final


class CText:
    """A piece of C. It has no methods of str."""

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[str | CText, ...]):
        self._parts: Final = parts


def c(template: str, *parts: CText | int) -> CText:
    """C with parts in the place of each `{}`; a brace of C's is doubled, as in str.format.

    >>> unit([c("x = {} + {};", c("y"), 1)])
    'x = y + 1;\\n'
    """
    first, *literals = split(template)
    found: list[str | CText] = [first]
    for part, literal in zip(parts, literals, strict=True):
        found += [part if isinstance(part, CText) else str(part), literal]
    return CText(tuple(found))


@lru_cache(1024)
def split(template: str) -> tuple[str, ...]:
    """What stands between the parts."""
    pieces = template.replace("{{", "\0").replace("}}", "\1").split("{}")
    return tuple(piece.replace("\0", "{").replace("\1", "}") for piece in pieces)


def joined(separator: str, parts: Iterable[CText]) -> CText:
    found: list[str | CText] = []
    for part in parts:
        found += [separator, part]
    return CText(tuple(found[1:]))


def unit(lines: Iterable[CText]) -> str:
    """The text of a translation unit, for the compiler."""
    return "".join(f"{''.join(strings(line))}\n" for line in lines)


def strings(text: CText) -> Iterator[str]:
    for part in text._parts:
        if isinstance(part, str):
            yield part
        else:
            yield from strings(part)
