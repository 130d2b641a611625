"""NumPy's functions that run as they are, of which only shapes and dtypes are known; and those whose sizes data decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.meta import Shape, TensorMeta, TupleMeta
from npcompile.tensor_core.op import Silent, row
from npcompile.tensor_core.ops.extern import Unexpected

INTP = np.dtype(np.intp)
LEAST = 2  # elements that what follows was compiled for: sizes of 0 and 1 are other programs


@dataclass(frozen=True, slots=True)
class Keywords:
    """A function of arrays: another one with these keywords."""

    function: Callable[..., Any]
    values: tuple[tuple[str, Any], ...] = ()

    def __call__(self, *arrays: Any) -> Any:
        return self.function(*arrays, **dict(self.values))

    def __repr__(self) -> str:
        return f"<{', '.join([self.function.__name__, *(f'{k}={v!r}' for k, v in self.values)])}>"


Results = tuple[tuple[Shape, np.dtype], ...]  # of a call: shape and dtype of each; a size of None is the one that data decides


def parts_of(made: Any, results: Results) -> tuple[np.ndarray, ...]:
    """What a function gave, checked, as what follows was compiled for these results."""
    parts = tuple(map(np.asarray, made)) if isinstance(made, (tuple, list)) else (np.asarray(made),)
    if len(parts) != len(results):
        raise Unexpected
    for part, (shape, dtype) in zip(parts, results):
        if part.dtype != dtype or part.shape != shape and not has_shape(part, shape):
            raise Unexpected
    return parts


def has_shape(part: np.ndarray, shape: Shape) -> bool:
    """Has it that shape, where None stands for any size?"""
    return part.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, part.shape))


def eager_whole(*arrays: Any, function: Callable[..., Any], results: Results) -> tuple[np.ndarray, ...]:
    return parts_of(function(*arrays), results)


@row("extern", eager=eager_whole, raises=(Exception,))
def whole(*arrays: TensorMeta, function, results):
    """What a function of NumPy gives for these arrays."""
    return TupleMeta.of(*(TensorMeta(shape, dtype) for shape, dtype in results))


def eager_whole_sized(*arrays: Any, function: Callable[..., Any], results: Results, size: Size = 0) -> tuple[np.ndarray, ...]:
    parts = parts_of(function(*arrays), results)
    sizes = {n for part, (shape, _) in zip(parts, results) for n, m in zip(part.shape, shape) if m is None}
    if len(sizes) != 1:
        raise Unexpected
    return parts


@row("extern", eager=eager_whole_sized, raises=(Exception,))
def whole_sized(*arrays: TensorMeta, function, results, size):
    """The same, where one size of the results, of the first one's first axis too, is what data decides."""
    found = (TensorMeta(tuple(size if n is None else n for n in shape), dtype) for shape, dtype in results)
    return TupleMeta.of(*found)


@row("extern", eager=lambda x, *, size=0: np.argwhere(x), raises=(Unexpected,), silent=Silent.ALWAYS)
def argwhere(x: TensorMeta, *, size):
    """The places of elements that are not 0: a row for each, in C order, of as many integers as x has axes."""
    return TensorMeta((size, x.ndim), INTP)


@row("extern", eager=lambda x, *, size=0: np.empty((np.count_nonzero(x), 0), INTP), raises=(Unexpected,))
def selected(x: TensorMeta, *, size):
    """As many rows as `argwhere` has, and nothing in them."""
    return TensorMeta((size, 0), INTP)


def eager_bins(least: Any, greatest: Any, *, minlength: int, size: Size = 0) -> np.ndarray:
    if least < 0:
        raise Unexpected
    return np.empty((max(int(greatest) + 1, minlength), 0), INTP)


@row("extern", eager=eager_bins, raises=(Unexpected,))
def bins(least: TensorMeta, greatest: TensorMeta, *, minlength, size):
    """As many rows as `np.bincount` of places between these has bins, and nothing in them."""
    return TensorMeta((size, 0), INTP)


def measured(value: Any) -> int:
    """How many results there are, of which what follows takes any number from LEAST."""
    first = value[0] if isinstance(value, tuple) else value
    return enough(first.shape[0])


def enough(count: int) -> int:
    if count < LEAST:
        raise Unexpected
    return int(count)


# Of ops whose results hold nothing: the number of their rows.
COUNTS: dict[str, Callable[..., int]] = {
    "selected": lambda x: enough(np.count_nonzero(x)),
    "bins": lambda least, greatest, *, minlength: enough(len(eager_bins(least, greatest, minlength=minlength))),
}
