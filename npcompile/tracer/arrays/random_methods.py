"""The methods of NumPy's random generators, and what makes generators, in captured programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator, RandomState

from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.settings import config
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.guards import Is
from npcompile.tensor_core.meta import Decline, is_contiguous
from npcompile.tensor_core.source import Literal
from npcompile.tracer.arrays import counted, draws
from npcompile.tracer.arrays.draws import BIT_GENERATORS, argument, bound, call_text, drawn, generator_of, require_once, tried
from npcompile.tracer.frame import Frame
from npcompile.tracer.python.attributes import DRAWN
from npcompile.tracer.python.calls import BUILTINS, Arguments, Keywords, captures, finish
from npcompile.tracer.python.operators import plain
from npcompile.tracer.random_state import BIT_GENERATOR
from npcompile.tracer.tensor_values import realized
from npcompile.tracer.values import Constant, Opaque, Sequence

GLOBAL: Any = np.random.random_sample.__self__  # type: ignore[attr-defined]  # what np.random's own functions draw from

# Methods that give generators, or read or set states, or are deprecated and warn of it on the line that they are called from.
NOT_DRAWN = {"spawn", "get_state", "set_state", "random_integers"}
DRAWN |= {
    kind: {n: f for n, f in vars(kind).items() if n[0] != "_" and callable(f) and n not in NOT_DRAWN} for kind in BIT_GENERATOR
}


def draw(frame: Frame, function: Any, owner: Any, positional: Arguments, keywords: Keywords) -> Any:
    """The result of `function(owner, *positional, **keywords)`."""
    if is_counted(frame) and (result := counted.draw(frame, function, owner, positional, keywords)) is not None:
        return result
    return draws.draw(frame, function, owner, positional, keywords)


def is_counted(frame: Frame) -> bool:
    """May random numbers be others than NumPy's, computed in the graph?"""
    asked = frame.capture.object_of(config).attribute("fallback_random")
    frame.capture.guard(Is(asked, Literal(config.fallback_random)))
    return not config.fallback_random


# --- methods


def captured_draw(function: Any) -> Callable[[Frame, Arguments, Keywords], Any]:
    name = f"numpy.random.{function.__name__}"
    special = SPECIAL.get(function.__name__)

    def captured(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
        if not positional:
            raise Decline(f"{name} without a generator")
        try:
            owner, *rest = positional
            _, kind = generator_of(frame, owner)
            if DRAWN[kind].get(function.__name__) is not function:  # NumPy does not check, and may crash
                raise Decline(f"a method of another type than {kind.__qualname__}")
            if special is not None:
                return special(frame, function, positional, keywords)
            return draw(frame, function, owner, rest, keywords)
        except Decline as decline:
            if decline.reason.startswith("numpy.random."):
                raise
            raise Decline(f"{name}: {decline.reason}", decline.hint) from None

    return captured


def array_in(frame: Frame, value: Any) -> Array | None:
    """The array that a captured program permutes or chooses from: its indices are drawn, and it is read in the graph."""
    value = frame.capture.realize(value)
    return value if isinstance(value, Array) and value.meta.boxed and value.ndim else None


def write(frame: Frame, target: Any, value: Any) -> Any:
    """`target`, after the drawn values are written to it. Declines what NumPy may refuse."""
    x = frame.capture.realize(target)
    if not isinstance(x, Array) or not x.meta.boxed or x.dtype != value.dtype:
        raise Decline("random numbers are written to something else than an array of their dtype")
    FUNCTIONS[np.copyto](frame.capture.builder, x, value)
    finish(frame, None)
    return target


def permutation(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """An array is permuted as the numbers from 0 to its length are."""
    owner, *rest = positional
    named = {k: frame.capture.realize(v) for k, v in bound(function, rest, keywords).items()}
    x, axis = array_in(frame, named["x"]), plain(frame.capture, named.get("axis", Constant(0)))
    if x is None:
        n = named["x"]
        if isinstance(n, Dim) and axis == 0:
            return drawn_permutation(frame, owner, n)
        if isinstance(n, Array):
            raise Decline("a permutation whose length data decides")
        return draw(frame, function, owner, rest, keywords)
    if not isinstance(axis, int) or not -x.ndim <= axis < x.ndim:
        raise Decline("an axis out of bounds")
    indices = drawn_permutation(frame, owner, x.shape[axis])
    return finish(frame, getitem(frame.capture.builder, x, (*(slice(None),) * (axis % x.ndim), indices)))


def drawn_permutation(frame: Frame, owner: Any, n: Size) -> Any:
    if is_counted(frame) and (result := counted.permutation(frame, owner, n)) is not None:
        return result
    source, kind = generator_of(frame, owner)
    function = kind.permutation  # type: ignore[attr-defined]
    require_once(frame, function)
    example = tried(function, draws.twin(kind), 0)
    return drawn(frame, f"{frame.capture.name_constant(function)}({source}, {n})", example, (n,))


def shuffle(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    owner, *rest = positional
    x = array_in(frame, bound(function, rest, keywords)["x"])
    if x is None:
        raise Decline("what is shuffled is not an array")
    if any(n == 0 for n in x.shape):  # nothing is drawn, where permutation() does
        return Constant(None)
    write(frame, x, permutation(frame, type_of_generator(frame, owner).permutation, positional, keywords))
    return Constant(None)


def type_of_generator(frame: Frame, owner: Any) -> Any:
    return generator_of(frame, owner)[1]


def choice(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    owner, *rest = positional
    named = bound(function, rest, keywords)
    x = array_in(frame, named["a"])
    if x is None:
        return draw(frame, function, owner, rest, keywords)
    axis = plain(frame.capture, named.get("axis", Constant(0)))
    if not isinstance(axis, int) or not -x.ndim <= axis < x.ndim or (x.ndim > 1 and function is RandomState.choice):
        raise Decline("an axis out of bounds")
    n = x.shape[axis]
    others = {k: v for k, v in named.items() if k not in ("a", "axis")}
    indices = draw(frame, function, owner, [n if isinstance(n, Dim) else Constant(n)], others)
    return finish(frame, FUNCTIONS[np.take](frame.capture.builder, x, indices, axis, mode="clip"))


def with_out(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """`out` is written when the graph runs."""
    owner, *rest = positional
    named = bound(function, rest, keywords)
    target = named.pop("out", Constant(None))
    out = frame.capture.realize(target)
    if isinstance(out, Constant) and out.value is None:
        return draw(frame, function, owner, rest, keywords)
    if not isinstance(out, Array) or not is_contiguous(out.meta):
        raise Decline("random numbers are written to something else than a contiguous array")
    size = frame.capture.realize(named.get("size", Constant(None)))
    if function.__name__ != "permuted" and isinstance(size, Constant) and size.value is None:
        named["size"] = Sequence(tuple, [n if isinstance(n, Dim) else Constant(n) for n in out.shape])
    value = draw(frame, function, owner, [], named)
    if not isinstance(value, Array) or value.shape != out.shape:
        raise Decline("random numbers of another shape than `out`")
    return write(frame, target, value)


def multivariate_normal(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """Where NumPy would warn of the covariance the draw raises, and NumPy runs on the user's line."""
    owner, *rest = positional
    named = bound(function, rest, keywords)
    if plain(frame.capture, named.get("check_valid", Constant("warn"))) == "warn":
        named["check_valid"] = Constant("raise")
    result = draw(frame, function, owner, [], named)
    frame.capture.draws.may_raise = True
    return result


# --- generators

MAKERS = (np.random.default_rng, Generator, RandomState, *BIT_GENERATORS)


def make(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """A generator that the program makes of a seed, of a bit generator that it made, or of the system's entropy."""
    capture = frame.capture
    positional, keywords = realized(capture, positional), dict(zip(keywords, realized(capture, keywords.values())))
    is_one = function is np.random.default_rng and len(positional) == 1 and isinstance(positional[0], Opaque)
    if is_one and type(positional[0].example) is Generator:
        return positional[0]
    require_once(frame, function)
    given, named = [argument(frame, v) for v in positional], {k: argument(frame, v) for k, v in keywords.items()}
    example = tried(function, *(a.example for a in given), **{k: a.example for k, a in named.items()})
    return drawn(frame, call_text(frame, function, [], given, named), example)


@captures(np.random.seed)
def seed(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return draw(frame, RandomState.seed, Constant(GLOBAL), positional, keywords)


@captures(np.random.ranf, np.random.sample)
def ranf(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return draw(frame, RandomState.random_sample, Constant(GLOBAL), positional, keywords)


def captured_maker(maker: Any) -> Callable[[Frame, Arguments, Keywords], Any]:
    return lambda frame, positional, keywords: make(frame, maker, positional, keywords)


SPECIAL: dict[str, Callable[[Frame, Any, Arguments, Keywords], Any]] = {
    **dict.fromkeys(("random", "standard_normal", "standard_exponential", "standard_gamma", "permuted"), with_out),
    "permutation": permutation,
    "shuffle": shuffle,
    "choice": choice,
    "multivariate_normal": multivariate_normal,
}
for methods in DRAWN.values():
    BUILTINS |= {function: captured_draw(function) for function in methods.values()}
BUILTINS |= {maker: captured_maker(maker) for maker in MAKERS}
