"""`vectorize`: functions of numbers, applied to whole arrays as NumPy's ufuncs are.

The loop over the elements is written as a Python function that calls the user's, and compiled as any other: the user's function
is written into it, with its own branches and loops, and the elements are shared out to threads.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Final, TypeAlias, overload

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from npcompile.compiler import compile as compiled
from npcompile.compiler import disable

Array: TypeAlias = np.ndarray[Any, Any]
INDENT: Final = "    "
FOLD: Final = ("for k in range(1, x.shape[0]):", f"{INDENT}s = function(s, x[k, i])")
MOST_LOOPS: Final = 4  # around each other; arrays that need more are copied into one piece


def number_of_parameters(function: Callable[..., Any]) -> int:
    """Raises TypeError for a function of no parameters, or of others than positional ones."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise TypeError(f"{function!r} is to have positional parameters alone, one for each array")
    return len(parameters)


def loops(names: Sequence[str], sizes_of: str, depth: int, innermost: Callable[[str], Sequence[str]]) -> str:
    """The text of a function `run` of such parameters, with so many loops around each other over the axes of one of them."""
    lines = [f"def run({', '.join(names)}):"]
    for k in range(depth):
        lines.append(f"{INDENT * (k + 1)}for i{k} in range({sizes_of}.shape[{k}]):")
    place = ", ".join(f"i{k}" for k in range(depth))
    lines += [INDENT * (depth + 1) + line for line in innermost(place)]
    return "\n".join(lines)


def made(source: str, function: Callable[..., Any]) -> Callable[..., None]:
    """The compiled function of this text, in which `function` is the user's."""
    namespace: dict[str, Any] = {"function": function, "range": range}
    exec(compile(source, f"<npcompile {getattr(function, '__name__', 'function')} of arrays>", "exec"), namespace)
    run: FunctionType = namespace["run"]
    return compiled(run)


def joined_axes(arrays: Sequence[Array]) -> list[Array]:
    """Views of arrays of one shape with as few axes as serve all of them; in one piece where that are too many."""
    shape = arrays[0].shape
    kept = [k for k, size in enumerate(shape) if size != 1]
    arrays = [a.reshape([shape[k] for k in kept]) for a in arrays]
    axis = len(kept) - 1
    while axis > 0:
        if all(a.strides[axis - 1] == a.strides[axis] * a.shape[axis] for a in arrays):
            sizes = (*arrays[0].shape[: axis - 1], -1, *arrays[0].shape[axis + 1 :])
            arrays = [a.reshape(sizes) for a in arrays]
        axis -= 1
    if arrays[0].ndim == 0:
        return [a.reshape(1) for a in arrays]
    return list(arrays)


def shared_memory(given: Array, out: Array) -> Array:
    """An operand that a result may overwrite: a copy where it lies otherwise than the result, element by element."""
    alike = given.__array_interface__["data"] == out.__array_interface__["data"] and given.strides == out.strides
    return given if alike or not np.may_share_memory(given, out) else given.copy()


@dataclass(eq=False)
class Vectorized:
    """A function of numbers that takes arrays, as a ufunc with one result does: see `npcompile.vectorize`.

    nin: the number of its arrays. nout: 1. With two parameters it has `reduce`, `accumulate` and `outer` too.
    """

    function: Callable[..., Any]
    dtype: np.dtype[Any] | None = None
    nout: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.nin = number_of_parameters(self.function)
        self._runs: dict[tuple[Any, ...], Callable[..., None]] = {}
        functools.update_wrapper(self, self.function)

    def __repr__(self) -> str:
        return f"<npcompile.vectorize of {getattr(self.function, '__qualname__', self.function)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Vectorized, (self.function, self.dtype)

    @disable
    def __call__(self, *args: Any, out: Array | None = None, where: Any = True, dtype: Any = None) -> Any:
        """One result for the elements at each place of the arrays, which are broadcast.

        dtype: of the results; that of the result for the first elements where it is not given. out: an array for them, of the
        broadcast shape. where: the places at which there is to be one, others keep what `out` has; without `out` they hold
        anything. A NumPy scalar where all arguments are numbers. Raises TypeError for another number of arguments than
        parameters, or results that cannot be cast to the dtype of `out` as numbers of one kind, and ValueError for shapes that
        do not broadcast, and for arrays without elements whose results have no known dtype.
        """
        if len(args) != self.nin:
            raise TypeError(f"{self!r} takes {self.nin} arguments, not {len(args)}")
        arrays = [np.asarray(x) for x in args]
        mask = None if where is True else np.asarray(where, dtype=bool)
        first = arrays[0]
        if mask is None and out is None and first.size and all(a.flags.c_contiguous and a.shape == first.shape for a in arrays):
            result = np.empty(first.shape, self._wanted(dtype, [a.flat[0] for a in arrays], None))
            self._elements((False,) * self.nin, False, 1)(result.reshape(-1), *(a.reshape(-1) for a in arrays))
            return result[()]
        shape = np.broadcast_shapes(*(a.shape for a in arrays), *(() if mask is None else (mask.shape,)))
        if out is not None and out.shape != shape:
            raise ValueError(f"the results have the shape {shape}, and out has {out.shape}")
        wanted = self._wanted(dtype, [a.flat[0] for a in arrays if a.size], out)
        result = np.empty(shape, wanted) if out is None else out
        if result.size:
            self._fill(result, arrays, mask)
        return result[()] if out is None else out

    def _fill(self, result: Array, arrays: Sequence[Array], mask: Array | None) -> None:
        """A number among the operands is handed on as such; arrays are gone through side by side."""
        operands = [shared_memory(a, result) for a in arrays] + ([] if mask is None else [mask])
        is_number = tuple(a.size == 1 for a in operands)
        views = [np.broadcast_to(a, result.shape) for a, one in zip(operands, is_number) if not one]
        views = joined_axes([result, *views])
        if views[0].ndim > MOST_LOOPS:
            whole = np.empty(views[0].shape, result.dtype) if mask is None else result.copy().reshape(views[0].shape)
            views = [whole.reshape(-1), *(np.ascontiguousarray(v).reshape(-1) for v in views[1:])]
        rest = iter(views[1:])
        given = [a.reshape(())[()] if one else next(rest) for a, one in zip(operands, is_number)]
        self._elements(is_number, mask is not None, views[0].ndim)(views[0], *given)
        if not np.may_share_memory(views[0], result):
            result[...] = views[0].reshape(result.shape)

    def _wanted(self, dtype: Any, first: Sequence[Any], out: Array | None) -> np.dtype[Any]:
        """The dtype of results; one is computed where nothing says it."""
        given = dtype if dtype is not None else self.dtype
        if given is not None:
            found = np.dtype(given)
        elif len(first) < self.nin:
            raise ValueError(f"there is no element to find the dtype of {self!r} with: say dtype=")
        else:
            found = np.asarray(self.function(*first)).dtype
        if out is not None and not np.can_cast(found, out.dtype, "same_kind"):
            raise TypeError(f"results of {found} cannot be cast to {out.dtype}, which out has, as numbers of one kind")
        return found

    def _elements(self, is_number: tuple[bool, ...], has_mask: bool, depth: int) -> Callable[..., None]:
        key = ("elements", is_number, has_mask, depth)
        if key not in self._runs:
            names = [f"x{k}" for k in range(len(is_number))]

            def innermost(place: str) -> list[str]:
                items = [name if one else f"{name}[{place}]" for name, one in zip(names, is_number)]
                if has_mask:
                    *items, chosen = items
                    return [f"if {chosen}:", f"{INDENT}out[{place}] = function({', '.join(items)})"]
                return [f"out[{place}] = function({', '.join(items)})"]

            self._runs[key] = made(loops(["out", *names], "out", depth, innermost), self.function)
        return self._runs[key]

    def _require_two(self, name: str) -> None:
        if self.nin != 2:
            raise ValueError(f"{name} is of functions of two numbers, and {self!r} takes {self.nin}")

    @disable
    def outer(self, a: Any, b: Any, **options: Any) -> Any:
        """The results for all pairs: of the shape of `a` followed by that of `b`. ValueError for other than two parameters."""
        self._require_two("outer")
        a, b = np.asarray(a), np.asarray(b)
        return self(a.reshape(a.shape + (1,) * b.ndim), b, **options)

    @disable
    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Array | None = None) -> Any:
        """Along an axis, each result of the one before and the next element; the first is the first element.

        ValueError for other than two parameters, and for a number.
        """
        self._require_two("accumulate")
        array = np.asarray(array)
        rows, kind = self._rows(array, axis, dtype)
        result = np.empty(rows.shape, kind)
        if result.size:
            self._along(["s = x[0, i]", "out[0, i] = s", *FOLD, f"{INDENT}out[k, i] = s"])(result, rows)
        whole = np.moveaxis(result.reshape(np.moveaxis(array, axis, 0).shape), 0, axis)
        if out is None:
            return np.ascontiguousarray(whole)
        out[...] = whole
        return out

    @disable
    def reduce(
        self, array: Any, axis: int | None = 0, dtype: Any = None, out: Array | None = None, keepdims: bool = False
    ) -> Any:
        """The last of what `accumulate` gives along an axis, or, for None, along all elements in the order of C.

        ValueError for other than two parameters, and where an axis has no element.
        """
        self._require_two("reduce")
        array = np.asarray(array)
        rows, kind = self._rows(array.reshape(-1) if axis is None else array, axis or 0, dtype)
        if not rows.shape[0]:
            raise ValueError(f"no elements for {self!r} along axis {axis}, and no identity")
        result = np.empty(rows.shape[1], kind)
        if result.size:
            self._along(["s = x[0, i]", *FOLD, "out[i] = s"])(result, rows)
        gone = range(array.ndim) if axis is None else [normalize_axis_index(axis, array.ndim)]
        sizes = [1 if k in gone else size for k, size in enumerate(array.shape) if keepdims or k not in gone]
        whole = result.reshape(sizes)
        if out is None:
            return whole[()]
        out[...] = whole
        return out

    def _rows(self, array: Array, axis: int, dtype: Any) -> tuple[Array, np.dtype[Any]]:
        """The array with the axis first and the others as one, and the dtype of what is made along the axis."""
        if not array.ndim:
            raise ValueError(f"{self!r} along an axis of a number")
        first = np.moveaxis(array, normalize_axis_index(axis, array.ndim), 0)
        kind = self._wanted(dtype, [array.flat[0]] * 2, None) if array.size else np.dtype(dtype or self.dtype or array.dtype)
        return first.reshape(first.shape[0], math.prod(first.shape[1:])), kind

    def _along(self, statements: Sequence[str]) -> Callable[..., None]:
        """The loop over the columns of `x` that does this with each."""
        key = tuple(statements)
        if key not in self._runs:
            lines = ["def run(out, x):", f"{INDENT}for i in range(x.shape[1]):", *(INDENT * 2 + line for line in statements)]
            self._runs[key] = made("\n".join(lines), self.function)
        return self._runs[key]


@overload
def vectorize(function: Callable[..., Any], /, *, dtype: Any = None) -> Vectorized: ...
@overload
def vectorize(*, dtype: Any = None) -> Callable[[Callable[..., Any]], Vectorized]: ...
def vectorize(function: Callable[..., Any] | None = None, /, *, dtype: Any = None) -> Any:
    """A function of numbers that takes arrays, and gives one result for each place, as NumPy's ufuncs do.

    The function may have branches and loops of its own, with another number of steps for each element. The loop over the elements
    is a native program on all threads where `npcompile.compile` can make it one, and runs in Python where it cannot. Elements are
    handed on as NumPy's scalars, so the results are those of a loop over the elements.

    Parameters
    ----------
    function
        Of one or more positional parameters, each a number.
    dtype
        Of the results. None: that of the result for the first elements, as `np.vectorize` takes it.

    Returns
    -------
    Vectorized
        To be called with arrays that broadcast, and `out=`, `where=`, `dtype=`. With two parameters it has `reduce`, `accumulate`
        and `outer`.

    Raises
    ------
    TypeError
        The function has no parameters, or others than positional ones.

    Examples
    --------
    >>> @vectorize
    ... def collatz(n):
    ...     steps = 0
    ...     while n != 1:
    ...         n = n // 2 if n % 2 == 0 else 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> collatz(np.arange(1, 8))
    array([ 0,  1,  7,  2,  5,  8, 16])
    """
    kind = None if dtype is None else np.dtype(dtype)
    return functools.partial(Vectorized, dtype=kind) if function is None else Vectorized(function, kind)
