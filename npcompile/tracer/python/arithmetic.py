"""Arithmetic on Python numbers of which some are traced: expressions that are computed when the program is called."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from npcompile.tensor_core.dim import LONGEST_EXPRESSION, Dim, Size, answer_known, ask, maximum, minimum, source_of_size
from npcompile.tensor_core.dim import Call as SizeCall
from npcompile.tensor_core.guards import All, Binds, Guard, compared, within
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import LARGEST, Integer, Number
from npcompile.tensor_core.python_operators import BINARY, COMPARE
from npcompile.tensor_core.source import Call, Compared, Formula, Literal, Source, builtin
from npcompile.tensor_core.value_ranges import magnitude
from npcompile.tracer.capture import Capture
from npcompile.tracer.constant_kinds import LONGEST_INTEGER, SYMBOLIC_INTEGERS, is_symbolic
from npcompile.tracer.raising import raise_again
from npcompile.tracer.values import Comparison, Constant, Text


def plain_number(value: Any) -> Any:
    return value.value if isinstance(value, Constant) else value


def binary(capture: Capture, symbol: str, a: Any, b: Any) -> Any:
    """Arithmetic on Python numbers of which some are traced: a longer expression, computed when called."""
    if isinstance(a, Integer) or isinstance(b, Integer):
        return integer_binary(capture, symbol, a, b)
    if not isinstance(a, (Number, float, complex)) and not isinstance(b, (Number, float, complex)) and symbol in INTEGER_SYMBOLS:
        try:
            return within_int64(capture, integer_power(a, b) if symbol == "**" else BINARY[symbol](a, b))
        except ZeroDivisionError as error:
            raise Decline(str(error)) from None
    if symbol in BIT_SYMBOLS and all(isinstance(v, (Dim, int)) for v in (a, b)):
        if symbol in ("<<", ">>") and not b < 0 and b > MOST_SHIFTED:  # asked before a guard computes it: it would raise
            raise Decline("a shift by many bits")
        try:
            value = BINARY[symbol](hint(a), hint(b))
        except ValueError as error:
            raise_again(error)
        if value not in SYMBOLIC_INTEGERS:
            raise Decline("a Python integer beyond 32 bits")
        made = traced_integer(capture, operation(a, symbol, b), value)
        capture.guard(is_symbolic(source_of_size(made)))
        return made
    if symbol not in ("+", "-", "*", "/", "//", "%", "**"):
        raise Decline(f"{symbol} of traced Python numbers")
    if symbol in ("/", "//", "%"):
        require(capture, b, compared(number_source(b), "!=", Literal(0)), hint(b) != 0, "division by zero")
    if symbol == "**":
        require_power(capture, a, b)
    try:
        value = BINARY[symbol](hint(a), hint(b))
    except ArithmeticError as error:
        raise Decline(str(error)) from None
    return Number.computed(capture.builder.env, operation(a, symbol, b), value)


BIT_SYMBOLS = ("&", "|", "^", "<<", ">>")
MOST_SHIFTED = 64


def operation(a: Any, symbol: str, b: Any) -> Source:
    return Compared(number_source(a), symbol, number_source(b))


def traced_integer(capture: Capture, expression: Source, hint: int, at_least: int | None = None) -> Any:
    """A traced integer that is the value of an expression."""
    env = capture.builder.env
    name = f"s{len(env.hints)}"
    capture.guard(Binds(expression, name))
    return env.symbol(name, hint, at_least)


# --- integers of any size


def integer(capture: Capture, expression: Source, value: int) -> Any:
    """The integer that an expression of large ones gives: a Dim where it is small, and guarded to be."""
    if value in SYMBOLIC_INTEGERS:
        made = traced_integer(capture, expression, value)
        capture.guard(is_symbolic(source_of_size(made)))
        return made
    if value.bit_length() >= LONGEST_INTEGER:
        raise Decline("a Python integer of many digits")
    return Integer(capture.builder.env, capture.builder.env.short(expression), value)


def as_float(x: Integer) -> Number:
    """float(x), where that raises nothing."""
    if not x.is_within(-LARGEST, LARGEST):
        raise Decline("int too large to convert to float")
    return Number.computed(x.env, Call(builtin(float), x.source), float(x.hint))


def integer_binary(capture: Capture, symbol: str, a: Any, b: Any) -> Any:
    """Python's arithmetic on an integer of any size and another number."""
    if any(isinstance(v, (Number, float, complex)) for v in (a, b)):
        return binary(capture, symbol, *(as_float(v) if isinstance(v, Integer) else v for v in (a, b)))
    made = operation(a, symbol, b)
    if symbol in ("/", "//", "%"):
        require(capture, b, compared(number_source(b), "!=", Literal(0)), hint(b) != 0, "division by zero")
    if symbol == "/":
        for v in (a, b):
            is_float = within(Literal(-LARGEST), number_source(v), Literal(LARGEST))
            require(capture, v, is_float, abs(hint(v)) <= LARGEST, "a huge integer")
        return Number.computed(capture.builder.env, made, hint(a) / hint(b))
    if symbol == "**" and not (type(b) is int and 0 <= b <= MOST_FACTORS):
        raise Decline("a power of integers that may be huge")
    if symbol in ("<<", ">>"):
        few = within(Literal(0), number_source(b), Literal(MOST_SHIFTED))
        require(capture, b, few, 0 <= hint(b) <= MOST_SHIFTED, "a shift by many bits")
    return integer(capture, made, BINARY[symbol](hint(a), hint(b)))


MOST_FACTORS = 8


def extreme(capture: Capture, function: Any, items: list[Any]) -> Any | None:
    """min() or max() of numbers of one type of which some are traced, without asking which it is. None for others."""
    values = [plain_number(v) for v in items]
    if any(isinstance(v, Integer) for v in values) and all(type(v) is int or isinstance(v, (Dim, Integer)) for v in values):
        return integer(capture, Call(builtin(function), tuple_source(values)), function(map(hint, values)))
    if all(type(v) is int or isinstance(v, Dim) for v in values) and any(isinstance(v, Dim) for v in values):
        found = within_int64(capture, functools.reduce(minimum if function is min else maximum, values))
        return found if isinstance(found, Dim) else Constant(found)
    if all(type(hint(v)) is float for v in values) and any(isinstance(v, Number) for v in values):
        return Number.computed(capture.builder.env, Call(builtin(function), tuple_source(values)), function(map(hint, values)))
    return None


def of_comparison(capture: Capture, function: Any, value: Comparison) -> Any:
    """int(), float() or bool() of True or False that are computed when called."""
    if function is bool:
        return value
    counted = traced_integer(capture, Call(builtin(int), value.source), int(value.hint), at_least=0)
    if function is int:
        return counted
    return Number.computed(capture.builder.env, Call(builtin(float), source_of_size(counted)), float(value.hint))


INTEGER_SYMBOLS = ("+", "-", "*", "//", "%", "**")


def within_int64(capture: Capture, size: Any) -> Any:
    """Python's integers do not wrap, those of a graph do: what may leave int64 is guarded to stay inside."""
    is_long = len(str(size)) > LONGEST_EXPRESSION  # steps of a loop do not add up
    if isinstance(size, Dim) and (is_long or is_written_beyond_int64(capture, size)):
        if size.hint not in SYMBOLIC_INTEGERS:
            raise Decline("an expression of integers beyond 32 bits that is long, or has steps beyond 64")
        size = traced_integer(capture, source_of_size(size), size.hint)
        capture.guard(is_symbolic(source_of_size(size)))
    if isinstance(size, Dim) and magnitude(size) >= 2**63:
        if not -(2**63) <= size.hint < 2**63:
            raise Decline("a Python integer beyond int64")
        capture.guard(is_int64(size))
    return size


def is_int64(size: Size) -> Guard:
    return within(Literal(-(2**63)), source_of_size(size), Literal(2**63), ("<=", "<"))


def is_written_beyond_int64(capture: Capture, size: Any) -> bool:
    """Does it compute what may have any value from integers that int64 does not hold, as `2**70 % n` does?

    Sums and products may leave int64 on their way to a result inside, but not what is divided or compared.
    """
    if not isinstance(size, Dim):
        return not -(2**63) <= size < 2**63
    arguments = [a for atoms, _ in size.terms for atom in atoms if isinstance(atom, SizeCall) for a in atom.args]
    if any(not -(2**63) <= c < 2**63 for _, c in size.terms) or any(is_written_beyond_int64(capture, a) for a in arguments):
        return True
    for argument in arguments:
        if magnitude(argument) >= 2**63:
            if not -(2**63) <= hint(argument) < 2**63:
                return True
            capture.guard(is_int64(argument))
    return False


def integer_power(base: Any, exponent: Any) -> Any:
    exponent = operator.index(exponent)
    if exponent < 0:
        raise Decline("a negative power of a traced integer")
    result: Any = 1
    for _ in range(exponent):
        result = result * base
    return result


def require_power(capture: Capture, base: Any, exponent: Any) -> None:
    """Guard that `base ** exponent` neither overflows nor leaves the real numbers: Python raises there."""
    if isinstance(exponent, (Dim, Number)) and isinstance(hint(base), (int, float)) and hint(base) > 0:
        require_power_of_positive(capture, base, exponent)
        return
    power = operator.index(exponent) if isinstance(exponent, Dim) else exponent
    if isinstance(power, (Number, complex)) or isinstance(hint(base), complex):
        raise Decline("a power with a traced exponent")
    largest = 10.0 ** (300 / max(abs(power), 1))
    in_range = abs(hint(base)) < largest and (power >= 0 or abs(hint(base)) > 1 / largest)
    is_real = isinstance(power, int) or hint(base) > 0
    source, smallest = number_source(base), 1 / largest if power < 0 else 0.0
    condition: Guard = within(Literal(smallest), Call(builtin(abs), source), Literal(largest), ("<=", "<"))
    if not isinstance(power, int):
        condition = All((condition, compared(source, ">", Literal(0))))
    require(capture, base, condition, in_range and is_real, "a power out of range")


def require_power_of_positive(capture: Capture, base: Any, exponent: Any) -> None:
    if isinstance(hint(exponent), complex):
        raise Decline("a complex power")
    if isinstance(base, (Dim, Number)):
        log: Source = Call(capture.object_of(math.log), number_source(base))
        capture.guard(within(Literal(0), number_source(base), Literal(LARGEST_FLOAT), ("<", "<")))
    else:
        log = Literal(math.log(base))
    is_small = hint(exponent) * math.log(hint(base)) < LARGEST_LOG
    if is_small and isinstance(exponent, Dim) and not isinstance(base, (Dim, Number)):
        ask_exponent(exponent, math.log(base))
        return
    condition = compared(Formula("{} * {}", number_source(exponent), log), "<", Literal(LARGEST_LOG))
    require(capture, exponent, condition, is_small, "a power out of range")


LARGEST_FLOAT, LARGEST_LOG = 1e308, 700.0


def ask_exponent(exponent: Dim, log: float) -> None:
    """The same of an integer and a known base: a bound, which often follows from another."""
    if log > 0 and not ask(exponent, "<", math.ceil(LARGEST_LOG / log)):
        raise Decline("a power out of range")
    if log < 0 and not ask(math.floor(LARGEST_LOG / log), "<", exponent):
        raise Decline("a power out of range")


def require(capture: Capture, value: Any, condition: Guard, holds: bool, reason: str) -> None:
    if not holds:
        raise Decline(reason)
    if isinstance(value, (Dim, Number, Integer)):
        capture.guard(condition)


def hint(value: Any) -> Any:
    return value.hint if isinstance(value, (Dim, Number, Integer, Text)) else value


def number_source(value: Any) -> Source:
    if isinstance(value, (Number, Integer)):
        return value.source
    return source_of_size(value) if isinstance(value, Dim) else Literal(value)


def tuple_source(values: Sequence[Any]) -> Source:
    return Formula(f"({', '.join(['{}'] * len(values))},)", *map(number_source, values))


def compare(symbol: str, a: Any, b: Any) -> Constant | Comparison:
    answer = bool(COMPARE[symbol](hint(a), hint(b)))
    if not any(isinstance(v, (Dim, Number, Integer)) for v in (a, b)):
        return Constant(answer)
    if all(isinstance(v, (Dim, int)) for v in (a, b)):
        relation, left, right, is_opposite = {
            "==": ("==", a, b, False),
            "!=": ("==", a, b, True),
            "<": ("<", a, b, False),
            ">=": ("<", a, b, True),
            ">": ("<", b, a, False),
            "<=": ("<", b, a, True),
        }[symbol]
        known = answer_known(left, relation, right)
        if known is not None:
            return Constant(known is not is_opposite)
    return Comparison(operation(a, symbol, b), answer)
