"""How two running results of a reduction become one, as Triton functions on blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npcompile.backends.cuda.programs.primitives import expressions, literal, part_of, triton_type
from npcompile.backends.kernels.kernel import Accumulator
from npcompile.backends.kernels.operations import short

NO_POSITION = "NOWHERE"  # larger than any position
LOGIC = {"add": "|", "multiply": "&", "maximum": "|", "minimum": "&", "fmax": "|", "fmin": "&"}
LOGIC |= {"logical_or": "|", "logical_and": "&", "logical_xor": "^"}
LOGIC |= {"bitwise_or": "|", "bitwise_and": "&", "bitwise_xor": "^"}
BOOLEAN = np.dtype(np.int32)  # Triton reduces no booleans


@dataclass(frozen=True, slots=True)
class Combine:
    """The combination of one accumulator: its state is one block, or two (complex parts, or a value and its position)."""

    accumulator: Accumulator

    @property
    def is_position(self) -> bool:
        return self.accumulator.reducer in ("arg_max", "arg_min")

    @property
    def dtype(self) -> np.dtype:
        """Of what is combined."""
        dtype = self.accumulator.dtype
        return BOOLEAN if dtype.kind == "b" else dtype

    @property
    def types(self) -> list[str]:
        """Triton's, of the blocks of the state."""
        own = triton_type(self.dtype)
        return [own, "INDEX"] if self.is_position else [own, own] if self.dtype.kind == "c" else [own]

    @property
    def memory(self) -> list[np.dtype]:
        """The dtypes of the blocks when they are in memory."""
        part = part_of(self.dtype)
        return [part, np.dtype(np.int64)] if self.is_position else [part, part] if self.dtype.kind == "c" else [part]

    @property
    def is_compensated(self) -> bool:
        """Are rounding errors of long sums kept beside them?"""
        return self.accumulator.reducer == "add" and self.dtype.kind == "f"

    @property
    def name(self) -> str:
        return f"combine_{self.accumulator.reducer}_{short(self.accumulator.dtype)}"

    def states(self, prefix: str) -> list[str]:
        return [f"{prefix}_{k}" for k in range(len(self.types))]

    def identity(self) -> list[str]:
        """What changes nothing that it is combined with, as numbers."""
        reducer, dtype = self.accumulator.reducer, self.dtype
        if self.accumulator.dtype.kind == "b":
            of_all = reducer in ("multiply", "minimum", "fmin", "logical_and", "bitwise_and")
            return {"arg_max": ["0", NO_POSITION], "arg_min": ["1", NO_POSITION]}.get(reducer, [str(int(of_all))])
        if dtype.kind == "c":
            return ["-0.0", "-0.0"] if reducer == "add" else ["1.0", "0.0"]
        if self.is_position:
            return [extreme(dtype, lowest=reducer == "arg_max"), NO_POSITION]
        if reducer == "add":
            return ["-0.0" if dtype.kind == "f" else "0"]
        if reducer in ("fmax", "fmin") and dtype.kind == "f":
            return ['float("nan")']
        if reducer in ("maximum", "fmax", "minimum", "fmin"):
            return [extreme(dtype, lowest=reducer in ("maximum", "fmax"))]
        if reducer == "bitwise_and":
            return [str(-1 if dtype.kind == "i" else np.iinfo(dtype).max)]
        return [{"multiply": "1", "logical_and": "1"}.get(reducer, "0") + (".0" if dtype.kind == "f" else "")]

    def text(self) -> str:
        """The Triton function, of both states."""
        a, b = self.states("a"), self.states("b")
        head = f"@triton.jit\ndef {self.name}({', '.join([*a, *b])}):\n"
        if self.is_position:
            relation = ">" if self.accumulator.reducer == "arg_max" else "<"
            return head + POSITION.replace("RELATION", relation)
        if self.accumulator.dtype.kind == "b":
            return f"{head}    return {a[0]} {LOGIC[self.accumulator.reducer]} {b[0]}\n\n"
        if (text := COMMUTING.get((self.accumulator.reducer, self.dtype.kind))) is not None:
            return f"{head}    return {text}\n\n"
        if self.dtype.kind == "c":
            texts = expressions(self.accumulator.reducer, ["a", "b"], [self.dtype] * 2, self.dtype)
            names = {f"{x}_{p}": f"{x}_{k}" for x in "ab" for k, p in enumerate("ri")}
            for old, new in names.items():
                texts = [t.replace(old, new) for t in texts]
            return f"{head}    return {', '.join(texts)}\n\n"
        (text,) = expressions(self.accumulator.reducer, ["a_0", "b_0"], [self.dtype] * 2, self.dtype)
        return f"{head}    return {text}\n\n"


# Threads that hold the same element combine it in either order, and any of them may store it: each bit has to be the same.
# So complex products are not fused, and of 0.0 and -0.0 the maximum is 0.0.
COMMUTING = {("multiply", "c"): "a_0 * b_0 - a_1 * b_1, a_0 * b_1 + a_1 * b_0"}
for name in ("maximum", "minimum"):
    either = f"tl.{name}(a_0, b_0, propagate_nan=tl.PropagateNan.ALL)"
    COMMUTING[name, "f"] = either
    COMMUTING[f"f{name[:3]}", "f"] = f"tl.where(a_0 != a_0, b_0, tl.where(b_0 != b_0, a_0, {either}))"

# Knuth's two-sum, exact whichever is larger: sums and their rounding errors.
TWO_SUMS = """@triton.jit
def combine_two_sums(a, a_low, b, b_low):
    high = a + b
    part = high - a
    error = (a - (high - part)) + (b - part)
    return high, a_low + b_low + error

"""

# NaN is better than any number; of equal values the first one is taken.
POSITION = """    is_better = (b_0 RELATION a_0) | ((b_0 != b_0) & (a_0 == a_0))
    is_same = (a_0 == b_0) | ((a_0 != a_0) & (b_0 != b_0))
    takes_b = is_better | (is_same & (b_1 < a_1))
    return tl.where(takes_b, b_0, a_0), tl.where(takes_b, b_1, a_1)

"""


def extreme(dtype: np.dtype, *, lowest: bool) -> str:
    if dtype.kind == "f":
        return literal(np.float64(-np.inf if lowest else np.inf), np.dtype(np.float64))
    return str(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)
