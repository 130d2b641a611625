"""C that was printed. It can be put into other C, and nobody can read it: passes ask the IR."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class CText:
    """A piece of C. It has no methods of str."""

    __slots__ = ("__text",)

    def __init__(self, text: str):
        self.__text: Final = text

    @staticmethod
    def filled(template: str, *parts: CText | int) -> CText:
        """C with parts in the place of each `{}`; a brace of C's is doubled, as in str.format.

        >>> unit([c("x = {} + {};", c("y"), 1)])
        'x = y + 1;\\n'
        """
        return CText(template.format(*[part.__text if type(part) is CText else part for part in parts]))

    @staticmethod
    def put_together(separator: str, parts: Iterable[CText]) -> str:
        return separator.join([part.__text for part in parts])


c = CText.filled


def joined(separator: str, parts: Iterable[CText]) -> CText:
    return CText(CText.put_together(separator, parts))


def unit(lines: Iterable[CText]) -> str:
    """The text of a translation unit, for the compiler."""
    return CText.put_together("\n", lines) + "\n"
