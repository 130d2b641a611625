"""The op table: one row is the whole op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from npcompile.tensor_core.meta import TensorMeta

# Of `vjp` rules. The class is above the table: it makes nodes.
Value = Any  # transforms.value.Value
Parts = Any  # for each input a Value of its shape and dtype, None for zero, or a function that gives one of these


class Cost(IntEnum):
    """How long an element takes."""

    QUICK = 1  # a vector instruction of a cycle or two
    MODERATE = 2
    DIVISION = 3  # a division, or a square root
    FUNCTION = 4  # such as exp: longer than reading the operands from memory


class Silent(IntEnum):
    """Where NumPy reports no floating-point error of an op, whatever the data."""

    NEVER = 0
    REAL = 1  # of real numbers
    ALWAYS = 2


class Reads(IntFlag):
    """What a derivative reads beside the cotangent, of what has a derivative itself."""

    NOTHING = 0
    OPERANDS = 1
    RESULT = 2
    BOTH = 3


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """What the graph can say. Inputs are nodes; params are hashable and known when capturing (sizes may be Dims)."""

    name: str
    kind: str  # leaf, elementwise, movement, update, reduction, scan, gather, scatter, contraction, extern, control
    meta: Callable[..., TensorMeta]  # (*input metas, **params) -> meta of the result
    eager: Callable[..., np.ndarray]  # (*arrays, **params) -> array: the op's meaning, in NumPy
    vjp: Callable | None = None  # (g, out, *inputs) -> gradients; None: as the decomposition has it, or not differentiable
    numpy: Callable | None = None  # the function that this answers to: NumPy's, or one written with NumPy's
    loops: np.ufunc | None = None  # whose dtypes it takes and gives
    # (*Values of the inputs, **params) -> Value: the op written with others, of which backends know (`transforms/decompose.py`).
    decomposition: Callable | None = None
    raises: tuple[type[Exception], ...] = ()  # what it can raise on data: such ops are not captured inside `try`
    samples: Callable | None = None  # (dtype, rng) -> argument tuples for the table's own tests
    # Where a backend's result may differ from NumPy's in the last bits: the letters of the first input's dtypes of which it may,
    # or a question about that input's meta and the params. Never in bfloat16 or integers. `exactness.may_differ` asks it.
    inexact: str | Callable[..., bool] = ""
    cost: Cost = Cost.MODERATE
    # By the derivative, or a question about the params. None: what the rule of a ufunc is seen to read (`reverse.reads_of`).
    reads: Reads | Callable[..., Reads] | None = None
    silent: Silent = Silent.NEVER
    # Is the function finite where its slope is infinite? Then a gradient of 0 is kept 0 there (`transforms/cotangent.py`).
    singular: bool = False
    # Is a gradient exactly 0 where the op took nothing from an operand, or a question about the params?
    chooses: bool | Callable[..., bool] = False
    stacks: bool = False  # extern: does the same for each part along one more axis 0 of all inputs; axis params count it

    def may_report(self, dtypes: Iterable[np.dtype]) -> bool:
        """May NumPy report a floating-point error, where inputs and result have these dtypes?"""
        return self.silent is Silent.NEVER or self.silent is Silent.REAL and any(d.kind == "c" for d in dtypes)

    def has_loop(self, letter: str) -> bool:
        """Does a ufunc give numbers of this dtype of such, and is it this op?"""
        return isinstance(self.numpy, np.ufunc) and f"{letter * self.numpy.nin}->{letter}" in self.numpy.types


class OpTable(Mapping[str, Op]):
    """Rows by name. Adding a row is the whole of adding an op."""

    def __init__(self) -> None:
        self._rows: dict[str, Op] = {}
        self._readers: list[Callable[[Op], None]] = []

    def add(self, op: Op) -> Op:
        assert op.name not in self._rows, f"two rows for op {op.name}"
        self._rows[op.name] = op
        for reader in self._readers:
            reader(op)
        return op

    def for_each(self, reader: Callable[[Op], None]) -> None:
        """Call `reader` with each row: with those that are added later, then."""
        self._readers.append(reader)
        for op in self._rows.values():
            reader(op)

    def __getitem__(self, name: str) -> Op:
        return self._rows[name]

    def __contains__(self, name: object) -> bool:  # Mapping's asks for the item
        return name in self._rows

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


OPS = OpTable()


def row(kind: str, *, eager: Callable[..., np.ndarray], **fields: Any) -> Callable[[Callable[..., TensorMeta]], Op]:
    """Decorate a meta rule to make it a row named like the function."""

    def add(meta: Callable[..., TensorMeta]) -> Op:
        return OPS.add(Op(meta.__name__.rstrip("_"), kind, meta, eager, **fields))

    return add
