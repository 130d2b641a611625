"""Who takes part: for each side, how a case becomes a callable and its inputs that side's arrays."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from benchmarks.case import Case, Function, Inputs


@dataclass(frozen=True)
class Side:
    """One contestant. `prepare` gives a function of no arguments that does one call and waits for its answer."""

    name: str
    requires: str  # the distribution's import name
    prepare: Callable[[Case, Inputs], Callable[[], Any] | None]
    is_peer: bool = True

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.requires) is not None


class ChangingCall:
    """A call that changes some of its inputs: they are restored before it, and are its answer after what it returns."""

    def __init__(self, function: Function, inputs: Inputs, mutates: tuple[int, ...]) -> None:
        self.function = function
        self.own = [x.copy() if i in mutates else x for i, x in enumerate(inputs)]
        self.changed = tuple(self.own[i] for i in mutates)
        self.before = tuple(inputs[i] for i in mutates)

    def restore(self) -> None:
        for own, before in zip(self.changed, self.before):
            own[...] = before

    def __call__(self) -> Any:
        self.restore()
        result = self.function(*self.own)
        return self.changed if result is None else (result, *self.changed)

    def seconds(self, count: int, clock: Callable[[], float]) -> float:
        """Of one call, without what restoring takes."""
        total = 0.0
        for _ in range(count):
            self.restore()
            began = clock()
            self.function(*self.own)
            total += clock() - began
        return total / count


def rewrite(case: Case, side: str, otherwise: Function | None) -> Function | None:
    if side not in case.rewrites:
        return otherwise
    make = case.rewrites[side]
    return make() if make else None


def call_on(function: Function | None, inputs: Inputs, mutates: tuple[int, ...] = ()) -> Callable[[], Any] | None:
    if function is None:
        return None
    return ChangingCall(function, inputs, mutates) if mutates else lambda: function(*inputs)


def numpy_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    return call_on(case.function, inputs, case.mutates)


def npcompile_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    import npcompile

    with contextlib.suppress(AttributeError):  # a checkout from before that setting compiles everything
        npcompile.config.tiers = "always"  # what is compiled is measured
    return call_on(npcompile.compile(case.function), inputs, case.mutates)


def numba_side(
    case: Case, inputs: Inputs, fastmath: bool = False, cache: bool = False, parallel: bool = True
) -> Callable[[], Any] | None:
    import numba

    function = rewrite(case, "numba", case.function)
    if function is None:
        return None
    return call_on(numba.njit(parallel=parallel, fastmath=fastmath, cache=cache)(function), inputs, case.mutates)


def numba_fastmath_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    return numba_side(case, inputs, fastmath=True)


def numexpr_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    return call_on(rewrite(case, "numexpr", None), inputs)


def renamed(function: Function, **names: Any) -> FunctionType:
    """The same code with other global names."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, closure=function.__closure__)


def jax_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    """float64 on, inputs already JAX arrays, Python's integers constants."""
    import jax
    import jax.numpy

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")  # as all sides, where there is a GPU too
    own = renamed(case.function, np=jax.numpy)
    own.__globals__[own.__name__] = own  # where it calls itself
    function = rewrite(case, "jax", own)
    if not function:
        return None
    compiled = jax.jit(function, static_argnums=[i for i, x in enumerate(inputs) if isinstance(x, int)])
    arrays = tuple(jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs)
    return lambda: jax.block_until_ready(compiled(*arrays))


def torch_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    import torch

    torch.compiler.reset()  # another size is another program, not one for all sizes
    function = rewrite(case, "torch", None) if "torch" in case.rewrites else torch.compile(case.function)
    return call_on(function, inputs, case.mutates)


SIDES = (
    Side("NumPy", "numpy", numpy_side, is_peer=False),
    Side("npcompile", "npcompile", npcompile_side, is_peer=False),
    Side("numba", "numba", numba_side),
    Side("numba fastmath", "numba", numba_fastmath_side),
    Side("numexpr", "numexpr", numexpr_side),
    Side("JAX", "jax", jax_side),
    Side("torch.compile", "torch", torch_side),
)
