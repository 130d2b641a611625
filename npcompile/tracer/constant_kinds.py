"""Which objects from outside are constants of the program by what they are, and up to what sizes numbers and texts are."""

from __future__ import annotations

import enum
import functools
import operator
import types

import numpy as np

from npcompile.tensor_core.guards import Guard, within
from npcompile.tensor_core.source import Literal, Source
from npcompile.tensor_core.value_ranges import LARGEST_SYMBOL

LONGEST_TEXT = 2**20  # characters of a string, or bytes, that is a constant
LONGEST_INTEGER = 1024  # bits of one that is written as text, of which Python has a limit
SYMBOLIC_INTEGERS = range(-LARGEST_SYMBOL + 1, LARGEST_SYMBOL)  # Dims: products of these fit in int64. Larger ones are Integers


NUMBER_TYPES = (int, float, complex)
KEY_TYPES = (str, int, bool, bytes, type(None))  # of dicts and sets from outside

# Objects that are what they are: guarded by identity when they come from outside, never copied.
ATOMIC_TYPES = (
    type,
    types.ModuleType,
    types.CodeType,
    types.UnionType,
    types.FunctionType,
    functools._lru_cache_wrapper,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    np.ufunc,
    np.dtype,
    type(np.sum),  # NumPy's dispatching functions
    type(np.random.seed),  # those compiled by Cython
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    bool,
    np._globals._NoValueType,
    enum.Enum,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
)


def is_symbolic(source: Source) -> Guard:
    """An integer is small enough for a Dim."""
    return within(Literal(-SYMBOLIC_INTEGERS[-1]), source, Literal(SYMBOLIC_INTEGERS[-1]))
