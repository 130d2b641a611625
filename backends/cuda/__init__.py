"""The CUDA backend: generated Triton kernels, launched through CuPy. Neither is imported before a graph is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npcompile.backends.registry import CompiledGraph, register_backend
from npcompile.tensor_core.graph import Graph


def compile_cuda(graph: Graph, example_inputs: Sequence[Any] = ()) -> CompiledGraph:
    """Compile `graph` for the current CUDA device: see `backend.compile_cuda`. Raises NoDevice."""
    from npcompile.backends.cuda import backend  # here: most programs never need it

    return backend.compile_cuda(graph, example_inputs)


def require_device() -> None:
    """Raises NoDevice, a RuntimeError that says what is missing, where no CUDA device can be used."""
    from npcompile.backends.cuda import device

    device.current_device()


register_backend("cuda", compile_cuda)
