"""Floating-point errors that a C compiler would not let happen: those of operations on numbers that it knows.

GCC computes `2.5 / (double)(x < y)` while it compiles, one result for each of the two divisors. At the call there are then no
flags by which NumPy would report a division by zero (-ftrapping-math keeps them, and makes no vectors of comparisons).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.cpu.kept_values import is_noted
from npcompile.backends.kernels.kernel import Let, Value
from npcompile.tensor_core.op import OPS

MOST_KNOWN = 16  # numbers of one value, and results of an operation on such
BOOLEANS = np.array([False, True])
EXTREMES = ("maximum", "minimum", "fmax", "fmin")
DIVISIONS = {"divide": 1, "reciprocal": 0}  # op -> which operand divides


@dataclass(slots=True)
class KnownNumbers:
    """The numbers that values of a kernel are on some way through it, as the compiler knows."""

    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # the value's name -> these
    made: set[str] = field(default_factory=set)  # by operations that may note errors
    bounds: dict[str, np.ndarray] = field(default_factory=dict)  # of values between which and others one is chosen

    def of(self, value: Value) -> np.ndarray | None:
        return BOOLEANS if value.dtype.kind == "b" else self.numbers.get(value.name)

    def hidden(self, let: Let) -> int | None:
        """The operand that the compiler must not know, for the errors of this operation to happen. Learns what `let` makes."""
        if is_noted(let):
            self.made.add(let.target.name)
        if let.op == "constant":
            self._learn(let.target, [np.atleast_1d(np.asarray(dict(let.params)["value"], let.target.dtype))])
            return None
        if let.op == "where":
            self._learn(let.target, (known for arm in let.args[1:] if (known := self.of(arm)) is not None))
            return None
        if let.op in EXTREMES and (bounds := [x for a in let.args if (x := self.bounds_of(a)) is not None]):
            self.bounds[let.target.name] = np.concatenate(bounds)[:MOST_KNOWN]
        if let.op == "cast" and let.target.dtype.kind in "iu" and (found := self.bounds.get(let.args[0].name)) is not None:
            return 0 if computed(let, [found])[1] else None  # of (uint8) and 1e300 the maximum is known
        divisor = let.args[DIVISIONS[let.op]] if let.op in DIVISIONS else None
        if divisor is not None and divisor.dtype.kind in "fc" and is_chosen(known := self.of(divisor)) and not np.all(known):
            return DIVISIONS[let.op]
        operands = [self.of(a) for a in let.args]
        if let.target.dtype.kind == "b" or let.op not in OPS or not operands or any(x is None for x in operands):
            return None
        if np.prod([len(x) for x in operands if x is not None]) > MOST_KNOWN:
            return None
        results, has_errors = computed(let, [np.ravel(x) for x in np.meshgrid(*operands)])
        if not has_errors:
            self._learn(let.target, [results])
            return None
        return next((k for k, x in enumerate(operands) if is_chosen(x)), 0)

    def bounds_of(self, value: Value) -> np.ndarray | None:
        known = self.numbers.get(value.name)
        return self.bounds.get(value.name) if known is None else known

    def kept(self, let: Let) -> list[Value]:
        """What this choice drops in some elements, although it must be computed in all of them."""
        return [arm for arm in let.args[1:] if arm.name in self.made] if let.op == "where" else []

    def _learn(self, value: Value, known: Iterable[np.ndarray]) -> None:
        found = [x.astype(value.dtype) for x in known]
        if found and sum(map(len, found)) <= MOST_KNOWN:
            self.numbers[value.name] = np.concatenate(found)


def is_chosen(known: np.ndarray | None) -> bool:
    """Is it one number here and another there?"""
    return known is not None and len(known) > 1


def computed(let: Let, operands: list[np.ndarray]) -> tuple[np.ndarray, bool]:
    """What the operation makes of these numbers, and whether NumPy reports an error."""
    params: dict[str, Any] = dict(let.params)
    with np.errstate(all="raise"):
        try:
            return np.asarray(OPS[let.op].eager(*operands, **params)), False
        except FloatingPointError:
            return np.zeros(0), True


def hidden_text(x: str, c_type: str) -> str:
    """The same number, which the compiler cannot know."""
    return f'({{ {c_type} npc_hidden = {x}; __asm__("" : "+m"(npc_hidden)); npc_hidden; }})'
