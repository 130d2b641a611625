"""Strings made of numbers and strings that are known when the program is called: expressions, so that none is fixed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import Equals, HasKey, OfType
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.python_operators import COMPARE
from npcompile.tensor_core.source import Formula, Literal, Source, builtin
from npcompile.tracer.capture import Capture
from npcompile.tracer.constant_kinds import LONGEST_TEXT
from npcompile.tracer.python import arithmetic, forward
from npcompile.tracer.values import Comparison, Constant, Lazy, Mapping, OutsideMapping, SetValue, Text
from npcompile.tracer.values import Sequence as SequenceValue

KNOWN_TYPES = (int, float, complex, bool, str, type(None))
CONTAINERS = (tuple, frozenset)
OF_OTHER_KINDS = (type(None), int, float, complex, bytes, tuple, type)  # whose constants equal no string
METHODS = frozenset(n for n in vars(str) if n[0] != "_") - {"format", "format_map", "join", "maketrans", "translate"}

Result = TypeVar("Result")


def text_of(capture: Capture, template: str, function: Callable[..., str], values: Sequence[Any]) -> Text | None:
    """What `function` gives for the values, as the Python text `template` with theirs filled in.

    None where all of them are constants, or one is neither a number, a string, nor a tuple or list of such.
    """
    found = [expression(capture, v) for v in values]
    if None in found or not any(map(is_traced, values)):
        return None
    sources, hints = zip(*found)  # type: ignore[arg-type]
    return Text(Formula(template, *sources), evaluated(lambda: function(*hints)))


def asked(capture: Capture, template: str, function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """What `function` gives for the values, strings from outside among them: a string, a question, or a constant, by a guard.

    NotImplemented where no such string is among them, or something else than `expression` takes.
    """
    if not any(isinstance(v, Text) for v in values):
        return NotImplemented
    found = [container_of_strings(capture, v) or expression(capture, v) for v in values]
    if None in found:
        return NotImplemented
    sources, hints = zip(*found)  # type: ignore[arg-type]
    source, hint = Formula(template, *sources), evaluated(lambda: function(*hints))
    if type(hint) is str and len(hint) <= LONGEST_TEXT:
        return Text(source, hint)
    if type(hint) is bool:
        return Comparison(source, hint)
    if type(hint) is int:
        return capture.read(source, hint)
    capture.guard(Equals(source, capture.object_of(hint)))
    return forward.lifted(hint)


@forward.text_compared.defined
def text_compared(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """`left == right`, `<` and so on, of which one is a string from outside."""
    others = [v.value for v in (left, right) if isinstance(v, Constant)]
    is_asked = symbol in ("==", "!=") and any(isinstance(v, Text) for v in (left, right))
    if is_asked and others and isinstance(others[0], OF_OTHER_KINDS):
        return Constant(symbol == "!=")
    if not all(isinstance(v, Text) or isinstance(v, Constant) and type(v.value) is str for v in (left, right)):
        return NotImplemented
    return asked(capture, f"({{}} {symbol} {{}})", COMPARE[symbol], [left, right])


@forward.text_found.defined
def text_found(capture: Capture, container: Any, item: Any) -> Any:
    """`item in container`, of which one is a string from outside."""
    if isinstance(container, OutsideMapping) and not container.is_loaded and isinstance(item, Text):
        assert container.source is not None
        is_there = item.hint in container.example
        capture.guard(HasKey(container.source, item.source, is_there))
        return Constant(is_there)
    if isinstance(container, (Mapping, SetValue)) and isinstance(item, Text):
        container = Constant(frozenset(container.items))
    is_known = isinstance(container, Text) or isinstance(container, Constant) and type(container.value) in (str, *CONTAINERS)
    return asked(capture, "({1} in {0})", lambda c, i: i in c, [container, item]) if is_known else NotImplemented


def container_of_strings(capture: Capture, value: Any) -> tuple[Source, Any] | None:
    is_container = isinstance(value, Constant) and type(value.value) in CONTAINERS
    return (capture.object_of(value.value), value.value) if is_container else None


def method_called(capture: Capture, name: str, positional: Sequence[Any]) -> Any:
    """A method of strings, the first of which it is called on."""
    if name not in METHODS:
        return NotImplemented
    template = f"({{}}).{name}({', '.join('{}' for _ in positional[1:])})"
    return asked(capture, template, getattr(str, name), positional)


def evaluated(thunk: Callable[[], Result]) -> Result:
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
