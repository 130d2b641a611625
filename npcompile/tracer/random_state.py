"""What a captured program draws from NumPy's random generators, and how they get back the state they had before."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
from numpy.random import Generator, RandomState

from npcompile.tensor_core.array import Storage

# Where an object of these types has its bit generator, whose state the draws advance.
BIT_GENERATOR: dict[type, str] = {Generator: "bit_generator", RandomState: "_bit_generator"}


@dataclass(slots=True, eq=False)
class Draws:
    """Nothing that is drawn depends on the graph, so all of it is drawn before the graph runs, in the program's order.

    When the graph then cannot finish, NumPy runs the same part of the program and has to draw the same again: the
    generators get back the state that they had.
    """

    lines: list[str] = field(default_factory=list)  # statements of the generated program
    generators: dict[str, None] = field(default_factory=dict)  # expressions of those from outside
    storages: list[Storage] = field(default_factory=list)  # of the arrays that were drawn
    batches: list[Any] = field(default_factory=list)  # the calls of vmap that the function being captured is in
    may_raise: bool = False  # arguments that are not constants may be refused


class States:
    """The states of generators before a program draws from them.

    As a context, around a repetition of all draws: after it the states are those again, unless another thread has drawn in
    the meantime, whose numbers must not be drawn again.
    """

    __slots__ = ("generators", "before", "now")

    def __init__(self, *generators: Generator | RandomState):
        self.generators = generators
        self.before = [state_of(g) for g in generators]

    def restore(self) -> None:
        for generator, state in zip(self.generators, self.before):
            set_state(generator, state)

    def __enter__(self) -> None:
        for generator in self.generators:
            lock_of(generator).__enter__()
        self.now = [state_of(g) for g in self.generators]
        self.restore()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        is_alone = all(is_same_state(state_of(g), now) for g, now in zip(self.generators, self.now))
        for generator, before, now in zip(self.generators, self.before, self.now):
            set_state(generator, before if is_alone else now)
        for generator in reversed(self.generators):
            lock_of(generator).__exit__(None, None, None)


def state_of(generator: Generator | RandomState) -> Any:
    return generator.bit_generator.state if isinstance(generator, Generator) else generator.get_state(legacy=False)


def set_state(generator: Generator | RandomState, state: Any) -> None:
    if isinstance(generator, Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def is_same_state(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(is_same_state(a[k], b[k]) for k in a)
    return bool(np.array_equal(a, b))


def lock_of(generator: Generator | RandomState) -> Any:
    """Older versions of NumPy have a lock that draws could not enter while it is held."""
    lock = getattr(generator, BIT_GENERATOR[type(generator)]).lock
    return lock if isinstance(lock, type(threading.RLock())) else nullcontext()
