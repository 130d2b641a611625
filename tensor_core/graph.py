"""The program between capture and kernels: a list of pure operations, and what is written back at the end."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import DataDecides, Decline
from npcompile.tensor_core.dim import Dim, ShapeEnv, evaluate
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.keys import freeze
from npcompile.tensor_core.meta import TensorMeta, TupleMeta, is_static
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.source import Source


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's program."""

    filename: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.filename.rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value. Nodes are hash-consed by their Builder: equal programs are the same node."""

    op: str  # a row of OPS
    inputs: tuple[Node, ...]
    params: dict[str, Any]
    meta: TensorMeta
    location: Location | None = None

    @property
    def shape(self):  # type: ignore[no-untyped-def]
        return self.meta.shape

    @property
    def dtype(self) -> np.dtype:
        return self.meta.dtype

    def __repr__(self) -> str:
        return f"<{self.op} {self.meta}>"


@dataclass(frozen=True, eq=False)
class Graph:
    """`outputs` are fresh arrays; `writes` replace the contents of input arrays when the program has run.

    A compiled graph is called with the values of `inputs` in order, then one Python int per symbol, and returns a
    tuple with one fresh array (or NumPy scalar where `meta.boxed` is False) per output.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    metas: tuple[TensorMeta, ...]  # what the caller gets for each output: memory order, scalar or array
    writes: tuple[tuple[int, Node], ...] = ()  # (index of the input, its new contents)
    symbols: tuple[str, ...] = ()  # names of the symbolic integers, passed after the inputs
    env: ShapeEnv | None = None
    name: str = "graph"
    checks: frozenset[str] = frozenset()  # floating-point errors to report: np.errstate's categories not ignored
    restored: frozenset[int] = frozenset()  # inputs written that must be as before when such an error is reported
    accuracy: str = "numpy"  # "fast": a backend may round otherwise than NumPy, "bitwise": it may not, in the last bits either
    measured: tuple[tuple[str, Node], ...] = ()  # symbols that are no arguments: how long the results of these nodes are

    @property
    def results(self) -> tuple[Node, ...]:
        return (*self.outputs, *(node for _, node in self.writes))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every live node, inputs first, each after what it uses."""
        return tuple(topological((*(node for _, node in self.measured), *self.results), self.inputs))

    def with_(self, **others: Any) -> Graph:
        """The same nodes with other fields, which say nothing about them."""
        assert others.keys().isdisjoint(("inputs", "outputs", "writes", "measured"))
        made = replace(self, **others)
        vars(made).update({name: value for name, value in vars(self).items() if name == "nodes"})  # where they are in order
        return made

    def __call__(self, *values: Any) -> list[Any]:
        """The outputs, by NumPy: for graphs in params of nodes, which write nothing. Takes what a compiled graph takes."""
        return run(self, values, lambda op, *xs, **params: op.eager(*xs, **params))[0]

    def run(self, *inputs: Any) -> tuple[Any, ...]:
        """The outputs, computed by NumPy an operation at a time; `writes` are done to the inputs. Takes what a compiled graph
        takes. The `symbols` are found in shapes where they are not given; TypeError for another number of values."""
        count = len(self.inputs)
        symbols = dict(zip(self.symbols, inputs[count:])) or sizes_in(self.inputs, inputs)
        if len(inputs) not in (count, count + len(self.symbols)) or not symbols.keys() >= {*self.symbols}:
            sizes = f" and the integers {', '.join(self.symbols)}" if self.symbols else ""
            raise TypeError(f"{self.name} takes {count} inputs{sizes}, and {len(inputs)} values were given")
        arrays = [np.asarray(x, n.dtype) if n.meta.weak else x for x, n in zip(inputs, self.inputs)]
        given = [*arrays, *(symbols[name] for name in self.symbols)]
        outputs, contents = run(self, given, lambda op, *xs, **params: op.eager(*xs, **params))
        results = tuple(give_out(value, meta, symbols) for value, meta in zip(outputs, self.metas))
        for (index, _), value in zip(self.writes, [np.array(c) for c in contents]):  # all are computed before any is written
            inputs[index][...] = value
        return results

    def print_tabular(self) -> None:
        """Print a line for each input and operation: name, operation, what it reads, shape, dtype, and the user's line."""
        print(table(self))

    def __str__(self) -> str:
        return print_graph(self)


def sizes_in(nodes: Sequence[Node], values: Sequence[Any]) -> dict[str, int]:
    """The symbols that are sizes of these inputs, as the arrays have them."""
    found: dict[str, int] = {}
    for node, x in zip(nodes, values):
        for size, n in zip(node.meta.shape, np.shape(x)):
            if isinstance(size, Dim) and len(names := [*size.symbols()]) == 1 and str(size) == names[0]:
                found[names[0]] = n
    return found


@dataclass(frozen=True, slots=True)
class Bound:
    """A graph in the params of a node while the program runs: the sizes are known, and `call` is what runs it."""

    graph: Graph
    call: Callable[..., Sequence[Any]]
    symbols: dict[str, int]

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        return self.call(*arrays)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the outputs."""
        return [bind(m.shape, self.symbols) for m in self.graph.metas]

    @classmethod
    def of(cls, graph: Graph, call: Callable[..., Sequence[Any]], symbols: dict[str, int]) -> Bound:
        """`call` takes the arrays and then the graph's symbols."""
        sizes = [symbols[s] for s in graph.symbols]
        return cls(graph, (lambda *arrays: call(*arrays, *sizes)) if sizes else call, symbols)


def subgraphs(node: Node) -> dict[str, Graph]:
    """The graphs that a node of control flow runs, by the name of the param."""
    params = node.params  # most have none
    return {name: value for name, value in params.items() if isinstance(value, Graph)} if params else {}


def topological(results: Iterable[Node], first: Iterable[Node] = ()) -> list[Node]:
    order: dict[Node, None] = dict.fromkeys(first)
    stack = [*reversed(tuple(results))]
    while stack:
        node = stack[-1]
        if node not in order:
            missing = [n for n in node.inputs if n not in order]
            if missing:
                stack += reversed(missing)
                continue
            order[node] = None
        stack.pop()
    return list(order)


def users(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Who reads each node, within `nodes`."""
    found: dict[Node, list[Node]] = {n: [] for n in nodes}
    for n in nodes:
        for i in n.inputs:
            found[i].append(n)
    return found


FLOAT_ERRORS = frozenset(("divide", "over", "under", "invalid"))  # np.errstate's names
MEASURED_HINT = 1024  # what costs are estimated with where data decides a size
# Of integers: the divisors with which NumPy reports a division by zero, or the overflow of the least number.
REPORTED_DIVISORS = {"floor_divide": (0, -1), "remainder": (0,), "fmod": (0,)}
ARITHMETIC_KINDS = ("elementwise", "reduction", "scan", "scatter", "contraction", "extern")


def may_note_errors(node: Node) -> bool:
    """Is this arithmetic in which there are floating-point errors, or those that NumPy reports of integers by the same means?"""
    if kind_of(node.meta.dtype) in "fc":
        return True
    results = node.meta.items if isinstance(node.meta, TupleMeta) else ()
    if any(kind_of(m.dtype) in "fc" for m in (*results, *(n.meta for n in node.inputs))):
        return True
    if node.op not in REPORTED_DIVISORS:
        return node.op == "reciprocal" or node.op.startswith("scalar_")  # see ops/scalar.py
    divisor = node.inputs[1]
    while divisor.op in ("broadcast_to", "cast", "reshape"):
        (divisor,) = divisor.inputs
    return divisor.op != "constant" or divisor.params["value"] in REPORTED_DIVISORS[node.op]


@dataclass(eq=False, slots=True)
class Builder:
    """Makes the nodes of one graph: checks them against the op table, and never makes the same one twice."""

    env: ShapeEnv = field(default_factory=ShapeEnv)
    inputs: list[Node] = field(default_factory=list)
    arguments: list[Source | None] = field(default_factory=list)  # where each input comes from, when called
    location: Location | None = None  # the user's line being captured
    ignored: frozenset[str] = frozenset()  # np.errstate categories that the program ignores here
    checks: frozenset[str] = frozenset()  # those that some node was made under without ignoring them
    loud: set[Node] = field(default_factory=set)  # these nodes
    outer: Builder | None = None  # of the program that this is a sub-graph of: it has the inputs from outside
    is_closed: bool = False  # while a sub-graph is being made: nothing made before may be written
    records: bool = True  # do gradients go through what is written here? Not under no_grad
    may_measure: Callable[[], bool] | None = None  # may nodes have sizes that data decides, here in the program?
    is_bitwise: bool = False  # are NumPy's bits asked for? Of the whole program: its root is asked
    is_plain: Callable[[], bool] | None = None  # are no derivatives taken of it?
    measured: dict[str, Node] = field(default_factory=dict)  # symbol of such a size -> the node that has it
    _made: dict[tuple, Node] = field(default_factory=dict)
    _sized: dict[tuple, Node] = field(default_factory=dict)

    @property
    def root(self) -> Builder:
        """The builder of the whole program."""
        return self if self.outer is None else self.outer.root

    def input(self, meta: TensorMeta, argument: Source | None = None) -> Node:
        """A new input. The same `argument`, if there is one, is the same input."""
        if argument is not None and self.outer is not None:
            return self.outer.input(meta, argument)
        key = ("input", argument)
        if argument is not None and key in self._made:
            return self._made[key]
        if argument is not None and self.env.is_measured(argument):
            raise Decline("a number made of a size that data decides")
        node = self._made[key] = Node("input", (), {"index": len(self.inputs)}, meta, self.location)
        self.inputs.append(node)
        self.arguments.append(argument)
        return node

    def apply(self, op: str, *inputs: Node, **params: Any) -> Node:
        """A node for `op`. Its meta comes from the table; Decline passes through where NumPy would raise."""
        key = (op, inputs, freeze(params))
        node = self._made.get(key)
        if node is None:
            meta = OPS[op].meta(*(n.meta for n in inputs), **params)
            node = self._made[key] = Node(op, inputs, params, meta, self.location)
        if node not in self.loud:
            self.note_errors(node)  # of a node that is met again too: it may have been made where errors are ignored
        return node

    def again(self, node: Node, *inputs: Node) -> Node:
        """A node of another graph with these inputs: itself, where they are its own."""
        if inputs != node.inputs:
            return self.apply(node.op, *inputs, **node.params)
        made = self._made.setdefault((node.op, inputs, freeze(node.params)), node)
        self.note_errors(made)
        return made

    def take(self, graph: Graph) -> dict[Node, Node]:
        """The inputs of another graph as those of this one."""
        for node in graph.inputs:
            self._made["input", len(self.inputs)] = node
            self.inputs.append(node)
            self.arguments.append(None)
        return {node: node for node in graph.inputs}

    def note_errors(self, node: Node) -> None:
        """Remember which floating-point errors the program does not ignore here."""
        errors: frozenset[str] = frozenset()
        if OPS[node.op].kind in ARITHMETIC_KINDS and may_note_errors(node):
            errors = FLOAT_ERRORS
        for graph in subgraphs(node).values():
            errors |= graph.checks
        if errors - self.ignored:
            self.checks |= errors - self.ignored
            self.loud.add(node)

    @property
    def is_measurable(self) -> bool:
        """Not in bodies of loops and branches and in derivatives that are one graph, on devices, and on eager Tensors."""
        return self.outer is None and self.may_measure is not None and self.may_measure()

    def require_measurable(self) -> None:
        """Decline where it is not."""
        if not self.is_measurable:
            raise DataDecides("as many results as data decides, where sizes must be known")

    def require_plain(self) -> None:
        """Decline where derivatives are taken, and there too."""
        if not self.is_plain_here:
            raise Decline("a function that is not differentiated")

    @property
    def is_plain_here(self) -> bool:
        return self.outer is None and self.is_plain is not None and self.is_plain()

    def may_differentiate(self, node: Node) -> bool:
        """May a derivative be taken through this node?"""
        return kind_of(node.dtype) in "fc" and (self.is_plain is None or not self.is_plain())

    def measure(self, op: str, *inputs: Node, **params: Any) -> Node:
        """A node for an op of as many results as data decides: its param `size` is a new symbol. At least 2, else it raises."""
        key = (op, inputs, freeze(params))
        if key not in self._sized:
            self.require_measurable()
            name = f"measured_{len(self.measured)}"
            size = self.env.symbol(name, MEASURED_HINT, at_least=2)
            self.env.measured.add(name)
            self._sized[key] = self.measured[name] = self.apply(op, *inputs, size=size, **params)
        return self._sized[key]

    @property
    def made(self) -> tuple[Node, ...]:
        """Every node so far, each after what it uses."""
        return tuple(self._made.values())

    def constant(self, value: Any, dtype: np.dtype) -> Node:
        """A 0-D constant, stored as a Python or NumPy scalar of `dtype`."""
        scalar = np.asarray(value, dtype=dtype)[()]
        return self.apply("constant", value=scalar, dtype=np.dtype(dtype))

    def finish(
        self,
        outputs: Sequence[Node],
        metas: Sequence[TensorMeta] | None = None,
        writes: Sequence[tuple[int, Node]] = (),
        name: str = "graph",
    ) -> Graph:
        """The graph of what was built that `outputs` and `writes` need, verified."""
        metas = tuple(n.meta for n in outputs) if metas is None else tuple(metas)
        measured = tuple(self.measured.items())
        graph = Graph(
            tuple(self.inputs), tuple(outputs), metas, tuple(writes), (), self.env, name, self.checks, measured=measured
        )
        verify(graph, known=set(self._made.values()))
        symbols = dict.fromkeys(s for node in graph.nodes for s in symbols_of(node) if s not in self.measured)
        return graph.with_(symbols=tuple(symbols)) if symbols else graph


def symbols_of(value: Any) -> Iterator[str]:
    """The symbols that a node's sizes and params are written with."""
    match value:
        case Dim():
            yield from value.symbols()
        case Node():
            yield from (s for n in (*value.meta.shape, *value.meta.strides) if type(n) is Dim for s in n.symbols())
            for part in value.params.values():
                yield from symbols_of(part)
        case tuple() | list():
            for part in value:
                yield from symbols_of(part)
        case slice():
            yield from symbols_of((value.start, value.stop, value.step))
        case Graph():
            yield from value.symbols


def bind(value: Any, values: dict[str, int]) -> Any:
    """`value` (a size, a shape, a dict of params...) with its symbols replaced by integers."""
    match value:
        case Dim():
            return evaluate(value, values)
        case tuple():
            return tuple(bind(v, values) for v in value)
        case dict():
            return {k: bind(v, values) for k, v in value.items()}
        case Graph():
            return Bound.of(value, value, values)
        case _:
            return value


class InvalidGraph(AssertionError):
    """A pass made a graph that breaks the rules: an internal mistake."""


def verify(graph: Graph, known: Container[Node] = ()) -> None:
    """Every node's meta is what the table says for its inputs, and inputs are the graph's own.

    `known`: nodes that a Builder has made, whose metas it has asked the table for.
    """
    inputs = set(graph.inputs)
    for node in graph.nodes:
        if node.op == "input":
            if node not in inputs:
                raise InvalidGraph(f"input {node.params['index']} is not an input of this graph")
            continue
        if node in known:
            continue
        if node.op not in OPS:
            raise InvalidGraph(f"no op {node.op!r} in the table")
        for graph_inside in subgraphs(node).values():
            verify(graph_inside)
        want = OPS[node.op].meta(*(n.meta for n in node.inputs), **node.params)
        if freeze(want.shape) != freeze(node.meta.shape) or want.dtype != node.meta.dtype:
            raise InvalidGraph(f"{node.op}({', '.join(str(n.meta) for n in node.inputs)}) is {want}, not {node.meta}")
    for node, meta in zip(graph.outputs, graph.metas, strict=True):
        if freeze(node.meta.shape) != freeze(meta.shape) or node.meta.dtype != meta.dtype:
            raise InvalidGraph(f"{node.meta} cannot be given out as {meta}")
    for index, node in graph.writes:
        target = graph.inputs[index].meta
        if freeze(target.shape) != freeze(node.meta.shape) or target.dtype != node.meta.dtype:
            raise InvalidGraph(f"{node.meta} cannot replace input {index}, a {target}")


def run(graph: Graph, inputs: Sequence[Any], call: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
    """Walk the graph with concrete inputs; `call(op, *values, **params)` does each op. Outputs, then new contents."""
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs))
    symbols = dict(zip(graph.symbols, inputs[len(graph.inputs) :]))
    for node in graph.nodes:
        if node.op != "input":
            values[node] = call(OPS[node.op], *(values[i] for i in node.inputs), **bind(node.params, symbols))
    return [values[n] for n in graph.outputs], [values[n] for _, n in graph.writes]


def give_out(value: Any, meta: TensorMeta, symbols: dict[str, int]) -> Any:
    """A fresh array with the promised memory order, or a NumPy scalar."""
    value = np.asarray(value)
    if value.dtype.char != meta.dtype.char:  # C's long and long long, which are equal as dtypes
        value = value.astype(meta.dtype)
    if not meta.boxed:
        return value[()]
    strides = bind(meta.strides, symbols)
    axes = sorted(range(value.ndim), key=lambda a: (-strides[a], a))
    prototype = np.empty([value.shape[a] for a in axes], value.dtype).transpose(np.argsort(axes)) if axes else value
    out = np.empty_like(prototype, order="K")  # owns its memory, in the order of the prototype
    if all(n == 1 or s == t for n, s, t in zip(out.shape, out.strides, strides)):  # those of axes of length 1 too
        out = np.ndarray(value.shape, value.dtype, strides=strides)
    out[...] = value
    return out


def print_graph(graph: Graph) -> str:
    """The graph as a readable Python program, with dtype, shape and the user's line.

    Graphs in params of nodes are functions inside it.
    """
    names: dict[Node, str] = {n: f"x{i}" for i, n in enumerate(graph.inputs)}
    header = ", ".join([*(names[n] for n in graph.inputs), *graph.symbols])
    lines = [f"def {graph.name}({header}):"]
    lines += [f"    # {names[n]}: {n.meta}" for n in graph.inputs]
    for node in graph.nodes:
        if node.op == "input":
            continue
        names[node] = f"t{len(names) - len(graph.inputs)}"
        params = dict(node.params)
        for key, inside in subgraphs(node).items():
            params[key] = Text(f"{names[node]}_{key.removesuffix('_graph')}")
            text = print_graph(replace(inside, name=params[key]))
            lines += [f"    {line}" for line in text.splitlines()]
        arguments = [*(names[i] for i in node.inputs), *(f"{k}={show_param(v)}" for k, v in params.items())]
        at = f"  {node.location}" if node.location else ""
        lines.append(f"    {names[node]} = {node.op}({', '.join(arguments)})  # {node.meta}{at}")
    lines += [f"    {names[graph.inputs[i]]}[...] = {names[n]}" for i, n in graph.writes]
    lines.append(f"    return {', '.join(names[n] for n in graph.outputs) or '()'}")
    return "\n".join(lines)


class Text(str):
    """What is printed as it is."""

    __slots__ = ()
    __repr__ = str.__str__


def show_param(value: Any) -> str:
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        return f"({', '.join(map(show_param, value))}{',' if len(value) == 1 else ''})"
    return str(value) if isinstance(value, Dim) else repr(value)


def is_dynamic(graph: Graph) -> bool:
    return not all(is_static(n.meta.shape) for n in graph.inputs)


def table(graph: Graph) -> str:
    """The graph as a table; those in params of nodes come after it, with the node's name before."""
    names: dict[Node, str] = {n: f"x{k}" for k, n in enumerate(graph.inputs)}
    rows: list[tuple[str, ...]] = [("name", "op", "inputs", "shape", "dtype", "line")]
    inside: list[Graph] = []
    for node in graph.nodes:
        name = names.setdefault(node, f"t{len(names) - len(graph.inputs)}")
        read = ", ".join(names[i] for i in node.inputs)
        rows.append((name, node.op, read, show_param(node.meta.shape), node.meta.dtype.name, str(node.location or "")))
        inside += [replace(part, name=f"{name}.{key}") for key, part in subgraphs(node).items()]
    rows.append(("return", "", ", ".join(names[n] for n in graph.outputs), "", "", ""))
    rows += [("write", "", f"x{k}[...] = {names[n]}", "", "", "") for k, n in graph.writes]
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows.insert(1, tuple("-" * width for width in widths))
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    return "\n\n".join(["\n".join([graph.name, *lines]), *map(table, inside)])
