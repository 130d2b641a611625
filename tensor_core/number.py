"""Python numbers that a compiled program computes with but does not fix: floats, complex numbers, and large integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.guards import Equals, Ordered, Truth, compared
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.source import Call, Formula, Literal, Source, builtin

LARGEST = 1e300  # an integer up to here is a float


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """The value of a Python expression at run time. It enters a graph as a weak 0-D input.

    `source` is written with the names of the generated function; `hint` is its value at capture. Integers are Dims,
    booleans are fixed by guards: only float and complex are Numbers.
    """

    env: ShapeEnv
    source: Source
    hint: float | complex

    @classmethod
    def computed(cls, env: ShapeEnv, expression: Source, hint: float | complex) -> Self:
        """The number that an expression gives."""
        return cls(env, env.short(expression), hint)

    @property
    def type(self) -> type:
        return type(self.hint)

    def node(self, builder: Builder) -> Node:
        meta = TensorMeta((), np.dtype(self.type), boxed=False, weak=True)
        return builder.input(meta, self.source)

    def ask(self, condition: Source, answer: bool) -> bool:
        """Guard that `condition`, about this number, has the answer that it has for the hint."""
        self.env.assume(Truth(condition, answer))
        return answer

    def fix(self) -> float | complex:
        """The value as a constant, guarded to the bit (nan, and the sign of zero)."""
        if isinstance(self.hint, float):
            if math.isnan(self.hint):
                self.env.assume(compared(self.source, "!=", self.source))
                return self.hint
            self.env.assume(Equals(Formula("({}).hex()", self.source), Literal(self.hint.hex())))
        else:
            self.env.assume(Equals(Call(builtin(repr), self.source), Literal(repr(self.hint))))
        return self.hint


@dataclass(frozen=True, slots=True, eq=False)
class Integer:
    """A Python integer of any size, which no size of an array is made of: the value of an expression at run time.

    Smaller ones are Dims, which int64 holds whatever is computed with a few of them.
    """

    env: ShapeEnv
    source: Source
    hint: int

    def __str__(self) -> str:
        return str(self.source)

    def is_within(self, least: float, most: float | None = None) -> bool:
        """Is it neither less nor more? Guarded."""
        answer = least <= self.hint and (most is None or self.hint <= most)
        limits = (Literal(least), self.source, *([] if most is None else [Literal(most)]))
        self.env.assume(Ordered(limits, ("<=",) * (len(limits) - 1), answer))
        return answer

    def node(self, builder: Builder, dtype: np.dtype) -> Node:
        """As a loop of this dtype reads it: integers exactly, others as Python's float, which NumPy makes of it."""
        if dtype.kind in "fc" and dtype.char not in "gG":
            return builder.input(TensorMeta((), np.dtype(float), boxed=False, weak=True), Call(builtin(float), self.source))
        read_as = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
        meta = TensorMeta((), read_as, boxed=False, writeable=False)
        return builder.input(meta, Formula(f"np.{read_as.name}({{}})", self.source))
