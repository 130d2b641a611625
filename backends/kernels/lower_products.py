"""Products of matrices to kernels: what of the operands and the result are rows and columns of memory."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.kernels.body import Lowering, nest
from npcompile.backends.kernels.finish import finish
from npcompile.backends.kernels.index import Index, is_one, source_index, split_linear, symbols_in
from npcompile.backends.kernels.kernel import Kernel, Matrix, Product
from npcompile.backends.kernels.lower_writes import copy_kernel
from npcompile.backends.kernels.schedule import Buffer, Group, Schedule, identity, offset_of, ranges_of
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Node


def lower_product(lowering: Lowering, group: Group) -> list[Kernel]:
    (node,) = group.members
    schedule = lowering.schedule
    first, *others = schedule.stores[node]
    kernel = product_of(lowering, group)
    finish(kernel, schedule, lowering)
    return [kernel, *(copy_kernel(schedule, f"{lowering.name}_copy{i}", node, b, first) for i, b in enumerate(others))]


def product_of(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    (node,) = group.members
    schedule, space = lowering.schedule, group.space
    target = schedule.stores[node][0]
    *stack, m, n, k = identity(space)
    ranges = ranges_of(space)
    made = Product(
        node.dtype,
        matrix(target, lowering.offset(target, (*stack, m, n)), m, n),
        matrix(*strided_view(schedule, node.inputs[0], (*stack, m, k), ranges), m, k),
        matrix(*strided_view(schedule, node.inputs[1], (*stack, k, n), ranges), k, n),
        (space[-3], space[-2], space[-1]),
        node.params.get("block"),
    )
    loops = [(f"v{a}", space[a]) for a in range(len(stack)) if not is_one(space[a])]
    body = nest(lowering, loops, lambda: lowering.scopes[-1].statements.append(made), is_parallel=False)
    return Kernel(lowering.name, [], body)


def strided_view(schedule: Schedule, node: Node, index: Index, ranges: dict[str, Size]) -> tuple[Buffer, Size]:
    """The memory that `node` is a view of, and the offset there of its element `index`."""
    while node not in schedule.memory:
        index = source_index(node, index, ranges)
        (node,) = node.inputs
    buffer = schedule.memory[node]
    return buffer, offset_of(index, buffer.strides)


def matrix(buffer: Buffer, offset: Size, row: Size, column: Size) -> Matrix:
    """Rows and columns, which `offset` names by these axes."""
    steps: list[Size] = []
    for axis in (row, column):
        (name,) = symbols_in(axis)
        found = split_linear(offset, name)
        assert found is not None, (buffer, offset)
        step, offset = found
        steps.append(step)
    return Matrix(buffer.name, offset, *steps)
