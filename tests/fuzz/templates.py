"""Lines with holes: `$x` an array, `$v` a new name, ... each drawn when it is met first, and the same wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Template
from typing import Any

import numpy as np

from tests.fuzz.blocks import require
from tests.fuzz.expressions import condition, expression, scalar
from tests.fuzz.user_code import Box, Meter, Model, Settings, Vector
from tests.fuzz.writer import Writer, is_dyadic, is_numeric, kind


def size(w: Writer) -> str:
    return w.pick([f"{w.array()}.ndim", "1", "2", f"len({w.array(np.ndim)})", *w.numbers(int)[-2:]])


def is_plain(w: Writer, x: Any) -> bool:
    """May data decide here, and may it be added up?"""
    return w.is_exact and kind(x) != "c" and bool(np.isfinite(x).all()) and is_dyadic(x)


def variable_of(*types: type) -> Callable[[Writer], str]:
    return lambda w: w.pick([n for n, v in w.env.items() if type(v) in types])


def growing_list(w: Writer) -> str:
    require(not w.iterated)
    return w.pick([n for n, v in w.env.items() if type(v) is list])


HOLES: dict[str, Callable[[Writer], str]] = {
    **dict.fromkeys("vpqfceij", Writer.name),
    **dict.fromkeys("xyz", Writer.array),
    **dict.fromkeys("aA", lambda w: w.pick(list(w.env)[::-1])),  # anything
    "m": lambda w: w.array(lambda x: np.ndim(x) > 0 and len(x)),  # has a first row
    "r": lambda w: w.array(lambda x: is_plain(w, x) and np.size(x)),  # plain numbers, at least one
    "b": lambda w: variable_of(Box, Meter)(w),
    "o": lambda w: variable_of(Vector)(w),
    "h": lambda w: variable_of(Model, Settings)(w),
    "n": size,
    "s": scalar,
    "t": condition,
    "k": lambda w: expression(w, 1),
    "l": growing_list,
    "d": variable_of(dict),
    "u": variable_of(tuple),
    "g": variable_of(np.random.Generator),
    "w": lambda w: w.pick([n for n, v in w.env.items() if isinstance(v, np.ndarray) and not is_numeric(v)]),
}


class Filling(dict[str, str]):
    def __init__(self, w: Writer, known: dict[str, str]):
        super().__init__(known)
        self.writer = w

    def __missing__(self, key: str) -> str:
        base, _, suffix = key.partition("_")
        if suffix:
            return f"{self[base]}_{suffix}"
        self[key] = HOLES[key](self.writer)
        return self[key]


def filled(w: Writer, template: str, **known: str) -> list[str]:
    """Lines of a template, with what its holes stand for."""
    require(w.breaks or not re.search(r"record|opaque|print|graph_break|Box|Meter", template))
    try:
        return Template(template).substitute(Filling(w, known)).split("\n")
    except KeyError as error:
        raise AssertionError(f"no such hole in {template!r}") from error


def templates(text: str) -> tuple[str, ...]:
    """Templates of several lines, with empty lines between them."""
    return tuple(t.strip("\n") for t in text.split("\n\n"))


def one_per_line(text: str) -> tuple[str, ...]:
    """Templates of a line each; `; ` stands between the lines of one."""
    return tuple(line.replace("; ", "\n") for line in text.strip("\n").split("\n"))


def statement(*table: str) -> Callable[[Writer], None]:
    """The statement that is one of these templates."""

    def from_template(w: Writer) -> None:
        require(w.add(filled(w, w.pick(table))))

    return from_template
