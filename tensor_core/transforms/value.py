"""Arithmetic on nodes, for the rules of the op table: `g * y` instead of `builder.apply("multiply", g.node, y.node)`.

Operands have one shape and dtype, as the operands of the graph's elementwise ops have. Python numbers, and 0-D values,
stand for themselves repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from npcompile.tensor_core.array import expand, full, permute, reshaped
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.dtypes import is_bfloat16, is_same_dtype
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Shape
from npcompile.tensor_core.op import OPS


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    builder: Builder
    node: Node

    @property
    def shape(self) -> Shape:
        return self.node.meta.shape

    @property
    def dtype(self) -> np.dtype:
        return self.node.meta.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.meta.shape)

    # --- any op of the table

    def op(self, name: str, *others: Value | float | complex, **params: Any) -> Value:
        """`name(self, *others, **params)`; numbers and 0-D operands of elementwise ops are repeated to self's shape."""
        is_elementwise = OPS[name].kind == "elementwise"
        nodes = [self.like(x).node if is_elementwise or not isinstance(x, Value) else x.node for x in others]
        return self.of(self.builder.apply(name, self.node, *nodes, **params))

    def like(self, x: Value | float | complex | Size) -> Value:
        """A number, or a 0-D value, repeated to self's shape; other values as they are."""
        if isinstance(x, Value):
            return x.broadcast_to(self.shape) if x.ndim == 0 and self.ndim else x
        if isinstance(x, Dim):
            return self.of(self.builder.apply("size", value=x)).cast(self.dtype).broadcast_to(self.shape)
        return self.of(full(self.builder, self.shape, x, self.dtype))

    def of(self, node: Node) -> Value:
        return Value(self.builder, node)

    def zeros(self) -> Value:
        """Zeros of self's shape and dtype."""
        return self.like(0)

    # --- arithmetic

    def _binary(self, name: str, other: Value | float | complex, is_reflected: bool = False) -> Value:
        if isinstance(other, Value) and self.ndim == 0 and other.ndim:
            a, b = other.like(self), other
        else:
            a, b = self, self.like(other)
        a, b = (b, a) if is_reflected else (a, b)
        return self.of(self.builder.apply(name, a.node, b.node))

    def __add__(self, other: Any) -> Value:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Value:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Value:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Value:
        return self._binary("subtract", other, True)

    def __mul__(self, other: Any) -> Value:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Value:
        return self._binary("multiply", other, True)

    def __truediv__(self, other: Any) -> Value:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._binary("divide", other, True)

    def __pow__(self, other: Any) -> Value:
        return self._binary("power", other)

    def __neg__(self) -> Value:
        return self.op("negative")

    # Comparisons give bool values. `==` stays identity: values are compared by `equals`.

    def __lt__(self, other: Any) -> Value:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Value:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Value:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Value:
        return self._binary("greater_equal", other)

    def equals(self, other: Any) -> Value:
        return self._binary("equal", other)

    def __and__(self, other: Any) -> Value:
        return self._binary("logical_and", other)

    def __or__(self, other: Any) -> Value:
        return self._binary("logical_or", other)

    def __invert__(self) -> Value:
        return self.op("logical_not")

    def where(self, x: Value | float, y: Value | float) -> Value:
        """x where self (bool) is true, else y. One of the two is a Value, and gives the shape and dtype."""
        prototype = x if isinstance(x, Value) else y
        assert isinstance(prototype, Value)
        return prototype.of(self.builder.apply("where", self.node, prototype.like(x).node, prototype.like(y).node))

    def __getattr__(self, name: str) -> Any:
        """Elementwise ops as methods: x.exp(), x.conjugate(), x.hypot(y)."""
        if name in OPS and OPS[name].kind == "elementwise":
            return partial(self.op, name)
        raise AttributeError(name)

    # --- types and shapes

    def cast(self, dtype: Any) -> Value:
        """astype(dtype); complex to real takes the real part."""
        dtype = np.dtype(dtype)
        if is_same_dtype(self.dtype, dtype):
            return self
        if self.dtype.kind == "c" and dtype.kind != "c":
            return self.op("real").cast(dtype)
        return self.op("cast", dtype=dtype)

    def broadcast_to(self, shape: Sequence[Size]) -> Value:
        return self.of(expand(self.builder, self.node, tuple(shape)))

    def reshape(self, shape: Sequence[Size]) -> Value:
        return self.of(reshaped(self.builder, self.node, tuple(shape)))

    def permute(self, axes: Sequence[int]) -> Value:
        return self.of(permute(self.builder, self.node, tuple(axes)))

    def reduce(self, reducer: str, axes: Sequence[int], keepdims: bool = False) -> Value:
        """Combine over `axes`, which disappear, or stay with size 1."""
        axes = tuple(sorted(axes))
        if not axes:
            return self
        if is_bfloat16(self.dtype) and reducer in ("add", "multiply"):  # in steps of bfloat16 a sum of ones ends at 256
            return self.cast(np.float32).reduce(reducer, axes, keepdims).cast(self.dtype)
        result = self.op("reduce", reducer=reducer, axes=axes)
        return result.reshape([1 if a in axes else n for a, n in enumerate(self.shape)]) if keepdims else result

    def sum(self, axes: Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("add", range(self.ndim) if axes is None else axes, keepdims)

    def sum_to(self, shape: Sequence[Size]) -> Value:
        """The sum over the axes along which `shape` was repeated to make self's shape."""
        lead = self.ndim - len(shape)
        repeated = [a for a, n in enumerate(self.shape) if a < lead or (is_one(shape[a - lead]) and not is_one(n))]
        return self.sum(repeated).reshape(shape)

    def __repr__(self) -> str:
        return f"Value({self.node.meta})"


def is_one(n: Size) -> bool:
    return isinstance(n, int) and n == 1 or same(n, 1)
