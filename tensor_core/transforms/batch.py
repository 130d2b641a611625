"""Batches: a program of one example made a program of many, by a rule for each family of ops.

The examples lie along axis 0 of what is batched. Ops on axes only move these by one, so a batched program has as many
nodes as the plain one, whatever the size of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.tensor_core.array import expand, reshaped
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Builder, Node, topological
from npcompile.tensor_core.meta import Shape
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.transforms.stand_in import stand_in
from npcompile.tensor_core.transforms.value import Value

Operand = tuple[Node, bool]  # a node made anew, and whether it has the batch axis


@dataclass(frozen=True, slots=True)
class Batcher:
    """What the rules share: where nodes are made, and how many examples there are."""

    builder: Builder
    size: Size
    batched: Mapping[Node, Node] = field(default_factory=dict)  # the nodes of one example that differ, and of the batch
    active: Node | None = None  # examples that do take this branch or iteration; None: all do
    graphs: dict[Any, Any] = field(default_factory=dict)  # those in nodes, made once for all nodes that hold them

    def apply(self, op: str, *inputs: Node, **params: Any) -> Node:
        return self.builder.apply(op, *inputs, **params)

    def with_axis(self, operand: Operand) -> Node:
        """The operand with the batch axis, along which it is repeated if it has none of its own."""
        node, is_batched = operand
        return node if is_batched else expand(self.builder, node, (self.size, *node.shape))


# (batcher, the plain node, its inputs made anew) -> the node with the batch axis; of an op with several results this may
# also be a list of operands, one for each result. At least one input has the batch axis.
Rule = Callable[[Batcher, Node, Sequence[Operand]], "Node | list[Operand]"]
RULES: dict[str, Rule] = {}  # by the name of the op, else by its kind


def batch(builder: Builder, outputs: Sequence[Node], batched: Mapping[Node, Node], size: Size) -> list[tuple[Node, bool]]:
    """`outputs` made again for `size` examples at once.

    `batched` names the nodes that differ from example to example, each with a node that has one more axis, axis 0, of
    `size`. For each output the new node and whether it has the batch axis: one that depends on nothing batched is
    returned as it is. `batch(b, [add(x, y)], {x: xs}, 10)` is `[(add(xs, broadcast_to(y)), True)]`.

    Declines at an op that has no rule.
    """
    assert all(new.meta.ndim == old.meta.ndim + 1 and new.dtype == old.dtype for old, new in batched.items()), batched
    return made_again(Batcher(builder, size, batched), outputs, {old: (new, True) for old, new in batched.items()})


def made_again(batcher: Batcher, outputs: Sequence[Node], known: Mapping[Node, Operand]) -> list[Operand]:
    """`outputs`, of the batcher's builder or of a graph whose inputs are all in `known`, made of what `known` tells of nodes."""
    builder = batcher.builder
    made: dict[Node, Operand] = dict(known)
    results: dict[Node, list[Operand]] = {}  # of ops with several, that their rules made apart
    for node in topological(outputs, known):
        if node in made:
            continue
        inputs = [made[i] for i in node.inputs]
        location, builder.location = builder.location, node.location or builder.location
        if node.op == "item" and node.inputs[0] in results:
            made[node] = results[node.inputs[0]][node.params["index"]]
        elif node.op == "input" or (inputs and all(new is old for (new, _), old in zip(inputs, node.inputs))):
            made[node] = node, False
        elif not any(is_batched for _, is_batched in inputs):  # a leaf may be of another builder
            made[node] = builder.apply(node.op, *(new for new, _ in inputs), **node.params), False
        else:
            found = rule_of(node)(batcher, node, inputs)
            if isinstance(found, Node):
                made[node] = found, True
            else:
                results[node] = found
                made[node] = node, True
        builder.location = location
    return [made[n] for n in outputs]


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorate the rule of these ops or kinds of ops."""

    def add(function: Rule) -> Rule:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = function
        return function

    return add


def rule_of(node: Node) -> Rule:
    found = RULES.get(node.op) or RULES.get(OPS[node.op].kind)
    if found is None:
        raise cannot_be_batched(node)
    return found


def cannot_be_batched(node: Node) -> Decline:
    return Decline(f"{node.op} cannot be batched", "Call the function for each example.")


def after(axes: Iterable[int]) -> tuple[int, ...]:
    """Axes of one example as axes of the batch."""
    return tuple(a + 1 for a in axes)


# --- the same op of operands that all have the batch axis


@rule("elementwise")
def batch_elementwise(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    return batcher.apply(node.op, *map(batcher.with_axis, inputs), **node.params)


@rule("scalar_power")
def batch_scalar_power(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    """As arrays have it: squares and cubes of a batch are products."""
    return batcher.apply("power", *map(batcher.with_axis, inputs))


@rule("laid_out")
def batch_laid_out(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    """Examples lie as a batch does."""
    return batcher.with_axis(inputs[0])


@rule("alias", "item")
def batch_same(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    ((x, _),) = inputs
    return batcher.apply(node.op, x, **node.params)


@rule("custom_gradient")
def batch_custom_gradient(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    """The user's rule is of one example, so what it gives is batched in its turn."""
    rule_of_one, read = node.params["rule"], node.params.get("read", 0)
    like = [node, *node.inputs[len(node.inputs) - read :]]

    def rule_of_all(*given: Value) -> list[Value | None]:
        builder = given[0].builder
        ones = [stand_in(builder, n.shape, n.dtype) for n in like]
        parts: Sequence[Value | None] = rule_of_one(*(Value(builder, n) for n in ones))
        found = [None if part is None else part.node for part in parts]
        batched = {**batcher.batched, **{n: x.node for n, x in zip(ones, given)}}
        made = iter(batch(builder, [n for n in found if n is not None], batched, batcher.size))
        with_axis = Batcher(builder, batcher.size).with_axis
        return [None if n is None else Value(builder, with_axis(next(made))) for n in found]

    return batcher.apply("custom_gradient", *map(batcher.with_axis, inputs), rule=rule_of_all, read=read)


@rule("concatenate")
def batch_concatenate(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    return batcher.apply("concatenate", *map(batcher.with_axis, inputs), axis=node.params["axis"] + 1)


@rule("update")
def batch_update(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    start, step = node.params["start"], node.params["step"]
    return batcher.apply("slice_update", *map(batcher.with_axis, inputs), start=(0, *start), step=(1, *step))


# --- ops of one array: the axes move by one


@rule("permute")
def batch_permute(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    return batcher.apply("permute", inputs[0][0], axes=(0, *after(node.params["axes"])))


@rule("reshape")
def batch_reshape(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    return batcher.apply("reshape", inputs[0][0], shape=(batcher.size, *node.params["shape"]))


@rule("broadcast_to")
def batch_broadcast_to(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    ((x, _),) = inputs
    shape: Shape = node.params["shape"]
    inserted = (1,) * (len(shape) - node.inputs[0].meta.ndim)  # NumPy would put the new axes before the batch's
    x = reshaped(batcher.builder, x, (batcher.size, *inserted, *x.shape[1:]))
    return batcher.apply("broadcast_to", x, shape=(batcher.size, *shape))


@rule("slice")
def batch_slice(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    start, step, shape = (node.params[name] for name in ("start", "step", "shape"))
    return batcher.apply("slice", inputs[0][0], start=(0, *start), step=(1, *step), shape=(batcher.size, *shape))


@rule("reduction")
def batch_reduce(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    return batcher.apply(node.op, inputs[0][0], **node.params | {"axes": after(node.params["axes"])})


@rule("arg_reduce", "scan")
def batch_along_axis(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    return batcher.apply(node.op, inputs[0][0], **node.params | {"axis": node.params["axis"] + 1})


# --- places that are data: the number of the example becomes the first index


@rule("gather")
def batch_gather(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    x, *indices = inputs
    spread = [batcher.with_axis(i) for i in indices]
    return batcher.apply("gather", x[0], *([example_index(batcher, spread)] if x[1] else []), *spread)


@rule("scatter")
def batch_scatter(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    x, value, *indices = map(batcher.with_axis, inputs)
    return batcher.apply("scatter", x, value, example_index(batcher, indices), *indices, **node.params)


def example_index(batcher: Batcher, indices: Sequence[Node]) -> Node:
    """The number of the example, in the shape of batched indices."""
    return batcher.apply("index", shape=indices[0].shape, axis=0)


# --- sums of products: one more axis, which operands without the batch axis lack


@rule("contraction")
def batch_einsum(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    axes: tuple[tuple[int, ...], ...] = node.params["inputs"]
    output: tuple[int, ...] = node.params["output"]
    used = {a for part in (*axes, output) for a in part}
    new = next(a for a in range(len(used) + 1) if a not in used)
    batched = tuple((new, *part) if is_batched else part for part, (_, is_batched) in zip(axes, inputs))
    return batcher.apply("einsum", *(x for x, _ in inputs), **node.params | {"inputs": batched, "output": (new, *output)})


# --- what libraries run as a whole


@rule("extern")
def batch_extern(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    """NumPy's functions of stacks take one more axis."""
    if not OPS[node.op].stacks:
        raise cannot_be_batched(node)
    params = dict(node.params)
    if "axis" in params:
        params["axis"] += 1
    if "axes" in params:
        params["axes"] = after(params["axes"])
    return batcher.apply(node.op, *map(batcher.with_axis, inputs), **params)


@rule("ufunc")
def batch_ufunc(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    """Operands are repeated by the ufunc: those with the batch axis get as many axes as the result has."""
    ndim = max(i.meta.ndim for i in node.inputs)
    operands = []
    for x, is_batched in inputs:
        ones = (1,) * (ndim + 1 - x.meta.ndim)
        operands.append(reshaped(batcher.builder, x, (batcher.size, *ones, *x.shape[1:])) if is_batched else x)
    return batcher.apply("ufunc", *operands, **node.params)


@rule("searchsorted", "interp")
def batch_search(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> Node:
    a, v, *others = inputs
    stack = node.params.get("stack", 0)
    if not stack and not a[1] and not any(is_batched for _, is_batched in others):
        return batcher.apply(node.op, a[0], v[0], *(o for o, _ in others), **node.params)  # v has any shape
    return batcher.apply(node.op, *map(batcher.with_axis, inputs), **node.params | {"stack": stack + 1})
