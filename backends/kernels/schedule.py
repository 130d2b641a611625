"""Which values are computed once, which of them together in one kernel, and in which order.

The passes, in order: `results_of` (what must be stored where), `choose_anchors` (nodes that are computed once and for
all; every other node is recomputed where it is read), `groups.form_groups` (anchors computed in one kernel),
`tiling.form_tilings` (groups that pass over the same rows together), `groups.order_groups`. Then `memory.build_schedule`
gives them memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.kernels.demanded_regions import demanded_whole
from npcompile.backends.kernels.graph_partition import LEAVES
from npcompile.backends.kernels.index import (
    Index,
    axis_variable,
    computed_index,
    is_one,
    rejoin,
    source_index,
    split_linear,
    symbols_in,
)
from npcompile.backends.kernels.layouts import dense_strides, estimate
from npcompile.backends.kernels.operations import is_costly
from npcompile.backends.kernels.product import is_product
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.dtypes import short
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import Graph, Node, topological
from npcompile.tensor_core.meta import contiguous_strides, product
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.value_ranges import Intervals, is_inside

MOVEMENT = ("permute", "slice", "broadcast_to", "reshape")
UPDATES = ("slice_update", "scatter")
REDUCTIONS = ("reduce", "arg_reduce", "einsum")
MANY_OPERATIONS = 16  # recomputing more than this costs more than memory traffic
FEW_OPERATIONS, OFTEN = 6, 16  # the same for what is read so many times, inputs counted as operations
DEEPEST = 60  # of an expression
MOST_SELECTED = 32  # parts of a concatenation that an element is selected from
MOST_READ = 32  # values that an expression reads: compilers take more than linear time over more


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of an array. `kind`: input, output, temporary, row (one row of one thread), block (of rows, likewise), literal."""

    name: str
    dtype: np.dtype
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    kind: str
    number: int = 0  # of the input or output
    data: bytes = b""  # of a literal

    def __str__(self) -> str:
        shape, strides = (", ".join(map(str, sizes)) for sizes in (self.shape, self.strides))
        return f"{self.name}: {self.kind} {short(self.dtype)}[{shape}] strides ({strides})"


@dataclass(eq=False, slots=True)
class Group:
    """Anchors computed in one kernel over `space`; `reduced` are the axes that its reductions combine.

    mode: map (nothing reduced), rows (loops over the other axes; inside, passes over the reduced ones in sequence),
    columns (reduced loops outside, running results along the innermost axis), whole (everything is reduced, in
    chunks), scan, update, product, concatenate (one kernel for each part).
    """

    space: tuple[Size, ...]
    reduced: frozenset[int]
    mode: str
    members: list[Node]
    phase: dict[Node, int] = field(default_factory=dict)
    read: set[Node] = field(default_factory=set)  # by any of its members
    position: int = 0
    tiling: Tiling | None = None

    @property
    def kept(self) -> tuple[Size, ...]:
        return tuple(n for a, n in enumerate(self.space) if a not in self.reduced)

    def members_of_space(self) -> list[Node]:
        return [n for n in self.members if n.op in REDUCTIONS or same_shape(n.shape, self.space)]

    def __str__(self) -> str:
        members = ", ".join(f"{n.op}@{self.phase.get(n, 0)}" for n in self.members)
        tiled = f" in tiles of axis {self.tiling.axes[self]}" if self.tiling else ""
        return f"{self.mode} {list(map(str, self.space))} reduce {sorted(self.reduced)}{tiled}: {members}"


@dataclass(eq=False, slots=True)
class Tiling:
    """Groups that run side by side, on a tile of an axis at a time.

    By rows: the axes before it are those of a stack, each its own, and tiles are independent tasks.
    """

    size: Size
    axes: dict[Group, int]  # which axis of its space it is to each
    arrays: list[tuple[Node, int]]  # read or made, and which of their dimensions it is
    stack: tuple[Size, ...] = ()
    by_rows: bool = False


@dataclass(eq=False, slots=True)
class Result:
    """A place where the value of `node` must be at the end: an output, or an input that is written."""

    node: Node
    strides: tuple[Size, ...]
    output: int | None = None
    written: int | None = None


@dataclass(eq=False, slots=True)
class Schedule:
    graph: Graph
    results: list[Result]
    groups: list[Group]
    buffers: list[Buffer]
    memory: dict[Node, Buffer]  # where the value of an anchor or input can be read
    stores: dict[Node, list[Buffer]]  # where its kernel puts it
    in_place: set[Node]  # updates that store into the memory of what they update
    copies: list[tuple[Node, Buffer, Buffer]]  # at the end: values in temporaries to the inputs that are written
    kept: dict[Node, Buffer] = field(default_factory=dict)  # where updates store what they overwrite
    abreast: bool = False  # are many rows computed at once, and a kernel costly to start?
    intervals: Intervals = field(default_factory=Intervals)
    leaves: set[Node] = field(default_factory=set)  # what is not computed on the way, once kernels are made

    def __str__(self) -> str:
        lines = [str(b) for b in self.buffers]
        for group in self.groups:
            stored = [f"{n.op} -> {', '.join(b.name for b in self.stores[n])}" for n in group.members if self.stores.get(n)]
            lines.append(f"{group}; {'; '.join(stored)}{' in place' if self.in_place & set(group.members) else ''}")
        lines += [f"{n.op} keeps {b.name}" for n, b in self.kept.items()]
        lines += [f"copy {a.name} -> {b.name}" for _, a, b in self.copies]
        return "\n".join(lines)


# --- what reads what


@dataclass(slots=True)
class Reads:
    """Which elements of anchors and inputs an expression reads, for an element of its own."""

    leaves: set[Node]
    ranges: dict[str, Size]
    found: dict[tuple, tuple[Node, Index]] = field(default_factory=dict)
    _seen: set[tuple] = field(default_factory=set)
    _opaque: int = 0

    def visit(self, node: Node, index: Index, is_root: bool = False) -> None:
        stack = [(node, index, is_root)]
        while stack:
            node, index, is_root = stack.pop()
            key = (node, index_key(index))
            if key in self._seen and not is_root:
                continue
            self._seen.add(key)
            if not is_root and (node in self.leaves or node.op == "input"):
                self.found[key] = (node, index)
                continue
            stack.extend((n, i, False) for n, i in self.operands(node, index))

    def operands(self, node: Node, index: Index) -> list[tuple[Node, Index]]:
        op = node.op
        if op in MOVEMENT:
            return [(node.inputs[0], source_index(node, index, self.ranges))]
        if op == "concatenate":
            return list(concatenated(node, index))
        if op == "gather":
            x, *indices = node.inputs
            n = indices[0].meta.ndim
            known = [computed_index(i, index[:n], size, self.ranges) for i, size in zip(indices, x.shape)]
            places = [self.opaque(i) if at is None else at for i, at in zip(indices, known)]
            read = [(i, index[:n]) for i, at in zip(indices, known) if at is None]
            return [*read, (x, (*places, *index[n:]))]
        return [(i, index) for i in node.inputs]

    def opaque(self, _: Node) -> Size:
        self._opaque += 1
        return axis_variable(f"g{self._opaque}")


def concatenated(node: Node, index: Index) -> Iterable[tuple[Node, Index]]:
    axis = node.params["axis"]
    start: Size = 0
    for x in node.inputs:
        yield x, (*index[:axis], index[axis] - start, *index[axis + 1 :])
        start = start + x.shape[axis]


def index_key(index: Index) -> tuple:
    return tuple(i.terms if isinstance(i, Dim) else i for i in index)


def identity(shape: Sequence[Size], prefix: str = "v") -> Index:
    """The index of an element at the loop axes themselves; 0 along axes of size 1."""
    return tuple(0 if is_one(n) else axis_variable(f"{prefix}{k}") for k, n in enumerate(shape))


def ranges_of(shape: Sequence[Size], prefix: str = "v") -> dict[str, Size]:
    return {f"{prefix}{k}": n for k, n in enumerate(shape)}


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def space_of(node: Node) -> tuple[tuple[Size, ...], frozenset[int]]:
    """The iteration space of an anchor and the axes of it that are combined."""
    match node.op:
        case "reduce":
            return node.inputs[0].shape, frozenset(node.params["axes"])
        case "arg_reduce":
            return node.inputs[0].shape, frozenset([node.params["axis"]])
        case "einsum":
            sizes = einsum_sizes(node)
            kept = node.params["output"]
            summed = [a for a in sizes if a not in kept]
            return tuple(sizes[a] for a in (*kept, *summed)), frozenset(range(len(kept), len(sizes)))
        case "slice_update":
            return node.inputs[1].shape, frozenset()
        case "scatter":
            return node.inputs[1].shape, frozenset()
        case _:
            return node.shape, frozenset()


def einsum_sizes(node: Node) -> dict[int, Size]:
    return {a: n for x, axes in zip(node.inputs, node.params["inputs"]) for a, n in zip(axes, x.shape)}


def element_operands(node: Node, index: Index) -> list[tuple[Node, Index]]:
    """What one element of an anchor's space is made of."""
    match node.op:
        case "reduce" | "arg_reduce" | "scan":
            return [(node.inputs[0], index)]
        case "einsum":
            kept = node.params["output"]
            order = [*kept, *(a for a in einsum_sizes(node) if a not in kept)]
            at = dict(zip(order, index))
            return [(x, tuple(at[a] for a in axes)) for x, axes in zip(node.inputs, node.params["inputs"])]
        case "slice_update":
            return [(node.inputs[1], index)]
        case "scatter":
            n = node.inputs[2].meta.ndim
            return [(node.inputs[1], index), *((i, index[:n]) for i in node.inputs[2:])]
    raise AssertionError(node.op)


def reads_of(node: Node, anchors: set[Node]) -> list[tuple[Node, Index]]:
    space, _ = space_of(node)
    index = identity(space)
    if node.op == "input":
        return [(node, index)]
    reads = Reads(anchors, ranges_of(space))
    if node.op in (*REDUCTIONS, *UPDATES, "scan"):
        for x, i in element_operands(node, index):
            reads.visit(x, i)
    else:
        reads.visit(node, index, is_root=True)
    return list(reads.found.values())


# --- results and anchors


def results_of(graph: Graph) -> list[Result]:
    """Outputs with permutations and reshapes undone: the value under them is stored with other strides instead."""
    results = []
    for k, (node, meta) in enumerate(zip(graph.outputs, graph.metas)):
        strides = dense_strides(meta)
        while True:
            if node.op == "permute":
                node, strides = node.inputs[0], permuted_strides(node, strides)
            elif node.op == "reshape" and same_shape(strides, contiguous_strides(node.shape, node.dtype.itemsize)):
                (node,) = node.inputs
                strides = contiguous_strides(node.shape, node.dtype.itemsize)
            else:
                break
        results.append(Result(node, strides, output=k))
    return results + [Result(node, graph.inputs[i].meta.strides, written=i) for i, node in graph.writes]


def layouts_of(results: Sequence[Result]) -> dict[Node, tuple[Size, ...]]:
    """Strides of inputs and temporaries: elementwise results as NumPy lays them out, products in the order they are read."""
    nodes = live_nodes(results)
    readers = readers_of(nodes)
    layouts: dict[Node, tuple[Size, ...]] = {}
    for n in nodes:
        has_own = n.op == "input" or OPS[n.op].kind == "elementwise"
        layouts[n] = n.meta.strides if has_own else contiguous_strides(n.shape, n.dtype.itemsize)
        match readers.get(n, []):
            case [Node(op="permute") as moved] if is_product(n) and moved.params["axes"][-1] >= n.meta.ndim - 2:
                layouts[n] = permuted_strides(moved, contiguous_strides(moved.shape, n.dtype.itemsize))
    return layouts


def readers_of(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    readers: dict[Node, list[Node]] = {}
    for n in nodes:
        for i in dict.fromkeys(n.inputs):
            readers.setdefault(i, []).append(n)
    return readers


def permuted_strides(permute: Node, strides: tuple[Size, ...]) -> tuple[Size, ...]:
    """Of the input of `permute`, when these are the strides of the result."""
    return tuple(strides[a] for a in np.argsort(permute.params["axes"]))


def choose_anchors(
    graph: Graph,
    results: Sequence[Result],
    layouts: dict[Node, tuple[Size, ...]],
    *,
    reports: bool = False,
    abreast: bool = False,
) -> list[Node]:
    """Values are computed whole whose index may be outside, and with `reports` those that may report floating-point errors."""
    nodes = live_nodes(results)
    readers = count_readers(nodes)
    forced = {r.node for r in results}
    for n in nodes:
        if n.op in (*REDUCTIONS, *UPDATES, "scan") or n.op == "by_numpy" and n.meta.ndim:
            forced.add(n)
        if n.op in UPDATES and n.inputs[0].op != "input":
            forced.add(n.inputs[0])
        if n.op == "gather" and not abreast and is_gathered_often(n):
            forced.add(n.inputs[0])
        if is_long_join(n) and not abreast:
            forced.add(n)
    intervals = Intervals()
    forced |= demanded_whole(nodes, forced, lambda n: may_be_outside(n, intervals) or reports and may_report(n))
    anchors: dict[Node, None] = {}
    cost: dict[Node, float] = {}
    depth: dict[Node, int] = {}
    reached: dict[Node, frozenset[Node]] = {}  # anchors and inputs
    for n in nodes:
        for x in repeated(n):
            enough = FEW_OPERATIONS if not abreast and is_read_often(x, n) else MANY_OPERATIONS
            if OPS[x.op].kind == "elementwise" and cost[x] >= enough:
                anchors[x] = None
                cost[x], depth[x], reached[x] = 1, 0, frozenset([x])
        own = own_cost(n)
        cost[n] = own + sum(cost[i] for i in n.inputs)
        depth[n] = 1 + max((depth[i] for i in n.inputs), default=0)
        reached[n] = frozenset([n]) if n.op == "input" else frozenset().union(*(reached[i] for i in n.inputs))
        is_long = depth[n] > DEEPEST or len(reached[n]) > MOST_READ
        is_worth_storing = readers[n] > 1 and cost[n] >= MANY_OPERATIONS and n.op not in MOVEMENT and n.meta.ndim > 0
        if n in forced or is_worth_storing or (is_long and n.op not in MOVEMENT):
            anchors[n] = None
            cost[n], depth[n], reached[n] = 1, 0, frozenset([n])
        if is_product(n):
            read = [in_memory(x, anchors.keys() | forced, layouts, {r.node for r in results}) for x in n.inputs]
            anchors |= dict.fromkeys(x for x in read if x.op != "input")
        if n.op == "input":
            anchors.pop(n, None)
    inputs_given_out = [r.node for r in results if r.node.op == "input"]
    anchors |= dict.fromkeys(inputs_given_out)
    found = set(anchors)
    written = {graph.inputs[i] for i, _ in graph.writes}
    for n in nodes:  # an update that reads what it overwrites, elsewhere than it overwrites
        may_be_in_place = n.op in UPDATES and (n.inputs[0].op != "input" or n.inputs[0] in written)
        if may_be_in_place and reads_elsewhere(n, n.inputs[0], reads_of(n, found)):
            found |= {x for x in n.inputs[1:] if x.op != "input"}
    return [n for n in nodes if n in found]


def is_long_join(node: Node) -> bool:
    """Would a kernel that selects from all of the parts, for each element, take long?"""
    return node.op == "concatenate" and len(node.inputs) > MOST_SELECTED


def in_memory(operand: Node, anchors: Set[Node], layouts: dict[Node, tuple[Size, ...]], results: Set[Node]) -> Node:
    """What is to be in memory so that BLAS can read `operand`: an array that it is a strided view of, or itself."""
    own = index = identity(operand.shape)
    ranges = ranges_of(operand.shape)
    node = operand
    while node not in anchors and node.op in MOVEMENT:
        index = source_index(node, index, ranges)
        (node,) = node.inputs
    axes = [a for i in own for a in symbols_in(i)]
    offsets = list(index)
    if node not in results and node.op not in UPDATES:  # what these are in has strides of its own
        offsets = [offset_of(index, layouts[node])]
    is_view = node.meta.ndim > 0 and all(split_linear(i, a) is not None for i in offsets for a in axes)
    return node if is_view and node.op not in LEAVES else operand


def offset_of(index: Index, strides: Sequence[Size]) -> Size:
    return rejoin(sum((i * s for i, s in zip(index, strides, strict=True)), start=0))


def live_nodes(results: Sequence[Result]) -> list[Node]:
    """The last result's first: programs often compute it last, from much of what the others need too."""
    return topological([r.node for r in reversed(results)])


def count_readers(nodes: Sequence[Node]) -> dict[Node, int]:
    """How many operations read each node, those included that read it by views: `nodes` come before their readers."""
    readers: dict[Node, int] = dict.fromkeys(nodes, 0)
    for n in reversed(nodes):
        for i in dict.fromkeys(n.inputs):
            readers[i] += max(readers[n], 1) if n.op in MOVEMENT else 1
    return readers


def own_cost(node: Node) -> float:
    if is_costly(node.op):
        return MANY_OPERATIONS
    if node.op in MOVEMENT or node.op in ("constant", "size"):
        return 0
    return 4 if node.op == "gather" else 1


def repeated(node: Node) -> list[Node]:
    """The inputs whose elements are read more than once, each for several elements."""
    if node.op == "broadcast_to":
        (x,) = node.inputs
        if all(map(is_one, x.shape)) or same_shape(x.shape, node.shape):
            return []
        while x.op in ("reshape", "permute"):  # all elements, so the axes of size 1 that x[:, None] adds change nothing
            (x,) = x.inputs
        return [x]
    if node.op == "einsum":
        long = [{a for a, n in zip(axes, x.shape) if not is_one(n)} for x, axes in zip(node.inputs, node.params["inputs"])]
        every = set().union(*long)
        return [x for x, axes in zip(node.inputs, long) if axes and axes != every]
    return []


def is_read_often(x: Node, node: Node) -> bool:
    """Is it so small beside what reads it that storing it costs next to nothing?"""
    return OFTEN * product(list(map(estimate, x.shape))) <= product(list(map(estimate, node.shape)))


def is_gathered_often(gather: Node) -> bool:
    """Are there fewer elements to compute than are read, from more places than one each?"""
    x = gather.inputs[0]
    read = [i for i in x.inputs if i.meta.ndim]
    is_combined = OPS[x.op].kind == "elementwise" and len(read) > 1
    return is_combined and 2 * product(list(map(estimate, x.shape))) <= product(list(map(estimate, gather.shape)))


def may_be_outside(node: Node, intervals: Intervals) -> bool:
    """Does it read an array at indices that are data, so that NumPy may raise IndexError?"""
    if node.op != "gather":
        return False
    x, *indices = node.inputs
    own, ranges = identity(indices[0].shape), ranges_of(indices[0].shape)
    return any(
        computed_index(i, own, size, ranges) is None and not is_inside(intervals.of(i), size) for i, size in zip(indices, x.shape)
    )


def reads_elsewhere(update: Node, base: Node, reads: Sequence[tuple[Node, Index]]) -> bool:
    """Does the new value depend on elements of `base` at other places than the one that it is for?"""
    places = [index for leaf, index in reads if leaf is base]
    if update.op == "scatter":
        return bool(places)
    own = identity(update.inputs[1].shape)
    target = tuple(a + s * i for a, s, i in zip(update.params["start"], update.params["step"], own))
    return any(index_key(index) != index_key(target) for index in places)
