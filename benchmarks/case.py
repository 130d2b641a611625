"""What is measured: a plain NumPy function, its inputs, and the rewrites that peers need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Function = Callable[..., Any]
Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Target:
    """A bound to meet: a speed-up over the best peer, a multiple of NumPy's time, or seconds."""

    against: Literal["best peer", "numpy", "seconds"]
    bound: float

    def __str__(self) -> str:
        match self.against:
            case "best peer":
                return f"≥ {self.bound:g}x best peer"
            case "numpy":
                return f"≤ {self.bound:g}x NumPy"
            case "seconds":
                return f"≤ {self.bound:g} s"

    def got(self, own: float, numpy: float | None, peers: Mapping[str, float]) -> float | None:
        """The figure to hold against `bound`. None when there is nothing to compare with."""
        match self.against:
            case "best peer":
                return min(peers.values()) / own if peers else None
            case "numpy":
                return own / numpy if numpy else None
            case "seconds":
                return own

    def is_met(self, figure: float) -> bool:
        return figure >= self.bound if self.against == "best peer" else figure <= self.bound


@dataclass(frozen=True)
class Case:
    name: str
    title: str  # with the sizes
    function: Function  # what NumPy, npcompile and torch.compile take as it is
    inputs: Callable[[np.random.Generator], Inputs]
    target: Target | None = None
    # Per peer, a function that makes its version. None where the peer cannot say it. Without an entry numba takes
    # `function` as it is, JAX takes it with `np` meaning jax.numpy, and numexpr takes no part.
    rewrites: Mapping[str, Callable[[], Function] | None] = field(default_factory=dict)
    relative_error: float = 1e-11  # allowed between a peer's answer and NumPy's
    mutates: tuple[int, ...] = ()  # inputs that the function changes: each call gets fresh copies, and gives them back too
