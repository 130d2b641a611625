"""Tuples and dicts whose items are known one by one: joined, compared, and spread over the arguments of a call."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.tracer.loop_ir.abstract import Abstract, Known, Partial, Record, Tuple, Unsupported, in_words
from npcompile.tracer.loop_ir.builder import Builder


def joined(symbol: str, left: Tuple, right: Tuple) -> Tuple:
    """`left + right`: of tuples one of the two where the other is empty, as CPython has it."""
    if left.is_list and right.is_list and symbol == "+":
        return Tuple((*left.items, *right.items), True)
    if symbol not in ("+", "+=") or left.is_list or right.is_list:
        raise Unsupported(f"the operator {symbol} of tuples or lists")
    for one, other in ((left, right), (right, left)):
        if not one.items and not other.names:
            return other
    return Tuple((*left.items, *right.items))


def made_of(x: Abstract, is_list: bool) -> Tuple:
    """`tuple(x)` or `list(x)`: a tuple is the tuple of itself."""
    if not isinstance(x, Tuple):
        raise Unsupported(f"a tuple or list of {in_words(x)}")
    return x if not is_list and not x.is_list and not x.names else Tuple(x.items, is_list)


def part(x: Tuple, start: int | None, stop: int | None, step: int) -> Tuple:
    """`x[start:stop:step]`: itself where that is all of a tuple."""
    items = x.items[start:stop:step]
    is_all = step == 1 and len(items) == len(x.items) and not x.is_list and not x.names
    return x if is_all else Tuple(items, x.is_list)


def compared(symbol: str, left: Tuple, right: Tuple) -> bool:
    """`left == right` or `!=`, where one is empty or a list and the other a tuple: nothing else asks no item."""
    if symbol not in ("==", "!=") or left.is_list is right.is_list and left.items and right.items:
        raise Unsupported("a comparison of the items of tuples or lists")
    are_equal = left.is_list is right.is_list and not left.items and not right.items
    return are_equal is (symbol == "==")


def record_of(keys: Sequence[Abstract], items: Sequence[Abstract]) -> Record:
    """A dict that the program makes."""
    names = [key.named if isinstance(key, Known) else None for key in keys]
    texts = tuple(name for name in names if isinstance(name, str))
    if len(texts) < len(names) or len({*texts}) < len(texts):
        raise Unsupported("a dict whose keys are not strings, each another one")
    return Record(texts, tuple(items))


def merged(into: Abstract, x: Abstract) -> Record:
    """The dict of keywords with those of another, of which it has none yet."""
    if not isinstance(into, Record) or not isinstance(x, Record) or x.has_attributes or into.has_attributes:
        raise Unsupported(f"keywords that are {in_words(x)}")
    if not {*into.keys}.isdisjoint(x.keys):
        raise Unsupported("keywords that are given twice")
    return Record((*into.keys, *x.keys), (*into.items, *x.items))


def spread(b: Builder, positional: Abstract, keywords: Abstract) -> tuple[list[Abstract], tuple[str, ...]]:
    """The arguments of `f(*positional, **keywords)`, of which the last ones have names."""
    if not isinstance(positional, Tuple) or not isinstance(keywords, Record) or keywords.has_attributes:
        raise Unsupported(f"arguments that are {in_words(positional, b.program.types)}, after a star")
    names = tuple(key for key in keywords.keys if isinstance(key, str))
    if len(names) < len(keywords.keys):
        raise Unsupported("keywords that are not strings")
    return [*positional.items, *keywords.items], names


def with_bound(x: Partial, args: list[Abstract], names: tuple[str, ...]) -> tuple[Abstract, list[Abstract], tuple[str, ...]]:
    """The function of a functools.partial, and what it is called with. What the call names takes the place of what is bound."""
    first, count = len(args) - len(names), len(x.args) - len(x.names)
    named = dict(zip(x.names, x.args[count:])) | dict(zip(names, args[first:]))
    return x.function, [*x.args[:count], *args[:first], *named.values()], tuple(named)
