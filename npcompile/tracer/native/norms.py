"""Products of vectors by functions of NumPy's, and np.linalg.norm, in native programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops, is_float
from npcompile.tracer.native.arrays import converted, elementwise, is_array, kind_of, memory, product, statements, tree_of
from npcompile.tracer.native.reductions import reduce
from npcompile.tracer.native.types import Known, Scalar
from npcompile.tracer.native.views import ravel


def inner(code: ScalarLoops, a: Any, b: Any, fail: Fail) -> Any:
    """np.inner and np.vdot, of real vectors."""
    if not all(is_array(x) and len(tree_of(x)[1]) == 1 for x in (a, b)):
        raise NoForm("an inner product of other than vectors")
    return product(code, a, b, fail)


def norm(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """np.linalg.norm: of all elements or along an axis, of order 2 or 1 (numpy/linalg/_linalg.py)."""
    given = dict(zip(("x", "ord", "axis"), arguments)) | keywords
    x, order, axis = (given.pop(name, None) for name in ("x", "ord", "axis"))
    if given or len(arguments) > 3 or not is_array(x):
        raise NoForm("np.linalg.norm with these arguments")
    if not is_float(kind_of(x)):
        x = converted(x, np.dtype(np.float64))
    rank = len(tree_of(x)[1])
    is_default = order is None or isinstance(order, Known) and order.value is None
    if is_default and axis is None or order == Scalar("int", code.constant("int", 2)) and axis is None and rank == 1:
        flat = ravel(code, x, fail) if rank > 1 else x
        return root(code, product(code, flat, flat, fail), fail)
    if axis is None and rank == 1:
        axis = Scalar("int", code.constant("int", 0))
    if not isinstance(axis, Scalar) or not isinstance(order, Scalar | None):
        raise NoForm("np.linalg.norm of this order, or along several axes")
    if order is None or order.text == code.constant("int", 2):
        return root(code, reduce(code, "sum", [elementwise(code, np.multiply, [x, x], fail)], {"axis": axis}, fail), fail)
    if order.text == code.constant("int", 1):
        return reduce(code, "sum", [elementwise(code, np.absolute, [x], fail)], {"axis": axis}, fail)
    raise NoForm("np.linalg.norm of this order")


def root(code: ScalarLoops, squares: Any, fail: Fail) -> Any:
    if is_array(squares):
        return elementwise(code, np.sqrt, [squares], fail)
    return Scalar(squares.kind, code.function("sqrt", squares.kind, [squares.text], fail))


def cross(code: ScalarLoops, a: Any, b: Any, fail: Fail) -> Part:
    """np.cross of vectors of three numbers: as NumPy's a view of a vector."""
    if not all(is_array(x) and len(tree_of(x)[1]) == 1 for x in (a, b)):
        raise NoForm("np.cross of other than vectors")
    kind = np.promote_types(kind_of(a), kind_of(b)).str[1:]
    if kind not in ("f8", "f4", "i8"):
        raise NoForm(f"np.cross of {kind}")
    parts = [memory(code, converted(x, np.dtype(kind)), fail) for x in (a, b)]
    made = statements(code).fresh(np.dtype(kind), ["3"])
    c, numbers = C_OF_KIND[kind], []
    for part in parts:
        code.leave_if(f"{part.sizes[0]} != 3", fail)
        if code.accesses is not None:
            code.accesses.memory(part.data)
        numbers.append([code.new(kind, f"*({c}*)({part.data} + {k} * {part.strides[0]})") for k in range(3)])
    x, y = numbers
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        found = code.new(kind, f"{x[i]} * {y[j]} - {x[j]} * {y[i]}")
        if is_float(kind):  # there may be an error to report
            code.leave_if(f"!__builtin_isfinite({found})", fail)
        code.line(f"(({c}*){made.data})[{k}] = {found};")
    return replace(made, is_whole=False)
