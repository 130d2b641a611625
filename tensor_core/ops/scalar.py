"""The operators of NumPy's scalars where they do not give what the ufuncs give.

Of integers what overflows is reported: `np.uint8(200) + np.uint8(100)` warns where `np.add` of the same two, and any array, wraps
around. A product of complex scalars rounds each of its four products, of which the loops of ufuncs fuse two with the sums.
A power is that of the C library, where ufuncs square, take roots and have vector functions; complex ones multiply as NumPy does,
where kernels round less. The absolute value of a complex scalar is the C library's too, where ufuncs divide and take a root.
"""

import operator
from collections.abc import Callable

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import OPS, Cost, Op


def has_own_operator(ufunc: np.ufunc, dtype: np.dtype) -> bool:
    if ufunc is np.power:
        return dtype.char in "fdFD"
    return dtype.kind in "iu" or (ufunc in (np.multiply, np.absolute) and dtype.kind == "c")


def reporting(ufunc: np.ufunc, function: Callable) -> Op:
    """A row for an operator on scalars. On arrays, as in batches, it is applied to each element."""

    def meta(*xs: TensorMeta) -> TensorMeta:
        assert len(xs) == ufunc.nin and all(has_own_operator(ufunc, x.dtype) for x in xs)
        return OPS[ufunc.__name__].meta(*xs)

    def eager(*xs: np.ndarray) -> np.ndarray:
        if any(x.dtype == object for x in xs):  # sizes, which do not overflow
            return np.asarray(ufunc(*xs))
        results = [function(*scalars) for scalars in zip(*(np.asarray(x).flat for x in xs))]
        return np.array(results, ufunc(*(x.flat[:1] for x in map(np.asarray, xs))).dtype).reshape(np.shape(xs[0]))

    name, like = f"scalar_{ufunc.__name__}", OPS[ufunc.__name__]
    is_smooth = has_own_operator(ufunc, np.dtype(float)) or has_own_operator(ufunc, np.dtype(complex))
    vjp = like.vjp if is_smooth else None
    cost = Cost.FUNCTION if ufunc is np.power else Cost.MODERATE
    return OPS.add(Op(name, "elementwise", meta, eager, vjp, cost=cost, singular=like.singular, chooses=like.chooses))


OPERATORS: list[tuple[np.ufunc, Callable]] = [
    (np.add, operator.add),
    (np.subtract, operator.sub),
    (np.multiply, operator.mul),
    (np.negative, operator.neg),
    (np.absolute, abs),
    (np.power, operator.pow),
]
REPORTING = {ufunc: reporting(ufunc, function).name for ufunc, function in OPERATORS}  # ufunc -> the operator's row
