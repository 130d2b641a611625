"""Whether operations on Tensors are recorded for gradients."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import Token
from typing import Any, Self

from npcompile.tensor_core.tensors.tape import RECORDING


class Mode(ContextDecorator):
    """A context manager, and decorator, in which operations are recorded or not. It holds for the thread, or task."""

    is_on: bool

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def _recreate_cm(self) -> Self:
        return type(self)()  # a decorated function may run in many threads at once

    def __enter__(self) -> Self:
        self._tokens.append(RECORDING.set(self.is_on))
        return self

    def __exit__(self, *error: Any) -> None:
        RECORDING.reset(self._tokens.pop())


class no_grad(Mode):
    """Nothing is recorded: results require no grad, and leaves may be changed in place.

    >>> with no_grad():
    ...     weight -= 0.1 * weight.grad
    """

    is_on = False


class enable_grad(Mode):
    """Operations are recorded, within `no_grad` too."""

    is_on = True


def is_grad_enabled() -> bool:
    """Are operations on Tensors that require grad recorded here?"""
    return RECORDING.get()
