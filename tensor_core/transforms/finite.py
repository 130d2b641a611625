"""What is finite wherever the program's inputs are, by the form of the graph: no overflow of sums and products is thought of.

Of a program that asks for NaN, or is given truth values to choose by, inputs may be NaN as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.squares import MOVED, is_sum_of_squares, number_of

ASK_FOR_NAN = frozenset(["isnan", "isfinite", "isinf"])
ARITHMETIC = ("add", "subtract", "multiply", "negative", "positive", "conjugate", "square", "absolute", "fabs", "sign")
SMOOTH = ("sin", "cos", "tanh", "arctan", "arcsinh", "scalar_add", "scalar_subtract", "scalar_multiply", "zero_or_multiply")
SHAPED = ("einsum", "reduce", "scan", "concatenate", "slice_update", "scatter", "where", "maximum", "minimum", "complex", "imag")
ANYWHERE = frozenset((*ARITHMETIC, *SMOOTH, *SHAPED))
LEAVES = frozenset(["input", "index", "size", "literal"])
BELOW = {"divide": 1, "log": 0, "log2": 0, "log10": 0, "reciprocal": 0, "zero_or_divide": 1}  # the operand that is to be positive


def is_nan_asked_for(order: Iterable[Node]) -> bool:
    return any(n.op in ASK_FOR_NAN or n.op == "input" and n.meta.ndim and n.dtype == np.bool_ for n in order)


Question: TypeAlias = "Callable[[Finite, Node], bool]"
DEPTH = 32  # of a question that leads to others


def value_of(node: Node, depth: int = 4) -> float | None:
    """The number that all elements are, also where it is computed of constants, as counts of elements are."""
    found = number_of(node)
    if found is not None or not depth or node.op not in ("cast", "add", "subtract", "maximum", "broadcast_to"):
        return found
    parts = [value_of(x, depth - 1) for x in node.inputs]
    if any(x is None for x in parts):
        return None
    return float(parts[0] if len(parts) == 1 else getattr(np, node.op)(*parts))  # type: ignore[arg-type]


@dataclass(slots=True)
class Finite:
    """Answers about the nodes of a program, `order`, in which each comes after what it uses, and about what is made of them."""

    order: Sequence[Node]
    known: dict[tuple[Question, Node], bool] = field(default_factory=dict)
    are_inputs: bool | None = None
    is_begun: bool = False  # are all inputs known?
    depth: int = 0

    def __call__(self, node: Node) -> bool:
        if self.are_inputs is None:
            self.are_inputs = not is_nan_asked_for(self.order)
            for each in self.order:
                self._ask(Finite._finite, each)
            self.is_begun = bool(self.order)
        return self._ask(Finite._finite, node)

    def is_divisor(self, node: Node) -> bool:
        """Is a quotient by it finite?"""
        return self(node) and bool(value_of(node) or self._ask(Finite._positive, node))

    def _ask(self, question: Question, node: Node) -> bool:
        key = question, node
        if key not in self.known:
            self.depth += 1
            self.known[key] = self.depth < DEPTH and question(self, node)
            self.depth -= 1
        return self.known[key]

    def _all(self, question: Question, nodes: Iterable[Node]) -> bool:
        return all(self._ask(question, node) for node in nodes)

    def _finite(self, node: Node) -> bool:
        if isinstance(node.meta, TupleMeta):
            return False
        if node.dtype.kind in "biu":
            return True
        if node.op in LEAVES:  # an input that comes later is what eager Tensors have computed, and not said how
            return bool(self.are_inputs) and not (node.op == "input" and self.is_begun)
        if node.op == "constant":
            return bool(np.isfinite(node.params["value"]))
        if not node.inputs or not self._all(Finite._finite, node.inputs):  # a Tensor's may be freed
            return False
        match node.op:
            case "exp" | "exp2":
                return self._ask(Finite._not_above_zero, node.inputs[0])
            case "sqrt":
                return self._ask(Finite._not_below_zero, node.inputs[0])
            case "power" | "float_power" | "scalar_power":
                n = number_of(node.inputs[1])
                return n is not None and n >= 0 and n % 1 == 0 or self._ask(Finite._positive, node.inputs[0])
        if node.op in BELOW:
            return self._ask(Finite._positive, node.inputs[BELOW[node.op]])
        return node.op in ANYWHERE or node.op in MOVED

    def _positive(self, node: Node) -> bool:
        number = value_of(node)
        if number is not None:
            return number > 0
        match node.op:
            case "size":
                return True
            case "subtract":
                return value_of(node.inputs[1]) == 0 and self._ask(Finite._positive, node.inputs[0])
            case "add":
                return self._any_positive(node) and self._all(Finite._not_below_zero, node.inputs)
            case "maximum":
                return self._any_positive(node)
            case "multiply" | "minimum" | "concatenate" | "divide":
                return self._all(Finite._positive, node.inputs)
            case "where":
                return self._all(Finite._positive, node.inputs[1:])
            case "reduce":
                return node.params["reducer"] != "fmin" and self._ask(Finite._positive, node.inputs[0])
        return node.op in ("sqrt", *MOVED) and self._ask(Finite._positive, node.inputs[0])

    def _any_positive(self, node: Node) -> bool:
        return any(self._ask(Finite._positive, x) for x in node.inputs)

    def _not_below_zero(self, node: Node) -> bool:
        """Or NaN."""
        if node.op in ("absolute", "fabs", "exp", "exp2", "square", "sqrt") and node.dtype.kind == "f":
            return True
        if node.op in ("add", "multiply", "divide", "reduce", *MOVED):
            return is_sum_of_squares(node) or self._all(Finite._not_below_zero, node.inputs)
        if node.op == "cast" and node.inputs[0].dtype.kind in "bu" or node.op == "size":
            return True
        number = number_of(node)
        return number is not None and number >= 0 or self._ask(Finite._positive, node)

    def _not_above_zero(self, node: Node) -> bool:
        """Numbers less the greatest of them, and the negatives of squares."""
        if node.op == "negative":
            return self._ask(Finite._not_below_zero, node.inputs[0])
        if node.op == "multiply":
            a, b = map(number_of, node.inputs)
            return (a or b or 0) < 0 and self._ask(Finite._not_below_zero, node.inputs[a is not None])
        if node.op != "subtract":
            return node.op in MOVED and self._ask(Finite._not_above_zero, node.inputs[0])
        x, greatest = node.inputs
        while greatest.op in MOVED:
            greatest = greatest.inputs[0]
        return greatest.op == "reduce" and greatest.params["reducer"] == "maximum" and greatest.inputs[0] is x
