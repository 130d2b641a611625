"""Where a function may handle an exception itself: an error there is not yet one of its caller's."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType

from npcompile.tensor_core.loop_ir.ops import Place
from npcompile.tracer.bytecode.analysis import analyse


@dataclass(slots=True)
class Handlers:
    """Of the functions that a program is made of, by the lines of their files. `code`: the outermost one's."""

    code: CodeType
    places: Iterable[Place]
    functions: dict[str, list[ast.AST] | None] = field(init=False)  # by file: None where there is no source
    with_handlers: set[ast.AST] = field(init=False)  # those of the program that handle something somewhere

    def __post_init__(self) -> None:
        places = {place for place in self.places if place.line}
        self.functions = {file: functions_in(file) for file in {place.file for place in places}}
        enclosing = {self.enclosing(place) for place in places}
        self.with_handlers = {function for function in enclosing if function and any(tries_in(function))}

    def enclosing(self, at: Place) -> ast.AST | None:
        """The innermost function, by its lines."""
        around = [node for node in self.functions.get(at.file) or () if covers(node, at.line)]
        return max(around, key=lambda node: node.lineno, default=None)  # type: ignore[attr-defined]

    def may_handle(self, at: Place) -> bool:
        """May an exception at this line be handled, there or in a caller? Without the source: may any in the function?"""
        if self.functions.get(at.file) is None:
            has_handlers = any(i.handler is not None for i in analyse(self.code).instructions)
            return has_handlers or at.file != self.code.co_filename
        own = self.enclosing(at)
        if self.with_handlers - {own}:
            return True
        return own is not None and any(covers_parts(node.body, at.line) for node in tries_in(own))


def functions_in(file: str) -> list[ast.AST] | None:
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # of a notebook's cell with magic, for one
        return None
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)] if lines else None


def tries_in(function: ast.AST) -> Iterator[ast.Try | ast.TryStar]:
    return (node for node in ast.walk(function) if isinstance(node, ast.Try | ast.TryStar))


def covers(node: ast.AST, line: int) -> bool:
    return node.lineno <= line <= node.end_lineno  # type: ignore[attr-defined,no-any-return]


def covers_parts(body: list[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)
