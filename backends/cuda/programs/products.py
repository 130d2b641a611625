"""Products of small matrices as reductions: a library takes longer to be called than these to run."""

from __future__ import annotations

from dataclasses import replace

from npcompile.backends.kernels.index import axis_variable
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Kernel,
    Let,
    Load,
    Loop,
    Matrix,
    Product,
    Reduce,
    Statement,
    Store,
    Value,
    children,
)
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Node

SMALL = 32**3  # multiplications
LONGEST = 256  # sum of products


def is_small(product: Node) -> bool:
    """Are the matrices of this product, of fixed sizes, so small? There may be many of them."""
    (rows, inner), columns = product.inputs[0].shape[-2:], product.inputs[1].shape[-1]
    if not (isinstance(rows, int) and isinstance(inner, int) and isinstance(columns, int)):
        return False
    return rows * inner * columns <= SMALL and inner <= LONGEST


def with_reductions(kernel: Kernel) -> Kernel:
    """The same kernel with each product as a sum for each element of its result."""
    return replace(kernel, body=lowered(kernel.body))


def lowered(body: list[Statement]) -> list[Statement]:
    made: list[Statement] = []
    for s in body:
        match s:
            case Product():
                made.append(loops_of(s))
            case Loop():
                made.append(replace(s, body=lowered(s.body)))
            case _:
                assert not children(s), s
                made.append(s)
    return made


def loops_of(s: Product) -> Loop:
    m, n, k = (axis_variable(f"product_{name}") for name in "mnk")

    def place(matrix: Matrix, row: Size, column: Size) -> Size:
        return matrix.offset + matrix.row * row + matrix.column * column

    left, right, term, total = (Value(f"product_{name}", s.dtype) for name in ("left", "right", "term", "total"))
    accumulator = Accumulator("product_sum", "add", s.dtype, total)
    each: list[Statement] = [
        Load(left, s.left.buffer, place(s.left, m, k)),
        Load(right, s.right.buffer, place(s.right, k, n)),
        Let(term, "multiply", (left, right)),
        Accumulate(accumulator.name, term),
    ]
    rows, columns, inner = s.sizes
    summed = Reduce([accumulator], inner, [Loop("product_k", inner, each, is_parallel=True)])
    store = Store(s.result.buffer, place(s.result, m, n), total)
    return Loop("product_m", rows, [Loop("product_n", columns, [summed, store])])
