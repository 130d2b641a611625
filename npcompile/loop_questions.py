"""Which calls of transforms a native program of a function's loops may answer, and what they make of what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol, TypeAlias

import numpy as np

from npcompile import trees

Arguments: TypeAlias = tuple[Any, ...]
WIDE = 8  # times as many elements of an argument as of a result: their Jacobian is better made of rows


@dataclass(frozen=True, slots=True)
class Question:
    """Which derivatives a program computes."""

    argnums: int | tuple[int, ...] | None  # of the gradient; None: the function itself
    has_aux: bool = False
    moved: tuple[int, ...] | None = None  # the arguments with tangents: what is asked for is moved along these too

    @property
    def numbers(self) -> tuple[int, ...]:
        return () if self.argnums is None else (self.argnums,) if isinstance(self.argnums, int) else self.argnums

    def one_or_all(self, gradients: Sequence[Any]) -> Any:
        return gradients[0] if isinstance(self.argnums, int) else tuple(gradients)


class Loops(Protocol):
    """The programs of a function for a question: (value, gradient of each of `argnums`), or None. With tangents of the leaves of
    the arguments that are moved a pair: what there is without, and its tangent."""

    @property
    def asked(self) -> Question: ...

    def __call__(self, function: FunctionType, args: Sequence[Any], tangents: Sequence[Any] = ()) -> tuple[Any, ...] | None: ...


@dataclass(frozen=True, slots=True)
class Asking(ABC):
    """How a transform asks. `is_nested`: what it was made of is itself a transform, whose function has the loops."""

    is_nested: bool

    @abstractmethod
    def question(self, args: Arguments) -> Question:
        """What is asked of the function's loops."""

    def of_function(self, args: Arguments) -> Arguments:
        """The arguments of the function."""
        return args

    @abstractmethod
    def __call__(self, loops: Loops, function: FunctionType, given: Arguments, args: Arguments) -> Any:
        """The transform's result, or None. `given`: the function's arguments, with defaults; `args`: the transform's."""


@dataclass(frozen=True, slots=True)
class Gradient(Asking):
    asked: Question
    has_value: bool

    def question(self, args: Arguments) -> Question:
        return self.asked

    def __call__(self, loops: Loops, function: FunctionType, given: Arguments, args: Arguments) -> Any:
        found = loops(function, given)
        if found is None:
            return None
        gradient = self.asked.one_or_all(found[1:])
        if self.has_value:
            return found[0], gradient
        return (gradient, found[0][1]) if self.asked.has_aux else gradient


@dataclass(frozen=True, slots=True)
class GradientOfGradient(Asking):
    """With respect to a number: the gradient of what moves along it is what the gradient moves by."""

    asked: Question
    has_value: bool

    def question(self, args: Arguments) -> Question:
        return self.asked

    def __call__(self, loops: Loops, function: FunctionType, given: Arguments, args: Arguments) -> Any:
        assert self.asked.moved is not None
        if not is_number(argument(given, *self.asked.moved)) or (found := loops(function, given, [1.0])) is None:
            return None
        value, *gradients = found[1]
        gradient = self.asked.one_or_all(gradients)
        return (value, gradient) if self.has_value else gradient


@dataclass(frozen=True, slots=True)
class Pushforward(Asking):
    """Of a function, or with `argnums` of its gradient."""

    argnums: int | tuple[int, ...] | None = None
    has_value: bool = False

    def question(self, args: Arguments) -> Question:
        return Question(self.argnums, moved=tuple(range(len(args[0]))))

    def of_function(self, args: Arguments) -> Arguments:
        return tuple(args[0])

    def __call__(self, loops: Loops, function: FunctionType, given: Arguments, args: Arguments) -> Any:
        tangents = tangents_of(*args)
        found = None if tangents is None else loops(function, given, tangents)
        if found is None or not self.is_nested:
            return found
        made = [(each[0], loops.asked.one_or_all(each[1:])) for each in found]
        return tuple(made) if self.has_value else tuple(gradient for _, gradient in made)


@dataclass(frozen=True, slots=True)
class Columns(Asking):
    """A Jacobian with respect to one argument, an array or a number: each column is a tangent."""

    argnum: int
    argnums: int | None = None  # of the gradient that it is the Jacobian of

    def question(self, args: Arguments) -> Question:
        return Question(self.argnums, moved=(self.argnum,))

    def __call__(self, loops: Loops, function: FunctionType, given: Arguments, args: Arguments) -> Any:
        x = argument(given, self.argnum)
        if is_number(x):
            return self.column(loops, function, given, 1.0)
        if type(x) is not np.ndarray or x.dtype != float or not x.size:
            return None
        made: np.ndarray | None = None
        for k, direction in enumerate(directions(x)):
            found = self.column(loops, function, given, direction)
            if found is None:
                return None
            if made is None:
                if not self.is_nested and x.size > WIDE * np.size(found):
                    return None
                made = np.empty((*np.shape(found), x.size))
            made[..., k] = found
        assert made is not None
        return made.reshape(*made.shape[:-1], *x.shape)

    def column(self, loops: Loops, function: FunctionType, given: Arguments, direction: Any) -> Any:
        found = loops(function, given, [direction])
        made = None if found is None else found[1][1] if self.is_nested else found[1]
        return made if isinstance(made, np.ndarray | np.float64) else None


def directions(x: np.ndarray) -> Any:
    """Unit vectors."""
    for k in range(x.size):
        made = np.zeros(x.shape)
        made.flat[k] = 1.0
        yield made


def is_number(x: Any) -> bool:
    return type(x) in (float, np.float64)


def argument(args: Arguments, k: int) -> Any:
    return args[k] if -len(args) <= k < len(args) else None


def tangents_of(primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any] | None:
    """A tangent for each leaf of the primals, which are numbers and arrays of float64. None where there are others."""
    (leaves, form), (given, other) = trees.flatten(tuple(primals)), trees.flatten(tuple(tangents))
    if form != other:
        return None
    made = [tangent_of(x, t) for x, t in zip(leaves, given)]
    return None if any(t is None for t in made) else made


def tangent_of(x: Any, tangent: Any) -> Any:
    if is_number(x) and is_number(tangent):
        return float(tangent)
    if type(x) is type(tangent) is np.ndarray and x.dtype == tangent.dtype == float and x.shape == tangent.shape:
        return np.array(tangent, order="C")
    return None


# kind -> how it asks, given its options, and the kind and the options of the transform that it was made of, or None
Inner: TypeAlias = "tuple[str, dict[str, Any]] | None"


def of_gradient(kind: str, options: dict[str, Any], inner: Inner) -> Asking | None:
    argnums, has_value = options["argnums"], kind == "value_and_grad"
    if inner is None:
        return Gradient(False, Question(argnums, options["has_aux"]), has_value)
    within = inner[1].get("argnums")
    if inner[0] != "grad" or options["has_aux"] or inner[1]["has_aux"] or not isinstance(within, int):
        return None
    return GradientOfGradient(True, Question(argnums, moved=(within,)), has_value)


def of_pushforward(kind: str, options: dict[str, Any], inner: Inner) -> Asking | None:
    if inner is None:
        return Pushforward(False)
    if inner[0] not in ("grad", "value_and_grad") or inner[1]["has_aux"]:
        return None
    return Pushforward(True, inner[1]["argnums"], inner[0] == "value_and_grad")


def of_jacobian(kind: str, options: dict[str, Any], inner: Inner) -> Asking | None:
    argnum = options["argnums"]
    if not isinstance(argnum, int):
        return None
    if inner is None:
        return Columns(False, argnum)
    within = inner[1].get("argnums")
    return Columns(True, argnum, within) if inner[0] == "grad" and not inner[1]["has_aux"] and isinstance(within, int) else None


ASKING: dict[str, Callable[[str, dict[str, Any], Inner], Asking | None]] = {
    "grad": of_gradient,
    "value_and_grad": of_gradient,
    "jvp": of_pushforward,
    "jacobian": of_jacobian,
}


def asking_of(kind: str, options: dict[str, Any], inner: Inner) -> Asking | None:
    is_unchecked = "unchecked" in options or inner is not None and "unchecked" in inner[1]
    return None if kind not in ASKING or is_unchecked else ASKING[kind](kind, options, inner)
