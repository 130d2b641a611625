"""Arithmetic on Python numbers of which some are traced: expressions that are computed when the program is called."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import LONGEST_EXPRESSION, Call, Dim, answer_known, ask, maximum, minimum
from npcompile.tensor_core.intervals import magnitude
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import LARGEST, Integer, Number
from npcompile.tensor_core.python_operators import BINARY, COMPARE
from npcompile.tracer.capture import LONGEST_INTEGER, SYMBOLIC_INTEGERS, Capture
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
        made = traced_integer(capture, f"({number_text(a)} {symbol} {number_text(b)})", value)
        capture.guard(f"{-SYMBOLIC_INTEGERS[-1]} <= {made} <= {SYMBOLIC_INTEGERS[-1]}")
        return made
    if symbol not in ("+", "-", "*", "/", "//", "%", "**"):
        raise Decline(f"{symbol} of traced Python numbers")
    if symbol in ("/", "//", "%"):
        require(capture, b, f"{number_text(b)} != 0", hint(b) != 0, "division by zero")
    if symbol == "**":
        require_power(capture, a, b)
    try:
        value = BINARY[symbol](hint(a), hint(b))
    except ArithmeticError as error:
        raise Decline(str(error)) from None
    return Number.computed(capture.builder.env, f"({number_text(a)} {symbol} {number_text(b)})", value)


BIT_SYMBOLS = ("&", "|", "^", "<<", ">>")
MOST_SHIFTED = 64


def traced_integer(capture: Capture, expression: str, hint: int, at_least: int | None = None) -> Any:
    """A traced integer that is the value of an expression."""
    env = capture.builder.env
    name = f"s{len(env.hints)}"
    capture.guard(f"(({name} := {expression}) is not None)")
    return env.symbol(name, hint, at_least)


# --- integers of any size


def integer(capture: Capture, expression: str, value: int) -> Any:
    """The integer that an expression of large ones gives: a Dim where it is small, and guarded to be."""
    if value in SYMBOLIC_INTEGERS:
        made = traced_integer(capture, expression, value)
        capture.guard(f"{-SYMBOLIC_INTEGERS[-1]} <= {made} <= {SYMBOLIC_INTEGERS[-1]}")
        return made
    if value.bit_length() >= LONGEST_INTEGER:
        raise Decline("a Python integer of many digits")
    return Integer(capture.builder.env, capture.builder.env.short(expression), value)


def as_float(x: Integer) -> Number:
    """float(x), where that raises nothing."""
    if not x.is_within(-LARGEST, LARGEST):
        raise Decline("int too large to convert to float")
    return Number.computed(x.env, f"float({x.text})", float(x.hint))


def integer_binary(capture: Capture, symbol: str, a: Any, b: Any) -> Any:
    """Python's arithmetic on an integer of any size and another number."""
    if any(isinstance(v, (Number, float, complex)) for v in (a, b)):
        return binary(capture, symbol, *(as_float(v) if isinstance(v, Integer) else v for v in (a, b)))
    text = f"({number_text(a)} {symbol} {number_text(b)})"
    if symbol in ("/", "//", "%"):
        require(capture, b, f"{number_text(b)} != 0", hint(b) != 0, "division by zero")
    if symbol == "/":
        for v in (a, b):
            require(capture, v, f"{-LARGEST} <= {number_text(v)} <= {LARGEST}", abs(hint(v)) <= LARGEST, "a huge integer")
        return Number.computed(capture.builder.env, text, hint(a) / hint(b))
    if symbol == "**" and not (type(b) is int and 0 <= b <= MOST_FACTORS):
        raise Decline("a power of integers that may be huge")
    if symbol in ("<<", ">>"):
        require(capture, b, f"0 <= {number_text(b)} <= {MOST_SHIFTED}", 0 <= hint(b) <= MOST_SHIFTED, "a shift by many bits")
    return integer(capture, text, BINARY[symbol](hint(a), hint(b)))


MOST_FACTORS = 8


def extreme(capture: Capture, function: Any, items: list[Any]) -> Any | None:
    """min() or max() of numbers of one type of which some are traced, without asking which it is. None for others."""
    values = [plain_number(v) for v in items]
    if any(isinstance(v, Integer) for v in values) and all(type(v) is int or isinstance(v, (Dim, Integer)) for v in values):
        return integer(capture, f"{function.__name__}(({', '.join(map(number_text, values))},))", function(map(hint, values)))
    if all(type(v) is int or isinstance(v, Dim) for v in values) and any(isinstance(v, Dim) for v in values):
        found = within_int64(capture, functools.reduce(minimum if function is min else maximum, values))
        return found if isinstance(found, Dim) else Constant(found)
    if all(type(hint(v)) is float for v in values) and any(isinstance(v, Number) for v in values):
        expression = f"{function.__name__}(({', '.join(map(number_text, values))},))"
        return Number.computed(capture.builder.env, expression, function(map(hint, values)))
    return None


def of_comparison(capture: Capture, function: Any, value: Comparison) -> Any:
    """int(), float() or bool() of True or False that are computed when called."""
    if function is bool:
        return value
    counted = traced_integer(capture, f"int({value.source})", int(value.hint), at_least=0)
    return counted if function is int else Number.computed(capture.builder.env, f"float({counted})", float(value.hint))


INTEGER_SYMBOLS = ("+", "-", "*", "//", "%", "**")


def within_int64(capture: Capture, size: Any) -> Any:
    """Python's integers do not wrap, those of a graph do: what may leave int64 is guarded to stay inside."""
    is_long = len(str(size)) > LONGEST_EXPRESSION  # steps of a loop do not add up
    if isinstance(size, Dim) and (is_long or is_written_beyond_int64(capture, size)):
        if size.hint not in SYMBOLIC_INTEGERS:
            raise Decline("an expression of integers beyond 32 bits that is long, or has steps beyond 64")
        size = traced_integer(capture, str(size), size.hint)
        capture.guard(f"{-SYMBOLIC_INTEGERS[-1]} <= {size} <= {SYMBOLIC_INTEGERS[-1]}")
    if isinstance(size, Dim) and magnitude(size) >= 2**63:
        if not -(2**63) <= size.hint < 2**63:
            raise Decline("a Python integer beyond int64")
        capture.guard(f"{-(2**63)} <= {size} < {2**63}")
    return size


def is_written_beyond_int64(capture: Capture, size: Any) -> bool:
    """Does it compute what may have any value from integers that int64 does not hold, as `2**70 % n` does?

    Sums and products may leave int64 on their way to a result inside, but not what is divided or compared.
    """
    if not isinstance(size, Dim):
        return not -(2**63) <= size < 2**63
    arguments = [a for atoms, _ in size.terms for atom in atoms if isinstance(atom, Call) for a in atom.args]
    if any(not -(2**63) <= c < 2**63 for _, c in size.terms) or any(is_written_beyond_int64(capture, a) for a in arguments):
        return True
    for argument in arguments:
        if magnitude(argument) >= 2**63:
            if not -(2**63) <= hint(argument) < 2**63:
                return True
            capture.guard(f"{-(2**63)} <= {argument} < {2**63}")
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
    text = number_text(base)
    condition = f"{1 / largest if power < 0 else 0.0!r} <= abs({text}) < {largest!r}"
    if not isinstance(power, int):
        condition += f" and {text} > 0"
    require(capture, base, condition, in_range and is_real, "a power out of range")


def require_power_of_positive(capture: Capture, base: Any, exponent: Any) -> None:
    if isinstance(hint(exponent), complex):
        raise Decline("a complex power")
    if isinstance(base, (Dim, Number)):
        log = f"{capture.name_constant(math.log)}({number_text(base)})"
        capture.guard(f"0 < {number_text(base)} < {LARGEST_FLOAT!r}")
    else:
        log = repr(math.log(base))
    is_small = hint(exponent) * math.log(hint(base)) < LARGEST_LOG
    if is_small and isinstance(exponent, Dim) and not isinstance(base, (Dim, Number)):
        ask_exponent(exponent, math.log(base))
        return
    require(capture, exponent, f"{number_text(exponent)} * {log} < {LARGEST_LOG}", is_small, "a power out of range")


LARGEST_FLOAT, LARGEST_LOG = 1e308, 700.0


def ask_exponent(exponent: Dim, log: float) -> None:
    """The same of an integer and a known base: a bound, which often follows from another."""
    if log > 0 and not ask(exponent, "<", math.ceil(LARGEST_LOG / log)):
        raise Decline("a power out of range")
    if log < 0 and not ask(math.floor(LARGEST_LOG / log), "<", exponent):
        raise Decline("a power out of range")


def require(capture: Capture, value: Any, condition: str, holds: bool, reason: str) -> None:
    if not holds:
        raise Decline(reason)
    if isinstance(value, (Dim, Number, Integer)):
        capture.guard(condition)


def hint(value: Any) -> Any:
    return value.hint if isinstance(value, (Dim, Number, Integer, Text)) else value


def number_text(value: Any) -> str:
    if isinstance(value, (Number, Integer)):
        return value.text
    if isinstance(value, float) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return str(value) if isinstance(value, Dim) else repr(value)


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
    return Comparison(f"({number_text(a)} {symbol} {number_text(b)})", answer)
