"""Random numbers in captured programs: NumPy draws them from the user's own generators, before the graph runs."""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator, RandomState

from npcompile.tensor_core.array import Array, Storage, view_text
from npcompile.tensor_core.dim import Dim, Size, hint_of, source_of_size
from npcompile.tensor_core.guards import OfType
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.source import Name, Source
from npcompile.tracer.frame import Frame
from npcompile.tracer.python.calls import Arguments, Keywords
from npcompile.tracer.python.operators import describe, lower
from npcompile.tracer.random_state import BIT_GENERATOR, saving_text
from npcompile.tracer.values import Constant, Opaque, Sequence

BIT_GENERATORS = tuple(getattr(np.random, n) for n in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"))
MADE = (Generator, RandomState, *BIT_GENERATORS)  # the types of generators that a program makes


# --- arguments


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a draw: the expression that gives it before the graph runs, and a value like it."""

    text: str
    example: object
    is_constant: bool = False
    arrays: tuple[Array, ...] = ()


def argument(frame: Frame, value: Any) -> Argument:
    capture = frame.capture
    value = capture.realize(value)
    if isinstance(value, Dim) and capture.builder.env.is_measured(source_of_size(value)):
        raise Decline("random numbers whose number data decides", "They are drawn before the graph.")
    match value:
        case Constant(constant):
            is_short = type(constant) in (type(None), bool, int, str)
            return Argument(repr(constant) if is_short else capture.name_constant(constant), constant, True)
        case Dim():
            return Argument(str(value), hint_of(value))
        case Number():
            return Argument(str(value.source), value.hint)
        case Sequence() if value.kind in (tuple, list):
            parts = [argument(frame, v) for v in value.items]
            inside = "".join(f"{p.text}, " for p in parts)
            arrays = tuple(a for p in parts for a in p.arrays)
            example = value.kind(p.example for p in parts)
            text = f"({inside})" if value.kind is tuple else f"[{inside}]"
            return Argument(text, example, all(p.is_constant for p in parts), arrays)
        case Array():
            return array_argument(frame, value)
        case Opaque() if capture.builder.env.is_random(value.source):
            return Argument(str(value.source), value.example)
    raise Decline(f"random numbers that depend on {describe(value)}")


def array_argument(frame: Frame, x: Array) -> Argument:
    """An array that is there before the graph runs: from outside and not changed, drawn, or known."""
    capture, storage = frame.capture, x.storage
    source = storage.source
    if source is not None and not storage.is_written and source not in capture.on_device:
        known = capture.examples.get(source) if not x.steps else None
        # Only what the draw gives for it is looked at: its shape and dtype.
        like = np.full([hint_of(n) for n in x.shape], 0.5).astype(x.dtype) if known is None else known
        return Argument(view_text(str(source), x.steps), like if x.meta.boxed else like[()], arrays=(x,))
    contents = capture.known_contents(x)
    if contents is None:
        raise Decline("random numbers that depend on what the program computes", "They are drawn after the graph.")
    contents = contents.copy()
    contents.flags.writeable = False
    return Argument(capture.name_constant(contents), contents, True, (x,))


# --- draws


def draw(frame: Frame, function: Any, owner: Any, positional: Arguments, keywords: Keywords) -> Any:
    """The result of `function(owner, *positional, **keywords)`, drawn before the graph runs."""
    source, kind = generator_of(frame, owner)
    require_once(frame, function)
    given, named = [argument(frame, v) for v in positional], {k: argument(frame, v) for k, v in keywords.items()}
    arguments = [*given, *named.values()]
    size = size_of(frame, function, positional, keywords)
    example, shape = example_of(function, kind, given, named, size)
    frame.capture.draws.may_raise |= function is RandomState.seed  # refused where the bit generator is not MT19937
    if shape is None:
        # The result's shape is that of these: no other sizes then.
        for n in (*(size or ()), *(n for a in arguments for x in a.arrays for n in x.shape)):
            operator.index(n)
    return drawn(frame, call_text(frame, function, [str(source)], given, named), example, shape)


def call_text(frame: Frame, function: Any, first: list[str], given: list[Argument], named: dict[str, Argument]) -> str:
    frame.capture.draws.may_raise |= not all(a.is_constant for a in (*given, *named.values()))
    texts = [*first, *(a.text for a in given), *(f"{k}={a.text}" for k, a in named.items())]
    return f"{frame.capture.name_constant(function)}({', '.join(texts)})"


def example_of(
    function: Any, kind: type, given: list[Argument], named: dict[str, Argument], size: tuple[Size, ...] | None
) -> tuple[Any, tuple[Size, ...] | None]:
    """What such a draw gives, and its shape where that follows from `size`, which may be symbolic."""
    positional, keywords = [a.example for a in given], {k: a.example for k, a in named.items()}
    if size is not None:
        if function.__name__ in SIZES_ARE_ARGUMENTS:
            positional = [0]
            none_drawn: dict[str, Any] = {}
        else:
            none_drawn = bound(function, positional, keywords) | {"size": (0,)}
            positional = []
        with suppress(Decline):  # what an array among the arguments has to do with the size, only the real size shows
            example = tried(function, twin(kind), *positional, **none_drawn)
            return example, (*size, *example.shape[1:])
        positional = [a.example for a in given]
    return tried(function, twin(kind), *positional, **keywords), None


def generator_of(frame: Frame, owner: Any) -> tuple[Source, type]:
    """The expression and the type of a generator, whose state the program is to advance."""
    capture = frame.capture
    owner = capture.realize(owner)
    match owner:
        case Constant(Generator() | RandomState() as found):
            source, kind = capture.object_of(found), type(found)
        case Opaque(source, example):
            found, kind = example, type(example)
        case _:
            raise Decline(f"random numbers from {describe(owner)}")
    if kind not in BIT_GENERATOR:
        raise Decline(f"random numbers from an object of type {kind.__qualname__}")
    if capture.builder.env.is_random(source):  # made by this program: it is made again
        return source, kind
    where = BIT_GENERATOR[kind]
    bits = type(getattr(found, where))
    if bits not in BIT_GENERATORS:
        raise Decline(f"random numbers of a {bits.__qualname__}")
    capture.guard(OfType(source.attribute(where), capture.object_of(bits)))
    capture.draws.generators[str(source)] = saving_text(str(source), found, capture.name_constant)
    return source, kind


def require_once(frame: Frame, function: Any) -> None:
    """Decline where the function that draws is called as often as the data says."""
    capture = frame.capture
    capture.require_no_body(f"numpy.random.{function.__name__}")
    if capture.draws.batches:  # eager transforms call the function for each
        raise Decline(f"numpy.random.{function.__name__} under vmap: each example draws its own numbers")


def tried(function: Any, *positional: Any, **keywords: Any) -> Any:
    """What the call gives: of a draw, with another generator. Declines where it raises, or warns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return function(*positional, **keywords)
    except Exception as error:  # noqa: BLE001  (whatever it is, NumPy raises it again on the user's line)
        raise Decline(f"{type(error).__name__}: {error}") from None


def twin(kind: type) -> Any:
    return Generator(np.random.PCG64(0)) if kind is Generator else RandomState(0)


SIZES_ARE_ARGUMENTS = ("rand", "randn")


def size_of(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> tuple[Size, ...] | None:
    """The `size` of a draw, None where it has none."""
    if function.__name__ in SIZES_ARE_ARGUMENTS:
        size: Any = Sequence(tuple, positional) if positional else Constant(None)
    else:
        size = bound(function, positional, keywords).get("size", Constant(None))
    size = lower(frame.capture, size)
    if size is None:
        return None
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not all(isinstance(n, Dim) or type(n) is int and n >= 0 for n in sizes):
        raise Decline("a size that data decides")
    return sizes


def bound(function: Any, positional: Iterable[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    try:
        found = inspect.signature(function).bind(None, *positional, **keywords).arguments
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    return {k: v for k, v in found.items() if k != "self"}


def drawn(frame: Frame, text: str, example: Any, shape: tuple[Size, ...] | None = None) -> Any:
    """The value of the expression `text`, evaluated before the graph runs. `example` has its type."""
    capture, draws = frame.capture, frame.capture.draws
    env = capture.builder.env
    name = f"drawn_{len(draws.lines)}"
    source = Name(name)
    if type(example) is float:
        result: Any = Number(env, source, example)
    elif isinstance(example, np.ndarray) and example.flags.c_contiguous and example.flags.writeable:
        meta = TensorMeta(example.shape if shape is None else shape, example.dtype)
        result = Array(Storage(capture.builder.root, capture.builder.input(meta, source), meta, source), (), meta)
        draws.storages.append(result.storage)
    elif isinstance(example, np.generic):
        meta = TensorMeta((), example.dtype, boxed=False, writeable=False)
        result = Array(Storage(capture.builder.root, capture.builder.input(meta, source), meta, source), (), meta)
    elif type(example) in (*MADE, int, bytes):  # of numbers that could grow beyond int64 nothing is computed
        result = Opaque(source, example)
    elif example is None:
        result = Constant(None)
    else:
        raise Decline(f"a random {type(example).__qualname__}")
    env.unknown.add(name)
    draws.lines.append(f"{name} = {text}")
    return result
