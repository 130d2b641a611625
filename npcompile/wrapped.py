"""NumPy functions on Tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from npcompile.compiler import caller, captured, compile, original
from npcompile.conversions import to_arrays, to_tensors
from npcompile.tensor_core.tensors.dispatch import SURFACE
from npcompile.tracer.arrays import rehosted
from npcompile.tracer.bytecode.tracebacks import hide_frames
from npcompile.tracer.variant import GraphBreakError


def call_on_tensors(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A NumPy function that is written in Python, called with Tensors: captured like a user's function."""
    entry = _on_tensors.get(function)
    if entry is None:
        entry = _on_tensors[function] = captured(caller(function))
    running = _RUNNING.get()
    if function in running:  # the compiled function has run NumPy's: for a warning, or where data decides otherwise
        return function._implementation(*args, **kwargs)
    token = _RUNNING.set(running | {function})
    try:
        return entry(*args, **kwargs)
    except GraphBreakError as error:
        raise RuntimeError(
            f"np.{function.__name__} has no gradient with these arguments: {error}. Use x.detach() where none is needed."
        ) from None
    finally:
        _RUNNING.reset(token)


_RUNNING: ContextVar[frozenset[Any]] = ContextVar("_RUNNING", default=frozenset())  # NumPy's functions being called so
_on_tensors: dict[Any, Callable[..., Any]] = {}
SURFACE.capture_call = call_on_tensors
rehosted.register()


def wrap_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function on Tensors that runs the NumPy code of `function`: Tensors in, Tensors out.

    Inside, the Tensors are ndarrays (of the same memory, nothing is copied), so the code means what it means in NumPy.
    Every ndarray that it returns, alone or in tuples, lists and dicts, comes back as a Tensor; NumPy scalars as 0-D
    Tensors. Compiled with `compile`, gradients flow through it. Calling it uncompiled compiles it. With Tensors on a device
    it runs on that device, where its results are.

    Where a graph breaks, arrays leave the graph and lose their gradient: `backward()` then raises RuntimeError, naming
    the break. `compile(wrap_numpy(f), fullgraph=True)` raises at the break instead. Where it breaks as data decide a size,
    the function runs on Tensors, and keeps its gradients.

    >>> import numpy as np, npcompile as npc
    >>> x = npc.tensor([0.0, 1.0], requires_grad=True)
    >>> wrap_numpy(lambda x: np.sum(x * x))(x).backward()
    >>> x.grad
    Tensor([0., 2.])
    """

    function = original(function)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return to_tensors(function(*to_arrays(args), **to_arrays(kwargs)), (args, kwargs))

    wrapped.records = True  # type: ignore[attr-defined]  # run as it is, it records what gradients need
    entry: Callable[..., Any] | None = None

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        nonlocal entry
        if entry is None:
            entry = compile(wrapped)
        try:
            return entry(*args, **kwargs)
        except BaseException:
            hide_frames()
            raise

    compiled.__npcompile_wrapped__ = wrapped  # type: ignore[attr-defined]
    wrapped.outside = compiled  # type: ignore[attr-defined]
    return compiled
