"""Tensors while a program is captured: arrays with a gradient. They share the arrays' ops, so conversions are free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile import tensors as creation
from npcompile.conversions import to_arrays, to_tensors
from npcompile.devices import current_name
from npcompile.numpy_shim.registry import ATTRIBUTES, METHODS
from npcompile.tensor_core import tensor as eager
from npcompile.tensor_core.array import Array, fresh, full
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.graph import FLOAT_ERRORS, Node, topological
from npcompile.tensor_core.guards import Equals, Is, Truth
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.source import NONE, Call, Literal
from npcompile.tensor_core.tensors.backward import SECOND_TIME
from npcompile.tensor_core.transforms.reverse import depending
from npcompile.tracer.arrays.backward import leaf_gradients
from npcompile.tracer.arrays.lost import lost_message, message_of
from npcompile.tracer.arrays.trees import Tree
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls, forward, operators
from npcompile.tracer.python.calls import Arguments, Keywords, captures
from npcompile.tracer.tensor_values import as_array, as_tensor, constant_view, realized
from npcompile.tracer.values import Constant, GradMode, Method, TensorMethod, TensorValue

# --- functions of NumPy, methods and attributes


@forward.tensor_method.defined
def call_method(frame: Frame, method: TensorMethod, positional: Arguments, keywords: Keywords) -> Any:
    own = TENSOR_METHODS.get(method.name)
    if own is not None:
        return own(frame, method.owner, *positional, **keywords)
    array = method.owner.array
    arguments = [as_array(p) for p in realized(frame.capture, positional)]
    named = dict(zip(keywords, [as_array(v) for v in realized(frame.capture, keywords.values())]))
    result = calls.run_captured(frame, METHODS[method.name], [array], arguments, named)
    return as_tensor(frame.capture, result)


@forward.tensor_attribute.defined
def load(frame: Frame, x: TensorValue, name: str) -> Any:
    """`x.name`"""
    capture = frame.capture
    if name in TENSOR_ATTRIBUTES:
        return TENSOR_ATTRIBUTES[name](frame, x)
    if name in TENSOR_METHODS or name in METHODS:
        return TensorMethod(x, name)
    if name in ACTIVATIONS:
        return Method(x, Constant(getattr(eager.Tensor, name)), name)
    if name in ATTRIBUTES and name not in ("flags", "base", "data", "ctypes"):
        return as_tensor(capture, operators.lift(ATTRIBUTES[name](capture.builder, x.array)))
    raise Decline(f"attribute {name!r} of a Tensor")


ACTIVATIONS = ("softmax", "relu", "gelu", "sigmoid")  # methods that are written in Python


@forward.store_tensor_attribute.defined
def store(frame: Frame, x: TensorValue, name: str, value: Any) -> None:
    """`x.name = value`"""
    frame.capture.require_no_body(f".{name} of a Tensor is set")
    if name == "grad" and x.source is not None:
        value = frame.capture.realize(value)
        if isinstance(value, TensorValue) or (isinstance(value, Constant) and value.value is None):
            frame.capture.grads[x.source] = value
            return
    raise Decline(f"attribute {name!r} of a Tensor is set")


def load_grad(frame: Frame, x: TensorValue) -> Any:
    if x.source is None:
        return Constant(None)
    known = frame.capture.grads.get(x.source)
    return known if known is not None else frame.capture.read(x.source.attribute("grad"), frame.capture.tensors[x.source][1].grad)


TENSOR_ATTRIBUTES: dict[str, Callable[[Frame, TensorValue], Any]] = {
    "grad": load_grad,
    "requires_grad": lambda frame, x: Constant(has_gradient(frame.capture, x)),
    "is_leaf": lambda frame, x: Constant(x.is_leaf or not has_gradient(frame.capture, x)),
    "device": lambda frame, x: Constant(device_of(frame.capture, x)),
}


def device_of(capture: Capture, x: TensorValue) -> str:
    """Where a Tensor is: one from outside where it was, others where the program runs."""
    if x.source is not None:
        return str(capture.tensors[x.source][1].device)
    return "cpu" if capture.place is None else capture.place.name


def has_gradient(capture: Capture, x: TensorValue) -> bool:
    return x.requires_grad or bool(capture.leaves()) and depends_on_leaves(capture, x.array.node)


def depends_on_leaves(capture: Capture, node: Node) -> bool:
    return node in depending(topological([node]), capture.uses_of_leaves())


TENSOR_METHODS: dict[str, Callable[..., Any]] = {}


def tensor_method(captured: Callable[..., Any]) -> Callable[..., Any]:
    TENSOR_METHODS[captured.__name__.removeprefix("tensor_")] = captured
    return captured


@tensor_method
def tensor_numpy(frame: Frame, x: TensorValue) -> Any:
    return x.array if device_of(frame.capture, x) == "cpu" else fresh(x.array.builder, x.array.node)


@tensor_method
def tensor_detach(frame: Frame, x: TensorValue) -> Any:
    return TensorValue(constant_view(x.array))


@tensor_method
def tensor_clone(frame: Frame, x: TensorValue) -> Any:
    return as_tensor(frame.capture, fresh(x.array.builder, x.array.node))


@tensor_method
def tensor_to(frame: Frame, x: TensorValue, device: Any) -> Any:
    if operators.plain(frame.capture, device) != device_of(frame.capture, x):
        raise Decline("a Tensor moved to another device")
    return x


@tensor_method
def tensor_cpu(frame: Frame, x: TensorValue) -> Any:
    return tensor_to(frame, x, Constant("cpu"))


@tensor_method
def tensor_backward(frame: Frame, x: TensorValue, gradient: Any = None, **options: Any) -> Any:
    """Gradients in the same graph; `.grad` of the leaves is set when the program ends."""
    capture = frame.capture
    builder, leaves = capture.builder, capture.leaves()
    retain = operators.plain(capture, options.pop("retain_graph", Constant(False)))
    create = operators.plain(capture, options.pop("create_graph", Constant(False)))
    capture.require_no_body("backward()")
    if options or create:
        raise Decline("backward() with create_graph", "npc.grad gives gradients that have gradients.")
    if not capture.grad_enabled or capture.why_lost(x.array.node) or not has_gradient(capture, x):
        raise Decline("backward() of a Tensor whose graph is not all in this program")
    if any(not t.is_leaf for t in leaves):
        raise Decline("backward() where Tensors come from outside that were computed from others")
    if any(capture.tensors[t.source][1]._has_hooks for t in leaves if t.source is not None):
        raise Decline("backward() with hooks")
    for t in leaves:
        assert t.source is not None
        capture.guard(Truth(t.source.attribute("_has_hooks"), False))
    given = None if gradient is None else realized(capture, [gradient])[0]
    if given is None or isinstance(given, Constant) and given.value is None:
        if not same(x.array.meta.size, 1):
            raise Decline("backward() of a Tensor with more than one element needs a gradient")
        cotangent = full(builder, x.array.shape, 1, x.array.dtype)
    else:
        seed = operators.lower(capture, as_array(given))
        if not isinstance(seed, Array) or seed.dtype != x.array.dtype or not same_shape(seed, x.array):
            raise Decline("backward() with a gradient of another shape or dtype")
        cotangent = builder.apply("alias", seed.node, name=None)
    ignored, builder.ignored = builder.ignored, FLOAT_ERRORS
    found = leaf_gradients(capture, [x.array.node], [cotangent])
    for leaf, node in zip(leaves, found):
        if node is not None:
            accumulate(frame, leaf, builder.apply("alias", node, name=None))
    builder.ignored = ignored
    if not retain:
        free(capture, x.array.node)
    return Constant(None)


def same_shape(x: Array, y: Array) -> bool:
    return x.ndim == y.ndim and all(map(same, x.shape, y.shape))


def accumulate(frame: Frame, leaf: TensorValue, node: Node) -> None:
    """leaf.grad += node"""
    capture = frame.capture
    known = capture.realize(load_grad(frame, leaf))
    assert leaf.source is not None
    if not isinstance(known, TensorValue):
        capture.require_distinct_leaves()
        capture.grads[leaf.source] = TensorValue(fresh(capture.builder, node))
    elif known.requires_grad:
        raise Decline("backward() adds to a `.grad` that has a gradient itself")
    else:
        known.array.write(capture.builder.apply("add", known.array.node, node))
        capture.require_no_overlap()


def free(capture: Capture, root: Node) -> None:
    """What backward() has gone through cannot be gone through again; views hold nothing, and can."""
    order = topological([root])
    for node in depending(order, capture.uses_of_leaves()):
        if OPS[node.op].kind != "movement" or node.op == "concatenate":
            capture.lost[node] = SECOND_TIME
    for leaf in capture.leaves():
        leaf.variable.generation += 1


# --- conversions


@captures(eager.from_numpy)
def capture_from_numpy(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    (x,) = realized(frame.capture, positional)
    if not isinstance(x, Array) or not x.meta.boxed or keywords:
        raise Decline("from_numpy of what is not an array")
    find_lost(frame.capture, x)
    return TensorValue(x)


# Creation functions that are NumPy's, and give Tensors.
CREATION = ("zeros", "ones", "empty", "full", "arange", "linspace", "eye", "zeros_like", "ones_like", "empty_like", "full_like")


def capture_creation(function: Callable[..., Any]) -> Callable[..., Any]:
    def captured(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
        capture = frame.capture
        rest = {k: as_array(v) for k, v in keywords.items() if k not in ("device", "requires_grad")}
        if "requires_grad" in keywords and operators.plain(capture, keywords["requires_grad"]) is not False:
            raise Decline("a new Tensor with requires_grad")
        given = realized(capture, positional)
        if function in (np.array, np.asarray) and len(given) > 2:
            raise Decline("a new Tensor whose device is not a keyword")
        device = operators.plain(capture, keywords["device"]) if "device" in keywords else None
        if device is None and not (given and is_on_device(capture, given[0])):
            device = current_name()
            capture.guard(Equals(Call(capture.object_of(current_name)), Literal(device)))
        here = "cpu" if capture.place is None else capture.place.name
        if device is not None and device != here:
            raise Decline(f'a new Tensor on "{device}", in a program on "{here}"')
        capture.makes_on_cpu |= device == "cpu"
        arguments = [as_array(p) for p in given]
        return as_tensor(capture, calls.call_constant(frame, function, arguments, rest))

    return captured


def is_on_device(capture: Capture, x: Any) -> bool:
    return capture.place is not None and isinstance(x, (Array, TensorValue))


for name in CREATION:
    captures(getattr(creation, name))(capture_creation(getattr(np, name)))
captures(*{eager.tensor, creation.tensor})(capture_creation(np.array))
captures(*{eager.asarray, creation.asarray})(capture_creation(np.asarray))


@captures(eager.no_grad)
def capture_no_grad(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if positional or keywords:
        raise Decline("no_grad as a decorator")
    return GradMode(False)


@captures(eager.enable_grad)
def capture_enable_grad(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if positional or keywords:
        raise Decline("enable_grad as a decorator")
    return GradMode(True)


@captures(eager.is_grad_enabled)
def capture_is_grad_enabled(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    capture = frame.capture
    capture.guard(Is(Call(capture.object_of(eager.is_grad_enabled)), Literal(capture.grad_enabled_outside)))
    return Constant(capture.grad_enabled)


def find_lost(capture: Capture, x: Array) -> None:
    """Note which arrays from outside, that x is computed from, have lost their gradient."""
    arguments = capture.builder.arguments
    for node in topological([x.node]):
        if node.op == "input" and (source := arguments[node.params["index"]]) is not None and source in capture.examples:
            message = lost_message(capture.examples[source])
            capture.guard(Is(Call(capture.object_of(lost_message), source), NONE, not message))
            if message:
                capture.lost[node] = message


@captures(to_arrays)
def capture_to_arrays(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    tree = Tree.of(frame, positional[0])
    if not any(isinstance(leaf, TensorValue) for leaf in tree.leaves):
        return positional[0]
    return tree.build([as_array(leaf) for leaf in tree.leaves])


@captures(to_tensors)
def capture_to_tensors(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Arrays in a result as Tensors, which say so when they lost their gradient."""
    result, arguments = positional
    capture, tree = frame.capture, Tree.of(frame, result)
    given = Tree.of(frame, arguments).leaves
    needs_grad = any(isinstance(leaf, TensorValue) and leaf.requires_grad for leaf in given)
    leaves = [on_device(capture, wrap_leaf(capture, leaf)) for leaf in tree.leaves]
    if needs_grad and capture.came_after is not None:
        for leaf in leaves:
            if isinstance(leaf, TensorValue) and not has_gradient(capture, leaf):
                capture.lost[leaf.array.node] = message_of(capture.came_after)
    return tree.build(leaves)


def on_device(capture: Capture, leaf: Any) -> Any:
    """What native code made on the host, as a Tensor where the program runs."""
    if capture.place is None or not isinstance(leaf, TensorValue) or leaf.source is not None:
        return leaf
    source = leaf.array.storage.source
    return leaf if source is None or source in capture.on_device else as_tensor(capture, fresh(capture.builder, leaf.array.node))


def wrap_leaf(capture: Capture, leaf: Any) -> Any:
    match leaf:
        case Array():
            return as_tensor(capture, leaf)
        case Constant(np.generic() as number):
            return as_tensor(capture, fresh(capture.builder, capture.builder.constant(number, number.dtype)))
    return leaf
