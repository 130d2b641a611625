"""The smallest of what still fails: parts are left out while that is so. And what may be left out of a Python function."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Hashable, Iterable, Iterator
from time import perf_counter
from typing import TypeVar

Candidate = TypeVar("Candidate", bound=Hashable)
Edit = Callable[[], None]
BLOCKS = ("body", "orelse", "finalbody")
LARGE = 2  # integers above may be smaller


def smallest(
    first: Candidate,
    simpler: Callable[[Candidate], Iterable[Candidate]],
    fails: Callable[[Candidate], bool],
    seconds: float,
) -> Candidate:
    """One that fails, where none of those that are simpler than it does; or what was reached in so many seconds.

    Parameters
    ----------
    first
        What fails.
    simpler
        What is a step simpler than a candidate, the largest steps first.
    fails
        Does a candidate fail? It is asked once for each, and not for `first`.
    seconds
        The time after which the search ends. A question that is asked then is waited for.

    >>> smallest((3, 1, 4, 1, 5), lambda t: (t[:k] + t[k + 1:] for k in range(len(t))), lambda t: 4 in t, 1.0)
    (4,)
    """
    end, known = perf_counter() + seconds, {first}
    found: Candidate | None = first
    while found is not None:
        first, found = found, None
        for each in simpler(first):
            if perf_counter() > end:
                return first
            if each not in known:
                known.add(each)
                if fails(each):
                    found = each
                    break
    return first


def simpler_functions(text: str) -> Iterator[str]:
    """Texts of the function with fewer statements, with fewer variables, with simpler expressions. Not all are programs that run.

    Parameters
    ----------
    text
        The source of a function, or of several.

    Raises
    ------
    SyntaxError
        `text` is not Python.

    >>> [*simpler_functions("def f(x):\\n    y = 1\\n    return y + x")][2]
    'def f(x):\\n    return y + x'
    """
    number = sum(1 for _ in ast.walk(ast.parse(text)))
    plain = ast.unparse(ast.parse(text))
    for edits_of in (edits_of_blocks, edits_of_variables, edits_of_expressions):
        for k in range(number):  # the outermost first
            edited, which = True, 0
            while edited:
                tree = ast.parse(text)
                edits = [*edits_of([*ast.walk(tree)][k])]
                edited = which < len(edits)
                if edited:
                    edits[which]()
                    if (made := ast.unparse(ast.fix_missing_locations(tree))) != plain:
                        yield made
                which += 1


def simpler_bodies(lines: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The same of the lines in a function.

    >>> [*simpler_bodies(("x += 1", "return x, y"))][:3]
    [('pass',), ('x += 1',), ('return (x, y)',)]
    """
    for text in simpler_functions("\n".join(["def function():", *(f"    {line}" for line in lines)])):
        yield tuple(line[4:] for line in text.splitlines()[1:])


def edits_of_blocks(node: ast.AST) -> Iterator[Edit]:
    """Leave out statements, the last first, many first; put what is in a statement in its place."""
    if isinstance(node, ast.Module):
        return
    for field in BLOCKS:
        block = getattr(node, field, None)
        if not isinstance(block, list):
            continue
        size = len(block)
        while size:
            for start in reversed(range(0, len(block), size)):
                yield edit_of(block, start, start + size, [] if size < len(block) or field != "body" else [ast.Pass()])
            size //= 2
        for k, statement in enumerate(block):
            for inner in BLOCKS:
                inside = getattr(statement, inner, None)
                if inside and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    yield edit_of(block, k, k + 1, inside)


def edit_of(items: list[ast.AST], start: int, stop: int, others: list[ast.AST]) -> Edit:
    def edit() -> None:
        items[start:stop] = others

    return edit


def edits_of_variables(node: ast.AST) -> Iterator[Edit]:
    """Put what a variable is set to once where it is read."""
    if not isinstance(node, ast.FunctionDef):
        return
    stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    for statement in node.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) if stored.count(name) == 1 and len(node.body) > 1:

                def edit(statement: ast.stmt = statement, name: str = name, value: ast.expr = value) -> None:
                    node.body.remove(statement)
                    Put(name, value).visit(node)

                yield edit


class Put(ast.NodeTransformer):
    """Puts an expression where a variable is read."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.value) if node.id == self.name and isinstance(node.ctx, ast.Load) else node


def edits_of_expressions(node: ast.AST) -> Iterator[Edit]:
    """Put parts of expressions in their place; leave out items, arguments and iterations."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            for part in parts_of(value):
                yield lambda field=field, part=part: setattr(node, field, part)  # type: ignore[misc]
        elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
            for k, item in enumerate(value):
                for part in parts_of(item):
                    yield edit_of(value, k, k + 1, [part])
            if isinstance(node, ast.Tuple | ast.List | ast.Call) and len(value) > 1:
                for k in reversed(range(len(value))):
                    yield edit_of(value, k, k + 1, [])
        elif field == "keywords":
            for k in reversed(range(len(value))):
                yield edit_of(value, k, k + 1, [])


def parts_of(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left, _, right):
            yield from (left, right)
        case ast.BoolOp(_, values):
            yield from values
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Compare(left, _, [right, *_]):
            yield from (left, right)
        case ast.Call(function, arguments):
            yield from arguments
            if isinstance(function, ast.Attribute):
                yield function.value
        case ast.Subscript(value):
            yield value
        case ast.Tuple([only]):
            yield only
        case ast.Constant(int(value)) if value > LARGE:
            yield from (ast.Constant(LARGE), ast.Constant(value // 2))
