"""`guvectorize`: functions of small arrays, applied to stacks of them as NumPy's generalized ufuncs are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.compiler import disable
from npcompile.vectorized import Array, loops, made, number_of_parameters


def cores(side: str) -> list[tuple[str, ...]] | None:
    """The sizes that one side of a signature names: of "(m,n),()", m and n, and none. None where it is no such text."""
    opened = [part.split("(") for part in side.replace(" ", "").rstrip(",").split(")")]
    *parts, last = opened
    if last != [""] or any(len(part) != 2 or part[0] != ("," if k else "") for k, part in enumerate(parts)):
        return None
    found = [tuple(part[1].split(",")) if part[1] else () for part in parts]
    return found if all(name.isidentifier() for core in found for name in core) else None


@dataclass(eq=False)
class GeneralVectorized:
    """A function of small arrays that takes stacks of them: see `npcompile.guvectorize`."""

    function: Callable[..., Any]
    signature: str
    dtype: np.dtype[Any] | None = None

    def __post_init__(self) -> None:
        before, arrow, after = self.signature.partition("->")
        inputs, outputs = cores(before), cores(after)
        if not arrow or inputs is None or not outputs:
            raise ValueError(f"{self.signature!r} is not a signature: '(n),(n)->()' is one of two vectors that gives a number")
        self.inputs, self.outputs = inputs, outputs
        unknown = {name for core in outputs for name in core} - {name for core in inputs for name in core}
        if unknown:
            raise ValueError(f"the sizes {', '.join(sorted(unknown))} of results in {self.signature!r} are those of no operand")
        if number_of_parameters(self.function) != len(inputs) + len(outputs):
            raise TypeError(f"{self.function!r} is to take {len(inputs)} operands and {len(outputs)} results to write to")
        self._run = made(self._text(), self.function)
        functools.update_wrapper(self, self.function)

    def __repr__(self) -> str:
        return f"<npcompile.guvectorize of {getattr(self.function, '__qualname__', self.function)}, {self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return GeneralVectorized, (self.function, self.signature, self.dtype)

    @disable
    def __call__(self, *args: Any, out: Array | Sequence[Array] | None = None, dtype: Any = None) -> Any:
        """The results for stacks of operands: the axes before the core ones of the signature are broadcast.

        dtype: of the results; that of the operands together where it is not given. out: an array, or a tuple of them. One
        result, or a tuple. Raises TypeError for another number of arguments, and ValueError for shapes that do not fit the
        signature.
        """
        if len(args) != len(self.inputs):
            raise TypeError(f"{self!r} takes {len(self.inputs)} arguments, not {len(args)}")
        arrays = [np.asarray(x) for x in args]
        sizes = self._sizes(arrays)
        stack = np.broadcast_shapes(*(a.shape[: a.ndim - len(core)] for a, core in zip(arrays, self.inputs)))
        kind = np.dtype(dtype) if dtype is not None else self.dtype or np.result_type(*arrays)
        shapes = [stack + tuple(sizes[name] for name in core) for core in self.outputs]
        given = [None] * len(shapes) if out is None else [out] if isinstance(out, np.ndarray) else list(out)
        if len(given) != len(shapes) or any(o is not None and o.shape != s for o, s in zip(given, shapes)):
            raise ValueError(f"the results have the shapes {shapes}, and out has {[getattr(o, 'shape', o) for o in given]}")
        results = [np.zeros(shape, kind) for shape in shapes]
        if math.prod(stack):
            flat = [self._flat(a, core, stack) for a, core in zip(arrays, self.inputs)]
            flat += [r.reshape(math.prod(stack), *r.shape[len(stack) :]) for r in results]
            self._run(*flat)
        for k, o in enumerate(given):
            if o is not None:
                o[...] = results[k]
        found = [r[()] if o is None else o for r, o in zip(results, given)]
        return found[0] if len(found) == 1 else tuple(found)

    def _sizes(self, arrays: Sequence[Array]) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        for k, (a, core) in enumerate(zip(arrays, self.inputs)):
            if a.ndim < len(core):
                raise ValueError(f"argument {k} of {self!r} has {a.ndim} axes, and {len(core)} are needed")
            for name, size in zip(core, a.shape[a.ndim - len(core) :]):
                if sizes.setdefault(name, size) != size:
                    raise ValueError(
                        f"argument {k} of {self!r} has {size} elements along {name!r}, where others have {sizes[name]}"
                    )
        return sizes

    @staticmethod
    def _flat(a: Array, core: tuple[str, ...], stack: tuple[int, ...]) -> Array:
        """The operand with one axis for the stack."""
        own = a.shape[a.ndim - len(core) :]
        return np.broadcast_to(a, stack + own).reshape(math.prod(stack), *own)

    def _text(self) -> str:
        """The loop over the stack. A result that is a number is handed on as an array of one element: it is to be written to."""
        operands = [f"x{k}" for k in range(len(self.inputs))]
        results = [f"out{k}" for k in range(len(self.outputs))]
        items = [f"{name}[i0]" for name in operands]
        items += [f"{name}[i0]" if core else f"{name}[i0 : i0 + 1]" for name, core in zip(results, self.outputs)]
        return loops([*operands, *results], results[0], 1, lambda place: [f"function({', '.join(items)})"])


def guvectorize(signature: str, /, *, dtype: Any = None) -> Callable[[Callable[..., Any]], GeneralVectorized]:
    """A function of small arrays that takes stacks of them, as NumPy's generalized ufuncs do.

    The function takes the operands, and then the arrays to which it writes its results; a result that is a number is an array
    of one element. The stack is gone through by a native loop on all threads where that can be made.

    Parameters
    ----------
    signature
        The core axes of operands and results, as NumPy writes them: "(m,n),(n)->(m)".
    dtype
        Of the results, which are zero when the function is called. None: that of the operands together.

    Raises
    ------
    ValueError
        No signature, or one in which a result has a size that no operand has.
    TypeError
        The function has another number of parameters.

    Examples
    --------
    >>> @guvectorize("(n)->()")
    ... def largest_step(x, out):
    ...     for i in range(1, x.size):
    ...         out[0] = max(out[0], abs(x[i] - x[i - 1]))
    >>> largest_step(np.array([[1.0, 4.0, 2.0], [0.0, 0.5, 0.0]]))
    array([3. , 0.5])
    """
    return functools.partial(GeneralVectorized, signature=signature, dtype=None if dtype is None else np.dtype(dtype))
