"""Time loops for peers that would unroll a Python loop: the step is theirs, the loop JAX's or Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.case import Function

Step = Callable[..., Any]  # a state's arrays to the next state's; one array alone, several as a tuple


def jax_steps(step: Step) -> Function:
    """f(*state, steps) as one program, with lax.fori_loop."""
    from jax import lax

    def run(*arguments: Any) -> Any:
        *state, steps = arguments
        if len(state) == 1:
            return lax.fori_loop(0, steps, lambda _, x: step(x), state[0])
        return lax.fori_loop(0, steps, lambda _, s: step(*s), tuple(state))

    return run


def torch_steps(step: Step) -> Function:
    """f(*state, steps): torch compiles the step, Python repeats it."""
    import torch

    compiled = torch.compile(step)

    def run(*arguments: Any) -> Any:
        *state, steps = arguments
        for _ in range(steps):
            answer = compiled(*state)
            state = answer if isinstance(answer, tuple) else (answer,)
        return state[0] if len(state) == 1 else tuple(state)

    return run
