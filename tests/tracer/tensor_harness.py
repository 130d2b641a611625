"""Tests of captured Tensors: a user function on Tensors, run eagerly and compiled, twice, compared with its gradients."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core.tensor import Tensor
from tests.backends import BACKENDS
from tests.tracer.harness import Sample, compare_any, default_input, describe


def leaf(x: Any, dtype: Any = None) -> Tensor:
    return npc.tensor(x, dtype, requires_grad=True)


def with_gradient(round: int) -> Tensor:
    """An input: a leaf of shape (4, 3) with other numbers in each round."""
    return leaf(default_input("x", round))


def without_gradient(round: int) -> Tensor:
    return npc.tensor(default_input("y", round))


def check(
    *inputs: Any,
    graphs: int | None = 1,
    breaks: int | None = 0,
    ulp: int = 64,
    rounds: int = 2,
    arrays: bool = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[[str], None]]:
    """Turn a user function into a test.

    Parameters without one of `inputs`, which are called with the round, get leaves of shape (4, 3). Results, what happened
    to the arguments, and the gradients of all results together must be those of the same function on eager Tensors; with
    `arrays` its values also those of the function on NumPy arrays.
    """

    def decorate(function: Callable[..., Any]) -> Callable[[str], None]:
        @pytest.mark.parametrize("backend", BACKENDS)
        def test(backend: str) -> None:
            compiled = npc.compile(function, backend=backend, **options)
            for round in range(rounds):
                theirs, ours = given(function, inputs, round), given(function, inputs, round)
                same_run(compiled, ours, function, theirs, ulp if backend != "cuda" else 64 * ulp)  # sums in another order
                if arrays:
                    plain = [a.detach().numpy() if isinstance(a, Tensor) else a for a in given(function, inputs, round)]
                    same_values(function(*given(function, inputs, round)), function(*plain), ulp)
            count(compiled, graphs, breaks)

        test.__name__, test.__doc__ = function.__name__, function.__doc__
        test.sample = Sample(function, inputs)  # type: ignore[attr-defined]
        return test

    return decorate


def given(function: Callable[..., Any], inputs: tuple[Any, ...], round: int) -> list[Any]:
    names = list(inspect.signature(function).parameters)
    made = [i(round) if isinstance(i, types.FunctionType) else i for i in inputs]
    return made + [leaf(default_input(n, round)) for n in names[len(made) :]]


def count(compiled: Any, graphs: int | None, breaks: int | None = None) -> None:
    """How many programs were compiled, not counting those of gradients, and how many breaks there are."""
    known = compiled_function(compiled)
    assert known is not None
    made = [g for g, _ in known.graphs if not g.name.endswith("_backward")]
    assert graphs is None or len(made) == graphs, f"{len(made)} graphs: {describe(known)}"
    assert breaks is None or len(known.breaks) == breaks, describe(known)


def same_run(compiled: Any, ours: list[Any], function: Any, theirs: list[Any], ulp: int = 64) -> None:
    """The same results, or the same exception; then the same gradients of everything."""
    try:
        expected = function(*theirs)
    except Exception as error:
        with pytest.raises(type(error)):
            compiled(*ours)
        same(ours, theirs, ulp)
        return
    result = compiled(*ours)
    same(result, expected, ulp)
    same(ours, theirs, ulp)
    same_identity(result, ours, expected, theirs)
    assert repr(backward(result)) == repr(backward(expected))
    same(ours, theirs, ulp)


def same_identity(result: Any, ours: list[Any], expected: Any, theirs: list[Any]) -> None:
    """Results that are arguments, or share memory with them, do so in both runs."""
    given, wanted = list(parts(ours)), list(parts(theirs))
    for a, b in zip(parts(result), parts(expected)):
        assert [a is x for x in given] == [b is x for x in wanted]
        assert [np.may_share_memory(data(a), data(x)) for x in given] == [np.may_share_memory(data(b), data(x)) for x in wanted]


def data(x: Any) -> Any:
    return x._data if isinstance(x, Tensor) else x


def parts(value: Any) -> Iterator[Any]:
    """The arrays and Tensors in a value."""
    if isinstance(value, (Tensor, np.ndarray)):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from parts(v)
    elif isinstance(value, dict):
        yield from parts(list(value.values()))
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType)):
        yield from parts(vars(value))


def same(ours: Any, theirs: Any, ulp: int = 64) -> None:
    """The same types, values, and what is known of gradients."""
    if isinstance(theirs, Tensor):
        assert type(ours) is Tensor, f"{type(ours)} instead of a Tensor: {ours!r}"
        compare_any(ours._data, theirs._data, ulp)
        assert (ours.requires_grad, ours.is_leaf) == (theirs.requires_grad, theirs.is_leaf), (ours, theirs)
        if theirs.is_leaf:
            same_gradient(ours.grad, theirs.grad)
    elif isinstance(theirs, dict):
        assert type(ours) is type(theirs) and list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key], ulp)
    elif isinstance(theirs, (tuple, list)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs):
            same(a, b, ulp)
    elif hasattr(theirs, "__dict__") and not isinstance(theirs, (type, types.FunctionType)):
        assert type(ours) is type(theirs)
        same(vars(ours), vars(theirs), ulp)
    else:
        compare_any(ours, theirs, ulp)


def same_gradient(ours: Any, theirs: Any) -> None:
    """Both None, or Tensors that are equal but for rounding: terms are added in another order."""
    assert type(ours) is type(theirs), (ours, theirs)
    if theirs is not None:
        a, b = ours._data, theirs._data
        assert (a.dtype, a.shape, ours.requires_grad) == (b.dtype, b.shape, theirs.requires_grad)
        scale = float(np.abs(b[np.isfinite(b)]).max(initial=1e-300))
        np.testing.assert_allclose(a, b, rtol=0, atol=1024 * float(np.finfo(b.dtype).eps) * scale)


def same_values(ours: Any, theirs: Any, ulp: int = 64) -> None:
    """Tensors with the values of NumPy's arrays and scalars."""
    if isinstance(theirs, (np.ndarray, np.generic)):
        compare_any(np.asarray(data(ours)), np.asarray(theirs), ulp)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same_values(a, b, ulp)
    else:
        compare_any(ours, theirs, ulp)


def backward(result: Any) -> Exception | None:
    """Gradients of all results together, each element with a weight of its own. The error, where there is one."""
    total: Any = None
    for k, part in enumerate(parts(result)):
        if isinstance(part, Tensor) and part.requires_grad and part.size:
            weights = npc.tensor(np.cos(np.arange(part.size) + k).reshape(part.shape).astype(part.dtype), device=part.device)
            total = (part * weights).sum() if total is None else total + (part * weights).sum()
    if total is not None:
        try:
            (total if total.dtype.kind == "f" else total.real).backward()
        except RuntimeError as error:
            return error
    return None
