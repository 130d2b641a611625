"""The functions of math and cmath on Python numbers, known and traced."""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import compared, within
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.python_operators import COMPARE
from npcompile.tensor_core.source import Call, Literal, builtin
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import arithmetic, iteration, operators, python_numbers
from npcompile.tracer.python.calls import BUILTINS, Arguments, Keywords, evaluate_call
from npcompile.tracer.values import Constant, Sequence

# math functions of a traced float: guarded to stay where Python's math raises nothing.
MATH_DOMAINS: dict[str, tuple[float, str, str, float]] = {
    "sqrt": (0.0, "<=", "<", 1e308),
    "exp": (-1e308, "<", "<", 700.0),
    "log": (5e-324, "<=", "<", 1e308),
    "log2": (5e-324, "<=", "<", 1e308),
    "log10": (5e-324, "<=", "<", 1e308),
    "log1p": (-0.999, "<", "<", 1e308),
    "expm1": (-1e308, "<", "<", 700.0),
    "floor": (-2147483647, "<", "<", 2147483647),
    "ceil": (-2147483647, "<", "<", 2147483647),
    "sin": (-1e308, "<", "<", 1e308),
    "cos": (-1e308, "<", "<", 1e308),
    "tan": (-1e308, "<", "<", 1e308),
    "atan": (-1e308, "<", "<", 1e308),
    "tanh": (-1e308, "<", "<", 1e308),
    "asin": (-1.0, "<=", "<=", 1.0),
    "acos": (-1.0, "<=", "<=", 1.0),
    "sinh": (-700.0, "<", "<", 700.0),
    "cosh": (-700.0, "<", "<", 700.0),
    "erf": (-1e308, "<", "<", 1e308),
    "fabs": (-1e308, "<", "<", 1e308),
    "trunc": (-2147483647, "<", "<", 2147483647),
    "radians": (-1e300, "<", "<", 1e300),
    "degrees": (-1e300, "<", "<", 1e300),
    "cbrt": (-1e308, "<", "<", 1e308),
    "erfc": (-26.0, "<", "<", 1e308),
    "exp2": (-1e308, "<", "<", 1000.0),
    "asinh": (-1e308, "<", "<", 1e308),
    "acosh": (1.0, "<=", "<", 1e308),
    "atanh": (-1.0, "<", "<", 1.0),
}
OF_TWO = ("hypot", "atan2", "copysign")  # which raise for no finite numbers that are not huge


def call_math(name: str, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    function = getattr(math, name)
    x = positional[0] if len(positional) == 1 else None
    if name == "sqrt" and not keywords and (root := python_numbers.square_root(frame.capture, x)) is not None:
        return root
    if not isinstance(x, (Dim, Number)):
        return evaluate_call(frame, function, positional, keywords)
    source, value = arithmetic.number_source(x), arithmetic.hint(x)
    low, at_least, at_most, high = MATH_DOMAINS[name]
    if isinstance(value, complex) or not (COMPARE[at_least](low, value) and COMPARE[at_most](value, high)):
        raise Decline(f"math.{name} out of its domain")
    frame.capture.guard(within(Literal(low), source, Literal(high), (at_least, at_most)))
    result = function(value)
    expression = Call(frame.capture.object_of(function), source)
    if isinstance(result, int):
        return arithmetic.traced_integer(frame.capture, expression, result)
    return Number.computed(frame.capture.builder.env, expression, result)


def ask_math(function: Callable[[Any], bool], frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """math.isnan and its like. Sizes are finite numbers."""
    match positional:
        case [Dim()]:
            return Constant(function(0))
        case [Number() as x] if x.type is float:
            return Constant(x.ask(Call(frame.capture.object_of(function), x.source), function(x.hint)))
    return evaluate_call(frame, function, positional, keywords)


BUILTINS |= {f: functools.partial(ask_math, f) for f in (math.isnan, math.isinf, math.isfinite)}
BUILTINS |= {getattr(math, name): functools.partial(call_math, name) for name in MATH_DOMAINS if hasattr(math, name)}


# --- other functions


def call_of_two(name: str, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    function = getattr(math, name)
    capture = frame.capture
    if len(positional) != 2 or keywords or not any(isinstance(p, (Dim, Number)) for p in positional):
        return evaluate_call(frame, function, positional, keywords)
    values = [arithmetic.plain_number(p) for p in positional]
    if not all(isinstance(v, (Dim, Number, int, float)) for v in values):
        raise Decline(f"math.{name} of what are not real numbers")
    require_moderate(capture, values)
    called = Call(capture.object_of(function), *map(arithmetic.number_source, values))
    return Number.computed(capture.builder.env, called, function(*map(arithmetic.hint, values)))


def require_moderate(capture: Capture, values: list[Any]) -> None:
    """Guard that the numbers are finite, and so small that no sum of squares of them overflows."""
    for value in values:
        source, size = arithmetic.number_source(value), abs(arithmetic.hint(value))
        is_moderate = compared(Call(builtin(abs), source), "<", Literal(1e150))
        arithmetic.require(capture, value, is_moderate, size < 1e150, "a huge number")


def call_fsum(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    (items,) = positional
    capture = frame.capture
    values = [arithmetic.plain_number(capture.realize(v)) for v in iteration.iterate(capture, items)]
    if not any(isinstance(v, (Dim, Number)) for v in values):
        return evaluate_call(frame, math.fsum, [Sequence(list, [Constant(v) for v in values])], keywords)
    if not all(isinstance(v, (Dim, Number, int, float)) for v in values):
        raise Decline("math.fsum of what are not real numbers")
    require_moderate(capture, values)
    hint = math.fsum(map(arithmetic.hint, values))
    total = Call(capture.object_of(math.fsum), arithmetic.tuple_source(values))
    return Number.computed(capture.builder.env, total, hint)


def call_log(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """log(x) and log(x, base), which CPython computes by a division too."""
    if len(positional) == 2 and any(isinstance(p, (Dim, Number)) for p in positional):
        return operators.binary(frame.capture, "/", *(call_math("log", frame, [p], {}) for p in positional))
    return call_math("log", frame, positional, keywords)


def call_power(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """math.pow: of floats, what ** is."""
    if len(positional) == 2 and any(isinstance(p, (Dim, Number)) for p in positional):
        base, exponent = (BUILTINS[float](frame, [p], {}) for p in positional)
        return operators.binary(frame.capture, "**", base, exponent)
    return evaluate_call(frame, math.pow, positional, keywords)


def call_known(function: Any, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Of numbers that are known; a traced integer is fixed by that, a traced float is not."""
    return evaluate_call(frame, function, positional, keywords)


BUILTINS |= {getattr(math, name): functools.partial(call_of_two, name) for name in OF_TWO}
BUILTINS |= {math.log: call_log, math.pow: call_power, math.fsum: call_fsum}
for module in (math, cmath):
    for each in vars(module).values():
        if callable(each) and each not in BUILTINS and getattr(each, "__module__", None) in ("math", "math.integer", "cmath"):
            BUILTINS[each] = functools.partial(call_known, each)
