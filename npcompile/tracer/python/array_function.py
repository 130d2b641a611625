"""What NumPy's functions ask of their arguments before they run: for `__array_function__`, and stacks for sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import forward
from npcompile.tracer.python.class_attributes import MISSING, on_class
from npcompile.tracer.python.objects import class_of
from npcompile.tracer.values import DictView, Lazy, Opaque, Sequence, SetValue
from npcompile.tracer.values import Iterator as IteratorValue

# The arrays that these join are to be in something that has items: no iterator, and no view of a dict.
STACKS = frozenset([np.stack, np.hstack, np.vstack, np.dstack, np.column_stack])


@forward.require_no_override.defined
def require_no_override(capture: Capture, function: Any, values: Iterable[Any]) -> None:
    """Declines a call that a class answers instead of NumPy (NEP 18), and one that NumPy refuses before anything is computed."""
    values = list(values)
    if function in STACKS and any(isinstance(capture.realize(v), (IteratorValue, DictView, SetValue)) for v in values):
        raise Decline('arrays to stack must be passed as a "sequence" type such as list or tuple.')
    for value in arguments_of(capture, values):
        kind = class_of(value)
        if kind is not None and on_class(capture, kind, "__array_function__") not in (MISSING, None):
            raise Decline(f"{function.__name__} of an object of type {kind.__qualname__}, which has __array_function__")


def arguments_of(capture: Capture, values: Iterable[Any]) -> Iterator[Any]:
    """The objects among the arguments that may be of classes written in Python, those in sequences too."""
    for value in values:
        if isinstance(value, Sequence):
            yield from arguments_of(capture, value.items)
        elif not isinstance(value, Lazy):
            yield value
        elif class_of(Opaque(value.source, value.example)) is not None:
            yield capture.realize(value)
