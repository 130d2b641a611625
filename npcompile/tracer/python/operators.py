"""Python's operators, comparisons, truth and `in` on traced values."""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import types
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from npcompile.numpy_shim import operators as array_operators
from npcompile.numpy_shim.objects import ShimObject
from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import FLOAT_ERRORS
from npcompile.tensor_core.guards import HasKey, Is
from npcompile.tensor_core.known import fixed_contents
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.python_operators import BINARY, COMPARE
from npcompile.tensor_core.source import Call, Compared, Formula, Item, Literal, builtin
from npcompile.tracer.bytecode.versions import RUNNING
from npcompile.tracer.capture import Capture
from npcompile.tracer.constant_kinds import LONGEST_TEXT
from npcompile.tracer.python import arithmetic, forward, ranges
from npcompile.tracer.python.arithmetic import hint, plain_number
from npcompile.tracer.python.identity import is_known_same
from npcompile.tracer.raising import Raises, raise_again, raises
from npcompile.tracer.tensor_values import as_array, through_tensors
from npcompile.tracer.values import (
    LONGEST,
    ArrayMethod,
    Closure,
    Comparison,
    Constant,
    Deque,
    DictView,
    Iterator,
    Mapping,
    Method,
    Opaque,
    RangeValue,
    Sequence,
    SetValue,
    SliceValue,
    TensorValue,
    Text,
    Truth,
    describe,
    is_long,
    is_named_tuple,
    is_number,
    require_known,
)

OF_INTEGERS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>")  # operators of arrays that take integers of any size
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}

# Types whose operators run no user code and have no effects: they may be evaluated while capturing.
PURE_TYPES = (
    int, float, complex, bool, str, bytes, tuple, frozenset, range, slice, type(None), type(Ellipsis), type,
    np.dtype, np.generic, np.finfo, np.iinfo, type(np._NoValue), ShimObject,
    inspect.Signature, inspect.Parameter, types.UnionType,
)  # fmt: skip


def lower(capture: Capture, value: Any) -> Any:
    """A value as the NumPy shim takes it: Arrays, Dims, Numbers, and plain Python objects holding them."""
    value = capture.realize(value)
    match value:
        case Array() | Dim() | Number():
            return value
        case Integer():
            return fixed(capture, value)
        case TensorValue():
            return value.array
        case Constant(enum.Enum() as member) if not isinstance(member, np._CopyMode):
            raise Decline(f"a member of {type(member).__qualname__} as argument of a NumPy function")
        case Constant():
            return value.value
        case Sequence():
            return value.of(lower(capture, v) for v in value.items)
        case Mapping():
            return {k: lower(capture, v) for k, v in value.items.items()}
        case SliceValue():
            return slice(*(lower(capture, v) for v in (value.start, value.stop, value.step)))
        case RangeValue():
            return list(range_items(value))
        case Opaque():
            raise Decline(f"an argument of type {type(value.example).__qualname__}")
        case _:
            found = forward.number_lowered(capture, value)
            if found is NotImplemented:
                raise Decline(f"{describe(value)} as argument of a NumPy function")
            return found


def lower_operand(capture: Capture, value: Any) -> Any:
    """The same of what a ufunc is given, which takes integers of any size."""
    value = capture.realize(value)
    return value if isinstance(value, Integer) else lower(capture, value)


def fixed(capture: Capture, value: Integer) -> int:
    """A large integer as a constant, which is guarded. Not where it changes from call to call."""
    if capture.is_new("value of", value.source, value.hint):
        raise Decline("an integer that changes from call to call is needed as a constant")
    value.is_within(value.hint, value.hint)
    return value.hint


def without_integers(capture: Capture, value: Any) -> Any:
    return Constant(fixed(capture, value)) if isinstance(value, Integer) else value


@forward.lifted.defined
def lift(result: Any) -> Any:
    """What the shim returned, as a value."""
    if isinstance(result, (Array, Dim, Number, Integer)):
        if isinstance(result, Dim):
            result.env.show(result)
        return result
    if type(result) in (tuple, list) or is_named_tuple(type(result)):
        return Sequence(type(result), [lift(v) for v in result])
    if isinstance(result, range):
        return ranges.made_of(result.start, result.stop, result.step)
    if isinstance(result, slice):
        return SliceValue(*(lift(v) for v in (result.start, result.stop, result.step)))
    return Constant(result)


def as_count(capture: Capture, symbol: str, value: Any, other: Any) -> Any:
    """An operand that is a Comparison as the 0 or 1 that arithmetic with `other` takes it for; else its answer, guarded.

    Beside booleans it is a boolean.
    """
    if not isinstance(value, Comparison) or symbol.removesuffix("=") not in ("+", "-", "*"):
        return capture.realize(value)
    other = other if isinstance(other, Comparison) else as_array(capture.realize(other))
    is_counted = isinstance(other, (Comparison, Dim, Number, Integer))
    if isinstance(other, Array):
        is_counted = other.dtype.kind in "iufc"
    if isinstance(other, Constant):
        is_counted = type(other.value) in (int, float, complex)
    return arithmetic.of_comparison(capture, int, value) if is_counted else capture.realize(value)


def involves_array(*values: Any) -> bool:
    return any(isinstance(v, Array) or isinstance(v, Sequence) and involves_array(*v.items) for v in values)


# --- binary and unary operators


@through_tensors
def binary(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    require_known(left, right)
    for ask in (forward.class_binary, forward.container_binary, forward.number_binary):
        found = ask(capture, symbol, left, right)
        if found is not NotImplemented:
            return found
    if isinstance(left, Array) or isinstance(right, Array):
        lowered = lower_operand if symbol in OF_INTEGERS else lower
        result = lift(array_operators.BINARY[symbol](capture.builder, lowered(capture, left), lowered(capture, right)))
        return as_python_number(result) if is_python_number(left) and is_python_number(right) else result
    if is_number(left) and is_number(right):
        return number_binary(capture, symbol, left, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and symbol == "+" and left.plain_kind is right.plain_kind:
        require_short(made := [*left.items, *right.items])
        return right.part(made) if not left.items and left.kind is tuple else left.part(made)
    for value, number in ((left, right), (right, left)):
        if symbol == "*" and isinstance(value, Sequence) and isinstance(number, (Constant, Dim)):
            count = operator.index(plain_number(number))
            require_short_result("*", value.items, count)
            return value.part(value.items * count)
    if symbol == "+" and any(isinstance(v, Text) for v in (left, right)):
        return joined(capture, left, right)
    if symbol == "%" and isinstance(left, Constant) and type(left.value) is str:
        filled = forward.filled_in(capture, left.value, right)
        if filled is not None:
            return filled
    if all(isinstance(v, (Constant, Dim)) for v in (left, right)):
        require_short_result(symbol, hint(plain_number(left)), hint(plain_number(right)))
    return evaluate_pure(capture, BINARY[symbol], left, right)


def joined(capture: Capture, left: Any, right: Any) -> Text:
    """`left + right` of strings."""
    sources = [v.source if isinstance(v, Text) else Literal(plain(capture, v)) for v in (left, right)]
    hints = [v.hint if isinstance(v, Text) else plain(capture, v) for v in (left, right)]
    if not all(isinstance(h, str) for h in hints):
        raise Decline("a string and something else are added")
    return Text(Compared(sources[0], "+", sources[1]), "".join(hints))


def is_python_number(value: Any) -> bool:
    """A Python number, also one of which only the type is known: an Array that is weak."""
    return value.meta.weak if isinstance(value, Array) else is_number(value)


def as_python_number(x: Array) -> Array:
    """The result of Python's arithmetic on Python numbers. Booleans are NumPy's and Python's alike."""
    return x if x.dtype.kind == "b" else Array(x.storage, x.steps, x.meta.with_(weak=True, boxed=False))


def inplace(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    if isinstance(left, TensorValue):
        inplace(capture, symbol, left.array, as_array(right))
        return left
    right = as_array(right)
    if isinstance(left, Array):
        lowered = lower_operand if symbol.removesuffix("=") in OF_INTEGERS else lower
        result = lift(array_operators.INPLACE[symbol](capture.builder, left, lowered(capture, right)))
        capture.require_no_overlap()
        return result
    for ask in (forward.container_inplace, forward.class_inplace):
        found = ask(capture, symbol, left, right)
        if found is not NotImplemented:
            return found
    try:
        return binary(capture, symbol.removesuffix("="), left, right)
    except Raises as raised:
        match raised.value.arguments:
            case [Constant(str() as text)] if raised.value.kind is TypeError and text.startswith("unsupported operand"):
                types = text.partition(": ")[2]
                raise raises(TypeError, f"unsupported operand type(s) for {symbol}: {types}") from None
        raise


@through_tensors
def unary(capture: Capture, symbol: str, x: Any) -> Any:
    if isinstance(x, Array):
        result = lift(array_operators.UNARY[symbol](capture.builder, x))
        return as_python_number(result) if x.meta.weak else result
    if isinstance(x, Dim):
        return -x if symbol == "-" else x if symbol == "+" else -x - 1
    if isinstance(x, Integer):
        return arithmetic.integer(capture, Formula(f"({symbol}{{}})", x.source), UNARY[symbol](x.hint))
    if isinstance(x, Number) and symbol != "~":
        return Number.computed(x.env, Formula(f"({symbol}{{}})", x.source), UNARY[symbol](x.hint))
    for ask in (forward.class_unary, forward.number_unary):
        found = ask(capture, symbol, x)
        if found is not NotImplemented:
            return found
    if symbol == "~" and isinstance(x, Constant) and type(x.value) is bool and RUNNING.warns_of_inverted_bool:
        raise Decline("~ of a Python bool, of which Python warns")
    return evaluate_pure(capture, UNARY[symbol], x)


def number_binary(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """Arithmetic on Python numbers of which some are traced."""
    a, b = plain_number(left), plain_number(right)
    if not isinstance(a, (Dim, Number, Integer)) and not isinstance(b, (Dim, Number, Integer)):
        return evaluate_pure(capture, BINARY[symbol], left, right)
    return lift(arithmetic.binary(capture, symbol, a, b))


def evaluate_pure(capture: Capture, function: Callable[..., Any], *values: Any) -> Any:
    """Do it now: all operands are constants of types without user code."""
    operands = [plain(capture, v) for v in values]
    if not all(isinstance(v, PURE_TYPES) for v in operands):
        names = ", ".join(type(v).__qualname__ for v in operands)
        raise Decline(f"{getattr(function, '__name__', function)} of {names}")
    return evaluate(lambda: function(*operands), capture.builder.ignored)


def evaluate(thunk: Callable[[], Any], ignored: Collection[str] = ()) -> Any:
    """A constant computed while capturing. What raises is left to the native run, which raises on the user's line.

    So are floating-point errors, those `ignored` apart: NumPy reports them at each call.
    """
    states = dict.fromkeys(FLOAT_ERRORS, "raise") | dict.fromkeys(FLOAT_ERRORS.intersection(ignored), "ignore")
    try:
        with np.errstate(**states):
            made = thunk()
    except FloatingPointError as error:
        raise Decline(str(error), "NumPy reports it at each call: write the result.") from None
    except Exception as error:  # noqa: BLE001  (a handler of the program gets it, or the native run raises it again)
        raise_again(error)
    require_short(made)
    return lift(made)


def require_short(made: Any) -> None:
    """What is computed while capturing is kept: nothing long is."""
    is_long = isinstance(made, (str, bytes)) and len(made) > LONGEST_TEXT or type(made) in CONTAINERS and len(made) > LONGEST
    if is_long or type(made) is int and made.bit_length() > LONGEST_TEXT:
        raise Decline(f"a long {type(made).__name__} that is computed")


CONTAINERS = (tuple, list, dict, set, frozenset)


def require_short_result(symbol: str, left: Any, right: Any) -> None:
    """Asked before it is computed, where it may be much longer than the operands."""
    is_long = False
    for value, number in ((left, right), (right, left)):
        if symbol == "*" and isinstance(value, (str, bytes, tuple, list)) and isinstance(number, int):
            is_long |= len(value) * number > (LONGEST_TEXT if isinstance(value, (str, bytes)) else LONGEST)
    if symbol in ("**", "<<") and isinstance(left, int) and isinstance(right, int) and abs(left) > 1:
        is_long = right * (left.bit_length() if symbol == "**" else 1) > LONGEST_TEXT
    if is_long:
        raise Decline(f"a long result of {symbol} that is computed")


def plain(capture: Capture, value: Any) -> Any:
    """The Python object that a wholly constant value is; Declines for anything traced."""
    value = capture.realize(value)
    value = value.array if isinstance(value, TensorValue) else value
    match value:
        case Constant():
            return value.value
        case Sequence() if value.kind is not list or value.source is None:
            return value.of(plain(capture, v) for v in value.items)
        case SliceValue():
            return slice(*(plain(capture, v) for v in (value.start, value.stop, value.step)))
        case Mapping() if value.source is None:
            return {k: plain(capture, v) for k, v in value.items.items()}
        case Array() if (contents := capture.known_contents(value)) is not None:
            return contents.copy() if value.meta.boxed else contents[()]
        case Dim():
            return value.__index__()
        case Integer():
            return fixed(capture, value)
        case Number():
            raise Decline("a traced float is needed as a constant")
        case Text():
            raise Decline("a str that changes from call to call is needed as a constant")
        case RangeValue():
            return range(plain(capture, value.start), plain(capture, value.stop), value.step)
        case _:
            raise Decline(f"{describe(value)} is not a constant")


# --- comparisons and truth


@through_tensors
def compare(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    require_known(left, right)
    if symbol in ("==", "!=") and any(
        is_none(a) and (is_scalar(b) or isinstance(b, (Dim, Number, Integer))) for a, b in ((left, right), (right, left))
    ):
        return Constant(symbol == "!=")
    for ask in (forward.text_compared, forward.class_compare, forward.container_compare, forward.number_compare):
        found = ask(capture, symbol, left, right)
        if found is not NotImplemented:
            return found
    if isinstance(left, Array) or isinstance(right, Array):
        operands = lower_operand(capture, left), lower_operand(capture, right)
        return lift(array_operators.COMPARE[symbol](capture.builder, *operands))
    if is_number(left) and is_number(right):
        return arithmetic.compare(symbol, plain_number(left), plain_number(right))
    if isinstance(left, Sequence) and isinstance(right, Sequence) and symbol in ("==", "!="):
        return Constant(equal_sequences(capture, left, right) == (symbol == "=="))
    if symbol in ("==", "!=") and isinstance(left, (Sequence, Mapping)) != isinstance(right, (Sequence, Mapping)):
        if any(isinstance(v, Opaque) for v in (left, right)):
            raise Decline("a comparison with an object from outside")
        if any(isinstance(v, Constant) and isinstance(v.value, (types.MappingProxyType, np.generic)) for v in (left, right)):
            raise Decline("a container is compared with what is equal to containers too")
        return Constant(symbol == "!=")
    return evaluate_pure(capture, COMPARE[symbol], left, right)


def is_none(value: Any) -> bool:
    return isinstance(value, Constant) and value.value is None


def is_scalar(value: Any) -> bool:
    return isinstance(value, Array) and not value.meta.boxed


def equal_sequences(capture: Capture, left: Sequence, right: Sequence) -> bool:
    is_equally_long = len(left.items) == len(right.items)  # of which tuples ask last
    if left.plain_kind is not right.plain_kind or (left.plain_kind is list and not is_equally_long):
        return False
    if not is_equally_long and all(map(is_number, (*left.items, *right.items))):  # nobody sees that these are compared
        return False
    for a, b in zip(left.items, right.items):
        a, b = capture.realize(a), capture.realize(b)
        if is_known_same(a, b):
            continue
        result = truth(capture, compare(capture, "==", a, b))
        if not isinstance(result, Constant):
            raise Decline("a comparison of sequences that hold arrays")
        if not result.value:
            return False
    return is_equally_long


def truth(capture: Capture, value: Any) -> Constant | Truth:
    """bool(value): a constant, or a question to array data."""
    value = capture.realize(value)
    value = value.array if isinstance(value, TensorValue) else value
    match value:
        case Truth():
            return value
        case Array():
            contents = fixed_contents(value.node)
            if contents is not None and contents.size == 1:
                return Constant(bool(contents))
            if any(not isinstance(n, int) or n != 1 for n in value.shape):
                raise Decline("the truth of an array with more than one element")
            return Truth(fresh(capture.builder, value.node) if value.meta.boxed else value)  # what it holds now
        case Dim():
            return Constant(bool(value))
        case Integer():
            return Constant(not value.is_within(0, 0))
        case Text():
            return capture.ask(Comparison(Call(builtin(bool), value.source), bool(value.hint)))
        case Number():
            return Constant(value.ask(Call(builtin(bool), value.source), bool(value.hint)))
        case _ if is_long(value):
            return Constant(capture.length_of_long(value) > 0)
        case Sequence() | Mapping() | Deque():
            return Constant(bool(value.items))
        case RangeValue():
            return Constant(ranges.length(capture, value) != 0)
        case Constant() if isinstance(value.value, PURE_TYPES) or callable(value.value):
            return Constant(bool(value.value))
        case Closure() | Method() | ArrayMethod() | Iterator():
            return Constant(True)
        case SetValue():
            return Constant(bool(value.items))
        case DictView():
            return Constant(bool(value.owner.items))
        case _:
            for ask in (forward.number_truth, forward.class_truth):
                found = ask(capture, value)
                if found is not NotImplemented:
                    return found
            raise Decline(f"the truth of {describe(value)}")


def either(capture: Capture, questions: list[Truth], op: str) -> Truth:
    """The questions joined by logical_or or logical_and: one to a single bool."""
    nodes = []
    for question in questions:
        array = question.array
        if any(not isinstance(n, int) or n != 1 for n in array.shape):
            raise Decline("the truth of an array with more than one element")
        node = array_operators.COMPARE["!="](capture.builder, array, 0).node if array.dtype.kind != "b" else array.node
        node = capture.builder.apply("reshape", node, shape=()) if array.ndim else node
        nodes.append(capture.builder.apply("logical_not", node) if question.negated else node)
    joined = functools.reduce(lambda a, b: capture.builder.apply(op, a, b), nodes)
    return Truth(fresh(capture.builder, joined, boxed=False))


def contains(capture: Capture, container: Any, item: Any) -> bool:
    found = forward.text_found(capture, container, item)
    if found is not NotImplemented:
        return bool(capture.realize(found).value)
    match container:
        case Sequence():
            for member in container.items:
                member = capture.realize(member)
                if is_known_same(member, item):
                    return True
                same = truth(capture, compare(capture, "==", member, item))
                if not isinstance(same, Constant):
                    raise Decline("`in` a sequence that holds arrays")
                if same.value:
                    return True
            return False
        case Mapping():
            return capture.has_key(container, constant_key(capture, item))
        case RangeValue() if isinstance(number := plain_number(capture.realize(item)), (int, Dim)):
            return ranges.holds(capture, container, number)
        case RangeValue():
            return plain(capture, item) in plain(capture, container)
        case Constant(dict() as known):
            key = constant_key(capture, item)
            return key in library_keys(capture, known, key)
        case Constant(str() | bytes() | range() | tuple() | frozenset()):
            return bool(evaluate_pure(capture, lambda c, i: i in c, container, item).value)
        case SetValue():
            return constant_key(capture, item) in container.items
        case DictView("keys", owner):
            return constant_key(capture, item) in owner.items
        case DictView("values", owner):
            return contains(capture, Sequence(tuple, [*owner.items.values()]), item)
        case _:
            found = forward.class_contains(capture, container, item)
            if found is NotImplemented:
                if isinstance(container, Constant):
                    return bool(evaluate_pure(capture, lambda c, i: i in c, container, item).value)
                raise Decline(f"`in` {describe(container)}")
            if not isinstance(found, Constant):
                raise Decline("`in` that is answered by array data")
            return bool(found.value)


def library_keys(capture: Capture, known: dict[Any, Any], key: Any) -> dict[Any, Any]:
    """A dict that a library's module holds, guarded to have under `key` what it has now."""
    owner, asked = capture.object_of(known), Literal(key) if type(key) in (str, int, bool) else capture.object_of(key)
    if key in known:
        capture.guard(Is(Item(owner, asked), capture.object_of(known[key])))
    else:
        capture.guard(HasKey(owner, asked, False))
    return known


def constant_key(capture: Capture, key: Any) -> Any:
    value = plain(capture, key)
    try:
        hash(value)
    except (TypeError, ValueError) as error:  # the second of a memoryview
        raise Decline(str(error)) from None
    return value


# --- ranges


def range_items(span: RangeValue) -> range:
    if ranges.count_now(span) > LONGEST:
        raise Decline("the items of a long range")
    return range(operator.index(plain_number(span.start)), operator.index(plain_number(span.stop)), span.step)
