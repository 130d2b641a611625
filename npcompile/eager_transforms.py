"""Derivatives of functions that are no one graph, as their branches and loops depend on data: by eager Tensors.

The function is called with Tensors in place of the arrays that derivatives are taken with respect to, and what it computes
is recorded. What it takes out of a Tensor as a Python number (`float(x)`, `x.item()`) is a constant, as everywhere: a warning
says where, unless that is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile import trees
from npcompile.tensor_core.context import set_within
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.tensor import Tensor, asarray, attach, enable_grad, is_grad_enabled, no_grad
from npcompile.tensor_core.tensors.backward import backward, gradients_of
from npcompile.tensor_core.tensors.handle import from_node
from npcompile.tensor_core.tensors.taken import TAKEN, Taken
from npcompile.tensor_core.transforms.value import Value
from npcompile.tensor_core.user_warnings import warn_once
from npcompile.tracer.variant import GraphBreakError

NUMBERS = (int, float, complex)
Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
Function = Callable[..., Any]

# Is this within such a derivative? What is computed then may need derivatives itself.
_NESTED: ContextVar[bool] = ContextVar("_NESTED", default=False)


class NotPossible(Exception):
    """The call has no result here either. `misuse`: it is a TypeError or a ValueError of who calls a transform."""

    def __init__(self, reason: str, misuse: type[Exception] | None = None):
        super().__init__(reason)
        self.misuse = misuse


@contextmanager
def nested() -> Iterator[None]:
    with set_within(_NESTED, True), enable_grad():
        yield


@contextmanager
def noting_taken() -> Iterator[list[Taken]]:
    found: list[Taken] = []
    with set_within(TAKEN, found):
        yield found


def report_taken(function: Function, taken: Sequence[Taken], results: Any) -> None:
    """Say where the function has lost a derivative. GraphBreakError where nothing is left of it."""
    name = getattr(function, "__qualname__", repr(function))
    if taken and not any(map(is_recorded, trees.flatten(results)[0])):
        raise GraphBreakError(
            f"{name} has no derivative: it takes a number out of what is differentiated ({taken[0].place}), and computes its "
            "result of this alone. NumPy's functions of arrays (np.sin in place of math.sin, say) keep the derivative."
        )
    for place in dict.fromkeys(each.place for each in taken if not each.is_meant):
        warn_once(
            f"A number is taken out of what is differentiated ({place}): it is a constant there, without a derivative. "
            "Leave it an array, with NumPy's functions, or use x.item() where that is meant."
        )


def is_nested() -> bool:
    return _NESTED.get()


def is_recorded(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


@dataclass(slots=True)
class Variables:
    """Arguments that derivatives are taken with respect to."""

    given: list[Any]  # their leaves
    treedef: trees.TreeDef
    variables: list[Tensor]  # one for each leaf
    copies: list[Tensor]  # of these, which the function gets: it may write to them
    has_derivatives: bool  # need the derivatives derivatives?

    @classmethod
    def of(cls, arguments: Arguments) -> Variables:
        given, treedef = trees.flatten(arguments)
        variables = [variable(x) for x in given]
        return cls(given, treedef, variables, [x.clone() for x in variables], _NESTED.get() or any(map(is_recorded, given)))

    def arguments(self) -> Arguments:
        made: Arguments = self.treedef.unflatten(self.copies)
        return made

    def write_back(self) -> None:
        for x, copy in zip(self.given, self.copies):
            if copy._version and not isinstance(x, (*NUMBERS, np.generic)):
                x[...] = copy if isinstance(x, Tensor) else copy.detach()._data

    def gradients(self, outputs: Sequence[Tensor], cotangents: Sequence[Any], retain: bool = False) -> list[Tensor]:
        if not outputs:
            return [zero_or(x, None) for x in self.variables]
        found = gradients_of(outputs, self.variables, cotangents, retain_graph=retain, create_graph=self.has_derivatives)
        return [zero_or(x, g) for x, g in zip(self.variables, found)]

    def results(self, found: Sequence[Tensor]) -> Arguments:
        """A tree like the arguments: arrays for arrays."""
        made: Arguments = self.treedef.unflatten([self.result(g, x) for g, x in zip(found, self.given)])
        return made

    def result(self, found: Tensor, like: Any) -> Any:
        if isinstance(like, Tensor) or (_NESTED.get() and found.requires_grad):
            return found
        data = found.detach()._data  # an array, of NumPy or of a device
        return data[()] if isinstance(like, (*NUMBERS, np.generic)) else data


def variable(x: Any) -> Tensor:
    if is_recorded(x):
        made: Tensor = x.clone()
        return made
    made = (x.detach() if isinstance(x, Tensor) else asarray(x)).clone()
    if kind_of(made.dtype) not in "fc":
        raise NotPossible(f"a derivative with respect to {made.dtype} numbers", TypeError)
    return made.requires_grad_()


def plain(tree: Any, has_tensors: bool) -> Any:
    """A result with arrays for Tensors, where the arguments had none."""
    leaves, treedef = trees.flatten(tree)
    return treedef.unflatten([plain_leaf(x, has_tensors) for x in leaves])


def plain_leaf(x: Any, has_tensors: bool) -> Any:
    if not isinstance(x, Tensor) or (_NESTED.get() and x.requires_grad):
        return x
    x = x.detach()
    return x if has_tensors else x._data if x.ndim else x._data[()]


def zero_or(x: Tensor, found: Tensor | None) -> Tensor:
    return np.zeros_like(x.detach()) if found is None else found  # type: ignore[return-value]


def has_tensors(arguments: Arguments, keywords: Keywords) -> bool:
    return any(isinstance(x, Tensor) for x in trees.flatten((arguments, keywords))[0])


# --- the transforms


def grad(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    _, aux, found = differentiated(function, options, args, kwargs)
    return (found, aux) if options["has_aux"] else found


def value_and_grad(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    value, aux, found = differentiated(function, options, args, kwargs)
    return (value, aux) if options["has_aux"] else value, found


def chosen(argnums: int | Sequence[int], args: Arguments) -> tuple[list[int], Variables]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(-len(args) <= k < len(args) for k in numbers):
        raise NotPossible(f"argnums={argnums}, but {len(args)} positional arguments were given", ValueError)
    numbers = [k % len(args) for k in numbers]
    return numbers, Variables.of(tuple(args[k] for k in numbers))


def called(function: Function, args: Arguments, kwargs: Keywords, numbers: Sequence[int], variables: Variables) -> Any:
    replaced = dict(zip(numbers, variables.arguments()))
    with nested(), noting_taken() as taken:
        made = function(*(replaced.get(k, x) for k, x in enumerate(args)), **kwargs)
    report_taken(function, taken, made)
    return made


def differentiated(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> tuple[Any, Any, Any]:
    argnums = options["argnums"]
    numbers, variables = chosen(argnums, args)
    value, aux = called(function, args, kwargs, numbers, variables), None
    if options["has_aux"]:
        value, aux = value
    if np.ndim(value) or kind_of(dtype_of(value)) != "f":
        raise NotPossible("it must return one real floating-point number: sum it up, or use jacobian", TypeError)
    outputs = [value] if is_recorded(value) else []  # else it is a constant
    found = variables.results(variables.gradients(outputs, [np.ones((), y.dtype) for y in outputs]))
    variables.write_back()
    tensors = has_tensors(args, kwargs)
    return plain(value, tensors), plain(aux, tensors), found[0] if isinstance(argnums, int) else found


def jacobian(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    numbers, variables = chosen(options["argnums"], args)
    made = called(function, args, kwargs, numbers, variables)
    treedef, outputs = trees.flatten(made)[1], outputs_of(made)
    if not outputs or not all(kind_of(y.dtype) in "fc" for y in outputs):
        raise NotPossible("it must return floating-point or complex numbers", TypeError)
    rows = []
    for y in outputs:
        seeds = [unit(y, place) for place in np.ndindex(y.shape)] if is_recorded(y) else []
        parts = [variables.gradients([y], [seed], retain=True) for seed in seeds]
        columns = [[part[k] for part in parts] for k in range(len(variables.variables))]
        stacked = [stack(column, (*y.shape, *x.shape), x.dtype) for column, x in zip(columns, variables.variables)]
        found = variables.results(stacked)
        rows.append(found[0] if isinstance(options["argnums"], int) else found)
    variables.write_back()
    return treedef.unflatten(rows)


def unit(y: Tensor, place: tuple[int, ...]) -> np.ndarray:
    made = np.zeros(y.shape, y.dtype)
    made[place] = 1
    return made


def stack(parts: Sequence[Tensor], shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    if not parts:
        return Tensor._of(np.zeros(shape, dtype))
    made: Tensor = np.stack(parts).reshape(shape)  # type: ignore[arg-type,assignment]
    return made


def pullback(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    cotangent, *primals = args
    variables = Variables.of(tuple(primals))
    outputs = outputs_of(called(function, tuple(primals), kwargs, range(len(primals)), variables))
    given = trees.flatten(cotangent)[0]
    require_alike(given, outputs)
    recorded = [(y, c) for y, c in zip(outputs, given) if is_recorded(y)]
    found = variables.gradients([y for y, _ in recorded], [c for _, c in recorded])
    variables.write_back()
    return variables.results(found)


def outputs_of(tree: Any) -> list[Tensor]:
    """Its leaves as Tensors. Numbers and arrays are constants."""
    leaves = trees.flatten(tree)[0]
    if not all(isinstance(y, (Tensor, *NUMBERS, np.generic, np.ndarray)) for y in leaves):
        raise NotPossible("it must return arrays and numbers, or trees of them")
    return [y if isinstance(y, Tensor) else asarray(y) for y in leaves]


def require_alike(given: Sequence[Any], wanted: Sequence[Any]) -> None:
    if len(given) != len(wanted) or any(np.shape(x) != np.shape(y) or dtype_of(x) != dtype_of(y) for x, y in zip(given, wanted)):
        raise NotPossible("a cotangent has its result's shape and dtype, a tangent its argument's", TypeError)


def dtype_of(x: Any) -> np.dtype:
    return x.dtype if isinstance(x, Tensor) else np.asarray(x).dtype


def jvp(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    """The vector-Jacobian product is linear in its cotangents, so its own transpose moves tangents."""
    primals, tangents = args
    variables = Variables.of(tuple(primals))
    made = called(function, tuple(primals), kwargs, range(len(variables.treedef.children)), variables)
    leaves, treedef = trees.flatten(made)
    outputs = outputs_of(made)
    directions = trees.flatten(tuple(tangents))[0]
    require_alike(directions, variables.variables)
    moved = [zero_or(y, None) for y in outputs]
    recorded = [k for k, y in enumerate(outputs) if is_recorded(y)]
    if recorded:
        cotangents = [variable(zero_or(outputs[k], None)) for k in recorded]
        with nested():
            pulled = gradients_of([outputs[k] for k in recorded], variables.variables, cotangents, create_graph=True)
        linear = [(g, t) for g, t in zip(pulled, directions) if g is not None and is_recorded(g)]
        if linear:
            found = gradients_of(
                [g for g, _ in linear], cotangents, [t for _, t in linear], create_graph=variables.has_derivatives
            )
            for k, x in zip(recorded, found):
                moved[k] = zero_or(outputs[k], x)
    variables.write_back()
    tensors = has_tensors(args, kwargs)
    return plain(treedef.unflatten(leaves), tensors), plain(treedef.unflatten(moved), tensors)


def vmap(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    """The function called for each example."""
    results = [trees.flatten(function(*example, **named)) for example, named in examples(options["in_axes"], args, kwargs)]
    if not results:
        raise NotPossible("there is no example to call it for")
    treedef, columns = results[0][1], zip(*(leaves for leaves, _ in results), strict=True)
    axes = spread(treedef, options["out_axes"], "out_axes")
    return treedef.unflatten([joined(column, axis) for column, axis in zip(columns, axes)])


def joined(column: Sequence[Any], axis: int | None) -> Any:
    if axis is not None:
        return np.stack(column, axis)
    if any(not np.array_equal(each, column[0], equal_nan=True) for each in column[1:]):
        raise NotPossible("out_axes is None for a result that is not the same for all examples", ValueError)
    return column[0]


def examples(in_axes: Any, args: Arguments, kwargs: Keywords) -> Iterator[tuple[Arguments, Keywords]]:
    """The arguments of each call. Keyword arguments are mapped over their first axis, as in JAX."""
    treedef = trees.flatten(args)[1]
    axes = spread(treedef, in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args), "in_axes")
    leaves, treedef = trees.flatten((args, kwargs))
    axes += [0] * (len(leaves) - len(axes))
    mapped = [(np.shape(leaf), axis) for leaf, axis in zip(leaves, axes) if axis is not None]
    sizes = {shape[axis] for shape, axis in mapped if -len(shape) <= axis < len(shape)}
    if len(sizes) != 1 or any(not -len(shape) <= axis < len(shape) for shape, axis in mapped):
        rule = "in_axes has one axis for each positional argument, keywords have axis 0, and all mapped axes have one size"
        raise NotPossible(rule, ValueError)
    for k in range(sizes.pop()):
        yield treedef.unflatten([leaf if axis is None else taken(leaf, axis, k) for leaf, axis in zip(leaves, axes)])


def spread(treedef: trees.TreeDef, axes: Any, name: str) -> list[int | None]:
    try:
        return treedef.spread(axes, name)
    except ValueError as found:
        raise NotPossible(str(found), ValueError) from None


def taken(leaf: Any, axis: int, k: int) -> Any:
    return leaf[(*(slice(None),) * (axis % leaf.ndim), k)]


# --- functions with derivatives of their own


def detached(tree: Any) -> Any:
    return mapped(lambda x: x.detach() if is_recorded(x) else x, tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    leaves, treedef = trees.flatten(tree)
    return treedef.unflatten([function(x) for x in leaves])


def checkpoint(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    """Nothing that the function computes is kept: `backward` calls it again, with the same random numbers."""
    leaves, treedef = trees.flatten((args, kwargs))
    inputs = [x for x in leaves if is_recorded(x)]
    if not inputs or not is_grad_enabled():
        return function(*args, **kwargs)
    state = np.random.get_state()
    with no_grad():
        result = function(*(given := detached((args, kwargs)))[0], **given[1])
    outputs, outdef = trees.flatten(result)
    kept = [k for k, y in enumerate(outputs) if isinstance(y, Tensor)]

    def again(variables: Sequence[Tensor]) -> list[Tensor]:
        with enable_grad():
            fresh = iter([x.clone() for x in variables])  # it may write to them
        positional, named = treedef.unflatten([next(fresh) if is_recorded(x) else x for x in leaves])
        now = np.random.get_state()
        np.random.set_state(state)
        try:
            with enable_grad():
                found = trees.flatten(function(*positional, **named))[0]
        finally:
            np.random.set_state(now)
        return [found[k] for k in kept]

    def call(cotangents: list[np.ndarray | None]) -> list[np.ndarray | None]:
        variables = [variable(x.detach()) for x in inputs]
        pairs = [(y, c) for y, c in zip(again(variables), cotangents) if is_recorded(y) and c is not None]
        backward([y for y, _ in pairs], [c for _, c in pairs], retain_graph=True)  # Tensors that it reads beside get theirs
        return [None if x.grad is None else x.grad._data for x in variables]

    def replay(cotangents: Sequence[Value | None], values: Sequence[Value]) -> list[Value | None]:
        variables = [tensor_of(v) for v in values]
        pairs = [(y, tensor_of(c)) for y, c in zip(again(variables), cotangents) if is_recorded(y) and c is not None]
        found = gradients_of([y for y, _ in pairs], variables, [c for _, c in pairs], create_graph=True)
        return [None if g is None else v.of(g._node) for g, v in zip(found, values)]

    made = dict(zip(kept, attach([outputs[k]._data for k in kept], inputs, call, replay)))
    return outdef.unflatten([made.get(k, y) for k, y in enumerate(outputs)])


def tensor_of(value: Value) -> Tensor:
    made: Tensor = from_node(Tensor, value.node)  # type: ignore[arg-type]
    return made


def data_like(part: Any, x: Tensor) -> Any:
    made: Any = asarray(part).detach()
    return made.astype(x.dtype).reshape(x.shape)._data


def custom_gradient(function: Function, options: dict[str, Any], args: Arguments, kwargs: Keywords) -> Any:
    inputs = [x for x in args if is_recorded(x)]
    if not inputs or not is_grad_enabled():
        return function(*args, **kwargs)[0]
    with no_grad():
        out, pullback = function(*(given := detached((args, kwargs)))[0], **given[1])

    def parts(pull: Function, cotangent: Tensor) -> list[Any]:
        found = pull(cotangent)
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(args):
            raise TypeError(f"a pullback gave {len(found)} gradients for {len(args)} arguments")
        return [g for g, x in zip(found, args) if is_recorded(x)]

    def call(cotangents: list[np.ndarray | None]) -> list[np.ndarray | None]:
        (g,) = cotangents
        if g is None:
            return [None] * len(inputs)
        with no_grad():
            found = parts(pullback, Tensor._of(g))
        return [None if p is None else data_like(p, x) for p, x in zip(found, inputs)]

    def replay(cotangents: Sequence[Value | None], values: Sequence[Value]) -> list[Value | None]:
        (g,) = cotangents
        if g is None:
            return [None] * len(inputs)
        fresh = iter([tensor_of(v) for v in values])
        _, pull = function(*[next(fresh) if is_recorded(x) else x for x in args], **kwargs)
        found = parts(pull, tensor_of(g))
        return [v.of(p._node).cast(v.dtype).reshape(v.shape) if isinstance(p, Tensor) else None for p, v in zip(found, values)]

    (made,) = attach([asarray(out).detach()._data], inputs, call, replay)
    return made


Eager = Callable[[Function, dict[str, Any], Arguments, Keywords], Any]
DERIVATIVES: dict[str, Eager] = {
    "grad": grad,
    "value_and_grad": value_and_grad,
    "jacobian": jacobian,
    "pullback": pullback,
    "jvp": jvp,
}
EAGER: dict[str, Eager] = DERIVATIVES | {
    "vmap": vmap,
    "checkpoint": checkpoint,
    "custom_gradient": custom_gradient,
    "plain": lambda function, options, args, kwargs: function(*args, **kwargs),
}
