"""What a ufunc is applied to, and which of its loops NumPy runs for that (NEP 50)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import as_array, require_dtype
from npcompile.tensor_core.array import Array, as_it_lies, cast, fresh, size_node
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.dtypes import canonical
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, Shape
from npcompile.tensor_core.number import LARGEST, Integer, Number

NoValue = np._NoValue
Weak = int | float | complex | Dim | Number | Integer
Dtypes = tuple[np.dtype, ...]
PYTHON_TYPES = {"i": int, "f": float, "c": complex}  # of weak numbers, by the kind of their dtype


@dataclass(frozen=True, slots=True)
class Operand:
    """What a ufunc is applied to: an array with a dtype of its own, or a Python number, which is weak (NEP 50).

    A Python number of which only the type is known, as in the body of a loop, is an Array that `meta.weak` marks.
    """

    value: Array | Weak

    @property
    def is_weak(self) -> bool:
        return not isinstance(self.value, Array) or self.value.meta.weak

    @property
    def type(self) -> np.dtype | type:
        """As `ufunc.resolve_dtypes` wants it."""
        match self.value:
            case Array():
                return PYTHON_TYPES[self.value.dtype.kind] if self.value.meta.weak else self.value.dtype
            case Dim() | Integer():
                return int
            case Number():
                return self.value.type
            case _:
                return type(self.value)

    @property
    def shape(self) -> Shape:
        return self.value.shape if isinstance(self.value, Array) else ()

    def node(self, builder: Builder, dtype: np.dtype) -> Node:
        """The operand as the loop reads it. Declines where NumPy raises OverflowError."""
        match self.value:
            case Array():
                if self.value.meta.weak and self.value.dtype.kind == "i" and dtype.kind in "iu" and dtype != self.value.dtype:
                    raise Decline(f"a Python integer that may be out of bounds for {dtype}")
                node = as_it_lies(self.value) if builder.root.is_bitwise else self.value.node
                if self.value.meta.weak and node.dtype.kind == "i" and dtype.kind in "fc" and dtype.char not in "gG":
                    node = cast(builder, node, np.dtype(float))  # which NumPy makes of a Python integer first
                return cast_quietly(builder, node, dtype)
            case Dim():
                require_range(self.value, dtype)
                return cast(builder, size_node(builder, self.value), dtype)
            case Number():
                return cast_quietly(builder, self.value.node(builder), dtype)
            case Integer():
                require_range(self.value, dtype)
                return cast_quietly(builder, self.value.node(builder, dtype), dtype)
            case _:
                require_range(self.value, dtype)
                return weak_constant(builder, self.value, dtype)


def operand(builder: Builder, value: Any) -> Operand:
    """Anything that a ufunc takes. Declines what has its own __array_ufunc__, objects, strings and dates."""
    if isinstance(value, (Array, Dim, Number, Integer)) or type(value) in (int, float, complex):
        return Operand(value)
    if type(value) in (bool, list, tuple, np.ndarray) or isinstance(value, np.generic):
        return Operand(as_array(builder, value))
    raise Decline(f"a {type(value).__name__} as the operand of a ufunc runs as NumPy")


def cast_quietly(builder: Builder, node: Node, dtype: np.dtype) -> Node:
    """A cast that NumPy does without a word."""
    if node.dtype.kind == "c" and dtype.kind not in "cb":
        raise Decline("casting complex to real discards the imaginary part, with a warning")
    return cast(builder, node, dtype)


def weak_constant(builder: Builder, value: float | complex, dtype: np.dtype) -> Node:
    over = "ignore" if "over" in builder.ignored else "raise"
    with np.errstate(all="ignore", over=over):
        try:
            return builder.constant(value, dtype)
        except FloatingPointError as error:
            raise Decline(str(error), "NumPy warns of it at each call: write np.inf.") from None
        except (OverflowError, TypeError, ValueError) as error:  # too large, complex in a real loop, NaN in an integer one
            raise Decline(str(error)) from None


def is_in_range(value: Any, dtype: np.dtype) -> bool:
    """Does the integer loop `dtype` hold this weak number? A question about a Dim is guarded."""
    if isinstance(value, Integer):
        return value.is_within(*limits_of(dtype))
    if dtype.kind not in "biu" or not isinstance(value, (int, Dim)):
        return True
    limits = np.iinfo(np.int64 if dtype.kind == "b" else dtype)
    if isinstance(value, Dim) and limits.bits == 64:  # symbols are int64
        return limits.kind == "i" or bool(value >= 0)
    return bool(limits.min <= value) and bool(value <= limits.max)


def limits_of(dtype: np.dtype) -> tuple[float, float]:
    """Of integers that a loop of the dtype is given."""
    if dtype.kind in "fc" and dtype.char not in "gG":
        return -LARGEST, LARGEST
    limits = np.iinfo(dtype if dtype.kind in "iu" else np.int64)
    return int(limits.min), int(limits.max)


def without_arrays(builder: Builder, o: Operand, count: int) -> Operand:
    """A Python number beside no array: int64, float64 or complex128, also when a loop is asked for by its dtype."""
    require_range(o.value, np.dtype(np.int64))
    if isinstance(o.value, Array):
        return Operand(fresh(builder, o.value.node, boxed=False))
    return Operand(as_array(builder, o.value)) if count == 1 else o


def require_range(value: Any, dtype: np.dtype) -> None:
    if not is_in_range(value, dtype):
        raise Decline(f"Python integer {value} out of bounds for {dtype}")


# --- which loop


def resolve(
    ufunc: np.ufunc,
    types: tuple[np.dtype | type | None, ...],
    signature: tuple[Any, ...] | None = None,
    casting: str = "same_kind",
    reduction: bool = False,
) -> Dtypes:
    """The dtypes of the loop that NumPy runs for operands of these types, outputs last. Declines where it raises."""
    chars = tuple(t.char if isinstance(t, np.dtype) else "" for t in types)  # C's long and long long are equal as dtypes
    return resolved(ufunc, types, signature, casting, reduction, chars)


@lru_cache(maxsize=4096)
def resolved(
    ufunc: np.ufunc,
    types: tuple[np.dtype | type | None, ...],
    signature: tuple[Any, ...] | None,
    casting: str,
    reduction: bool,
    chars: tuple[str, ...],
) -> Dtypes:
    if casting in ("no", "equiv") and any(isinstance(t, type) for t in types):
        raise Decline(f"casting={casting!r} of Python numbers")  # resolve_dtypes of NumPy 2.4 crashes on some
    fixed = {} if signature is None else {"signature": signature}
    try:
        found = ufunc.resolve_dtypes(types, casting=casting, reduction=reduction, **fixed)
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    *inputs, result = map(require_dtype, found)
    return (*map(canonical, inputs), require_canonical(result))  # of int64's C types, the inputs' do not matter


def require_canonical(dtype: np.dtype) -> np.dtype:
    """NumPy has two integer types of the same 64 bits (long and longlong): graphs have one."""
    if require_dtype(dtype).char != canonical(dtype).char:
        raise Decline(f"arrays of the C type {dtype.char!r} run as NumPy")
    return dtype


def read_signature(ufunc: np.ufunc, dtype: Any, signature: Any, sig: Any) -> tuple[Any, ...] | None:
    """The `dtype=` and `signature=` keywords as the tuple that `resolve_dtypes` takes."""
    given = [s for s in (signature, sig) if s is not NoValue]
    if None in given:
        raise Decline("the signature object to ufunc must be a string or a tuple.")
    if dtype is not NoValue and given:
        raise Decline("cannot specify both 'signature' and 'dtype'")
    if dtype is not None and dtype is not NoValue:
        given.append((*(None,) * ufunc.nin, *(as_dtype(dtype),) * ufunc.nout))
    if not given:
        return None
    if len(given) > 1:
        raise Decline("cannot specify both 'sig' and 'signature'")
    (only,) = given
    if isinstance(only, str):
        inputs, arrow, outputs = only.partition("->")
        only = tuple(inputs + outputs) if arrow else ()
    if not isinstance(only, tuple) or len(only) != ufunc.nin + ufunc.nout:
        raise Decline(f"the signature {only!r} of {ufunc.__name__} runs as NumPy")
    return tuple(None if part is None else as_dtype(part) for part in only)


def as_dtype(value: Any) -> np.dtype:
    try:
        return require_canonical(require_dtype(value))
    except TypeError as error:
        raise Decline(str(error)) from None


def require_no_error(ufunc: np.ufunc, operands: Sequence[Operand], loop: Dtypes) -> None:
    """Integer powers raise on a negative exponent: only exponents that cannot be negative are captured."""
    if ufunc is not np.power or loop[0].kind != "i":
        return
    exponent = operands[1].value
    if isinstance(exponent, Array):
        constant = exponent.node.params["value"] if exponent.node.op == "constant" else None
        exact = np.can_cast(exponent.dtype, loop[1], "safe")
        known = exact and (exponent.dtype.kind in "ub" or constant is not None and constant >= 0)
    else:
        known = isinstance(exponent, (int, Dim)) and bool(exponent >= 0)
    if not known:
        raise Decline("integers to integer powers that may be negative run as NumPy")
