"""Who takes part, and how each makes a call of a program on arrays of the device."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cuda.clock import Timed, cupy_clock, jax_clock, torch_clock
from benchmarks.cuda.programs import Inputs, Program
from benchmarks.training.sides import with_numpy


@dataclass(frozen=True)
class Side:
    name: str
    requires: str
    prepare: Callable[[Program, Inputs], tuple[Timed, Callable[[Any], np.ndarray]]]  # and how a result is read
    is_peer: bool = True

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.requires) is not None


def by_cupy(call: Callable[..., Any], inputs: Inputs) -> tuple[Timed, Callable[[Any], np.ndarray]]:
    import cupy

    given = [cupy.asarray(x) for x in inputs]
    clock = cupy_clock(cupy)
    return Timed(lambda: call(*given), clock, lambda _: clock.synchronize()), cupy.asnumpy


def npcompile(mode: str) -> Callable[[Program, Inputs], Any]:
    def prepare(program: Program, inputs: Inputs) -> Any:
        import npcompile as npc

        return by_cupy(npc.compile(program.function, mode=mode), inputs)

    return prepare


def cupy_eager(program: Program, inputs: Inputs) -> Any:
    import cupy

    return by_cupy(with_numpy(program.function, cupy), inputs)


def cupy_fuse(program: Program, inputs: Inputs) -> Any:
    import cupy

    if not program.is_fusible:
        raise NotImplementedError("cupy.fuse does not take it")
    return by_cupy(cupy.fuse()(with_numpy(program.function, cupy)), inputs)


def copy(program: Program, inputs: Inputs) -> Any:
    """The first input alone, copied to other memory."""
    import cupy

    source = cupy.asarray(inputs[0])
    target = cupy.empty_like(source)
    clock = cupy_clock(cupy)
    return Timed(lambda: cupy.copyto(target, source), clock, lambda _: clock.synchronize()), None


def by_torch(call: Callable[..., Any], inputs: Inputs) -> tuple[Timed, Callable[[Any], np.ndarray]]:
    import torch

    given = [torch.as_tensor(x, device="cuda") for x in inputs]
    clock = torch_clock(torch)
    return Timed(lambda: call(*given), clock, lambda _: clock.synchronize()), lambda result: result.cpu().numpy()


def torch_eager(program: Program, inputs: Inputs) -> Any:
    import torch

    return by_torch(lambda *xs: program.torch(torch, *xs), inputs)


def torch_compiled(program: Program, inputs: Inputs) -> Any:
    import torch

    return by_torch(torch.compile(lambda *xs: program.torch(torch, *xs)), inputs)


def torch_wrapped(program: Program, inputs: Inputs) -> Any:
    """The NumPy function itself, by torch's own wrap_numpy."""
    import torch

    return by_torch(torch.compile(torch.compiler.wrap_numpy(program.function)), inputs)


def jax_jitted(program: Program, inputs: Inputs) -> Any:
    import jax
    import jax.numpy

    jax.config.update("jax_enable_x64", True)
    given = [jax.numpy.asarray(x) for x in inputs]
    call = jax.jit(with_numpy(program.function, jax.numpy))
    return Timed(lambda: call(*given), jax_clock(jax), jax.block_until_ready), np.asarray


SIDES = (
    Side("npcompile", "cupy", npcompile("default"), is_peer=False),
    Side("npcompile, reduce-overhead", "cupy", npcompile("reduce-overhead"), is_peer=False),
    Side("copy", "cupy", copy, is_peer=False),
    Side("CuPy", "cupy", cupy_eager),
    Side("CuPy fuse", "cupy", cupy_fuse),
    Side("torch", "torch", torch_eager),
    Side("torch.compile", "torch", torch_compiled),
    Side("torch.compile, wrap_numpy", "torch", torch_wrapped),
    Side("JAX", "jax", jax_jitted),
)
