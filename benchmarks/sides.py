"""Who takes part: for each side, how a case becomes a callable and its inputs that side's arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

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


def rewrite(case: Case, side: str, otherwise: Function | None) -> Function | None:
    if side not in case.rewrites:
        return otherwise
    make = case.rewrites[side]
    return make() if make else None


def call_on(function: Function | None, inputs: Inputs) -> Callable[[], Any] | None:
    return (lambda: function(*inputs)) if function else None


def numpy_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    return call_on(case.function, inputs)


def npcompile_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    import npcompile

    return call_on(npcompile.compile(case.function), inputs)


def numba_side(case: Case, inputs: Inputs, fastmath: bool = False, cache: bool = False) -> Callable[[], Any] | None:
    import numba

    function = rewrite(case, "numba", case.function)
    return call_on(numba.njit(parallel=True, fastmath=fastmath, cache=cache)(function), inputs) if function else None


def numba_fastmath_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    return numba_side(case, inputs, fastmath=True)


def numexpr_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    return call_on(rewrite(case, "numexpr", None), inputs)


def jax_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    """float64 on, inputs already JAX arrays."""
    import jax
    import jax.numpy

    jax.config.update("jax_enable_x64", True)
    assert isinstance(case.function, FunctionType)
    renamed = FunctionType(case.function.__code__, {**case.function.__globals__, "np": jax.numpy}, case.function.__name__)
    function = rewrite(case, "jax", renamed)
    if not function:
        return None
    compiled, arrays = jax.jit(function), tuple(map(jax.numpy.asarray, inputs))
    return lambda: compiled(*arrays).block_until_ready()


def torch_side(case: Case, inputs: Inputs) -> Callable[[], Any] | None:
    import torch

    return call_on(torch.compile(case.function), inputs)


SIDES = (
    Side("NumPy", "numpy", numpy_side, is_peer=False),
    Side("npcompile", "npcompile", npcompile_side, is_peer=False),
    Side("numba", "numba", numba_side),
    Side("numba fastmath", "numba", numba_fastmath_side),
    Side("numexpr", "numexpr", numexpr_side),
    Side("JAX", "jax", jax_side),
    Side("torch.compile", "torch", torch_side),
)
