"""A benchmark program: plain NumPy code, its inputs at three sizes, and what peers need changed to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.case import Case, Function

SIZES = ("small", "middle", "large")  # microseconds / 1 to 50 ms / 0.1 to 1 s, in NumPy
SEED = 20240229

# A function of no arguments that imports the peer and makes its version of the program; text says why there is none.
Version = Callable[[], Function] | str

UNROLLED = "unrolls the loop: minutes of compilation"
BY_ELEMENTS = "no loop over single elements"


@dataclass(frozen=True)
class Program:
    """`function` runs unmodified in NumPy and npcompile. A peer without a version runs it too, JAX with `np` as jax.numpy."""

    function: Function  # the first line of its docstring is its title
    inputs: Callable[..., tuple[Any, ...]]  # of a Generator and the numbers of one size
    sizes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # small, middle, large
    versions: Mapping[str, Version] = field(default_factory=dict)  # "numba", "jax", "torch"
    mutates: tuple[int, ...] = ()  # arguments that the program changes: every side's calls then begin with fresh copies
    relative_error: float = 1e-11  # of the answer's largest element
    unlike: float = 0.0  # share of the elements in which a peer may differ: counts of steps until a bound is crossed
    is_loop: bool = False  # its work is a loop that NumPy runs as Python
    is_chain: bool = False  # elementwise, mostly transcendental functions
    moved: Callable[..., int] | None = None  # bytes that must cross memory, where that is all that limits it

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def title(self) -> str:
        assert self.function.__doc__, f"{self.name} has no docstring"
        return self.function.__doc__.splitlines()[0].rstrip(".")

    @property
    def family(self) -> str:
        return self.function.__module__.rpartition(".")[2]

    def numbers(self, size: str) -> tuple[int, ...]:
        return self.sizes[SIZES.index(size)]

    def arguments(self, size: str) -> tuple[Any, ...]:
        """The same on every call, and in every process."""
        return self.inputs(np.random.default_rng(SEED), *self.numbers(size))

    def case(self, size: str) -> Case:
        numbers = self.numbers(size)
        return Case(
            self.name,
            f"{self.title}, {' x '.join(f'{n:,}' for n in numbers)}",
            self.function,
            lambda rng: self.inputs(rng, *numbers),
            rewrites={peer: None if isinstance(version, str) else version for peer, version in self.versions.items()},
            relative_error=self.relative_error,
            mutates=self.mutates,
        )

    def why_not(self, peer: str) -> str | None:
        """Why a peer takes no part, if it does not."""
        version = self.versions.get(peer)
        return version if isinstance(version, str) else None
