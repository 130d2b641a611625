"""Calls of ufuncs without a row in the op table: nodes that call them, whose dtypes and shapes NumPy knows beforehand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from npcompile.numpy_shim.data_sizes import items, whole
from npcompile.numpy_shim.registry import Captured, evaluated_once, is_traced, literal, require_dtype
from npcompile.numpy_shim.ufunc_operands import (
    Dtypes,
    NoValue,
    Operand,
    cast_quietly,
    operand,
    read_signature,
    require_canonical,
    without_arrays,
)
from npcompile.numpy_shim.ufuncs import require_output, split_outputs, store
from npcompile.tensor_core.array import Array, fresh, result_meta
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, broadcast_shapes
from npcompile.tensor_core.ops.special import may_warn, rule_of
from npcompile.tensor_core.tensors.devices import PLACE

NAMES = re.compile(r"\(([^)]*)\)")


def form_of(function: Any) -> Captured | None:
    """The captured form of a ufunc; None for what is not a ufunc."""
    return partial(call_other, function) if isinstance(function, np.ufunc) else None


def call_other(
    ufunc: np.ufunc,
    builder: Builder,
    *arguments: Any,
    out: Any = None,
    where: Any = True,
    casting: Any = "same_kind",
    order: Any = "K",
    dtype: Any = NoValue,
    signature: Any = NoValue,
    sig: Any = NoValue,
    subok: Any = True,
    **unknown: Any,
) -> Any:
    """ufunc(*arguments, ...): one Array, or a tuple of as many as the ufunc has outputs."""
    if unknown or where is not True or (casting, order, subok) != ("same_kind", "K", True):
        raise Decline(f"{ufunc.__name__} with where=, axes, or another order or casting runs as NumPy")
    if PLACE.get() is not None:
        raise Decline(f"{ufunc.__name__} is a function of arrays on the host")
    if may_warn(ufunc):
        raise Decline(f"{ufunc.__name__} warns of what scipy.special.seterr names")
    inputs, outs = split_outputs(ufunc, arguments, out)
    targets = [o for o in outs if o is not None]
    operands = [operand(builder, x) for x in inputs]
    if all(o.is_weak for o in operands):
        operands = [without_arrays(builder, o, ufunc.nin) for o in operands]
    asked = read_signature(ufunc, dtype, signature, sig)
    loop = loop_of(ufunc, tuple(o.type for o in operands), asked)
    if not any(map(is_traced, inputs)) and not targets and asked is None:
        return of_constants(ufunc, builder, inputs)
    if ufunc.signature is not None:
        if targets or asked is not None:
            raise Decline(f"{ufunc.__name__} into an array, or of another dtype, runs as NumPy")
        return call_on_parts(ufunc, builder, operands, loop)
    # Arrays have the dtypes that they have, NumPy converts them: Python numbers have the loop's.
    nodes = [cast_weak(builder, o, d, asked is not None) for o, d in zip(operands, loop)]
    if rule_of(ufunc) is None and any(builder.may_differentiate(n) for n in nodes):
        raise Decline(f"{ufunc.__name__} has no derivative", "docs/gradients.md lists the functions that have one.")
    node = builder.apply("ufunc", *nodes, function=ufunc, loop=loop, is_asked_for=asked is not None)
    shape = broadcast_shapes(*(n.shape for n in nodes))
    arrays = [o.value for o in operands if isinstance(o.value, Array)]
    results = [node] if ufunc.nout == 1 else [x.node for x in items(builder, node)]
    if isinstance(target := outs[0], Array):
        if ufunc.nout > 1:
            raise Decline(f"{ufunc.__name__} into arrays runs as NumPy")
        require_output(target, shape, loop[-1], casting)
        if not all(map(same, target.shape, shape)):
            raise Decline("an array that operands repeat to fill")
        return store(target, cast_quietly(builder, node, target.dtype))
    if any(isinstance(o, Array) for o in targets):
        raise Decline(f"{ufunc.__name__} into arrays runs as NumPy")
    made = [fresh(builder, n, result_meta(shape, n.dtype, arrays), boxed=bool(shape) or o is ...) for n, o in zip(results, outs)]
    return made[0] if ufunc.nout == 1 else tuple(made)


def of_constants(ufunc: np.ufunc, builder: Builder, inputs: Sequence[Any]) -> Any:
    made = evaluated(ufunc, *inputs)
    parts = [literal(builder, x) for x in (made if isinstance(made, tuple) else (made,))]
    for x in parts:
        require_canonical(x.dtype)
    return tuple(parts) if ufunc.nout > 1 else parts[0]


def evaluated(ufunc: np.ufunc, *operands: Any) -> Any:
    """What the ufunc gives, while capturing. Declines where it warns or raises, of whatever class."""
    try:
        with evaluated_once():
            return ufunc(*operands)
    except Exception as error:  # noqa: BLE001  (NumPy raises it again, on the line that calls it)
        raise Decline(str(error)) from None


def cast_weak(builder: Builder, o: Operand, dtype: np.dtype, is_asked_for: bool) -> Any:
    return o.node(builder, dtype) if o.is_weak or is_asked_for or not isinstance(o.value, Array) else o.value.node


def loop_of(ufunc: np.ufunc, types: tuple[np.dtype | type, ...], signature: tuple[Any, ...] | None) -> Dtypes:
    """The dtypes of the loop that NumPy runs, outputs last. Declines where it raises, and for objects: their loops run Python."""
    chars = tuple(t.char if isinstance(t, np.dtype) else "" for t in types)  # C's long and long long are equal as dtypes
    return found_loop(ufunc, types, signature, chars)


@lru_cache(maxsize=1024)
def found_loop(ufunc: np.ufunc, types: tuple[Any, ...], signature: tuple[Any, ...] | None, chars: tuple[str, ...]) -> Dtypes:
    fixed = {} if signature is None else {"signature": signature}
    try:
        found = ufunc.resolve_dtypes((*types, *(None,) * ufunc.nout), **fixed)
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    inputs, outputs = found[: ufunc.nin], found[ufunc.nin :]
    if may_truncate(ufunc, inputs):
        raise Decline(f"{ufunc.__name__} may warn that a number is truncated to an integer")
    return (*map(require_dtype, inputs), *map(require_canonical, outputs))


def may_truncate(ufunc: np.ufunc, inputs: Sequence[np.dtype]) -> bool:
    """Is there a loop that takes an integer where this one takes a float, beside others? SciPy's make integers of those."""
    chosen = [dtype.kind for dtype in inputs]
    for types in ufunc.types:
        kinds = [np.dtype(c).kind for c in types.partition("->")[0]]
        differing = [(k, c) for k, c in zip(kinds, chosen) if k != c]
        if 0 < len(differing) < len(chosen) and all(pair == ("i", "f") for pair in differing):
            return is_loud(ufunc, inputs)
    return False


def is_loud(ufunc: np.ufunc, inputs: Sequence[np.dtype]) -> bool:
    """Does it warn of a number that is not an integer?"""
    try:
        evaluated(ufunc, *(np.asarray(0.5, dtype) for dtype in inputs))
    except Decline:
        return True
    return False


# --- generalized ufuncs: of parts of arrays


def call_on_parts(ufunc: np.ufunc, builder: Builder, operands: Sequence[Operand], loop: Dtypes) -> Any:
    nodes = [cast_weak(builder, o, d, False) for o, d in zip(operands, loop)]
    arrays = [fresh(builder, node) for node in nodes]
    shapes = shapes_of(ufunc, [a.shape for a in arrays])
    made = whole(builder, ufunc, arrays, tuple(zip(shapes, loop[ufunc.nin :])))
    results = [fresh(builder, x.node, TensorMeta(x.shape, x.dtype), boxed=bool(x.shape)) for x in made]
    return results[0] if ufunc.nout == 1 else tuple(results)


def shapes_of(ufunc: np.ufunc, shapes: Sequence[Shape]) -> list[Shape]:
    """Of the outputs, by the ufunc's signature: "(m,n),(n)->(m)". Declines where sizes are more than names."""
    cores = [[n.strip() for n in core.split(",") if n.strip()] for core in NAMES.findall(str(ufunc.signature))]
    if not all(name.isidentifier() for core in cores for name in core):
        raise Decline(f"{ufunc.__name__}, whose axes have fixed sizes or may be left out, runs as NumPy")
    sizes: dict[str, Any] = {}
    rest = []
    for shape, core in zip(shapes, cores):
        if len(shape) < len(core):
            raise Decline(f"{ufunc.__name__} of an array of too few dimensions")
        cut = len(shape) - len(core)
        rest.append(shape[:cut])
        for name, size in zip(core, shape[cut:]):
            if not same(sizes.setdefault(name, size), size):
                raise Decline(f"{ufunc.__name__} of arrays whose sizes differ")
    outer = broadcast_shapes(*rest)
    outputs = cores[ufunc.nin :]
    if not all(name in sizes for core in outputs for name in core):
        raise Decline(f"{ufunc.__name__}, whose results have sizes of their own, runs as NumPy")
    return [(*outer, *(sizes[name] for name in core)) for core in outputs]
