"""The ops of graphs that need loops of their own: reductions, products, what is joined, and places that data gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.loop_ir.ops import Call, Routine, Scratch
from npcompile.tensor_core.loop_ir.types import B1, BOOL, F64, KINDS, Kind, Memref
from npcompile.tensor_core.meta import contiguous_strides
from npcompile.tracer.loop_ir import indexing
from npcompile.tracer.loop_ir.abstract import Abstract, Slice, Unsupported, Value
from npcompile.tracer.loop_ir.element_loops import ELEMENTS, MOVED, Index, Loops, Rule, nested
from npcompile.tracer.loop_ir.elements import as_kind, constant, converted, of_integers, read

MOST_ELEMENTS = 64  # of a constant array


PAIRWISE = 8  # elements, from which NumPy sums in another order than one after another


def reduce(loops: Loops, node: Node) -> None:
    (x,) = node.inputs
    reducer, axes = node.params["reducer"], node.params["axes"]
    kept = [k for k in range(x.meta.ndim) if k not in axes]
    inner = [x.meta.shape[k] for k in axes]

    def total(outer: Sequence[int]) -> int:
        def at(inside: Sequence[int]) -> int:
            index = dict(zip(kept, outer)) | dict(zip(axes, inside))
            return loops.element(x, [index[k] for k in range(x.meta.ndim)])

        if KINDS.get(node.dtype) not in ELEMENTS:
            raise Unsupported(f"a reduction of {node.dtype}")
        return REDUCERS[reducer](loops, node.dtype, inner, at)

    if reducer not in REDUCERS:
        raise Unsupported(f"a reduction by {reducer}")
    if reducer in ("add", "multiply") and not is_in_order(loops, node.dtype, inner):
        if reducer == "add" and node.dtype == x.dtype == np.float64:
            return sum_in_pairs(loops, node, x, list(axes), kept, total)
        raise Unsupported(f"np.{reducer}.reduce of {x.dtype}, whose order is NumPy's own")
    in_memory(loops, node, [x.meta.shape[k] for k in kept], total)


def is_in_order(loops: Loops, dtype: np.dtype, sizes: Sequence[Size]) -> bool:
    """May numbers be combined one after another? NumPy does so with few."""
    is_short = all(isinstance(size, int) for size in sizes) and math.prod(sizes) < PAIRWISE  # type: ignore[arg-type]
    return is_short or dtype.kind != "f" or not loops.b.has_numpys_bits


def sum_in_pairs(
    loops: Loops, node: Node, x: Node, axes: list[int], kept: list[int], one_by_one: Callable[[Sequence[int]], int]
) -> None:
    """Sums in NumPy's order: of elements side by side in pairs, of rows one after another."""
    b, rank = loops.b, x.meta.ndim
    if rank > 1 and not lies_in_order(loops, x):
        raise Unsupported("a sum of an array whose order in memory is not C's")
    if axes == [0] and rank == 2:
        # With one column rows would be elements side by side.
        b.check(b.let("not_equal", loops.size(x.meta.shape[1]), b.constant(1)))
        return in_memory(loops, node, [x.meta.shape[1]], one_by_one)
    if len(axes) == rank:
        vector = as_memory(loops, x) if rank == 1 else flat(loops, x)
        loops.made[node] = summed(loops, vector)
    elif axes == [rank - 1]:
        rows = as_memory(loops, x)
        kind = b.type(rows)
        assert isinstance(kind, Memref), kind

        def total(outer: Sequence[int]) -> int:
            keys: list[Abstract] = [*map(Value, outer), Slice(None, None)]
            return summed(loops, indexing.view(b, rows, kind, keys, is_inside=True).value)

        in_memory(loops, node, [x.meta.shape[k] for k in kept], total)
    else:
        raise Unsupported("a sum over other axes than the first, the last or all")


def lies_in_order(loops: Loops, x: Node) -> bool:
    """Are the elements side by side in memory, in C order, where NumPy adds them up?"""
    given = x
    while given.op in MOVED:
        (given,) = given.inputs
    kind = loops.b.type(loops.made[given]) if given in loops.made else None
    if isinstance(kind, Memref) and (given is not x or not kind.contiguous):
        return False
    return all(map(same, x.meta.strides, contiguous_strides(x.meta.shape, x.dtype.itemsize)))


def flat(loops: Loops, x: Node) -> int:
    """The elements of an array as a vector of their own, in C order."""
    b = loops.b
    count = b.constant(1)
    for size in x.meta.shape:
        count = loops.checked("multiply", count, loops.size(size))
    vector = indexing.empty(b, [count], False, Kind.F64).value

    def placed(index: list[int]) -> tuple[Sequence[int], int]:
        place = index[0]
        for k, size in zip(index[1:], x.meta.shape[1:], strict=True):
            place = b.let("add", b.let("multiply", place, loops.size(size)), k)
        return [place], loops.element(x, index)

    loops.fill(vector, x.meta.shape, placed)
    return vector


def summed(loops: Loops, vector: int) -> int:
    result = loops.b.new(F64)
    loops.b.emit(Call(result, "sum", [vector], loops.b.at))
    loops.b.flagged = True
    return result


def in_memory(loops: Loops, node: Node, sizes: Sequence[Size], total: Callable[[Sequence[int]], int]) -> None:
    """A number, or an array of numbers, each of which is made by loops."""
    if not sizes:
        loops.made[node] = total([])
        return
    array = loops.allocate(node)
    loops.fill(array, sizes, lambda index: (index, total(index)))
    loops.made[node] = array


Reducer = Callable[[Loops, np.dtype, Sequence[Size], Callable[[Sequence[int]], int]], int]


def folded(op: str, first: float) -> Reducer:
    """Of elements one after another."""

    def reduce(loops: Loops, dtype: np.dtype, sizes: Sequence[Size], at: Callable[[Sequence[int]], int]) -> int:
        def body(index: list[int], handed: list[int]) -> Sequence[int]:
            args = [*handed, converted(loops.b, at(index), dtype)]
            return [of_integers(loops.b, op, args) if dtype.kind == "i" else loops.b.let(op, *args)]

        return loops.over(sizes, body, [constant(loops.b, dtype.type(first))])[0]

    return reduce


def all_of(op: str, first: bool) -> Reducer:
    def reduce(loops: Loops, dtype: np.dtype, sizes: Sequence[Size], at: Callable[[Sequence[int]], int]) -> int:
        b = loops.b

        def body(index: list[int], handed: list[int]) -> Sequence[int]:
            now = at(index)
            now = now if b.type(now) in (BOOL, B1) else b.let("truth", now)
            if op == "and":
                return [b.let("logical_and", *handed, now)]
            return [b.let("logical_not", b.let("logical_and", b.let("logical_not", *handed), b.let("logical_not", now)))]

        return as_kind(b, loops.over(sizes, body, [b.constant(first)])[0], Kind.B1)

    return reduce


def extreme(op: str) -> Reducer:
    """The gradient is shared equally by all that are equal to the result: so it is told how many there are."""

    def reduce(loops: Loops, dtype: np.dtype, sizes: Sequence[Size], at: Callable[[Sequence[int]], int]) -> int:
        b = loops.b
        for size in sizes:
            b.check(b.let("greater", loops.size(size), b.constant(0)))
        best = at([b.constant(0) for _ in sizes])

        def of_words(index: list[int], handed: list[int]) -> Sequence[int]:
            return [of_integers(b, op, [*handed, at(index)])]

        def body(index: list[int], handed: list[int]) -> Sequence[int]:
            best, many = handed
            now, one = at(index), constant(b, 1.0)
            is_better = b.let("greater" if op == "maximum" else "less", now, best)
            more = b.let("choose", b.let("equal", now, best), b.let("add", many, one), many)
            return [b.let(f"running_{op}", best, many, now), b.let("choose", is_better, one, more)]

        if dtype.kind != "f":
            return loops.over(sizes, of_words, [best])[0]
        if not b.aborts:  # no gradient is asked for
            return extreme_in_lanes(loops, op, sizes, at, best)
        return loops.over(sizes, body, [best, constant(b, 0.0)])[0]

    return reduce


LANES = 16  # of an extreme, whose numbers may come in any order


def extreme_in_lanes(loops: Loops, op: str, sizes: Sequence[Size], at: Callable[[Sequence[int]], int], first: int) -> int:
    """The greatest or the least number. Each lane has that of every 16th along the last axis."""
    b = loops.b
    *outer, last = [loops.size(size) for size in sizes]
    lanes = b.constant(LANES)
    best = b.new(Memref(Kind.F64, 1, contiguous=True, writeable=True, owned=True))
    b.emit(Scratch(best, LANES, b.at))
    strips, rest = b.let("floor_divide", last, lanes), b.let("remainder", last, lanes)

    def more(index: list[int], lane: int) -> None:
        loops.put(best, [lane], b.let(op, read(b, best, [lane]), at(index)))

    def strip(index: list[int], handed: list[int]) -> Sequence[int]:
        *around, number, lane = index
        more([*around, b.let("add", b.let("multiply", number, lanes), lane)], lane)
        return ()

    def behind(index: list[int], handed: list[int]) -> Sequence[int]:
        *around, lane = index
        more([*around, b.let("add", b.let("multiply", strips, lanes), lane)], lane)
        return ()

    def begun(index: list[int], handed: list[int]) -> Sequence[int]:
        loops.put(best, index, first)
        return ()

    nested(b, [lanes], loops.alone(begun))
    nested(b, [*outer, strips, lanes], loops.alone(strip))
    nested(b, [*outer, rest], loops.alone(behind))
    return nested(b, [lanes], lambda index, handed: [b.let(op, *handed, read(b, best, index))], [first])[0]


REDUCERS: dict[str, Reducer] = {
    "add": folded("add", 0),
    "multiply": folded("multiply", 1),
    "maximum": extreme("maximum"),
    "minimum": extreme("minimum"),
    "logical_and": all_of("and", True),
    "logical_or": all_of("or", False),
}


def arg_reduce(loops: Loops, node: Node) -> None:
    b = loops.b
    (x,) = node.inputs
    axis = node.params["axis"]
    kept = [k for k in range(x.meta.ndim) if k != axis]
    row = {"max": "greater", "min": "less"}[node.params["which"]]

    def place(outer: Sequence[int]) -> int:
        def at(inside: int) -> int:
            index = dict(zip(kept, outer)) | {axis: inside}
            return loops.element(x, [index[k] for k in range(x.meta.ndim)])

        b.check(b.let("greater", loops.size(x.meta.shape[axis]), b.constant(0)))
        zero = b.constant(0)

        def body(index: list[int], handed: list[int]) -> Sequence[int]:
            best, found = handed
            now = at(index[0])
            b.check(b.let("equal", now, now))
            is_better = b.let(row, now, best)
            return [b.let("choose", is_better, now, best), b.let("choose", is_better, index[0], found)]

        _, found = loops.over([x.meta.shape[axis]], body, [at(zero), zero])
        return b.let("to_i64", found)

    in_memory(loops, node, [x.meta.shape[k] for k in kept], place)


def concatenate(loops: Loops, node: Node) -> None:
    axis = node.params["axis"]
    array = loops.allocate(node)
    offset: Size = 0
    for x in node.inputs:
        start = tuple(offset if k == axis else 0 for k in range(node.meta.ndim))

        def placed(index: list[int], x: Node = x, start: tuple[Size, ...] = start) -> tuple[Sequence[int], int]:
            return loops.sliced(start, (1,) * len(start), index), loops.element(x, index)

        loops.fill(array, x.meta.shape, placed)
        offset = offset + x.meta.shape[axis]
    loops.made[node] = array


def literal(loops: Loops, node: Node) -> None:
    data = np.frombuffer(node.params["data"], node.dtype).reshape(node.params["shape"])
    if data.size > MOST_ELEMENTS:
        raise Unsupported(f"a constant array of {data.size} elements")
    array = loops.allocate(node)
    for index in np.ndindex(data.shape):
        loops.put(array, [loops.b.constant(k) for k in index], constant(loops.b, data[index]))
    loops.made[node] = array


def slice_update(loops: Loops, node: Node) -> None:
    x, value = node.inputs
    loops.keep_array(node, lambda index: loops.element(x, index))
    array, start, step = loops.made.pop(node), node.params["start"], node.params["step"]
    loops.fill(array, value.meta.shape, lambda index: (loops.sliced(start, step, index), loops.element(value, index)))
    loops.made[node] = array


def places(loops: Loops, x: Node, indices: Sequence[Node], index: Index) -> list[int]:
    """The index that data gives, for the first axes of x."""
    b = loops.b
    found = []
    for axis, each in enumerate(indices):
        found.append(indexing.checked_index(b, loops.element(each, index), loops.size(x.meta.shape[axis])))
    return found


def gather(loops: Loops, node: Node) -> None:
    x, *indices = node.inputs
    rank = indices[0].meta.ndim

    def at(index: Sequence[int]) -> int:
        return loops.element(x, [*places(loops, x, indices, index[:rank]), *index[rank:]])

    in_memory(loops, node, node.meta.shape, at)


def scatter(loops: Loops, node: Node) -> None:
    x, value, *indices = node.inputs
    mode = node.params["mode"]
    if mode not in ("set", "add"):
        raise Unsupported(f"np.{mode}.at")
    rank = indices[0].meta.ndim
    loops.keep_array(node, lambda index: loops.element(x, index))
    array = loops.made.pop(node)

    def placed(index: list[int]) -> tuple[Sequence[int], int]:
        at = [*places(loops, x, indices, index[:rank]), *index[rank:]]
        now = loops.element(value, index)
        return at, now if mode == "set" else loops.b.let("add", read(loops.b, array, at), now)

    loops.fill(array, value.meta.shape, placed)
    loops.made[node] = array


def scan(loops: Loops, node: Node) -> None:
    """The running result along an axis."""
    (x,) = node.inputs
    axis, reducer = node.params["axis"], node.params["reducer"]
    if node.dtype.kind != "f" or reducer not in ("add", "multiply"):
        raise Unsupported(f"np.{reducer}.accumulate")
    array = loops.allocate(node)
    kept = [k for k in range(x.meta.ndim) if k != axis]

    def line(outer: list[int], _: list[int]) -> Sequence[int]:
        def body(inside: list[int], handed: list[int]) -> Sequence[int]:
            found = dict(zip(kept, outer)) | {axis: inside[0]}
            index = [found[k] for k in range(x.meta.ndim)]
            now = loops.b.let(reducer, *handed, loops.element(x, index))
            loops.put(array, index, now)
            return [now]

        loops.over([x.meta.shape[axis]], body, [constant(loops.b, 0.0 if reducer == "add" else 1.0)])
        return ()

    loops.over([x.meta.shape[k] for k in kept], line)
    loops.made[node] = array


def einsum(loops: Loops, node: Node) -> None:
    """Products are summed in loops; those of two vectors, or rows and columns, by the target's routine."""
    inputs, output = node.params["inputs"], node.params["output"]
    if node.dtype != np.float64:
        raise Unsupported(f"products of {node.dtype}")
    sizes = {axis: n for x, axes in zip(node.inputs, inputs) for axis, n in zip(axes, x.meta.shape)}
    summed = [axis for axis in sizes if axis not in output]
    if any(x.meta.ndim > 1 for x in node.inputs):
        loops.b.has_products = True
    if loops.b.has_numpys_bits and by_routine(loops, node, inputs, output):
        return
    if len(inputs) == 1 and summed and not is_in_order(loops, node.dtype, [sizes[axis] for axis in summed]):
        raise Unsupported("a sum of an array, which NumPy adds up in another order")
    is_dot = len(inputs) == 2 and len(summed) == 1 and all(summed[0] in axes for axes in inputs)
    rows = [as_memory(loops, x) for x in node.inputs] if is_dot else []

    def total(outer: Sequence[int]) -> int:
        at_output = dict(zip(output, outer))
        if is_dot:
            return dotted(loops, rows, inputs, at_output)

        def at(inside: Sequence[int]) -> int:
            index = at_output | dict(zip(summed, inside))
            found = None
            for x, axes in zip(node.inputs, inputs):
                now = loops.element(x, [index[axis] for axis in axes])
                found = now if found is None else loops.b.let("multiply", found, now)
            assert found is not None
            return found

        return REDUCERS["add"](loops, node.dtype, [sizes[axis] for axis in summed], at)

    in_memory(loops, node, [sizes[axis] for axis in output], total)


PRODUCTS = {  # by axes of the first operand, of the second, and of the result
    ("mk", "k", "m"): "matvec",
    ("km", "k", "m"): "matvec_of_turned",
    ("mk", "kn", "mn"): "matmul",
    ("km", "kn", "mn"): "matmul_of_turned",
    ("mk", "nk", "mn"): "matmul_by_turned",
    ("km", "nk", "mn"): "matmul_of_both_turned",
}


def by_routine(loops: Loops, node: Node, inputs: Any, output: Any) -> bool:
    """Is it a product of matrices? Then it is computed by the target's routine."""
    if len(inputs) != 2:
        return False
    pairs = [turned_back(x, axes) for x, axes in zip(node.inputs, inputs)]
    for (x, first), (y, second) in (pairs, pairs[::-1]):
        letters = dict.fromkeys(first, "m") | dict.fromkeys(second, "n") | dict.fromkeys({*first} & {*second}, "k")
        name = PRODUCTS.get(tuple("".join(letters[axis] for axis in axes) for axes in (first, second, output)))  # type: ignore[arg-type]
        if name is not None:
            args = [as_memory(loops, each) for each in (x, y)]
            out = loops.allocate(node)
            loops.b.emit(Routine(name, out, args, loops.b.state(), loops.b.at))
            loops.b.flagged = True
            loops.made[node] = out
            return True
    return False


def turned_back(x: Node, axes: Any) -> tuple[Node, tuple[Any, ...]]:
    """An operand without the op that gives its axes another order, and which axes it has then."""
    if x.op != "permute":
        return x, tuple(axes)
    order = x.params["axes"]
    return x.inputs[0], tuple(axes[list(order).index(k)] for k in range(len(order)))


def as_memory(loops: Loops, node: Node) -> int:
    """An array that has the node's elements."""
    return loops.made[node] if node in loops.made else loops.result(node)


def dotted(loops: Loops, rows: Sequence[int], inputs: Any, at_output: dict[int, int]) -> int:
    b = loops.b
    vectors = []
    for value, axes in zip(rows, inputs):
        kind = b.type(value)
        assert isinstance(kind, Memref), kind
        keys = [Value(at_output[axis]) if axis in at_output else Slice(None, None) for axis in axes]
        vectors.append(value if kind.rank == 1 else indexing.view(b, value, kind, keys, is_inside=True).value)
    result = b.new(F64)
    b.emit(Call(result, "dot", vectors, b.at))
    b.flagged = True
    return result


RULES: dict[str, Rule] = {
    "reduce": reduce,
    "arg_reduce": arg_reduce,
    "concatenate": concatenate,
    "literal": literal,
    "slice_update": slice_update,
    "gather": gather,
    "scatter": scatter,
    "scan": scan,
    "einsum": einsum,
}
