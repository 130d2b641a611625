"""`device`: where compiled functions run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from npcompile.backends import own
from npcompile.backends.loop_ir.native import CompileCallback, CompileGradient, PrintResuming
from npcompile.backends.registry import DEVICES, Backend, CompiledGraph, abilities_of, compiled_graph, devices_of
from npcompile.backends.together import Steps, at_once
from npcompile.tensor_core.context import set_within
from npcompile.tensor_core.costs import Costs
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.tensors.devices import CURRENT, HOST

compile_host = own.HOST
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
    if name != HOST:
        if (devices := devices_of(name)) is None:
            known = ", ".join(f'"{kind}"' for kind in (HOST, *sorted(DEVICES)))
            raise ValueError(f"unknown device {name!r}: choose one of {known}, or one of several by its number after a colon")
        devices.require(name)
        if not _in_use:
            _in_use.append(name)
            for call in before_first_use:
                call()
    with set_within(CURRENT, name):
        yield


def current_name() -> str:
    """The device that is chosen here: the host outside of `with device(...)`."""
    return CURRENT.get()


def placed(backend: Backend) -> Backend:
    """The CPU's backend as one whose graphs run where `device` says; any other backend itself."""
    return compile_placed if backend is compile_host else backend


def has_loops(backend: Backend) -> bool:
    """Are loops over single elements of NumPy's arrays compiled for it, beside graphs?"""
    return abilities_of(compile_host if backend is compile_placed else backend).has_loops


def begin(backend: Backend) -> None:
    """A first graph is coming: what it needs of this machine is made beside."""
    if (make := abilities_of(compile_host if backend is compile_placed else backend).begin) is not None:
        make()


def runs_on_host_alone(backend: Backend) -> bool:
    """Is it the host's own, with no device in use that `device` might move arrays to?"""
    return backend in (compile_host, compile_placed) and not _in_use


def compile_placed(graph: Graph, example_inputs: Sequence[Any] = (), mode: str = "default") -> CompiledGraph:
    if not _in_use or graph.accuracy == "bitwise":
        return compile_host(graph, example_inputs)
    made: dict[str, CompiledGraph] = {}

    def compiled() -> CompiledGraph:
        name = CURRENT.get()
        if name not in made:
            devices = devices_of(name)
            made[name] = devices.compile_named(graph, name, mode) if devices else compile_host(graph, example_inputs)
        return made[name]

    first = compiled()
    return CompiledGraph(lambda *args: compiled().call(*args), first.generated, first.kernels, first.seconds, passes=first.passes)


def compile_here(backend: Backend, graph: Graph, mode: str, examples: Sequence[Any] = ()) -> Any:
    """Compile a graph of NumPy's arrays. The mode is for graphs that run on a device, the examples for the user's backends."""
    if backend is compile_placed:
        return compile_placed(graph, examples, mode)
    devices = abilities_of(backend).devices
    if devices is not None and graph.accuracy == "bitwise":
        return compile_host(graph, examples)
    return backend(graph, examples) if devices is None else devices.compile(graph, examples, mode)


def compiling_here(backend: Backend, graph: Graph, mode: str, examples: Sequence[Any] = ()) -> Steps[CompiledGraph]:
    """The same in steps, where the backend has such."""
    is_host = backend is compile_placed and (not _in_use or graph.accuracy == "bitwise")
    compiling = abilities_of(compile_host if is_host else backend).compiling
    return compiling(graph) if compiling else at_once(lambda: compiled_graph(compile_here(backend, graph, mode, examples)))


def loop_gradients() -> CompileGradient | None:
    """What makes native functions of gradients of loops here: the host's, where no device is chosen."""
    return abilities_of(compile_host).compile_gradient if CURRENT.get() == HOST else None


def graph_costs(graph: Graph) -> Costs:
    """What a graph computes and moves on the host."""
    costs = abilities_of(compile_host).costs
    assert costs is not None
    return costs(graph)


def host_programs() -> CompileGradient:
    """What makes native functions of programs that abort: the host's, wherever functions run."""
    found = abilities_of(compile_host).compile_gradient
    assert found is not None
    return found


def callbacks() -> CompileCallback:
    """What makes functions of C: the host's."""
    found = abilities_of(compile_host).compile_callback
    assert found is not None
    return found


def loop_units(backend: Backend) -> PrintResuming | None:
    """What makes units of programs of the loop IR that Python may go on with."""
    return abilities_of(compile_host if backend is compile_placed else backend).loop_unit


def compile_there(
    backend: Backend, graph: Graph, kind: str, number: int, mode: str = "default", examples: Sequence[Any] = ()
) -> Any:
    """Compile a graph whose arrays are on the device of this kind and number, for that device: what it computes stays there.

    The host's backend means the device's. Other backends take NumPy's arrays: copies are moved there and back. So they are where
    NumPy's bits are asked for, which the host alone can give.
    """
    devices = devices_of(kind)
    assert devices is not None, kind
    is_own = backend in (compile_host, compile_placed, DEVICES[kind])
    if is_own and graph.accuracy != "bitwise":
        return devices.compile_on(graph, number, mode)
    return compile_on_copies((compile_host if is_own else backend)(graph, examples), graph, kind, number)


def compile_on_copies(call: Any, graph: Graph, kind: str, number: int) -> Any:
    """What runs on copies on the host, of arrays of the device of this kind and number."""
    devices = devices_of(kind)
    assert devices is not None, kind
    return devices.copying(call, graph, number)
