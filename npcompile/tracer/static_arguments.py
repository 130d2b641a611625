"""Arguments that the user has named as constants of the program: `compile(f, static_argnames=...)`."""

from __future__ import annotations

from types import CodeType
from typing import Any

from npcompile.tensor_core.source import Name, Source
from npcompile.tracer.bytecode.decode import Program
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.point import Point
from npcompile.tracer.variant import WrongTypeError


def named(static: tuple[str | int, ...], code: CodeType, what: str) -> tuple[str, ...]:
    """The parameters by name. ValueError for one that the function does not have."""
    parameters = Parameters.of(code)
    positional = (*parameters.positional_only, *parameters.positional)
    names = (*positional, *parameters.keyword_only, *parameters.rest)
    found: dict[str, None] = {}
    for each in static:
        if isinstance(each, str):
            if each not in names:
                raise ValueError(f"static_argnames: {what} has no parameter {each!r}: choose of {', '.join(names) or 'none'}")
            found[each] = None
        elif not -len(positional) <= each < len(positional):
            raise ValueError(f"static_argnums: {what} has {len(positional)} positional parameters, and none has number {each}")
        else:
            found[positional[each]] = None
    return tuple(found)


def require_hashable(function: Compiled[Point], point: Point, state: tuple[Any, ...]) -> None:
    """TypeError for a constant argument that may change."""
    for name, value in zip(point.layout.local_names, state) if point.is_start else ():
        if name in function.options.static and (part := unhashable(value)) is not None:
            held = "" if part is value else f", which holds {an(part)}"
            raise WrongTypeError(
                f"the static argument {name!r} of {function.code.co_qualname} is {an(value)}{held}: a constant of the program "
                f"has to be hashable. Give {'a tuple' if isinstance(part, list) else 'a hashable value'}, or do not name "
                f"{name!r} in static_argnames."
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
    names = zip(point.layout.local_names, point.local_parameters)
    return frozenset(Name(parameter) for local, parameter in names if local in static and local not in gone)


def assigned(program: Program) -> frozenset[str]:
    return frozenset(i.argval for i in program.instructions if i.traits.writes("local"))
