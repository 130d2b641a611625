"""Gradients of Tensors: the tape's nodes walked backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.graph import Node, topological
from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.handle import Handle, from_node, is_recorded, moved_node
from npcompile.tensor_core.tensors.tape import (
    RECORDING,
    TAPE,
    Memory,
    Overwritten,
    TapeArray,
    TapeNode,
    TapeStorage,
    data_node,
    is_differentiable,
    memory_of,
    meta_of,
    recording,
)
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tensor_core.transforms.value import Value

SECOND_TIME = (
    "backward a second time through a graph that was freed by the first time: "
    "call the first backward with retain_graph=True, compute the result again, or detach it where it is a constant."
)


def backward(
    outputs: Sequence[Handle],
    cotangents: Sequence[Any] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Add to `.grad` of every leaf the derivative of the outputs' products with their cotangents.

    Without cotangents the outputs have one element each. The graph is freed, unless `retain_graph`; with `create_graph`
    the gradients have gradients themselves.
    """
    walk(outputs, cotangents, None, retain_graph, create_graph)


def gradients_of(
    outputs: Sequence[Handle],
    inputs: Sequence[Handle],
    cotangents: Sequence[Any] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> list[Any]:
    """The gradients of the outputs with respect to `inputs` as Tensors, None where nothing depends on one.

    No `.grad` is changed. The other arguments are those of `backward`.
    """
    for given in inputs:
        if not given.requires_grad:
            raise RuntimeError("one of the Tensors to differentiate with respect to does not require grad.")
    nodes = [i._node.graph_node for i in inputs]
    found = walk(outputs, cotangents, nodes, retain_graph, create_graph)
    with recording(create_graph):
        return [None if n is None else from_node(type(i), n, device=i.device) for i, n in zip(inputs, found)]


def walk(
    outputs: Sequence[Handle], cotangents: Sequence[Any] | None, wrt: Sequence[TapeNode] | None, retain: bool, create: bool
) -> list[Any]:
    kind, nodes = type(outputs[0]), []
    given = [None] * len(outputs) if cotangents is None else cotangents
    for output in outputs:
        if not output.requires_grad:
            raise RuntimeError(
                "backward of a Tensor that does not require grad: no Tensor that it was computed from does, "
                "or it was computed under no_grad."
            )
        nodes.append(output._node)
    seeds = [seed(output, cotangent) for output, cotangent in zip(outputs, given, strict=True)]
    order: list[Any] = topological(nodes)
    leaves = [n for n in order if n.needs_grad and not n.inputs]
    if wrt is not None and any(n.is_freed for n in leaves):  # it may have been computed from one of them
        raise RuntimeError(SECOND_TIME)
    if wrt is not None and (why := next((n.error for n in leaves if n.error is not None), None)) is not None:
        raise RuntimeError(why)
    current: list[TapeNode] = []
    arrived: list[tuple[Handle, TapeNode]] = []  # kept until all are found: a backward that fails changes no `.grad`

    def visit(node: Node, cotangent: Node) -> Node:
        assert isinstance(node, TapeNode) and isinstance(cotangent, TapeNode)
        current[:] = [node]
        if node.is_freed:
            raise RuntimeError(SECOND_TIME)
        if node.error is not None:
            raise RuntimeError(node.error)
        for hook in list((node.hooks or {}).values()):
            cotangent = hooked(hook, kind, moved_node(cotangent, place_of(node)))
        owner = None if node.retain is None else node.retain()
        if owner is not None:
            owner.grad = from_node(kind, cotangent, device=owner.device)
        if wrt is None and node.leaf is not None and (leaf := node.leaf()) is not None:
            arrived.append((leaf, cotangent))
        return cotangent

    try:
        with recording(create), np.errstate(all="ignore"), devices.computing_on(outputs[0].device):
            found = gradients(TAPE, nodes, seeds, leaves if wrt is None else wrt, visit)
            for leaf, cotangent in arrived:
                accumulate(leaf, cotangent, create)
    except Overwritten as error:
        raise RuntimeError(overwritten(current[0], error.node)) from None
    except Decline as decline:
        raise RuntimeError(f"no gradient: {decline.reason}. {decline.hint}") from None
    if not (retain or create):
        free(order)
    return found


def seed(output: Handle, cotangent: Any) -> TapeNode:
    """What the gradient of an output begins with: ones, or what the caller gave."""
    meta = output._meta
    if cotangent is None:
        if output._data.size != 1:
            raise RuntimeError(
                f"backward of a Tensor of shape {output._data.shape} needs a gradient of that shape: "
                "only a Tensor with one element has a gradient of its own (x.sum().backward())."
            )
        ones = devices.to_device(np.ones(meta.shape, meta.dtype), output.device)
        return TapeNode("constant", (), {"value": meta.dtype.type(1), "dtype": meta.dtype}, meta_of(ones), ones, Memory())
    if isinstance(cotangent, Handle):
        node = cotangent._node
    else:
        node = data_node(cotangent if devices.is_on_device(cotangent) else np.array(cotangent), Memory())
    if node.shape != meta.shape:
        raise RuntimeError(f"the gradient has shape {node.shape}, and the Tensor {meta.shape}: they must be the same.")
    if node.shape and (place := devices.device_of(node.value)) != output.device:
        raise RuntimeError(f"the gradient is on {place!r}, and the Tensor on {output.device!r}: use .to({output.device!r}).")
    node = moved_node(node, output.device)
    if node.dtype == meta.dtype:
        return node
    if not np.can_cast(node.dtype, meta.dtype, "same_kind"):
        raise RuntimeError(f"a gradient of dtype {node.dtype} for a Tensor of dtype {meta.dtype}: convert it with astype.")
    return TAPE.apply("cast", node, dtype=meta.dtype)  # type: ignore[return-value]


def place_of(node: TapeNode) -> str:
    """The device that a node's value is on, or was: a gradient that is a constant of the host is to be there too."""
    while node.content is None and (node.weak is None or node.weak() is None):
        node = next(i for i in node.inputs if i.needs_grad)  # type: ignore[attr-defined,assignment]
    content = node.content if node.content is not None else node.weak()  # type: ignore[misc]
    return devices.device_of(content[0] if isinstance(content, tuple) else content)


def hooked(hook: Callable[[Any], Any], kind: type[Handle], cotangent: TapeNode) -> TapeNode:
    result = hook(from_node(kind, cotangent))
    if result is None:
        return cotangent
    node = result._node if isinstance(result, Handle) else None
    if node is None or node.shape != cotangent.shape or node.dtype != cotangent.dtype:
        raise RuntimeError(f"a hook gives None, or a Tensor of the gradient's shape and dtype ({cotangent.meta}), not {result!r}")
    return node


def accumulate(leaf: Handle, cotangent: TapeNode, create: bool) -> None:
    """leaf.grad += cotangent."""
    if leaf.grad is None:
        leaf.grad = from_node(type(leaf), cotangent, device=leaf.device)
    elif create or leaf.grad.requires_grad or not leaf.grad._meta.writeable:
        leaf.grad = from_node(type(leaf), TAPE.apply("add", leaf.grad._node, cotangent), device=leaf.device)  # type: ignore[arg-type]
    elif devices.is_on_device(leaf.grad._data):
        total = TAPE.apply("add", leaf.grad._node, cotangent)
        leaf.grad._storage.store(leaf.grad._array.steps, total)
    else:
        leaf.grad._data[...] += devices.to_host(cotangent.value)
        leaf.grad._wrote()


def overwritten(reader: TapeNode, lost: TapeNode) -> str:
    made = "an operand" if lost.op == "input" else f"the result of {lost.op}"
    return (
        f"the gradient of {reader.op} needs a value that was changed in place since: {made}, {lost.meta}, was at version "
        f"{lost.version} and is at version {lost.memory.version}. Change a copy (x = x + y in place of x += y, or x.clone()), "
        "or change it after backward."
    )


def free(order: Sequence[Any]) -> None:
    """Let go of what the nodes were computed from. Views hold nothing but their base, and stay usable."""
    for node in order:
        is_view = node.op in OPS and OPS[node.op].kind == "movement" and node.op != "concatenate"
        if node.needs_grad and node.inputs and not is_view:
            node.inputs, node.vjp, node.is_freed = (), None, True


# --- results of compiled programs


def attach(
    kind: type[Handle],
    outputs: Sequence[np.ndarray],
    inputs: Sequence[Handle],
    call: Callable[[list[np.ndarray | None]], Sequence[np.ndarray | None]],
    replay: Callable[[Sequence[Value | None], Sequence[Value]], Sequence[Value | None]] | None = None,
) -> list[Any]:
    """Tensors around arrays that a program computed from `inputs`.

    Their gradient is one call of `call` with the cotangents of all outputs (None: zero), when all are known. It gives
    one array of the input's shape and dtype for each input, or None for zero. Outputs of integers have no gradient.
    Where the gradient is to have a gradient itself, `replay(cotangents, inputs)` computes it on the tape.
    """
    outputs = [devices.as_data(o) for o in outputs]
    if not is_recorded(*inputs) or not any(is_differentiable(meta_of(o)) for o in outputs):
        return [kind._of(o) for o in outputs]

    def vjp(g: tuple[Value | None, ...], out: Any, *values: Value) -> list[Value | None]:
        if replay is not None and RECORDING.get():
            return list(replay(g, values))
        given = [
            None if part is None else devices.to_device(part.node.value, devices.device_of(o))  # type: ignore[attr-defined]
            for part, o in zip(g, outputs)
        ]
        parts: list[Value | None] = []
        known = [x for x in given if x is not None]
        for x, value in zip(call(given), values, strict=True):
            parts.append(None if x is None else value.of(gradient_node(x, value.node, known)))
            known += [] if x is None else [x]
        return parts

    nodes = [i._node for i in inputs]
    if len(outputs) == 1:
        (data,), memory = outputs, Memory()
        node = TapeNode("program", tuple(nodes), {}, meta_of(data), data, memory, True)
        node.vjp = lambda g, out, *values: vjp((g,), (out,), *values)
        return [kind._of(data, TapeArray(TapeStorage(data, memory, node), (), node.meta))]
    program = program_node(nodes, tuple(outputs), vjp)
    return [output_of(kind, program, index) for index in range(len(outputs))]


NO_SECOND = (
    "the gradient of a compiled program has no gradient of its own: take it inside of a compiled function, "
    "or with npc.grad(npc.grad(f))."
)


def gradient_node(x: np.ndarray, like: Node, known: Sequence[np.ndarray]) -> TapeNode:
    """A node for a gradient that was computed elsewhere, maybe in the memory of one of those known before."""
    x = devices.as_data(x)
    assert x.shape == like.shape and x.dtype == like.dtype, f"a gradient {meta_of(x)} for a {like.meta}"
    node = data_node(x, Memory())
    node.memory.is_owned = any(devices.share_memory(x, other) for other in known)
    if RECORDING.get():
        node.needs_grad, node.error = True, NO_SECOND
    return node


def program_node(inputs: Sequence[TapeNode], values: tuple[np.ndarray, ...], vjp: Callable) -> TapeNode:
    """A computation done elsewhere that gave `values`, with a rule of its own."""
    memory = memory_of("program", values, inputs)
    node = TapeNode("program", tuple(inputs), {}, TupleMeta.of(*map(meta_of, values)), values, memory, True)
    node.vjp = vjp
    return node


def output_of(kind: type[Handle], program: TapeNode, index: int) -> Any:
    data, memory = program.content[index], program.memory.items[index]
    meta: TensorMeta = meta_of(data)
    if not is_differentiable(meta):
        return kind._of(data)
    item = TapeNode("item", (program,), {"index": index}, meta, data, memory, True)
    return kind._of(data, TapeArray(TapeStorage(data, memory, item), (), meta))


def lost(kind: type[Handle], outputs: Sequence[np.ndarray], message: str) -> list[Any]:
    """Tensors around arrays whose gradient is lost: `backward` of them, or of what they go into, raises RuntimeError."""
    made = []
    for output in map(devices.as_data, outputs):
        memory, meta = Memory(), meta_of(output)
        node = data_node(output, memory)
        node.needs_grad, node.error = is_differentiable(meta), message
        made.append(kind._of(output, TapeArray(TapeStorage(output, memory, node), (), meta)))
    return made
