"""What a gradient is compared with: differences of the program, and JAX running the program's own source."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.gradients.program import Program

STEP = 1e-4
# What JAX computes is asked for once: its compiler's time is most of it. (It reads this when it first compiles.)
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")


def differences(function: Callable[..., Any], arguments: tuple[Any, ...], argnum: int) -> Any:
    """The gradient by central differences of fourth order; of complex z = x + iy, dL/dx - i dL/dy."""
    x = np.array(arguments[argnum])

    def slope(place: tuple[int, ...], step: complex) -> float:
        def at(distance: int) -> float:
            moved = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
            other = x.copy()
            other[place] += distance * step
            moved[argnum] = other if x.ndim else other[()]
            return float(function(*moved))

        return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * abs(step))

    found = np.empty_like(x)
    for place in np.ndindex(x.shape):
        found[place] = slope(place, STEP)
        if x.dtype.kind == "c":
            found[place] -= 1j * slope(place, 1j * STEP)
    return found


@functools.cache
def in_jax(module: ModuleType) -> ModuleType:
    """The module again, with jax.numpy as its `np`."""
    import jax.numpy

    spec = importlib.util.spec_from_file_location(f"{module.__name__}_in_jax", module.__file__)
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    again.np = jax.numpy  # type: ignore[attr-defined]
    return again


def jax_gradients(module: ModuleType, program: Program, numbers: tuple[int, ...], given: tuple[Any, ...]) -> list[np.ndarray]:
    """As one program: JAX compiles each operation of what is not jitted."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    function = getattr(in_jax(module), (program.written or program.function).__name__)
    with jax.enable_x64():
        return [*map(np.asarray, jax.jit(jax.grad(function, numbers))(*given))]


def stacked(program: Program, seeds: range) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """The arguments for every seed, and all of them along a new first axis."""
    rounds = [program.make(np.random.default_rng(seed)) for seed in seeds]
    return rounds, [np.stack(column) for column in zip(*rounds)]
