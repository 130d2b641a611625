"""Python's built-in functions on traced values; those that ask for types and attributes are in introspection.py."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Callable
from collections.abc import Iterator as AbstractIterator
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim, source_of_size
from npcompile.tensor_core.graph import FLOAT_ERRORS
from npcompile.tensor_core.guards import Truth as IsTrue
from npcompile.tensor_core.guards import within
from npcompile.tensor_core.known import known_values
from npcompile.tensor_core.meta import Decline, product
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import Call, Literal, builtin
from npcompile.tracer.constant_kinds import SYMBOLIC_INTEGERS
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import (
    arithmetic,
    containers,
    forward,
    generators,
    iteration,
    long_vectors,
    objects,
    operators,
    python_numbers,
    ranges,
    texts,
)
from npcompile.tracer.python.calls import BUILTINS, Arguments, Keywords, call_constant, captures, evaluate_call
from npcompile.tracer.python.effect_snapshot import seen_by
from npcompile.tracer.python.operators import lift, plain
from npcompile.tracer.values import (
    LONGEST,
    ArrayFlat,
    Constant,
    Deque,
    DictView,
    ErrorState,
    Iterator,
    Mapping,
    PythonNumber,
    RangeValue,
    Sequence,
    SetValue,
    SliceValue,
    TensorValue,
    Text,
    Truth,
    is_long,
)


def no_keywords(name: str, keywords: Keywords) -> None:
    if keywords:
        raise Decline(f"{name} with keywords")


@captures(len)
def call_len(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Array() as x]:
            if not x.ndim:
                raise Decline("len() of unsized object")
            return lift(x.shape[0])
        case [ArrayFlat(x)]:
            return lift(product(x.shape))
        case [TensorValue() as x]:
            return call_len(frame, [x.array], keywords)
        case [x] if is_long(x):
            return frame.capture.length_of_long(x)
        case [Sequence() | Mapping() | SetValue() | Deque() as x]:
            return Constant(len(x.items))
        case [DictView() as x]:
            return Constant(len(x.owner.items))
        case [Text()]:
            return texts.asked(frame.capture, "len({})", len, positional)
        case [RangeValue() as x]:
            if ranges.count_now(x) > sys.maxsize:
                raise Decline("len() of a range that is too long")
            return lift(ranges.length(frame.capture, x))
    if len(positional) == 1:
        found = forward.class_length(frame.capture, positional[0])
        if found is not NotImplemented:
            return found
    return operators.evaluate_pure(frame.capture, len, *positional)


@captures(range)
def call_range(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords("range", keywords)
    if not 1 <= len(positional) <= 3 or not all(isinstance(p, (Constant, Dim)) for p in positional):
        raise Decline("range() of an object that is not an integer")
    parts = [
        p if isinstance(p, Dim) else Constant(operator.index(p.value)) if hasattr(p.value, "__index__") else None
        for p in positional
    ]
    if None in parts:
        raise Decline("range() of an object that is not an integer")
    step = plain(frame.capture, parts[2]) if len(parts) == 3 else 1
    if step == 0:
        raise Decline("range() arg 3 must not be zero")
    start, stop = (Constant(0), parts[0]) if len(parts) == 1 else parts[:2]
    return RangeValue(start, stop, step)


def call_sequence_type(kind: type, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords(kind.__name__, keywords)
    given = frame.capture.realize(positional[0]) if len(positional) == 1 else None
    if kind is tuple and isinstance(given, Sequence) and given.kind is tuple:
        return given
    return Sequence(kind, iteration.iterate(frame.capture, positional[0]) if positional else [])


BUILTINS |= {kind: functools.partial(call_sequence_type, kind) for kind in (tuple, list)}


@captures(dict)
def call_dict(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) > 1:
        raise Decline("dict expected at most 1 argument")
    return containers.mapping_of(frame.capture, *positional, **keywords)


def call_set_type(kind: type, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords(kind.__name__, keywords)
    if len(positional) > 1:
        raise Decline(f"{kind.__name__} expected at most 1 argument")
    return containers.lift_set(kind(containers.members(frame.capture, positional[0]) if positional else ()))


BUILTINS |= {kind: functools.partial(call_set_type, kind) for kind in (set, frozenset)}


@captures(iter)
def call_iter(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) == 2:
        return until(frame, *positional)
    if len(positional) != 1:
        raise Decline("iter() with more than two arguments")
    return iteration.iterator_of(frame.capture, positional[0])


def until(frame: Frame, function: Any, last: Any) -> Iterator:
    """iter(function, last): what calls of the function give, until it is `last`."""
    capture = frame.capture

    def items() -> AbstractIterator[Any]:
        while True:
            item = forward.call_function(capture, function, [])
            if operators.contains(capture, Sequence(tuple, [item]), capture.realize(last)):
                return
            yield item

    return iteration.lazily(capture, Constant(iter), [function, last], items)


@captures(next)
def call_next(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if not isinstance(positional[0], Iterator):
        raise Decline("next() of an iterator from outside")
    had_ended = positional[0].is_exhausted
    item = iteration.next_item(frame.capture, positional[0])
    if item is None:
        if len(positional) < 2:
            raise generators.stop_iteration(None if had_ended else positional[0])
        return positional[1]
    return item


@captures(enumerate)
def call_enumerate(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    start = keywords.get("start", positional[1] if len(positional) > 1 else Constant(0))
    inner = iteration.iterator_of(frame.capture, positional[0])
    if not isinstance(inner, Iterator):
        raise Decline("enumerate() over an outside iterator")
    return Iterator("enumerate", [inner], start=plain(frame.capture, start))


@captures(zip)
def call_zip(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    strict = operators.truth(frame.capture, keywords.get("strict", Constant(False)))
    if keywords.keys() - {"strict"} or not isinstance(strict, Constant):
        raise Decline("arguments that zip() does not take")
    parts = [iteration.iterator_of(frame.capture, p) for p in positional]
    if not all(isinstance(p, Iterator) for p in parts):
        raise Decline("zip() over an outside iterator")
    if strict.value and any(is_long(owner) for part in parts for owner in part.parts):
        raise Decline("zip() of a long container asks whether it is as long as others")
    if (
        strict.value
        and len({iteration.remaining(p) for p in parts} - {None}) + any(iteration.remaining(p) is None for p in parts) > 1
    ):
        raise Decline("zip() of parts of different lengths")
    return Iterator("zip", parts)


@captures(reversed)
def call_reversed(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional[0]:
        case RangeValue() as span:
            return Iterator("range", [ranges.backwards(frame.capture, span)])
        case Sequence() as owner:
            return iteration.over_container(frame.capture, "reversed", [owner], start=len(owner.items) - 1)
        case Array() | TensorValue() as x:
            iteration.iterable(x.array if isinstance(x, TensorValue) else x)
            return Iterator("reversed", [x], start=iteration.rows_of(x) - 1)
        case Mapping() as owner:
            return iteration.over_view(frame.capture, DictView("keys", owner), backwards=True)
        case DictView() as view:
            return iteration.over_view(frame.capture, view, backwards=True)
        case Constant(str() | bytes() as text) if len(text) <= LONGEST:
            return Iterator("reversed", [Sequence(tuple, [Constant(c) for c in text])], start=len(text) - 1)
    raise Decline(f"reversed() of {operators.describe(positional[0])}")


@captures(map)
def call_map(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords("map", keywords)
    function, *parts = positional
    iterators = [iteration.iterator_of(frame.capture, p) for p in parts]
    if not parts or not all(isinstance(i, Iterator) for i in iterators):
        raise Decline("map() over an outside iterator")
    return Iterator("map", [function, *iterators])


@captures(filter)
def call_filter(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords("filter", keywords)
    function, items = positional
    source = iteration.iterator_of(frame.capture, items)
    if not isinstance(source, Iterator):
        raise Decline("filter() over an outside iterator")
    return Iterator("filter", [function, source])


@captures(sum)
def call_sum(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    vector = long_vectors.long_vector(frame.capture, positional, keywords)
    if vector is not None and (found := long_vectors.sum_of_elements(frame.capture, vector)) is not None:
        return found
    total = keywords.get("start", positional[1] if len(positional) > 1 else Constant(0))
    for item in iteration.iterate(frame.capture, positional[0]):
        total = operators.binary(frame.capture, "+", frame.capture.realize(total), frame.capture.realize(item))
    return total


@captures(abs)
def call_abs(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    x = positional[0]
    if isinstance(x, (Array, TensorValue)):
        return operators.unary(frame.capture, "abs", x)
    if isinstance(x, Dim):
        return abs(x)
    if objects.class_of(x) is not None:
        return operators.unary(frame.capture, "abs", x)
    if isinstance(x, Integer):
        return arithmetic.integer(frame.capture, Call(builtin(abs), x.source), abs(x.hint))
    if isinstance(x, Number):
        return Number.computed(x.env, Call(builtin(abs), x.source), abs(x.hint))
    return operators.evaluate_pure(frame.capture, abs, x)


@captures(min)
def call_min(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return extreme(frame, "<", min, positional, keywords)


@captures(max)
def call_max(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return extreme(frame, ">", max, positional, keywords)


def extreme(frame: Frame, symbol: str, function: Callable[..., Any], positional: Arguments, keywords: Keywords) -> Any:
    """The first of the items that no other one is smaller, or larger, than."""
    capture = frame.capture
    key, default = keywords.get("key", Constant(None)), keywords.get("default")
    if keywords.keys() - {"key", "default"} or (default is not None and len(positional) > 1):
        raise Decline(f"arguments that {function.__name__}() does not take")
    vector = long_vectors.long_vector(capture, positional, keywords)
    if vector is not None and (found := long_vectors.extreme_element(capture, vector, function.__name__)) is not None:
        return found
    items = positional if len(positional) > 1 else iteration.iterate(capture, positional[0])
    if not items:
        if default is None:
            raise Decline(f"{function.__name__}() of nothing")
        return default
    has_key = not operators.is_none(capture.realize(key))
    if not has_key and (found := arithmetic.extreme(capture, function, [capture.realize(v) for v in items])) is not None:
        return found
    keys = [capture.realize(forward.call_function(capture, key, [v]) if has_key else v) for v in items]
    best = 0
    for k in range(1, len(items)):
        answer = operators.truth(capture, operators.compare(capture, symbol, keys[k], keys[best]))
        if not isinstance(answer, Constant):
            raise Decline(f"{function.__name__}() of array data", "np.minimum and np.maximum stay in the graph.")
        if answer.value:
            best = k
    return items[best]


def ask_items(stops_at: bool, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """any() stops at the first true item, all() at the first false one. Of array data they are a question to it too."""
    asked: list[Truth] = []
    known, before = not stops_at, None  # what data may stop from happening
    iterator = iteration.iterator_of(frame.capture, frame.capture.realize(positional[0]))
    if not isinstance(iterator, Iterator):
        raise Decline("any() or all() of an outside iterator")
    for item in itertools.islice(iteration.items_of(frame.capture, iterator), LONGEST):
        answer = operators.truth(frame.capture, frame.capture.realize(item))
        if isinstance(answer, Truth):
            before = before or seen_by(frame)
            asked.append(answer)
        elif bool(answer.value) == stops_at:
            asked, known = [], stops_at
            break
    if before is not None and seen_by(frame)[0] != before[0]:
        raise Decline("any() or all() of array data, where asking has effects")
    return operators.either(frame.capture, asked, "logical_or" if stops_at else "logical_and") if asked else Constant(known)


BUILTINS[any] = functools.partial(ask_items, True)
BUILTINS[all] = functools.partial(ask_items, False)


@captures(bool)
def call_bool(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    answer = operators.truth(frame.capture, positional[0]) if positional else Constant(False)
    return answer if isinstance(answer, Constant) else operators.either(frame.capture, [answer], "logical_or")


@captures(int)
def call_int(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Dim() | Integer() as n]:
            return n
        case [Array(ndim=0) as x] if x.dtype.kind in "iu" and isinstance(n := known_values(x.node), Dim):
            return n
        case [Number(source=source, hint=float() as value) as x] if x.type is float:
            if not -SYMBOLIC_INTEGERS.stop < value < SYMBOLIC_INTEGERS.stop:
                raise Decline("int() of a large number")
            limits = Literal(-SYMBOLIC_INTEGERS.stop), source, Literal(SYMBOLIC_INTEGERS.stop)
            frame.capture.guard(within(*limits, ("<", "<")))
            return arithmetic.traced_integer(frame.capture, Call(builtin(int), source), int(value))
    return conversion(frame, int, positional, keywords)


@captures(float)
def call_float(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Number() as x] if x.type is float:
            return x
        case [Integer() as n]:
            return arithmetic.as_float(n)
        case [Dim() as n]:
            return Number.computed(frame.capture.builder.env, Call(builtin(float), source_of_size(n)), float(n.hint))
    return conversion(frame, float, positional, keywords)


def conversion(frame: Frame, kind: type, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [PythonNumber() as x] if x.kind is kind:
            return x
        case [Array() as x] if frame.capture.known_contents(x) is None:
            made = python_numbers.made_of(frame.capture, kind, x)
            if made is None:
                raise Decline(f"{kind.__name__}() of array data", "A NumPy scalar or 0-D array stays in the graph.")
            return made
    return evaluate_call(frame, kind, positional, keywords)


@captures(slice)
def call_slice(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    none = Constant(None)
    match positional:
        case [stop]:
            return SliceValue(none, stop, none)
        case [start, stop]:
            return SliceValue(start, stop, none)
        case [start, stop, step]:
            return SliceValue(start, stop, step)
    raise Decline("slice() without arguments")


@captures(sorted)
def call_sorted(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1 or keywords.keys() - {"key", "reverse"}:
        raise Decline("arguments that sorted() does not take")
    items = iteration.iterate(frame.capture, positional[0])
    key, reverse = keywords.get("key", Constant(None)), keywords.get("reverse", Constant(False))
    return Sequence(list, containers.in_order(frame.capture, items, key, reverse))


@captures(np.errstate)
def call_errstate(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    settings = {k: plain(frame.capture, v) for k, v in keywords.items()}
    if positional or any(v not in ("ignore", "warn") for k, v in settings.items()):
        raise Decline("np.errstate that raises, calls, prints or logs")
    warned = tuple(c for c in sorted(FLOAT_ERRORS) if settings.get(c, settings.get("all")) == "warn")
    if warned:  # a program reports what np.errstate does not ignore where it is called
        if not are_reported(warned):
            raise Decline("np.errstate that warns of what is ignored outside")
        frame.capture.guard(IsTrue(Call(frame.capture.object_of(are_reported), Literal(warned))))
    return ErrorState(settings)


def are_reported(categories: tuple[str, ...]) -> bool:
    settings = np.geterr()
    return all(settings[category] != "ignore" for category in categories)


def call_pure(function: Callable[..., Any], frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords(function.__name__, keywords)
    if any(isinstance(p, (Dim, Number)) for p in positional):
        raise Decline(f"{function.__name__}() of a traced number")
    return operators.evaluate_pure(frame.capture, function, *positional)


BUILTINS |= {f: functools.partial(call_pure, f) for f in (ord, chr, hash)}


def call_text(kind: Callable[..., str], frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Texts of numbers from outside, without fixing them."""
    match positional:
        case [Text() as text] if kind is str and not keywords:
            return text
        case [value] if not keywords:
            made = texts.text_of(frame.capture, f"{kind.__name__}({{}})", kind, [value])
            if made is not None:
                return made
        case [value, Constant(str() as spec)] if kind is format and not keywords:
            made = texts.formatted(frame.capture, None, spec, value)
            if made is not None:
                return made
    return call_pure(kind, frame, positional, keywords)


BUILTINS |= {f: functools.partial(call_text, f) for f in (str, repr, ascii, format, hex, bin, oct)}


@captures(divmod)
def call_divmod(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if any(isinstance(p, (Array, TensorValue)) for p in positional):
        return call_constant(frame, np.divmod, positional, keywords)
    if any(isinstance(p, (Dim, Number, Integer)) for p in positional) and len(positional) == 2:
        return Sequence(tuple, [operators.binary(frame.capture, symbol, *positional) for symbol in ("//", "%")])
    return call_pure(divmod, frame, positional, keywords)


@captures(round)
def call_round(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Dim() | Integer() as n]:
            return n
        case [Number(hint=float()) as x, digits] if not operators.is_none(digits):
            count = operator.index(plain(frame.capture, digits))
            rounded = Call(builtin(round), x.source, Literal(count))
            return Number.computed(x.env, rounded, round(float(x.hint.real), count))
    return call_pure(round, frame, positional, keywords)


@captures(pow)
def call_pow(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) == 2 and any(isinstance(p, (Array, TensorValue)) for p in positional):
        return operators.binary(frame.capture, "**", *positional)
    return call_pure(pow, frame, positional, keywords)
