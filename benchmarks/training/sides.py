"""Who takes part: for each side, how a program becomes a step, and how its parameters are read."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from benchmarks.training.program import Data, Parameters, Program


@dataclass(frozen=True)
class Step:
    """`run()` does one step and waits for it; `results()` are the parameters, or the gradients, after the last one."""

    run: Callable[[], Any]
    results: Callable[[], Parameters]


@dataclass(frozen=True)
class Side:
    name: str
    requires: str  # the distribution's import name
    prepare: Callable[[Program, Parameters, Data], Step]

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.requires) is not None


def npcompile_forward(program: Program, parameters: Parameters, data: Data) -> Step:
    """The loss alone."""
    import npcompile as npc

    loss = npc.compile(program.loss)
    return Step(lambda: loss(parameters, *data), dict)


def npcompile_arrays(program: Program, parameters: Parameters, data: Data) -> Step:
    import npcompile as npc

    value_and_grad, rate = npc.value_and_grad(program.loss), program.rate

    @npc.compile
    def gradients(parameters, *data):
        return value_and_grad(parameters, *data)

    @npc.compile
    def update(parameters, *data):
        value, gradient = value_and_grad(parameters, *data)
        for name, p in parameters.items():
            p -= rate * gradient[name]
        return value

    if rate is not None:
        return Step(lambda: update(parameters, *data), lambda: parameters)
    found: Parameters = {}
    return Step(lambda: found.update(gradients(parameters, *data)[1]), lambda: found)


def npcompile_tensors(program: Program, parameters: Parameters, data: Data, device: str = "cpu", mode: str = "default") -> Step:
    import npcompile as npc

    loss, rate = program.loss, program.rate
    leaves = {name: npc.tensor(x, device=device, requires_grad=True) for name, x in parameters.items()}
    given = tuple(npc.from_numpy(x).to(device) for x in data)

    @npc.compile(mode=mode)
    def gradients(leaves, *data):
        value = loss(leaves, *data)
        value.backward()
        return value

    @npc.compile(mode=mode)
    def update(leaves, *data):
        value = loss(leaves, *data)
        value.backward()
        with npc.no_grad():
            for p in leaves.values():
                p -= rate * p.grad
                p.grad = None
        return value

    def run_gradients() -> None:
        for p in leaves.values():
            p.grad = None
        gradients(leaves, *given)

    if rate is not None:
        return Step(lambda: update(leaves, *given), lambda: {k: p.detach().numpy() for k, p in leaves.items()})
    return Step(run_gradients, lambda: {k: p.grad.numpy() for k, p in leaves.items()})


def torch_eager(program: Program, parameters: Parameters, data: Data, device: str = "cpu") -> Step:
    return torch_step(program, parameters, data, lambda f: f, device)


def torch_compiled(program: Program, parameters: Parameters, data: Data, device: str = "cpu") -> Step:
    """The loss, its backward pass and the optimizer's step, each compiled: the form that torch's documentation gives."""
    import torch

    return torch_step(program, parameters, data, torch.compile, device)


def torch_step(program: Program, parameters: Parameters, data: Data, compiled: Callable[..., Any], device: str) -> Step:
    import torch

    leaves = {name: torch.tensor(x, device=device, requires_grad=True) for name, x in parameters.items()}
    given = tuple(torch.tensor(x, device=device) for x in data)
    loss = compiled(program.torch_loss)
    optimizer = None if program.rate is None else torch.optim.SGD(leaves.values(), lr=program.rate, foreach=True)
    update = None if optimizer is None else compiled(lambda: optimizer.step())

    def run() -> None:
        for p in leaves.values():
            p.grad = None
        loss(leaves, *given).backward()
        if update is not None:
            update()

    if optimizer is None:
        return Step(run, lambda: {k: p.grad.cpu().numpy() for k, p in leaves.items()})
    return Step(run, lambda: {k: p.detach().cpu().numpy() for k, p in leaves.items()})


def torch_function(program: Program, parameters: Parameters, data: Data, device: str = "cpu") -> Step:
    """The whole step as one compiled function, by torch.func."""
    import torch

    leaves, rate = {name: torch.tensor(x, device=device) for name, x in parameters.items()}, program.rate
    given = tuple(torch.tensor(x, device=device) for x in data)
    grad_and_value = torch.func.grad_and_value(program.torch_loss)

    @torch.compile
    def step(leaves, *data):  # type: ignore[no-untyped-def]
        gradient, value = grad_and_value(leaves, *data)
        if rate is None:
            return gradient, value
        for name, p in leaves.items():
            p.sub_(gradient[name], alpha=rate)
        return None, value

    found: dict[str, Any] = {}

    def run() -> None:
        with torch.no_grad():
            gradient, _ = step(leaves, *given)
        found.update(gradient or {})

    return Step(run, lambda: {k: x.cpu().numpy() for k, x in (leaves if rate is not None else found).items()})


def jax_step(program: Program, parameters: Parameters, data: Data) -> Step:
    """float64 on, inputs already JAX arrays, parameters given away to the step."""
    import jax
    import jax.numpy

    jax.config.update("jax_enable_x64", True)
    rate, loss = program.rate, with_numpy(program.loss, jax.numpy)
    given = tuple(map(jax.numpy.asarray, data))
    state = {"p": {k: jax.numpy.array(x) for k, x in parameters.items()}, "g": None}

    def step(parameters, *data):  # type: ignore[no-untyped-def]
        value, gradient = jax.value_and_grad(loss)(parameters, *data)
        if rate is None:
            return gradient, value
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradient), value

    compiled = jax.jit(step, donate_argnums=() if rate is None else (0,))
    kept = "g" if rate is None else "p"

    def run() -> None:
        state[kept], value = compiled(state["p"], *given)
        jax.block_until_ready((state[kept], value))

    return Step(run, lambda: {k: np.asarray(x) for k, x in state[kept].items()})  # type: ignore[union-attr]


def with_numpy(function: Any, numpy: Any) -> Any:
    """The function, and those of these modules that it calls, with `np` meaning another module."""
    names = {"np": numpy}
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        if isinstance(called, FunctionType) and called.__module__ == function.__module__:
            names[name] = with_numpy(called, numpy)
    return FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, None, function.__closure__)


SIDES = (
    Side("npcompile loss alone", "npcompile", npcompile_forward),
    Side("npcompile", "npcompile", npcompile_arrays),
    Side("npcompile Tensors", "npcompile", npcompile_tensors),
    Side("torch eager", "torch", torch_eager),
    Side("torch.compile", "torch", torch_compiled),
    Side("torch.compile, torch.func", "torch", torch_function),
    Side("JAX", "jax", jax_step),
)
