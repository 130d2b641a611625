"""Calls of transformed functions while a program is captured: the function is inlined, its part of the graph transformed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from npcompile.numpy_shim.registry import as_array
from npcompile.tensor_core.array import Array, Storage, fresh, full
from npcompile.tensor_core.control import read_outside, trace
from npcompile.tensor_core.decline import Decline, WrongType, WrongValue
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder, Node
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.transforms.batch import batch
from npcompile.tensor_core.transforms.forward import derivatives
from npcompile.tensor_core.transforms.replay import replay
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tensor_core.transforms.stand_in import stand_in
from npcompile.tensor_core.transforms.value import Value
from npcompile.tracer.arrays.trees import Tree
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, iteration, printing
from npcompile.tracer.python.calls import TRANSFORMS, Arguments, Keywords, evaluate_call
from npcompile.tracer.values import Constant, Opaque, Sequence, TensorValue, Transform, describe

P = ParamSpec("P")
R = TypeVar("R")
Parts = list[Value | None]  # gradients, one for each argument; None for zero


def captures_transform(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(captured: Callable[..., Any]) -> Callable[..., Any]:
        TRANSFORMS[kind] = captured
        return captured

    return add


def transforms(kind: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a public function that makes a Transform of its first argument: captured, it makes the same of a value."""

    def add(maker: Callable[P, R]) -> Callable[P, R]:
        def captured(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
            if not positional:
                raise Decline(f"{kind} without a function")
            made: Any = evaluate_call(frame, maker, [Constant(identity), *positional[1:]], keywords)
            return Transform(made.value.kind, frame.capture.realize(positional[0]), made.value.options)

        calls.BUILTINS[maker] = captured
        return maker

    return add


def identity(x: Any) -> Any:
    return x


@contextmanager
def silently(builder: Builder) -> Iterator[None]:
    """What is made here reports no floating-point errors: derivatives do not, as those of eager Tensors."""
    ignored = builder.ignored
    builder.ignored |= FLOAT_ERRORS
    try:
        yield
    finally:
        builder.ignored = ignored


# --- the arguments and results of a function that is transformed

_names = itertools.count()


def renamed(builder: Builder, node: Node) -> Node:
    return builder.apply("alias", node, name=next(_names))


def array_of(frame: Frame, leaf: Any, what: str) -> Array:
    """A number, array or Tensor as an Array."""
    if isinstance(leaf, TensorValue):
        return leaf.array
    if isinstance(leaf, Array):
        return leaf
    if (
        isinstance(leaf, (Number, Dim))
        or isinstance(leaf, Constant)
        and isinstance(leaf.value, (int, float, complex, np.generic))
    ):
        found = as_array(frame.capture.builder, leaf.value if isinstance(leaf, Constant) else leaf)
        return fresh(found.builder, found.node, boxed=False)
    if isinstance(leaf, Opaque) and type(leaf.example) is np.ndarray and leaf.example.dtype.kind in "biufc":
        raise Decline(
            "an array that is not aligned, or in the byte order of other machines, is transformed"
        )  # eager Tensors take it
    raise WrongType(f"{what} is not an array or number, but {describe(leaf)}")


def variable(x: Array, node: Node) -> Array:
    """An array like x, in memory of its own, with the contents `node`."""
    return Array(Storage(x.builder, node, x.meta), (), x.meta)


@dataclass(slots=True)
class Variables:
    """The arguments that derivatives are taken with respect to, under names of their own."""

    frame: Frame
    trees: list[Tree]  # one for each argument
    before: list[Array]
    inside: list[Array]

    @classmethod
    def of(cls, frame: Frame, arguments: Arguments) -> Variables:
        trees = [Tree.of(frame, a) for a in arguments]
        before = [array_of(frame, leaf, "an argument to differentiate with respect to") for tree in trees for leaf in tree.leaves]
        for x in before:
            if kind_of(x.dtype) not in "fc":
                raise WrongType(f"a derivative with respect to {x.dtype} numbers", "Give floating-point numbers.")
        inside = [variable(x, renamed(x.builder, x.node)) for x in before]
        return cls(frame, trees, before, inside)

    @property
    def nodes(self) -> list[Node]:
        return [x.storage.original for x in self.inside]

    def arguments(self) -> list[Any]:
        return self.trees_of(self.inside)

    def trees_of(self, arrays: list[Array]) -> list[Any]:
        """Trees like the arguments, with Tensors where they have Tensors."""
        before = (leaf for tree in self.trees for leaf in tree.leaves)
        leaves = iter([alike(leaf, x) for leaf, x in zip(before, arrays)])
        return [tree.build(leaves) for tree in self.trees]

    def write_back(self) -> None:
        """What the function wrote to its arguments, it has written to the caller's."""
        for x, inner in zip(self.before, self.inside):
            if inner.storage.is_written:
                x.write(inner.storage.node)
        self.frame.capture.require_no_overlap()

    def results(self, nodes: list[Node | None]) -> list[Any]:
        """Trees like the arguments, of the arrays `nodes`, zero where None."""
        return self.trees_of([result(x.builder, zeros(x) if n is None else n, x) for x, n in zip(self.before, nodes)])


def alike(leaf: Any, x: Array) -> Any:
    """The array as a Tensor where `leaf` is one."""
    return TensorValue(x) if isinstance(leaf, TensorValue) else x


def zeros(x: Array) -> Node:
    return full(x.builder, x.shape, 0, x.dtype)


def result(builder: Builder, node: Node, like: Array | None = None) -> Array:
    return fresh(builder, node, node.meta.with_(strides=()), boxed=bool(node.meta.ndim) or like is None or like.meta.boxed)


def split_arguments(frame: Frame, transform: Transform, positional: Arguments) -> tuple[Variables, Callable[[], Arguments], bool]:
    """The variables, all arguments with them in their places, and whether `argnums` is one number."""
    argnums = transform.options.get("argnums", 0)
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for k in numbers:
        if not -len(positional) <= k < len(positional):
            raise WrongValue(f"argnums={argnums}, but {len(positional)} positional arguments were given")
    numbers = [k % len(positional) for k in numbers]
    variables = Variables.of(frame, [positional[k] for k in numbers])

    def arguments() -> Arguments:
        replaced = dict(zip(numbers, variables.arguments()))
        return [replaced.get(k, p) for k, p in enumerate(positional)]

    return variables, arguments, isinstance(argnums, int)


def one_or_all(results: list[Any], is_one: bool) -> Any:
    return results[0] if is_one else Sequence(tuple, results)


def float_arrays(frame: Frame, tree: Tree) -> list[Array]:
    return [array_of(frame, leaf, "a result of a function that is differentiated") for leaf in tree.leaves]


# --- reverse mode


@captures_transform("grad")
def capture_grad(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    _, aux, gradient = differentiate(frame, transform, positional, keywords)
    return Sequence(tuple, [gradient, aux]) if transform.options["has_aux"] else gradient


@captures_transform("value_and_grad")
def capture_value_and_grad(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    value, aux, gradient = differentiate(frame, transform, positional, keywords)
    return Sequence(tuple, [Sequence(tuple, [value, aux]) if transform.options["has_aux"] else value, gradient])


def differentiate(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> tuple[Any, Any, Any]:
    builder = frame.capture.builder
    variables, arguments, is_one = split_arguments(frame, transform, positional)
    value, aux = calls.call(frame, transform.given, arguments(), keywords), None
    value = frame.capture.realize(value)
    if transform.options["has_aux"]:
        if not isinstance(value, Sequence) or len(value.items) != 2:
            raise WrongType("with has_aux=True the function must return a pair (value, aux)")
        value, aux = frame.capture.realize(value.items[0]), value.items[1]
    loss = array_of(frame, value, "the value of a function under grad")
    if loss.ndim or kind_of(loss.dtype) != "f":
        raise WrongType(
            f"grad of a function that returns {loss.dtype}{list(loss.shape)}",
            "It must return one real floating-point number: sum it up, or use jacobian.",
        )
    with silently(builder):
        found = gradients(builder, [loss.node], [builder.constant(1, loss.dtype)], variables.nodes)
    variables.write_back()
    return value, aux, one_or_all(variables.results(found), is_one)


@captures_transform("jacobian")
def capture_jacobian(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    builder = frame.capture.builder
    variables, arguments, is_one = split_arguments(frame, transform, positional)
    tree = Tree.of(frame, calls.call(frame, transform.given, arguments(), keywords))
    rows = []
    for y in float_arrays(frame, tree):
        if kind_of(y.dtype) not in "fc":
            raise WrongType(f"the jacobian of a function that returns {y.dtype} numbers")
        cotangent, size = stand_in(builder, y.shape, y.dtype), y.meta.size
        with silently(builder):
            found = gradients(builder, [y.node], [cotangent], variables.nodes)
            columns = [zeros(x) if n is None else n for x, n in zip(variables.before, found)]
            batched = batch(builder, columns, {cotangent: basis(builder, y, size)}, size)
        nodes: list[Node | None] = []
        for x, (node, has_axis) in zip(variables.before, batched):
            if not has_axis:
                node = builder.apply("broadcast_to", node, shape=(size, *x.shape))
            nodes.append(builder.apply("reshape", node, shape=(*y.shape, *x.shape)))
        rows.append(one_or_all(variables.results(nodes), is_one))
    variables.write_back()
    return tree.build(rows)


def basis(builder: Builder, y: Array, size: Size) -> Node:
    """The unit vectors of y's space, one after the other: shape (size, *y.shape)."""
    row, column = (builder.apply("index", shape=(size, size), axis=a) for a in (0, 1))
    eye = builder.apply("cast", builder.apply("equal", row, column), dtype=y.dtype)
    return builder.apply("reshape", eye, shape=(size, *y.shape))


@captures_transform("pullback")
def capture_pullback(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    """The cotangent comes first, then the primals."""
    given, *primals = positional
    variables, printed = Variables.of(frame, primals), len(frame.capture.effects)
    tree = Tree.of(frame, calls.call(frame, transform.given, variables.arguments(), keywords))
    del frame.capture.effects[printed:]  # it was printed when the function itself was called
    outputs, cotangents = float_arrays(frame, tree), float_arrays(frame, Tree.of(frame, given))
    require_alike(outputs, cotangents, "cotangent", "result")
    builder = frame.capture.builder
    with silently(builder):
        found = gradients(builder, [y.node for y in outputs], [c.node for c in cotangents], variables.nodes)
    variables.write_back()
    return Sequence(tuple, variables.results(found))


def require_alike(arrays: list[Array], given: list[Array], what: str, whose: str) -> None:
    if len(arrays) != len(given):
        raise WrongType(f"{len(given)} {what}s for {len(arrays)} {whose}s")
    for x, t in zip(arrays, given):
        if x.ndim != t.ndim or not all(map(same, x.shape, t.shape)) or x.dtype != t.dtype:
            raise WrongType(f"a {what} {t.meta} for a {whose} {x.meta}", f"A {what} has its {whose}'s shape and dtype.")


@captures_transform("custom_gradient")
def capture_custom_gradient(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    capture = frame.capture
    arguments = [capture.realize(p) for p in positional]
    before = [array_of(frame, a, "an argument of a function with a custom gradient") for a in arguments]
    pair = capture.realize(calls.call(frame, transform.given, [alike(a, x) for a, x in zip(arguments, before)], keywords))
    if not isinstance(pair, Sequence) or len(pair.items) != 2:
        raise Decline("a function with a custom gradient must return (result, pullback)")
    out, pullback = (capture.realize(v) for v in pair.items)
    made = array_of(frame, out, "the result of a function with a custom gradient")

    def rule(g: Value) -> Parts:
        found = capture.realize(calls.call(frame, pullback, [alike(out, fresh(g.builder, g.node))], {}))
        parts = iteration.iterate(capture, found) if isinstance(found, Sequence) else [found]
        if len(parts) != len(before):
            raise Decline(f"a pullback gave {len(parts)} gradients for {len(before)} arguments")
        values: Parts = []
        for x, part in zip(before, map(capture.realize, parts)):
            is_none = isinstance(part, Constant) and part.value is None
            values.append(None if is_none else Value(g.builder, array_of(frame, part, "a gradient").node).cast(x.dtype))
        return values

    nodes, read = [x.node for x in before], list[Node]()
    use: Callable[..., Parts] = rule
    if capture.bodies or capture.leaves():  # the graph will be made again elsewhere, where the pullback's values are not
        use, read = pullback_graph(frame, rule, made)
    node = capture.builder.apply("custom_gradient", made.node, *nodes, *read, rule=use, read=len(read))
    return alike(out, fresh(capture.builder, node, made.meta, boxed=made.meta.boxed))


def pullback_graph(frame: Frame, rule: Callable[..., Parts], out: Array) -> tuple[Callable[..., Parts], list[Node]]:
    """The rule of a custom gradient as a graph of the cotangent and what it reads beside this, and what that is."""
    has_part: list[bool] = []

    def body(inner: Builder, nodes: list[Node]) -> list[Node]:
        with frame.capture.within(inner):
            parts = rule(Value(inner, nodes[0]))
        has_part[:] = [part is not None for part in parts]
        return [part.node for part in parts if part is not None]

    made = trace(out.builder, body, [out.meta])
    read = read_outside(made)
    graph = made.graph([*made.inputs, *read], "pullback")

    def replayed(*given: Value) -> Parts:
        builder = given[0].builder
        found = iter(replay(builder, graph.outputs, dict(zip(graph.inputs, [x.node for x in given]))))
        return [Value(builder, next(found)) if has else None for has in has_part]

    return replayed, read


@captures_transform("plain")
def capture_plain(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    return calls.call(frame, transform.given, positional, keywords)


# --- forward mode


@captures_transform("jvp")
def capture_jvp(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    builder = frame.capture.builder
    primals, tangents = (iteration.iterate(frame.capture, frame.capture.realize(p)) for p in positional)
    variables = Variables.of(frame, primals)
    directions = [array_of(frame, leaf, "a tangent") for tangent in tangents for leaf in Tree.of(frame, tangent).leaves]
    require_alike(variables.before, directions, "tangent", "argument")
    tree = Tree.of(frame, calls.call(frame, transform.given, variables.arguments(), keywords))
    outputs = float_arrays(frame, tree)
    with silently(builder):
        found = derivatives(builder, [y.node for y in outputs], variables.nodes, [t.node for t in directions])
    variables.write_back()
    moved = [alike(leaf, result(builder, zeros(y) if n is None else n, y))
             for leaf, y, n in zip(tree.leaves, outputs, found)]  # fmt: skip
    return Sequence(tuple, [tree.build(tree.leaves), tree.build(moved)])


# --- batches


@captures_transform("vmap")
def capture_vmap(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    builder = frame.capture.builder
    in_axes, out_axes = transform.options["in_axes"], transform.options["out_axes"]
    given = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(positional)
    if len(given) != len(positional):
        raise WrongValue(f"in_axes has {len(given)} entries, but {len(positional)} positional arguments were given")
    size: Size | None = None
    batched: dict[Node, Node] = {}
    arguments = []
    of_positional = [(argument, axes, f"in_axes[{k}]") for k, (argument, axes) in enumerate(zip(positional, given))]
    for argument, axes, name in (*of_positional, *((argument, 0, name) for name, argument in keywords.items())):
        if axes is None:
            arguments.append(argument)
            continue
        tree, items = Tree.of(frame, argument), []
        for leaf, axis in zip(tree.leaves, tree.axes(axes, name)):
            if axis is None:
                items.append(leaf)
                continue
            x = array_of(frame, leaf, "an argument of a function under vmap")
            if not -x.ndim <= axis < x.ndim:
                raise WrongValue(f"vmap over axis {axis} of an array with {x.ndim} dimensions")
            rows = to_front(builder, x.node, axis % x.ndim)
            if size is not None and not same(size, rows.shape[0]) and size != rows.shape[0]:
                raise WrongValue(f"vmap over axes of sizes {size} and {rows.shape[0]}", "All mapped axes have one size.")
            size = rows.shape[0] if size is None else size
            item = stand_in(builder, rows.shape[1:], rows.dtype)
            batched[item] = rows
            items.append(alike(leaf, fresh(builder, item, boxed=bool(item.meta.ndim) or isinstance(leaf, TensorValue))))
        arguments.append(tree.build(items))
    if size is None:
        raise WrongValue("vmap of no argument", "At least one of in_axes is a number, or there is a keyword argument.")
    before, printed = len(builder.made), len(frame.capture.effects)
    frame.capture.draws.batches.append((size, batched))
    named = dict(zip(keywords, arguments[len(positional) :]))
    tree = Tree.of(frame, calls.call(frame, transform.given, arguments[: len(positional)], named))
    frame.capture.draws.batches.pop()
    outputs = float_arrays(frame, tree)
    printing.of_examples(frame.capture, printed, batched, size)
    results = []
    required = [n for n in builder.made[before:] if n.op == "require_none"]  # of one example
    with silently(builder):  # what was made for one example says whether errors are reported
        found = batch(builder, [*(y.node for y in outputs), *required], batched, size)
    for leaf, y, axis, (node, has_axis) in zip(tree.leaves, outputs, tree.axes(out_axes, "out_axes"), found):
        if axis is None:
            if has_axis:
                raise WrongValue("out_axes is None for a result that is not the same for all examples")
            results.append(leaf)
            continue
        if not -y.ndim - 1 <= axis <= y.ndim:
            raise WrongValue(f"out_axes has axis {axis} for a result with {y.ndim + 1} dimensions")
        if not has_axis:
            node = builder.apply("broadcast_to", node, shape=(size, *y.shape))
        results.append(alike(leaf, result(builder, from_front(builder, node, axis % (y.ndim + 1)))))
    return tree.build(results)


def to_front(builder: Builder, node: Node, axis: int) -> Node:
    order = (axis, *(a for a in range(node.meta.ndim) if a != axis))
    return node if axis == 0 else builder.apply("permute", node, axes=order)


def from_front(builder: Builder, node: Node, axis: int) -> Node:
    order = (*range(1, axis + 1), 0, *range(axis + 1, node.meta.ndim))
    return node if axis == 0 else builder.apply("permute", node, axes=order)
