"""Gradients of a compiled program: its graph and that of its gradients are captured together and cut in two."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.registry import CompiledGraph
from npcompile.tensor_core.array import full, overwritten
from npcompile.tensor_core.graph import Graph, Node, bind, topological
from npcompile.tensor_core.meta import Decline, TensorMeta, contiguous_strides
from npcompile.tensor_core.tensor import Tensor, attach
from npcompile.tensor_core.tensors.devices import device_of, is_on_device, open_kind
from npcompile.tensor_core.transforms.partition import Split, split
from npcompile.tensor_core.transforms.replay import replay
from npcompile.tensor_core.transforms.reverse import depending
from npcompile.tensor_core.transforms.value import Value
from npcompile.tracer.arrays.unrolled import Unrolled, constant_node
from npcompile.tracer.capture import Capture
from npcompile.tracer.values import TensorValue


@dataclass(slots=True, eq=False)
class Backward:
    """What a program's Tensors need for their gradients."""

    results: list[int]  # ids of the storages of the Tensors that have one
    leaves: list[TensorValue]  # where it goes
    joint: Graph  # of the program and its gradients, which are its last outputs
    split: Split


def with_backward(capture: Capture, graph: Graph, tensors: dict[int, Node]) -> tuple[Graph, Backward | None]:
    """The graph with what the gradients of those of `tensors` that depend on leaves need, as further outputs.

    `tensors` are the contents of Tensors that leave the program, by the id of their storage.
    """
    builder, leaves = capture.builder, capture.leaves()
    if not leaves or not tensors:
        return graph, None
    reached = depending(topological(tensors.values()), capture.uses_of_leaves())
    results = {key: n for key, n in tensors.items() if n in reached and not capture.why_lost(n)}
    if not results:
        return graph, None
    before, ignored = len(builder.inputs), builder.ignored
    try:
        cotangents = [builder.input(TensorMeta(n.shape, n.dtype)) for n in results.values()]
        found = leaf_gradients(capture, results.values(), cotangents)
    except Decline:
        del builder.inputs[before:], builder.arguments[before:]
        return with_backward(capture, graph, {k: n for k, n in results.items() if can_be_differentiated(capture, n)})
    wanted = [(t, n) for t, n in zip(leaves, found) if n is not None]
    if not wanted:  # results that change in steps only
        x = leaves[0].array
        wanted = [(leaves[0], full(builder, x.shape, 0, x.dtype))]
    metas = [*graph.metas, *(TensorMeta(n.shape, n.dtype) for _, n in wanted)]
    builder.checks = frozenset()
    joint = builder.finish([*graph.outputs, *(n for _, n in wanted)], metas, graph.writes, graph.name)
    del builder.inputs[before:], builder.arguments[before:]
    builder.ignored = ignored
    cut = split(joint, before, len(graph.outputs))
    return cut.forward, Backward([*results], [t for t, _ in wanted], joint, cut)


def leaf_gradients(capture: Capture, outputs: Iterable[Node], cotangents: Iterable[Node]) -> list[Node | None]:
    """The gradient of `outputs` times `cotangents` with respect to each of the leaves.

    Declines, where eager Tensors raise, if it reads what was changed under no_grad, or through a detached Tensor.
    """
    outputs, cotangents = list(outputs), list(cotangents)
    found = capture.leaf_gradients(outputs, cotangents)
    if gone := overwritten(capture.builder.made):
        program = topological([*outputs, *cotangents])
        for node in topological([n for n in found if n is not None], program)[len(program) :]:
            if not gone.isdisjoint(node.inputs):
                at = f" ({node.location})" if node.location else ""
                raise Decline(
                    f"it needs a value{at} that was changed in place since",
                    "Change a copy (x = x + y in place of x += y, or x.clone()), or change it after backward.",
                )
    return found


def can_be_differentiated(capture: Capture, result: Node) -> bool:
    """If not, `backward()` of the result says why."""
    try:
        leaf_gradients(capture, [result], [full(capture.builder, result.shape, 1, result.dtype)])
    except Decline as decline:
        capture.lost[result] = f"no gradient: {decline.reason}. {decline.hint}"
        return False
    return True


@dataclass(slots=True, eq=False)
class BackwardProgram:
    """The gradients' graph, compiled when they are first asked for."""

    backward: Backward
    compile: Callable[[Graph, Sequence[Any]], CompiledGraph]  # with the values of its first call
    symbols: tuple[str, ...]  # names of the integers that `attach_backward` is given
    compiled: CompiledGraph | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, *values: Any) -> tuple[Any, ...]:
        if self.compiled is None:
            with self.lock:
                if self.compiled is None:
                    self.compiled = self.compile(self.backward.split.backward, values)
        return self.compiled(*values)

    def replay(
        self, cotangents: Sequence[Value | None], leaves: Sequence[Value], arguments: Sequence[Any], sizes: dict[str, int]
    ) -> list[Value]:
        """The same gradients op by op on the tape of `leaves`, so that they have gradients themselves."""
        joint, like = self.backward.joint, leaves[0]
        given = {use: x.node for t, x in zip(self.backward.leaves, leaves) for use in t.variable.uses}
        if any(use.inputs[0].op != "input" for use in given):
            raise RuntimeError("a second derivative of a program that changes a Tensor in place: take it inside of the program.")
        count = len(arguments)
        nodes = [constant_node(x, n) for x, n in zip(arguments, joint.inputs)]
        zeros = [np.zeros(bind(n.shape, sizes), n.dtype) for n in joint.inputs[count:]]
        nodes += [constant_node(z, n) if c is None else c.node for c, z, n in zip(cotangents, zeros, joint.inputs[count:])]

        outputs = joint.outputs[len(joint.outputs) - len(leaves) :]
        remake = Unrolled(sizes).remake
        return [like.of(n) for n in replay(like.builder, outputs, dict(zip(joint.inputs, nodes)) | given, remake)]


@dataclass(frozen=True, slots=True)
class Zeros:
    """What a cotangent is that nobody gave."""

    shape: tuple[int, ...]
    dtype: np.dtype
    device: str

    @classmethod
    def like(cls, x: Any) -> Zeros:
        return cls(x.shape, x.dtype, device_of(x))

    def make(self) -> Any:
        if self.device == "cpu":
            return np.zeros(self.shape, self.dtype)
        strides = contiguous_strides(self.shape, self.dtype.itemsize)
        return open_kind(self.device).full(self.shape, self.dtype, strides, 0, self.device)  # type: ignore[arg-type]


def attach_backward(
    program: BackwardProgram,
    outputs: Sequence[np.ndarray],
    leaves: Sequence[Tensor],
    kept: Sequence[Tensor],
    arguments: Sequence[Any],
    saved: Sequence[Any],
    symbols: Sequence[int],
) -> list[Tensor]:
    """Tensors around results of a program that was called with `arguments` and gave out `saved` for its gradients.

    These need the contents of the Tensors `kept` too.
    """
    cut = program.backward.split
    sizes = dict(zip(program.symbols, symbols))
    values = [*(arguments[k] for k in cut.kept_inputs), *saved]
    zeros = [Zeros.like(x) for x in outputs]
    versions = [(memory := x._storage.memory, memory.version) for x in kept]

    def require_unchanged() -> None:
        for x, (memory, version) in zip(kept, versions):
            if memory.version != version:
                raise RuntimeError(
                    f"a gradient needs a Tensor of shape {x.shape} that was changed in place since (version {memory.version} "
                    f"instead of {version}). Change a copy (x = x + y in place of x += y), or change it after backward."
                )

    def backward(cotangents: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        require_unchanged()
        given = [z.make() if c is None else c if is_on_device(c) else np.asarray(c, order="C") for c, z in zip(cotangents, zeros)]
        return list(program.run(*values, *given, *(sizes[s] for s in cut.backward.symbols)))

    def again(cotangents: Sequence[Value | None], inputs: Sequence[Value]) -> list[Value]:
        require_unchanged()
        return program.replay(cotangents, inputs, arguments, sizes)

    return attach(outputs, leaves, backward, again)
