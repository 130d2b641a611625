"""Strings made of numbers and strings that are known when the program is called: expressions, so that none is fixed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import OfType
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import Formula, Literal, Source, builtin
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import arithmetic, forward
from npcompile.tracer.values import Comparison, Constant, Lazy, Text
from npcompile.tracer.values import Sequence as SequenceValue

KNOWN_TYPES = (int, float, complex, bool, str, type(None))


def text_of(capture: Capture, template: str, function: Callable[..., str], values: Sequence[Any]) -> Text | None:
    """What `function` gives for the values, as the Python text `template` with theirs filled in.

    None where all of them are constants, or one is neither a number, a string, nor a tuple or list of such.
    """
    found = [expression(capture, v) for v in values]
    if None in found or not any(map(is_traced, values)):
        return None
    sources, hints = zip(*found)  # type: ignore[arg-type]
    return Text(Formula(template, *sources), evaluated(lambda: function(*hints)))


def evaluated(thunk: Callable[[], str]) -> str:
    """What raises is left to the native run: it may be the value and not the type that is wrong."""
    try:
        return thunk()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise Decline(f"{type(error).__name__}: {error}") from None


def expression(capture: Capture, value: Any) -> tuple[Source, Any] | None:
    """The source of a value, and what it is in this call."""
    if isinstance(value, Lazy) and type(value.example) is str and value.source not in capture.realized:
        capture.guard(OfType(value.source, builtin(str)))
        return value.source, value.example
    value = capture.realize(value) if isinstance(value, Lazy) else value
    match value:
        case Dim() | Number() | Integer():
            return arithmetic.number_source(value), value.hint
        case Text() | Comparison():
            return value.source, value.hint
        case Constant() if type(value.value) in KNOWN_TYPES:
            return Literal(value.value), value.value
        case SequenceValue() if value.kind in (tuple, list):
            items = [expression(capture, v) for v in value.items]
            if None in items:
                return None
            inner = "{}, " * len(items)
            sources, hints = [source for source, _ in items], value.kind(hint for _, hint in items)  # type: ignore[misc]
            return Formula(f"[{inner}]" if value.kind is list else f"({inner})", *sources), hints
    return None


def is_traced(value: Any) -> bool:
    """Is it, or does it hold, something that is not fixed?"""
    if isinstance(value, SequenceValue):
        return any(map(is_traced, value.items))
    if isinstance(value, Lazy):
        return type(value.example) in (int, float, complex, str)
    return isinstance(value, (Dim, Number, Integer, Text, Comparison))


def formatted(capture: Capture, function: Callable[[Any], str] | None, spec: str, value: Any) -> Text | None:
    """format(function(value), spec), None where text_of gives none."""
    if spec.endswith("c"):  # which is no text for every number
        return None
    converted = f"{function.__name__}({{}})" if function else "{}"
    template = f"format({converted}, {escaped(repr(spec))})"
    return text_of(capture, template, lambda x: format(function(x) if function else x, spec), [value])


@forward.filled_in.defined
def filled_in(capture: Capture, text: str, value: Any) -> Text | None:
    """`text % value`"""
    if re.search(r"%[^%a-zA-Z]*c", text):
        return None
    return text_of(capture, f"({escaped(repr(text))} % {{}})", lambda x: text % x, [value])


def format_called(capture: Capture, text: str, positional: Sequence[Any], named: dict[str, Any]) -> Text | None:
    """`text.format(*positional, **named)`"""
    if re.search(r"[{:]", re.sub(r"{\w*(![rsa])?(:[-+ ,.0-9<>^]*[a-bd-zA-Z%]?)?}", "", text)):  # attributes, items, widths
        return None
    given = ", ".join([*("{}" for _ in positional), *(f"{name}={{}}" for name in named)])
    template = f"{escaped(repr(text))}.format({given})"

    def function(*values: Any) -> str:
        return text.format(*values[: len(positional)], **dict(zip(named, values[len(positional) :])))

    return text_of(capture, template, function, [*positional, *named.values()])


def escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
