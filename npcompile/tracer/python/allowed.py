"""Functions that the user has named to be one node of a graph, or never to be in one."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.dtypes import is_number
from npcompile.tensor_core.guards import Is
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls
from npcompile.tracer.python.calls import BUILTINS, Arguments, Keywords
from npcompile.tracer.python.operators import describe, plain
from npcompile.tracer.values import Closure, Constant, Mapping, Opaque, Sequence

_before: dict[Any, Any] = {}  # what was captured of functions before they were named here


def allow(function: Callable[..., Any]) -> None:
    _before.setdefault(function, BUILTINS.get(function))
    BUILTINS[function] = functools.partial(call_as_node, function)


def disallow(function: Callable[..., Any]) -> None:
    _before.setdefault(function, BUILTINS.get(function))
    BUILTINS[function] = functools.partial(call_disallowed, function)


def call_disallowed(function: Any, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    raise Decline(f"{calls.function_name(function)} is named in npcompile.disallow_in_graph")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array stands among the arguments."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class NodeFunction:
    """The function with all of its arguments but arrays: what a node of the graph calls."""

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    keywords: dict[str, Any]
    are_arrays: tuple[bool, ...]  # what the function takes as arrays; the others as NumPy's scalars

    def __call__(self, *arrays: Any) -> Any:
        given = [x if is_array else np.asarray(x)[()] for x, is_array in zip(arrays, self.are_arrays)]
        return self.function(*put(self.positional, given), **put(self.keywords, given))

    def __repr__(self) -> str:
        return calls.function_name(self.function)


def put(form: Any, arrays: list[Any]) -> Any:
    match form:
        case Place(number):
            return arrays[number]
        case tuple() | list():
            return type(form)(put(part, arrays) for part in form)
        case dict():
            return {k: put(part, arrays) for k, part in form.items()}
    return form


def call_as_node(function: Any, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """What the function gives for arrays of ones tells what it gives for others of their dtypes and shapes."""
    called, arrays = node_function(function, frame, positional, keywords)
    # What it gives is known for these sizes alone: others are other programs, however many come.
    examples = [np.ones(fixed_sizes(frame, x), x.dtype) for x in arrays]
    made = example_of(called, examples)
    parts = made if isinstance(made, (tuple, list)) else (made,)
    if not parts or not all(isinstance(p, (np.ndarray, np.generic)) and type(p) in (np.ndarray, p.dtype.type) for p in parts):
        raise Decline(f"{called!r}, allowed in graphs, gives other things than NumPy's arrays and scalars")
    if not all(is_number(p.dtype) for p in parts):
        raise Decline(f"{called!r}, allowed in graphs, gives arrays of {parts[0].dtype}")
    metas = tuple(TensorMeta(p.shape, p.dtype, boxed=isinstance(p, np.ndarray)) for p in parts)
    results = node_of_call(frame, called, arrays, metas)
    return Sequence(type(made), list(results)) if isinstance(made, (tuple, list)) else results[0]


def call_callback(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """`npc.callback(function, result_like, *args, effects=False, **kwargs)`: what it gives is said."""
    capture = frame.capture
    if len(positional) < 2:
        raise Decline("npc.callback without a function and result_like")
    named = dict(keywords)
    effects = named.pop("effects", Constant(False))
    if plain(capture, effects):
        raise Decline("npc.callback with effects=True", "It is called where it stands.")
    callee, like, *given = [capture.realize(value) for value in positional]
    if any(map(calls.holds_tensor, [*given, *map(capture.realize, named.values())])) and capture.goes_through_gradients:
        raise Decline("npc.callback of a Tensor", "npc.custom_gradient says what its derivative is.")
    match callee:
        case Opaque(example=function) if callable(function) and callee.source is not None:
            capture.guard(Is(callee.source, capture.object_of(function)))
        case Constant(function) if callable(function):
            ...
        case Closure(defaults=None, kwdefaults=None):  # it is made anew, of what it is here
            cells = tuple(types.CellType(plain(capture, cell.content)) for cell in callee.cells)
            function = types.FunctionType(callee.code, callee.globals, callee.qualname, None, cells)
        case _:
            raise Decline(f"npc.callback of {describe(callee)}", "Define the function outside of the compiled one.")
    is_one = not isinstance(like, Sequence)
    items = [capture.realize(item) for item in ([like] if is_one else like.items)]
    metas = tuple(meta_like(frame, item) for item in items)
    if not metas:
        raise Decline("npc.callback of a result that is not an array, tuple or list of arrays")
    called, arrays = node_function(function, frame, given, named)
    results = node_of_call(frame, called, arrays, metas)
    return results[0] if is_one else Sequence(like.kind, list(results))


def meta_like(frame: Frame, value: Any) -> TensorMeta:
    """Of a result that is like this one."""
    match value:
        case Array():
            return TensorMeta(fixed_sizes(frame, value), value.dtype, boxed=value.meta.boxed)
        case Constant(np.generic() as scalar) if is_number(scalar.dtype):
            return TensorMeta((), scalar.dtype, boxed=False)
    raise Decline("npc.callback of a result that is not an array, tuple or list of arrays")


def node_function(function: Any, frame: Frame, positional: Arguments, keywords: Keywords) -> tuple[NodeFunction, list[Array]]:
    """A function with all of its arguments but arrays, and these."""
    capture, arrays = frame.capture, list[Array]()

    def form_of(value: Any) -> Any:
        value = capture.realize(value)
        match value:
            case Array():
                arrays.append(value)
                return Place(len(arrays) - 1)
            case Sequence() if value.kind in (tuple, list):
                return value.kind(map(form_of, value.items))
            case Mapping():
                return {k: form_of(v) for k, v in value.items.items()}
        return plain(capture, value)

    forms = tuple(map(form_of, positional)), {k: form_of(v) for k, v in keywords.items()}
    return NodeFunction(function, *forms, tuple(x.meta.boxed for x in arrays)), arrays


def fixed_sizes(frame: Frame, x: Array) -> tuple[int, ...]:
    """The shape of an array of which a program for these sizes alone is made."""
    sizes = [n for n in x.shape if isinstance(n, Dim)]
    frame.capture.builder.env.changing.difference_update(*(n.symbols() for n in sizes))
    return tuple(n.__index__() for n in x.shape)


def node_of_call(frame: Frame, called: NodeFunction, arrays: list[Array], metas: tuple[TensorMeta, ...]) -> list[Array]:
    builder = frame.capture.builder
    node = builder.apply("call", *(x.node for x in arrays), function=called, metas=metas)
    nodes = [builder.apply("item", node, index=k) for k in range(len(metas))]
    return [fresh(builder, n, boxed=m.boxed) for n, m in zip(nodes, metas)]


def example_of(called: NodeFunction, examples: list[np.ndarray]) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = called(*examples)
        except Exception as error:  # noqa: BLE001  (the call runs natively, and raises there what it raises)
            raise Decline(f"{called!r} of arrays of ones: {type(error).__name__}: {error}") from None
    if type(made) not in (tuple, list, np.ndarray) and not isinstance(made, np.generic):
        raise Decline(f"{called!r}, allowed in graphs, gives a {type(made).__qualname__}")
    return made
