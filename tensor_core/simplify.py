"""A smaller graph with exactly the same answers: the rules by which operations disappear.

Every rule holds bit for bit, for infinities, NaN and signed zeros too, and asks nothing about symbolic sizes. What reports
floating-point errors stays, also where nobody reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Dim, ShapeEnv, Size, same
from npcompile.tensor_core.dtypes import is_same_dtype, kind_of, precision_of
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import Builder, Graph, Node, subgraphs, topological
from npcompile.tensor_core.meta import Shape, is_static, product
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.reduction import REDUCERS
from npcompile.tensor_core.transforms.prune import prune

SMALL = 64  # elements of a result that is computed now rather than by the program


def simplify(graph: Graph) -> Graph:
    """The graph rebuilt from its inputs by RULES: same inputs, outputs, metas and writes; fewer nodes."""
    env = graph.env or ShapeEnv()
    with env.unguarded():  # meta rules may ask for the strides of new nodes: no answer depends on these
        pruned = prune(graph)
        result = rebuilt(pruned, env) or rebuilt(pruned, env, keeps_errors=True)
    assert result is not None
    checks = graph.checks if any(map(may_report, result.nodes)) else frozenset()
    return result.with_(checks=checks, restored=graph.restored & {index for index, _ in result.writes})


def rebuilt(graph: Graph, env: ShapeEnv, *, keeps_errors: bool = False) -> Graph | None:
    """None where something that reports errors would be gone, which a Rewriter that keeps it reads, or reads more of."""
    rewriter = Rewriter(Builder(env=env), keeps_errors)
    new = rewriter.builder.take(graph)
    for node in graph.nodes:
        if node.op != "input":
            rewriter.builder.location = node.location
            inputs = tuple(new[i] for i in node.inputs)
            smaller = {name: simplify(inside) for name, inside in subgraphs(node).items()}
            new[node] = rewriter.make(node.op, *inputs, **node.params | smaller) if smaller else rewriter.again(node, inputs)
    writes = [(index, new[node]) for index, node in graph.writes if new[node] is not new[graph.inputs[index]]]
    rewriter.builder.measured = {name: new[node] for name, node in graph.measured}
    results = [*(new[n] for n in graph.outputs), *(n for _, n in writes), *rewriter.builder.measured.values()]
    if graph.checks and not keeps_errors and are_gone(new, topological(results)):
        return None
    return rewriter.builder.finish([new[n] for n in graph.outputs], graph.metas, writes, graph.name)


def are_gone(new: dict[Node, Node], live: Iterable[Node]) -> bool:
    """Is something that reports errors not among what is left?"""
    left = set(live)
    made = (without_copies(new[node]) for node in new if may_report(node))
    return any(node not in left and may_report(node) for node in made)


@dataclass(frozen=True, slots=True)
class Rewriter:
    builder: Builder
    keeps_errors: bool = False  # does it drop nothing that reports errors?
    silent: dict[Node, bool] = field(default_factory=dict)

    def make(self, op: str, *inputs: Node, **params: Any) -> Node:
        """The simplest node that means op(*inputs, **params)."""
        return self.simpler(op, inputs, params) or self.builder.apply(op, *inputs, **params)

    def again(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The simplest node that means a node of another graph, with these inputs."""
        return self.simpler(node.op, inputs, node.params) or self.builder.again(node, *inputs)

    def simpler(self, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
        """What a rule makes of it."""
        made = (rule(self, op, inputs, params) for rule in (*RULES.get(op, ()), *RULES_OF_KIND.get(OPS[op].kind, ())))
        return next((node for node in made if node is not None), None)

    def broadcast(self, node: Node, shape: Shape) -> Node:
        return self.make("broadcast_to", node, shape=shape)

    def may_drop(self, *nodes: Node) -> bool:
        """May these go, though nobody else may read what they are made of?"""
        waiting = list(nodes) if self.keeps_errors else []
        while waiting:
            node = waiting[-1]
            if unknown := [i for i in node.inputs if i not in self.silent]:
                waiting += unknown
            else:
                self.silent[waiting.pop()] = not may_report(node) and all(self.silent[i] for i in node.inputs)
        return all(self.silent.get(node, True) for node in nodes)


# (rewriter, op, inputs, params) -> a simpler node of the same meaning, or None.
Rule = Callable[[Rewriter, str, tuple[Node, ...], dict[str, Any]], Node | None]
RULES: dict[str, list[Rule]] = {}
RULES_OF_KIND: dict[str, list[Rule]] = {}


def rule_among(rules: dict[str, list[Rule]], *names: str) -> Callable[[Rule], Rule]:
    def add(simplify_one: Rule) -> Rule:
        for name in names:
            rules.setdefault(name, []).append(simplify_one)
        return simplify_one

    return add


rule, rule_of_kind = partial(rule_among, RULES), partial(rule_among, RULES_OF_KIND)


# --- questions about nodes


def same_shape(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def without_copies(node: Node) -> Node:
    while node.op == "broadcast_to":
        (node,) = node.inputs
    return node


def source_of_copies(node: Node) -> Node | None:
    """The 0-D node that all elements of `node` are, if it is made so."""
    node = without_copies(node)
    return node if node.meta.ndim == 0 else None


def value_of(node: Node) -> Any:
    """The constant that all elements of `node` are, or None."""
    source = source_of_copies(node)
    return source.params["value"] if source is not None and source.op == "constant" else None


def is_value(node: Node, value: float) -> bool:
    """Is every element this number? -0.0 is not 0.0."""
    found = value_of(node)
    if found is None or found != value:
        return False
    return all(np.signbit(part) == np.signbit(value) for part in (np.real(found), np.imag(found))[: 1 + (node.dtype.kind == "c")])


def is_exact(source: np.dtype, target: np.dtype) -> bool:
    """Does every number of `source` have its own, equal, in `target`? NumPy calls int64 to float64 safe; it rounds."""
    if source.kind in "iu" and kind_of(target) in "fc":
        bits = 8 * source.itemsize - (source.kind == "i")
        return bits <= precision_of(target) + 1
    return np.can_cast(source, target, "safe")


# --- constants


@rule("size")
def size_that_is_known(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    value = params["value"]
    return None if isinstance(value, Dim) else rewriter.builder.constant(value, np.dtype(np.int64))


@rule_of_kind("elementwise", "movement")
def operation_on_constants(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    """Computed now, unless NumPy would set a floating point flag: then a warning or an error is due at run time."""
    if op == "broadcast_to" or not all(n.op in ("constant", "literal") for n in inputs):
        return None
    meta = OPS[op].meta(*(n.meta for n in inputs), **params)
    if not is_static(meta.shape) or product(meta.shape) > SMALL:
        return None
    try:
        with np.errstate(all="raise"):
            value = np.asarray(OPS[op].eager(*(OPS[n.op].eager(**n.params) for n in inputs), **params))
    except FloatingPointError:
        return None
    assert value.dtype == meta.dtype and value.shape == meta.shape, (op, value.dtype, meta)
    if not value.shape:
        return rewriter.builder.constant(value[()], value.dtype)
    return rewriter.builder.apply("literal", data=value.tobytes(), dtype=value.dtype, shape=value.shape)


@rule_of_kind("elementwise")
def operation_on_copies(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    """What is the same for all elements is computed once."""
    shape = inputs[0].shape
    sources = [source_of_copies(n) for n in inputs]
    if not shape or any(s is None for s in sources):
        return None
    return rewriter.broadcast(rewriter.make(op, *(s for s in sources if s is not None), **params), shape)


@rule("permute", "reshape", "slice")
def movement_of_copies(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    source = source_of_copies(x)
    if source is None or x is source:
        return None
    return rewriter.broadcast(source, OPS[op].meta(x.meta, **params).shape)


# --- casts and parts


@rule("cast", "bitcast")
def cast_to_its_own_dtype(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    return inputs[0] if is_same_dtype(inputs[0].dtype, params["dtype"]) else None


@rule("bitcast")
def bitcast_of_bitcast(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    return rewriter.make("bitcast", *x.inputs, **params) if x.op == "bitcast" else None


@rule("cast")
def cast_of_cast(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    """The first of two casts goes when it loses nothing and the second does not depend on the kind of number."""
    (middle,) = inputs
    if middle.op != "cast":
        return None
    source, target = middle.inputs[0].dtype, params["dtype"]
    if not is_exact(source, middle.dtype):
        return None
    if not is_exact(source, target):
        if target.kind in "iu" and (source.kind not in "iu" or middle.dtype.kind not in "iu"):
            return None  # integers wrap around, floats out of range do not
        if target.itemsize == 2 and kind_of(target) == "f" and source.kind in "iu":
            return None  # NumPy rounds these by way of float32
    return rewriter.make("cast", *middle.inputs, dtype=target)


@rule("real", "imag")
def part_of_joined_parts(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (z,) = inputs
    return z.inputs[op == "imag"] if z.op == "complex" and rewriter.may_drop(z) else None


@rule("complex")
def joined_parts_of_one(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    real, imag = inputs
    if (real.op, imag.op) == ("real", "imag") and real.inputs == imag.inputs and real.inputs[0].dtype.kind == "c":
        return real.inputs[0]
    return None


# --- arithmetic

# Op -> (number, kinds of dtype) for which x op number is x.
NEUTRAL_RIGHT: dict[str, tuple[tuple[float, str], ...]] = {
    "add": ((-0.0, "fc"), (0, "iu")),  # -0.0 + 0.0 is 0.0
    "subtract": ((0, "iufc"),),
    "multiply": ((1, "iuf"),),  # complex products by 1 + 0j turn infinities into NaN
    "divide": ((1, "f"),),
    "power": ((1, "iuf"),),
    "scalar_power": ((1, "f"),),
    "bitwise_or": ((0, "iu"),),
    "bitwise_xor": ((0, "iu"),),
    "left_shift": ((0, "iu"),),
    "right_shift": ((0, "iu"),),
    "logical_or": ((0, "b"),),
    "logical_and": ((1, "b"),),
}
COMMUTATIVE = {"add", "multiply", "bitwise_or", "bitwise_xor", "logical_or", "logical_and"}


@rule(*NEUTRAL_RIGHT)
def neutral_operand(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    for x, other in (inputs, inputs[::-1]) if op in COMMUTATIVE else (inputs,):
        for value, kinds in NEUTRAL_RIGHT[op]:
            if kind_of(x.dtype) in kinds and is_same_dtype(x.dtype, other.dtype) and is_value(other, value):
                return x
    return None


# Op -> kinds of dtype that it leaves as they are.
IDENTITY_ON = {
    "positive": "biufc",
    "conjugate": "biuf",
    "absolute": "bu",
    "floor": "biu",
    "ceil": "biu",
    "trunc": "biu",
    "rint": "",
}


@rule(*IDENTITY_ON)
def operation_without_effect(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    return x if kind_of(x.dtype) in IDENTITY_ON[op] and is_same_dtype(OPS[op].meta(x.meta).dtype, x.dtype) else None


@rule("negative", "invert", "conjugate", "logical_not")
def operation_undone(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    return x.inputs[0] if x.op == op and x.inputs[0].dtype == x.dtype else None


@rule("where")
def choice_that_is_known(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    condition, x, y = inputs
    if x is y and rewriter.may_drop(condition):
        return x
    known = value_of(condition)
    if known is None:
        return None
    chosen, other = (x, y) if known else (y, x)
    return chosen if rewriter.may_drop(other) else None


@rule("where")
def choice_by_negation(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    condition, x, y = inputs
    if condition.op != "logical_not" or condition.inputs[0].dtype != np.bool_:
        return None
    return rewriter.make("where", condition.inputs[0], y, x)


# --- movement


@rule("reshape", "broadcast_to")
def movement_to_its_own_shape(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    return inputs[0] if same_shape(inputs[0].shape, params["shape"]) else None


@rule("reshape")
def reshape_of_reshape(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    if x.op != "reshape" or not same(product(x.inputs[0].shape), product(params["shape"])):
        return None
    return rewriter.make("reshape", *x.inputs, **params)


@rule("broadcast_to")
def broadcast_of_broadcast(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    return rewriter.make("broadcast_to", *x.inputs, **params) if x.op == "broadcast_to" else None


@rule("alias", "custom_gradient")
def alias_of(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    return inputs[0]


@rule("permute")
def permute_in_order(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,), axes = inputs, params["axes"]
    if axes == tuple(range(len(axes))):
        return x
    if x.op == "permute":
        return rewriter.make("permute", *x.inputs, axes=tuple(x.params["axes"][a] for a in axes))
    return None


@rule("concatenate")
def concatenate_few(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    if len(inputs) == 1:
        return inputs[0]
    filled = [x for x in inputs if not same(x.shape[params["axis"]], 0)]
    if not filled or len(filled) == len(inputs) or not rewriter.may_drop(*inputs):
        return None
    return rewriter.make("concatenate", *filled, **params)


@rule("scan")
def scan_of_one(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    return inputs[0] if same(inputs[0].shape[params["axis"]], 1) else None


@rule("reduce")
def reduction_of_one(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    """Over no axes, or axes of size 1: the element itself, which a sum adds to 0.0."""
    (x,), axes, reducer = inputs, params["axes"], params["reducer"]
    if not all(same(x.shape[a], 1) for a in axes) or (reducer == "multiply" and x.dtype.kind == "c"):
        return None
    if reducer == "add" and kind_of(x.dtype) in "fc":
        zero = rewriter.builder.constant(REDUCERS[reducer].identity, x.dtype)
        x = rewriter.make("add", x, rewriter.broadcast(zero, x.shape))
    return rewriter.make("reshape", x, shape=tuple(n for a, n in enumerate(x.shape) if a not in axes))


# --- slices and updates of them


@dataclass(frozen=True, slots=True)
class Region:
    """The elements start + step * (0 .. length-1) of every axis."""

    start: tuple[Size, ...]
    step: tuple[int, ...]
    shape: Shape

    def is_same(self, other: Region) -> bool:
        return self.step == other.step and same_shape(self.start, other.start) and same_shape(self.shape, other.shape)

    def is_all_of(self, shape: Shape) -> bool:
        return self.is_same(Region((0,) * len(shape), (1,) * len(shape), shape))

    def is_apart_from(self, other: Region) -> bool:
        """Certainly without a common element."""
        pairs = zip(self.indices(), other.indices())
        return any(mine is not None and theirs is not None and are_apart(mine, theirs) for mine, theirs in pairs)

    def indices(self) -> Iterator[range | None]:
        """Of each axis, the indices that are named; None where they depend on symbols."""
        for start, step, length in zip(self.start, self.step, self.shape):
            if isinstance(start, int) and isinstance(step, int) and isinstance(length, int):
                yield range(start, start + step * length, step)
            else:
                yield None

    def within(self, whole: Region) -> Region | None:
        """This region as one of what `whole` names, when it is certainly a part of that."""
        start: list[int] = []
        step: list[int] = []
        for mine, theirs in zip(self.indices(), whole.indices()):
            if mine is None or theirs is None or not len(mine) or mine[0] not in theirs or mine[-1] not in theirs:
                return None
            if len(mine) > 1 and mine.step % theirs.step:
                return None
            start.append(theirs.index(mine[0]))
            step.append(mine.step // theirs.step if len(mine) > 1 else 1)
        return Region(tuple(start), tuple(step), self.shape)

    @property
    def params(self) -> dict[str, Any]:
        return {"start": self.start, "step": self.step}


def are_apart(a: range, b: range) -> bool:
    if not len(a) or not len(b):
        return True
    overlap = max(min(a[0], a[-1]), min(b[0], b[-1])) <= min(max(a[0], a[-1]), max(b[0], b[-1]))
    return not overlap or (a[0] - b[0]) % math.gcd(a.step, b.step) != 0


def updated_region(update: Node) -> Region:
    return Region(update.params["start"], update.params["step"], update.inputs[1].shape)


@rule("slice")
def slice_of_everything(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    return inputs[0] if Region(**params).is_all_of(inputs[0].shape) else None


@rule("slice")
def slice_of_slice(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    if x.op != "slice":
        return None
    start = tuple(a + s * b for a, s, b in zip(x.params["start"], x.params["step"], params["start"]))
    step = tuple(s * t for s, t in zip(x.params["step"], params["step"]))
    return rewriter.make("slice", *x.inputs, start=start, step=step, shape=params["shape"])


@rule("slice")
def slice_of_update(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    (x,) = inputs
    if x.op != "slice_update":
        return None
    wanted, written, (base, value) = Region(**params), updated_region(x), x.inputs
    if not rewriter.may_drop(x):
        return None
    if wanted.is_same(written):
        return value
    if wanted.is_apart_from(written):
        return rewriter.make("slice", base, **params)
    part = wanted.within(written)
    return None if part is None else rewriter.make("slice", value, **part.params, shape=part.shape)


@rule("slice_update")
def update_of_nothing_or_everything(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    base, value = inputs
    region = Region(**params, shape=value.shape)
    if any(same(n, 0) for n in value.shape) and rewriter.may_drop(value):
        return base
    if region.is_all_of(base.shape) and rewriter.may_drop(base):
        return value
    if value.op == "slice" and value.inputs[0] is base and region.is_same(Region(**value.params)):
        return base
    return None


@rule("slice_update")
def update_of_update(rewriter: Rewriter, op: str, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node | None:
    """What is written over need not be written."""
    base, value = inputs
    if base.op != "slice_update" or not updated_region(base).is_same(Region(**params, shape=value.shape)):
        return None
    if not rewriter.may_drop(base.inputs[1]):
        return None
    return rewriter.make("slice_update", base.inputs[0], value, **params)
