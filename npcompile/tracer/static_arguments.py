"""Arguments that the user has named as constants of the program: `compile(f, static_argnames=...)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from npcompile.tensor_core.source import Name, Source
from npcompile.tracer.bytecode.decode import Program
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.point import Point
from npcompile.tracer.variant import StaticItem, WrongTypeError


def named(static: tuple[str | int | StaticItem, ...], of: FunctionType, code: CodeType) -> tuple[str | StaticItem, ...]:
    """The parameters of `of` by name, as `code` has them. ValueError for one that the function does not have."""
    parameters, what = Parameters.of(of.__code__), of.__qualname__
    positional = (*parameters.positional_only, *parameters.positional)
    names = (*positional, *parameters.keyword_only, *parameters.rest)
    found: dict[str, None] = {}
    for each in static:
        if isinstance(each, int):
            if not -len(positional) <= each < len(positional):
                raise ValueError(f"static_argnums: {what} has {len(positional)} positional parameters, none with number {each}")
            found[positional[each]] = None
        elif each in names:
            assert isinstance(each, str)
            found[each] = None
        else:
            raise ValueError(f"static_argnames: {what} has no parameter {each!r}: choose of {', '.join(names) or 'none'}")
    return tuple(found) if of.__code__ is code else tuple(handed_on(found, positional, Parameters.of(code)))


def handed_on(names: Iterable[str], positional: Sequence[str], outer: Parameters) -> Iterator[StaticItem]:
    """Where a function that hands on all of its arguments, by `*args` and `**kwargs`, has them."""
    for name in names:
        yield from (StaticItem(rest, positional.index(name), name) for rest in outer.rest if name in positional)
        yield from (StaticItem(keywords, name, name) for keywords in outer.keywords)


def require_hashable(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> None:
    """TypeError for a constant argument that may change."""
    values = dict(zip(point.layout.local_names, state)) if point.is_start else {}
    for each in function.options.static if values else ():
        name, value = str(each), None
        if isinstance(each, StaticItem):
            name, given = each.name, values[each.container]
            value = given.get(each.key) if isinstance(given, dict) else given[each.key] if each.key in range(len(given)) else None
        elif isinstance(each, str):
            value = values[each]
        if (part := unhashable(value)) is not None:
            held = "" if part is value else f", which holds {an(part)}"
            raise WrongTypeError(
                f"the static argument {name!r} of {function.code.co_qualname} is {an(value)}{held}: a constant of the program "
                f"has to be hashable. Give {'a tuple' if isinstance(part, list) else 'a hashable value'}, or do not name it "
                "as static."
            )


def unhashable(value: Any) -> Any:
    """The value, or an item of it, that cannot be hashed; None where all can. Runs no code of the user's."""
    if type(value) is tuple:
        return next((part for each in value if (part := unhashable(each)) is not None), None)
    return value if type(value).__hash__ is None else None


def an(value: Any) -> str:
    name = type(value).__qualname__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def static_sources(function: Compiled[Point], point: Point) -> frozenset[Source]:
    """Where constant arguments are found at the Point. After a graph break those variables that the function never sets again."""
    static = function.options.static
    if not static:
        return frozenset()
    gone = frozenset() if point.is_start else assigned(function.program)
    names = dict(zip(point.layout.local_names, point.local_parameters))
    found: set[Source] = set()
    for each in static:
        local = each.container if isinstance(each, StaticItem) else each
        if isinstance(local, str) and local in names and local not in gone:
            whole = Name(names[local])
            found.add(whole.item(each.key) if isinstance(each, StaticItem) else whole)
    return frozenset(found)


def assigned(program: Program) -> frozenset[str]:
    return frozenset(i.argval for i in program.instructions if i.traits.writes("local"))
