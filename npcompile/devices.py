"""`device`: where compiled functions run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cuda import compile_cuda, compile_named, compile_on, copying, require_device
from npcompile.backends.registry import Backend, CompiledGraph
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.tensors.devices import CURRENT

_in_use: list[str] = []  # empty while no graph has to ask where it is to run
before_first_use: list[Callable[[], None]] = []  # to forget graphs that do not ask


@contextmanager
def device(name: str) -> Iterator[None]:
    """Run functions compiled for the default backend on a device: "cuda", which is CuPy's current one, "cuda:1", or "cpu".

    NumPy arrays are moved there and back, so the functions still take arrays and return arrays; a graph is compiled for
    the device when it first runs there. Arrays and Tensors that are on a device already are not moved: functions called
    with them run where they are, whatever is said here. Where NumPy would raise a floating-point error, or turn its
    warning into one, NumPy runs; warnings of the device's own arithmetic are not seen. New Tensors are made on the device,
    unless their data is on another or their `device` is named. The first use in a process forgets what is compiled.

    Raises ValueError for another name, and RuntimeError, which says what is missing, where there is no such device.

    Examples
    --------
    >>> with device("cpu"):
    ...     pass
    """
    if name != "cpu":
        if name.partition(":")[0] != "cuda":
            raise ValueError(f'unknown device {name!r}: choose "cpu", "cuda" or, for one of several, "cuda:1"')
        require_device(name)
        if not _in_use:
            _in_use.append(name)
            for call in before_first_use:
                call()
    token = CURRENT.set(name)
    try:
        yield
    finally:
        CURRENT.reset(token)


def current_name() -> str:
    """The device that is chosen here: "cpu" outside of `with device(...)`."""
    return CURRENT.get()


def placed(backend: Backend) -> Backend:
    """The CPU's backend as one whose graphs run where `device` says; any other backend itself."""
    return compile_placed if backend is compile_cpu else backend


def runs_on_cpu(backend: Backend) -> bool:
    """Does the backend take NumPy's arrays where they are?"""
    return backend in (compile_cpu, compile_placed)


def runs_on_host_alone(backend: Backend) -> bool:
    """Does it take NumPy's arrays, with no device in use that `device` might move them to?"""
    return runs_on_cpu(backend) and not _in_use


def compile_placed(graph: Graph, example_inputs: Sequence[Any] = (), mode: str = "default") -> CompiledGraph:
    if not _in_use or graph.accuracy == "bitwise":
        return compile_cpu(graph, example_inputs)
    made: dict[str, CompiledGraph] = {}

    def compiled() -> CompiledGraph:
        name = CURRENT.get()
        if name not in made:
            made[name] = compile_cpu(graph, example_inputs) if name == "cpu" else compile_named(graph, name, mode)
        return made[name]

    first = compiled()
    return CompiledGraph(lambda *args: compiled().call(*args), first.source, first.kernels, first.seconds, passes=first.passes)


def compile_here(backend: Backend, graph: Graph, mode: str) -> Any:
    """Compile a graph of NumPy's arrays. The mode is for graphs that run on a device."""
    examples = [None] * len(graph.inputs)
    if backend is compile_placed:
        return compile_placed(graph, examples, mode)
    if backend is compile_cuda and graph.accuracy == "bitwise":
        return compile_cpu(graph, examples)
    return compile_cuda(graph, examples, mode) if backend is compile_cuda else backend(graph, examples)


def compile_there(backend: Backend, graph: Graph, number: int, mode: str = "default") -> Any:
    """Compile a graph whose arrays are on the CUDA device of this number, for that device: what it computes stays there.

    The CPU's backend means the device's. Other backends take NumPy's arrays: copies are moved there and back. So they are where
    NumPy's bits are asked for, which the CPU alone can give.
    """
    is_own = backend in (compile_cpu, compile_placed, compile_cuda)
    if is_own and graph.accuracy != "bitwise":
        return compile_on(graph, number, mode)
    return copying((compile_cpu if is_own else backend)(graph, ()), graph, number)
