"""Compound statements: statements drawn where a block stands, tried with the rest of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz.writer import Rejected, Writer
from tests.limits import TooLong

Statement = Callable[[Writer], None]
DEEPEST = 3


def require(condition: object) -> None:
    if not condition:
        raise Rejected


def grow(w: Writer, statements: Sequence[Statement]) -> bool:
    """Draw one statement; False when it was rejected."""
    saved = list(w.body), w.env, w.indent
    try:
        w.pick(statements)(w)
    except Rejected:
        w.body, w.env, w.indent = saved
        return False
    return True


def drawn(w: Writer, header: Sequence[str], count: int, statements: Sequence[Statement]) -> tuple[list[str], dict[str, Any]]:
    """Lines of a block below a header, drawn where it would stand, and the variables at its end; nothing is added."""
    require(w.indent < DEEPEST)
    outer, body, indent = w.env, w.body, w.indent
    prefix = "    " * indent
    w.body = [*body, *(prefix + line for line in header)]
    w.indent += 1
    try:
        env = w.probe([])
        w.env = env if env is not None else outer
        length = len(w.body)
        for _ in range(w.integer(1, count)):
            grow(w, statements)
        if len(w.body) == length:
            w.body.append(f"{prefix}    pass")
        return [line.removeprefix(prefix) for line in w.body[len(body) :]], w.env
    except Rejected:
        raise
    except (Exception, TooLong) as error:  # of the header
        raise Rejected from error
    finally:
        w.env, w.body, w.indent = outer, body, indent


def block(w: Writer, header: Sequence[str], count: int, statements: Sequence[Statement]) -> None:
    """A compound statement: its header, and statements drawn where it stands."""
    lines, _ = drawn(w, header, count, statements)
    require(w.add(lines))


def indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines]
