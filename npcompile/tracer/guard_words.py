"""Guards in words, one by one, and sources as the user would write them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from npcompile.tensor_core.guards import (
    All,
    Binds,
    Either,
    Equals,
    Guard,
    HasAttribute,
    HasKey,
    Is,
    Keeps,
    Keys,
    KeyTypes,
    Length,
    Truth,
)
from npcompile.tensor_core.source import GLOBALS, UNBOUND, Attribute, Call, Item, Literal, Name, Object, Source
from npcompile.tracer.guard_text import text_of

Say = Callable[[Source], str]
PLAIN = (type(None), bool, int, float, complex, str, bytes)  # what says itself what it is
LONGEST = 80  # characters of what a guard computes, as part of another
LENGTHS = {"==": "", ">": "more than ", ">=": "at least "}
KINDS: dict[type, str] = {
    types.FunctionType: "function",
    types.BuiltinFunctionType: "function",
    types.WrapperDescriptorType: "function",
    types.CodeType: "code",
    types.ModuleType: "module",
    type: "class",
}


def spoken(guards: Iterable[Guard], names: Mapping[str, str]) -> Say:
    """What writes a source as the user would. `names` are what the user calls parameters of the generated program."""
    given = {guard.name: guard.source for guard in guards if isinstance(guard, Binds | Keeps)}
    texts: dict[str, str] = {}  # of given ones: each may be made of several that are made of the same ones

    def say(source: Source) -> str:
        match source:
            case Name(name) if name in given:
                if name not in texts:
                    text = say(given[name])
                    texts[name] = text if len(text) <= LONGEST else "(...)"
                return texts[name]
            case Name(name):
                return names.get(name, name)
            case Object(_, value):
                return label(value)
            case Item(owner, Literal(str() as name)) if owner == GLOBALS:
                return name
            case Item(Object(_, {"__name__": str() as module}), Literal(str() as name)):
                return name if module == "builtins" else f"{module}.{name}"
            case Attribute(Item(Attribute(Object(_, types.FunctionType() as f), "__closure__"), Literal(k)), "cell_contents"):
                return str(f.__code__.co_freevars[k])
        return source.write(say)

    return say


def label(value: Any) -> str:
    """What the user calls an object that does not change."""
    if isinstance(value, np.dtype):
        return str(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return name
    is_short = isinstance(value, PLAIN) and len(text := text_of_value(value)) <= 40
    return text if is_short else f"a {type(value).__qualname__}"


def text_of_value(value: Any) -> str:
    """Its `repr`, where that has one: of integers of thousands of digits Python has none, and a class may have its own."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (of the user's code, which asked for no text)
        return f"a {type(value).__qualname__}"


def counted_items(symbol: str, length: int) -> str:
    return f"{LENGTHS[symbol]}{length} item{'s' * (length != 1)}"


def sentence(guard: Guard, say: Say) -> str:
    """What one guard asks."""
    match guard:
        case Is(source, other, answer) if other == UNBOUND:
            return f"{say(source)} has {'no' if answer else 'a'} value"
        case Is(source, Object(_, None | bool() as value), answer):
            return f"{say(source)} is {'' if answer else 'not '}{value}"
        case Is(source, Object(_, value)):
            return still(guard, say(source), value) if guard.answer else f"{say(source)} is not {label(value)}"
        case Is(source, Literal(value), answer):
            return f"{say(source)} is {'' if answer else 'not '}{value}"
        case Is(source, other, True):
            return f"{say(source)} and {say(other)} are the same object"
        case Is(source, other, False):
            return f"{say(source)} and {say(other)} are different objects"
        case HasKey(source, Literal(str() as name), answer) if source == GLOBALS:
            return f"{'a' if answer else 'no'} global is called {name}"
        case HasKey(Attribute(owner, "__dict__"), Literal(str() as name), answer):
            return f"{say(owner)} has {'an' if answer else 'no'} attribute {name!r} of its own"
        case HasKey(source, key, answer):
            return f"{say(source)} has {'the' if answer else 'no'} key {say(key)}"
        case HasAttribute(source, name, answer):
            return f"{say(source)} has {'an' if answer else 'no'} attribute {name!r}"
        case Keys(source, keys):
            return f"{say(source)} has these keys or members: {say(keys)}"
        case KeyTypes(source, kinds):
            return f"{say(source)} has keys or members of types {', '.join(map(say, kinds))}"
        case Length(source, symbol, length):
            return f"{say(source)} has {counted_items(symbol, length)}"
        case Equals(source, value):
            return f"{say(source)} is equal to {say(value)}"
        case Either((Is(source), *_)):
            return f"{say(source)} is still the same"
        case Truth(Call(Attribute(_, "are_disjoint") | Object(_, types.FunctionType(__name__="are_disjoint")), (_, *arrays))):
            names = [*map(say, arrays)]
            return f"{', '.join(names)} share no memory" if names[1:] else f"no elements of {names[0]} share memory"
        case Truth(Call(), answer) | Truth(Attribute(), answer):
            return f"{say(guard.source)} is {'true' if answer else 'false'}"
        case All(guards):
            return ", ".join(sentence(each, say) for each in guards)
    return text_of(guard, say)


def still(guard: Is, name: str, value: Any) -> str:
    module = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
    if isinstance(value, np.ufunc) or module.partition(".")[0] == "numpy":
        return f"`{name}` is still NumPy's"
    return f"`{name}` is still {label(value) if isinstance(value, PLAIN) else f'the same {kind_of(value)}'}"


def kind_of(value: Any) -> str:
    return next((name for kind, name in KINDS.items() if isinstance(value, kind)), "object")
