"""Operators of lists, dicts, sets and tuples that change none: unions and the like, and comparisons."""

from __future__ import annotations

from typing import Any

from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import containers, forward, operators
from npcompile.tracer.python.operators import plain
from npcompile.tracer.values import Constant, DictView, Mapping, RangeValue, Sequence, SetValue


@forward.container_binary.defined
def set_operator(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """`left | right` and the like of sets, dicts, and views of dicts."""
    match left, right:
        case (Mapping(), Mapping()) if symbol == "|":
            return Mapping({**left.items, **right.items})
        case (SetValue() | DictView(), SetValue() | DictView()) if symbol in ("|", "&", "-", "^"):
            found = operators.BINARY[symbol](as_set(capture, left), as_set(capture, right))
            return containers.lift_set(found)
    return NotImplemented


def as_set(capture: Capture, value: SetValue | DictView) -> Any:
    if isinstance(value, SetValue):
        capture.guard_order(value)
        return value.items
    if value.kind != "keys":
        raise Decline(f"a set of {value.kind}()")
    return value.owner.items.keys()  # which gives sets in another order than a set of the keys


@forward.container_compare.defined
def compare_containers(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """Comparisons of sets, dicts, and sequences in their order."""
    match left, right:
        case (SetValue() | DictView(), SetValue() | DictView()):
            return Constant(operators.COMPARE[symbol](as_set(capture, left), as_set(capture, right)))
        case (Mapping(), Mapping()) if symbol in ("==", "!="):
            return Constant(equal_dicts(capture, left, right) == (symbol == "=="))
        case (Sequence(), Sequence()) if symbol not in ("==", "!=") and left.plain_kind is right.plain_kind:
            return ordered_sequences(capture, symbol, left, right)
        case (RangeValue(), RangeValue()) if symbol in ("==", "!="):
            return Constant((plain(capture, left) == plain(capture, right)) == (symbol == "=="))
    return NotImplemented


def equal_dicts(capture: Capture, left: Mapping, right: Mapping) -> bool:
    if left.items.keys() != right.items.keys():
        return False
    pairs = [(left.items[k], right.items[k]) for k in left.items]
    return operators.equal_sequences(capture, Sequence(tuple, [a for a, _ in pairs]), Sequence(tuple, [b for _, b in pairs]))


def ordered_sequences(capture: Capture, symbol: str, left: Sequence, right: Sequence) -> Any:
    """The first items that differ decide, then the lengths."""
    for a, b in zip(left.items, right.items):
        if not operators.equal_sequences(capture, Sequence(tuple, [a]), Sequence(tuple, [b])):
            return operators.compare(capture, symbol, capture.realize(a), capture.realize(b))
    return Constant(operators.COMPARE[symbol](len(left.items), len(right.items)))
