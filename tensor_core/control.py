"""Control flow put into a graph: functions of nodes become graphs that a node of the op table runs.

The functions get a builder of their own and nodes for their arguments, and return nodes or arrays. They may use nodes of
the builders around them: these become operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.dim import Dim, Size, maximum, same
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.transforms.subgraph import graph_of, outside

Result = Node | Array
Body = Callable[[Builder, list[Node]], Sequence[Result]]
INDEX = np.dtype(np.int64)
ROUNDS = 4  # in which carries settle: a Python number takes a dtype, a 0-D array becomes a scalar or the other way


def node_of(x: Result) -> Node:
    return x.node if isinstance(x, Array) else x


@dataclass(frozen=True, slots=True)
class Trace:
    """What a function of nodes made of its inputs."""

    builder: Builder
    inputs: list[Node]
    outputs: list[Node]
    metas: list[TensorMeta]  # of the outputs, as the function gave them: scalar or array

    def graph(self, inputs: Sequence[Node], name: str, metas: Sequence[TensorMeta] | None = None) -> Graph:
        return graph_of(self.builder.env, inputs, self.outputs, name=name, metas=metas, checks=self.builder.checks)


def trace(builder: Builder, function: Body, metas: Iterable[TensorMeta]) -> Trace:
    inner = Builder(env=builder.env, location=builder.location, ignored=builder.ignored)
    inputs = [inner.input(m.with_(strides=(), writeable=False)) for m in metas]
    outputs = list(function(inner, list(inputs)))
    return Trace(inner, inputs, [node_of(x) for x in outputs], [x.meta for x in outputs])


def read_outside(*traces: Trace) -> list[Node]:
    """What the functions use of the builders around them, each once."""
    return list(dict.fromkeys(n for t in traces for n in outside(t.builder, t.outputs)))


def items(builder: Builder, node: Node) -> list[Node]:
    assert isinstance(node.meta, TupleMeta)
    return [builder.apply("item", node, index=k) for k in range(len(node.meta.items))]


def described(meta: TensorMeta) -> str:
    """For messages: `a float64 array of shape (3, 4)`."""
    if meta.weak:
        return f"a Python {np.empty((), meta.dtype).item().__class__.__name__}"
    shape = f"({', '.join(map(str, meta.shape))}{',' if meta.ndim == 1 else ''})"
    article = "an" if meta.dtype.name[0] in "aeio" else "a"
    return f"{article} {meta.dtype} " + (f"array of shape {shape}" if meta.boxed else "scalar")


def named(names: Sequence[str] | None, number: int, what: str) -> str:
    return f"{what}{names[number]}" if names is not None else f"{what}[{number}]"


# --- cond


def make_cond(
    builder: Builder,
    predicate: Result,
    true: Body,
    false: Body,
    operands: Sequence[Result] = (),
    names: Sequence[str] | None = None,
) -> list[Node]:
    """What `true(inner, operands)` gives where the 0-D `predicate` is true, else what `false` gives.

    Both give as many results, of the same shapes and dtypes; a result is a NumPy scalar (`meta.boxed` False) where it is
    one in both. TypeError names what differs; `names` are the results' names in it. A predicate that is a constant
    takes its branch now.
    """
    node = truth(builder, predicate)
    if node.op == "constant":
        taken = true if node.params["value"] else false
        return [node_of(x) for x in taken(builder, [node_of(x) for x in operands])]
    metas = [x.meta for x in operands]
    traces = [trace(builder, function, metas) for function in (true, false)]
    first, second = (t.metas for t in traces)
    if len(first) != len(second):
        raise TypeError(f"cond: the true branch gives {len(first)} results, the false branch {len(second)}")
    agreed = [agree_branches(named(names, k, "result"), a, b) for k, (a, b) in enumerate(zip(first, second))]
    return join_traces(builder, node, traces, [node_of(x) for x in operands], agreed)


def join_traces(
    builder: Builder, predicate: Node, traces: Sequence[Trace], operands: Sequence[Node], metas: Sequence[TensorMeta]
) -> list[Node]:
    """The outputs, of `metas`, of the first trace where the 0-D bool is true, else of the second: traced for `operands`."""
    used = read_outside(*traces)
    graphs = [t.graph([*t.inputs, *used], name, metas) for t, name in zip(traces, ("true", "false"))]
    given = [predicate, *operands, *used]
    return items(builder, builder.apply("cond", *given, true_graph=graphs[0], false_graph=graphs[1]))


def truth(builder: Builder, predicate: Result) -> Node:
    node = node_of(predicate)
    if node.meta.ndim:
        raise TypeError(f"the condition is {described(predicate.meta)}; it must be one number: use np.all, np.any or np.where")
    return node if node.dtype == np.bool_ else builder.apply("cast", node, dtype=np.dtype(bool))


def agree_branches(name: str, true: TensorMeta, false: TensorMeta) -> TensorMeta:
    if true.dtype != false.dtype or not is_same_shape(true, false):
        raise TypeError(
            f"cond: {name} is {described(true)} in the true branch and {described(false)} in the false branch; "
            "they must be of the same shape and dtype: convert one with astype, or broadcast it"
        )
    return true.with_(boxed=true.boxed or false.boxed, weak=true.weak and false.weak)


def is_same_shape(a: TensorMeta, b: TensorMeta) -> bool:
    return len(a.shape) == len(b.shape) and all(same(n, m) or n == m for n, m in zip(a.shape, b.shape))


# --- checkpoint


def make_checkpoint(builder: Builder, function: Body, operands: Sequence[Result]) -> list[Node]:
    """What `function(inner, operands)` gives, and of what it computes nothing that gradients keep: they compute it again."""
    made = trace(builder, function, [x.meta for x in operands])
    if not made.outputs:
        return []
    used = read_outside(made)
    graph = made.graph([*made.inputs, *used], "checkpointed", made.metas)
    return items(builder, builder.apply("checkpoint", *map(node_of, operands), *used, body_graph=graph))


# --- loops


def make_while_loop(
    builder: Builder,
    cond: Callable[[Builder, list[Node]], Result],
    body: Body,
    init: Sequence[Result],
    names: Sequence[str] | None = None,
) -> list[Node]:
    """The carries after `body(inner, carries)`, which gives the next ones, ran while `cond(inner, carries)` was true.

    A carry keeps its shape and dtype: TypeError names one that does not, by its name in `names`. One that is a Python
    number (`meta.weak`) at first takes the dtype that the body gives it; a 0-D array may become a scalar.
    """
    carries, inner = settle("while_loop", builder, body, init, names)
    tested = trace(builder, lambda b, xs: [truth(b, cond(b, xs))], inner.metas)
    used = read_outside(tested, inner)
    node = builder.apply(
        "while_loop",
        *carries,
        *used,
        cond_graph=tested.graph([*tested.inputs, *used], "cond"),
        body_graph=inner.graph([*inner.inputs, *used], "body", inner.metas),
        carried=len(carries),
    )
    return items(builder, node)


def make_for_loop(
    builder: Builder,
    body: Callable[[Builder, list[Node], list[Node]], tuple[Sequence[Result], Sequence[Result]]],
    init: Sequence[Result],
    arrays: Sequence[Result],
    length: Size | None = None,
    *,
    reverse: bool = False,
    names: Sequence[str] | None = None,
) -> tuple[list[Node], list[Node]]:
    """JAX's scan: `body(inner, carries, elements)` for each index of axis 0 of `arrays`, or `length` times.

    The body gives the next carries and what to stack; the answer is the last carries and the stacks. Carries are as in
    make_while_loop. TypeError where `arrays` differ in length.
    """
    length = common_length(arrays, length)
    elements = [TensorMeta(x.meta.shape[1:], x.meta.dtype, boxed=x.meta.ndim > 1) for x in arrays]
    count = len(init)

    def step(inner: Builder, xs: list[Node]) -> list[Result]:
        carries, stacked = body(inner, xs[:count], xs[count:])
        return [*carries, *stacked]

    carries, inner = settle("scan", builder, step, init, names, elements)
    used = read_outside(inner)
    node = builder.apply(
        "for_loop",
        *carries,
        *map(node_of, arrays),
        *used,
        body_graph=inner.graph([*inner.inputs, *used], "body", inner.metas),
        carried=count,
        scanned=len(arrays),
        length=length,
        reverse=reverse,
    )
    results = items(builder, node)
    return results[:count], results[count:]


def make_fori_loop(
    builder: Builder,
    lower: Size | Result,
    upper: Size | Result,
    body: Callable[[Builder, Node, list[Node]], Sequence[Result]],
    init: Sequence[Result],
    names: Sequence[str] | None = None,
) -> list[Node]:
    """The carries after `body(inner, index, carries)` for each index from `lower` up to `upper`, int64.

    With sizes for bounds this is a for_loop, which has all derivatives; with nodes, a while_loop.
    """
    index_names = ["the index", *names] if names is not None else None
    start = integer(builder, lower)

    def step(inner: Builder, xs: list[Node]) -> list[Result]:
        index, *carries = xs
        following = inner.apply("add", index, inner.constant(1, INDEX))
        return [fresh(inner, following, boxed=False), *body(inner, index, carries)]

    if isinstance(lower, (int, Dim)) and isinstance(upper, (int, Dim)):
        length = maximum(upper - lower, 0)

        def counted(inner: Builder, xs: list[Node], _: list[Node]) -> tuple[Sequence[Result], Sequence[Result]]:
            return step(inner, xs), ()

        return make_for_loop(builder, counted, [start, *init], (), length, names=index_names)[0][1:]
    end = integer(builder, upper).node
    return make_while_loop(builder, lambda b, xs: b.apply("less", xs[0], end), step, [start, *init], index_names)[1:]


def integer(builder: Builder, bound: Size | Result) -> Array:
    if isinstance(bound, int):
        return fresh(builder, builder.constant(bound, INDEX), boxed=False)
    if isinstance(bound, Dim):
        return fresh(builder, builder.apply("size", value=bound), boxed=False)
    if bound.meta.ndim or bound.meta.dtype.kind not in "iu":
        raise TypeError(f"fori_loop: a bound is {described(bound.meta)}; it must be an integer")
    node = node_of(bound)
    return fresh(builder, node if node.dtype == INDEX else builder.apply("cast", node, dtype=INDEX), boxed=False)


def common_length(arrays: Sequence[Result], length: Size | None) -> Size:
    for x in arrays:
        if not x.meta.ndim:
            raise TypeError(f"scan: {described(x.meta)} has no axis 0 to go along")
        if length is None:
            length = x.meta.shape[0]
        elif not same(length, x.meta.shape[0]) and length != x.meta.shape[0]:
            raise TypeError(f"scan: {described(x.meta)} among arrays of length {length}; all must have the same axis 0")
    if length is None:
        raise TypeError("scan: there is no array to go along; give length=")
    return length


def settle(
    loop: str,
    builder: Builder,
    body: Body,
    init: Sequence[Result],
    names: Sequence[str] | None,
    elements: Sequence[TensorMeta] = (),
) -> tuple[list[Node], Trace]:
    """The body traced for carries of metas that it gives back, and the first carries as such."""
    metas = [x.meta for x in init]
    for _ in range(ROUNDS):
        inner = trace(builder, body, [*metas, *elements])
        if len(inner.outputs) < len(metas):
            raise TypeError(f"{loop}: the body gives {len(inner.outputs)} carries for {len(metas)}")
        found = [agree(loop, named(names, k, "carry"), a, b) for k, (a, b) in enumerate(zip(metas, inner.metas))]
        if all(a.dtype == b.dtype and (a.boxed, a.weak) == (b.boxed, b.weak) for a, b in zip(metas, found)):
            break
        metas = found
    nodes = [node_of(x) for x in init]
    nodes = [x if x.dtype == m.dtype else builder.apply("cast", x, dtype=m.dtype) for x, m in zip(nodes, metas)]
    given_out = [*metas, *inner.metas[len(metas) :]]
    return nodes, replace(inner, metas=given_out)


def agree(loop: str, name: str, before: TensorMeta, after: TensorMeta) -> TensorMeta:
    """What a carry is in all iterations, or TypeError."""
    is_number = before.weak and after.ndim == 0 and takes_dtype(before.dtype, after.dtype)
    if is_same_shape(before, after) and (before.dtype == after.dtype or is_number):
        return before.with_(dtype=after.dtype, boxed=after.boxed, weak=before.weak and after.weak, strides=())
    raise TypeError(
        f"{loop}: {name} is {described(before)} before an iteration and {described(after)} after it; it must keep its "
        "shape and dtype: convert the first value, or what the body returns, with astype or broadcast_to"
    )


def takes_dtype(number: np.dtype, dtype: np.dtype) -> bool:
    """Does a Python number of this kind become `dtype` beside an operand of that dtype (NEP 50)?"""
    return bool(np.result_type(dtype, number.type(0).item()) == dtype)
