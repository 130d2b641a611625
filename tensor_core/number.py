"""Python floats and complex numbers that a compiled program computes with but does not fix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import TensorMeta


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """The value of a Python expression at run time. It enters a graph as a weak 0-D input.

    `text` is written with the names of the generated function; `hint` is its value at capture. Integers are Dims,
    booleans are fixed by guards: only float and complex are Numbers.
    """

    env: ShapeEnv
    text: str
    hint: float | complex

    @classmethod
    def computed(cls, env: ShapeEnv, expression: str, hint: float | complex) -> Self:
        """The number that an expression gives."""
        return cls(env, env.short(expression), hint)

    @property
    def type(self) -> type:
        return type(self.hint)

    def node(self, builder: Builder) -> Node:
        meta = TensorMeta((), np.dtype(self.type), boxed=False, weak=True)
        return builder.input(meta, self.text)

    def ask(self, condition: str, answer: bool) -> bool:
        """Guard that `condition` (Python text about this number) has the answer that it has for the hint."""
        self.env.assume(condition if answer else f"not ({condition})")
        return answer

    def fix(self) -> float | complex:
        """The value as a constant, guarded to the bit (nan, and the sign of zero)."""
        if isinstance(self.hint, float):
            if math.isnan(self.hint):
                self.env.assume(f"{self.text} != {self.text}")
                return self.hint
            self.env.assume(f"({self.text}).hex() == {self.hint.hex()!r}")
        else:
            self.env.assume(f"repr({self.text}) == {repr(self.hint)!r}")
        return self.hint
