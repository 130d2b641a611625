"""Objects that are no numbers, arrays or lists: None, strings, and what else an argument may be. What is asked of them."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.types import Object, Scalar
from npcompile.tracer.loop_ir import numbers
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Record, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.number_functions import value_of

TEXTS = ("'", '"')


def name_of(b: Builder, x: Abstract) -> str | None:
    """The text of None or of a string, or the class of another object; None for a number or an array."""
    match x:
        case Known(None | str() as found):
            return repr(found)
        case Value(value) if isinstance(kind := b.type(value), Object):
            return kind.name
    return None


def is_same(b: Builder, left: Abstract, right: Abstract) -> bool:
    """`left is right`, where one is None."""
    names = name_of(b, left), name_of(b, right)
    if "None" not in names or not all(isinstance(x, Value | Known | Tuple) for x in (left, right)):
        raise Unsupported("a comparison of identities")
    return names[0] == names[1]


def compared(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract | None:
    """`left == right` or `!=`, where one is None, a string or another object. None where neither is."""
    names = name_of(b, left), name_of(b, right)
    if names == (None, None):
        return None
    if symbol not in ("==", "!=") or None not in names and not any(name == "None" or name[0] in TEXTS for name in names if name):
        raise Unsupported(f"the comparison {symbol} of objects")
    other = left if names[0] is None else right
    kind = b.type(other.value) if isinstance(other, Value) else None
    if None in names and "int" in names:
        raise Unsupported("a comparison with an integer of more than 64 bits")
    if None in names and (not isinstance(kind, Scalar) or kind.is_numpys and "None" not in names):
        raise Unsupported("a comparison of an object with an array, or a number of NumPy's with a string")
    return Value(b.constant((names[0] == names[1]) is (symbol == "==")))


def is_among(b: Builder, x: Abstract, items: Abstract) -> int:
    """`x in items`, for a number and a tuple of numbers."""
    if not isinstance(items, Tuple) or not items.items:
        raise Unsupported("a membership test of this")
    tests = [numbers.truth(b, numbers.compare(b, "==", value_of(x), value_of(item))) for item in items.items]
    found, *rest = tests
    for each in rest:
        found = b.let("bitwise_or", found, each)
    return found


def truth(b: Builder, x: Abstract) -> int:
    """A number that is true where the object is."""
    name = name_of(b, x)
    if isinstance(x, Tuple) or isinstance(x, Record) and not x.has_attributes:
        return b.constant(bool(x.items))
    if name is None:
        value = value_of(x)
        if not isinstance(b.type(value), Scalar):
            raise Unsupported("the truth value of an array or a list")
        return value
    if name != "None" and name[0] not in TEXTS:
        raise Unsupported(f"the truth value of a {name}")
    return b.constant(name not in ("None", "''"))
