"""Gradients on their way back: a gradient of 0 stays 0, whatever the slope.

What was not taken (by `where`, `maximum`, an index) has the gradient 0, although its slope may be infinite or NaN there. So
where a gradient comes from an op that chooses, every product with it is `zero_or_multiply`. Elsewhere a gradient is 0 by its
value alone. Then only ops that are finite where their slopes are not, as `sqrt`, have such products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.squares import number_of
from npcompile.tensor_core.transforms.finite import Finite
from npcompile.tensor_core.transforms.value import Value


@dataclass(frozen=True, slots=True, eq=False)
class Cotangent(Value):
    """A gradient that may be 0 where a slope is infinite or NaN; a wild one may also be infinite where a slope is 0."""

    finite: Finite
    is_wild: bool = False

    def __mul__(self, other: Any) -> Value:
        if not isinstance(other, Value):
            return self._binary("multiply", other)
        slope = self.like(other)
        product = self._binary("multiply", slope) if self.finite(slope.node) else self.op("zero_or_multiply", slope)
        return slope.equals(0).where(0, product) if self.is_wild else product

    def __truediv__(self, other: Any) -> Value:
        is_safe = not isinstance(other, Value) or self.finite.is_divisor(other.node)
        return self._binary("divide", other) if is_safe else self.op("zero_or_divide", other)

    def of(self, node: Node) -> Value:
        return Cotangent(self.builder, node, self.finite, self.is_wild)


@dataclass(slots=True)
class Chosen:
    """Which gradients come from ops that choose: of all others a zero is a value like any other."""

    finite: Finite
    others: set[Node] = field(default_factory=set)
    wild: set[Node] = field(default_factory=set)

    @classmethod
    def among(cls, order: Sequence[Node]) -> Chosen:
        return cls(Finite(order))

    def begin(self, output: Node, cotangent: Node) -> None:
        """An output of the program: a cotangent that is given may be anything, unless it is a constant."""
        if number_of(cotangent) is not None:
            self.others.add(output)

    def hand_on(self, node: Node) -> None:
        if node in self.others and not chooses(node):
            self.others.update(node.inputs)
        if node.op in ("zero_or_multiply", "zero_or_divide"):  # an infinite slope, of what may be 0 there
            self.wild.add(node.inputs[0])
        if self.wild and node in self.wild:
            self.wild.update(node.inputs)

    def cotangent(self, node: Node, g: Node, builder: Builder) -> Value:
        if node in self.others and node not in self.wild and not (node.op in OPS and OPS[node.op].singular):
            return Value(builder, g)
        return Cotangent(builder, g, self.finite, node in self.wild)


def chooses(node: Node) -> bool:
    if node.op not in OPS:
        return True
    answer = OPS[node.op].chooses
    return answer(**node.params) if callable(answer) else answer
