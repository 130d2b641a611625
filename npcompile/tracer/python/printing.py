"""`debug_print` in captured programs: text that is printed when the graph has run, in the program's order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.dim import Dim, Size, hint_of
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.transforms.batch import batch
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python.calls import Arguments, Keywords
from npcompile.tracer.python.effects import Effect
from npcompile.tracer.values import Comparison, Constant, Lazy, TensorValue, Text
from npcompile.tracer.values import Sequence as Items

PLAIN = (int, float, complex, bool, str, bytes, type(None))  # constants whose text is Python's, or NumPy's


@dataclass(frozen=True, slots=True)
class Printing:
    """Prints values that are given one after the other: the positional ones of a format, then the named ones."""

    show: Callable[..., None]  # what the user has called
    format: str
    names: tuple[str, ...]

    def __call__(self, *values: Any) -> None:
        count = len(values) - len(self.names)
        self.show(self.format, *values[:count], **dict(zip(self.names, values[count:])))


@dataclass(frozen=True, slots=True)
class OfEach:
    """The same for each example of a batch: all that one prints, and then the next."""

    parts: tuple[tuple[Printing | OfEach, tuple[bool, ...]], ...]  # with the values that are arrays of one for each example

    def __call__(self, size: int, *values: Any) -> None:
        for k in range(size):
            rest = iter(values)
            for part, are_batched in self.parts:
                part(*(x[k] if is_batched else x for is_batched, x in zip(are_batched, rest_of(rest, len(are_batched)))))


def rest_of(values: Iterable[Any], count: int) -> list[Any]:
    values = iter(values)
    return [next(values) for _ in range(count)]


printing = functools.lru_cache(maxsize=1024)(Printing)  # one for one call in the user's code: programs hold it


@dataclass(slots=True, eq=False)
class Print(Effect):
    """A call of `debug_print`, for each example of the batches around it."""

    what: Printing | OfEach | None = None


def effect_of(capture: Capture, what: Printing | OfEach, values: list[Any]) -> Print:
    name = capture.name_constant(what)
    return Print(f"{name}({', '.join(f'{{{k}}}' for k in range(len(values)))})", values, what=what)


def call_print(show: Callable[..., None], frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Nothing is printed here. What a format does not take is Python's to report, on the user's line."""
    capture = frame.capture
    capture.require_no_body("npc.debug_print")
    template, *given = [capture.realize(value) for value in positional] or [None]
    if not isinstance(template, Constant) or type(template.value) is not str:
        raise Decline("npc.debug_print of a format that is not a constant string")
    named = {name: capture.realize(value) for name, value in keywords.items()}
    values = [as_it_is(capture, value) for value in (*given, *named.values())]
    what = printing(show, template.value, tuple(named))
    try:
        examples = [example_of(value) for value in values]
        template.value.format(*examples[: len(given)], **dict(zip(named, examples[len(given) :])))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise Decline(f"npc.debug_print raises {type(error).__name__}: {error}") from None
    capture.effects.append(effect_of(capture, what, values))
    return Constant(None)


def as_it_is(capture: Capture, value: Any) -> Any:
    """A value whose text is known when the program has run: of an array what it contains here."""
    value = capture.realize(value) if isinstance(value, (Lazy, Comparison)) else value
    match value:
        case TensorValue():
            return as_it_is(capture, value.array)
        case Array():
            return fresh(capture.builder, value.node, boxed=value.meta.boxed)
        case Items(kind=kind) if kind in (tuple, list):
            return Items(kind, [as_it_is(capture, capture.realize(item)) for item in value.items])
        case Constant() if type(value.value) in PLAIN or isinstance(value.value, (np.generic, np.dtype)):
            return value
        case Dim() | Number() | Integer() | Text():
            return value
    raise Decline("npc.debug_print of an object whose text its class makes")


def example_of(value: Any) -> Any:
    """Something that a format takes if it takes the value."""
    match value:
        case Array():
            made = np.ones((), value.dtype)
            return np.broadcast_to(made, tuple(map(hint_of, value.shape))) if value.meta.boxed else made[()]
        case Items():
            return value.kind(map(example_of, value.items))
        case Constant():
            return value.value
        case Dim() | Integer():
            return 1
        case Number():
            return value.hint
    return "a"


# --- under vmap


def arrays_of(prints: Sequence[Print]) -> list[Array]:
    return [value for each in prints for value in each.values if isinstance(value, Array)]


def of_examples(capture: Capture, since: int, batched: dict[Node, Node], size: Size) -> None:
    """Of what one example prints: what all of them print."""
    prints = capture.effects[since:]
    if not prints:
        return
    builder: Builder = capture.builder
    found = iter(batch(builder, [x.node for x in arrays_of(prints)], batched, size))
    parts, values = [], list[Any]([size if isinstance(size, Dim) else Constant(size)])
    for each in prints:
        assert isinstance(each, Print) and each.what is not None, each
        are_batched = []
        for value in each.values:
            if any(isinstance(value, Items) and isinstance(item, Array) for item in getattr(value, "items", ())):
                raise Decline("npc.debug_print of a list of arrays under vmap", "Print them one by one.")
            node, has_axis = next(found) if isinstance(value, Array) else (None, False)
            are_batched.append(has_axis)
            values.append(fresh(builder, node) if node is not None else value)
        parts.append((each.what, tuple(are_batched)))
    capture.effects[since:] = [effect_of(capture, OfEach(tuple(parts)), values)]
