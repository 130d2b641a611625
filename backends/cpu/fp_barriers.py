"""Floating-point errors that a C compiler would not let happen: those of operations on numbers that it knows.

GCC computes `2.5 / (double)(x < y)` while it compiles, one result for each of the two divisors, and of integers it knows what no
element decides: `v - v`, `v * 0`, `u8 >> 8`; and what NaN makes of any number. At the call there are then no flags by which NumPy
would report an error (-ftrapping-math keeps them, and makes no vectors of comparisons). Which values a compiler may know is found
by trying: of varied numbers those that it knows take few values. Where an operation on these has an error, one operand is made
opaque.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.cpu.kept_values import BITS, INTEGERS, PARTS, changed_part, is_noted, none_of_bits, samples
from npcompile.backends.cpu.kept_values import computed as computed_samples
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import Accumulate, Accumulator, Let, Position, Value
from npcompile.tensor_core.dim import Size, evaluate
from npcompile.tensor_core.op import OPS

MOST_KNOWN = 16  # numbers of one value, and results of an operation on such
FEW = 4  # so few different numbers a value takes that a compiler may know: np.sign(x) of NaN too
ANY = np.array([0, 1, 2])  # numbers beside NaN
BOOLEANS = np.array([False, True])
DIVISIONS = {"divide": 1, "reciprocal": 0}  # op -> which operand divides


@dataclass(slots=True)
class KnownNumbers:
    """The numbers that values of a kernel are on some way through it, as the compiler knows."""

    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # the value's name -> these
    made: set[str] = field(default_factory=set)  # by operations that may note errors
    tried: dict[str, np.ndarray | None] = field(default_factory=dict)  # some elements of each value; None: unknown
    varied: set[str] = field(default_factory=set)  # values that take more than a few numbers of these
    read: dict[object, np.ndarray] = field(default_factory=dict)  # of elements of memory
    totals: set[str] = field(default_factory=set)  # accumulators whose results the compiler may know

    def of(self, value: Value) -> np.ndarray | None:
        if value.dtype.kind == "b":
            return BOOLEANS
        if (known := self.numbers.get(value.name)) is not None or value.name in self.varied:
            return known
        if (tried := self.tried.get(value.name)) is not None:
            if (found := few_of(tried)) is not None:
                self.numbers[value.name] = found
            else:
                self.varied.add(value.name)
        return self.numbers.get(value.name)

    def hidden(self, let: Let) -> int | None:
        """The operand that the compiler must not know, for the errors of this operation to happen. Learns what `let` makes."""
        if is_noted(let):
            self.made.add(let.target.name)
        self._try(let)
        if let.op == "constant":
            self._learn(let.target, [np.atleast_1d(np.asarray(dict(let.params)["value"], let.target.dtype))])
            return None
        if let.op == "where":
            self._learn(let.target, (known for arm in let.args[1:] if (known := self.of(arm)) is not None))
            return None
        if (nan := self._nan_at(let)) is not None:
            self.tried[let.target.name] = None
            return nan
        divisor = let.args[DIVISIONS[let.op]] if let.op in DIVISIONS else None
        if divisor is not None and divisor.dtype.kind in "fc" and is_chosen(known := self.of(divisor)) and not np.all(known):
            return DIVISIONS[let.op]
        if let.target.dtype.kind == "b" or let.op not in OPS or not let.args:
            return None
        operands = []
        for a in let.args:
            if (known := self.of(a)) is None:
                return None
            operands.append(known)
        if math.prod(map(len, operands)) > MOST_KNOWN:
            return None
        results, has_errors = computed(let, [np.ravel(x) for x in np.meshgrid(*operands)])
        if not has_errors:
            self._learn(let.target, [results])
            return None
        self.tried[let.target.name] = None  # from here on
        return next((k for k, x in enumerate(operands) if is_chosen(x)), 0)

    def opaque(self, operand: Value, text: str, pointer: str = "rt") -> str:
        """A hidden operand."""
        return opaque_text(text, c_type(operand.dtype), not is_chosen(self.of(operand)), pointer)

    def kept(self, let: Let) -> list[Value]:
        """What this choice drops in some elements, although it must be computed in all of them."""
        return [arm for arm in let.args[1:] if arm.name in self.made] if let.op == "where" else []

    def reads(self, value: Value, place: object) -> None:
        """The value is what is in memory at that place: the same as all others that are read there."""
        if place not in self.read:
            self.read[place] = samples(value.dtype, len(self.read) + len(self.tried))
        self.tried[value.name] = self.read[place]

    def is_at(self, position: Position, sizes: Mapping[str, Size]) -> None:
        """A compiler writes loops of few iterations out, and then knows their positions. `sizes`: of the loops' axes."""
        axes = sorted(symbols_in(position.index))
        ranges = [range(n) for a in axes if isinstance(n := sizes.get(a), int) and n <= MOST_KNOWN]
        if len(ranges) == len(axes) and np.prod([len(r) for r in ranges]) <= MOST_KNOWN:
            found = [evaluate(position.index, dict(zip(axes, at))) for at in itertools.product(*ranges)]
            self._learn(position.target, [np.array(found, position.target.dtype)])

    def accumulates(self, s: Accumulate) -> None:
        if s.value.dtype.kind != "b" and self.of(s.value) is not None:
            self.totals.add(s.accumulator)

    def total(self, a: Accumulator, text: str) -> str:
        """The result of a reduction: made opaque, where it is one of numbers that the compiler may know."""
        return opaque_text(text, c_type(a.result.dtype), is_one=True) if a.name in self.totals else text

    def _nan_at(self, let: Let) -> int | None:
        """The operand that the compiler knows to be NaN, where that is an error: it need not know the others then."""
        known = [self.of(a) for a in let.args]
        found = next((k for k, x in enumerate(known) if x is not None and x.dtype.kind in "fc" and np.isnan(x).any()), None)
        if found is None or let.op not in OPS:
            return None
        operands = [ANY.astype(a.dtype) if x is None else x for a, x in zip(let.args, known)]
        return found if computed(let, [np.ravel(x) for x in np.meshgrid(*operands)])[1] else None

    def _try(self, let: Let) -> None:
        """Some elements of a value."""
        if let.target.name in self.tried:
            return
        for k, a in enumerate(let.args):
            if a.name not in self.tried:
                self.tried[a.name] = samples(a.dtype, len(self.tried) + k)
        self.tried[let.target.name] = computed_samples(let, [self.tried[a.name] for a in let.args])

    def _learn(self, value: Value, known: Iterable[np.ndarray]) -> None:
        found = [x.astype(value.dtype) for x in known]
        if found and sum(map(len, found)) <= MOST_KNOWN:
            self.numbers[value.name] = np.concatenate(found)


def few_of(numbers: np.ndarray) -> np.ndarray | None:
    """The different ones, NaN once, if these are few."""
    if len({x for x in numbers[: 4 * FEW].tolist() if x == x}) > FEW:
        return None
    found = np.unique(numbers)
    return found if len(found) <= FEW else None


def is_masking(let: Let, constants: Container[str]) -> bool:
    """May the choice of a constant be there for what is made of it to have no error? LLVM takes 1 / (c ? x : 1) for c ? 1 / x : 1
    and divides by each x: where that has an error, NumPy would be asked each time."""
    is_float = let.target.dtype.kind == "f" and let.target.dtype.itemsize in (4, 8)
    return let.op == "where" and is_float and any(arm.name in constants for arm in let.args[1:])


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


def opaque_text(x: str, c_type: str, is_one: bool, pointer: str = "rt") -> str:
    """The same number, which the compiler cannot know: in vectors too, if it `is_one` wherever the compiler knows it.

    Where it is chosen GCC would take apart what changes its bits, and divide by each number. `pointer`: see `kept_text`.
    """
    use = none_of_bits(pointer)
    if is_one and c_type in PARTS:
        parts = ", ".join(changed_part(f"npc_z.{part}", PARTS[c_type], use) for part in ("re", "im"))
        return f"({{ const {c_type} npc_z = {x}; ({c_type}){{{parts}}}; }})"
    if is_one and c_type in INTEGERS:
        return f"({c_type})({x} ^ ({c_type}){use})"
    if is_one and c_type in BITS:
        return changed_part(x, c_type, use)
    return f'({{ {c_type} npc_hidden = {x}; __asm__("" : "+m"(npc_hidden)); npc_hidden; }})'
