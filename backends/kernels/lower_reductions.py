"""Groups that reduce to kernels: along rows, over everything, over leading axes; and running combinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

import numpy as np

from npcompile.backends.kernels.body import Lowering, Scope, nest
from npcompile.backends.kernels.groups import axis_order
from npcompile.backends.kernels.index import Index, is_one
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Columns,
    Kernel,
    Reduce,
    Scan,
    ScratchRow,
    Statement,
    Value,
    walk,
)
from npcompile.backends.kernels.lower_maps import accesses, compute_members, outermost
from npcompile.backends.kernels.schedule import REDUCTIONS, Group, element_operands, identity, same_shape
from npcompile.backends.kernels.summation import has_order, is_in_runs, order_of, run_of
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.dtypes import is_bfloat16
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import product

ARG_REDUCERS = {"max": "arg_max", "min": "arg_min"}


def element(lowering: Lowering, node: Node, own: Index) -> Value:
    """What a reduction combines, at one place of its space."""
    if node.op != "einsum":
        return lowering.value(node.inputs[0], own)
    result: Value | None = None
    for x, index in element_operands(node, own):
        value = lowering.value(x, index)
        if value.dtype == np.float16:  # NumPy's sums of products of float16 are in float32
            value = lowering.let(np.dtype(np.float32), "cast", value, dtype=np.dtype(np.float32))
        result = value if result is None else lowering.let(value.dtype, "multiply", result, value)
    assert result is not None
    return result


def reducer_of(node: Node) -> str:
    if node.op == "einsum":
        return "add"
    return node.params["reducer"] if node.op in ("reduce", "scan") else ARG_REDUCERS[node.params["which"]]


def accumulator(lowering: Lowering, node: Node) -> Accumulator:
    made = lowering.fresh(node.dtype)
    dtype = node.inputs[0].dtype
    if dtype == np.float16 if reducer_of(node) in ("add", "multiply") else is_bfloat16(dtype):
        dtype = np.dtype(np.float32)  # rounded once, at the end; sums of bfloat16 are rounded after each step
    doubt, is_numpys = doubted(node, lowering.schedule.graph.checks), has_order(node) and not lowering.schedule.abreast
    return Accumulator(f"a{made.name[1:]}", reducer_of(node), dtype, made, doubt, is_numpys=is_numpys)


def doubted(node: Node, checks: Set[str]) -> str:
    """In which results another order may note an invalid operation.

    Infinities of both signs do so where they meet; not where NaN has come before. NumPy makes sums of products by BLAS, which
    multiplies infinities by what is beyond the end of a row too, and decides which half of a complex number is NaN.
    """
    if "invalid" not in checks or node.dtype.kind not in "fc" or node.op not in ("reduce", "einsum"):
        return ""
    return "not finite" if node.op == "einsum" else "NaN" if node.params["reducer"] in ("add", "multiply") else ""


def accumulate(lowering: Lowering, node: Node, own: Index, acc: Accumulator) -> Accumulate:
    """The statement that combines one element; a position for arg_max counts along the reduced axis."""
    position: Size = own[node.params["axis"]] if node.op == "arg_reduce" else 0
    return Accumulate(acc.name, element(lowering, node, own), position)


def inner_order(lowering: Lowering, group: Group) -> list[int]:
    order = loop_order(lowering, group)
    return [a for a in order if a in group.reduced and not is_one(group.space[a])]


def loop_order(lowering: Lowering, group: Group) -> list[int]:
    """The axes of a group that reduces, outermost first. Those that sums go over keep NumPy's order."""
    order = axis_order(accesses(lowering.schedule, group.members_of_space(), with_stores=False), group.space)
    if (summed := summed_by(lowering, group.members)) is None:
        return order
    reduced = iter(a for a in order_of(summed) if a in group.reduced)
    return [next(reduced) if a in group.reduced and not is_one(group.space[a]) else a for a in order]


def summed_by(lowering: Lowering, members: Sequence[Node]) -> Node | None:
    """One of the sums whose order is NumPy's: all of a group have the same."""
    return None if lowering.schedule.abreast else next(filter(has_order, members), None)


def lower_rows(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    schedule, space = lowering.schedule, group.space
    own = identity(space)
    kept_axes = [a for a in range(len(space)) if a not in group.reduced]
    kept = tuple(own[a] for a in kept_axes)
    inner = [(f"v{a}", space[a]) for a in inner_order(lowering, group)]
    count = product([space[a] for a in sorted(group.reduced)])
    rows = {schedule.memory[n].name: n for n in group.members if n in schedule.memory and schedule.memory[n].kind == "row"}

    def row() -> None:
        for phase in range(max(group.phase.values()) + 1):
            here = [n for n in group.members if group.phase[n] == phase]
            compute_members(lowering, [n for n in here if is_row_value(n, group)], kept)
            full = [n for n in here if not is_row_value(n, group)]
            if full:
                reduce_pass(lowering, full, inner, own, kept, count)

    def body() -> None:
        if not rows:
            return row()
        with scratch_rows(
            lowering, [(name, product([space[a] for a in group.reduced]) * n.dtype.itemsize) for name, n in rows.items()]
        ):
            row()

    loops = [(f"v{a}", space[a]) for a in outermost(tiled, kept_axes) if not is_one(space[a])]
    statements = nest(lowering, loops, body, is_parallel=False)
    return Kernel(lowering.name, [], statements)


@contextmanager
def scratch_rows(lowering: Lowering, rows: list[tuple[str, Size]]) -> Iterator[None]:
    if not rows:
        yield
        return
    (name, size), *rest = rows
    with lowering.block(lambda statements: ScratchRow(name, size, statements)), scratch_rows(lowering, rest):
        yield


def is_row_value(node: Node, group: Group) -> bool:
    return node.op not in REDUCTIONS and not (same_shape(node.shape, group.space))


def reduce_pass(lowering: Lowering, members: Sequence[Node], inner, own: Index, kept: Index, count: Size) -> None:  # type: ignore[no-untyped-def]
    """One pass over the reduced axes: values and stores of full size, and reductions."""
    reductions = {n: accumulator(lowering, n) for n in members if n.op in REDUCTIONS}

    def body() -> None:
        stores: list[Statement] = []
        for node in members:
            if node in reductions:
                stores.append(accumulate(lowering, node, own, reductions[node]))
            else:
                value = lowering.remember(node, own, lowering.compute(node, own))
                stores += [lowering.store(buffer, own, value) for buffer in lowering.schedule.stores.get(node, ())]
        lowering.scopes[-1].statements.extend(stores)

    if not reductions:
        nest(lowering, inner, body)
        return
    summed = summed_by(lowering, members)
    run = run_of(summed) if summed else None
    with lowering.block(lambda statements: Reduce(list(reductions.values()), count, statements, run)):
        nest(lowering, inner, body)
    for node, acc in reductions.items():
        finish_reduction(lowering, node, acc, kept)


def finish_reduction(lowering: Lowering, node: Node, acc: Accumulator, kept: Index) -> None:
    lowering.depths[acc.result.name] = len(lowering.scopes) - 1
    lowering.remember(node, kept, acc.result)
    stores = [lowering.store(buffer, kept, acc.result) for buffer in lowering.schedule.stores.get(node, ())]
    lowering.scopes[-1].statements.extend(stores)


def lower_whole(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    space = group.space
    own = identity(space)
    kept = tuple(own[a] for a in range(len(space)) if a not in group.reduced)
    inner = [(f"v{a}", space[a]) for a in outermost(tiled, inner_order(lowering, group))]
    reduce_pass(lowering, group.members, inner, own, kept, product(space))
    statements = lowering.scopes[0].statements
    is_ordered = any(a.is_ordered for s in walk(statements) if isinstance(s, Reduce) for a in s.accumulators)
    return Kernel(lowering.name, [], statements, is_whole=not is_ordered)


def lower_columns(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    space = group.space
    own = identity(space)
    order = loop_order(lowering, group)
    others = [a for a in order if a not in group.reduced]
    column = ([a for a in others if not is_one(space[a])] or others)[-1]
    kept = tuple(own[a] for a in range(len(space)) if a not in group.reduced)
    outer = [(f"v{a}", space[a]) for a in range(len(space)) if a not in group.reduced and a != column and not is_one(space[a])]
    reduced = [(f"v{a}", space[a]) for a in outermost(tiled, order) if a in group.reduced and not is_one(space[a])]
    accumulators = {n: accumulator(lowering, n) for n in group.members if n.op in REDUCTIONS}
    axis = f"v{column}"
    summed = summed_by(lowering, group.members)
    run = run_of(summed).size if summed and is_in_runs(summed) else 1
    assert isinstance(run, int)

    def body() -> None:
        for name, size in [*reduced, (axis, space[column])]:
            lowering.scopes.append(Scope(name))
            lowering.depths[name] = len(lowering.scopes) - 1
            lowering.ranges[name] = size
        combined = [accumulate(lowering, n, own, acc) for n, acc in accumulators.items()]
        lowering.scopes[-1].statements.extend(combined)
        inside: list[Statement] = []
        for _ in range(len(reduced) + 1):  # what is known further out stays inside: the compiler moves it out again
            inside = [*lowering.scopes.pop().statements, *inside]
        lowering.scopes.append(Scope(axis))
        lowering.depths[axis] = len(lowering.scopes) - 1
        for node, acc in accumulators.items():
            finish_reduction(lowering, node, acc, kept)
        compute_members(lowering, [n for n in group.members if n not in accumulators], kept)
        finish_statements = lowering.scopes.pop().statements
        made = Columns(axis, space[column], list(accumulators.values()), reduced, inside, finish_statements, run=run)
        lowering.scopes[-1].statements.append(made)

    return Kernel(lowering.name, [], nest(lowering, outer, body, is_parallel=False))


def lower_scan(lowering: Lowering, group: Group) -> Kernel:
    (node,) = group.members
    space = group.space
    own = identity(space)
    axis = node.params["axis"]
    order = axis_order(accesses(lowering.schedule, group.members, with_stores=True), space)
    acc = accumulator(lowering, node)
    if acc.reducer in ("add", "multiply"):  # rounded after each step
        acc = Accumulator(acc.name, acc.reducer, node.dtype, acc.result)

    def step() -> None:
        lowering.scopes[-1].statements.append(Accumulate(acc.name, lowering.value(node.inputs[0], own)))
        lowering.depths[acc.result.name] = len(lowering.scopes) - 1
        stores = [lowering.store(buffer, own, acc.result) for buffer in lowering.schedule.stores.get(node, ())]
        lowering.scopes[-1].statements.extend(stores)

    def body() -> None:
        with lowering.block(lambda statements: Scan(acc, statements)), lowering.loop(f"v{axis}", space[axis]):
            step()

    outer = [(f"v{a}", space[a]) for a in order if a != axis and not is_one(space[a])]
    return Kernel(lowering.name, [], nest(lowering, outer, body, is_parallel=False))
