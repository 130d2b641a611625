"""Guards as the Python text that asks them. It is compiled, no more: what is to be known of a guard, its fields say."""

from __future__ import annotations

from collections.abc import Callable

from npcompile.tensor_core.guards import (
    All,
    Axis,
    Binds,
    Either,
    Equals,
    Flags,
    Guard,
    HasAttribute,
    HasKey,
    Is,
    Keeps,
    Keys,
    KeyTypes,
    Layout,
    Length,
    OfDType,
    OfType,
    Ordered,
    Truth,
)
from npcompile.tensor_core.source import Assigned, Formula, Source


def text_of(guard: Guard, say: Callable[[Source], str] = str) -> str:
    """An expression that is true where the guard holds. `say` writes the sources."""
    match guard:
        case OfType(Assigned(name, source), kind):
            return f"type({name} := {say(source)}) is {say(kind)}"
        case OfType(source, kind):
            return f"type({say(source)}) is {say(kind)}"
        case Is(source, other, answer):
            return f"{say(source)} is {'' if answer else 'not '}{say(other)}"
        case All(guards):
            return " and ".join(text_of(each, say) for each in guards)
        case Flags(source, mask, flags):
            return f"{say(source)}.flags.num & {mask} == {flags}"
        case Layout(source, part, value):
            return f"{say(source)}.{part} == {value}"
        case Binds(source, name):
            return f"(({name} := {say(source)}) is not None)"
        case Ordered(operands, symbols, answer):
            first, *rest = map(say, operands)
            text = f"{first}{''.join(f' {symbol} {operand}' for symbol, operand in zip(symbols, rest))}"
            return text if answer else f"not ({text})"
        case Either(guards):
            return f"({' or '.join(text_of(each, say) for each in guards)})"
        case Equals(source, value):
            return f"{say(source)} == {say(value)}"
        case Truth(source, answer):
            text = say(source)
            return text if answer else f"not ({text})" if isinstance(source, Formula) else f"not {text}"
        case HasKey(source, key, answer):
            return f"{say(key)} {'' if answer else 'not '}in {say(source)}"
        case HasAttribute(source, name, answer):
            return f"{'' if answer else 'not '}hasattr({say(source)}, {name!r})"
        case Keys(source, keys):
            return f"[*{say(source)}] == {say(keys)}"
        case KeyTypes(source, kinds):
            return f"[*map(type, {say(source)})] == [{', '.join(map(say, kinds))}]"
        case Length(source, symbol, length):
            return f"len({say(source)}) {symbol} {length}"
        case OfDType(source, dtype, is_same):
            return f"{say(source)}.dtype {'is' if is_same else '=='} {say(dtype)}"
        case Axis(source, part, axis, value):
            return f"{say(source)}.{part}[{axis}] == {value}"
        case Keeps(source, name):
            return f"[{name} := {say(source)}]"
    raise AssertionError(guard)
