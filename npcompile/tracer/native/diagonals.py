"""Diagonals of matrices in native programs, and what is above or below them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npcompile.backends.cpu.array_expressions import Part, Read
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops
from npcompile.tracer.native.arrays import as_index, filled, is_array, kind_of, memory, require_order, statements, tree_of
from npcompile.tracer.native.reductions import reduce
from npcompile.tracer.native.types import ReadOnly, Scalar


def diagonal_part(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    """The main diagonal in the matrix' own memory."""
    statements(code)
    part = memory(code, x, fail)
    if part.ndim != 2:
        raise NoForm("a diagonal of other than a matrix")
    size = code.new("int", f"npc_min({part.sizes[0]}, {part.sizes[1]})")
    step = code.new("int", f"{part.strides[0]} + {part.strides[1]}")
    return Part(part.dtype, part.data, (size,), (step,), part.root, part.is_own, is_ordered=True)


def trace(code: ScalarLoops, x: Any, fail: Fail) -> Scalar:
    """The sum of the diagonal."""
    found: Scalar = reduce(code, "sum", [diagonal_part(code, x, fail)], {}, fail)
    return found


def diagonal(code: ScalarLoops, x: Any, fail: Fail) -> ReadOnly:
    """np.diagonal: a view that must not be written through."""
    part = diagonal_part(code, x, fail)
    return ReadOnly(Read(part), part.sizes)


def diag(code: ScalarLoops, x: Any, fail: Fail) -> Part | ReadOnly:
    """np.diag: that of a matrix, or a matrix with this one."""
    if not is_array(x) or len(tree_of(x)[1]) != 1:
        return diagonal(code, x, fail)
    part = memory(code, x, fail)
    (size,), kind = part.sizes, kind_of(part)
    made = filled(code, kind, (size, size), "0", fail)
    if code.accesses is not None:
        code.accesses.memory(part.data)
    c = C_OF_KIND[kind]
    element = f"*({c}*)({part.data} + k * {part.strides[0]})"
    code.line(f"for (int64_t k = 0; k < {size}; k++) (({c}*){made.data})[k * {size} + k] = {element};")
    return made


def triangle(is_lower: bool) -> Callable[..., Part]:
    """np.tril and np.triu of a matrix: a copy with zeros on the other side of a diagonal."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
        given = dict(zip(("m", "k"), arguments)) | keywords
        x, place = given.get("m"), given.get("k", Scalar("int", "INT64_C(0)"))
        if len(given) != len(arguments) + len(keywords) or set(given) - {"m", "k"} or not isinstance(place, Scalar):
            raise NoForm("np.tril or np.triu with these arguments")
        tree, sizes = tree_of(x)
        if len(sizes) != 2:
            raise NoForm("a triangle of other than a matrix")
        require_order(tree, 2)
        made = statements(code).make(tree, sizes, fail)
        rows, columns = sizes
        k = code.new("int", as_index(place))
        code.leave_if(f"{k} > {rows} + {columns} || {k} < -{rows} - {columns}", fail)
        start = f"npc_max(i + {k} + 1, 0)" if is_lower else "0"
        stop = columns if is_lower else f"npc_min(i + {k}, {columns})"
        element = f"(({C_OF_KIND[kind_of(made)]}*){made.data})[i * {columns} + j]"
        code.line(f"for (int64_t i = 0; i < {rows}; i++) for (int64_t j = {start}; j < {stop}; j++) {element} = 0;")
        return made

    return meaning
