"""Functions compiled by a backend, called on arrays of any size and of several layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from npcompile.backends.cpu.primitives import is_native
from npcompile.backends.registry import find_backend
from npcompile.tensor_core import Builder, TensorMeta


def spaced(x: np.ndarray) -> np.ndarray:
    wide = np.zeros(3 * len(x), x.dtype)
    wide[::3] = x
    return wide[::3]


# How an array lies in memory: items from one element to the next, and how to make such an array.
LAYOUTS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "contiguous": (1, np.ascontiguousarray),
    "strided": (3, spaced),
    "reversed": (-1, lambda x: np.ascontiguousarray(x[::-1])[::-1]),
}


class Kernels:
    """One program for each layout, which holds all of `calls`: ufuncs and the dtypes of their operands.

    Sizes are symbolic, so that one program is run on arrays of every length.
    """

    def __init__(
        self, calls: Sequence[tuple[str, tuple[np.dtype, ...]]], backend: str = "cpu", checks: frozenset[str] = frozenset()
    ):
        self.calls, self.backend, self.checks = calls, backend, checks
        self.programs: dict[str, Callable] = {}

    def program(self, layout: str, inputs: Sequence[np.ndarray] = ()) -> Callable:
        if layout not in self.programs:
            builder = Builder()
            n = builder.env.symbol("n", 100, at_least=2)
            outputs = []
            for name, dtypes in self.calls:
                metas = [TensorMeta((n,), d, (LAYOUTS[layout][0] * d.itemsize,)) for d in dtypes]
                outputs.append(builder.apply(name, *map(builder.input, metas)))
            graph = replace(builder.finish(outputs), checks=self.checks)
            self.programs[layout] = find_backend(self.backend)(graph, inputs)
        return self.programs[layout]

    def __call__(self, arguments: Sequence[Sequence[np.ndarray]], layout: str = "contiguous") -> list[np.ndarray]:
        """The result of each call for its arguments, all of which have one length."""
        place = LAYOUTS[layout][1]
        inputs = [place(x) for xs in arguments for x in xs]
        return [np.asarray(out) for out in self.program(layout, inputs)(*inputs, len(inputs[0]))]


def is_compiled(call: tuple[str, tuple[np.dtype, ...]], backend: str = "cpu") -> bool:
    """Does the backend compute this function itself? On the CPU, what is not printed in C is NumPy's own loop."""
    if backend != "cpu":
        return True
    builder = Builder()
    name, dtypes = call
    return is_native(builder.apply(name, *(builder.input(TensorMeta((2,), d)) for d in dtypes)))
