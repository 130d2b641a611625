"""Training steps on the device: the programs of `benchmarks.training`, with everything already there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cuda.clock import Timed, cupy_clock, jax_clock, torch_clock
from benchmarks.training import sides as cpu
from benchmarks.training.program import Data, Parameters, Program
from benchmarks.training.programs import ATTENTION, LOGISTIC, MLP, NORM


def sums_loss(p, y):
    return np.mean(np.sum(p["x"][:, :, None] * y[:, None, :], axis=(-2, -1)))


def torch_sums_loss(p: Any, y: Any) -> Any:
    import torch

    return torch.mean(torch.sum(p["x"][:, :, None] * y[:, None, :], (-2, -1)))


MEAN_OF_SUMS = Program(
    "mean of sums",
    "loss and gradient, mean(sum(x[:, :, None] * y[:, None, :], (-2, -1))), 1024x64 float64",
    sums_loss,
    torch_sums_loss,
    lambda rng: {"x": rng.standard_normal((1024, 64))},
    lambda rng: (rng.standard_normal((1024, 64)),),
    torch_bound=0.5,
)
PROGRAMS = (MEAN_OF_SUMS, NORM, LOGISTIC, MLP, ATTENTION)


def cupy_timed(step: cpu.Step) -> Timed:
    import cupy

    clock = cupy_clock(cupy)
    return Timed(step.run, clock, lambda _: clock.synchronize())


def torch_timed(step: cpu.Step) -> Timed:
    import torch

    clock = torch_clock(torch)
    return Timed(step.run, clock, lambda _: clock.synchronize())


def jax_timed(step: cpu.Step) -> Timed:
    import jax

    return Timed(step.run, jax_clock(jax), lambda _: None)  # the step waits itself


def exact_jax_step(program: Program, parameters: Parameters, data: Data) -> cpu.Step:
    """JAX rounds the operands of float32 products to 10 bits on such a device, unless it is told not to."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    return cpu.jax_step(program, parameters, data)


# name, what it needs, how a step is made, how it is timed
SIDES: tuple[tuple[str, str, Callable[..., cpu.Step], Callable[[cpu.Step], Timed]], ...] = (
    ("npcompile", "cupy", partial(cpu.npcompile_tensors, device="cuda"), cupy_timed),
    ("npcompile, reduce-overhead", "cupy", partial(cpu.npcompile_tensors, device="cuda", mode="reduce-overhead"), cupy_timed),
    ("torch", "torch", partial(cpu.torch_eager, device="cuda"), torch_timed),
    ("torch.compile", "torch", partial(cpu.torch_compiled, device="cuda"), torch_timed),
    ("torch.compile, torch.func", "torch", partial(cpu.torch_function, device="cuda"), torch_timed),
    ("JAX", "jax", exact_jax_step, jax_timed),
)
