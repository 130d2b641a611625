"""Operators of objects of classes that are written in Python: what their special methods answer."""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import running
from npcompile.tracer.python import calls, forward, identity, iteration, operators
from npcompile.tracer.python.calls import Arguments
from npcompile.tracer.python.class_attributes import MISSING, on_class
from npcompile.tracer.python.objects import class_of, function_on_class
from npcompile.tracer.values import (
    Closure,
    Comparison,
    Constant,
    DictView,
    Iterator,
    Mapping,
    Method,
    RangeValue,
    Sequence,
    SetValue,
)

SYMBOLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
UNARY_NAMES = {"-": "__neg__", "+": "__pos__", "~": "__invert__", "abs": "__abs__"}
COMPARE_NAMES = {"<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "==": "__eq__", "!=": "__ne__"}
OPERATOR_NAMES = {*SYMBOLS.values(), "lt", "le", "gt", "ge", "eq", "ne"}
REFLECTED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
WITHOUT_USER_OPERATORS = (Constant, Dim, Number, Integer, Sequence, Mapping, RangeValue, SetValue, DictView, Closure, Method)


def call_special(capture: Capture, owner: Any, name: str, *arguments: Any) -> Any:
    """A special method's answer. NotImplemented if the class has none, or if it says so."""
    function = function_on_class(capture, owner, name)
    if function is MISSING:
        return NotImplemented
    if not isinstance(function, types.FunctionType):
        raise Decline(f"{name} of an object of type {class_of(owner).__qualname__}")  # type: ignore[union-attr]
    answer = calls.call(running(capture), Constant(function), [owner, *arguments], {})
    found = capture.realize(answer)
    return NotImplemented if isinstance(found, Constant) and found.value is NotImplemented else answer


def refuses(capture: Capture, value: Any, other: Any) -> bool:
    """Does the operator of `value`, which is of no class written in Python, leave the answer to the other operand?"""
    if isinstance(value, Array):
        kind = class_of(other)
        assert kind is not None
        return on_class(capture, kind, "__array_ufunc__") is None
    return isinstance(value, WITHOUT_USER_OPERATORS)


@forward.class_binary.defined
def binary(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """The answer of the classes of the operands. NotImplemented if both are none of the user's."""
    kinds = class_of(left), class_of(right)
    if kinds == (None, None):
        return NotImplemented
    if all(k is None or issubclass(k, enum.Enum) for k in kinds):
        return of_members(capture, lambda *v: operators.binary(capture, symbol, *v), operators.BINARY[symbol], left, right)
    name, reflected = f"__{SYMBOLS[symbol]}__", f"__r{SYMBOLS[symbol]}__"
    order = [(left, name, right), (right, reflected, left)]
    if kinds[0] is not kinds[1] and None not in kinds and issubclass(kinds[1], kinds[0]):  # type: ignore[arg-type]
        if on_class(capture, kinds[1], reflected) is not on_class(capture, kinds[0], reflected):  # type: ignore[arg-type]
            order.reverse()
    elif kinds[0] is kinds[1]:
        order.pop()
    for owner, method, other in order:
        if class_of(owner) is None:
            if not refuses(capture, owner, other):
                raise Decline(f"{symbol} of {operators.describe(left)} and {operators.describe(right)}")
            continue
        answer = call_special(capture, owner, method, other)
        if answer is not NotImplemented:
            return answer
    raise Decline(f"{symbol} of {operators.describe(left)} and {operators.describe(right)}")


def of_members(capture: Capture, with_array: Callable[..., Any], function: Callable[..., Any], left: Any, right: Any) -> Any:
    """An operator of members of enums. NumPy takes one that is a number as an integer or float of its own, not as Python's."""
    operands = [left, right]
    if not any(isinstance(v, Array) for v in operands):
        values = [operators.plain(capture, v) for v in operands]
        names = {f"__{r}{n}__" for n in OPERATOR_NAMES for r in ("", "r")}
        found = [f for v in values for n, f in vars(type(v)).items() if n in names and isinstance(v, enum.Enum)]
        if any(getattr(f, "__module__", "enum") != "enum" for f in found):
            raise Decline("an enum with operators of its own")
        return operators.evaluate(lambda: function(*values))
    for k, value in enumerate(operands):
        if isinstance(value, Constant) and isinstance(value.value, enum.Enum):
            if not isinstance(value.value, (int, float)):
                raise Decline("a member of an enum and an array")
            operands[k] = Constant(np.asarray(value.value)[()])
    return with_array(*operands)


@forward.class_inplace.defined
def inplace(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    symbol = symbol.removesuffix("=")
    if class_of(left) is None:
        return NotImplemented
    answer = call_special(capture, left, f"__i{SYMBOLS[symbol]}__", right)
    return answer if answer is not NotImplemented else binary(capture, symbol, left, right)


@forward.class_unary.defined
def unary(capture: Capture, symbol: str, x: Any) -> Any:
    return call_special(capture, x, UNARY_NAMES[symbol])


@forward.class_compare.defined
def compare(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    kinds = class_of(left), class_of(right)
    if kinds == (None, None):
        return NotImplemented
    order = [(left, symbol, right), (right, REFLECTED[symbol], left)]
    if kinds[0] is not kinds[1] and None not in kinds and issubclass(kinds[1], kinds[0]):  # type: ignore[arg-type]
        order.reverse()
    for owner, sign, other in order:
        if class_of(owner) is None:
            if not refuses(capture, owner, other):
                raise Decline(f"a comparison with {operators.describe(other)}")
            continue
        if isinstance(owner, Constant) and isinstance(owner.value, (int, float, str)):
            return of_members(capture, lambda *v: operators.compare(capture, symbol, *v), operators.COMPARE[symbol], left, right)
        answer = call_special(capture, owner, COMPARE_NAMES[sign], other)
        if answer is NotImplemented and sign == "!=":
            equal = call_special(capture, owner, "__eq__", other)
            if equal is not NotImplemented:
                said = operators.truth(capture, equal)
                if not isinstance(said, Constant):
                    raise Decline("!= of objects whose == gives array data")
                answer = Constant(not said.value)
        if answer is not NotImplemented:
            return answer
    if symbol in ("==", "!="):
        return Constant(identity.is_same_object(left, right, capture) == (symbol == "=="))
    raise Decline(f"{symbol} of {operators.describe(left)} and {operators.describe(right)}")


@forward.class_truth.defined
def truth(capture: Capture, value: Any) -> Any:
    """bool(value)"""
    kind = class_of(value)
    if kind is None:
        return NotImplemented
    if isinstance(value, Constant) and isinstance(value.value, (int, str)):
        return Constant(bool(value.value))
    if function_on_class(capture, value, "__bool__") is MISSING:
        known = length(capture, value)
        return Constant(True) if known is NotImplemented else operators.truth(capture, known)
    said = capture.realize(call_special(capture, value, "__bool__"))
    if not isinstance(said, Comparison) and not (isinstance(said, Constant) and isinstance(said.value, bool)):
        raise Decline("__bool__ gives neither True nor False")
    return operators.truth(capture, said)


@forward.class_length.defined
def length(capture: Capture, value: Any) -> Any:
    if function_on_class(capture, value, "__len__") is MISSING:
        return NotImplemented
    found = capture.realize(call_special(capture, value, "__len__"))
    is_known = isinstance(found, Constant) and isinstance(found.value, int) and found.value <= sys.maxsize
    if not is_known and not isinstance(found, Dim):
        raise Decline("__len__ gives no length")
    match operators.truth(capture, operators.compare(capture, "<", found, Constant(0))):
        case Constant(False):
            return Constant(int(found.value)) if isinstance(found, Constant) else found
    raise Decline("__len__ gives less than 0")


@forward.class_contains.defined
def contains(capture: Capture, container: Any, item: Any) -> Any:
    answer = call_special(capture, container, "__contains__", item)
    if answer is not NotImplemented:
        return operators.truth(capture, answer)
    if class_of(container) is None or function_on_class(capture, container, "__iter__") is MISSING:
        return NotImplemented
    iterator = iteration.iterator_of(capture, container)
    if not isinstance(iterator, Iterator):
        raise Decline("`in` an outside iterator")
    items = iteration.items_of(capture, iterator)  # none is asked for after the one that is found
    return Constant(any(operators.contains(capture, Sequence(tuple, [each]), item) for each in items))


@forward.call_function.defined
def call_of(capture: Capture, function: Any, arguments: Arguments) -> Any:
    return calls.call(running(capture), capture.realize(function), arguments, {})


@forward.class_iter.defined
def iterator_of(capture: Capture, value: Any) -> Any:
    return call_special(capture, value, "__iter__")


@forward.class_getitem.defined
def item_of(capture: Capture, owner: Any, key: Any) -> Any:
    return call_special(capture, owner, "__getitem__", key)


@forward.class_setitem.defined
def set_item(capture: Capture, owner: Any, key: Any, value: Any) -> Any:
    return call_special(capture, owner, "__setitem__", key, value)


@forward.class_delitem.defined
def delete_item(capture: Capture, owner: Any, key: Any) -> Any:
    return call_special(capture, owner, "__delitem__", key)
