"""cond, while_loop, fori_loop and scan while a program is captured: their functions become sub-graphs of one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npcompile import control
from npcompile.tensor_core.array import Array, Storage, fresh
from npcompile.tensor_core.control import make_checkpoint, make_cond, make_for_loop, make_fori_loop, make_while_loop
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number
from npcompile.tracer.arrays.transformed import alike, array_of, captures_transform
from npcompile.tracer.arrays.trees import Tree
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls
from npcompile.tracer.python.calls import Arguments, Keywords, captures
from npcompile.tracer.values import Constant, TensorValue, Transform, Truth
from npcompile.tracer.values import Sequence as SequenceValue


def captures_control(function: Callable[..., Any], *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the captured form, which takes the arguments `names` in order; those not given are None."""

    def add(captured: Callable[..., Any]) -> Callable[..., Any]:
        def take(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
            rest = positional[len(names) :]
            given = dict(zip(names, positional)) | keywords
            if not set(given) <= set(names) or len(given) < len(positional) - len(rest) + len(keywords):
                raise Decline(f"these arguments of {function.__name__}")
            arguments = [frame.capture.realize(given[n]) if n in given else Constant(None) for n in names]
            return captured(frame, *arguments, *rest)

        captures(function)(take)
        return captured

    return add


def leaf_array(frame: Frame, leaf: Any) -> Array:
    """An array, or a Python number as one that leaves the dtype to others."""
    is_number = isinstance(leaf, (Number, Dim)) or isinstance(leaf, Constant) and type(leaf.value) in (bool, int, float, complex)
    x = array_of(frame, leaf, "a leaf of a carry")
    if not is_number or x.dtype.kind == "b":
        return x
    node = leaf.node(frame.capture.builder) if isinstance(leaf, Number) else x.node
    return Array(x.storage, (), x.meta.with_(weak=True)) if node is x.node else scalar(frame.capture.builder, node, weak=True)


def scalar(builder: Builder, node: Node, weak: bool = False) -> Array:
    meta = node.meta.with_(boxed=False, writeable=False, weak=weak)
    return Array(Storage(builder, node, meta), (), meta)


def arrays_of(builder: Builder, nodes: Sequence[Node]) -> list[Array]:
    return [scalar(builder, n, weak=True) if n.meta.weak else fresh(builder, n, boxed=n.meta.boxed) for n in nodes]


class Body:
    """A function of the user's, called to make a sub-graph."""

    def __init__(self, frame: Frame, function: Any):
        self.frame, self.function = frame, function

    def __call__(self, inner: Builder, *arguments: Any, **keywords: Any) -> Any:
        """Its result; what it makes, it makes in `inner`."""
        capture = self.frame.capture
        with capture.within(inner):
            return capture.realize(calls.call(self.frame, self.function, list(arguments), keywords))


def leaves_like(frame: Frame, tree: Tree, value: Any, what: str) -> list[Array]:
    """The leaves of a result that must be a tree like `tree`."""
    made = Tree.of(frame, value)
    if not made.is_like(tree):
        raise Decline(f"{what} returns another tree than it is given")
    for k, (before, after) in enumerate(zip(tree.leaves, made.leaves)):
        if isinstance(after, TensorValue) and not isinstance(before, TensorValue):
            tree.leaves[k] = TensorValue(leaf_array(frame, before))  # from the second iteration on
    return [leaf_array(frame, leaf) for leaf in made.leaves]


def rebuilt(tree: Tree, arrays: Sequence[Array]) -> Any:
    return tree.build([alike(leaf, x) for leaf, x in zip(tree.leaves, arrays)])


@captures_control(control.cond, "pred", "true_fun", "false_fun")
def capture_cond(frame: Frame, predicate: Any, true: Any, false: Any, *operands: Any) -> Any:
    builder = frame.capture.builder
    decided = calls.operators.truth(frame.capture, predicate)
    if not isinstance(decided, Truth):
        return calls.call(frame, true if decided.value else false, list(operands), {})
    trees = [Tree.of(frame, o) for o in operands]
    found: list[Tree] = []
    written: set[int] = set()  # operands that a branch writes to

    def branch(function: Any) -> Callable[[Builder, list[Node]], list[Array]]:
        def trace(inner: Builder, nodes: list[Node]) -> list[Array]:
            arrays = arrays_of(inner, nodes)
            rest = iter(arrays)
            value = Body(frame, function)(inner, *(rebuilt(t, [next(rest) for _ in t.leaves]) for t in trees))
            made = Tree.of(frame, value)
            if found and not made.is_like(found[0]):
                raise Decline("the branches of cond return different trees")
            found.append(made)
            written.update(k for k, x in enumerate(arrays) if x.storage.is_written)
            return [*arrays, *(leaf_array(frame, leaf) for leaf in made.leaves)]

        return trace

    asked = decided.array
    if decided.negated:
        raise Decline("a negated condition of cond")
    given = [leaf_array(frame, leaf) for t in trees for leaf in t.leaves]
    nodes = make_cond(builder, asked, branch(true), branch(false), given)
    write_back(frame, {k: (given[k], nodes[k]) for k in written})
    return rebuilt(found[0], arrays_of(builder, nodes[len(given) :]))


def write_back(frame: Frame, written: dict[int, tuple[Array, Node]]) -> None:
    """Contents that a function has given to its operands."""
    for x, contents in written.values():
        if not x.meta.boxed:
            raise Decline("a write to a number")
        x.write(contents)
    if written:
        frame.capture.require_no_overlap()


def require_unwritten(arrays: Sequence[Array], what: str) -> None:
    if any(x.storage.is_written for x in arrays):
        raise Decline(f"{what} writes to what it is given", "Let it write to a copy.")


@captures_transform("checkpoint")
def capture_checkpoint(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    """Arrays among the arguments are operands; all else is what it is, in the function and in its result."""
    named = dict(zip(keywords, map(frame.capture.realize, keywords.values())))
    trees = [Tree.of(frame, value) for value in (*positional, *named.values())]
    operands = [leaf for tree in trees for leaf in tree.leaves if isinstance(leaf, (Array, TensorValue))]
    found: list[Tree] = []
    written: list[int] = []

    def trace(inner: Builder, nodes: list[Node]) -> list[Array]:
        arrays = arrays_of(inner, nodes)
        given = {id(leaf): alike(leaf, x) for leaf, x in zip(operands, arrays)}
        values = [tree.build([given.get(id(leaf), leaf) for leaf in tree.leaves]) for tree in trees]
        function = Body(frame, transform.function)
        made = function(inner, *values[: len(positional)], **dict(zip(named, values[len(positional) :])))
        found.append(Tree.of(frame, made))
        written.extend(k for k, x in enumerate(arrays) if x.storage.is_written)
        results = [array_of(frame, leaf, "a result") for leaf in found[0].leaves if isinstance(leaf, (Array, TensorValue))]
        return [*(arrays[k] for k in written), *results]

    given = [array_of(frame, x, "an argument") for x in operands]
    nodes = make_checkpoint(frame.capture.builder, trace, given)
    write_back(frame, {k: (given[k], node) for k, node in zip(written, nodes)})
    made = iter(arrays_of(frame.capture.builder, nodes[len(written) :]))
    return found[0].build([alike(x, next(made)) if isinstance(x, (Array, TensorValue)) else x for x in found[0].leaves])


@captures_control(control.while_loop, "cond_fun", "body_fun", "init_val")
def capture_while_loop(frame: Frame, condition: Any, body: Any, init: Any) -> Any:
    builder, tree = frame.capture.builder, Tree.of(frame, init)

    def test(inner: Builder, nodes: list[Node]) -> Array:
        arrays = arrays_of(inner, nodes)
        value = Body(frame, condition)(inner, rebuilt(tree, arrays))
        require_unwritten(arrays, "the condition of while_loop")
        return array_of(frame, value, "the condition of while_loop")

    def step(inner: Builder, nodes: list[Node]) -> list[Array]:
        value = Body(frame, body)(inner, rebuilt(tree, arrays_of(inner, nodes)))
        return leaves_like(frame, tree, value, "body_fun of while_loop")

    nodes = make_while_loop(builder, test, step, [leaf_array(frame, leaf) for leaf in tree.leaves])
    return rebuilt(tree, arrays_of(builder, nodes))


@captures_control(control.fori_loop, "lower", "upper", "body_fun", "init_val")
def capture_fori_loop(frame: Frame, lower: Any, upper: Any, body: Any, init: Any) -> Any:
    builder, tree = frame.capture.builder, Tree.of(frame, init)

    def step(inner: Builder, index: Node, nodes: list[Node]) -> list[Array]:
        k = scalar(inner, index, weak=True)  # a Python int
        value = Body(frame, body)(inner, k, rebuilt(tree, arrays_of(inner, nodes)))
        return leaves_like(frame, tree, value, "body_fun of fori_loop")

    start, end = bound(frame, lower), bound(frame, upper)
    nodes = make_fori_loop(builder, start, end, step, [leaf_array(frame, leaf) for leaf in tree.leaves])
    return rebuilt(tree, arrays_of(builder, nodes))


def bound(frame: Frame, value: Any) -> Any:
    if isinstance(value, Dim):
        return value
    if isinstance(value, Constant) and isinstance(value.value, int):
        return int(value.value)
    return array_of(frame, value, "a bound of fori_loop")


@captures_control(control.scan, "f", "init", "xs", "length", "reverse")
def capture_scan(frame: Frame, function: Any, init: Any, xs: Any, length: Any, reverse: Any) -> Any:
    builder, tree, elements = frame.capture.builder, Tree.of(frame, init), Tree.of(frame, xs)
    outputs: list[Tree] = []

    def step(inner: Builder, carries: list[Node], items: list[Node]) -> tuple[list[Array], list[Array]]:
        rows = arrays_of(inner, items)
        value = Body(frame, function)(inner, rebuilt(tree, arrays_of(inner, carries)), rebuilt(elements, rows))
        require_unwritten(rows, "f of scan")
        if not isinstance(value, SequenceValue) or len(value.items) != 2:
            raise Decline("f of scan must return a pair (carry, y)")
        outputs.append(Tree.of(frame, value.items[1]))
        stacked = [leaf_array(frame, leaf) for leaf in outputs[-1].leaves]
        return leaves_like(frame, tree, value.items[0], "f of scan"), stacked

    count = bound(frame, length) if not (isinstance(length, Constant) and length.value is None) else None
    given = [array_of(frame, leaf, "an array of scan") for leaf in elements.leaves]
    last, stacked = make_for_loop(
        builder,
        step,
        [leaf_array(frame, leaf) for leaf in tree.leaves],
        given,
        count,
        reverse=bool(isinstance(reverse, Constant) and reverse.value),
    )
    made = rebuilt(outputs[-1], arrays_of(builder, stacked))
    return SequenceValue(tuple, [rebuilt(tree, arrays_of(builder, last)), made])
