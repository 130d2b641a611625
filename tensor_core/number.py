"""Python numbers that a compiled program computes with but does not fix: floats, complex numbers, and large integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import TensorMeta

LARGEST = 1e300  # an integer up to here is a float


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


@dataclass(frozen=True, slots=True, eq=False)
class Integer:
    """A Python integer of any size, which no size of an array is made of: the value of an expression at run time.

    Smaller ones are Dims, which int64 holds whatever is computed with a few of them.
    """

    env: ShapeEnv
    text: str
    hint: int

    def __str__(self) -> str:
        return self.text

    def is_within(self, least: float, most: float | None = None) -> bool:
        """Is it neither less nor more? Guarded."""
        answer = least <= self.hint and (most is None or self.hint <= most)
        text = f"{least} <= {self.text}" + (f" <= {most}" if most is not None else "")
        self.env.assume(text if answer else f"not ({text})")
        return answer

    def node(self, builder: Builder, dtype: np.dtype) -> Node:
        """As a loop of this dtype reads it: integers exactly, others as Python's float, which NumPy makes of it."""
        if dtype.kind in "fc" and dtype.char not in "gG":
            return builder.input(TensorMeta((), np.dtype(float), boxed=False, weak=True), f"float({self.text})")
        read_as = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
        meta = TensorMeta((), read_as, boxed=False, writeable=False)
        return builder.input(meta, f"np.{read_as.name}({self.text})")
