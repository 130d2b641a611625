"""Backends by name, and what every backend returns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from npcompile.backends.loop_ir.native import DeviceProgram
from npcompile.backends.passes import Pass
from npcompile.backends.together import Steps
from npcompile.tensor_core.costs import Costs
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.loop_ir.ops import Program


class FloatingPointSignal(Exception):
    """A graph met a floating-point error that np.errstate does not ignore.

    Inputs in `Graph.restored` hold what they held before the call; others in `Graph.writes` may be overwritten. The
    caller runs the program again with NumPy, which warns or raises at the right line.
    """


class NoDevice(RuntimeError):
    """There is no such device, or nothing that could use it: the text says what is missing."""


_ERROR_STATE = np._core.umath._extobj_contextvar
_present_state = _ERROR_STATE.get
_DEFAULT_STATE = Context().run(_ERROR_STATE.get)


@dataclass(slots=True, eq=False)
class ErrorStates:
    """Something that is true of some of NumPy's states of floating-point errors, which np.geterr takes a microsecond to tell."""

    is_true: Callable[[Mapping[str, str]], bool]  # of what np.geterr gives
    known: list[Any] = field(default_factory=list)  # the last two states it was found true of: states never change
    others: list[Any] = field(default_factory=list)  # and those it was not true of

    def holds(self) -> bool:
        """Is it true of the present state?"""
        state = _ERROR_STATE.get()
        if state in self.known or state in self.others:
            return state in self.known
        found = self.is_true(np.geterr())
        if np.geterrcall() is None:  # nothing of the user's is kept alive
            kept = self.known if found else self.others
            kept[:] = [state, *kept[:1]]
        return found


ONLY_WARNS = ErrorStates(lambda state: {*state.values()} <= {"warn", "ignore"})
IGNORES_ALL = ErrorStates(lambda state: {*state.values()} == {"ignore"})
IGNORES_UNDERFLOW = ErrorStates(lambda state: state["under"] == "ignore")
_harmless: list[Any] = []  # warnings.filters when they last made no error of a RuntimeWarning


def may_not_return() -> bool:
    """Would NumPy do more about a floating-point error than warn, so that a program could end there or call back?"""
    global _harmless
    if _present_state() not in ONLY_WARNS.known and not ONLY_WARNS.holds():  # the first half takes a third of the time
        return True
    if warnings.filters == _harmless:  # the filters are compared by identity first, so this is cheap
        return False
    if any(action == "error" and issubclass(RuntimeWarning, category) for action, _, category, *_ in warnings.filters):
        return True
    _harmless = list(warnings.filters)
    return False


@dataclass(slots=True, eq=False)
class CompiledGraph:
    """A graph ready to run: `call(*inputs, *symbols)` gives the tuple of outputs and does the writes."""

    call: Callable[..., tuple[Any, ...]]
    generated: str = ""  # the program, in C or Python
    kernels: tuple[str, ...] = ()  # their names, as a profiler shows them
    seconds: dict[str, float] = field(default_factory=dict)  # per phase: schedule, print, compile, load
    counted: frozenset[str] = frozenset()  # sizes that data decides, of which it gives the least alone, after the outputs
    item: Callable[..., Any] | None = None  # `call` that gives the only output itself: a tuple takes as long as a small kernel
    passes: tuple[Pass, ...] = ()

    @property
    def quickest(self) -> Callable[..., Any]:
        return self.item or self.call

    def targets(self, names: Sequence[str]) -> str:
        """How a statement begins that gives names to what `quickest` returns."""
        if not names:
            return ""
        return f"{names[0]} = " if self.item else f"{', '.join(names)}, = "

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.call(*args)


Backend = Callable[[Graph, Sequence[Any]], Callable[..., tuple[Any, ...]]]


def compiled_graph(made: Any) -> CompiledGraph:
    """What a backend made, which may be just a callable."""
    return made if isinstance(made, CompiledGraph) else CompiledGraph(made)


class Device(Protocol):
    """One device. Arrays are dense, of equal strides on both sides."""

    def use(self) -> AbstractContextManager[Any]: ...  # what is called in the block is for it
    def upload(self, host: np.ndarray) -> Any: ...
    def download(self, array: Any, out: np.ndarray) -> None: ...


class Devices(Protocol):
    """What a backend has whose programs run on devices of their own. RuntimeError says why there are none."""

    def require(self, name: str) -> None: ...  # raises where there is no such device
    def numbered(self, number: int) -> Device: ...
    # `mode` is that of `npcompile.compile`. These take NumPy's arrays, or the device's, and give what they were given.
    def compile(self, graph: Graph, example_inputs: Sequence[Any], mode: str) -> CompiledGraph: ...  # for the current device
    def compile_named(self, graph: Graph, name: str, mode: str) -> CompiledGraph: ...
    def compile_on(self, graph: Graph, number: int, mode: str) -> CompiledGraph: ...  # results stay there
    def compile_loop(self, program: Program, example: Any) -> DeviceProgram: ...  # for arrays as the example
    def copying(self, call: Callable[..., Any], graph: Graph, number: int) -> Callable[..., Any]: ...  # on copies on the host


@dataclass(frozen=True, slots=True)
class Abilities:
    """What is asked of a backend, beside compiling graphs. By default it can nothing more."""

    is_own: bool = False  # is it npcompile's? The errors of others are their users'.
    has_loops: bool = False  # are Python's loops over single elements compiled for it, from their bytecode?
    is_bitwise: bool = True  # may it be asked for NumPy's bits?
    devices: Devices | None = None  # of its own; None: it takes NumPy's arrays
    begin: Callable[[], None] | None = (
        None  # called while the first function is captured: what its graph will need is made beside
    )
    release_memory: Callable[[], None] | None = None  # what is kept of freed arrays goes back to the system
    compiling: Callable[[Graph], Steps[CompiledGraph]] | None = None  # the backend in steps, where it has such
    compile_gradient: Callable[..., Any] | None = None  # of programs of the loop IR: backends/loop_ir/native.py
    compile_callback: Callable[..., Any] | None = None  # the same
    costs: Callable[[Graph], Costs] | None = None  # what a graph whose sizes are known computes and moves
    loop_unit: Callable[..., Any] | None = None  # the same of programs that Python may go on with


NOTHING_MORE = Abilities()
ENTRY_POINTS = "npcompile.backends"  # of other packages: the backend's name, and a function that registers it
_BACKENDS: dict[str, Backend] = {}
_ABILITIES: dict[int, Abilities] = {}  # by the identity of the backend
DEVICES: dict[str, Backend] = {}  # by the first part of the names of devices


def register_backend(name: str, backend: Backend, abilities: Abilities = NOTHING_MORE) -> None:
    """Make `compile(fn, backend=name)` use `backend(graph, example_inputs) -> callable`.

    `example_inputs` are the arrays and numbers of the call that the graph is compiled for, and an int for each of
    `graph.symbols`. The callable takes values like these, and returns the tuple of outputs (docs/how-to/own-backend.md).
    A backend with devices runs, too, what is called in `npcompile.device(name)`, and programs of arrays on these.
    """
    _BACKENDS[name], _ABILITIES[id(backend)] = backend, abilities
    if abilities.devices is not None:
        DEVICES[name] = backend


def abilities_of(backend: Backend) -> Abilities:
    return _ABILITIES.get(id(backend), NOTHING_MORE)


def release_memory() -> None:
    """Of all backends."""
    for abilities in _ABILITIES.values():
        if abilities.release_memory is not None:
            abilities.release_memory()


def devices_of(name: str) -> Devices | None:
    """The devices of that name, or of its first part: "cuda:1" is one of "cuda"."""
    backend = DEVICES.get(name.partition(":")[0])
    return None if backend is None else abilities_of(backend).devices


def list_backends() -> list[str]:
    """Names that `compile(fn, backend=...)` accepts, beside any callable."""
    return sorted(_BACKENDS.keys() | others().keys())


def others() -> dict[str, Any]:
    """The entry points of other packages, by the names of their backends."""
    from importlib.metadata import entry_points  # here: importing npcompile stays quick

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def find_backend(backend: str | Backend) -> Backend:
    """The backend of that name, or the callable itself. ValueError names the known ones."""
    if callable(backend):
        return backend
    if backend not in _BACKENDS and backend in (found := others()):
        found[backend].load()()
    if backend not in _BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: choose one of {', '.join(list_backends())}, or give a callable")
    return _BACKENDS[backend]
