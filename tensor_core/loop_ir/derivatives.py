"""The derivative of each scalar op: for each operand, what it gets of the gradient `g` of the result, and what that reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias


class Emit(Protocol):
    """Computes a scalar op where the gradient is computed, and gives its result."""

    def __call__(self, op: str, /, *args: int) -> int: ...
    def number(self, value: float, /) -> int: ...


# (emit, g, result, operands) -> the operand's gradient. Operands and result are values where the gradient is computed.
Rule: TypeAlias = Callable[[Emit, int, int, list[int]], int]
RESULT: Final = -1


@dataclass(frozen=True, slots=True)
class Partial:
    """With respect to one operand."""

    rule: Rule
    reads: tuple[int, ...] = ()  # beside the gradient: operands by number, the result as RESULT


def negative_product(emit: Emit, g: int, x: int) -> int:
    return emit("negative", emit("multiply", g, x))


def of_divisor(emit: Emit, g: int, result: int, args: list[int]) -> int:
    return emit("negative", emit("zero_or_multiply", emit("zero_or_divide", g, args[1]), result))


def unless_zero(emit: Emit, number: int, gradient: int) -> int:
    """The gradient, or 0 where the number is 0: what was not asked for stays so."""
    zero = emit.number(0.0)
    return emit("choose", emit("equal", number, zero), zero, gradient)


def through(op: str, slope: Callable[[Emit, int, int], int], *reads: int) -> tuple[Partial]:
    """A function whose slope, or 1 / that, is slope(emit, operand, result)."""

    def rule(emit: Emit, g: int, result: int, args: list[int]) -> int:
        return emit(op, g, slope(emit, args[0], result))

    return (Partial(rule, reads),)


over, times = partial(through, "zero_or_divide"), partial(through, "zero_or_multiply")


def square(emit: Emit, x: int) -> int:
    return emit("multiply", x, x)


def one_plus(emit: Emit, x: int) -> int:
    return emit("add", emit.number(1.0), x)


def one_minus(emit: Emit, x: int) -> int:
    return emit("subtract", emit.number(1.0), x)


def of_base(emit: Emit, g: int, result: int, args: list[int]) -> int:
    """y * x ** (y - 1), and 0 for y = 0, as that power may be infinite."""
    x, y = args
    return emit("zero_or_multiply", emit("multiply", g, y), emit("power", x, emit("subtract", y, emit.number(1.0))))


def of_exponent(emit: Emit, g: int, result: int, args: list[int]) -> int:
    return emit("zero_or_multiply", emit("multiply", g, result), emit("log", args[0]))


def of_angle(sign: str, other: int) -> Partial:
    """Of arctan2(y, x): x / (x * x + y * y), and -y / (x * x + y * y)."""

    def rule(emit: Emit, g: int, result: int, args: list[int]) -> int:
        squares = emit("add", square(emit, args[0]), square(emit, args[1]))
        found = emit("zero_or_divide", emit("multiply", g, args[other]), squares)
        return found if sign == "+" else emit("negative", found)

    return Partial(rule, (0, 1))


def of_side(side: int) -> Partial:
    """Of hypot(x, y): x / hypot(x, y), and 0 at 0."""
    return Partial(lambda emit, g, result, args: emit("zero_or_divide", emit("multiply", g, args[side]), result), (side, RESULT))


def where_chosen(is_first: bool) -> Partial:
    """Of choose(condition, a, b)."""

    def rule(emit: Emit, g: int, result: int, args: list[int]) -> int:
        zero = emit.number(0.0)
        return emit("choose", args[0], *((g, zero) if is_first else (zero, g)))

    return Partial(rule, (0,))


def of_chosen(name: str) -> tuple[Partial, Partial]:
    row = f"share_of_{name}"
    return (
        Partial(lambda emit, g, result, args: emit("multiply", g, emit(row, args[0], args[1])), (0, 1)),
        Partial(lambda emit, g, result, args: emit("multiply", g, emit(row, args[1], args[0])), (0, 1)),
    )


SAME: Final = Partial(lambda emit, g, result, args: g)
NONE: Final = Partial(lambda emit, g, result, args: emit.number(0.0))


def of_running(is_better: str) -> tuple[Partial, Partial, Partial]:
    """Of running_maximum(a, count, b): equal ones share, so that at the end all that are equal to the result have the same."""

    def share(emit: Emit, args: list[int], at: int, of_equal: int) -> int:
        a, _, b = args
        mine = args[at]
        best = emit("choose", emit(is_better, mine, args[2 - at]), emit.number(1.0), emit.number(0.0))
        is_nan = emit("not_equal", mine, mine)
        return emit("choose", is_nan, emit.number(1.0), emit("choose", emit("equal", a, b), of_equal, best))

    def of_former(emit: Emit, g: int, result: int, args: list[int]) -> int:
        of_equal = emit("divide", args[1], one_plus(emit, args[1]))
        return emit("multiply", g, share(emit, args, 0, of_equal))

    def of_new(emit: Emit, g: int, result: int, args: list[int]) -> int:
        of_equal = emit("divide", emit.number(1.0), one_plus(emit, args[1]))
        return emit("multiply", g, share(emit, args, 2, of_equal))

    return Partial(of_former, (0, 1, 2)), NONE, Partial(of_new, (0, 1, 2))


DERIVATIVES: Final[dict[str, tuple[Partial, ...]]] = {
    "add": (SAME, SAME),
    "subtract": (SAME, Partial(lambda emit, g, result, args: emit("negative", g))),
    "multiply": (
        Partial(lambda emit, g, result, args: emit("multiply", g, args[1]), (1,)),
        Partial(lambda emit, g, result, args: emit("multiply", g, args[0]), (0,)),
    ),
    "divide": (
        Partial(lambda emit, g, result, args: emit("zero_or_divide", g, args[1]), (1,)),
        Partial(of_divisor, (1, RESULT)),
    ),
    "negative": (Partial(lambda emit, g, result, args: emit("negative", g)),),
    "absolute": (Partial(lambda emit, g, result, args: emit("multiply", g, emit("sign", args[0])), (0,)),),
    "sqrt": (Partial(lambda emit, g, result, args: emit("zero_or_divide", g, emit("add", result, result)), (RESULT,)),),
    "exp": (Partial(lambda emit, g, result, args: emit("multiply", g, result), (RESULT,)),),
    "sin": (Partial(lambda emit, g, result, args: emit("multiply", g, emit("cos", args[0])), (0,)),),
    "cos": (Partial(lambda emit, g, result, args: negative_product(emit, g, emit("sin", args[0])), (0,)),),
    "tan": times(lambda emit, x, y: one_plus(emit, square(emit, y)), RESULT),
    "arcsin": over(lambda emit, x, y: emit("sqrt", one_minus(emit, square(emit, x))), 0),
    "arccos": times(lambda emit, x, y: emit("divide", emit.number(-1.0), emit("sqrt", one_minus(emit, square(emit, x)))), 0),
    "arctan": over(lambda emit, x, y: one_plus(emit, square(emit, x)), 0),
    "sinh": times(lambda emit, x, y: emit("cosh", x), 0),
    "cosh": times(lambda emit, x, y: emit("sinh", x), 0),
    "tanh": times(lambda emit, x, y: one_minus(emit, square(emit, y)), RESULT),
    "arcsinh": over(lambda emit, x, y: emit("sqrt", one_plus(emit, square(emit, x))), 0),
    "arccosh": over(lambda emit, x, y: emit("sqrt", emit("subtract", square(emit, x), emit.number(1.0))), 0),
    "arctanh": over(lambda emit, x, y: one_minus(emit, square(emit, x)), 0),
    "square": times(lambda emit, x, y: emit("add", x, x), 0),
    "reciprocal": times(lambda emit, x, y: emit("negative", square(emit, y)), RESULT),
    "exp2": times(lambda emit, x, y: emit("multiply", y, emit.number(math.log(2.0))), RESULT),
    "expm1": times(lambda emit, x, y: one_plus(emit, y), RESULT),
    "log": over(lambda emit, x, y: x, 0),
    "log2": over(lambda emit, x, y: emit("multiply", x, emit.number(math.log(2.0))), 0),
    "log10": over(lambda emit, x, y: emit("multiply", x, emit.number(math.log(10.0))), 0),
    "log1p": over(lambda emit, x, y: one_plus(emit, x), 0),
    "cbrt": over(lambda emit, x, y: emit("multiply", emit.number(3.0), square(emit, y)), RESULT),
    "power": (Partial(of_base, (0, 1)), Partial(of_exponent, (0, RESULT))),
    "arctan2": (of_angle("+", 1), of_angle("-", 0)),
    "hypot": (of_side(0), of_side(1)),
    "choose": (NONE, where_chosen(True), where_chosen(False)),
    "maximum": of_chosen("maximum"),
    "minimum": of_chosen("minimum"),
    "running_maximum": of_running("greater"),
    "running_minimum": of_running("less"),
    **dict.fromkeys(("floor", "ceil", "trunc", "rint", "sign"), (NONE,)),
    **dict.fromkeys(("to_f64", "to_f32"), (SAME,)),
    # Of the rules themselves.
    "zero_or_multiply": (
        Partial(lambda emit, g, result, args: emit("zero_or_multiply", g, args[1]), (1,)),
        Partial(lambda emit, g, result, args: unless_zero(emit, args[0], emit("zero_or_multiply", g, args[0])), (0,)),
    ),
    "zero_or_divide": (
        Partial(lambda emit, g, result, args: emit("zero_or_divide", g, args[1]), (1,)),
        Partial(lambda emit, g, result, args: unless_zero(emit, args[0], of_divisor(emit, g, result, args)), (0, 1, RESULT)),
    ),
    **dict.fromkeys(("share_of_maximum", "share_of_minimum"), (NONE, NONE)),
}
# Numbers that Tensors give without a derivative (docs/gradients.md).
CONSTANTS: Final = {"to_float": "float(x) of what is differentiated, which is a constant"}
