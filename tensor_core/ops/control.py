"""Control flow: nodes that run other graphs, once, as often as the data says, or for each index of an axis.

Params named `..._graph` hold the graphs. They read nothing from outside but their inputs: 0-D or C-contiguous arrays, one
for each operand that the row hands them. When the program runs, params hold callables instead: see `graph.Bound`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Bound, Graph, bind
from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import row
from npcompile.tensor_core.transforms.control_reverse import vjp_checkpoint, vjp_cond, vjp_for_loop, vjp_while_loop, vjp_while_vjp

FAILURES = (IndexError,)  # of what the graphs hold
Arrays = Sequence[Any]


def is_alike(a: TensorMeta, b: TensorMeta) -> bool:
    """One dtype, and shapes that are equal as far as can be told: symbolic sizes are asked."""
    return a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(same(n, m) or n == m for n, m in zip(a.shape, b.shape))


def require_alike(what: str, found: Sequence[TensorMeta], wanted: Sequence[TensorMeta]) -> None:
    assert len(found) == len(wanted), f"{what}: {len(found)} where {len(wanted)} are expected"
    for k, (a, b) in enumerate(zip(found, wanted)):
        assert is_alike(a, b), f"{what} {k} is {a}, not {b}"


def inputs_of(graph: Graph) -> list[TensorMeta]:
    return [n.meta for n in graph.inputs]


def require_predicate(meta: TensorMeta) -> None:
    assert meta.dtype == np.bool_ and meta.ndim == 0, f"a predicate is {meta}, not a 0-D bool"


def fresh_metas(metas: Sequence[TensorMeta]) -> list[TensorMeta]:
    return [m.with_(strides=(), writeable=True) for m in metas]


# --- cond


def eager_cond(predicate: Any, *operands: Any, true_graph: Callable[..., Arrays], false_graph: Callable[..., Arrays]) -> Any:
    return tuple((true_graph if predicate else false_graph)(*operands))


@row("control", eager=eager_cond, vjp=vjp_cond, raises=FAILURES, chooses=True)
def cond(predicate: TensorMeta, *operands: TensorMeta, true_graph, false_graph):  # type: ignore[no-untyped-def]
    """The outputs of one of two graphs of the operands, as the 0-D bool says. The other does not run."""
    require_predicate(predicate)
    for graph in (true_graph, false_graph):
        require_alike("operand", operands, inputs_of(graph))
    require_alike("result", false_graph.metas, true_graph.metas)
    return TupleMeta.of(*fresh_metas(true_graph.metas))


# --- checkpoint


def eager_checkpoint(*operands: Any, body_graph: Callable[..., Arrays], again: Any = None) -> Any:
    return tuple(body_graph(*operands))


@row("control", eager=eager_checkpoint, vjp=vjp_checkpoint, raises=FAILURES, chooses=True)
def checkpoint(*operands: TensorMeta, body_graph, again=None):  # type: ignore[no-untyped-def]
    """The outputs of a graph of the operands, which keeps nothing: its derivative is such a node that runs it again.

    Of a derivative, `again` names the part of its graph that was computed before, a graph of the last operands.
    """
    require_alike("operand", operands, inputs_of(body_graph))
    return TupleMeta.of(*fresh_metas(body_graph.metas))


# --- while_loop


def eager_while_loop(*operands: Any, cond_graph: Callable[..., Arrays], body_graph: Callable[..., Arrays], carried: int) -> Any:
    carry: Arrays = operands[:carried]
    constants = operands[carried:]
    while cond_graph(*carry, *constants)[0]:
        carry = body_graph(*carry, *constants)
    return tuple(carry)


def require_while(operands: Sequence[TensorMeta], cond_graph: Graph, body_graph: Graph, carried: int) -> None:
    for graph in (cond_graph, body_graph):
        require_alike("operand", operands, inputs_of(graph))
    require_alike("next carry", body_graph.metas, operands[:carried])
    (predicate,) = cond_graph.metas
    require_predicate(predicate)


@row("control", eager=eager_while_loop, vjp=vjp_while_loop, raises=FAILURES, chooses=True)
def while_loop(*operands: TensorMeta, cond_graph, body_graph, carried):  # type: ignore[no-untyped-def]
    """The carries after body_graph ran while cond_graph was true.

    The operands are `carried` carries and then constants; both graphs take them all. cond_graph gives a 0-D bool,
    body_graph the next carries. The results are the last carries.
    """
    require_while(operands, cond_graph, body_graph, carried)
    return TupleMeta.of(*fresh_metas(body_graph.metas))


def eager_while_vjp(
    *operands: Any,
    cond_graph: Callable[..., Arrays],
    body_graph: Callable[..., Arrays],
    vjp_graph: Callable[..., Arrays],
    carried: int,
    moving: Sequence[int],
    inputs: int,
) -> Any:
    program, cotangents = operands[:inputs], operands[inputs:]
    carry: Arrays = program[:carried]
    constants = program[carried:]
    before: list[Arrays] = []
    while cond_graph(*carry, *constants)[0]:
        before.append(carry)
        carry = body_graph(*carry, *constants)
    sums = [np.zeros_like(constants[k - carried]) for k in moving if k >= carried]
    gradients: Arrays = (*cotangents, *sums)
    while before:
        gradients = vjp_graph(*gradients, *before.pop(), *constants)
    return tuple(gradients)


@row("control", eager=eager_while_vjp, vjp=vjp_while_vjp, raises=FAILURES, chooses=True)
def while_vjp(*operands: TensorMeta, cond_graph, body_graph, vjp_graph, carried, moving, inputs):  # type: ignore[no-untyped-def]
    """The vector-Jacobian product of a while_loop: it runs again, keeps every carry, and goes back through them.

    The operands are the `inputs` operands of the loop, then the cotangents of those of its carries that `moving` lists.
    The results are gradients for the operands of the loop that `moving` lists, carries first. vjp_graph takes these
    gradients as they are so far, then what body_graph takes, and gives the gradients before that iteration.
    """
    program = operands[:inputs]
    require_while(program, cond_graph, body_graph, carried)
    results = [program[k] for k in moving]
    require_alike("cotangent", operands[inputs:], [program[k] for k in moving if k < carried])
    require_alike("input of the body's derivative", [*results, *program], inputs_of(vjp_graph))
    require_alike("gradient", vjp_graph.metas, results)
    return TupleMeta.of(*(TensorMeta(m.shape, m.dtype) for m in results))


# --- for_loop


def bound(graph: Any) -> Bound:
    return bind(graph, {}) if isinstance(graph, Graph) else graph


def eager_for_loop(
    *operands: Any, body_graph: Any, carried: int, scanned: int, length: int, reverse: bool = False, extends: Any = None
) -> Any:
    carry: Arrays = operands[:carried]
    arrays, constants = operands[carried : carried + scanned], operands[carried + scanned :]
    body = bound(body_graph)
    call, metas = body.call, body.graph.metas
    stacked = [np.empty((length, *shape), m.dtype) for shape, m in zip(body.shapes[carried:], metas[carried:])]
    for k in range(length - 1, -1, -1) if reverse else range(length):
        results = call(*carry, *[x[k, ...] for x in arrays], *constants)
        carry = results[:carried]
        for array, value in zip(stacked, results[carried:]):
            array[k] = value
    return (*carry, *stacked)


@row("control", eager=eager_for_loop, vjp=vjp_for_loop, raises=FAILURES, chooses=True)
def for_loop(*operands: TensorMeta, body_graph, carried, scanned, length, reverse=False, extends=None):  # type: ignore[no-untyped-def]
    """body_graph run `length` times, a size: along axis 0 of arrays (JAX's scan), or just so often.

    The operands are `carried` carries, `scanned` arrays with axis 0 of `length`, and constants. body_graph takes the
    carries, one element of each array, and the constants; it gives the next carries, then what to stack. The results
    are the last carries and the stacks. With `reverse` the iterations go from the last index to the first; what is
    stacked is at the index of its iteration. `extends` names the body that has the first outputs of this one, and no
    more: a loop of the same operands with that body need not run beside this one.
    """
    carries, arrays = operands[:carried], operands[carried : carried + scanned]
    for x in arrays:
        assert x.ndim and (same(x.shape[0], length) or x.shape[0] == length), f"an array of {x} for {length} iterations"
    elements = [TensorMeta(x.shape[1:], x.dtype) for x in arrays]
    require_alike("operand", [*carries, *elements, *operands[carried + scanned :]], inputs_of(body_graph))
    require_alike("next carry", body_graph.metas[:carried], carries)
    stacks = [stacked_meta(m, length) for m in body_graph.metas[carried:]]
    return TupleMeta.of(*fresh_metas(body_graph.metas[:carried]), *stacks)


def stacked_meta(meta: TensorMeta, length: Size) -> TensorMeta:
    return TensorMeta((length, *meta.shape), meta.dtype)
