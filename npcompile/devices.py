"""`device`: where compiled functions run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cuda import compile_cuda, require_device
from npcompile.backends.registry import Backend, CompiledGraph
from npcompile.tensor_core.graph import Graph

_in_use: list[str] = []  # empty while no graph has to ask where it is to run
before_first_use: list[Callable[[], None]] = []  # to forget graphs that do not ask
_current: ContextVar[str] = ContextVar("npcompile_device", default="cpu")


@contextmanager
def device(name: str) -> Iterator[None]:
    """Run functions compiled for the default backend on a device: "cuda", or "cpu".

    NumPy arrays are moved there and back, so the functions still take arrays and return arrays; a graph is compiled for
    the device when it first runs there. Where NumPy would raise a floating-point error, or turn its warning into one,
    NumPy runs; warnings of the device's own arithmetic are not seen. The first use in a process forgets what is compiled.

    Raises ValueError for another name, and RuntimeError, which says what is missing, where there is no CUDA device.

    Examples
    --------
    >>> with device("cpu"):
    ...     pass
    """
    if name not in ("cpu", "cuda"):
        raise ValueError(f'unknown device {name!r}: choose "cpu" or "cuda"')
    if name == "cuda":
        require_device()
        if not _in_use:
            _in_use.append(name)
            for call in before_first_use:
                call()
    token = _current.set(name)
    try:
        yield
    finally:
        _current.reset(token)


def placed(backend: Backend) -> Backend:
    """The CPU's backend as one whose graphs run where `device` says; any other backend itself."""
    return compile_placed if backend is compile_cpu else backend


def compile_placed(graph: Graph, example_inputs: Sequence[Any] = ()) -> CompiledGraph:
    if not _in_use:
        return compile_cpu(graph, example_inputs)
    compilers: dict[str, Any] = {"cpu": compile_cpu, "cuda": compile_cuda}
    made: dict[str, CompiledGraph] = {}

    def compiled() -> CompiledGraph:
        name = _current.get()
        if name not in made:
            made[name] = compilers[name](graph, example_inputs)
        return made[name]

    first = compiled()
    return CompiledGraph(lambda *args: compiled().call(*args), first.source, first.kernels, first.seconds)
