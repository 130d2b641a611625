"""What a captured program draws from NumPy's random generators, and how they get back the state they had before."""

from __future__ import annotations

import functools
import struct
import threading
from collections.abc import Callable
from contextlib import nullcontext
from ctypes import string_at
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
from numpy.random import MT19937, Generator, RandomState

from npcompile.tensor_core.array import Storage
from npcompile.tensor_core.graph import Node

# Where an object of these types has its bit generator, whose state the draws advance.
BIT_GENERATOR: dict[type, str] = {Generator: "bit_generator", RandomState: "_bit_generator"}


@dataclass(slots=True, eq=False)
class Draws:
    """Nothing that is drawn depends on the graph, so all of it is drawn before the graph runs, in the program's order.

    When the graph then cannot finish, NumPy runs the same part of the program and has to draw the same again: the
    generators get back the state that they had.
    """

    lines: list[str] = field(default_factory=list)  # statements of the generated program
    generators: dict[str, str] = field(default_factory=dict)  # those from outside, and what saves their states: expressions
    storages: list[Storage] = field(default_factory=list)  # of the arrays that were drawn
    keys: dict[str, tuple[Node, int]] = field(default_factory=dict)  # of counted.py, by generator; how often each was used
    batches: list[Any] = field(default_factory=list)  # the calls of vmap that the function being captured is in
    may_raise: bool = False  # arguments that are not constants may be refused


Saved = tuple[Any, Any]  # a generator, and its state before the program's draws: a dict, or the `Memory` that it is in


def restore(*saved: Saved) -> None:
    for generator, state in saved:
        set_state(generator, state)


class Repetition:
    """A context around a repetition of all draws of a program, after which the generators have the states `saved` before them.

    Unless another thread has drawn from them in the meantime: its numbers must not be drawn again.
    """

    __slots__ = ("saved", "now")

    def __init__(self, *saved: Saved):
        self.saved = saved

    def __enter__(self) -> None:
        for generator, _ in self.saved:
            lock_of(generator).__enter__()
        self.now = [state_of(generator) for generator, _ in self.saved]
        restore(*self.saved)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        is_alone = all(is_same_state(state_of(generator), now) for (generator, _), now in zip(self.saved, self.now))
        for (generator, before), now in zip(self.saved, self.now):
            set_state(generator, before if is_alone else now)
        for generator, _ in reversed(self.saved):
            lock_of(generator).__exit__(None, None, None)


def state_of(generator: Generator | RandomState) -> Any:
    return generator.bit_generator.state if isinstance(generator, Generator) else generator.get_state(legacy=False)


def saving_text(source: str, generator: Generator | RandomState, name_constant: Callable[[Any], str]) -> str:
    """The expression that saves the state of the generator `source`, as fast as one with its bit generator allows."""
    if type(getattr(generator, BIT_GENERATOR[type(generator)])) is MT19937 and place_of_normal() is not None:
        return f"{name_constant(Memory)}({source})"
    return f"{source}.bit_generator.state" if isinstance(generator, Generator) else f"{source}.get_state(legacy=False)"


class Memory:
    """A copy of the bytes of MT19937. NumPy makes its state number by number, which takes longer than most draws."""

    __slots__ = ("bits", "normal")

    def __init__(self, generator: Generator | RandomState):
        if isinstance(generator, RandomState):
            self.normal = string_at(id(generator) + place_of_normal(), NORMAL_BYTES)  # type: ignore[operator]
            self.bits = string_at(generator._bit_generator.ctypes.state_address, MT19937_BYTES)
        else:
            self.normal = b""
            self.bits = string_at(generator.bit_generator.ctypes.state_address, MT19937_BYTES)

    def state(self) -> dict[str, Any]:
        words = np.frombuffer(self.bits, np.uint32)
        state: dict[str, Any] = {"bit_generator": "MT19937", "state": {"key": words[:-1], "pos": int(words[-1])}}
        if self.normal:
            state["has_gauss"], state["gauss"] = struct.unpack("i4xd", self.normal)
        return state


MT19937_BYTES = 624 * 4 + 4  # words, and the position among them
NORMAL_BYTES = 16  # of a RandomState: whether a legacy normal number is left over (int32), and which (float64)


@functools.cache
def place_of_normal() -> int | None:
    """Where in a RandomState the number left over is, found by one put there; None where memory is not as it is read here."""
    generator = RandomState(MT19937(5))
    known = state_of(generator) | {"has_gauss": 1, "gauss": 1.2345678901234567e-89}
    generator.set_state(known)
    place = string_at(id(generator), RandomState.__basicsize__).find(struct.pack("d", known["gauss"])) - 8
    if place < 0:
        return None
    memory = object.__new__(Memory)
    memory.bits = string_at(generator._bit_generator.ctypes.state_address, MT19937_BYTES)
    for has_gauss in (1, 0):
        generator.set_state(known | {"has_gauss": has_gauss})
        memory.normal = string_at(id(generator) + place, NORMAL_BYTES)
        if not is_same_state(memory.state(), state_of(generator)):
            return None
    return place


def set_state(generator: Generator | RandomState, state: Any) -> None:
    state = state.state() if isinstance(state, Memory) else state
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


def key_of(generator: Generator | RandomState) -> np.uint64:
    """The next 64 bits of the generator."""
    bits = getattr(generator, BIT_GENERATOR[type(generator)])
    return np.uint64(bits.random_raw() if type(bits) is not MT19937 else bits.random_raw() << 32 | bits.random_raw())
