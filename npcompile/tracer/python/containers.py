"""Lists, dicts, sets and tuples: their methods, and what changes them."""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, effects, forward, iteration, operators
from npcompile.tracer.python.calls import Arguments, Keywords
from npcompile.tracer.python.operators import constant_key, lift, plain
from npcompile.tracer.raising import raises
from npcompile.tracer.rebuilding import maker_of
from npcompile.tracer.values import (
    Constant,
    Deque,
    DictView,
    Iterator,
    Mapping,
    OutsideSequence,
    RangeValue,
    Sequence,
    SetValue,
    SliceValue,
)

NONE, FALSE, LAST = Constant(None), Constant(False), Constant(-1)

# --- what changes a container


def change(capture: Capture, owner: Any, text: str, *values: Any, resizes: bool = True) -> None:
    """The container is changed: one from outside by `text` at the end of the program; its items here, by the caller.

    `resizes`: does a dict get other keys, or a set other members?
    """
    if owner.source is None:
        capture.require_no_body("a container is changed")
    else:
        effects.change(capture, owner, text, *values)
    if not isinstance(owner, Sequence):  # iterators over lists only ask for the next place
        owner.resizes += resizes


def index_in(capture: Capture, owner: Sequence, key: Any) -> int | slice:
    """A constant index or slice of the list."""
    index = plain(capture, key)
    if isinstance(index, np.integer):
        index = int(index)
    if isinstance(index, slice):
        return index
    if not isinstance(index, int) or not -len(owner.items) <= index < len(owner.items):
        raise Decline(f"index {index!r} of a {owner.kind.__name__} of length {len(owner.items)}")
    return index


@forward.container_setitem.defined
def set_item(capture: Capture, owner: Any, key: Any, value: Any) -> Any:
    match owner:
        case Sequence() if owner.kind is list:
            index = index_in(capture, owner, key)
            if isinstance(index, slice):
                items = iteration.iterate(capture, capture.realize(value))
                if index.step not in (None, 1) and len(range(*index.indices(len(owner.items)))) != len(items):
                    raise Decline("an extended slice of another size is assigned")
                change(capture, owner, "{0}[{1}] = {2}", constant_slice(index), Sequence(tuple, items))
                owner.items[index] = items
            else:
                change(capture, owner, "{0}[{1}] = {2}", Constant(index), value)
                owner.items[index] = value
        case Mapping():
            name = key_of(capture, owner, key)
            change(capture, owner, "{0}[{1}] = {2}", lift(name), value, resizes=name not in owner.items)
            owner.items[name] = value
        case _:
            return NotImplemented
    return None


def constant_slice(index: slice) -> SliceValue:
    return SliceValue(Constant(index.start), Constant(index.stop), Constant(index.step))


def key_of(capture: Capture, owner: Any, key: Any) -> Any:
    """A key under which something is put. No integer that changes is made a constant for a container from outside."""
    key = capture.realize(key)
    if owner.source is not None and isinstance(key, Dim) and key.symbols():
        raise Decline("a container from outside is changed under a key that is not a constant")
    return constant_key(capture, key)


@forward.container_delitem.defined
def delete_item(capture: Capture, owner: Any, key: Any) -> Any:
    match owner:
        case Sequence() if owner.kind is list:
            index = index_in(capture, owner, key)
            change(capture, owner, "del {0}[{1}]", constant_slice(index) if isinstance(index, slice) else Constant(index))
            del owner.items[index]
        case Mapping() if (name := constant_key(capture, key)) in owner.items:
            change(capture, owner, "del {0}[{1}]", lift(name))
            del owner.items[name]
        case Mapping():
            raise raises(KeyError, constant_key(capture, key))
        case _:
            return NotImplemented
    return None


ADDED_TO_LISTS = (Sequence, Mapping, SetValue, DictView, RangeValue, Iterator, Constant)


@forward.container_inplace.defined
def change_in_place(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """`left += right` of a list, `|=` of a dict, and the like of a set."""
    match left:
        case Sequence() if left.kind is list and symbol == "+=":
            right = capture.realize(right)
            if not isinstance(right, ADDED_TO_LISTS):  # an array, or an object of the user's, is asked for __radd__ first
                return NotImplemented
            extend(capture, left, right)
        case Sequence() if left.kind is list and symbol == "*=":
            made = operators.binary(capture, "*", left, right)
            if not isinstance(made, Sequence):  # by an array
                return made
            change(capture, left, "{0}[:] = {1}", Sequence(tuple, made.items))
            left.items[:] = made.items
        case Mapping() if symbol == "|=" and isinstance(right, Mapping):
            update(capture, left, right)
        case SetValue() if left.kind is set and isinstance(right, SetValue) and symbol in SET_CHANGES:
            change_set(capture, left, SET_CHANGES[symbol], [right])
        case _:
            return NotImplemented
    return left


def extend(capture: Capture, owner: Sequence, items: Any) -> None:
    added = iteration.iterate(capture, capture.realize(items))
    change(capture, owner, "changed_0 = {0}; changed_0 += {1}", Sequence(tuple, added))
    if isinstance(owner, OutsideSequence):
        owner.extend(added)
    else:
        owner.items.extend(added)


def update(capture: Capture, owner: Mapping, other: Mapping) -> None:
    added = dict(other.items)
    if added:
        text = "; ".join(f"{{0}}[{{{2 * k + 1}}}] = {{{2 * k + 2}}}" for k in range(len(added)))
        values = [v for name, value in added.items() for v in (lift(name), value)]
        change(capture, owner, text, *values, resizes=not added.keys() <= owner.items.keys())
        owner.items.update(added)


# --- methods of lists and tuples


def list_append(capture: Capture, owner: Sequence, item: Any) -> None:
    change(capture, owner, "changed_0 = {0}; changed_0 += ({1},)", item)
    if isinstance(owner, OutsideSequence):
        owner.extend([item])  # without asking how long it is
    else:
        owner.items.append(item)


def list_insert(capture: Capture, owner: Sequence, index: Any, item: Any) -> None:
    at = operator.index(plain(capture, index))
    change(capture, owner, "{0}[{1}:{1}] = ({2},)", Constant(at), item)
    owner.items.insert(at, item)


def list_pop(capture: Capture, owner: Sequence, index: Any = LAST) -> Any:
    at = index_in(capture, owner, index)
    if isinstance(at, slice):
        raise Decline("pop of a slice")
    change(capture, owner, "del {0}[{1}]", Constant(at))
    return owner.items.pop(at)


def list_remove(capture: Capture, owner: Sequence, item: Any) -> None:
    at = position_of(capture, owner, item)
    change(capture, owner, "del {0}[{1}]", Constant(at))
    del owner.items[at]


def position_of(capture: Capture, owner: Sequence, item: Any) -> int:
    item = capture.realize(item)
    for k, member in enumerate(owner.items):
        if operators.contains(capture, Sequence(tuple, [member]), item):
            return k
    raise Decline("the item is not in the list")


def list_reverse(capture: Capture, owner: Sequence) -> None:
    change(capture, owner, "{0}[:] = {0}[::-1]")
    owner.items.reverse()


def list_clear(capture: Capture, owner: Any) -> None:
    match owner:
        case Sequence():
            change(capture, owner, "del {0}[:]")
        case _:
            text = "; ".join(f"del {{0}}[{{{k + 1}}}]" for k in range(len(owner.items)))
            change(capture, owner, text, *map(lift, owner.items))
    owner.items.clear()


def list_copy(capture: Capture, owner: Sequence) -> Sequence:
    return Sequence(list, list(owner.items))


def list_sort(capture: Capture, owner: Sequence, *, key: Any = NONE, reverse: Any = FALSE) -> None:
    items = in_order(capture, owner.items, key, reverse)
    change(capture, owner, "{0}[:] = {1}", Sequence(tuple, items))
    owner.items[:] = items


def in_order(capture: Capture, items: list[Any], key: Any, reverse: Any) -> list[Any]:
    """The items sorted: what is compared must be known, the items need not."""
    answer = operators.truth(capture, reverse)
    if not isinstance(answer, Constant):
        raise Decline("a sort whose direction is array data")
    is_plain = operators.is_none(capture.realize(key))
    keys = [item if is_plain else forward.call_function(capture, key, [item]) for item in items]

    def compare(a: int, b: int) -> int:
        for sign, (x, y) in ((-1, (a, b)), (1, (b, a))):
            less = operators.truth(capture, operators.compare(capture, "<", capture.realize(keys[x]), capture.realize(keys[y])))
            if not isinstance(less, Constant):
                raise Decline("a sort by array data")
            if less.value:
                return sign
        return 0

    order = sorted(range(len(items)), key=functools.cmp_to_key(compare), reverse=bool(answer.value))
    return [items[k] for k in order]


def count(capture: Capture, owner: Sequence, item: Any) -> Constant:
    item = capture.realize(item)
    return Constant(sum(operators.contains(capture, Sequence(tuple, [member]), item) for member in owner.items))


def index_of(capture: Capture, owner: Sequence, item: Any) -> Constant:
    return Constant(position_of(capture, owner, item))


def length_of(capture: Capture, owner: Any) -> Constant:
    return Constant(len(owner.items))


# --- methods of dicts


def dict_get(capture: Capture, owner: Mapping, key: Any, default: Any = NONE) -> Any:
    return capture.item(owner, constant_key(capture, capture.realize(key)), default)


def dict_pop(capture: Capture, owner: Mapping, key: Any, *default: Any) -> Any:
    name = constant_key(capture, capture.realize(key))
    if name not in owner.items:
        if len(default) != 1:
            raise raises(KeyError, name)
        return default[0]
    change(capture, owner, "del {0}[{1}]", lift(name))
    return owner.items.pop(name)


def dict_popitem(capture: Capture, owner: Mapping) -> Any:
    if not owner.items:
        raise Decline("popitem(): dictionary is empty")
    change(capture, owner, "del {0}[{1}]", lift([*owner.items][-1]))
    name, value = owner.items.popitem()
    return Sequence(tuple, [lift(name), value])


def dict_setdefault(capture: Capture, owner: Mapping, key: Any, default: Any = NONE) -> Any:
    name = key_of(capture, owner, key)
    if name not in owner.items:
        change(capture, owner, "{0}[{1}] = {2}", lift(name), default)
        owner.items[name] = default
    return owner.items[name]


def dict_update(capture: Capture, owner: Mapping, *others: Any, **named: Any) -> None:
    if len(others) > 1:
        raise Decline("update expected at most 1 argument")
    update(capture, owner, mapping_of(capture, *others, **named))


def mapping_of(capture: Capture, *others: Any, **named: Any) -> Mapping:
    """dict(*others, **named)"""
    items: dict[Any, Any] = {}
    for other in map(capture.realize, others):
        if isinstance(other, Mapping):
            items.update(other.items)
            continue
        for pair in iteration.iterate(capture, other):
            key, value = iteration.iterate(capture, capture.realize(pair))
            items[constant_key(capture, key)] = value
    return Mapping(items | named)


def dict_copy(capture: Capture, owner: Mapping) -> Mapping:
    return Mapping(dict(owner.items))


def dict_view(kind: str, capture: Capture, owner: Mapping) -> DictView:
    return DictView(kind, owner)


# --- methods of sets


SET_CHANGES = {"|=": "update", "&=": "intersection_update", "-=": "difference_update", "^=": "symmetric_difference_update"}
SET_QUESTIONS = (
    *("union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "copy"),
)


def members(capture: Capture, value: Any) -> Any:
    """A container of the members of something, from which sets come in the same order as from it."""
    value = capture.realize(value)
    if isinstance(value, SetValue):
        capture.guard_order(value)
        return value.items
    if isinstance(value, Constant) and isinstance(value.value, frozenset):
        return value.value
    found = dict.fromkeys(constant_key(capture, v) for v in iteration.iterate(capture, value))
    return found if isinstance(value, Mapping) else [*found]


def change_members(capture: Capture, owner: SetValue, text: str, values: list[Any], name: str, *given: Any) -> None:
    """`owner.name(*given)`, which is noted for one made here: a set's order is that of its history."""
    assert isinstance(owner.items, set)
    maker = owner.maker or require_known_order(owner.items)
    change(capture, owner, text, *values)
    if owner.source is None:
        owner.maker = maker
        owner.changes.append((name, tuple(each.copy() if isinstance(each, set) else each for each in given)))
    getattr(owner.items, name)(*given)


def change_set(capture: Capture, owner: SetValue, name: str, given: list[Any]) -> None:
    others = [members(capture, g) for g in given]
    symbol = next(symbol for symbol, method in SET_CHANGES.items() if method == name)
    statements = ["changed_0 = {0}", *(f"changed_0 {symbol} {{{k + 1}}}" for k in range(len(others)))]
    change_members(capture, owner, "; ".join(statements), [Constant(frozenset(each)) for each in others], name, *others)


def set_method(name: str, capture: Capture, owner: SetValue, *given: Any) -> Any:
    if name in SET_QUESTIONS:
        return lift_set(getattr(owner.items, name)(*(members(capture, g) for g in given)))
    if owner.kind is frozenset:
        raise Decline(f"frozenset.{name}")
    if name in SET_CHANGES.values():
        change_set(capture, owner, name, [*given])
        return Constant(None)
    if name in ("add", "discard", "remove") and len(given) == 1:
        key = key_of(capture, owner, given[0])
        if name == "remove" and key not in owner.items:
            raise raises(KeyError, key)
        text = f"changed_0 = {{0}}; changed_0 {'|' if name == 'add' else '-'}= {{{{{{1}}}}}}"
        change_members(capture, owner, text, [lift(key)], name, key)
        return Constant(None)
    if name == "clear" and not given:
        change_members(capture, owner, "changed_0 = {0}; changed_0 -= changed_0", [], name)
        return Constant(None)
    raise Decline(f"set.{name}")


def require_known_order(items: set[Any]) -> tuple[Callable[[Any], set[Any]], Any]:
    made = maker_of(items)
    if made is None:
        raise Decline("a set in whose order there is more than its members")
    return made


def lift_set(result: Any) -> Any:
    if isinstance(result, set):
        require_known_order(result)
    return SetValue(result) if isinstance(result, (set, frozenset)) else Constant(result)


# --- the methods by name


METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    list: {
        "append": list_append, "extend": extend, "pop": list_pop, "insert": list_insert, "reverse": list_reverse,
        "copy": list_copy, "index": index_of, "count": count, "remove": list_remove, "clear": list_clear, "sort": list_sort,
        "__len__": length_of,
    },
    tuple: {"index": index_of, "count": count, "__len__": length_of},
    dict: {
        "get": dict_get, "items": functools.partial(dict_view, "items"), "keys": functools.partial(dict_view, "keys"),
        "values": functools.partial(dict_view, "values"), "pop": dict_pop, "update": dict_update, "setdefault": dict_setdefault,
        "copy": dict_copy, "popitem": dict_popitem, "clear": list_clear, "__len__": length_of,
    },
    set: {
        name: functools.partial(set_method, name)
        for name in (*SET_QUESTIONS, *SET_CHANGES.values(), "add", "discard", "remove", "clear")
    },
}  # fmt: skip
METHODS[frozenset] = {name: METHODS[set][name] for name in SET_QUESTIONS}


def kind_of(owner: Any) -> type | None:
    """The container's type, as far as its methods go."""
    match owner:
        case Sequence():
            return owner.plain_kind
        case Mapping():
            return dict
        case SetValue():
            return owner.kind
        case Deque():
            return collections.deque
    return None


@forward.container_method.defined
def call_method(frame: Frame, owner: Any, name: str, positional: Arguments, keywords: Keywords) -> Any:
    capture = frame.capture
    if isinstance(owner, Constant):
        return call_library_dict(capture, owner.value, name, positional, keywords)
    kind = kind_of(owner)
    assert kind is not None
    try:
        result = METHODS[kind][name](capture, owner, *positional, **keywords)
    except (TypeError, ValueError) as error:  # arguments that it does not take: Python raises its own
        raise Decline(f"{kind.__name__}.{name}: {error}") from None
    return Constant(None) if result is None else result


def call_library_dict(capture: Capture, owner: dict[Any, Any], name: str, positional: Arguments, keywords: Keywords) -> Any:
    """A method of a dict that a library's module holds. What it only reads is guarded: sys.modules, what was computed before."""
    match name, positional:
        case "get", [key, *default] if len(default) <= 1 and not keywords:
            key = operators.constant_key(capture, key)
            if key in operators.library_keys(capture, owner, key):
                return lift(owner[key])
            return default[0] if default else Constant(None)
        case (("keys" | "values" | "items"), []):
            return lift(list(getattr(owner, name)()))
    raise Decline(f"{name} of a dict of a library")


def of_its_type(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """`list.append(items, x)`: a method taken from its type."""
    owner = frame.capture.realize(positional[0]) if positional else None
    kind = kind_of(owner)
    if kind is not None and kind is function.__objclass__ and function.__name__ in METHODS[kind]:
        return call_method(frame, owner, function.__name__, positional[1:], keywords)
    if isinstance(owner, Constant) and isinstance(owner.value, operators.PURE_TYPES):
        return calls.evaluate_call(frame, function, positional, keywords)
    raise Decline(f"{calls.function_name(function)} is not captured")


calls.CALLED_BY_TYPE[type(list.append)] = of_its_type
calls.CALLED_BY_TYPE[type(str.__len__)] = of_its_type


@forward.taken.defined
def taken(capture: Capture, value: Any) -> Any:
    """An argument of a method of str and the like, which takes all items of an iterator."""
    value = capture.realize(value)
    return Sequence(list, iteration.iterate(capture, value)) if isinstance(value, (Iterator, DictView)) else value
