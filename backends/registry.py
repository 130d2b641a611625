"""Backends by name, and what every backend returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.tensor_core.graph import Graph


class FloatingPointSignal(Exception):
    """A graph without writes met a floating-point error that np.errstate does not ignore: nothing has happened yet.

    The caller runs the program again with NumPy, which warns or raises at the right line.
    """


@dataclass(slots=True, eq=False)
class CompiledGraph:
    """A graph ready to run: `call(*inputs, *symbols)` gives the tuple of outputs and does the writes."""

    call: Callable[..., tuple[Any, ...]]
    source: str = ""  # the generated program
    kernels: tuple[str, ...] = ()  # their names, as a profiler shows them
    seconds: dict[str, float] = field(default_factory=dict)  # per phase: schedule, print, compile, load

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.call(*args)


Backend = Callable[[Graph, Sequence[Any]], Callable[..., tuple[Any, ...]]]
_BACKENDS: dict[str, Backend] = {}


def register_backend(name: str, backend: Backend) -> None:
    """Make `compile(fn, backend=name)` use `backend(graph, example_inputs) -> callable`."""
    _BACKENDS[name] = backend


def list_backends() -> list[str]:
    """Names that `compile(fn, backend=...)` accepts, beside any callable."""
    return sorted(_BACKENDS)


def find_backend(backend: str | Backend) -> Backend:
    """The backend of that name, or the callable itself. ValueError names the known ones."""
    if callable(backend):
        return backend
    if backend not in _BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: choose one of {', '.join(list_backends())}, or give a callable")
    return _BACKENDS[backend]
