"""A program and its gradients captured together, cut where the fewest bytes pass from the one to the other.

What the gradients need of the program is saved by the forward graph or computed again by the backward graph. A minimum
cut decides, as in PyTorch's min_cut_rematerialization_partition: saving a value costs its bytes, computing it again a
fraction of them, since fused arithmetic is cheaper than memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from npcompile.tensor_core.dim import hint_of
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import ARITHMETIC_KINDS, Builder, Graph, Node, symbols_of, topological, verify
from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import OPS, Cost
from npcompile.tensor_core.transforms.prune import prune
from npcompile.tensor_core.transforms.replay import replay


@dataclass(frozen=True, slots=True)
class Split:
    """A joint graph in two: see `split`."""

    forward: Graph
    backward: Graph
    kept_inputs: tuple[int, ...]  # which of the program's arguments the backward graph reads, as they are
    saved: tuple[Node, ...]  # values of the joint graph that the forward graph gives out for the backward graph
    bytes_saved: int  # by `saved`, at the sizes seen at capture; kept arguments take no memory of their own
    bytes_recomputed: int  # results of the program's arithmetic that the backward graph computes again


def split(graph: Graph, primals: int, results: int) -> Split:
    """The forward and the backward graph of the joint graph of a program and its gradients.

    Of the joint graph, `inputs[:primals]` are the program's arguments and `inputs[primals:]` the cotangents of its
    results; `outputs[:results]` are its results, which `writes` go with and which use no cotangent, and
    `outputs[results:]` are the gradients.

    forward.inputs    the program's arguments, all of them
    forward.outputs   the program's results, then `saved`: fresh C-contiguous arrays, apart from all others
    forward.writes    the program's; `checks` and `restored` too
    backward.inputs   the arguments that `kept_inputs` names, then `saved`, then all cotangents
    backward.outputs  the gradients; it writes nothing, and reports no floating-point errors
    Each has those of `graph.symbols` that it uses: pass them by name.

    An argument is kept without a copy: it must still have its contents when the backward graph runs. One that the
    program writes is therefore never kept but saved, as it was before. So are results, which belong to the caller:
    the forward graph gives a result that is saved twice.

    Values of elementwise and moving ops may be computed again, in bounded chains within one kernel; reductions,
    products, scans, gathers, updates at places that are data and what libraries do are not, nor what can raise. What
    only the gradients need is computed by the forward graph only where that saves bytes and reports no error that the
    program would not.

    >>> parts = split(joint, 2, 1)  # joint(x, y, cotangent) -> result, gradient of x, gradient of y
    >>> forward, backward = (compile_eager(graph, []) for graph in (parts.forward, parts.backward))
    >>> result, *saved = forward(x, y)
    >>> gradients = backward(*((x, y)[k] for k in parts.kept_inputs), *saved, cotangent)
    """
    graph = prune(graph)  # a loop runs in the program once, and keeps there what the gradients need
    program = topological([*graph.outputs[:results], *(node for _, node in (*graph.writes, *graph.measured))])
    cut = Cut(graph, frozenset(graph.inputs[primals:]), frozenset(program), graph.outputs[results:])
    given = dict.fromkeys([*cut.crossing(), *graph.inputs])
    walked = topological(cut.gradients, given)[len(given) :]
    read = {*cut.gradients, *(i for node in walked for i in node.inputs)}
    kept = tuple(k for k, node in enumerate(graph.inputs[:primals]) if node in read and cut.is_kept(node))
    saved = tuple(node for node in given if node in read and node not in cut.cotangents and not cut.is_kept(node))
    again = sum(map(bytes_again, (n for n in walked if n.op == "checkpoint")))
    again += sum(bytes_of(n) for n in walked if n in cut.program and OPS[n.op].kind == "elementwise")
    return Split(
        forward_graph(graph, primals, results, saved),
        backward_graph(graph, primals, results, kept, saved),
        kept,
        saved,
        sum(map(bytes_of, saved)),
        again,
    )


def forward_graph(graph: Graph, primals: int, results: int, saved: tuple[Node, ...]) -> Graph:
    metas = (*graph.metas[:results], *map(saved_meta, saved))
    forward = replace(graph, inputs=graph.inputs[:primals], outputs=(*graph.outputs[:results], *saved), metas=metas)
    found = dict.fromkeys(s for node in forward.nodes for s in symbols_of(node))
    forward = replace(forward, symbols=tuple(s for s in found if s not in dict(graph.measured)))
    verify(forward)
    return forward


def backward_graph(graph: Graph, primals: int, results: int, kept: tuple[int, ...], saved: tuple[Node, ...]) -> Graph:
    builder = Builder() if graph.env is None else Builder(env=graph.env)
    with builder.env.unguarded():  # meta rules may ask for the strides of what was saved: no answer depends on these
        made = {graph.inputs[k]: builder.input(graph.inputs[k].meta) for k in kept}
        made |= {node: builder.input(saved_meta(node)) for node in saved}
        made |= {node: builder.input(node.meta) for node in graph.inputs[primals:]}
        gradients = replay(builder, graph.outputs[results:], made)
        backward = builder.finish(gradients, graph.metas[results:], name=f"{graph.name}_backward")
    return replace(backward, checks=frozenset())


def saved_meta(node: Node) -> TensorMeta:
    return node.meta.with_(strides=(), boxed=True, writeable=True, weak=False)


def bytes_of(node: Node) -> int:
    """At the sizes seen at capture."""
    return hint_of(node.meta.size) * node.dtype.itemsize


def bytes_again(node: Node) -> int:
    """Of a checkpoint's derivative, at the sizes seen at capture: what the checkpointed function had computed before."""
    inside = sum(bytes_again(n) for n in node.params["body_graph"].nodes if n.op == "checkpoint")
    again = node.params.get("again")
    return inside + (0 if again is None else bytes_computed(again.graph))


def bytes_computed(graph: Graph) -> int:
    nodes = graph.nodes
    found = sum(bytes_computed(n.params["body_graph"]) for n in nodes if n.op == "checkpoint")
    return found + sum(bytes_of(n) for n in nodes if OPS[n.op].kind in ARITHMETIC_KINDS and not isinstance(n.meta, TupleMeta))


# --- what saving and computing again cost, in parts of a byte

BYTE = 64
ARRAY = 64 * BYTE  # one more array to allocate and hand over, whatever its size

# Not worth saving: the kernel that uses one reads what it is a view of.
VIEWS = frozenset(["alias", "permute", "reshape", "broadcast_to"])
FREE = VIEWS | {"slice", "item"}
# Between what these read and what reads them there are two kernels at least.
BOUNDARIES = frozenset(["contraction", "extern", "scan", "gather", "scatter", "control"])
CHAIN = 64  # ops one after another that may be computed again: longer kernels keep their values in memory
# For each byte of the result, an estimate: a store and a load are worth 64 additions or 8 calls of exp.
QUICK_COST, FUNCTION_COST = 1, 8


def is_cheap(node: Node) -> bool:
    """May it be computed again?"""
    return (OPS[node.op].kind in ("elementwise", "movement", "update") or node.op == "item") and not OPS[node.op].raises


def recompute_cost(node: Node) -> int:
    """Of a cheap node."""
    if node.op in FREE:
        return 0
    widest = max(n.dtype.itemsize for n in (node, *node.inputs))
    return hint_of(node.meta.size) * widest * (QUICK_COST if OPS[node.op].cost is Cost.QUICK else FUNCTION_COST)


@dataclass(eq=False)
class Cut:
    """The joint graph seen as a network in which what flows from the arguments to the gradients is to be cut."""

    graph: Graph
    cotangents: frozenset[Node]
    program: frozenset[Node]
    gradients: tuple[Node, ...]
    late: set[Node] = field(default_factory=set)  # what the backward graph alone can compute
    lasting: set[Node] = field(default_factory=set)  # what is not computed again though it is cheap: see find_lasting

    def __post_init__(self) -> None:
        assert not self.program & self.cotangents, "a result of the program uses a cotangent"
        for node in self.graph.nodes:
            is_new = node not in self.program and node.op != "input" and not self.may_move_forward(node)
            if node in self.cotangents or is_new or any(i in self.late for i in node.inputs):
                self.late.add(node)
        self.find_lasting()

    def find_lasting(self) -> None:
        """Values of the program that kernels far apart read, as in `x = x + f(x)` with a product in f; and those after
        each CHAIN ops.

        The former are in memory anyway. Computed again, each from the one before, they would be one chain through the
        whole program, of which the backward graph needs the end first.
        """
        nodes = [n for n in self.graph.nodes if n in self.program]
        stage: dict[Node, int] = {}
        for node in nodes:
            is_boundary = OPS[node.op].kind in BOUNDARIES and node.op != "item"
            stage[node] = max((stage[i] for i in node.inputs), default=0) + is_boundary
        for node in reversed(nodes):
            latest = max((stage[i] for i in node.inputs), default=0)
            for i in node.inputs:
                if 0 < stage[i] < latest or (node.op in FREE and node in self.lasting):
                    self.lasting.add(i)
        depth: dict[Node, int] = {}
        for node in nodes:
            is_computed = is_cheap(node) and node.op not in FREE
            depth[node] = max((depth[i] for i in node.inputs), default=0) + is_computed
            if is_computed and depth[node] >= CHAIN:
                self.lasting.add(node)
            if not is_cheap(node) or (is_computed and node in self.lasting):
                depth[node] = 0

    def may_move_forward(self, node: Node) -> bool:
        """May the forward graph compute this node, which the program has not, and nobody notice?"""
        if OPS[node.op].raises:
            return False
        is_silent = OPS[node.op].kind == "leaf" or node.op in FREE or (is_cheap(node) and not may_report(node))
        return is_silent or not self.graph.checks

    def demanded(self) -> list[Node]:
        """What the backward graph needs and the forward graph could give it."""
        read = [*self.gradients, *(i for node in self.graph.nodes if node in self.late for i in node.inputs)]
        return [n for n in dict.fromkeys(read) if n not in self.late]

    def crossing(self) -> list[Node]:
        """The values that pass from the forward to the backward graph, kept arguments among them, in order."""
        demanded = self.demanded()
        network = Network()
        source, sink = network.vertex(), network.vertex()
        entry: dict[Node, int] = {}  # available in the forward graph ...
        exit_: dict[Node, int] = {}  # ... and in the backward graph
        for node in topological(demanded):
            if OPS[node.op].kind == "leaf" and node.op != "input":
                continue
            entry[node], exit_[node] = network.vertex(), network.vertex()
            network.join(entry[node], exit_[node], self.save_cost(node))
            network.join(source, entry[node], self.again_cost(node))
            for i in dict.fromkeys(node.inputs):
                if i in exit_:
                    network.join(exit_[i], entry[node], None)
        for node in demanded:
            if node in exit_:
                network.join(exit_[node], sink, None)
        side = network.source_side(source, sink)
        return [n for n in entry if entry[n] in side and exit_[n] not in side]

    def is_kept(self, node: Node) -> bool:
        """Is it an argument that still has its contents after the program?"""
        return node.op == "input" and all(self.graph.inputs[k] is not node for k, _ in self.graph.writes)

    def save_cost(self, node: Node) -> int | None:
        """None: never saved."""
        if self.is_kept(node):
            return bytes_of(node) + 1  # the fewer are read again, the better
        if node.op in VIEWS or isinstance(node.meta, TupleMeta):
            return None
        return bytes_of(node) * BYTE + ARRAY

    def again_cost(self, node: Node) -> int | None:
        """None: never computed again. What the program does not compute is computed once wherever that is."""
        if node.op == "input":
            return None
        if node not in self.program:
            return 0
        if not is_cheap(node) or (node in self.lasting and node.op not in FREE):
            return None
        return recompute_cost(node)


# --- the minimum cut


@dataclass(eq=False, slots=True)
class Network:
    """Vertices joined by edges of some capacity, and Dinic's maximum flow, which equals the minimum cut.

    Edge k leads to `target[k]` and has room for `room[k]` more; edge k ^ 1 leads back.
    """

    edges: list[list[int]] = field(default_factory=list)  # that leave each vertex
    target: list[int] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    unlimited: list[int] = field(default_factory=list)

    def vertex(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def join(self, start: int, end: int, capacity: int | None) -> None:
        """An edge from start to end. One without capacity (None) is never cut."""
        if capacity is None:
            self.unlimited.append(len(self.target))
        for at, to, room in ((start, end, capacity or 0), (end, start, 0)):
            self.edges[at].append(len(self.target))
            self.target.append(to)
            self.room.append(room)

    def source_side(self, source: int, sink: int) -> set[int]:
        """The vertices that a minimum cut leaves with the source; of several cuts, the one nearest to it."""
        total = sum(self.room) + 1
        for edge in self.unlimited:
            self.room[edge] = total
        pushed = 0
        while sink in (levels := self.levels(source)):
            pushed += self.push(levels, source, sink)
            assert pushed < total, "an edge without capacity joins what is to be cut"
        return set(levels)

    def levels(self, source: int) -> dict[int, int]:
        """How many edges with room each vertex is away from the source."""
        found = {source: 0}
        row: Iterable[int] = [source]
        while row:
            following = []
            for vertex in row:
                for edge in self.edges[vertex]:
                    if self.room[edge] and self.target[edge] not in found:
                        found[self.target[edge]] = found[vertex] + 1
                        following.append(self.target[edge])
            row = following
        return found

    def push(self, levels: dict[int, int], source: int, sink: int) -> int:
        """Fill the shortest paths from source to sink, all of one length."""
        tried = [0] * len(self.edges)  # edges of each vertex that lead nowhere any more
        path: list[int] = []
        vertex, pushed = source, 0
        while True:
            if vertex == sink:
                amount = min(self.room[edge] for edge in path)
                for edge in path:
                    self.room[edge] -= amount
                    self.room[edge ^ 1] += amount
                pushed += amount
                full = next(k for k, edge in enumerate(path) if not self.room[edge])
                vertex = self.target[path[full] ^ 1]
                del path[full:]
            while tried[vertex] < len(self.edges[vertex]):
                edge = self.edges[vertex][tried[vertex]]
                if self.room[edge] and levels.get(self.target[edge]) == levels[vertex] + 1:
                    path.append(edge)
                    vertex = self.target[edge]
                    break
                tried[vertex] += 1
            else:
                if not path:
                    return pushed
                vertex = self.target[path.pop() ^ 1]
                tried[vertex] += 1
