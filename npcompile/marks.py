"""`mark_dynamic` and `mark_static`: which sizes of an array programs are for, said by who made the array."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.device_arrays import array_kind
from npcompile.tensor_core.tensor import Tensor

LEAST = 2  # sizes 0 and 1 decide what broadcasts


@dataclass(frozen=True, slots=True)
class Mark:
    """What is said of one axis."""

    is_dynamic: bool
    least: int = LEAST
    most: int | None = None


_MARKS: dict[int, tuple[weakref.ref[Any], dict[int, Mark]]] = {}  # id of an array -> itself, and its axes that are marked


def marks_of(x: Any) -> dict[int, Mark]:
    """Axis -> what is said of it."""
    known = _MARKS.get(id(x)) if _MARKS else None
    return known[1] if known is not None and known[0]() is x else {}


def mark_dynamic(x: Any, axis: int | Sequence[int], *, min: int | None = None, max: int | None = None) -> None:
    """Say that sizes of an array change from call to call: programs compiled for it take them as symbols from the start.

    Otherwise a size becomes a symbol when a second one is met, which is a second program.

    Parameters
    ----------
    x
        An ndarray or Tensor. The mark lives as long as the array. Views and copies of it have none.
    axis
        One axis or several; negative ones count from the end.
    min, max
        The sizes that programs made for this array are for; `min` is at least 2, as 0 and 1 decide what broadcasts. Guards ask
        for this range: other sizes are compiled again.

    Raises
    ------
    TypeError
        `x` is no array, `axis`, `min` or `max` no integer.
    numpy.exceptions.AxisError
        `x` has no such axis.
    ValueError
        The present size is 0 or 1, or not from `min` to `max`.
    GraphBreakError
        Raised by the call of a compiled function that would make such a size a constant, as `x + np.ones(5)` or
        `if len(x) == 5` do; it names the line. Where NumPy needs the number itself the graph ends, and nothing is raised.

    Notes
    -----
    Programs that are compiled already stay as they are, and are used where their guards hold: mark arrays before the first call.
    Compiled loops take all sizes as they come.

    Examples
    --------
    >>> import numpy as np, npcompile as npc
    >>> x = np.ones((100, 3))
    >>> npc.mark_dynamic(x, 0, max=1_000_000)
    """
    least, most = LEAST if min is None else operator.index(min), None if max is None else operator.index(max)
    if least < LEAST:
        raise ValueError(f"min={least}: sizes 0 and 1 decide what broadcasts, so min is at least {LEAST}")
    array, axes = held(x, "mark_dynamic"), axes_of(x, axis)
    for k in axes:
        size = x.shape[k]
        if size < LEAST:
            raise ValueError(f"axis {k} has size {size}: sizes 0 and 1 decide what broadcasts, and are always constants")
        if size < least or most is not None and size > most:
            upper = "any" if most is None else most
            raise ValueError(f"axis {k} has size {size}, which is not from min={least} to max={upper}")
    put(array, axes, Mark(True, least, most))


def mark_static(x: Any, axis: int | Sequence[int] | None = None) -> None:
    """Say that sizes of an array are constants of programs compiled for it: each other size is compiled again.

    For sizes of which there are few, as the 3 of coordinates: loops over them unroll, and the C compiler knows them. Without it
    a size that was met as two numbers is a symbol from then on.

    Parameters
    ----------
    x
        An ndarray or Tensor. The mark lives as long as the array. Views and copies of it have none.
    axis
        One axis or several; negative ones count from the end. None: all of them.

    Raises
    ------
    TypeError
        `x` is no array, or `axis` no integer.
    numpy.exceptions.AxisError
        `x` has no such axis.

    Notes
    -----
    Of constants there are programs up to `config.recompile_limit`. Programs that are compiled already, and take any size, are
    used where their guards hold.

    Examples
    --------
    >>> import numpy as np, npcompile as npc
    >>> npc.mark_static(np.ones((100, 3)), 1)
    """
    array = held(x, "mark_static")
    put(array, range(x.ndim) if axis is None else axes_of(x, axis), Mark(False))


def held(x: Any, name: str) -> Any:
    """The array that programs meet."""
    array = x._data if isinstance(x, Tensor) else x
    if not isinstance(array, np.ndarray) and array_kind(type(array)) is None:
        raise TypeError(f"{name} takes an ndarray or a Tensor, not {type(x).__qualname__}")
    return array


def axes_of(x: Any, axis: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(
        np.lib.array_utils.normalize_axis_index(operator.index(k), x.ndim)
        for k in (axis if isinstance(axis, Sequence) else (axis,))
    )


def put(array: Any, axes: Sequence[int], mark: Mark) -> None:
    marks = {**marks_of(array), **dict.fromkeys(axes, mark)}
    key = id(array)

    def forget(gone: weakref.ref[Any]) -> None:
        known = _MARKS.get(key)
        if known is not None and known[0] is gone:  # not another array that has its place
            del _MARKS[key]

    _MARKS[key] = weakref.ref(array, forget), marks
