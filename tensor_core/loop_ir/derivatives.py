"""The derivative of each scalar op: what the operands of a result with gradient `g` get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias


class Emit(Protocol):
    """Computes a scalar op where the gradient is computed, and gives its result."""

    def __call__(self, op: str, /, *args: int) -> int: ...


# (emit, g, result, operands) -> a gradient for each operand. Operands and result are values where the gradient is computed.
Rule: TypeAlias = Callable[[Emit, int, int, list[int]], list[int]]


def negative_product(emit: Emit, g: int, x: int) -> int:
    return emit("negative", emit("multiply", g, x))


def of_quotient(emit: Emit, g: int, result: int, args: list[int]) -> list[int]:
    share = emit("divide", g, args[1])
    return [share, negative_product(emit, share, result)]


def of_root(emit: Emit, g: int, result: int, args: list[int]) -> list[int]:
    return [emit("divide", g, emit("add", result, result))]


DERIVATIVES: Final[dict[str, Rule]] = {
    "add": lambda emit, g, result, args: [g, g],
    "subtract": lambda emit, g, result, args: [g, emit("negative", g)],
    "multiply": lambda emit, g, result, args: [emit("multiply", g, args[1]), emit("multiply", g, args[0])],
    "divide": of_quotient,
    "negative": lambda emit, g, result, args: [emit("negative", g)],
    "absolute": lambda emit, g, result, args: [emit("multiply", g, emit("sign", args[0]))],
    "sqrt": of_root,
    "exp": lambda emit, g, result, args: [emit("multiply", g, result)],
    "sin": lambda emit, g, result, args: [emit("multiply", g, emit("cos", args[0]))],
    "cos": lambda emit, g, result, args: [negative_product(emit, g, emit("sin", args[0]))],
    "to_float": lambda emit, g, result, args: [g],
    "to_f64": lambda emit, g, result, args: [g],
}
# What a rule reads beside the gradient: operands by number, the result as -1.
READS: Final[dict[str, tuple[int, ...]]] = {
    "multiply": (0, 1),
    "divide": (1, -1),
    "absolute": (0,),
    "sqrt": (-1,),
    "exp": (-1,),
    "sin": (0,),
    "cos": (0,),
}
