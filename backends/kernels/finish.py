"""What a kernel still needs when its statements are written: its arguments, fewer loops, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

from npcompile.backends.kernels.body import Lowering
from npcompile.backends.kernels.index import axis_variable, split_linear, symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Blocks,
    CheckIndex,
    Columns,
    Kernel,
    Let,
    Load,
    Loop,
    Product,
    Statement,
    Store,
    Tiles,
    Value,
    children,
    indices,
    map_indices,
    walk,
)
from npcompile.backends.kernels.operations import is_costly
from npcompile.backends.kernels.schedule import Schedule, index_key
from npcompile.tensor_core.dim import Size


def finish(kernel: Kernel, schedule: Schedule, lowering: Lowering) -> None:
    """What comes before the loops, which loops are tasks, and what the kernel is given."""
    body = lowering.scopes[0].statements
    kernel.body = merge_loops(body)
    kernel.literals = list(lowering.literals.values())
    kernel.places = lowering.places
    shared = {b.name for b in schedule.buffers if b.kind not in ("row", "block")}
    for statement in walk(kernel.body):
        match statement:
            case Load() if statement.buffer in shared:
                kernel.buffers.setdefault(statement.buffer, False)
            case Store() if statement.buffer in shared:
                kernel.buffers[statement.buffer] = True
            case Product():
                for x in (statement.left, statement.right):
                    if x.buffer in shared:
                        kernel.buffers.setdefault(x.buffer, False)
                if statement.result.buffer in shared:
                    kernel.buffers[statement.result.buffer] = True
            case CheckIndex():
                kernel.can_fail = True
    uses = {v.name for s in walk(kernel.body) for v in operands(s)}
    for k, n in enumerate(schedule.graph.inputs):
        if f"x{k}" in uses and n not in schedule.memory:
            kernel.scalars[f"x{k}"] = n.dtype
    kernel.cost = cost_of(kernel.body)


def operands(statement: Statement) -> list[Value]:
    match statement:
        case Let():
            return list(statement.args)
        case Store() | Accumulate():
            return [statement.value]
        case CheckIndex():
            return [statement.value]
        case _:
            return []


def cost_of(body: Sequence[Statement]) -> float:
    """Nanoseconds for one innermost element, roughly."""
    total = 0.0
    for s in walk(list(body)):
        match s:
            case Let():
                total += 2.0 if is_costly(s.op) else 0.1
            case Load() | Store():
                total += 0.3
            case CheckIndex():
                total += 1.0
            case Accumulate():
                total += 0.2
            case Product():
                return 0.05
    return max(total, 0.3)


def merge_loops(body: list[Statement], tiled: str = "") -> list[Statement]:
    """Two loops where the outer one only continues the inner one become one. That over the axis `tiled` stays."""
    result: list[Statement] = []
    for statement in body:
        axes = [axis for axis, _ in statement.parts] if isinstance(statement, Tiles) else repeat(axis_of(statement) or tiled)
        for axis, part in zip(axes, children(statement)):
            part[:] = merge_loops(part, axis)
        while isinstance(statement, Loop) and len(statement.body) == 1 and isinstance(statement.body[0], Loop):
            outer, inner = statement, statement.body[0]
            if outer.axis == tiled:
                break
            used = [i for s in walk(inner.body) for i in indices(s)]
            if any(isinstance(s, (Loop, Columns)) and loop_sizes_use(s, outer.axis) for s in walk(inner.body)):
                break
            if any(merged_index(i, outer.axis, inner.axis, inner.size) is None for i in used):
                break
            fused = map_indices(inner.body, merged_by(outer, inner))
            statement = Loop(inner.axis, outer.size * inner.size, fused, outer.is_parallel and inner.is_parallel)
        result.append(statement)
    return result


def axis_of(statement: Statement) -> str:
    return statement.axis if isinstance(statement, Blocks) else ""


def merged_by(outer: Loop, inner: Loop) -> Callable[[Size], Size]:
    """What an index becomes when the two loops become one. Only for indices that `merged_index` can rewrite."""

    def change(index: Size) -> Size:
        merged = merged_index(index, outer.axis, inner.axis, inner.size)
        assert merged is not None, index
        return merged

    return change


def loop_sizes_use(statement: Statement, axis: str) -> bool:
    return axis in symbols_in(statement.size)  # type: ignore[union-attr]


def merged_index(index: Size, outer: str, inner: str, size: Size) -> Size | None:
    """`index` over one axis in place of two, where outer steps as far as `size` inner ones do."""
    first = split_linear(index, outer)
    if first is None:
        return None
    second = split_linear(first[1], inner)
    if second is None or index_key((first[0],)) != index_key((second[0] * size,)):
        return None
    return second[0] * axis_variable(inner) + second[1]
