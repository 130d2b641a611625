"""Arguments of a call of a transformed function: by position, by their kinds, and copied."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from types import FunctionType
from typing import Any, SupportsIndex

import numpy as np

from npcompile import trees
from npcompile.tensor_core.tensor import Tensor


def all_arguments(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The positional arguments with those that are named, and defaults. As they are where that is not all."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_posonlyargcount : code.co_argcount]
    missing = code.co_varnames[len(args) : code.co_argcount]
    known = dict(zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults)) | kwargs
    if not kwargs.keys() <= set(names) & set(missing) or not known.keys() >= set(missing):
        return args
    return (*args, *(known[name] for name in missing))


def signature(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Types of the arguments, dtypes and numbers of dimensions: what decides that a program is no one graph."""
    leaves, treedef = trees.flatten(args)
    return treedef, *((type(x), getattr(x, "dtype", None), np.ndim(x)) for x in leaves)


def copied(tree: Any) -> Any:
    leaves, treedef = trees.flatten(tree)
    return treedef.unflatten(
        [np.copy(x, "K") if isinstance(x, np.ndarray) else x.clone() if isinstance(x, Tensor) else x for x in leaves]
    )


def positions(argnums: int | Sequence[int]) -> int | tuple[int, ...]:
    """Raises TypeError where they are no integers, ValueError where one is there twice."""
    if isinstance(argnums, str) or not isinstance(argnums, Sequence | SupportsIndex):
        raise TypeError(f"argnums is an integer or a sequence of integers, not {argnums!r}")
    if not isinstance(argnums, Sequence):
        return index(argnums)
    numbers = tuple(map(index, argnums))
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"argnums={numbers} has a position twice")
    return numbers
