"""C that is written once, with names where types and numbers go."""

from __future__ import annotations


def filled(text: str, names: dict[str, str]) -> str:
    """The text with each name's value in its place."""
    for name, value in names.items():
        text = text.replace(name, value)
    return text
